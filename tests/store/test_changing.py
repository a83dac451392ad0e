"""Updates and patches: whose state counts, what a plain write leaves alone, generations, and who loses a race."""

import asyncio
from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.errors import ApiError, BadRequest, Conflict, Forbidden, NotFound, UnsupportedMediaType, ValidationError
from fairway.store.verbs import PatchType
from fairway.testing.stores import LocalApi, OpenLog, local_api

from .manifests import config_map, job, pod


def edited(manifest: Manifest, *path: str, to: Any) -> Manifest:
    """A copy with another value at a path; `None` takes the field away."""
    changed = dict(manifest)
    if len(path) > 1:
        changed[path[0]] = edited(manifest.get(path[0]) or {}, *path[1:], to=to)
    elif to is None:
        changed.pop(path[0], None)
    else:
        changed[path[0]] = to
    return changed


def revision_of(manifest: Manifest) -> int:
    return int(manifest["metadata"]["resourceVersion"])


# Whole objects


def test_an_update_replaces_everything_but_what_only_the_server_sets() -> None:
    async def story() -> None:
        async with local_api() as api:
            old = await api.create("managedjobs", job(labels={"a": "1", "b": "1"}))
            new = edited(old, "metadata", "labels", to={"a": "2"})
            new = edited(new, "spec", "priority", to=None)
            for name in ("creationTimestamp", "generation"):
                new = edited(new, "metadata", name, to=None)
            made = await api.update("managedjobs", new)

            assert made == api.get("managedjobs", "train")
            assert made["spec"] == {"queue": "research", "tasks": [{"run": "true"}]}
            assert made["metadata"]["labels"] == {"a": "2"}
            for name in ("uid", "creationTimestamp"):
                assert made["metadata"][name] == old["metadata"][name]
            assert revision_of(made) == revision_of(old) + 1

    asyncio.run(story())


@pytest.mark.parametrize(
    ("path", "value", "want_generation"),
    [
        pytest.param(("spec", "priority"), 9, 2, id="another spec counts"),
        pytest.param(("spec", "priority"), None, 2, id="one with less in it is another one"),
        pytest.param(("metadata", "labels"), {"a": "b"}, 1, id="labels do not count"),
        pytest.param(("metadata", "annotations"), {"a": "b"}, 1, id="annotations do not count"),
        pytest.param(("metadata", "finalizers"), ["x.dev/y"], 1, id="finalizers do not count"),
        pytest.param(("metadata", "generation"), 77, 1, id="nobody sets it"),
        pytest.param(("status",), {"phase": "Forged"}, 1, id="the status does not count"),
    ],
)
def test_the_generation_counts_the_changes_of_the_spec(
    path: tuple[str, ...], value: object, want_generation: int
) -> None:
    async def story() -> None:
        async with local_api() as api:
            made = await api.update("managedjobs", edited(await api.create("managedjobs", job()), *path, to=value))
            assert made["metadata"]["generation"] == want_generation

    asyncio.run(story())


@pytest.mark.parametrize(
    ("manifest", "want_error", "want_message"),
    [
        pytest.param({"resourceVersion": "1"}, Conflict, "the object has been modified", id="an old revision"),
        pytest.param({"resourceVersion": "999"}, Conflict, "the object has been modified", id="one yet to come"),
        pytest.param({"resourceVersion": "abc"}, Conflict, "the object has been modified", id="no revision at all"),
        pytest.param({"uid": "another"}, Conflict, "UID in precondition: another", id="another object of that name"),
        pytest.param({"name": "other"}, NotFound, 'managedjobs.fairway.dev "other" not found', id="none of that name"),
        pytest.param({"resourceVersion": None}, ValidationError, "must be specified for an update", id="no revision"),
        pytest.param({"name": "train", "labels": {"a": "-"}}, ValidationError, "metadata.labels", id="a bad label"),
    ],
)
def test_an_update_is_refused_unless_it_is_made_for_what_is_there(
    manifest: Manifest, want_error: type[Exception], want_message: str
) -> None:
    async def story() -> None:
        async with local_api() as api:
            old = await api.create("managedjobs", job())
            new = edited(old, "spec", "priority", to=9)
            for name, value in manifest.items():
                new = edited(new, "metadata", name, to=value)
            with pytest.raises(want_error, match=want_message):
                await api.update("managedjobs", new)
            assert api.get("managedjobs", "train") == old

    asyncio.run(story())


def test_a_kind_of_kubernetes_itself_may_be_updated_without_a_revision() -> None:
    async def story() -> None:
        async with local_api() as api:
            await api.create("configmaps", config_map())
            made = await api.update("configmaps", {**config_map(namespace="default"), "data": {"color": "blue"}})
            assert made["data"] == {"color": "blue"}

    asyncio.run(story())


def test_an_update_that_changes_nothing_makes_no_revision_and_no_event() -> None:
    async def story() -> None:
        async with local_api() as api:
            old = await api.create("managedjobs", job())
            revision = api.store.revision
            assert await api.update("managedjobs", old) == old
            await api.patch("managedjobs", "train", {"spec": {"priority": 1}})
            await api.patch("managedjobs", "train", [], patch_type=PatchType.JSON)
            assert api.store.next_revision == revision + 1

    asyncio.run(story())


def test_a_change_back_and_forth_makes_a_revision_each_time() -> None:
    async def story() -> None:
        async with local_api() as api:
            made = await api.create("managedjobs", job())
            for number in range(6):
                made = await api.update("managedjobs", edited(made, "spec", "priority", to=number % 2 + 5))
            assert made["metadata"]["generation"] == 7
            assert revision_of(made) == 5 + 6

    asyncio.run(story())


# The status


def test_a_plain_write_leaves_the_status_alone_and_a_status_write_the_rest() -> None:
    async def story() -> None:
        async with local_api() as api:
            made = await api.create("managedjobs", job())
            told = edited(edited(made, "status", to={"phase": "RUNNING"}), "spec", "priority", to=66)
            told = edited(told, "metadata", "labels", to={"a": "b"})
            running = await api.update("managedjobs", told, "status")
            assert running["status"] == {"phase": "RUNNING"}
            assert running["spec"] == made["spec"]
            assert "labels" not in running["metadata"]
            assert running["metadata"]["generation"] == 1

            plain = edited(edited(running, "status", to={"phase": "Lost"}), "spec", "priority", to=5)
            assert (await api.update("managedjobs", plain))["status"] == {"phase": "RUNNING"}
            without = edited(api.get("managedjobs", "train") or {}, "status", to=None)
            assert (await api.update("managedjobs", without))["status"] == {"phase": "RUNNING"}

    asyncio.run(story())


@pytest.mark.parametrize(
    ("patch_type", "patch"),
    [
        pytest.param(PatchType.MERGE, {"status": {"phase": "RUNNING"}, "spec": {"priority": 7}}, id="merge"),
        pytest.param(
            PatchType.JSON,
            [
                {"op": "add", "path": "/status", "value": {"phase": "RUNNING"}},
                {"op": "replace", "path": "/spec/priority", "value": 7},
            ],
            id="json",
        ),
        pytest.param(
            PatchType.APPLY,
            {"apiVersion": "fairway.dev/v1alpha1", "kind": "ManagedJob", "status": {"phase": "RUNNING"}},
            id="apply",
        ),
    ],
)
def test_a_patch_of_the_status_changes_the_status_alone(patch_type: PatchType, patch: Any) -> None:
    async def story() -> None:
        async with local_api() as api:
            made = await api.create("managedjobs", job())
            await api.patch("managedjobs", "train", patch, patch_type=patch_type, subresource="status")
            now = api.get("managedjobs", "train")
            assert now is not None
            assert now["status"]["phase"] == "RUNNING"
            assert now["spec"] == made["spec"]

    asyncio.run(story())


def test_a_status_update_needs_the_revision_too() -> None:
    async def story() -> None:
        async with local_api() as api:
            old = await api.create("managedjobs", job())
            await api.update("managedjobs", edited(old, "spec", "priority", to=9))
            with pytest.raises(Conflict):
                await api.update("managedjobs", edited(old, "status", to={"phase": "RUNNING"}), "status")

    asyncio.run(story())


# Patches


@pytest.mark.parametrize(
    ("patch_type", "patch", "want"),
    [
        pytest.param(PatchType.MERGE, {"data": {"size": "8"}}, {"color": "red", "size": "8"}, id="merge adds"),
        pytest.param(PatchType.MERGE, {"data": {"color": None}}, {}, id="merge takes away"),
        pytest.param(PatchType.MERGE, {"data": None}, None, id="merge takes all away"),
        pytest.param(PatchType.STRATEGIC, {"data": {"size": "8"}}, {"color": "red", "size": "8"}, id="strategic"),
        pytest.param(PatchType.JSON, [{"op": "remove", "path": "/data/color"}], {}, id="json removes"),
        pytest.param(
            PatchType.APPLY,
            {"apiVersion": "v1", "kind": "ConfigMap", "data": {"size": "8"}},
            {"color": "red", "size": "8"},
            id="apply",
        ),
    ],
)
def test_a_patch_changes_what_it_says(patch_type: PatchType, patch: Any, want: object) -> None:
    async def story() -> None:
        async with local_api() as api:
            await api.create("configmaps", config_map())
            written = await api.patch("configmaps", "settings", patch, patch_type=patch_type)
            now = api.get("configmaps", "settings")
            assert now is not None
            assert (now.get("data") or None) == (want or None)
            assert not written.created

    asyncio.run(story())


@pytest.mark.parametrize(
    ("patch_type", "patch", "want_error", "want_message"),
    [
        pytest.param(PatchType.MERGE, {"metadata": {"resourceVersion": "2"}}, Conflict, "modified", id="old revision"),
        pytest.param(PatchType.MERGE, {"metadata": {"uid": "other"}}, Conflict, "UID", id="another uid"),
        pytest.param(
            PatchType.MERGE, {"metadata": {"name": "other"}}, BadRequest, "does not match the name", id="name"
        ),
        pytest.param(PatchType.MERGE, {"metadata": {"namespace": "x"}}, BadRequest, "namespace", id="namespace"),
        pytest.param(PatchType.MERGE, {"kind": "Pod"}, BadRequest, "not of the kind", id="another kind"),
        pytest.param(PatchType.MERGE, [], BadRequest, "must be an object", id="a list"),
        pytest.param(PatchType.MERGE, {"metadata": {"labels": {"a": "-"}}}, ValidationError, "labels", id="bad label"),
        pytest.param(PatchType.MERGE, {"spec": "text"}, ValidationError, "spec", id="a wrong type"),
        pytest.param(PatchType.STRATEGIC, {}, UnsupportedMediaType, "accepted media types", id="strategic"),
    ],
)
def test_a_patch_that_cannot_be_is_refused_and_changes_nothing(
    patch_type: PatchType, patch: Any, want_error: type[Exception], want_message: str
) -> None:
    async def story() -> None:
        async with local_api() as api:
            made = await api.create("managedjobs", job())
            with pytest.raises(want_error, match=want_message):
                await api.patch("managedjobs", "train", patch, patch_type=patch_type)
            assert api.get("managedjobs", "train") == made

    asyncio.run(story())


@pytest.mark.parametrize("patch_type", [PatchType.MERGE, PatchType.JSON, PatchType.STRATEGIC])
def test_only_apply_creates(patch_type: PatchType) -> None:
    async def story() -> None:
        async with local_api() as api:
            with pytest.raises(NotFound):
                await api.patch("configmaps", "settings", {}, patch_type=patch_type)
            applied = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"color": "red"}}
            written = await api.patch("configmaps", "settings", applied, patch_type=PatchType.APPLY, manager="me")
            assert written.created
            assert api.names("configmaps") == {"settings"}

    asyncio.run(story())


@pytest.mark.parametrize("verb", ["update", "merge", "apply", "delete"])
def test_a_dry_run_shows_the_outcome_and_stores_nothing(verb: str) -> None:
    async def story() -> None:
        async with local_api() as api:
            made = await api.create("configmaps", config_map())
            revision = api.store.next_revision
            if verb == "update":
                new = edited(made, "data", to={"color": "blue"})
                assert (await api.update("configmaps", new, dry_run=True))["data"] == {"color": "blue"}
            elif verb == "delete":
                assert (await api.delete("configmaps", "settings", dry_run=True)).removed
            else:
                patch_type = PatchType.MERGE if verb == "merge" else PatchType.APPLY
                patch = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"color": "blue"}}
                written = await api.patch(
                    "configmaps", "settings", patch, patch_type=patch_type, dry_run=True, force=verb == "apply"
                )
                assert b'"blue"' in written.entry.data
            assert api.get("configmaps", "settings") == made
            assert api.store.next_revision == revision

    asyncio.run(story())


# Races


def test_of_many_who_update_the_same_state_one_succeeds(open_log: OpenLog) -> None:
    async def story() -> None:
        async with local_api(open_log) as api:
            made = await api.create("managedjobs", job())
            outcomes = await asyncio.gather(
                *(api.update("managedjobs", edited(made, "spec", "priority", to=number)) for number in range(10, 30)),
                return_exceptions=True,
            )
            assert [type(one) for one in outcomes] == [dict, *[Conflict] * 19]
            assert api.get("managedjobs", "train") == outcomes[0]

    asyncio.run(story())


def test_patches_at_the_same_time_all_count(open_log: OpenLog) -> None:
    async def story() -> None:
        async with local_api(open_log) as api:
            await api.create("configmaps", config_map())
            await asyncio.gather(
                *(api.patch("configmaps", "settings", {"data": {f"key-{number}": "v"}}) for number in range(50))
            )
            now = api.get("configmaps", "settings")
            assert now is not None
            assert len(now["data"]) == 51

    asyncio.run(story())


async def count_up(api: LocalApi, times: int) -> int:
    """Read, add one, write, and again where somebody was faster; how often that was."""
    conflicts = 0
    for _ in range(times):
        while True:
            manifest = api.get("managedjobs", "train")
            assert manifest is not None
            try:
                await api.update(
                    "managedjobs", edited(manifest, "spec", "priority", to=manifest["spec"]["priority"] + 1)
                )
            except Conflict:
                conflicts += 1
                await asyncio.sleep(0)
            else:
                break
    return conflicts


def test_no_update_is_lost_between_those_who_count_together(open_log: OpenLog) -> None:
    async def story() -> None:
        async with local_api(open_log) as api:
            await api.create("managedjobs", job())
            conflicts = await asyncio.gather(*(count_up(api, 15) for _ in range(8)))
            now = api.get("managedjobs", "train")
            assert now is not None
            assert now["spec"]["priority"] == 1 + 8 * 15
            assert now["metadata"]["generation"] == 1 + 8 * 15
            assert sum(conflicts) > 0  # else they never met

    asyncio.run(story())


# Binding


def test_a_pod_is_given_to_a_node_once() -> None:
    async def story() -> None:
        async with local_api() as api:
            made = await api.create("pods", pod())
            await api.objects.bind(api.kind("pods"), ("default", "web"), "n1")
            bound = api.get("pods", "web")
            assert bound is not None
            assert bound["spec"] == {**made["spec"], "nodeName": "n1"}
            (condition,) = bound["status"]["conditions"]
            assert (condition["type"], condition["status"]) == ("PodScheduled", "True")
            with pytest.raises(Conflict, match="already assigned to node 'n1'"):
                await api.objects.bind(api.kind("pods"), ("default", "web"), "n2")
            assert api.get("pods", "web") == bound

    asyncio.run(story())


def test_of_two_who_bind_a_pod_one_succeeds() -> None:
    async def story() -> None:
        async with local_api() as api:
            await api.create("pods", pod())
            outcomes = await asyncio.gather(
                *(api.objects.bind(api.kind("pods"), ("default", "web"), node) for node in ("n1", "n2")),
                return_exceptions=True,
            )
            assert isinstance(outcomes[1], Conflict)
            bound = api.get("pods", "web")
            assert bound is not None
            assert bound["spec"]["nodeName"] == "n1"

    asyncio.run(story())


def test_a_pod_with_gates_or_on_its_way_out_is_given_to_nobody() -> None:
    async def story() -> None:
        async with local_api() as api:
            await api.create("pods", pod("gated", gates=("kueue.x-k8s.io/admission",)))
            await api.create("pods", pod("leaving", finalizers=["x.dev/y"]))
            await api.delete("pods", "leaving")
            refusals: tuple[tuple[str, type[ApiError], str], ...] = (
                ("gated", Forbidden, "schedulingGates"),
                ("leaving", Conflict, "is being deleted"),
                ("missing", NotFound, 'pods "missing" not found'),
            )
            for name, want, message in refusals:
                with pytest.raises(want, match=message):
                    await api.objects.bind(api.kind("pods"), ("default", name), "n1")

    asyncio.run(story())
