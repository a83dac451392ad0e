"""Time passes over Workloads: half hours in milliseconds, on a real store and a real engine."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from controllers import timeline
from controllers.deciding import FollowingEngine
from controllers.manifests import admission, cluster_queue, condition, flavor, local_queue, workload
from fairway.admission.events import EvictionRequested
from fairway.admission.instructions import Deactivate, Evict
from fairway.apis.kueue.configuration import Configuration
from fairway.apis.machinery.kind import Manifest
from fairway.client.recorder import Recorder
from fairway.controllers.kit.configuration import FixedConfiguration
from fairway.controllers.workload import WorkloadLifecycle
from fairway.testing.clusters import LocalCluster, cluster_on, local_cluster

NOW = "2026-01-01T00:00:00Z"
HALF_AN_HOUR = 1800.0


class World(NamedTuple):
    local: LocalCluster
    engine: FollowingEngine
    configuration: FixedConfiguration
    recorder: Recorder

    async def admit(self, made: Manifest) -> None:
        """Create a workload that runs since the clock began."""
        await timeline.create(self.local, workloads=made)
        conditions = [
            condition("QuotaReserved", "True", "QuotaReserved", NOW),
            condition("Admitted", "True", "Admitted", NOW),
        ]
        await self.add(*conditions, name=made["metadata"]["name"], admission=admission())

    async def add(self, *conditions: Manifest, name: str = "w", **status: object) -> None:
        found = self.local.api.get("workloads", name)
        assert found is not None
        known = (found.get("status") or {}).get("conditions") or []
        patch = {"status": {"conditions": [*known, *conditions], **status}}
        await self.local.api.patch("workloads", name, patch, subresource="status")
        await timeline.catch_up(self.local)

    async def pass_time(self, seconds: float) -> None:
        await timeline.pass_time(self.local, seconds, step=seconds / 4)

    def requests(self) -> list[tuple[str, str, str]]:
        return [(one.key, one.reason, one.cause) for one in self.engine.told if isinstance(one, EvictionRequested)]

    def finished(self, name: str = "w") -> str:
        found = self.local.api.get("workloads", name) or {}
        conditions = (found.get("status") or {}).get("conditions") or ()
        return next((one["reason"] for one in conditions if one["type"] == "Finished"), "")


@asynccontextmanager
async def lifecycle(configuration: Configuration | None = None) -> AsyncIterator[World]:
    async with local_cluster(keepers=False) as local:
        world = world_on(local, configuration)
        await timeline.create(local, resourceflavors=flavor(), clusterqueues=cluster_queue(), localqueues=local_queue())
        async with running(world):
            yield world


def world_on(local: LocalCluster, configuration: Configuration | None = None) -> World:
    recorder = Recorder(local.cluster, "kueue-workload-controller")
    return World(local, FollowingEngine(local.cluster), FixedConfiguration(configuration), recorder)


@asynccontextmanager
async def running(world: World) -> AsyncIterator[None]:
    controller = WorkloadLifecycle(world.local.cluster, world.engine, world.configuration, world.recorder)
    async with world.local.running(world.engine, controller):
        yield


def test_pods_that_do_not_come_are_evicted_after_half_an_hour() -> None:
    async def story() -> None:
        async with lifecycle() as world:
            await world.admit(workload())
            await world.pass_time(HALF_AN_HOUR - 1)
            assert not world.requests()
            await world.pass_time(1)
            assert world.requests() == [("default/w", "PodsReadyTimeout", "WaitForStart")]
            (evict,) = [one for one in world.engine.said if isinstance(one, Evict)]
            assert evict.requeue_at == world.local.clock.now().timestamp() + 60

    asyncio.run(story())


def test_a_failed_pod_has_half_an_hour_to_recover() -> None:
    async def story() -> None:
        async with lifecycle() as world:
            await world.admit(workload())
            await world.add(condition("PodsReady", "False", "WaitForRecovery", NOW))
            await world.pass_time(HALF_AN_HOUR)
            assert world.requests() == [("default/w", "PodsReadyTimeout", "WaitForRecovery")]

    asyncio.run(story())


def test_ready_pods_end_the_wait() -> None:
    async def story() -> None:
        async with lifecycle() as world:
            await world.admit(workload())
            await world.pass_time(HALF_AN_HOUR / 2)
            await world.add(condition("PodsReady", "True", "Started", NOW))
            await world.pass_time(10 * HALF_AN_HOUR)
            assert not world.requests()

    asyncio.run(story())


def test_an_eviction_that_does_not_show_is_asked_for_again() -> None:
    """Somebody else wrote to the workload first, the engine took its eviction back, and nobody thought of it again."""

    async def story() -> None:
        async with lifecycle() as world:
            await world.admit(workload())
            await world.pass_time(HALF_AN_HOUR)
            await world.pass_time(5)
            assert len(world.requests()) == 2
            await world.add(condition("Evicted", "True", "PodsReadyTimeout", NOW))
            await world.pass_time(60)
            assert len(world.requests()) == 2
            assert world.local.clock.next_due() is None

    asyncio.run(story())


def test_a_run_that_takes_too_long_is_deactivated_with_a_warning() -> None:
    async def story() -> None:
        async with lifecycle() as world:
            await world.admit(workload(maximumExecutionTimeSeconds=90))
            await world.add(condition("PodsReady", "True", "Started", NOW))
            await world.pass_time(90)
            assert world.requests() == [("default/w", "Deactivated", "MaximumExecutionTimeExceeded")]
            (deactivate,) = [one for one in world.engine.said if isinstance(one, Deactivate)]
            assert deactivate.cause == "MaximumExecutionTimeExceeded"
            await world.recorder.flush()
            (event,) = world.local.events("MaximumExecutionTimeExceeded")
            assert (event["type"], event["message"]) == ("Warning", "The maximum execution time (90s) exceeded")

    asyncio.run(story())


def test_timers_run_on_in_the_next_process() -> None:
    async def story() -> None:
        async with local_cluster(keepers=False) as local:
            first = world_on(local)
            async with running(first):
                await timeline.create(
                    local, resourceflavors=flavor(), clusterqueues=cluster_queue(), localqueues=local_queue()
                )
                await first.admit(workload())
                await first.pass_time(HALF_AN_HOUR / 2)
            again = LocalCluster(local.api, cluster_on(local.api, local.clock), local.clock)
            second = world_on(again)
            async with running(second):
                await second.pass_time(HALF_AN_HOUR / 2 - 1)
                assert not second.requests()
                await second.pass_time(1)
                assert second.requests() == [("default/w", "PodsReadyTimeout", "WaitForStart")]
            assert not first.requests()

    asyncio.run(story())


def test_finished_ones_are_deleted_when_they_were_kept_long_enough() -> None:
    async def story() -> None:
        async with lifecycle() as world:
            await world.admit(workload())
            held = {"finalizers": ["kueue.x-k8s.io/resource-in-use"]}
            await world.admit(workload("held", metadata=held))
            for name in ("w", "held"):
                await world.add(condition("Finished", "True", "Succeeded", NOW), name=name)
            await world.pass_time(7200)
            assert world.local.api.names("workloads") == {"w", "held"}
            world.configuration.set(Configuration(finished_retention_seconds=10800))
            await world.pass_time(3599)
            assert world.local.api.names("workloads") == {"w", "held"}
            await world.pass_time(1)
            assert world.local.api.names("workloads") == set()
            await world.recorder.flush()
            events = world.local.events("Deleted")
            assert {event["message"] for event in events} == {"Deleted finished workload due to elapsed retention"}
            assert len(events) == 2

    asyncio.run(story())


def test_an_orphan_is_finished() -> None:
    async def story() -> None:
        async with lifecycle() as world:
            await timeline.create(
                world.local, workloads=workload(metadata={"labels": {"kueue.x-k8s.io/job-uid": "gone"}})
            )
            assert world.finished() == "OwnerNotFound"

    asyncio.run(story())


def by_class(name: str, value: int, kind: str = "WorkloadPriorityClass") -> dict[str, Any]:
    group = "kueue.x-k8s.io" if kind == "WorkloadPriorityClass" else "scheduling.k8s.io"
    return {"priorityClassRef": {"group": group, "kind": kind, "name": name}, "priority": value}


def test_a_class_that_changes_its_value_takes_its_workloads_along() -> None:
    async def story() -> None:
        async with lifecycle() as world:
            classes = [{"metadata": {"name": name}, "value": 10} for name in ("dev", "prod")]
            await timeline.create(world.local, workloadpriorityclasses=classes)
            waiting = [workload(f"d{number}", **by_class("dev", 10)) for number in range(100)]
            others = [workload("p", **by_class("prod", 10)), workload("pod", **by_class("dev", 10, "PriorityClass"))]
            await timeline.create(world.local, workloads=[*waiting, *others, workload("done", **by_class("dev", 10))])
            await world.admit(workload("runs", **by_class("dev", 10)))
            await world.add(condition("Finished", "True", "Succeeded", NOW), name="done")

            await world.local.api.patch("workloadpriorityclasses", "dev", {"value": 500})
            await timeline.catch_up(world.local)
            priorities = {
                name: found["spec"]["priority"]
                for name in world.local.api.names("workloads")
                if (found := world.local.api.get("workloads", name))
            }
            assert {priorities[f"d{number}"] for number in range(100)} == {500}
            assert priorities["runs"] == 500
            assert [priorities[name] for name in ("p", "pod", "done")] == [10, 10, 10]

    asyncio.run(story())


def test_a_priority_that_somebody_set_by_hand_stays() -> None:
    async def story() -> None:
        async with lifecycle() as world:
            await timeline.create(world.local, workloadpriorityclasses={"metadata": {"name": "dev"}, "value": 10})
            await timeline.create(world.local, workloads=workload(**by_class("dev", 10)))
            await world.local.api.patch("workloads", "w", {"spec": {"priority": 99}})
            await timeline.catch_up(world.local)
            await world.local.api.patch("workloadpriorityclasses", "dev", {"description": "for developers"})
            await timeline.catch_up(world.local)
            found = world.local.api.get("workloads", "w")
            assert found is not None
            assert found["spec"]["priority"] == 99

    asyncio.run(story())
