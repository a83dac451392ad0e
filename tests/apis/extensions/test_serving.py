"""Definitions at work in the store: served, replaced, in conflict, deleted with their objects, kept over restarts."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.apis.registry import default_registry
from fairway.errors import MethodNotAllowed, ValidationError
from fairway.settings import Settings
from fairway.store.verbs import PatchType
from fairway.store.verbs.reading import decoded
from fairway.testing.stores import LocalApi, local_api, log_on_a_file

from .samples import CRONTABS, crontabs, version, with_spec

DEFINITION = "customresourcedefinitions"


def condition(api: LocalApi, name: str, kind: str) -> str:
    entry = api.store.get("customresourcedefinitions.apiextensions.k8s.io", ("", name))
    found = (decoded(entry).get("status") or {}).get("conditions") or [] if entry is not None else []
    return next((f"{one['status']} {one['reason']}" for one in found if one["type"] == kind), "")


async def established(api: LocalApi, manifest: Manifest) -> None:
    await api.create(DEFINITION, manifest)
    name = manifest["metadata"]["name"]
    await api.until(lambda: condition(api, name, "Established").startswith("True"))


def play(script: Callable[[LocalApi], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        async with local_api(keepers=True, **options) as api:
            await script(api)

    asyncio.run(main())


def test_a_definition_is_established_and_its_objects_are_stored() -> None:
    async def script(api: LocalApi) -> None:
        await established(api, crontabs(version("v1", with_spec(a={"type": "integer", "default": 3}))))
        written = await api.written("ct", {"metadata": {"name": "x"}, "spec": {}})
        assert decoded(written.entry)["spec"] == {"a": 3}
        with pytest.raises(ValidationError):
            await api.create("ct", {"metadata": {"name": "y"}, "spec": {"a": "b"}})

    play(script)


def test_a_changed_schema_holds_from_then_on() -> None:
    async def script(api: LocalApi) -> None:
        await established(api, crontabs(version("v1", with_spec(a={"type": "integer"}))))
        before = api.kind("ct")
        patch = {"spec": {"versions": [version("v1", with_spec(a={"type": "string"}))]}}
        await api.patch(DEFINITION, CRONTABS, patch)
        async with asyncio.timeout(60):
            while api.kind("ct") is before:  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0)
        await api.create("ct", {"metadata": {"name": "x"}, "spec": {"a": "text"}})

    play(script)


def test_an_object_is_the_same_in_every_version() -> None:
    async def script(api: LocalApi) -> None:
        await established(api, crontabs(version("v1"), version("v1beta1", storage=False)))
        kind = api.kind("ct")
        body = {
            "apiVersion": "stable.example.com/v1beta1",
            "kind": "CronTab",
            "metadata": {"name": "x"},
            "spec": {"a": 1},
        }
        written = await api.objects.create(kind, "v1beta1", "default", body)
        assert decoded(written.entry)["apiVersion"] == "stable.example.com/v1"
        assert b'"apiVersion":"stable.example.com/v1beta1"' in api.objects.rendered(kind, written.entry, "v1beta1")

    play(script)


def test_an_object_is_held_against_the_version_that_it_is_written_in() -> None:
    """Without conversion, kube-apiserver asks the schema of the request's version alone."""
    strict = {"type": "object", "properties": {"spec": {"type": "object"}}, "required": ["spec"]}
    lenient = {"type": "object", "properties": {"spec": {"type": "object"}}}

    async def script(api: LocalApi) -> None:
        await established(api, crontabs(version("v1", strict), version("v1beta1", lenient, storage=False)))
        kind = api.kind("ct")
        await api.objects.create(kind, "v1beta1", "default", {"metadata": {"name": "old"}})
        with pytest.raises(ValidationError):
            await api.objects.create(kind, "v1", "default", {"metadata": {"name": "new"}})

    play(script)


def test_names_that_another_kind_has_are_not_accepted_until_they_are_free() -> None:
    other = crontabs()
    other["metadata"]["name"] = "others.stable.example.com"
    other["spec"]["names"] = {"plural": "others", "kind": "Other", "shortNames": ["ct"]}

    async def script(api: LocalApi) -> None:
        await established(api, crontabs())
        await api.create(DEFINITION, other)
        name = other["metadata"]["name"]
        await api.until(lambda: condition(api, name, "NamesAccepted") == "False ShortNamesConflict")
        assert condition(api, name, "Established") == "False NotAccepted"
        assert api.objects.registry.by_resource_name(name) is None
        await api.delete(DEFINITION, CRONTABS)
        await api.until(lambda: condition(api, name, "Established").startswith("True"))

    play(script)


def test_a_deleted_definition_takes_its_objects_along_and_goes_last() -> None:
    async def script(api: LocalApi) -> None:
        await established(api, crontabs())
        await api.create("ct", {"metadata": {"name": "free"}})
        await api.create("ct", {"metadata": {"name": "held", "finalizers": ["example.com/hold"]}})
        kind = api.kind("ct")
        await api.delete(DEFINITION, CRONTABS)
        await api.until(lambda: api.store.get(CRONTABS, ("default", "free")) is None)
        assert condition(api, CRONTABS, "Terminating") == "True InstanceDeletionInProgress"
        with pytest.raises(MethodNotAllowed, match="is terminating"):
            await api.create("ct", {"metadata": {"name": "late"}})
        patch = {"metadata": {"finalizers": None}}
        await api.objects.patch(kind, "v1", ("default", "held"), PatchType.MERGE, patch)
        await api.until(lambda: api.store.get("customresourcedefinitions.apiextensions.k8s.io", ("", CRONTABS)) is None)
        assert len(api.store.collection(CRONTABS)) == 0
        assert api.objects.registry.by_kind("stable.example.com", "CronTab") is None

    play(script)


def test_namespaces_and_owners_take_custom_objects_along() -> None:
    async def script(api: LocalApi) -> None:
        await established(api, crontabs())
        await api.create("namespaces", {"metadata": {"name": "team"}}, namespace="")
        await api.create("ct", {"metadata": {"name": "inside"}}, namespace="team")
        owner = (await api.written("ct", {"metadata": {"name": "owner"}})).entry
        reference = {"apiVersion": "stable.example.com/v1", "kind": "CronTab", "name": "owner", "uid": owner.meta.uid}
        await api.create("configmaps", {"metadata": {"name": "owned", "ownerReferences": [reference]}})
        await api.create("ct", {"metadata": {"name": "owned", "ownerReferences": [reference]}})
        await api.delete("namespaces", "team")
        await api.delete("ct", "owner")
        await api.until(
            lambda: (
                len(api.store.collection(CRONTABS)) == 0
                and api.store.get("configmaps", ("default", "owned")) is None
                and api.store.get("namespaces", ("", "team")) is None
            )
        )

    play(script)


def test_the_definition_of_an_operator_takes_the_place_of_the_kind_that_is_built_in() -> None:
    """JobSet is served from a recorded schema; its operator may bring another version of its own."""
    own = crontabs(version("v1alpha2", with_spec(novel={"type": "string"})), group="jobset.x-k8s.io")
    own["metadata"]["name"] = "jobsets.jobset.x-k8s.io"
    own["spec"]["names"] = {"plural": "jobsets", "kind": "JobSet"}

    async def script(api: LocalApi) -> None:
        built_in = api.kind("jobsets")
        assert built_in.warn is not None
        assert "start JobSet's controller" in built_in.warn({})[0]
        jobs = [{"name": "workers", "template": {}}]
        stored = await api.create("jobsets", {"metadata": {"name": "x"}, "spec": {"replicatedJobs": jobs}})
        assert "novel" not in stored["spec"]
        await established(api, own)
        assert api.kind("jobsets").warn is None
        stored = await api.create("jobsets", {"metadata": {"name": "y"}, "spec": {"novel": "a"}})
        assert stored["spec"] == {"novel": "a"}
        await api.delete(DEFINITION, own["metadata"]["name"])
        await api.until(
            lambda: (
                api.store.get("customresourcedefinitions.apiextensions.k8s.io", ("", own["metadata"]["name"])) is None
            )
        )
        assert len(api.store.collection("jobsets.jobset.x-k8s.io")) == 0
        assert api.kind("jobsets") is built_in

    play(script)


def test_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    log = log_on_a_file(tmp_path / "log.db")

    async def first(api: LocalApi) -> None:
        await established(api, crontabs(version("v1", with_spec(a={"type": "integer", "maximum": 3}))))
        await api.create("ct", {"metadata": {"name": "x", "finalizers": ["example.com/hold"]}, "spec": {"a": 1}})

    async def second(api: LocalApi) -> None:
        with pytest.raises(ValidationError):
            await api.create("ct", {"metadata": {"name": "y"}, "spec": {"a": 4}})
        await api.delete(DEFINITION, CRONTABS)
        await api.until(lambda: condition(api, CRONTABS, "Terminating").startswith("True"))

    async def third(api: LocalApi) -> None:
        kind = api.kind("ct")
        await api.objects.patch(kind, "v1", ("default", "x"), PatchType.MERGE, {"metadata": {"finalizers": None}})
        await api.until(lambda: api.store.get("customresourcedefinitions.apiextensions.k8s.io", ("", CRONTABS)) is None)

    for script in (first, second, third):
        play(script, open_log=log)


def test_kinds_of_a_component_are_served_if_its_operator_runs_beside_the_server() -> None:
    """RayService comes with KubeRay, which is built in unless its controller is left out."""
    services = crontabs(version("v1", with_spec(a={"type": "string"})), group="ray.io")
    services["metadata"]["name"] = "rayservices.ray.io"
    services["spec"]["names"] = {"plural": "rayservices", "kind": "RayService"}
    registry = default_registry()
    registry.external = Settings(state=Path("x"), controllers="-ray").external_groups

    async def script(api: LocalApi) -> None:
        await established(api, services)
        assert (await api.create("rayservices", {"metadata": {"name": "x"}, "spec": {"a": "b"}}))["spec"] == {"a": "b"}

    play(script, registry=registry)
    assert default_registry().is_built_in("rayservices.ray.io")
    assert registry.is_built_in("rayjobs.ray.io")


@pytest.mark.parametrize("controllers", ["all", "none", "ray,admission"])
def test_kube_ray_is_built_in_unless_its_controller_alone_is_left_out(controllers: str) -> None:
    assert Settings(state=Path("x"), controllers=controllers).external_groups == frozenset()
