"""Requests that are answered from what the nodes have left, and what is booked for them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers import timeline
from controllers.scheduler.things import node, pod, pod_spec
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.client.cluster import Cluster
from fairway.client.local import LocalClient
from fairway.client.recorder import Recorder
from fairway.controllers.kit.capacity import Demand
from fairway.controllers.provisioning import CheckCapacity
from fairway.controllers.provisioning.check_capacity import Booking
from fairway.errors import Unavailable
from fairway.testing.clusters import LocalCluster, cluster_on, local_cluster

from .things import events

CLASS = "check-capacity.autoscaling.x-k8s.io"
ACCEPTED = ("Accepted", "True", "Accepted", "ProvisioningRequest is accepted by ClusterAutoscaler")
FOUND = ("Provisioned", "True", "CapacityIsFound", "Capacity is found in the cluster")
NOT_FOUND = (
    "Provisioned",
    "False",
    "CapacityIsNotFound",
    "Capacity is not found, CA will try to find it later.",
)
EXPIRED = ("BookingExpired", "True", "CapacityReservationTimeExpired", "Capacity reservation time is expired")


@asynccontextmanager
async def checking(*nodes: Manifest) -> AsyncIterator[LocalCluster]:
    """A cluster with these nodes and somebody who looks for room on them."""
    async with local_cluster() as local:
        recorder = Recorder(local.cluster, "cluster-autoscaler")
        async with local.running(CheckCapacity(local.cluster, recorder), recorder):
            await timeline.create(local, nodes=list(nodes))
            yield local


async def ask(local: LocalCluster, name: str, cpu: str, count: int = 1, **parameters: str) -> None:
    metadata = {"name": name, "namespace": "default"}
    await timeline.create(
        local,
        podtemplates={"metadata": metadata, "template": {"spec": pod_spec({"cpu": cpu})}},
        provisioningrequests=request(name, count, **parameters),
    )


def request(name: str, count: int = 1, **parameters: str) -> Manifest:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "provisioningClassName": CLASS,
            "parameters": parameters,
            "podSets": [{"podTemplateRef": {"name": name}, "count": count}],
        },
    }


def said(local: LocalCluster, name: str) -> list[tuple[str, str, str, str]]:
    """The conditions of a request."""
    found = local.api.get("provisioningrequests", name)
    assert found is not None
    listed = (found.get("status") or {}).get("conditions") or ()
    return [(one["type"], one["status"], one["reason"], one["message"]) for one in listed]


def bound_pod(name: str, cpu: str, node_name: str = "n1", consumes: str = "") -> Manifest:
    made = pod(name, {"cpu": cpu}, nodeName=node_name)
    if consumes:
        made["metadata"]["annotations"] = {"autoscaling.x-k8s.io/consume-provisioning-request": consumes}
    return made


async def end(local: LocalCluster, name: str) -> None:
    await local.api.patch("pods", name, {"status": {"phase": "Succeeded"}}, subresource="status")
    await timeline.catch_up(local)


def test_room_that_is_there_is_found() -> None:
    async def story() -> None:
        async with checking(node()) as local:
            await ask(local, "r", "2", count=2)

            assert said(local, "r") == [ACCEPTED, FOUND]

    asyncio.run(story())


def test_a_request_waits_for_room_and_gets_it_as_soon_as_it_is_there() -> None:
    async def story() -> None:
        async with checking(node()) as local:
            await timeline.create(local, pods=bound_pod("busy", "3"))
            await ask(local, "r", "2", count=2)
            assert said(local, "r") == [ACCEPTED, NOT_FOUND]
            why = "2 of 2 pods do not fit: 0/1 nodes are available: 1 Insufficient cpu."
            assert ("Warning", "CapacityIsNotFound", why) in await events(local)

            await end(local, "busy")
            assert said(local, "r") == [ACCEPTED, FOUND]

    asyncio.run(story())


def test_a_request_that_wants_no_retry_fails_at_once() -> None:
    async def story() -> None:
        async with checking(node()) as local:
            await ask(local, "r", "9", noRetry="true")

            failed = ("Failed", "True", "CapacityIsNotFound", "CA could not find requested capacity")
            assert said(local, "r") == [ACCEPTED, failed]

    asyncio.run(story())


def test_what_is_promised_to_one_is_not_promised_to_the_other() -> None:
    async def story() -> None:
        async with checking() as local:
            for name in ("first", "second"):
                await ask(local, name, "3")
            await timeline.create(local, nodes=node())

            assert said(local, "first") == [ACCEPTED, FOUND]
            assert said(local, "second") == [ACCEPTED, NOT_FOUND]

    asyncio.run(story())


class Unreliable(LocalClient):
    """A client whose patches fail as often as they are told to."""

    failures = 0

    async def patch(
        self, kind: Kind, namespace: str, name: str, patch: Any, *, patch_type: str = "merge", subresource: str = ""
    ) -> Manifest:
        if Unreliable.failures:
            Unreliable.failures -= 1
            raise Unavailable("try again")
        return await super().patch(kind, namespace, name, patch, patch_type=patch_type, subresource=subresource)


def test_a_promise_that_cannot_be_written_is_taken_back_and_made_again() -> None:
    async def story() -> None:
        async with local_cluster() as local:
            cluster = Cluster(lambda name: Unreliable(local.api.objects, name), local.api.objects.registry, local.clock)
            world = LocalCluster(local.api, cluster, local.clock)
            async with world.running(CheckCapacity(cluster, Recorder(cluster, "cluster-autoscaler"))):
                await timeline.create(world, nodes=node())
                Unreliable.failures = 1
                await ask(world, "unlucky", "4")
                assert said(world, "unlucky") == []
                await ask(world, "lucky", "4")
                assert said(world, "lucky") == [ACCEPTED, FOUND]

                await timeline.pass_time(world, 1)
                assert said(world, "unlucky") == [ACCEPTED, NOT_FOUND]
                await world.api.delete("provisioningrequests", "lucky")
                await timeline.catch_up(world)
                assert said(world, "unlucky") == [ACCEPTED, FOUND]

    asyncio.run(story())


def test_requests_of_other_classes_are_left_alone() -> None:
    async def story() -> None:
        async with checking(node()) as local:
            other = request("r")
            other["spec"]["provisioningClassName"] = "queued-provisioning.gke.io"
            await timeline.create(local, provisioningrequests=other)
            await timeline.pass_time(local, 1)

            assert said(local, "r") == []

    asyncio.run(story())


def test_a_request_waits_for_its_templates() -> None:
    async def story() -> None:
        async with checking(node()) as local:
            await timeline.create(local, provisioningrequests=request("r"))
            assert said(local, "r") == []

            template = {"metadata": {"name": "r", "namespace": "default"}, "template": {"spec": pod_spec({"cpu": "1"})}}
            await timeline.create(local, podtemplates=template)
            assert said(local, "r") == [ACCEPTED, FOUND]

    asyncio.run(story())


def test_room_is_booked_until_the_pods_are_there() -> None:
    async def story() -> None:
        async with checking(node()) as local:
            await ask(local, "first", "2", count=2)
            await ask(local, "second", "2")
            assert said(local, "second") == [ACCEPTED, NOT_FOUND]

            await timeline.create(local, pods=[bound_pod(f"p{n}", "2", consumes="first") for n in range(2)])
            await end(local, "p0")
            assert said(local, "second") == [ACCEPTED, FOUND]

    asyncio.run(story())


def test_a_booking_ends_after_ten_minutes_and_gives_the_room_to_others() -> None:
    async def story() -> None:
        async with checking(node()) as local:
            await ask(local, "first", "4")
            await ask(local, "second", "4")
            await timeline.pass_time(local, 590, step=10)
            assert said(local, "first") == [ACCEPTED, FOUND]

            await timeline.pass_time(local, 20, step=1)
            assert said(local, "first") == [ACCEPTED, FOUND, EXPIRED]
            assert said(local, "second") == [ACCEPTED, FOUND]

    asyncio.run(story())


def test_a_request_that_is_deleted_gives_its_room_to_others() -> None:
    async def story() -> None:
        async with checking(node()) as local:
            await ask(local, "first", "4")
            await ask(local, "second", "4")
            await local.api.delete("provisioningrequests", "first")
            await timeline.catch_up(local)

            assert said(local, "second") == [ACCEPTED, FOUND]

    asyncio.run(story())


def test_a_request_without_an_answer_for_a_week_fails() -> None:
    async def story() -> None:
        async with checking(node()) as local:
            await ask(local, "r", "9")
            await timeline.pass_time(local, 7 * 24 * 3600, step=24 * 3600)

            assert said(local, "r")[-1] == ("Failed", "True", "Expired", "ProvisioningRequest is expired")

    asyncio.run(story())


def test_a_new_process_knows_what_was_booked_and_what_was_taken_of_it() -> None:
    async def story() -> None:
        async with local_cluster() as local:
            again = LocalCluster(local.api, cluster_on(local.api, local.clock), local.clock)
            await timeline.create(local, nodes=node())
            async with local.running(CheckCapacity(local.cluster, Recorder(local.cluster, "cluster-autoscaler"))):
                await ask(local, "first", "1", count=2)
                await timeline.create(local, pods=bound_pod("p", "1", consumes="first"))
            async with again.running(CheckCapacity(again.cluster, Recorder(again.cluster, "cluster-autoscaler"))):
                await ask(again, "too-large", "3")
                await ask(again, "second", "2")
            assert said(local, "too-large") == [ACCEPTED, NOT_FOUND]
            assert said(local, "second") == [ACCEPTED, FOUND]

    asyncio.run(story())


ONE, TWO = Demand(requests=(("cpu", 1),)), Demand(requests=(("cpu", 2),))


@pytest.mark.parametrize(
    ("taken", "want"),
    [
        pytest.param([], [(ONE, 1), (TWO, 2)], id="nobody is there yet"),
        pytest.param([TWO], [(ONE, 1), (TWO, 1)], id="a pod takes the place of its like"),
        pytest.param([ONE, ONE], [(TWO, 1)], id="a pod without its like takes any place"),
        pytest.param([TWO] * 9, [], id="more pods than were booked"),
    ],
)
def test_pods_take_what_was_booked_for_them(taken: list[Demand], want: list[tuple[Demand, int]]) -> None:
    assert Booking([(ONE, 1), (TWO, 2)], taken).left == want


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.integers(1, 3), st.integers(1, 3)),
        st.tuples(st.just("run"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("end"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("drop"), st.integers(0, 9), st.just(0)),
    ),
    max_size=15,
)


@settings(max_examples=25)
@given(STEPS)
def test_never_is_more_promised_than_there_is(steps: list[tuple[str, int, int]]) -> None:
    asyncio.run(_play(steps))


async def _play(steps: list[tuple[str, int, int]]) -> None:
    """Pods run only for requests that were granted, each on the one node there is."""
    async with checking(node()) as local:
        sizes: dict[str, tuple[int, int]] = {}
        started: dict[str, int] = {}
        for number, (what, one, two) in enumerate(steps):
            granted = [name for name in sizes if FOUND in said(local, name)]
            running = [name for name in sorted(local.api.names("pods")) if _runs(local, name)]
            if what == "ask":
                sizes[f"r{number}"] = (one, two)
                await ask(local, f"r{number}", str(one), count=two)
            elif what == "run" and granted:
                name = granted[one % len(granted)]
                if started.get(name, 0) < sizes[name][1]:
                    started[name] = started.get(name, 0) + 1
                    made = bound_pod(f"{name}-{started[name]}", str(sizes[name][0]), consumes=name)
                    await timeline.create(local, pods=made)
            elif what == "end" and running:
                await end(local, running[one % len(running)])
            elif what == "drop" and granted and not started.get(granted[one % len(granted)]):
                name = granted[one % len(granted)]
                del sizes[name]
                await local.api.delete("provisioningrequests", name)
                await timeline.catch_up(local)
            _check(local, sizes, started)


def _runs(local: LocalCluster, name: str) -> bool:
    found: Any = local.api.get("pods", name)
    return bool(found["status"]["phase"] != "Succeeded")


def _check(local: LocalCluster, sizes: dict[str, tuple[int, int]], started: dict[str, int]) -> None:
    cores = sum(sizes[name.rsplit("-", 1)[0]][0] for name in local.api.names("pods") if _runs(local, name))
    booked = sum(
        size * (count - started.get(name, 0)) for name, (size, count) in sizes.items() if FOUND in said(local, name)
    )

    assert cores + booked <= 4
    waiting = [size * count for name, (size, count) in sizes.items() if FOUND not in said(local, name)]
    assert all(wanted > 4 - cores - booked for wanted in waiting), "somebody waits for nothing"
