"""Manifests with something wrong in them: refused with a reason, or stored so that everybody can read them."""

import itertools
import json
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.apis.machinery.kind import Kind, Manifest
from fuzz.effort import examples
from fuzz.manifests import ACKNOWLEDGED, KINDS, collection, valid
from fuzz.strategies import spoilt
from fuzz.world import Answer, World

EVERY_KIND: Final = pytest.mark.parametrize("kind", [*KINDS, *ACKNOWLEDGED], ids=lambda kind: kind.kind)

FORMS: Final = (
    "application/json",
    "application/yaml",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
)
PATCHES: Final = (
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)
_numbers = itertools.count()


def named(manifest: Manifest, name: str) -> Manifest:
    metadata = manifest.get("metadata")
    if isinstance(metadata, dict):
        metadata["name"] = name
    return manifest


def read_in_every_form(world: World, kind: Kind, name: str) -> None:
    """What is stored can be read: whole, as a row, in each version, alone and among others."""
    for version in kind.versions:
        for form in FORMS:
            for path in (f"{collection(kind, version)}/{name}?includeObject=Object", collection(kind, version)):
                answer = world.ask("GET", path, headers=[(b"accept", form.encode())])
                assert answer.code == 200, answer
    for selector in kind.selectable:
        answer = world.ask("GET", f"{collection(kind, kind.stored)}?fieldSelector={selector}!=x")
        assert answer.code == 200, answer
    watch = world.ask("GET", f"{collection(kind, kind.versions[-1])}?watch=1&resourceVersion=0")
    assert all(json.loads(line)["type"] == "ADDED" for line in watch.body.splitlines())
    for queue in ("clusterqueues/team-a", "clusterqueues/base", f"namespaces/fuzz/localqueues/{name}"):
        pending = world.ask("GET", f"/apis/visibility.kueue.x-k8s.io/v1beta2/{queue}/pendingworkloads")
        assert pending.code in {200, 404}, pending


def clean_up(world: World, kind: Kind, name: str) -> None:
    """Everything that was stored can be deleted, whatever holds it."""
    path = f"{collection(kind, kind.stored)}/{name}"
    deleted = world.ask("DELETE", path, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})
    assert deleted.code == 200, deleted
    if world.ask("GET", path).code == 200 and kind.kind != "Namespace":
        patch = {"metadata": {"finalizers": None}}
        ended = world.ask("PATCH", path, patch, content_type="application/merge-patch+json")
        assert ended.code == 200, ended
    assert kind.kind == "Namespace" or world.ask("GET", path).code == 404


def stored(world: World, kind: Kind) -> tuple[str, Manifest]:
    """A fresh valid object, with its status."""
    name = f"v{next(_numbers)}"
    made = world.ask("POST", collection(kind, kind.stored), named(valid(kind), name))
    assert made.code == 201, made
    manifest: Manifest = made.json
    status = valid(kind).get("status")
    if kind.status and status is not None:
        path = f"{collection(kind, kind.stored)}/{name}/status"
        told = world.ask("PUT", path, {**manifest, "status": status})
        assert told.code == 200, told
        manifest = told.json
    return name, manifest


def in_version(world: World, kind: Kind, version: str, name: str) -> Manifest:
    manifest: Manifest = world.ask("GET", f"{collection(kind, version)}/{name}").json
    return manifest


@EVERY_KIND
@examples(6)
@given(data=st.data())
def test_a_spoilt_manifest_is_refused_or_can_be_read(world: World, kind: Kind, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(kind.versions))
    base = valid(kind)
    if version != kind.stored:
        base = kind.rules.convert(named(base, "x"), version)
    name = f"s{next(_numbers)}"
    manifest = named(data.draw(spoilt(base, kind.schemas[version]())), name)
    validation = data.draw(st.sampled_from(["", "?fieldValidation=Strict", "?fieldValidation=Ignore", "?dryRun=All"]))
    answer = world.ask("POST", collection(kind, version) + validation, manifest)
    if answer.code == 201 and validation != "?dryRun=All":
        made = answer.json["metadata"]["name"]
        read_in_every_form(world, kind, made)
        clean_up(world, kind, made)
    world.check_canary()


@EVERY_KIND
@examples(6)
@given(data=st.data())
def test_a_spoilt_update_leaves_the_object_readable(world: World, kind: Kind, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(kind.versions))
    name, before = stored(world, kind)
    path = f"{collection(kind, version)}/{name}"
    live = in_version(world, kind, version, name)
    manifest = data.draw(spoilt(live, kind.schemas[version]()))
    part = data.draw(st.sampled_from(["", "/status"])) if kind.status else ""
    answer = _sent(world, data, path + part, manifest)
    if answer.code >= 400:
        assert world.ask("GET", f"{collection(kind, kind.stored)}/{name}").json == before
    elif world.ask("GET", path).code == 200:
        read_in_every_form(world, kind, name)
    if world.ask("GET", path).code == 200:
        clean_up(world, kind, name)
    world.check_canary()


def _sent(world: World, data: st.DataObject, path: str, manifest: Any) -> Answer:
    way = data.draw(st.sampled_from(["PUT", *PATCHES]))
    if way == "PUT":
        return world.ask("PUT", path, manifest)
    if isinstance(manifest.get("metadata"), dict) and data.draw(st.booleans()):
        for server_side in ("resourceVersion", "managedFields", "uid"):
            manifest["metadata"].pop(server_side, None)
    query = "?fieldManager=fuzz&force=true" if "apply" in way else ""
    return world.ask("PATCH", path + query, manifest, content_type=way)
