"""Attempts are accounted from the objects: once, also of objects that are deleted and of what happens in between."""

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from fairway.accounting.books import JournalLimits
from fairway.client.cluster import Cluster
from fairway.client.local import LocalClient
from fairway.controllers.accounting.controller import AccountingController
from fairway.store.store import History
from fairway.testing.clock import VirtualClock
from fairway.testing.clusters import LocalCluster, cluster_on, local_cluster
from fairway.testing.stores import local_api

WORKLOADS = "workloads.kueue.x-k8s.io"
JOBS = "managedjobs.fairway.dev"


def _stamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _condition(kind: str, status: str, reason: str, when: datetime) -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "",
        "lastTransitionTime": _stamp(when),
        "observedGeneration": 1,
    }


_ADMISSION = {
    "clusterQueue": "research",
    "podSetAssignments": [
        {"name": "main", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "2"}},
    ],
}


async def _create(world: LocalCluster, name: str, user: str = "ana") -> None:
    pod = {
        "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "2"}}}],
        "restartPolicy": "Never",
    }
    manifest = {
        "metadata": {"name": name, "namespace": "default", "annotations": {"fairway.dev/user": user}},
        "spec": {"queueName": "training", "podSets": [{"name": "main", "count": 1, "template": {"spec": pod}}]},
    }
    await world.api.create(WORKLOADS, manifest)


async def _status(world: LocalCluster, name: str, **status: Any) -> None:
    await world.api.patch(WORKLOADS, name, {"status": status}, subresource="status")


def _outcomes(controller: AccountingController) -> list[tuple[str, int, str, int]]:
    found = [
        (line.workload, line.number, line.outcome, line.ended - line.started) for _, line in controller.books.ended()
    ]
    return sorted(found)


async def eventually(world: LocalCluster, condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            world.clock.advance(0.25)
            await asyncio.sleep(0.001)


def _stored(world: LocalCluster) -> int:
    names = [name for name in world.api.names("configmaps") if name.startswith("fairway-history")]
    return len(names)


def test_workloads_are_not_followed_where_their_cache_has_no_scope() -> None:
    """As on a cluster without admission, where the controller has no right to see them."""

    async def story() -> None:
        clock = VirtualClock()
        async with local_api(clock=clock) as api:
            registry, without = api.objects.registry, {WORKLOADS: ()}
            cluster = Cluster(lambda manager: LocalClient(api.objects, manager), registry, clock, without)
            world = LocalCluster(api, cluster, clock)
            controller = AccountingController(cluster)
            async with world.running(controller):
                await _create(world, "one")
                conditions = [_condition(kind, "True", kind, clock.now()) for kind in ("QuotaReserved", "Admitted")]
                await _status(world, "one", admission=_ADMISSION, conditions=conditions)
                await eventually(world, controller.ready.is_set)
                for _ in range(100):
                    clock.advance(0.25)
                    await asyncio.sleep(0.001)
                assert not list(controller.books.ledger.open)

    asyncio.run(story())


def test_a_preempted_and_a_finished_attempt_are_two_records() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            controller = AccountingController(world.cluster)
            async with world.running(controller):
                now = world.clock.now()
                await _create(world, "one")
                admitted = [_condition("QuotaReserved", "True", "QuotaReserved", now)]
                admitted.append(_condition("Admitted", "True", "Admitted", now))
                await _status(world, "one", admission=_ADMISSION, conditions=admitted)
                await eventually(world, lambda: len(list(controller.books.ledger.open)) == 1)

                later = now + timedelta(seconds=90)
                evicted = [
                    _condition("QuotaReserved", "False", "Pending", later),
                    _condition("Admitted", "False", "NoReservation", later),
                    _condition("Evicted", "True", "Preempted", later),
                ]
                stats = {"evictions": [{"reason": "Preempted", "underlyingCause": "", "count": 1}]}
                await _status(world, "one", admission=None, conditions=evicted, schedulingStats=stats)
                await eventually(world, lambda: _outcomes(controller) == [("one", 1, "Preempted", 90)])

                again, end = now + timedelta(seconds=100), now + timedelta(seconds=130)
                finished = [
                    _condition("QuotaReserved", "True", "QuotaReserved", again),
                    _condition("Admitted", "True", "Admitted", again),
                    _condition("Evicted", "False", "QuotaReserved", again),
                    _condition("Finished", "True", "Succeeded", end),
                ]
                await _status(world, "one", admission=_ADMISSION, conditions=finished)
                wanted = [("one", 1, "Preempted", 90), ("one", 2, "Succeeded", 30)]
                await eventually(world, lambda: _outcomes(controller) == wanted)
                await world.api.delete(WORKLOADS, "one")
                await eventually(world, lambda: not controller.books.ledger.closed)
                assert _outcomes(controller) == wanted

    asyncio.run(story())


def test_what_is_deleted_before_it_was_written_is_found_in_the_changes_after_a_crash() -> None:
    """The controller stops without a write; the next one begins where the journal ends, not with what is left."""

    async def story() -> None:
        async with local_cluster() as world:
            now = world.clock.now()
            first = AccountingController(world.cluster)
            async with world.running(first):
                await _create(world, "kept")
                admitted = [_condition("Admitted", "True", "Admitted", now)]
                await _status(world, "kept", admission=_ADMISSION, conditions=admitted)
                await eventually(world, lambda: _stored(world) == 1)
            # No controller runs now.
            over = [*admitted, _condition("Finished", "True", "Failed", now + timedelta(seconds=5))]
            await _status(world, "kept", admission=_ADMISSION, conditions=over)
            await world.api.delete(WORKLOADS, "kept")
            await _create(world, "short")
            await _status(world, "short", admission=_ADMISSION, conditions=over)
            await world.api.delete(WORKLOADS, "short")
            cluster = cluster_on(world.api, world.clock)
            second = AccountingController(cluster)
            other = LocalCluster(world.api, cluster, world.clock)
            wanted = [("kept", 1, "Failed", 5), ("short", 1, "Failed", 5)]
            async with other.running(second):
                await eventually(other, lambda: _outcomes(second) == wanted)
                await eventually(other, lambda: not second.books.has_changes)
            cluster = cluster_on(world.api, world.clock)
            third, other = AccountingController(cluster), LocalCluster(world.api, cluster, world.clock)
            async with other.running(third):
                await eventually(other, third.ready.is_set)
                await other.rest()
                assert _outcomes(third) == wanted

    asyncio.run(story())


async def _attempt_comes_and_goes(world: LocalCluster, name: str) -> None:
    now = world.clock.now()
    await _create(world, name)
    admitted = [_condition("Admitted", "True", "Admitted", now)]
    await _status(world, name, admission=_ADMISSION, conditions=admitted)
    over = [*admitted, _condition("Finished", "True", "Succeeded", now + timedelta(seconds=5))]
    await _status(world, name, admission=_ADMISSION, conditions=over)
    await world.api.delete(WORKLOADS, name)


def test_what_is_deleted_before_the_very_first_write_is_found_after_a_crash() -> None:
    """Without a journal nothing says where to begin: a new server begins with its first change, not with a list."""

    async def story() -> None:
        async with local_cluster() as world:
            first = AccountingController(world.cluster)
            wanted = [("one", 1, "Succeeded", 5)]
            async with world.running(first):
                await _attempt_comes_and_goes(world, "one")
                await world.cluster_says(lambda: _outcomes(first) == wanted)
            assert _stored(world) == 0
            cluster = cluster_on(world.api, world.clock)
            second, other = AccountingController(cluster), LocalCluster(world.api, cluster, world.clock)
            async with other.running(second):
                await eventually(other, lambda: _outcomes(second) == wanted)
                await eventually(other, lambda: _stored(other) == 1)

    asyncio.run(story())


def test_where_the_first_changes_are_forgotten_the_version_of_the_list_is_written_before_anything_happens() -> None:
    async def story() -> None:
        clock = VirtualClock()
        async with local_api(history=History(changes=40), clock=clock) as api:
            for number in range(50):
                await api.create("namespaces", {"metadata": {"name": f"n-{number}"}})
            cluster = cluster_on(api, clock)
            first, world = AccountingController(cluster), LocalCluster(api, cluster, clock)
            async with world.running(first):
                await eventually(world, lambda: _stored(world) == 1)
            await _attempt_comes_and_goes(world, "one")
            cluster = cluster_on(api, clock)
            second, world = AccountingController(cluster), LocalCluster(api, cluster, clock)
            async with world.running(second):
                await eventually(world, lambda: _outcomes(second) == [("one", 1, "Succeeded", 5)])

    asyncio.run(story())


def test_every_attempt_of_a_managed_job_is_a_record_of_its_user() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            controller = AccountingController(world.cluster, JournalLimits(lines=5, folded_every=1))
            async with world.running(controller):
                start = world.clock.now()
                job = {
                    "metadata": {"name": "train-1", "namespace": "default"},
                    "spec": {"name": "train", "id": 1, "user": "bo", "queue": "training", "tasks": [{"run": "true"}]},
                }
                await world.api.create(JOBS, job)
                attempts: list[dict[str, Any]] = []
                for number in range(1, 9):
                    begun = start + timedelta(seconds=10 * number)
                    one = {"task": 0, "attempt": number, "queuedAt": _stamp(start), "startedAt": _stamp(begun)}
                    attempts.append(one)
                    status = {"phase": "RUNNING", "attempts": attempts}
                    await world.api.patch(JOBS, "train-1", {"status": status}, subresource="status")
                    ended = {"endedAt": _stamp(begun + timedelta(seconds=7)), "outcome": "Preempted"}
                    attempts[-1] = {**one, **ended}
                    status = {"phase": "RECOVERING", "attempts": attempts}
                    await world.api.patch(JOBS, "train-1", {"status": status}, subresource="status")
                await eventually(world, lambda: len(_outcomes(controller)) == 8)
                lines = [line for _, line in controller.books.ended()]
                assert {(line.user, line.job_name, line.outcome, line.ended - line.started) for line in lines} == {
                    ("bo", "train", "Preempted", 7)
                }
                assert sorted(line.number for line in lines) == list(range(1, 9))

    asyncio.run(story())
