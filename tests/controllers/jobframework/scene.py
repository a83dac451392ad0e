"""A cluster with jobs and their workloads, where the test plays the queue and the controller of Jobs."""

import asyncio
import copy
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from fairway.apis.kueue.configuration import Configuration
from fairway.apis.machinery.admission import AdmissionChain
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.timestamps import stamp
from fairway.client.recorder import Recorder
from fairway.controllers.jobframework.controller import FrameworkController
from fairway.controllers.kit.configuration import FixedConfiguration
from fairway.controllers.webhooks.queues import QueueAdmission
from fairway.integrations import conditions
from fairway.integrations.framework import Framework
from fairway.integrations.frameworks import FRAMEWORKS
from fairway.integrations.workloads import workload_name
from fairway.testing.clock import settle
from fairway.testing.clusters import LocalCluster, local_cluster
from fairway.testing.stores import PATIENCE_SECONDS

FLAVOR = {
    "metadata": {"name": "spot"},
    "spec": {
        "nodeLabels": {"instance": "spot"},
        "tolerations": [{"key": "spot", "operator": "Equal", "value": "true", "effect": "NoSchedule"}],
    },
}
SOON_SECONDS = 0.01
"""Longer than a write that lost a race is put off."""


def a_job(
    name: str = "train", queue: str | None = "user-queue", metadata: Manifest | None = None, **spec: Any
) -> Manifest:
    """A job as people write it."""
    labels = {} if queue is None else {"kueue.x-k8s.io/queue-name": queue}
    given = copy.deepcopy(metadata or {})
    template = {
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}],
        }
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", **given, "labels": {**labels, **given.get("labels", {})}},
        "spec": {"template": template, **copy.deepcopy(spec)},
    }


class Scene:
    """What is there, and what the test does to it."""

    def __init__(self, world: LocalCluster, configuration: FixedConfiguration) -> None:
        self.world = world
        self.api = world.api
        self.clock = world.clock
        self.configuration = configuration
        self.recorder: Recorder
        self.controller: FrameworkController

    # Looking

    def job(self, name: str = "train") -> Manifest:
        found = self.api.get("jobs", name)
        assert found is not None
        return found

    def name_of_workload(self, name: str = "train") -> str:
        return workload_name("Job", "batch", name, self.job(name)["metadata"]["uid"])

    def workload(self, name: str = "train") -> Manifest:
        found = self.api.get("workloads", self.name_of_workload(name))
        assert found is not None
        return found

    def has_workload(self, name: str = "train") -> bool:
        return self.api.get("workloads", self.name_of_workload(name)) is not None

    def is_running(self, name: str = "train") -> bool:
        return not self.job(name)["spec"]["suspend"]

    def condition(self, kind: str, name: str = "train") -> tuple[str, str, str] | None:
        """Status, reason and message."""
        found = conditions.find(self.workload(name), kind)
        return None if found is None else (found["status"], found["reason"], found["message"])

    async def events(self, name: str = "train") -> list[tuple[str, str]]:
        """What was told of a job, as reason and message, in order."""
        await self.recorder.flush()
        found = [self.api.get("events", one) for one in self.api.names("events")]
        told = [one for one in found if one is not None and one["involvedObject"]["name"] == name]
        told.sort(key=lambda one: int(one["metadata"]["resourceVersion"]))
        return [(one["reason"], one["message"]) for one in told]

    def writes(self) -> int:
        """How many revisions there are."""
        return self.api.store.revision

    # The user

    async def submit(self, job: Manifest | None = None) -> Manifest:
        made = await self.api.create("jobs", job or a_job())
        await self.idle()
        return made

    async def change(self, patch: Manifest, name: str = "train") -> None:
        await self.api.patch("jobs", name, patch)
        await self.idle()

    # The queue

    async def reserve(self, name: str = "train", *, count: int = 1, admitted: bool = True, **status: Any) -> None:
        """Quota for all pods of the job, in the one flavor."""
        workload = self.workload(name)
        found = self._with(workload, "QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue team")
        evicted = conditions.find(workload, "Evicted")
        if evicted is not None:
            found = self._set(found, "Evicted", "False", "QuotaReserved", f"Previously: {evicted['message']}")
        if admitted:
            found = self._set(found, "Admitted", "True", "Admitted", "The workload is admitted")
        assignment = {"name": "main", "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": str(count)}, "count": count}
        admission = {"clusterQueue": "team", "podSetAssignments": [assignment]}
        await self._status(workload, {"conditions": found, "admission": admission, **status})

    async def admit(self, name: str = "train", **status: Any) -> None:
        """Say of a workload with a reservation that it may run."""
        workload = self.workload(name)
        found = self._with(workload, "Admitted", "True", "Admitted", "The workload is admitted")
        await self._status(workload, {"conditions": found, **status})

    async def evict(
        self, reason: str = "Preempted", message: str = "Preempted for another", name: str = "train"
    ) -> None:
        workload = self.workload(name)
        await self._status(workload, {"conditions": self._with(workload, "Evicted", "True", reason, message)})

    # The controller of Jobs

    async def job_status(self, name: str = "train", **status: Any) -> None:
        await self.api.patch("jobs", name, {"status": status}, subresource="status")
        await self.idle()

    async def pods(self, name: str = "train", *, active: int = 1, ready: int = 0, **status: Any) -> None:
        """So many pods run."""
        await self.job_status(name, active=active, ready=ready, startTime=stamp(self.clock.now()), **status)

    async def pods_gone(self, name: str = "train") -> None:
        """What follows when a job was suspended."""
        said = [{"type": "Suspended", "status": "True", "lastTransitionTime": stamp(self.clock.now())}]
        await self.job_status(name, active=0, ready=0, conditions=said)

    async def complete(self, name: str = "train", *, succeeded: int = 1) -> None:
        now = stamp(self.clock.now())
        message = "Reached expected number of succeeded pods"
        ends = [
            {
                "type": kind,
                "status": "True",
                "reason": "CompletionsReached",
                "message": message,
                "lastTransitionTime": now,
            }
            for kind in ("SuccessCriteriaMet", "Complete")
        ]
        started = (self.job(name).get("status") or {}).get("startTime", now)
        await self.job_status(
            name, active=0, ready=0, succeeded=succeeded, startTime=started, completionTime=now, conditions=ends
        )

    async def fail(self, name: str = "train") -> None:
        now = stamp(self.clock.now())
        message = "Job has reached the specified backoff limit"
        ends = [
            {
                "type": kind,
                "status": "True",
                "reason": "BackoffLimitExceeded",
                "message": message,
                "lastTransitionTime": now,
            }
            for kind in ("FailureTarget", "Failed")
        ]
        await self.job_status(name, active=0, ready=0, failed=1, startTime=now, conditions=ends)

    # Time

    async def idle(self) -> None:
        """Wait until the caches know everything and the controller has nothing to do now."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                await settle()
                await self.world.heal()
                if not self._is_current() or self._is_busy():
                    continue
                if self._is_wanted_soon():
                    await self.clock.run_for(SOON_SECONDS)
                    continue
                return

    async def after(self, seconds: float) -> None:
        await self.clock.run_for(seconds)
        await self.idle()

    def _is_current(self) -> bool:
        for resource, cache in self.world.cluster._caches.items():
            entries = self.api.store.collection(resource).entries
            known = {key: int(one["metadata"]["resourceVersion"]) for key, one in cache._known.items()}
            if known != {key: entry.revision for key, entry in entries.items()}:
                return False
        return True

    def _is_busy(self) -> bool:
        queue = self.controller._worker._queue
        return bool(queue._ready or queue._processing)

    def _is_wanted_soon(self) -> bool:
        queue = self.controller._worker._queue
        return any(due - self.clock.monotonic() <= SOON_SECONDS for due in queue._delayed.values())

    # Workloads

    def _with(self, workload: Manifest, *condition: str) -> list[Manifest]:
        return self._set(conditions.of(workload), *condition)

    def _set(self, found: Iterable[Manifest], *condition: str) -> list[Manifest]:
        kind, status, reason, message = condition
        return conditions.with_condition(found, kind, status, reason, message, stamp(self.clock.now()), 1)

    async def _status(self, workload: Manifest, status: Manifest) -> None:
        await self.api.patch("workloads", workload["metadata"]["name"], {"status": status}, subresource="status")
        await self.idle()


@asynccontextmanager
async def a_scene(
    kinds: tuple[Framework, ...] = FRAMEWORKS, *, webhooks: bool = True, **configured: Any
) -> AsyncIterator[Scene]:
    """Everything running, with one flavor there."""
    configuration = FixedConfiguration(Configuration(**configured))
    async with local_cluster() as world:
        scene = Scene(world, configuration)
        await world.api.create("resourceflavors", copy.deepcopy(FLAVOR))
        if webhooks:
            world.api.objects.use_admission(AdmissionChain(QueueAdmission(world.cluster, configuration)))
        scene.recorder = Recorder(world.cluster, "kueue")
        scene.controller = FrameworkController(world.cluster, configuration, scene.recorder, kinds)
        async with world.running(scene.controller):
            await scene.idle()
            yield scene
