"""The scheduler on a real store: who gets which node, what waiting pods are told, and what survives trouble."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers import timeline
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.client.cluster import Cluster
from fairway.client.local import LocalClient
from fairway.client.protocol import EVERYTHING, Scope, WatchEvent
from fairway.client.recorder import Recorder
from fairway.controllers.kit.capacity import demand_of
from fairway.controllers.scheduler import Scheduler
from fairway.errors import Unavailable
from fairway.integrations.conditions import find
from fairway.testing.clusters import LocalCluster, cluster_on, local_cluster
from fairway.testing.stores import LocalApi

from .things import node, pod

FULL = "0/1 nodes are available: 1 Insufficient cpu."


class Unreliable(LocalClient):
    """A client whose bindings fail as often as they are told to."""

    def __init__(self, api: LocalApi, manager: str, late_seconds: float) -> None:
        super().__init__(api.objects, manager)
        self._clock = api.clock
        self._late_seconds = late_seconds
        self.failures = 0
        self.lost = 0
        """How many bindings are written although they fail: their responses are lost."""

        self.bound: list[str] = []

    async def watch(self, kind: Kind, since: str, scope: Scope = EVERYTHING) -> AsyncIterator[tuple[WatchEvent, ...]]:
        async for batch in super().watch(kind, since, scope):
            if self._late_seconds:
                await self._clock.sleep(self._late_seconds)
            yield batch

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> Manifest:
        if self.failures:
            self.failures -= 1
            raise Unavailable("try again")
        self.bound.append(name)
        bound = await super().bind(namespace, name, uid, node)
        if self.lost:
            self.lost -= 1
            raise Unavailable("connection lost")
        return bound


@asynccontextmanager
async def scheduling(*nodes: Manifest) -> AsyncIterator[LocalCluster]:
    """A cluster with these nodes and a scheduler at work."""
    async with local_cluster() as local:
        recorder = Recorder(local.cluster, "default-scheduler")
        scheduler = Scheduler(local.cluster, recorder)
        async with local.running(scheduler, recorder):
            await timeline.create(local, nodes=list(nodes))
            yield local


@asynccontextmanager
async def unreliable(*nodes: Manifest, late_seconds: float = 0) -> AsyncIterator[tuple[LocalCluster, Unreliable]]:
    """The same with a scheduler whose bindings fail when they are told to, and whose events come late."""
    async with local_cluster(keepers=False) as local:
        clients: dict[str, Unreliable] = {}

        def client(manager: str) -> Unreliable:
            return clients.setdefault(manager, Unreliable(local.api, manager, late_seconds))

        cluster = Cluster(client, local.api.objects.registry, local.clock)
        world = LocalCluster(local.api, cluster, local.clock)
        async with world.running(Scheduler(cluster, Recorder(cluster, "default-scheduler"))):
            await timeline.create(world, nodes=list(nodes))
            yield world, clients["default-scheduler"]


def node_of(local: LocalCluster, name: str) -> str | None:
    found = local.api.get("pods", name)
    assert found is not None
    value: str | None = found["spec"].get("nodeName")
    return value


def placed(local: LocalCluster) -> dict[str, str | None]:
    return {name: node_of(local, name) for name in sorted(local.api.names("pods"))}


async def end(local: LocalCluster, name: str, phase: str = "Succeeded") -> None:
    await local.api.patch("pods", name, {"status": {"phase": phase}}, subresource="status")
    await timeline.catch_up(local)


def why(local: LocalCluster, name: str) -> tuple[str, str, str] | None:
    found = find(local.api.get("pods", name) or {}, "PodScheduled")
    return (found["status"], found.get("reason", ""), found.get("message", "")) if found else None


async def events(local: LocalCluster) -> list[tuple[str, str, str, str]]:
    await timeline.pass_time(local, 0.5)
    listed = [local.api.get("events", name) for name in local.api.names("events")]
    return sorted((one["involvedObject"]["name"], one["type"], one["reason"], one["message"]) for one in listed if one)


def test_a_pod_gets_a_node_and_everybody_can_see_it() -> None:
    async def story() -> None:
        async with scheduling(node()) as local:
            await timeline.create(local, pods=pod("p", {"cpu": "1"}))

            assert node_of(local, "p") == "n1"
            assert why(local, "p") == ("True", "", "")
            assert await events(local) == [("p", "Normal", "Scheduled", "Successfully assigned default/p to n1")]

    asyncio.run(story())


def test_a_pod_that_fits_nowhere_is_told_why_until_there_is_room() -> None:
    async def story() -> None:
        async with scheduling(node()) as local:
            await timeline.create(local, pods=pod("first", {"cpu": "3"}))
            await timeline.create(local, pods=pod("second", {"cpu": "2"}))
            assert placed(local) == {"first": "n1", "second": None}
            assert why(local, "second") == ("False", "Unschedulable", FULL)
            assert ("second", "Warning", "FailedScheduling", FULL) in await events(local)

            await end(local, "first")
            assert node_of(local, "second") == "n1"
            assert why(local, "second") == ("True", "", "")

    asyncio.run(story())


@pytest.mark.parametrize(
    "bring_room",
    [
        pytest.param(lambda local: end(local, "big", "Failed"), id="a pod failed"),
        pytest.param(lambda local: local.api.delete("pods", "big", grace_seconds=0), id="a pod is gone"),
        pytest.param(lambda local: local.api.create("nodes", node("n2")), id="another node"),
        pytest.param(
            lambda local: local.api.patch(
                "nodes", "n1", {"status": {"allocatable": {"cpu": "9"}}}, subresource="status"
            ),
            id="a larger node",
        ),
    ],
)
def test_waiting_pods_are_tried_again_when_there_is_more_room(bring_room: Any) -> None:
    async def story() -> None:
        async with scheduling(node()) as local:
            await timeline.create(local, pods=[pod("big", {"cpu": "4"}), pod("next", {"cpu": "4"})])
            assert node_of(local, "next") is None

            await bring_room(local)
            await timeline.catch_up(local)
            assert node_of(local, "next") is not None

    asyncio.run(story())


def test_a_pod_that_is_being_deleted_keeps_its_room_until_it_is_gone() -> None:
    async def story() -> None:
        async with scheduling(node()) as local:
            await timeline.create(local, pods=pod("old", {"cpu": "4"}))
            await timeline.create(local, pods=pod("new", {"cpu": "4"}))
            await local.api.delete("pods", "old", grace_seconds=30)
            await timeline.catch_up(local)
            assert node_of(local, "new") is None

            await local.api.delete("pods", "old", grace_seconds=0)
            await timeline.catch_up(local)
            assert node_of(local, "new") == "n1"

    asyncio.run(story())


def test_a_pod_that_does_not_fit_keeps_no_other_waiting() -> None:
    async def story() -> None:
        async with scheduling(node()) as local:
            await timeline.create(
                local,
                priorityclasses={"metadata": {"name": "high"}, "value": 100},
                pods=[pod("huge", {"cpu": "9"}, priorityClassName="high", priority=100), pod("small", {"cpu": "1"})],
            )

            assert placed(local) == {"huge": None, "small": "n1"}

    asyncio.run(story())


def test_the_higher_priority_gets_the_room_that_comes_free() -> None:
    async def story() -> None:
        async with scheduling(node()) as local:
            classes = [{"metadata": {"name": name}, "value": value} for name, value in (("low", 1), ("high", 2))]
            await timeline.create(local, priorityclasses=classes, pods=pod("running", {"cpu": "4"}))
            low = pod("low", {"cpu": "4"}, priorityClassName="low", priority=1)
            high = pod("high", {"cpu": "3"}, priorityClassName="high", priority=2)
            await timeline.create(local, pods=[low, high])

            await end(local, "running")
            assert placed(local) == {"high": "n1", "low": None, "running": "n1"}

    asyncio.run(story())


def test_a_pod_with_an_unknown_scheduler_is_told_so() -> None:
    async def story() -> None:
        async with scheduling(node()) as local:
            await timeline.create(local, pods=pod("p", schedulerName="yunikorn"))
            await timeline.pass_time(local, 1)

            message = "no scheduler named yunikorn runs here; leave out schedulerName to use default-scheduler"
            assert why(local, "p") == ("False", "Unschedulable", message)
            assert node_of(local, "p") is None
            assert await events(local) == [("p", "Warning", "FailedScheduling", message)]

            before = local.api.get("pods", "p")
            await timeline.pass_time(local, 60)
            assert local.api.get("pods", "p") == before

    asyncio.run(story())


def test_a_gated_pod_is_left_alone() -> None:
    async def story() -> None:
        async with scheduling(node()) as local:
            await timeline.create(local, pods=pod("p", schedulingGates=[{"name": "wait"}]))
            before = local.api.get("pods", "p")
            await timeline.pass_time(local, 1)

            assert local.api.get("pods", "p") == before
            assert node_of(local, "p") is None

    asyncio.run(story())


def test_a_gated_pod_gets_a_node_when_its_gates_are_gone() -> None:
    async def story() -> None:
        async with scheduling(node()) as local:
            await timeline.create(local, pods=pod("p", schedulingGates=[{"name": "wait"}]))
            assert why(local, "p") == (
                "False",
                "SchedulingGated",
                "Scheduling is blocked due to non-empty scheduling gates",
            )

            await local.api.patch("pods", "p", {"spec": {"schedulingGates": []}})
            await timeline.catch_up(local)
            assert node_of(local, "p") == "n1"

    asyncio.run(story())


def test_a_waiting_pod_that_changes_what_it_asks_for_is_tried_again() -> None:
    async def story() -> None:
        taint = {"key": "gpu", "value": "a100", "effect": "NoSchedule"}
        async with scheduling(node(taints=[taint])) as local:
            await timeline.create(local, pods=pod("p"))
            untolerated = "0/1 nodes are available: 1 node(s) had untolerated taint(s)."
            assert why(local, "p") == ("False", "Unschedulable", untolerated)

            found = local.api.get("pods", "p") or {}
            tolerations = [*found["spec"]["tolerations"], {"key": "gpu", "operator": "Exists"}]
            await local.api.patch("pods", "p", {"spec": {"tolerations": tolerations}})
            await timeline.catch_up(local)
            assert node_of(local, "p") == "n1"

    asyncio.run(story())


def test_a_binding_whose_response_is_lost_keeps_its_room() -> None:
    async def story() -> None:
        async with unreliable(node(), late_seconds=0.1) as (local, client):
            client.lost = 1
            await timeline.create(local, pods=[pod("first", {"cpu": "4"}), pod("second", {"cpu": "4"})])
            await timeline.pass_time(local, 1)

            assert placed(local) == {"first": "n1", "second": None}
            assert client.bound == ["first"]

    asyncio.run(story())


def test_a_pod_that_is_being_deleted_gets_no_node_any_more() -> None:
    async def story() -> None:
        async with unreliable(node()) as (local, client):
            held = pod("held", {"cpu": "4"})
            held["metadata"]["finalizers"] = ["example.com/held"]
            await timeline.create(local, pods=[pod("running", {"cpu": "4"}), held])
            await local.api.delete("pods", "held")
            await end(local, "running")
            await timeline.pass_time(local, 1)

            assert client.bound == ["running"]
            assert node_of(local, "held") is None

    asyncio.run(story())


def test_extended_resources_are_given_out_one_by_one() -> None:
    async def story() -> None:
        async with scheduling(node(allocatable={"nvidia.com/gpu": "2"})) as local:
            gpu = {"nvidia.com/gpu": "1"}
            pods = [pod(f"p{number}") for number in range(3)]
            for one in pods:
                one["spec"]["containers"][0]["resources"] = {"requests": gpu, "limits": gpu}
            await timeline.create(local, pods=pods)

            assert sorted(placed(local).values(), key=str) == [None, "n1", "n1"]
            waiting = next(name for name, where in placed(local).items() if where is None)
            assert why(local, waiting) == (
                "False",
                "Unschedulable",
                "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
            )

    asyncio.run(story())


def test_what_a_waiting_pod_is_told_is_written_once() -> None:
    async def story() -> None:
        async with scheduling(node()) as local:
            await timeline.create(local, pods=[pod("big", {"cpu": "3"}), pod("tiny", {"cpu": "1"})])
            await timeline.create(local, pods=pod("waits", {"cpu": "2"}))
            told = local.api.get("pods", "waits")
            await end(local, "tiny")

            assert local.api.get("pods", "waits") == told

    asyncio.run(story())


def test_a_binding_that_fails_is_taken_back_and_tried_again() -> None:
    async def story() -> None:
        async with unreliable(node()) as (local, client):
            client.failures = 1
            await timeline.create(local, pods=pod("unlucky", {"cpu": "4"}))
            assert node_of(local, "unlucky") is None

            await timeline.create(local, pods=pod("lucky", {"cpu": "4"}))
            assert node_of(local, "lucky") == "n1"
            await timeline.pass_time(local, 1)
            assert why(local, "unlucky") == ("False", "Unschedulable", FULL)
            await end(local, "lucky")
            assert node_of(local, "unlucky") == "n1"
            assert client.bound == ["lucky", "unlucky"]

    asyncio.run(story())


def test_a_new_scheduler_counts_what_the_one_before_gave_away() -> None:
    async def story() -> None:
        async with scheduling(node()) as local:
            await timeline.create(local, pods=pod("before", {"cpu": "3"}))
            second = LocalCluster(local.api, cluster_on(local.api, local.clock), local.clock)
            await timeline.create(local, pods=pod("gated", {"cpu": "2"}, schedulingGates=[{"name": "wait"}]))
            async with second.running(Scheduler(second.cluster, Recorder(second.cluster, "default-scheduler"))):
                await local.api.patch("pods", "gated", {"spec": {"schedulingGates": []}})
                await timeline.catch_up(local)
                assert node_of(local, "gated") is None

                await end(local, "before")
                assert node_of(local, "gated") == "n1"

    asyncio.run(story())


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.integers(1, 4)),
        st.tuples(st.just("end"), st.integers(0, 9)),
        st.tuples(st.just("delete"), st.integers(0, 9)),
        st.tuples(st.just("cordon"), st.booleans()),
        st.tuples(st.just("fail"), st.integers(1, 3)),
        st.tuples(st.just("settle"), st.just(0)),
    ),
    max_size=25,
)


@settings(max_examples=40)
@given(STEPS)
def test_nodes_are_never_given_more_than_they_have_and_nobody_waits_for_nothing(steps: list[tuple[str, int]]) -> None:
    asyncio.run(_play(steps))


async def _play(steps: list[tuple[str, int]]) -> None:
    async with unreliable(node("n1"), node("n2", allocatable={"cpu": "2"})) as (world, client):
        for number, (what, argument) in enumerate(steps):
            await _step(world, client, number, what, argument)
            _check_nothing_is_overcommitted(world)
        await world.api.patch("nodes", "n1", {"spec": {"unschedulable": False}})
        await timeline.pass_time(world, 2, step=0.2)
        _check_nothing_is_overcommitted(world)
        _check_nobody_waits_for_nothing(world)


async def _step(world: LocalCluster, client: Unreliable, number: int, what: str, argument: int) -> None:
    names = sorted(world.api.names("pods"))
    name = names[argument % len(names)] if names else None
    if what == "create":
        await world.api.create("pods", pod(f"p{number:02}", {"cpu": str(argument)}))
    elif what == "end" and name is not None and node_of(world, name) is not None:
        await world.api.patch("pods", name, {"status": {"phase": "Succeeded"}}, subresource="status")
    elif what == "delete" and name is not None:
        await world.api.delete("pods", name, grace_seconds=0)
    elif what == "cordon":
        await world.api.patch("nodes", "n1", {"spec": {"unschedulable": bool(argument)}})
    elif what == "fail":
        client.failures = argument
    elif what == "settle":
        await timeline.catch_up(world)


def _running(world: LocalCluster) -> dict[str, int]:
    cores = {"n1": 4000, "n2": 2000}
    for name in world.api.names("pods"):
        found = world.api.get("pods", name) or {}
        if found["spec"].get("nodeName") and found["status"]["phase"] != "Succeeded":
            cores[found["spec"]["nodeName"]] -= dict(demand_of(found["spec"]).requests)["cpu"]
    return cores


def _check_nothing_is_overcommitted(world: LocalCluster) -> None:
    assert min(_running(world).values()) >= 0


def _check_nobody_waits_for_nothing(world: LocalCluster) -> None:
    free = max(_running(world).values())
    for name, where in placed(world).items():
        found = world.api.get("pods", name) or {}
        if where is None:
            assert dict(demand_of(found["spec"]).requests)["cpu"] > free, name
