"""What is in use is kept until it is not, and what is not in use goes at once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from controllers import timeline
from controllers.deciding import FollowingEngine
from controllers.manifests import admission, cluster_queue, condition, flavor, local_queue, workload
from fairway.apis.machinery.kind import Manifest
from fairway.controllers.kit.configuration import FixedConfiguration
from fairway.controllers.queuestatus import QueueStatuses
from fairway.testing.clusters import LocalCluster, local_cluster

IN_USE = "kueue.x-k8s.io/resource-in-use"
NOW = "2026-01-01T00:00:00Z"
CHECK = {"metadata": {"name": "check"}, "spec": {"controllerName": "example.com/check"}}
TOPOLOGY = {"metadata": {"name": "racks"}, "spec": {"levels": [{"nodeLabel": "example.com/rack"}]}}


@asynccontextmanager
async def queues() -> AsyncIterator[tuple[LocalCluster, FollowingEngine]]:
    async with local_cluster(keepers=False) as local:
        engine = FollowingEngine(local.cluster)
        async with local.running(engine, QueueStatuses(local.cluster, engine, FixedConfiguration())):
            yield local, engine


@pytest.mark.parametrize(
    ("kind", "manifest", "want"),
    [
        pytest.param("clusterqueues", cluster_queue("mine"), [IN_USE], id="a ClusterQueue"),
        pytest.param("resourceflavors", flavor("mine"), [IN_USE], id="a flavor"),
        pytest.param("admissionchecks", {**CHECK, "metadata": {"name": "mine"}}, [IN_USE], id="an admission check"),
        pytest.param("topologies", {**TOPOLOGY, "metadata": {"name": "mine"}}, [IN_USE], id="a topology"),
        pytest.param("localqueues", local_queue("mine"), None, id="not a LocalQueue"),
        pytest.param("cohorts", {"metadata": {"name": "mine"}}, None, id="not a cohort"),
        pytest.param(
            "resourceflavors",
            {"metadata": {"name": "mine", "finalizers": ["example.com/own"]}},
            ["example.com/own", IN_USE],
            id="beside the finalizers of others",
        ),
    ],
)
def test_who_gets_the_finalizer_and_goes_at_once_when_unused(
    kind: str, manifest: Manifest, want: list[str] | None
) -> None:
    async def story() -> None:
        async with queues() as (local, _):
            await timeline.create(local, **{kind: manifest})
            found = local.api.get(kind, "mine")
            assert found is not None
            assert found["metadata"].get("finalizers") == want
            await timeline.pass_time(local, 3)
            await local.api.delete(kind, "mine")
            await timeline.catch_up(local)
            await timeline.pass_time(local, 0.05)
            left = local.api.get(kind, "mine")
            assert (left["metadata"]["finalizers"] if left else []) == [one for one in want or () if one != IN_USE]

    asyncio.run(story())


def test_a_chain_of_users_goes_one_after_the_other() -> None:
    async def story() -> None:
        async with queues() as (local, _):
            rack = flavor("rack", topologyName="racks", nodeLabels={"example.com/tier": "gold"})
            queue = cluster_queue("queue", "rack", admissionChecksStrategy={"admissionChecks": [{"name": "check"}]})
            await timeline.create(
                local, topologies=TOPOLOGY, admissionchecks=CHECK, resourceflavors=rack, clusterqueues=queue
            )
            everybody = [("topologies", "racks"), ("admissionchecks", "check"), ("resourceflavors", "rack")]
            for kind, name in everybody:
                await local.api.delete(kind, name)
            await timeline.pass_time(local, 5)
            assert all(local.api.get(kind, name) for kind, name in everybody)
            await local.api.delete("clusterqueues", "queue")
            await timeline.catch_up(local)
            await timeline.pass_time(local, 0.1)
            assert not any(local.api.get(kind, name) for kind, name in [*everybody, ("clusterqueues", "queue")])

    asyncio.run(story())


def test_a_flavor_goes_when_its_last_queue_lets_go_of_it() -> None:
    async def story() -> None:
        async with queues() as (local, _):
            flavors = [flavor("old"), flavor("new")]
            await timeline.create(local, resourceflavors=flavors, clusterqueues=cluster_queue("queue", "old", "new"))
            await local.api.delete("resourceflavors", "old")
            await timeline.catch_up(local)
            assert local.api.get("resourceflavors", "old")
            await local.api.patch("clusterqueues", "queue", cluster_queue("queue", "new"))
            await timeline.catch_up(local)
            assert local.api.get("resourceflavors", "old") is None
            assert local.api.get("resourceflavors", "new")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("kind", "name", "comes_back"),
    [("resourceflavors", "used", False), ("topologies", "racks", False), ("clusterqueues", "queue", True)],
)
def test_what_loses_its_finalizer_can_be_deleted_by_force_unless_it_is_a_queue(
    kind: str, name: str, *, comes_back: bool
) -> None:
    async def story() -> None:
        async with queues() as (local, _):
            racks = {"metadata": {"name": "racks"}, "spec": TOPOLOGY["spec"]}
            used = flavor("used", topologyName="racks", nodeLabels={"example.com/tier": "gold"})
            await timeline.create(
                local, topologies=racks, resourceflavors=used, clusterqueues=cluster_queue("queue", "used")
            )
            await local.api.patch(kind, name, {"metadata": {"finalizers": None}})
            await timeline.catch_up(local)
            found = local.api.get(kind, name)
            assert found is not None
            assert (IN_USE in found["metadata"].get("finalizers", ())) is comes_back

    asyncio.run(story())


def test_a_queue_with_running_workloads_ends_when_they_do() -> None:
    async def story() -> None:
        async with queues() as (local, _):
            await timeline.create(
                local, resourceflavors=flavor(), clusterqueues=cluster_queue(), localqueues=local_queue()
            )
            await timeline.create(local, workloads=workload())
            reserved = condition("QuotaReserved", "True", "QuotaReserved", NOW)
            admitted = condition("Admitted", "True", "Admitted", NOW)
            status = {"admission": admission(), "conditions": [reserved, admitted]}
            await local.api.patch("workloads", "w", {"status": status}, subresource="status")
            await timeline.catch_up(local)

            await local.api.delete("clusterqueues", "cluster-queue")
            await timeline.catch_up(local)
            await timeline.pass_time(local, 5)
            queue = local.api.get("clusterqueues", "cluster-queue")
            assert queue is not None
            (active,) = queue["status"]["conditions"]
            assert (active["status"], active["reason"]) == ("False", "Terminating")
            assert active["message"] == "Can't admit new workloads; clusterQueue is terminating"
            assert queue["status"]["reservingWorkloads"] == 1

            finished = condition("Finished", "True", "Succeeded", NOW)
            await local.api.patch(
                "workloads", "w", {"status": {"conditions": [reserved, admitted, finished]}}, subresource="status"
            )
            await timeline.catch_up(local)
            await timeline.pass_time(local, 0.05)
            assert local.api.get("clusterqueues", "cluster-queue") is None

    asyncio.run(story())


def test_a_queue_does_not_go_while_the_engine_may_still_admit_to_it() -> None:
    """The engine had admitted a workload that was not written yet when its queue went, and the workload kept it."""

    async def story() -> None:
        async with queues() as (local, engine):
            await timeline.create(
                local, resourceflavors=flavor(), clusterqueues=cluster_queue(), localqueues=local_queue()
            )
            engine.be_deaf()
            await local.api.delete("clusterqueues", "cluster-queue")
            await timeline.catch_up(local)
            await timeline.pass_time(local, 1)
            assert local.api.get("clusterqueues", "cluster-queue")
            engine.listen()
            await timeline.pass_time(local, 0.05)
            assert local.api.get("clusterqueues", "cluster-queue") is None

    asyncio.run(story())


def test_a_queue_marked_before_a_restart_is_let_go_of_after_it() -> None:
    async def story() -> None:
        async with local_cluster(keepers=False) as local:
            held = {**cluster_queue(), "metadata": {"name": "cluster-queue", "finalizers": [IN_USE]}}
            await local.api.create("clusterqueues", held)
            await local.api.delete("clusterqueues", "cluster-queue")
            engine = FollowingEngine(local.cluster)
            async with local.running(engine, QueueStatuses(local.cluster, engine, FixedConfiguration())):
                await timeline.catch_up(local)
                await timeline.pass_time(local, 0.1)
                assert local.api.get("clusterqueues", "cluster-queue") is None

    asyncio.run(story())
