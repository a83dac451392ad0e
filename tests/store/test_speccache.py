"""An object whose spec came before is stored, refused and owned exactly as it would be on the long way."""

import asyncio
import copy
import json
from typing import Any

import pytest

from fairway.apis.machinery.admission import AdmissionChain, UserInfo
from fairway.apis.machinery.kind import Manifest
from fairway.controllers.webhooks.creators import CreatorAnnotations
from fairway.controllers.webhooks.finalizers import FinalizerAdmission
from fairway.errors import ApiError, FairwayError
from fairway.store.verbs import PatchType, WriteOptions, when_durable
from fairway.store.verbs.reading import decoded
from fairway.testing.stores import LocalApi, local_api

CONTAINER = {"name": "main", "image": "x", "resources": {"requests": {"cpu": 1, "memory": "1Gi"}}}
SPECS: dict[str, Manifest] = {
    "workloads": {
        "queueName": "q",
        "podSets": [{"name": "main", "count": 2, "template": {"spec": {"containers": [CONTAINER]}}}],
    },
    "clusterqueues": {"namespaceSelector": {}, "resourceGroups": []},
    "localqueues": {"clusterQueue": "cq"},
    "resourceflavors": {"nodeLabels": {"zone": "a"}},
    "cohorts": {},
    "admissionchecks": {"controllerName": "kueue.x-k8s.io/provisioning-request"},
}
METADATA: dict[str, Manifest] = {
    "a name": {"name": "x"},
    "a generated name": {"generateName": "x-"},
    "labels and annotations": {"name": "x", "labels": {"a": "b"}, "annotations": {"c": "d"}},
    "an owner": {
        "name": "x",
        "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}],
    },
    "finalizers": {"name": "x", "finalizers": ["example.com/mine"]},
    "what only the server sets": {"name": "x", "uid": "mine", "generation": 7, "creationTimestamp": None},
    "a name that is none": {"name": "Not A Name"},
    "no name": {},
    "a label that is none": {"name": "x", "labels": {"a": "not a value!"}},
    "a resource version": {"name": "x", "resourceVersion": "5"},
    "another namespace": {"name": "x", "namespace": "elsewhere"},
    "a field that there is not": {"name": "x", "colour": "red"},
    "a field of the wrong type": {"name": "x", "labels": []},
}


def manifest(api: LocalApi, kind: str, metadata: Manifest) -> Manifest:
    found = api.kind(kind)
    return {
        "apiVersion": found.api_version(found.stored),
        "kind": found.kind,
        "metadata": copy.deepcopy(metadata),
        "spec": copy.deepcopy(SPECS[kind]),
    }


async def outcome(api: LocalApi, kind: str, sent: Manifest, options: WriteOptions, *, quick: bool) -> Any:
    """What a create answers, without what is different each time; the object goes again."""
    found = api.kind(kind)
    namespace = "default" if found.namespaced else ""
    try:
        if quick:
            data = json.dumps(sent).encode()
            written = await when_durable(api.objects.stage_create_from(found, found.stored, namespace, data, options))
        else:
            written = await api.objects.create(found, found.stored, namespace, copy.deepcopy(sent), options)
    except FairwayError as error:
        return type(error), str(error), error.code if isinstance(error, ApiError) else 422
    stored = decoded(written.entry)
    if not options.dry_run:
        assert decoded(api.objects.get(found, *written.entry.key)) == stored
        await api.objects.delete(found, written.entry.key)
        for finalizer in stored["metadata"].get("finalizers", ()):
            patch = {"metadata": {"finalizers": None}}
            await api.patch(kind, stored["metadata"]["name"], patch)
            assert finalizer
    del stored["metadata"]["uid"]
    stored["metadata"].pop("resourceVersion", None)
    if "generateName" in stored["metadata"]:
        del stored["metadata"]["name"]
    return stored, written.warnings, written.created


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("metadata", METADATA.values(), ids=METADATA)
@pytest.mark.parametrize("validation", ["Ignore", "Warn", "Strict"])
def test_a_known_spec_gives_the_answer_of_the_long_way(kind: str, metadata: Manifest, validation: str) -> None:
    async def story() -> None:
        options = WriteOptions(manager="me", field_validation=validation)
        async with local_api() as api:
            known = manifest(api, kind, {"name": "first"})
            await outcome(api, kind, known, options, quick=True)
            sent = manifest(api, kind, metadata)

            assert await outcome(api, kind, sent, options, quick=True) == await outcome(
                api, kind, sent, options, quick=False
            )

    asyncio.run(story())


@pytest.mark.parametrize("kind", SPECS)
def test_plugins_complete_an_object_with_a_known_spec_too(kind: str) -> None:
    """Of two equal flavors of an administrator, the second had no finalizer: its first update met a conflict."""

    async def story() -> None:
        options = WriteOptions(manager="me", user=UserInfo("admin", can_impersonate=True))
        async with local_api() as api:
            api.objects.use_admission(AdmissionChain(CreatorAnnotations(), FinalizerAdmission()))
            sent = manifest(api, kind, {"name": "x"})
            first = await outcome(api, kind, sent, options, quick=True)
            assert await outcome(api, kind, sent, options, quick=True) == first
            assert await outcome(api, kind, sent, options, quick=False) == first
            completed = first[0]["metadata"]
            assert completed.get("annotations") == ({"fairway.dev/user": "admin"} if kind == "workloads" else None)
            in_use = ["kueue.x-k8s.io/resource-in-use"]
            assert completed.get("finalizers") == (in_use if kind in {"clusterqueues", "resourceflavors"} else None)

    asyncio.run(story())


@pytest.mark.parametrize("kind", SPECS)
@pytest.mark.parametrize("status", [{}, {"conditions": []}, None, "none"], ids=str)
def test_a_status_is_treated_as_on_the_full_path(kind: str, status: object) -> None:
    async def story() -> None:
        options = WriteOptions(manager="me", field_validation="Strict")
        async with local_api() as api:
            known = manifest(api, kind, {"name": "first"})
            await outcome(api, kind, known, options, quick=True)
            sent = manifest(api, kind, {"name": "x"}) | {"status": status}

            assert await outcome(api, kind, sent, options, quick=True) == await outcome(
                api, kind, sent, options, quick=False
            )

    asyncio.run(story())


def test_the_empty_status_that_clients_in_go_send_does_not_cost_the_full_path(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with local_api() as api:
            found = api.kind("workloads")
            for name in ("first", "second"):
                sent = manifest(api, "workloads", {"name": name}) | {"status": {}}
                data = json.dumps(sent, separators=(",", ":")).encode()
                await when_durable(api.objects.stage_create_from(found, "v1beta2", "default", data))
                monkeypatch.delattr("fairway.store.verbs.creating.create", raising=False)

            assert "status" not in decoded(api.objects.get(found, "default", "second"))

    asyncio.run(story())


def test_two_of_one_name_are_one_too_many_however_well_known_their_spec_is() -> None:
    async def story() -> None:
        async with local_api() as api:
            found = api.kind("workloads")
            data = json.dumps(manifest(api, "workloads", {"name": "x"})).encode()
            await when_durable(api.objects.stage_create_from(found, "v1beta2", "default", data))
            for _ in range(2):
                with pytest.raises(ApiError, match='"x" already exists'):
                    await when_durable(api.objects.stage_create_from(found, "v1beta2", "default", data))

    asyncio.run(story())


def test_a_spec_that_was_refused_is_refused_again() -> None:
    async def story() -> None:
        async with local_api() as api:
            found = api.kind("workloads")
            sent = manifest(api, "workloads", {"name": "x"})
            sent["spec"]["podSets"][0]["count"] = -1
            data = json.dumps(sent).encode()
            for _ in range(3):
                with pytest.raises(FairwayError, match="count"):
                    await when_durable(api.objects.stage_create_from(found, "v1beta2", "default", data))
            assert api.names("workloads") == set()

    asyncio.run(story())


def test_a_spec_with_unknown_fields_warns_each_time() -> None:
    async def story() -> None:
        async with local_api() as api:
            found = api.kind("workloads")
            for name in ("x", "y", "z"):
                sent = manifest(api, "workloads", {"name": name})
                sent["spec"]["colour"] = "red"
                written = await when_durable(
                    api.objects.stage_create_from(found, "v1beta2", "default", json.dumps(sent).encode())
                )
                assert written.warnings == ('unknown field "spec.colour"',)
                assert "colour" not in decoded(written.entry)["spec"]

    asyncio.run(story())


def test_a_dry_run_stores_nothing_and_a_missing_namespace_is_said() -> None:
    async def story() -> None:
        async with local_api() as api:
            found = api.kind("workloads")
            data = json.dumps(manifest(api, "workloads", {"name": "x"})).encode()
            for _ in range(2):
                await when_durable(
                    api.objects.stage_create_from(found, "v1beta2", "default", data, WriteOptions(dry_run=True))
                )
            assert api.names("workloads") == set()
            await when_durable(api.objects.stage_create_from(found, "v1beta2", "default", data))
            with pytest.raises(ApiError, match='namespaces "nowhere" not found'):
                await when_durable(api.objects.stage_create_from(found, "v1beta2", "nowhere", data))

    asyncio.run(story())


CONDITION = {
    "type": "QuotaReserved",
    "status": "True",
    "reason": "QuotaReserved",
    "message": "Quota reserved in ClusterQueue cq",
    "lastTransitionTime": "2026-11-16T00:00:00Z",
}
ADMISSION = {
    "clusterQueue": "cq",
    "podSetAssignments": [{"name": "main", "count": 2, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "2"}}],
}
STATUSES: dict[str, Any] = {
    "a condition": {"conditions": [CONDITION], "admission": ADMISSION},
    "nothing": {},
    "null": None,
    "an admission of other pods": {
        "conditions": [CONDITION],
        "admission": {**ADMISSION, "podSetAssignments": [{"name": "other", "count": 2}]},
    },
    "a condition that is none": {"conditions": [{"type": "x"}]},
    "a list": [],
    "a field that there is not": {"colour": "red"},
    "pods given back that it does not have": {"reclaimablePods": [{"name": "other", "count": 1}]},
}


@pytest.mark.parametrize("status", STATUSES.values(), ids=STATUSES)
def test_a_status_patch_gives_the_same_whether_or_not_the_spec_is_read(status: Any) -> None:
    """A JSON patch always reads the whole object; a merge patch of the status leaves the spec as it is stored."""

    async def outcome_of(api: LocalApi, patch_type: PatchType, patch: Any) -> Any:
        await api.create("workloads", manifest(api, "workloads", {"name": "x"}), manager="me")
        try:
            await api.patch("workloads", "x", patch, subresource="status", patch_type=patch_type, manager="you")
        except FairwayError as error:
            result: Any = (type(error), str(error))
        else:
            result = api.get("workloads", "x")
            assert result is not None
            for name in ("uid", "resourceVersion", "creationTimestamp"):
                del result["metadata"][name]
        await api.delete("workloads", "x")
        return result

    async def story() -> None:
        async with local_api() as api:
            merged = await outcome_of(api, PatchType.MERGE, {"status": copy.deepcopy(status)})
            added = [{"op": "add", "path": "/status", "value": copy.deepcopy(status)}]
            assert merged == await outcome_of(api, PatchType.JSON, added)

    asyncio.run(story())
