"""Workloads with quota whose pods fit on no node: said on the Workload, and given up after a time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from controllers import timeline
from controllers.deciding import FollowingEngine
from controllers.manifests import admission, cluster_queue, condition, flavor, local_queue, workload
from controllers.scheduler.things import node, pod
from fairway.admission.events import EvictionRequested
from fairway.admission.instructions import Evict
from fairway.apis.kueue.configuration import Configuration
from fairway.apis.machinery.kind import Manifest
from fairway.client.recorder import Recorder
from fairway.controllers.kit.configuration import FixedConfiguration
from fairway.controllers.placement import WaitingForNode
from fairway.controllers.scheduler import Scheduler
from fairway.controllers.workload import WorkloadLifecycle
from fairway.testing.clusters import LocalCluster, local_cluster

NOW = "2026-01-01T00:00:00Z"
FULL = "0/1 nodes are available: 1 Insufficient cpu."
FIVE_MINUTES = 300.0


class World(NamedTuple):
    local: LocalCluster
    engine: FollowingEngine

    async def admitted(self, *pods: str, cpu: str = "3") -> None:
        """A Workload with quota, and these pods of its owner."""
        owner = await self.local.api.create("configmaps", {"metadata": {"name": "job", "namespace": "default"}})
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "job", "uid": owner["metadata"]["uid"]}
        owned = {"ownerReferences": [{**reference, "controller": True}]}
        await timeline.create(self.local, workloads=workload(metadata=owned, pods=len(pods)))
        conditions = [
            condition("QuotaReserved", "True", "QuotaReserved", NOW),
            condition("Admitted", "True", "Admitted", NOW),
        ]
        status = {"conditions": conditions, "admission": admission(count=len(pods))}
        await self.local.api.patch("workloads", "w", {"status": status}, subresource="status")
        await timeline.catch_up(self.local)
        for name in pods:
            made = pod(name, {"cpu": cpu})
            made["metadata"] |= owned
            await timeline.create(self.local, pods=made)

    async def pass_time(self, seconds: float) -> None:
        await timeline.pass_time(self.local, seconds, step=seconds / 4)

    def condition(self) -> tuple[str, str, str] | None:
        found = self.local.api.get("workloads", "w") or {}
        for one in (found.get("status") or {}).get("conditions") or ():
            if one["type"] == "WaitingForNode":
                return one["status"], one["reason"], one["message"]
        return None

    def requests(self) -> list[EvictionRequested]:
        return [one for one in self.engine.told if isinstance(one, EvictionRequested)]


@asynccontextmanager
async def world(configuration: Configuration | None = None, **allocatable: Any) -> AsyncIterator[World]:
    async with local_cluster(keepers=False) as local:
        engine, recorder = FollowingEngine(local.cluster), Recorder(local.cluster, "test")
        fixed = FixedConfiguration(configuration)
        parts = (
            Scheduler(local.cluster, recorder),
            WaitingForNode(local.cluster),
            WorkloadLifecycle(local.cluster, engine, fixed, recorder),
        )
        await timeline.create(
            local,
            resourceflavors=flavor(),
            clusterqueues=cluster_queue(),
            localqueues=local_queue(),
            nodes=node(allocatable=allocatable),
        )
        async with local.running(engine, *parts):
            yield World(local, engine)


async def occupy(local: LocalCluster, cpu: str) -> Manifest:
    """A pod outside every queue."""
    await timeline.create(local, pods=pod("other", {"cpu": cpu}))
    found = local.api.get("pods", "other")
    assert found is not None
    return found


def test_a_workload_whose_pods_have_no_node_for_a_moment_says_nothing() -> None:
    async def story() -> None:
        async with world() as here:
            await occupy(here.local, "2")
            await here.admitted("p1")
            assert here.condition() is None

    asyncio.run(story())


def test_a_workload_whose_pods_fit_nowhere_says_so_until_they_do() -> None:
    async def story() -> None:
        async with world() as here:
            await occupy(here.local, "2")
            await here.admitted("p1")
            await here.pass_time(2)
            assert here.condition() == ("True", "Unschedulable", FULL)
            ended = {"status": {"phase": "Succeeded"}}
            await here.local.api.patch("pods", "other", ended, subresource="status")
            await here.pass_time(2)
            assert here.condition() == ("False", "Placed", "No pod waits for a node")

    asyncio.run(story())


def test_pods_that_get_a_node_at_once_cost_no_write() -> None:
    async def story() -> None:
        async with world() as here:
            await here.admitted("p1")
            await here.pass_time(4)
            assert here.condition() is None

    asyncio.run(story())


def test_one_of_which_nothing_runs_gives_its_quota_back_after_five_minutes() -> None:
    async def story() -> None:
        async with world() as here:
            await occupy(here.local, "2")
            await here.admitted("p1")
            await here.pass_time(FIVE_MINUTES - 4)
            assert not here.requests()
            await here.pass_time(8)
            request = here.requests()[0]
            assert (request.reason, request.cause) == ("PodsReadyTimeout", "WaitForStart")
            assert request.message == f"No node had room for its pods within 300s: {FULL}"
            evict = next(one for one in here.engine.said if isinstance(one, Evict))
            assert evict.requeue_at is not None

    asyncio.run(story())


def test_one_of_which_some_pods_run_keeps_its_quota() -> None:
    async def story() -> None:
        async with world() as here:
            await here.admitted("p1", "p2")
            await here.pass_time(2)
            assert here.condition() == ("True", "PartlyUnschedulable", FULL)
            await here.pass_time(FIVE_MINUTES * 2)
            assert not here.requests()

    asyncio.run(story())


def test_how_long_it_may_wait_is_configured() -> None:
    async def story() -> None:
        async with world(Configuration(node_timeout_seconds=None)) as here:
            await occupy(here.local, "2")
            await here.admitted("p1")
            await here.pass_time(FIVE_MINUTES * 2)
            assert not here.requests()

    asyncio.run(story())
