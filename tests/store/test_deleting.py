"""Deleting: at once or in two steps, for whom it is meant, and what a pod's containers get."""

import asyncio
from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.errors import BadRequest, Conflict, NotFound, ValidationError
from fairway.store.selectors import Selection
from fairway.store.verbs import DeleteOptions, PatchType
from fairway.store.verbs.reading import decoded
from fairway.testing.stores import LocalApi, local_api

from .manifests import config_map, job, pod

MINE = "example.dev/mine"
YOURS = "example.dev/yours"


def metadata_of(api: LocalApi, kind: str, name: str) -> Manifest:
    manifest = api.get(kind, name)
    assert manifest is not None
    metadata: Manifest = manifest["metadata"]
    return metadata


def test_an_object_that_nobody_holds_goes_at_once_and_its_last_state_is_told() -> None:
    async def story() -> None:
        async with local_api() as api:
            made = await api.create("configmaps", config_map())
            watch = api.store.watch("configmaps", api.store.revision)
            written = await api.delete("configmaps", "settings")
            assert written.removed
            assert api.get("configmaps", "settings") is None
            (change,) = watch.ready()
            assert change.type == "DELETED"
            last = decoded(change.entry)
            assert last["metadata"]["resourceVersion"] == str(api.store.revision)
            assert last["data"] == made["data"]
            with pytest.raises(NotFound, match='configmaps "settings" not found'):
                await api.delete("configmaps", "settings")

    asyncio.run(story())


def test_finalizers_hold_an_object_until_the_last_is_taken_away() -> None:
    async def story() -> None:
        async with local_api() as api:
            made = await api.create("managedjobs", job(finalizers=[MINE, YOURS]))
            watch = api.store.watch("managedjobs.fairway.dev", api.store.revision)
            assert not (await api.delete("managedjobs", "train")).removed
            marked = metadata_of(api, "managedjobs", "train")
            assert marked["deletionTimestamp"] == "2026-01-01T00:00:00Z"
            assert marked["deletionGracePeriodSeconds"] == 0
            assert marked["generation"] == made["metadata"]["generation"] + 1

            assert not (await api.delete("managedjobs", "train")).removed  # again changes nothing
            assert metadata_of(api, "managedjobs", "train") == marked

            await api.patch("managedjobs", "train", {"metadata": {"finalizers": [YOURS]}})
            assert metadata_of(api, "managedjobs", "train")["finalizers"] == [YOURS]
            written = await api.patch("managedjobs", "train", {"metadata": {"finalizers": None}})
            assert written.removed
            assert api.get("managedjobs", "train") is None
            assert [change.type for change in watch.ready()] == ["MODIFIED", "MODIFIED", "DELETED"]

    asyncio.run(story())


@pytest.mark.parametrize("how", ["update", "merge patch", "json patch"])
def test_the_last_finalizer_may_be_taken_away_in_any_way(how: str) -> None:
    async def story() -> None:
        async with local_api() as api:
            await api.create("configmaps", config_map(finalizers=[MINE]))
            await api.delete("configmaps", "settings")
            manifest = api.get("configmaps", "settings")
            assert manifest is not None
            if how == "update":
                manifest["metadata"]["finalizers"] = []
                await api.update("configmaps", manifest)
            elif how == "merge patch":
                await api.patch("configmaps", "settings", {"metadata": {"finalizers": []}})
            else:
                patch = [{"op": "remove", "path": "/metadata/finalizers/0"}]
                await api.patch("configmaps", "settings", patch, patch_type=PatchType.JSON)
            assert api.names("configmaps") == set()

    asyncio.run(story())


def test_an_object_that_is_not_being_deleted_keeps_living_without_finalizers() -> None:
    async def story() -> None:
        async with local_api() as api:
            await api.create("configmaps", config_map(finalizers=[MINE]))
            await api.patch("configmaps", "settings", {"metadata": {"finalizers": None}})
            assert api.names("configmaps") == {"settings"}

    asyncio.run(story())


def test_no_finalizer_is_added_while_an_object_is_being_deleted() -> None:
    async def story() -> None:
        async with local_api() as api:
            await api.create("managedjobs", job(finalizers=[MINE]))
            await api.patch("managedjobs", "train", {"metadata": {"finalizers": [MINE, YOURS]}})
            await api.delete("managedjobs", "train")
            with pytest.raises(ValidationError, match="no new finalizers can be added if the object is being deleted"):
                await api.patch("managedjobs", "train", {"metadata": {"finalizers": [MINE, YOURS, "example.dev/late"]}})
            await api.patch("managedjobs", "train", {"spec": {"priority": 3}, "metadata": {"finalizers": [YOURS]}})
            assert metadata_of(api, "managedjobs", "train")["finalizers"] == [YOURS]

    asyncio.run(story())


@pytest.mark.parametrize("field", ["deletionTimestamp", "deletionGracePeriodSeconds"])
def test_nobody_takes_a_deletion_back(field: str) -> None:
    async def story() -> None:
        async with local_api() as api:
            await api.create("managedjobs", job(finalizers=[MINE]))
            await api.delete("managedjobs", "train")
            marked = metadata_of(api, "managedjobs", "train")
            await api.patch("managedjobs", "train", {"metadata": {field: None}})
            assert metadata_of(api, "managedjobs", "train") == marked

    asyncio.run(story())


@pytest.mark.parametrize(
    ("options", "want_error", "want_message"),
    [
        pytest.param({"uid": "another"}, Conflict, "UID in precondition: another", id="another object"),
        pytest.param({"resource_version": "1"}, Conflict, "has been modified", id="another state"),
        pytest.param(
            {"propagation": "Sideways"}, BadRequest, "one of Background, Foreground, Orphan", id="propagation"
        ),
        pytest.param({"grace_seconds": -1}, BadRequest, "must not be negative", id="negative grace"),
    ],
)
def test_a_deletion_that_does_not_fit_is_refused_and_deletes_nothing(
    options: dict[str, Any], want_error: type[Exception], want_message: str
) -> None:
    async def story() -> None:
        async with local_api() as api:
            made = await api.create("configmaps", config_map())
            with pytest.raises(want_error, match=want_message):
                await api.delete("configmaps", "settings", **options)
            assert api.get("configmaps", "settings") == made

    asyncio.run(story())


def test_a_deletion_of_exactly_this_object_in_this_state_is_carried_out() -> None:
    async def story() -> None:
        async with local_api() as api:
            metadata = (await api.create("configmaps", config_map()))["metadata"]
            options = {"uid": metadata["uid"], "resource_version": metadata["resourceVersion"]}
            assert (await api.delete("configmaps", "settings", **options)).removed

    asyncio.run(story())


def test_of_many_who_delete_one_object_one_succeeds() -> None:
    async def story() -> None:
        async with local_api() as api:
            await api.create("configmaps", config_map())
            outcomes = await asyncio.gather(
                *(api.delete("configmaps", "settings") for _ in range(10)), return_exceptions=True
            )
            assert [isinstance(one, NotFound) for one in outcomes] == [False, *[True] * 9]

    asyncio.run(story())


# Pods


@pytest.mark.parametrize(
    ("manifest", "asked", "want_grace"),
    [
        pytest.param(pod(node="n1"), None, 30, id="30 seconds unless it says otherwise"),
        pytest.param(pod(node="n1"), 5, 5, id="as long as the request says"),
        pytest.param(pod(node="n1"), 0, None, id="none: it goes at once"),
        pytest.param(pod(), None, None, id="a pod that runs nowhere goes at once"),
        pytest.param(pod(), 60, None, id="even if time is asked for it"),
    ],
)
def test_a_pods_containers_get_time_to_end(manifest: Manifest, asked: int | None, want_grace: int | None) -> None:
    async def story() -> None:
        async with local_api() as api:
            await api.create("pods", {**manifest, "metadata": {"name": "web"}})
            written = await api.delete("pods", "web", grace_seconds=asked)
            assert written.removed == (want_grace is None)
            if want_grace is not None:
                metadata = metadata_of(api, "pods", "web")
                assert metadata["deletionGracePeriodSeconds"] == want_grace
                assert metadata["deletionTimestamp"] == f"2026-01-01T00:00:{want_grace:02}Z"

    asyncio.run(story())


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_goes_at_once(phase: str) -> None:
    async def story() -> None:
        async with local_api() as api:
            await api.create("pods", pod(node="n1"))
            await api.patch("pods", "web", {"status": {"phase": phase}}, subresource="status")
            assert (await api.delete("pods", "web")).removed

    asyncio.run(story())


def test_a_pods_time_can_be_cut_short_but_not_extended() -> None:
    async def story() -> None:
        async with local_api() as api:
            await api.create("pods", pod(node="n1"))
            await api.delete("pods", "web")
            await api.clock.run_for(10)
            await api.delete("pods", "web", grace_seconds=300)
            assert metadata_of(api, "pods", "web")["deletionTimestamp"] == "2026-01-01T00:00:30Z"
            await api.delete("pods", "web", grace_seconds=5)
            assert metadata_of(api, "pods", "web")["deletionTimestamp"] == "2026-01-01T00:00:15Z"
            assert metadata_of(api, "pods", "web")["generation"] == 2
            assert (await api.delete("pods", "web", grace_seconds=0)).removed  # the runner, when the process is gone

    asyncio.run(story())


def test_a_pod_with_a_finalizer_stays_after_its_containers_have_ended() -> None:
    async def story() -> None:
        async with local_api() as api:
            await api.create("pods", pod(node="n1", finalizers=[MINE]))
            await api.delete("pods", "web")
            await api.patch("pods", "web", {"metadata": {"finalizers": None}})
            assert api.names("pods") == {"web"}  # its containers still run
            await api.create("pods", pod("second", node="n1", finalizers=[MINE]))
            await api.delete("pods", "second")
            assert not (await api.delete("pods", "second", grace_seconds=0)).removed
            assert (await api.patch("pods", "second", {"metadata": {"finalizers": None}})).removed

    asyncio.run(story())


# Collections


def test_a_collection_is_deleted_as_far_as_it_is_meant() -> None:
    async def story() -> None:
        async with local_api() as api:
            for name, labels in (("a", {"x": "1"}), ("b", {"x": "2"}), ("c", {"x": "1"}), ("held", {"x": "1"})):
                finalizers = [MINE] if name == "held" else []
                await api.create("configmaps", config_map(name, labels=labels, finalizers=finalizers))
            await api.create("configmaps", config_map("a", labels={"x": "1"}), "kube-system")
            kind = api.kind("configmaps")
            deleted = await api.objects.delete_collection(Selection(kind, "default", "x=1"))
            assert {(one.entry.name, one.removed) for one in deleted} == {("a", True), ("c", True), ("held", False)}
            assert sorted(api.store.collection("configmaps").entries) == [
                ("default", "b"), ("default", "held"), ("kube-system", "a"),
            ]  # fmt: skip

            assert await api.objects.delete_collection(Selection(kind, "default", "x=9")) == []
            await api.objects.delete_collection(Selection(kind, "default", fields="metadata.name=b"))
            assert api.get("configmaps", "b") is None
            await api.objects.delete_collection(Selection(kind), DeleteOptions(dry_run=True))
            assert len(api.store.collection("configmaps").entries) == 2

    asyncio.run(story())


def test_what_vanishes_while_a_collection_is_deleted_is_no_error() -> None:
    async def story() -> None:
        async with local_api() as api:
            for number in range(20):
                await api.create("configmaps", config_map(f"c-{number}"))
            selection = Selection(api.kind("configmaps"), "default")
            _, first, second = await asyncio.gather(
                api.delete("configmaps", "c-7"),
                api.objects.delete_collection(selection),
                api.objects.delete_collection(selection),
            )
            assert len(first) + len(second) == 19
            assert api.names("configmaps") == set()

    asyncio.run(story())
