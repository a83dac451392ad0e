"""RayClusters and RayJobs on the real API, without the processes: those are started in tests/ray_real."""

import asyncio
from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.client.recorder import Recorder
from fairway.controllers.ray.controller import RayController
from fairway.ray import nodes
from fairway.ray.nodes import RayInstallation
from fairway.testing.clusters import LocalCluster, local_cluster

TEMPLATE = {"template": {"spec": {"containers": [{"name": "ray", "image": "ray", "resources": {}}]}}}
WORKERS = {"groupName": "small", "replicas": 2, "minReplicas": 0, "maxReplicas": 2, "rayStartParams": {}, **TEMPLATE}
CLUSTER: dict[str, Any] = {"headGroupSpec": {"rayStartParams": {}, **TEMPLATE}, "workerGroupSpecs": [WORKERS]}
JOB: dict[str, Any] = {"entrypoint": "python train.py", "rayClusterSpec": CLUSTER, "shutdownAfterJobFinishes": True}
RAYCLUSTERS, RAYJOBS = "rayclusters.ray.io", "rayjobs.ray.io"


async def _create(world: LocalCluster, resource: str, name: str, spec: dict[str, Any]) -> None:
    await world.api.create(
        resource, {"metadata": {"name": name, "namespace": "default"}, "spec": spec}, namespace="default"
    )


def _status(world: LocalCluster, resource: str, name: str = "train") -> dict[str, Any]:
    return (world.cluster.cache(resource).get("default", name) or {}).get("status") or {}


def _pods(world: LocalCluster) -> list[Any]:
    return list(world.cluster.cache("pods").items())


@pytest.mark.parametrize(
    ("resource", "spec", "inside"),
    [
        pytest.param(RAYCLUSTERS, CLUSTER, (), id="RayCluster"),
        pytest.param(RAYJOBS, JOB, ("rayClusterStatus",), id="RayJob"),
        pytest.param(RAYJOBS, {**JOB, "suspend": True}, ("rayClusterStatus",), id="suspended RayJob"),
    ],
)
def test_without_ray_a_condition_and_an_event_say_what_to_install(
    resource: str, spec: dict[str, Any], inside: tuple[str, ...]
) -> None:
    async def story() -> None:
        async with local_cluster() as world:
            recorder = Recorder(world.cluster, "fairway")
            async with world.running(RayController(world.cluster, recorder, None)):
                await _create(world, resource, "train", spec)
                await world.cluster_says(lambda: _status(world, resource).get("reason") == "RayNotInstalled")
                found = _status(world, resource)
                for name in inside:
                    found = found[name]
                (condition,) = found["conditions"]
                assert (condition["type"], condition["status"]) == ("RayClusterProvisioned", "False")
                assert "pip install 'fairway[ray]'" in condition["message"]
                await recorder.flush()
                (event,) = world.events(reason="RayNotInstalled")
                assert (event["type"], event["message"]) == ("Warning", condition["message"])
                assert _pods(world) == []

    asyncio.run(story())


RAY = RayInstallation(version="2.60.0", programs="/opt/ray/bin", start="start-ray")


def test_clusters_have_ports_and_tokens_of_their_own() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            controller = RayController(world.cluster, Recorder(world.cluster, "fairway"), RAY)
            async with world.running(controller):
                for name in ("one", "two", "three"):
                    await _create(world, RAYCLUSTERS, name, CLUSTER)
                await world.cluster_says(lambda: len(_pods(world)) == 9)
                ports = [port for pod in _pods(world) for port in nodes.ports_of(pod)]
                assert len(ports) == len(set(ports)) == 3 * (7 + 2 * 4)
                secrets = [await world.cluster.get("secrets", "default", name) for name in ("one", "two", "three")]
                assert len({one["data"]["auth_token"] for one in secrets}) == 3

    asyncio.run(story())


def test_a_suspended_cluster_has_no_pods_and_a_resumed_one_gets_new_ports() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            controller = RayController(world.cluster, Recorder(world.cluster, "fairway"), RAY)
            async with world.running(controller):
                await _create(world, RAYCLUSTERS, "train", CLUSTER)
                await world.cluster_says(lambda: len(_pods(world)) == 3)
                writer = world.cluster.writer("kueue")
                found = world.seen(RAYCLUSTERS, name="train", namespace="default")
                await writer.patch(RAYCLUSTERS, found, {"spec": {"suspend": True}})
                await world.cluster_says(lambda: _status(world, RAYCLUSTERS).get("state") == "suspended")
                assert _pods(world) == []
                assert "endpoints" not in _status(world, RAYCLUSTERS)
                await writer.patch(RAYCLUSTERS, found, {"spec": {"suspend": False}})
                await world.cluster_says(lambda: len(_pods(world)) == 3)

    asyncio.run(story())


def test_a_job_makes_its_cluster_and_suspending_removes_it() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            controller = RayController(world.cluster, Recorder(world.cluster, "fairway"), RAY)
            async with world.running(controller):
                await _create(world, RAYJOBS, "train", JOB)
                await world.cluster_says(lambda: len(_pods(world)) == 3)
                name = _status(world, RAYJOBS)["rayClusterName"]
                assert name.startswith("train-")
                states: list[tuple[str, bool]] = []
                clusters = world.cluster.cache(RAYCLUSTERS)

                def note(_old: Manifest | None, new: Manifest | None) -> None:
                    state = ((new or {}).get("status") or {}).get("jobDeploymentStatus", "")
                    states.append((state, clusters.get("default", name) is not None))

                world.cluster.cache(RAYJOBS).on_change(note)
                found = world.seen(RAYJOBS, name="train", namespace="default")
                await world.cluster.writer("kueue").patch(RAYJOBS, found, {"spec": {"suspend": True}})
                await world.cluster_says(lambda: ("Suspended", False) in states)
                assert ("Suspending", True) in states
                assert ("Suspended", True) not in states
                assert _pods(world) == []

    asyncio.run(story())


def test_a_job_of_another_with_the_name_of_the_submitter_is_named_in_an_event() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            recorder = Recorder(world.cluster, "fairway")
            async with world.running(RayController(world.cluster, recorder, RAY)):
                template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}}
                await _create(world, "jobs.batch", "train", {"template": template, "suspend": True})
                await _create(world, RAYJOBS, "train", JOB)
                await world.cluster_says(lambda: len(_pods(world)) == 3)
                cluster = world.seen(RAYCLUSTERS, name=_status(world, RAYJOBS)["rayClusterName"], namespace="default")
                for pod in _pods(world):
                    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
                    await world.cluster.writer("kubelet").patch("pods", pod, {"status": ready}, subresource="status")
                await world.cluster_says(
                    lambda: _status(world, RAYCLUSTERS, cluster["metadata"]["name"]).get("state") == "ready"
                )
                async with asyncio.timeout(60):
                    while not world.events(reason="FailedToCreateRayJobSubmitter"):
                        await recorder.flush()
                        await asyncio.sleep(0.01)
                (event,) = world.events(reason="FailedToCreateRayJobSubmitter")
                assert 'jobs.batch "train" already exists' in event["message"]
                assert _status(world, RAYJOBS)["jobDeploymentStatus"] == "Initializing"

    asyncio.run(story())
