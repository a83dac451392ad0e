"""Patches of every type with anything in them: carried out or refused, and the object can be read afterwards."""

import json
from typing import Any, Final

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fairway.apis.machinery.kind import Kind, Manifest
from fuzz.effort import examples
from fuzz.manifests import KINDS, collection, valid
from fuzz.strategies import JUNK, KEYS, SCALARS, WORDS, spoilt
from fuzz.world import World

PATHS: Final = st.one_of(
    st.sampled_from(
        ["", "/", "//", "/spec", "/metadata", "/metadata/name", "/metadata/labels", "/metadata/labels/-",
         "/metadata/labels/a~1b", "/metadata/labels/~", "/metadata/labels/~2", "/metadata/finalizers",
         "/metadata/finalizers/-", "/metadata/managedFields", "/metadata/managedFields/0", "/metadata/ownerReferences",
         "/spec/template/spec/containers/0", "/spec/containers/-", "/spec/containers/00", "/spec/containers/1e0",
         "/spec/containers/-1", "/spec/containers/99999999999999999999", "/kind", "/apiVersion", "/status",
         "/status/conditions/0/type", "/metadata/resourceVersion", "/metadata/uid", "spec", "a/b",
         "/metadata/creationTimestamp", "/metadata/deletionTimestamp", "/metadata/namespace", "/metadata/generation"]
    ),
    st.text(max_size=6),
    JUNK,
)  # fmt: skip
OPERATIONS: Final = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "add", "replace", "remove", "move", "copy", "test", "nope"]), "path": PATHS},
    optional={"value": JUNK, "from": PATHS},
)
JSON_PATCHES: Final = st.one_of(st.lists(OPERATIONS, max_size=4), JUNK, st.lists(JUNK, max_size=2))

DIRECTIVES: Final = st.one_of(
    st.fixed_dictionaries({"$patch": st.sampled_from(["delete", "replace", "merge", "nope"]) | JUNK}),
    st.fixed_dictionaries({"$retainKeys": JUNK | st.lists(WORDS, max_size=2)}),
    st.fixed_dictionaries({"$patch": st.just("delete"), "name": SCALARS}),
    st.dictionaries(KEYS.map(lambda key: f"$setElementOrder/{key}"), JUNK, max_size=2),
    st.dictionaries(KEYS.map(lambda key: f"$deleteFromPrimitiveList/{key}"), JUNK, max_size=2),
    st.just({"$setElementOrder/containers": [{"name": "main"}, {"name": "nope"}]}),
    st.just({"$setElementOrder/containers": [1, None], "containers": [{"name": "main"}]}),
    st.just({"$deleteFromPrimitiveList/finalizers": ["a"]}),
    st.just({"containers": [{"$patch": "replace"}, {"name": "x"}]}),
    st.just({"volumes": [{"name": "scratch", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]}),
    st.just({"containers": [{"nokey": 1}]}),
    st.just({"tolerations": None, "containers": None}),
)
FIELDS: Final = st.one_of(
    JUNK,
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "manager": SCALARS,
                "operation": st.sampled_from(["Apply", "Update", "Nope", 1]),
                "apiVersion": st.sampled_from(["v1", "batch/v1", "nope/v9", "", 1]),
                "fieldsType": st.sampled_from(["FieldsV1", "FieldsV9", 1]),
                "time": SCALARS,
                "subresource": SCALARS,
                "fieldsV1": st.one_of(
                    JUNK,
                    st.dictionaries(
                        st.sampled_from(
                            ["f:spec", "f:metadata", ".", 'k:{"name":"a"}', "k:{", "v:1", "v:", "i:0", "i:x", "x:y", ""]
                        ),
                        st.dictionaries(st.sampled_from(["f:a", ".", "k:{}", 'v:"x"']), JUNK, max_size=2),
                        max_size=3,
                    ),
                ),
            },
        ),
        max_size=3,
    ),
)
SOME: Final = [
    kind
    for kind in KINDS
    if kind.kind in {"Pod", "ConfigMap", "Job", "Workload", "ClusterQueue", "RayCluster", "Lease"}
]


@pytest.fixture(scope="module", autouse=True)
def population(world: World) -> None:
    for kind in SOME:
        make(world, kind)


def make(world: World, kind: Kind) -> None:
    manifest = valid(kind)
    manifest["metadata"]["name"] = "patched"
    assert world.ask("POST", collection(kind, kind.stored), manifest).code in {201, 409}


def send(world: World, kind: Kind, patch_type: str, patch: Any, *, version: str = "", query: str = "") -> None:
    """Send a patch to the object and to its status, and look at what became of it."""
    version = version or kind.stored
    path = f"{collection(kind, version)}/patched"
    for part in ("", "/status") if kind.status else ("",):
        body = json.dumps(patch).encode()
        world.ask("PATCH", f"{path}{part}{query}", body, content_type=f"application/{patch_type}")
        for shown in kind.versions:
            left = world.ask("GET", f"{collection(kind, shown)}/patched", headers=TABLE)
            assert left.code in {200, 404}
            if left.code == 404:
                make(world, kind)
    world.check_canary()


APPLY: Final = "application/apply-patch+yaml"
LIVES: Final = ("ownerReferences", "finalizers")
"""What has an object go, or stay, by itself."""

TABLE: Final = [(b"accept", b"application/json;as=Table;v=v1;g=meta.k8s.io")]


@examples(80)
@given(st.sampled_from(SOME), JSON_PATCHES, st.booleans())
def test_any_json_patch(world: World, kind: Kind, patch: Any, old: bool) -> None:  # noqa: FBT001
    send(world, kind, "json-patch+json", patch, version=kind.versions[-1] if old else "")


@examples(60)
@given(st.data())
def test_any_merge_patch(world: World, data: st.DataObject) -> None:
    kind: Kind = data.draw(st.sampled_from(SOME))
    patch = data.draw(JUNK | spoilt(_without_identity(valid(kind)), kind.schemas[kind.stored]()))
    send(world, kind, data.draw(st.sampled_from(["merge-patch+json", "strategic-merge-patch+json"])), patch)


@examples(80)
@given(st.data())
def test_any_directives(world: World, data: st.DataObject) -> None:
    kind: Kind = data.draw(st.sampled_from(SOME))
    directives = data.draw(DIRECTIVES)
    patch = data.draw(
        st.sampled_from(
            [
                directives,
                {"spec": directives},
                {"metadata": directives},
                {"spec": {"template": {"spec": directives}}},
                {"spec": {"containers": [directives]}},
                {"spec": {"volumes": [directives, directives]}},
                {"data": directives},
                {"metadata": {"labels": directives, "finalizers": [directives], "ownerReferences": [directives]}},
                {"status": {"conditions": [directives]}},
            ]
        )
    )
    send(world, kind, "strategic-merge-patch+json", patch)


@examples(80)
@given(st.data())
def test_any_applied_configuration(world: World, data: st.DataObject) -> None:
    kind: Kind = data.draw(st.sampled_from(SOME))
    version = data.draw(st.sampled_from(kind.versions))
    base = valid(kind) if version == kind.stored else kind.rules.convert(_named(valid(kind)), version)
    patch = data.draw(JUNK | spoilt(_named(base), kind.schemas[version]()))
    manager = data.draw(st.sampled_from(["a", "b", "%C3%A4", "", "x" * 129, "a%0Ab"]))
    force = data.draw(st.sampled_from(["", "&force=true", "&force=false"]))
    send(world, kind, "apply-patch+yaml", patch, version=version, query=f"?fieldManager={manager}{force}")


@examples(80)
@given(st.data())
def test_applying_the_same_again_changes_nothing(world: World, data: st.DataObject) -> None:
    kind: Kind = data.draw(st.sampled_from([kind for kind in KINDS if kind.kind != "Namespace"]))
    version = data.draw(st.sampled_from(kind.versions))
    base = valid(kind) if version == kind.stored else kind.rules.convert(_named(valid(kind)), version)
    bare = {name: base[name] for name in ("apiVersion", "kind")} | {"metadata": {}}
    config = data.draw(st.sampled_from([base, bare]) | spoilt(base, kind.schemas[version](), most=1))
    metadata = {name: part for name, part in _mapping(config.get("metadata")).items() if name not in LIVES}
    config = {**config, "metadata": {**metadata, "name": "twice"}}
    path = f"{collection(kind, version)}/twice"
    body = json.dumps(config).encode()
    assume(b"null" not in body)  # whoever says null means what is not there
    part = "/status" if kind.status and data.draw(st.integers(0, 3)) == 0 else ""
    first, second, third = (
        world.ask("PATCH", f"{path}{part}?fieldManager=a&force=true", body, content_type=APPLY) for _ in range(3)
    )

    if first.code < 400:
        assert (third.code, third.json) == (200, second.json)
        # Where nothing was said in the beginning, the second time finds defaults that are nobody's.
        assert second.json == first.json or not first.json["metadata"].get("managedFields")
    if not part:
        world.ask("DELETE", path, {"gracePeriodSeconds": 0})


@examples(60)
@given(st.sampled_from(SOME), FIELDS)
def test_any_managed_fields(world: World, kind: Kind, fields: Any) -> None:
    send(world, kind, "merge-patch+json", {"metadata": {"managedFields": fields}})
    send(world, kind, "apply-patch+yaml", _named({**valid(kind)}), query="?fieldManager=a&force=true")


def _mapping(value: Any) -> Manifest:
    return value if isinstance(value, dict) else {}


def _named(manifest: Manifest) -> Manifest:
    manifest["metadata"]["name"] = "patched"
    return manifest


def _without_identity(manifest: Manifest) -> Manifest:
    return {name: part for name, part in manifest.items() if name not in {"apiVersion", "kind"}}
