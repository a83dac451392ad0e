"""Admission plugins: they complete and refuse what is written, by every way of writing."""

import asyncio
import re

import msgspec
import pytest

from fairway.apis.machinery import problems
from fairway.apis.machinery.admission import (
    ALLOWED,
    THIS_PROCESS,
    AdmissionChain,
    AdmissionRequest,
    AdmissionResponse,
    UserInfo,
)
from fairway.apis.machinery.kind import Manifest
from fairway.errors import ValidationError
from fairway.store.verbs import PatchType
from fairway.store.verbs.options import WriteOptions, WriteTarget
from fairway.testing.stores import LocalApi, local_api


class Guard:
    """Labels every ConfigMap, warns of its size, and lets none be called evil or become so."""

    resources = ("configmaps",)

    def admit(self, request: AdmissionRequest) -> AdmissionResponse:
        assert request.kind.kind == "ConfigMap"
        manifest, old = request.object, request.old
        if old is None:
            manifest["metadata"].setdefault("labels", {})["seen"] = request.user.name or "yes"
            if not manifest["metadata"].get("name"):
                manifest["metadata"]["name"] = f"{manifest['metadata']['generateName']}7"
        else:
            assert request.user == THIS_PROCESS
            assert old["metadata"]["name"] == manifest["metadata"]["name"]
        data = manifest.get("data") or {}
        warnings = ("this is large",) if "large" in data else ()
        if "evil" in data:
            return AdmissionResponse([problems.forbidden("data[evil]", data["evil"], "we do not want that")], warnings)
        return AdmissionResponse(warnings=warnings)


def config_map(**data: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "default"},
        "data": data,
    }


async def apply(api: LocalApi, manifest: Manifest) -> None:
    await api.patch("configmaps", "a", manifest, patch_type=PatchType.APPLY, manager="m", force=True)


def test_what_is_created_is_completed_and_owned_by_who_asked() -> None:
    async def story() -> None:
        async with local_api() as api:
            api.objects.use_admission(AdmissionChain(Guard()))
            made = await api.create("configmaps", config_map(good="x"), manager="me")
            assert made["metadata"]["labels"] == {"seen": "yes"}
            (owner,) = made["metadata"]["managedFields"]
            assert owner["manager"] == "me"
            assert "f:labels" in owner["fieldsV1"]["f:metadata"]

    asyncio.run(story())


def test_what_is_applied_first_is_completed_too() -> None:
    async def story() -> None:
        async with local_api() as api:
            api.objects.use_admission(AdmissionChain(Guard()))
            await apply(api, config_map(good="x"))
            made = api.get("configmaps", "a")
            assert made is not None
            assert made["metadata"]["labels"] == {"seen": "yes"}

    asyncio.run(story())


@pytest.mark.parametrize("way", ["create", "apply", "update", "merge patch", "apply over", "dry run"])
def test_what_is_refused_is_refused_however_it_is_written(way: str) -> None:
    async def write(api: LocalApi) -> None:
        if way in {"create", "dry run"}:
            await api.create("configmaps", config_map(evil="x"), dry_run=way == "dry run")
        elif way == "apply":
            await apply(api, config_map(evil="x"))
        else:
            made = await api.create("configmaps", config_map(good="x"))
            if way == "update":
                await api.update("configmaps", {**made, "data": {"evil": "x"}})
            elif way == "merge patch":
                await api.patch("configmaps", "a", {"data": {"evil": "x"}})
            else:
                await apply(api, config_map(evil="x"))

    async def story() -> None:
        async with local_api() as api:
            api.objects.use_admission(AdmissionChain(Guard()))
            with pytest.raises(ValidationError, match=r"data\[evil\]: Forbidden: we do not want that"):
                await write(api)
            left = api.get("configmaps", "a")
            assert left is None or "evil" not in left["data"]

    asyncio.run(story())


def test_a_plugin_knows_who_writes() -> None:
    async def story() -> None:
        async with local_api() as api:
            api.objects.use_admission(AdmissionChain(Guard()))
            made = await api.create("configmaps", config_map(good="x"), user=UserInfo("ann"))
            assert made["metadata"]["labels"] == {"seen": "ann"}

    asyncio.run(story())


def test_a_plugin_names_what_comes_without_a_name_and_a_name_that_is_taken_is_not_used() -> None:
    async def story() -> None:
        async with local_api() as api:
            api.objects.use_admission(AdmissionChain(Guard()))
            names = []
            for _ in range(2):
                nameless = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "job-"}}
                names.append((await api.create("configmaps", nameless))["metadata"]["name"])
            assert names[0] == "job-7"
            assert re.fullmatch(r"job-[a-z0-9]{5}", names[1])

    asyncio.run(story())


@pytest.mark.parametrize("way", ["create", "apply", "update", "merge patch", "apply over", "dry run"])
def test_warnings_come_with_the_write(way: str) -> None:
    async def story() -> None:
        async with local_api() as api:
            api.objects.use_admission(AdmissionChain(Guard()))
            kind, options = api.kind("configmaps"), WriteOptions(manager="m", dry_run=way == "dry run", force=True)
            target = WriteTarget(kind, "v1", ("default", "a"), options, "")
            if way in {"update", "merge patch", "apply over"}:
                await api.create("configmaps", config_map(good="x"))
            large = config_map(large="x")
            if way in {"create", "dry run"}:
                written = api.objects.stage_create(kind, "v1", "default", large, options)
            elif way == "update":
                written = api.objects.stage_update(target, large)
            else:
                patch_type = PatchType.MERGE if way == "merge patch" else PatchType.APPLY
                written = api.objects.stage_patch(target, patch_type, large)
            assert written.warnings == ("this is large",)

    asyncio.run(story())


def test_a_spec_that_an_administrator_used_is_still_judged_when_a_user_does() -> None:
    """Also where a spec that was accepted before is not checked again."""

    class NoHighPriority:
        resources = ("workloads.kueue.x-k8s.io",)

        def admit(self, request: AdmissionRequest) -> AdmissionResponse:
            wrong = problems.forbidden("spec.priority", 9, "only administrators may")
            return ALLOWED if request.user.can_impersonate else AdmissionResponse([wrong])

    async def story() -> None:
        async with local_api() as api:
            api.objects.use_admission(AdmissionChain(NoHighPriority()))
            template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
            spec = {"queueName": "q", "priority": 9, "podSets": [{"name": "main", "count": 1, "template": template}]}
            kind = api.kind("workloads")

            def write(name: str, user: UserInfo) -> None:
                manifest = {
                    "apiVersion": kind.api_version(kind.stored),
                    "kind": "Workload",
                    "metadata": {"name": name, "namespace": "default"},
                    "spec": spec,
                }
                options = WriteOptions(user=user)
                api.objects.stage_create_from(kind, kind.stored, "default", msgspec.json.encode(manifest), options)

            write("first", THIS_PROCESS)
            write("second", THIS_PROCESS)
            with pytest.raises(ValidationError, match="only administrators may"):
                write("third", UserInfo("ben"))

    asyncio.run(story())
