"""The client of controllers in this process: the protocol's verbs, on the real store."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import aclosing, asynccontextmanager
from typing import Any, cast

import pytest

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.client.local import LocalClient
from fairway.client.protocol import Client, Scope, WatchEvent
from fairway.errors import AlreadyExists, ApiError, BadRequest, Conflict, Expired, NotFound, ValidationError
from fairway.store.store import History
from fairway.store.verbs.reading import decoded
from fairway.testing.stores import LocalApi, local_api


class Bench:
    """A client, the store behind it, and the kinds that the tests are about."""

    def __init__(self, api: LocalApi) -> None:
        self.api = api
        self.client: Client = LocalClient(api.objects, "tester")
        self.config_maps = api.kind("configmaps")
        self.workloads = api.kind("workloads")
        self.flavors = api.kind("resourceflavors")

    async def make(self, name: str, **data: str) -> Manifest:
        return await self.client.create(self.config_maps, config_map(name, None, **data))

    async def next_events(self, since: str, count: int, scope: Scope | None = None) -> list[WatchEvent]:
        events: list[WatchEvent] = []
        watch = self.client.watch(self.config_maps, since, scope or Scope())
        async with aclosing(cast("Any", watch)) as changes, asyncio.timeout(10):
            async for some in changes:
                events += some
                if len(events) >= count:
                    break
        assert len(events) == count
        return events


def config_map(name: str, labels: dict[str, str] | None = None, **data: str) -> Manifest:
    return {"metadata": {"name": name, "namespace": "default", "labels": labels or {}}, "data": data}


@asynccontextmanager
async def bench(history: History | None = None) -> AsyncIterator[Bench]:
    async with local_api(history=history) as api:
        yield Bench(api)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def names(manifests: list[Manifest]) -> list[str]:
    return [manifest["metadata"]["name"] for manifest in manifests]


def test_what_is_created_is_stored_as_it_is_answered() -> None:
    async def story() -> None:
        async with bench() as b:
            made = await b.make("a", key="value")

            assert made["kind"] == "ConfigMap"
            assert made["data"] == {"key": "value"}
            stored = b.api.get("configmaps", "a")
            assert stored is not None
            assert made == stored
            assert "managedFields" not in stored["metadata"], "what controllers create is owned by nobody"
            assert await b.client.get(b.config_maps, "default", "a") == made

    run(story())


def test_all_readers_share_one_decoded_state_until_there_is_a_newer_one() -> None:
    async def story() -> None:
        async with bench() as b:
            b.api.objects.watched_here.add("configmaps")
            await b.make("a", key="value")
            first = await b.client.get(b.config_maps, "default", "a")
            assert (await b.client.list(b.config_maps)).items[0] is first

            written = await b.client.patch(b.config_maps, "default", "a", {"data": {"key": "other"}})
            assert first["data"] == {"key": "value"}
            assert await b.client.get(b.config_maps, "default", "a") is written

    run(story())


def test_ownership_is_recorded_for_what_others_might_want_too() -> None:
    async def story() -> None:
        async with bench() as b:
            made = await b.api.create("workloads", workload(), manager="user")
            await b.client.patch(b.workloads, "default", "w", {"status": {"conditions": []}}, subresource="status")
            await b.client.patch(b.workloads, "default", "w", {"spec": {"active": False}})
            stored = b.api.get("workloads", made["metadata"]["name"])
            assert stored is not None
            owners = {one["manager"]: one["fieldsV1"] for one in stored["metadata"]["managedFields"]}
            assert owners.keys() == {"user", "tester"}
            assert owners["tester"] == {"f:spec": {"f:active": {}}}, "not for the status"

    run(story())


def test_what_nobody_here_follows_does_not_stay_decoded() -> None:
    async def story() -> None:
        async with bench() as b:
            made = await b.make("a", key="value")
            assert made["data"] == {"key": "value"}
            assert b.api.objects.get(b.config_maps, "default", "a").shared is None

    run(story())


def test_a_state_that_is_overtaken_when_it_is_heard_of_does_not_stay_decoded() -> None:
    async def story() -> None:
        async with bench() as b:
            made = await b.make("a")
            b.api.objects.watched_here.add("configmaps")
            changes = [{"data": {"key": str(number)}} for number in range(3)]
            written = await asyncio.gather(
                *(b.client.patch(b.config_maps, "default", "a", change) for change in changes)
            )
            told = await b.next_events(made["metadata"]["resourceVersion"], 3)
            assert [event.manifest for event in told] == written
            assert [event.manifest["data"]["key"] for event in told] == ["0", "1", "2"]
            since = int(made["metadata"]["resourceVersion"])
            recent = b.api.store.watch("configmaps", since).ready()
            assert [change.entry.shared for change in recent] == [None, None, written[-1]]

    run(story())


def test_what_a_write_answers_is_what_is_stored() -> None:
    async def story() -> None:
        async with bench() as b:
            workloads = b.workloads
            answers = [await b.client.create(workloads, workload())]
            status = {"conditions": [CONDITION]}
            answers.append(await b.client.patch(workloads, "default", "w", {"status": status}, subresource="status"))
            answers.append(await b.client.patch(workloads, "default", "w", {"spec": {"active": False}}))
            stored = decoded(b.api.objects.get(workloads, "default", "w"))
            assert answers[-1] == stored
            assert answers[1]["status"] == stored["status"] == status
            assert answers[1]["spec"] == answers[0]["spec"]

    run(story())


SCOPES = {
    "everything": (Scope(), ["a", "b", "c"]),
    "one namespace": (Scope("default"), ["a", "b"]),
    "an empty namespace": (Scope("kube-public"), []),
    "by label": (Scope(labels="team=x"), ["a", "c"]),
    "by label in one namespace": (Scope("default", "team=x"), ["a"]),
    "by field": (Scope(fields="metadata.name!=a"), ["b", "c"]),
}


@pytest.mark.parametrize(("scope", "want"), SCOPES.values(), ids=SCOPES)
def test_a_list_is_of_one_moment(scope: Scope, want: list[str]) -> None:
    async def story() -> None:
        async with bench() as b:
            await b.client.create(b.config_maps, config_map("a", {"team": "x"}))
            await b.make("b")
            other = config_map("c", {"team": "x"})
            other["metadata"]["namespace"] = "kube-system"
            last = await b.client.create(b.config_maps, other)
            listed = await b.client.list(b.config_maps, scope)

            assert names(listed.items) == want
            assert listed.resource_version == last["metadata"]["resourceVersion"]

    run(story())


def test_a_watch_tells_what_came_after_a_list() -> None:
    async def story() -> None:
        async with bench() as b:
            await b.make("before")
            since = (await b.client.list(b.config_maps)).resource_version
            made = await b.make("a")
            changed = await b.client.patch(b.config_maps, "default", "a", {"data": {"k": "v"}})
            await b.client.delete(b.config_maps, "default", "a")
            events = await b.next_events(since, 3)

            assert [event.type for event in events] == ["ADDED", "MODIFIED", "DELETED"]
            assert [event.manifest for event in events[:2]] == [made, changed]
            assert events[2].manifest["data"] == {"k": "v"}

    run(story())


def test_a_watch_sees_what_begins_and_ceases_to_match() -> None:
    async def story() -> None:
        async with bench() as b:
            since = (await b.client.list(b.config_maps)).resource_version
            await b.make("a")
            await b.client.patch(b.config_maps, "default", "a", {"metadata": {"labels": {"team": "x"}}})
            await b.client.patch(b.config_maps, "default", "a", {"metadata": {"labels": {"team": "y"}}})
            events = await b.next_events(since, 2, Scope(labels="team=x"))

            assert [event.type for event in events] == ["ADDED", "DELETED"]

    run(story())


def test_a_watch_from_too_long_ago_is_refused() -> None:
    async def story() -> None:
        async with bench(History(changes=3)) as b:
            since = (await b.client.list(b.config_maps)).resource_version
            for number in range(10):
                await b.make(f"a{number}")
            with pytest.raises(Expired):
                await b.next_events(since, 1)

    run(story())


def test_a_watcher_that_is_too_slow_is_told_so() -> None:
    async def story() -> None:
        async with bench(History(changes=3)) as b:
            since = (await b.client.list(b.config_maps)).resource_version
            watch = b.client.watch(b.config_maps, since)
            await b.make("first")
            assert [event.type for event in await anext(watch)] == ["ADDED"]
            for number in range(10):
                await b.make(f"a{number}")
            with pytest.raises(Expired):
                await anext(watch)

    run(story())


def test_an_update_needs_the_state_that_was_read() -> None:
    async def story() -> None:
        async with bench() as b:
            first = await b.make("a", key="1")
            first["data"]["key"] = "2"
            second = await b.client.update(b.config_maps, first)

            assert second["data"] == {"key": "2"}
            with pytest.raises(Conflict):
                await b.client.update(b.config_maps, {**config_map("a", key="3"), "metadata": first["metadata"]})

    run(story())


def workload() -> Manifest:
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
    spec = {"queueName": "q", "podSets": [{"name": "main", "count": 1, "template": {"spec": pod}}]}
    return {"metadata": {"name": "w", "namespace": "default"}, "spec": spec}


CONDITION = {
    "type": "Finished",
    "status": "True",
    "reason": "Done",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


def test_the_status_has_a_door_of_its_own() -> None:
    async def story() -> None:
        async with bench() as b:
            made = await b.client.create(b.workloads, workload())
            made["status"] = {"conditions": [CONDITION]}
            told = await b.client.update(b.workloads, made, "status")
            assert told["status"]["conditions"] == [CONDITION]

            told["spec"]["active"] = False
            told["status"] = {}
            kept = await b.client.update(b.workloads, told)
            assert kept["spec"]["active"] is False
            assert kept["status"]["conditions"] == [CONDITION]

            cleared = await b.client.patch(b.workloads, "default", "w", {"status": None}, subresource="status")
            assert not cleared.get("status")

    run(story())


PATCHES: dict[str, Any] = {
    "merge": {"data": {"a": "2", "b": None}},
    "json": [{"op": "replace", "path": "/data/a", "value": "2"}, {"op": "remove", "path": "/data/b"}],
    "strategic": {"data": {"a": "2", "b": None}},
}


@pytest.mark.parametrize("patch_type", PATCHES)
def test_patches_of_each_type(patch_type: str) -> None:
    async def story() -> None:
        async with bench() as b:
            await b.make("x", a="1", b="1")
            patch = PATCHES[patch_type]
            patched = await b.client.patch(b.config_maps, "default", "x", patch, patch_type=patch_type)

            assert patched["data"] == {"a": "2"}

    run(story())


def test_applying_gives_up_what_is_left_out_and_does_not_take_what_others_own() -> None:
    async def story() -> None:
        async with bench() as b:
            other: Client = LocalClient(b.api.objects, "other")
            await b.client.apply(b.config_maps, config_map("x", a="1", b="1"))
            applied = await b.client.apply(b.config_maps, config_map("x", a="1"))
            assert applied["data"] == {"a": "1"}

            with pytest.raises(Conflict):
                await other.apply(b.config_maps, config_map("x", a="2"))
            forced = await other.apply(b.config_maps, config_map("x", a="2"), force=True)
            assert forced["data"] == {"a": "2"}

    run(story())


def test_deleting() -> None:
    async def story() -> None:
        async with bench() as b:
            made = await b.make("a")
            with pytest.raises(Conflict):
                await b.client.delete(b.config_maps, "default", "a", uid="another")
            await b.client.delete(b.config_maps, "default", "a", uid=made["metadata"]["uid"])

            with pytest.raises(NotFound):
                await b.client.get(b.config_maps, "default", "a")

    run(story())


def test_deleting_waits_for_finalizers_and_dependents() -> None:
    async def story() -> None:
        async with bench() as b:
            held = config_map("held")
            held["metadata"]["finalizers"] = ["example.com/hold"]
            await b.client.create(b.config_maps, held)
            await b.client.delete(b.config_maps, "default", "held", propagation="Foreground")
            left = await b.client.get(b.config_maps, "default", "held")

            assert left["metadata"]["deletionTimestamp"]
            assert left["metadata"]["finalizers"] == ["example.com/hold", "foregroundDeletion"]

    run(story())


async def get_nothing(b: Bench) -> None:
    await b.client.get(b.config_maps, "default", "nope")


async def create_twice(b: Bench) -> None:
    await b.make("a")
    await b.make("a")


async def create_nameless(b: Bench) -> None:
    await b.client.create(b.config_maps, {"metadata": {"namespace": "default"}})


async def create_nowhere(b: Bench) -> None:
    await b.client.create(b.config_maps, {"metadata": {"name": "a", "namespace": "nope"}})


async def update_nothing(b: Bench) -> None:
    await b.client.update(b.config_maps, config_map("nope"))


async def patch_strangely(b: Bench) -> None:
    await b.make("a")
    await b.client.patch(b.config_maps, "default", "a", {}, patch_type="three-way")


async def patch_strategically(b: Bench) -> None:
    await b.client.create(b.workloads, workload())
    await b.client.patch(b.workloads, "default", "w", {}, patch_type="strategic")


async def delete_nothing(b: Bench) -> None:
    await b.client.delete(b.config_maps, "default", "nope")


async def watch_the_unwatchable(b: Bench) -> None:
    await b.next_events("0", 1, Scope(fields="spec.nope=1"))


REFUSED = {
    "what is not there": (get_nothing, NotFound),
    "a name that is taken": (create_twice, AlreadyExists),
    "an object without a name": (create_nameless, ValidationError),
    "an object in no namespace": (create_nowhere, NotFound),
    "an update of nothing": (update_nothing, NotFound),
    "an unknown type of patch": (patch_strangely, BadRequest),
    "a strategic patch of a custom kind": (patch_strategically, ApiError),
    "the end of nothing": (delete_nothing, NotFound),
    "an unknown field": (watch_the_unwatchable, BadRequest),
}


@pytest.mark.parametrize(("attempt", "error"), REFUSED.values(), ids=REFUSED)
def test_refusals_are_those_of_the_server(attempt: Any, error: type[Exception]) -> None:
    async def story() -> None:
        async with bench() as b:
            with pytest.raises(error):
                await attempt(b)

    run(story())


def test_objects_of_no_namespace() -> None:
    async def story() -> None:
        async with bench() as b:
            flavor: Kind = b.flavors
            made = await b.client.create(flavor, {"metadata": {"name": "spot"}, "spec": {"nodeLabels": {"a": "b"}}})
            made["spec"]["nodeLabels"] = {"a": "c"}
            await b.client.update(flavor, made)
            patched = await b.client.patch(flavor, "", "spot", {"spec": {"nodeLabels": {"d": "e"}}})

            assert patched["spec"]["nodeLabels"] == {"a": "c", "d": "e"}
            assert names((await b.client.list(flavor)).items) == ["spot"]
            await b.client.delete(flavor, "", "spot")
            assert (await b.client.list(flavor)).items == []

    run(story())
