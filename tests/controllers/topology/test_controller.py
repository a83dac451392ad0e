"""The controller of placed pods on a store: which pods it counts as those of a workload."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from controllers import timeline
from controllers.deciding import FollowingEngine
from controllers.manifests import condition, workload
from controllers.topology.test_ungating import HOST
from fairway.apis.kueue.placements import DomainPods, Placement, encode
from fairway.apis.machinery.kind import Manifest
from fairway.client.recorder import Recorder
from fairway.controllers.topology import TopologyController
from fairway.testing.clusters import LocalCluster, local_cluster

NOW = "2026-01-01T00:00:00Z"
TAINT = {"key": "example.com/unschedulable", "effect": "NoSchedule"}


@asynccontextmanager
async def placed_on_one_node(*owners: Manifest) -> AsyncIterator[LocalCluster]:
    """An admitted workload of one pod, which is to run on the node `x1`."""
    async with local_cluster(keepers=False) as local:
        recorder = Recorder(local.cluster, "kueue")
        controller = TopologyController(local.cluster, FollowingEngine(local.cluster), recorder)
        async with local.running(controller, recorder):
            node = {"metadata": {"name": "x1", "labels": {HOST: "x1"}}}
            await timeline.create(
                local, nodes=node, workloads=workload("w", metadata={"ownerReferences": list(owners)})
            )
            ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "lastTransitionTime": NOW}
            await local.api.patch("nodes", "x1", {"status": {"conditions": [ready]}}, subresource="status")
            assignment = {
                "name": "main",
                "count": 1,
                "flavors": {"cpu": "default-flavor"},
                "resourceUsage": {"cpu": "1"},
                "topologyAssignment": encode(Placement((HOST,), (DomainPods(("x1",), 1),))),
            }
            status = {
                "admission": {"clusterQueue": "cluster-queue", "podSetAssignments": [assignment]},
                "conditions": [
                    condition(kind, "True", kind, NOW, "so it is") for kind in ("QuotaReserved", "Admitted")
                ],
            }
            await local.api.patch("workloads", "w", {"status": status}, subresource="status")
            await timeline.catch_up(local)
            yield local


def running_pod() -> Manifest:
    """It says which workload it is of, and asks for no topology itself."""
    return {
        "metadata": {"name": "p", "namespace": "default", "annotations": {"kueue.x-k8s.io/workload": "w"}},
        "spec": {"containers": [{"name": "c", "image": "x"}], "nodeName": "x1", "nodeSelector": {HOST: "x1"}},
    }


@pytest.mark.parametrize(
    ("runs", "want"),
    [
        pytest.param(True, None, id="a pod that runs keeps its node"),
        pytest.param(False, [{"name": "x1"}], id="without one the node is lost"),
    ],
)
def test_a_taint_loses_a_node_only_where_no_pod_runs(*, runs: bool, want: list[Manifest] | None) -> None:
    async def story() -> None:
        async with placed_on_one_node() as local:
            if runs:
                await timeline.create(local, pods=running_pod())
                await local.api.patch("pods", "p", {"status": {"phase": "Running"}}, subresource="status")
                await timeline.catch_up(local)
            await local.api.patch("nodes", "x1", {"spec": {"taints": [TAINT]}}, namespace="")
            await timeline.catch_up(local)
            await timeline.pass_time(local, 1)
            found = local.api.get("workloads", "w")
            assert found is not None
            assert found["status"].get("unhealthyNodes") == want

    asyncio.run(story())


@pytest.mark.parametrize(("kind", "group"), [("Pod", "v1"), ("Job", "batch/v1")])
def test_the_workload_of_a_single_pod_keeps_its_place(kind: str, group: str) -> None:
    """The pod cannot move to another node, and its workload does not outlive it."""

    async def story() -> None:
        owner = {"apiVersion": group, "kind": kind, "name": "o", "uid": "u"}
        async with placed_on_one_node(owner) as local:
            not_ready = {"type": "Ready", "status": "False", "reason": "Broken", "message": ""}
            status = {"conditions": [{**not_ready, "lastTransitionTime": NOW}]}
            await local.api.patch("nodes", "x1", {"status": status}, subresource="status")
            await timeline.catch_up(local)
            await timeline.pass_time(local, 1)
            found = local.api.get("workloads", "w")
            assert found is not None
            assert found["status"].get("unhealthyNodes") == (None if kind == "Pod" else [{"name": "x1"}])

    asyncio.run(story())
