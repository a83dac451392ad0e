"""RayJobs and RayClusters and their workloads, where the test plays the queue and KubeRay."""

import asyncio
from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.errors import ValidationError
from fairway.integrations import conditions
from fairway.integrations.workloads import owner_reference, workload_name

from .scene import Scene, a_scene

QUEUE = "kueue.x-k8s.io/queue-name"
SPOT = {"instance": "spot"}


def _template() -> Manifest:
    return {"spec": {"containers": [{"name": "ray", "image": "ray", "resources": {"requests": {"cpu": "1"}}}]}}


def _cluster_spec() -> Manifest:
    group = {"groupName": "workers", "replicas": 2, "minReplicas": 2, "maxReplicas": 2, "rayStartParams": {}}
    head = {"rayStartParams": {}, "template": _template()}
    return {"headGroupSpec": head, "workerGroupSpecs": [{**group, "template": _template()}]}


def _object(kind: str, spec: Manifest, **metadata: Any) -> Manifest:
    meta = {"name": "train", "namespace": "default", "labels": {QUEUE: "user-queue"}, **metadata}
    return {"apiVersion": "ray.io/v1", "kind": kind, "metadata": meta, "spec": spec}


def a_ray_job(**spec: Any) -> Manifest:
    given = {"entrypoint": "python train.py", "shutdownAfterJobFinishes": True, "rayClusterSpec": _cluster_spec()}
    return _object("RayJob", {**given, **spec})


class RayScene:
    """One RayJob or RayCluster called `train`."""

    def __init__(self, scene: Scene, kind: str) -> None:
        self.scene = scene
        self.kind = kind
        self.resource = f"{kind.lower()}s"

    async def submit(self, manifest: Manifest, resource: str = "") -> Manifest:
        made = await self.scene.api.create(resource or self.resource, manifest)
        await self.scene.idle()
        return made

    @property
    def job(self) -> Manifest:
        found = self.scene.api.get(self.resource, "train")
        assert found is not None
        return found

    @property
    def workload(self) -> Manifest | None:
        name = workload_name(self.kind, "ray.io", "train", self.job["metadata"]["uid"])
        return self.scene.api.get("workloads", name)

    def condition(self, kind: str) -> str | None:
        workload = self.workload
        assert workload is not None
        found = conditions.find(workload, kind)
        return None if found is None else found["status"]

    async def says(self, **status: Any) -> None:
        """What KubeRay reports."""
        await self.scene.api.patch(self.resource, "train", {"status": status}, subresource="status")
        await self.scene.idle()

    async def admit(self) -> None:
        workload = self.workload
        assert workload is not None
        assignments = [
            {"name": one["name"], "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": "1"}, "count": one["count"]}
            for one in workload["spec"]["podSets"]
        ]
        found = self.scene._with(workload, "QuotaReserved", "True", "QuotaReserved", "reserved")
        found = self.scene._set(found, "Evicted", "False", "QuotaReserved", "") if self.condition("Evicted") else found
        found = self.scene._set(found, "Admitted", "True", "Admitted", "admitted")
        admission = {"clusterQueue": "team", "podSetAssignments": assignments}
        await self.scene._status(workload, {"conditions": found, "admission": admission})

    async def evict(self) -> None:
        workload = self.workload
        assert workload is not None
        found = self.scene._with(workload, "Evicted", "True", "Preempted", "Preempted for another")
        await self.scene._status(workload, {"conditions": found})

    @property
    def selectors(self) -> list[Any]:
        """The node selectors of head, worker groups and submitter."""
        spec = self.job["spec"]
        cluster = spec.get("rayClusterSpec") or spec
        templates = [cluster["headGroupSpec"]["template"], *(one["template"] for one in cluster["workerGroupSpecs"])]
        templates += [spec["submitterPodTemplate"]] if "submitterPodTemplate" in spec else []
        return [one["spec"].get("nodeSelector") for one in templates]


def test_a_ray_job_waits_starts_is_preempted_comes_back_and_ends() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            ray = RayScene(scene, "RayJob")
            made = await ray.submit(a_ray_job())
            assert made["spec"]["suspend"]
            workload = ray.workload
            assert workload is not None
            assert [(one["name"], one["count"]) for one in workload["spec"]["podSets"]] == [
                ("head", 1),
                ("workers", 2),
                ("submitter", 1),
            ]

            await ray.says(jobDeploymentStatus="Suspended")
            await ray.admit()
            assert not ray.job["spec"]["suspend"]
            assert ray.selectors == [SPOT, SPOT, SPOT]

            await ray.says(jobDeploymentStatus="Running", jobStatus="RUNNING", rayClusterStatus={"state": "ready"})
            await scene.after(1)
            assert ray.condition("PodsReady") == "True"
            await ray.evict()
            assert ray.job["spec"]["suspend"]
            assert ray.selectors == [None, None, None]
            assert ray.condition("QuotaReserved") == "True", "its pods still run"

            await ray.says(jobDeploymentStatus="Suspended", jobStatus="", rayClusterStatus=None)
            assert ray.condition("QuotaReserved") == "False"
            await ray.admit()
            assert ray.selectors == [SPOT, SPOT, SPOT]

            await ray.says(jobDeploymentStatus="Complete", jobStatus="SUCCEEDED", message="Job finished successfully.")
            finished = conditions.find(ray.workload or {}, "Finished")
            assert finished is not None
            assert (finished["reason"], finished["message"]) == ("Succeeded", "Job finished successfully.")

    asyncio.run(play())


def test_the_cluster_of_a_queued_job_is_not_queued_again_and_stops_with_it() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            ray = RayScene(scene, "RayJob")
            job = await ray.submit(a_ray_job())
            await ray.says(jobDeploymentStatus="Suspended")
            await ray.admit()
            owner = {"ownerReferences": [owner_reference(job)]}
            made = await ray.submit(_object("RayCluster", _cluster_spec(), **owner), "rayclusters")

            assert not made["spec"].get("suspend"), "although KubeRay copied the label of the queue to it"
            assert len(scene.api.names("workloads")) == 1
            await ray.says(jobDeploymentStatus="Running", rayClusterStatus={"state": "ready"})
            await ray.evict()
            await ray.says(jobDeploymentStatus="Suspended")
            cluster = scene.api.get("rayclusters", "train")
            assert cluster is not None
            assert cluster["spec"]["suspend"], "it is to stop even if KubeRay has not deleted it"

    asyncio.run(play())


def test_a_ray_cluster_waits_starts_is_preempted_and_comes_back() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            ray = RayScene(scene, "RayCluster")
            made = await ray.submit(_object("RayCluster", _cluster_spec()))
            assert made["spec"]["suspend"]
            await ray.admit()
            assert not ray.job["spec"]["suspend"]
            assert ray.selectors == [SPOT, SPOT]

            await ray.says(state="ready")
            await ray.evict()
            assert ray.job["spec"]["suspend"]
            assert ray.selectors == [None, None]
            assert ray.condition("QuotaReserved") == "True", "its pods still run"
            await ray.says(state="suspended")
            assert ray.condition("QuotaReserved") == "False"
            await ray.admit()
            assert ray.selectors == [SPOT, SPOT]

    asyncio.run(play())


def test_a_job_on_an_existing_cluster_is_left_alone() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            ray = RayScene(scene, "RayJob")
            selector = {"clusterSelector": {"ray.io/cluster": "shared"}, "shutdownAfterJobFinishes": False}
            job = a_ray_job(**selector)
            del job["spec"]["rayClusterSpec"]
            made = await ray.submit(job)

            assert not made["spec"].get("suspend")
            assert not scene.api.names("workloads")

    asyncio.run(play())


def test_a_job_that_kuberay_refuses_gives_its_quota_back() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            ray = RayScene(scene, "RayJob")
            await ray.submit(a_ray_job())
            await ray.says(jobDeploymentStatus="ValidationFailed", reason="ValidationFailed", message="bad runtime_env")
            await ray.admit()
            assert ray.job["spec"]["suspend"]
            workload = ray.workload
            assert workload is not None
            found = conditions.find(workload, "QuotaReserved")
            assert found is not None
            assert (found["status"], found["reason"], found["message"]) == ("False", "OnHold", "Job is on hold")

    asyncio.run(play())


@pytest.mark.parametrize(
    ("labels", "refused"),
    [
        pytest.param({QUEUE: "q"}, True, id="in a queue"),
        pytest.param({}, False, id="in none"),
    ],
)
def test_rules_of_the_queue_are_for_jobs_in_one(labels: dict[str, str], *, refused: bool) -> None:
    async def play() -> None:
        async with a_scene() as scene:
            ray = RayScene(scene, "RayJob")
            job = a_ray_job(shutdownAfterJobFinishes=False)
            job["metadata"]["labels"] = labels
            if not refused:
                await ray.submit(job)
                await scene.api.patch("rayjobs", "train", {"metadata": {"annotations": {"a": "b"}}})
                return
            with pytest.raises(ValidationError, match="should delete the cluster after finishing"):
                await ray.submit(job)

    asyncio.run(play())
