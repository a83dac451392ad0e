"""Time, the queue and what queues show, all together: the controllers as they run in a server.

Each test runs twice: with the engine beside the controllers, and with an engine that they know only by what it writes.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from controllers import timeline
from controllers.manifests import admission, cluster_queue, condition, flavor, local_queue, released, workload
from fairway.admission.port import Decider
from fairway.apis.kueue.configuration import Configuration, WaitForPodsReady
from fairway.client.recorder import Recorder
from fairway.controllers.admission import QueueingController
from fairway.controllers.decider import StoredDecider
from fairway.controllers.kit.configuration import FixedConfiguration
from fairway.controllers.queuestatus import QueueStatuses
from fairway.controllers.workload import WorkloadLifecycle
from fairway.testing.clusters import LocalCluster, Running, cluster_on, local_cluster

HALF_AN_HOUR = 1800.0


@pytest.fixture(params=["engine in this process", "engine elsewhere"])
def arrangement(request: pytest.FixtureRequest) -> Iterator[None]:
    _ELSEWHERE.append(request.param == "engine elsewhere")
    yield
    _ELSEWHERE.pop()


_ELSEWHERE: list[bool] = []
pytestmark = pytest.mark.usefixtures("arrangement")


@asynccontextmanager
async def everything(configuration: Configuration | None = None) -> AsyncIterator[LocalCluster]:
    async with local_cluster(keepers=False) as local, AsyncExitStack() as running:
        recorder = Recorder(local.cluster, "kueue")
        fixed = FixedConfiguration(configuration)
        decider: Decider
        mine: list[Running] = []
        if _ELSEWHERE[-1]:
            there = LocalCluster(local.api, cluster_on(local.api, local.clock), local.clock)
            its_recorder = Recorder(there.cluster, "kueue")
            engine = QueueingController(there.cluster, fixed, its_recorder)
            await running.enter_async_context(there.running(engine, its_recorder))
            decider = StoredDecider(local.cluster, fixed)
        else:
            decider = engine = QueueingController(local.cluster, fixed, recorder)
            mine.append(engine)
        lifecycle = WorkloadLifecycle(local.cluster, decider, fixed, recorder)
        async with local.running(*mine, lifecycle, QueueStatuses(local.cluster, decider, fixed), recorder):
            await timeline.create(
                local, resourceflavors=flavor(), clusterqueues=cluster_queue(), localqueues=local_queue()
            )
            yield local


def status(local: LocalCluster, kind: str, name: str) -> dict[str, Any]:
    found = local.api.get(kind, name)
    assert found is not None
    return dict(found.get("status") or {})


def conditions(local: LocalCluster, name: str = "w") -> dict[str, tuple[str, str, str]]:
    return {
        one["type"]: (one["status"], one["reason"], one["message"])
        for one in status(local, "workloads", name)["conditions"]
    }


def figures(local: LocalCluster) -> tuple[int, int, int]:
    """Who waits, who has quota, who is admitted, as the ClusterQueue and its LocalQueue agree."""
    shown = [
        (found["pendingWorkloads"], found["reservingWorkloads"], found["admittedWorkloads"])
        for found in (status(local, "clusterqueues", "cluster-queue"), status(local, "localqueues", "user-queue"))
    ]
    assert shown[0] == shown[1]
    return shown[0]


async def stop_job(local: LocalCluster, name: str = "w") -> None:
    """What a job controller does when its workload was evicted."""
    found = local.api.get("workloads", name)
    assert found is not None
    patch = released(found, local.clock.now())
    await local.api.patch("workloads", name, patch, subresource="status")
    await timeline.catch_up(local)


def test_pods_that_never_come_are_evicted_and_tried_again_later() -> None:
    async def story() -> None:
        async with everything() as local:
            await timeline.create(local, workloads=workload())
            await timeline.pass_time(local, 2)
            assert figures(local) == (0, 1, 1)

            await timeline.pass_time(local, HALF_AN_HOUR, step=60)
            evicted = conditions(local)["Evicted"]
            assert evicted == ("True", "PodsReadyTimeout", "Exceeded the PodsReady timeout default/w")
            found = status(local, "workloads", "w")
            assert found["requeueState"]["count"] == 1
            assert found["schedulingStats"]["evictions"] == [
                {"reason": "PodsReadyTimeout", "underlyingCause": "WaitForStart", "count": 1}
            ]

            await stop_job(local)
            await timeline.pass_time(local, 2)
            assert figures(local) == (1, 0, 0)
            await timeline.pass_time(local, 70, step=1)
            assert conditions(local)["Requeued"][:2] == ("True", "BackoffFinished")
            assert figures(local) == (0, 1, 1)

    asyncio.run(story())


def test_too_many_tries_end_in_a_deactivation() -> None:
    async def story() -> None:
        rules = WaitForPodsReady(timeout_seconds=60, backoff_limit=0)
        async with everything(Configuration(wait_for_pods_ready=rules)) as local:
            await timeline.create(local, workloads=workload())
            await timeline.pass_time(local, 62, step=1)
            found = local.api.get("workloads", "w")
            assert found is not None
            assert found["spec"]["active"] is False
            assert conditions(local)["Evicted"] == (
                "True",
                "DeactivatedDueToRequeuingLimitExceeded",
                "The workload is deactivated due to exceeding the maximum number of re-queuing retries",
            )
            assert figures(local) == (0, 0, 0)

    asyncio.run(story())


def test_a_run_that_takes_too_long_ends() -> None:
    async def story() -> None:
        async with everything() as local:
            await timeline.create(local, workloads=workload(maximumExecutionTimeSeconds=120))
            await timeline.pass_time(local, 122, step=1)
            found = local.api.get("workloads", "w")
            assert found is not None
            assert found["spec"]["active"] is False
            assert conditions(local)["Evicted"] == (
                "True",
                "DeactivatedDueToMaximumExecutionTimeExceeded",
                "The workload is deactivated due to exceeding the maximum execution time",
            )
            assert "DeactivationTarget" not in conditions(local)

    asyncio.run(story())


def test_the_events_of_a_run_that_takes_too_long_say_so() -> None:
    async def story() -> None:
        async with everything() as local:
            await timeline.create(local, workloads=workload(maximumExecutionTimeSeconds=120))
            await timeline.pass_time(local, 122, step=1)
            (warning,) = local.events("MaximumExecutionTimeExceeded")
            assert warning["message"] == "The maximum execution time (120s) exceeded"
            assert local.events("EvictedDueToDeactivatedDueToMaximumExecutionTimeExceeded")

    asyncio.run(story())


def test_quota_in_a_queue_that_is_not_there_starts_a_workload_and_its_time() -> None:
    """Quota that another writer gave: Kueue asks for no ClusterQueue then, only for checks."""

    async def story() -> None:
        async with everything() as local:
            await timeline.create(local, workloads=workload(queueName="none", maximumExecutionTimeSeconds=120))
            found = local.api.get("workloads", "w")
            assert found is not None
            now = local.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
            reserved = condition("QuotaReserved", "True", "QuotaReserved", now)
            given = {"admission": admission("none"), "conditions": [reserved]}
            await local.api.patch("workloads", "w", {"status": given}, subresource="status")
            await timeline.pass_time(local, 1)
            assert conditions(local)["Admitted"] == ("True", "Admitted", "The workload is admitted")
            await timeline.pass_time(local, 122, step=1)
            assert conditions(local)["Evicted"][1] == "DeactivatedDueToMaximumExecutionTimeExceeded"

    asyncio.run(story())


def test_an_orphan_gives_its_quota_back() -> None:
    async def story() -> None:
        async with everything() as local:
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "u", "controller": True}
            metadata = {"labels": {"kueue.x-k8s.io/job-uid": "u"}, "ownerReferences": [owner]}
            await timeline.create(local, workloads=workload(metadata=metadata))
            await timeline.pass_time(local, 2)
            assert figures(local) == (0, 1, 1)
            await local.api.patch("workloads", "w", {"metadata": {"ownerReferences": None}})
            await timeline.catch_up(local)
            await timeline.pass_time(local, 2)
            assert conditions(local)["Finished"][:2] == ("True", "OwnerNotFound")
            assert figures(local) == (0, 0, 0)

    asyncio.run(story())


def test_a_class_that_gets_more_important_overtakes() -> None:
    async def story() -> None:
        async with everything() as local:
            classes = [{"metadata": {"name": name}, "value": 10} for name in ("dev", "prod")]
            await timeline.create(local, workloadpriorityclasses=classes, workloads=workload("runs", pods=4))
            for name in ("dev", "prod"):
                by_class = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": name}
                await timeline.create(local, workloads=workload(name, pods=4, priorityClassRef=by_class, priority=10))
            await local.api.patch("workloadpriorityclasses", "prod", {"value": 100})
            await timeline.catch_up(local)
            await local.api.delete("workloads", "runs")
            await timeline.catch_up(local)
            await timeline.pass_time(local, 2)
            assert conditions(local, "prod")["Admitted"][0] == "True"
            assert figures(local) == (1, 1, 1)

    asyncio.run(story())


def test_a_queue_that_is_deleted_while_it_works_ends_with_its_work() -> None:
    async def story() -> None:
        async with everything() as local:
            await timeline.create(local, workloads=[workload("runs", pods=4), workload("waits", pods=4)])
            await timeline.pass_time(local, 2)
            await local.api.delete("clusterqueues", "cluster-queue")
            await timeline.catch_up(local)
            await timeline.pass_time(local, 2)
            (active,) = status(local, "clusterqueues", "cluster-queue")["conditions"]
            assert active["reason"] == "Terminating"
            await local.api.delete("workloads", "runs")
            await timeline.catch_up(local)
            await timeline.pass_time(local, 0.2)
            assert local.api.get("clusterqueues", "cluster-queue") is None
            await timeline.pass_time(local, 2)
            assert status(local, "localqueues", "user-queue")["pendingWorkloads"] == 1
            (active,) = status(local, "localqueues", "user-queue")["conditions"]
            assert active["reason"] == "ClusterQueueDoesNotExist"

    asyncio.run(story())
