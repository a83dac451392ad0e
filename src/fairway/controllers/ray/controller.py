"""Which changes make which RayCluster or RayJob be looked at, and the loop of observing, deciding and acting."""

import asyncio
import secrets
import string
from typing import Final

from fairway.apis.machinery.keys import Key, key_of
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.client.recorder import Recorder
from fairway.controllers.kit.status import differs
from fairway.controllers.kit.writes import remove_finalizer
from fairway.controllers.ray.act import JOBS, RayActions
from fairway.controllers.ray.observe import RayObserver
from fairway.errors import FairwayError
from fairway.integrations.workloads import controller_of
from fairway.ray import clusters, jobs, nodes, submission
from fairway.ray.nodes import RayInstallation
from fairway.runtime.worker import Worker

_SUFFIX: Final = string.ascii_lowercase[1:] + string.digits[2:]
_PARALLEL: Final = 8


class RayController:
    """Runs Ray on this machine; without an installation it says on each object what to install."""

    def __init__(self, cluster: Cluster, recorder: Recorder, ray: RayInstallation | None) -> None:
        self._clock = cluster.clock
        self._ray = ray
        self._recorder = recorder
        self._observer = RayObserver(cluster)
        self._actions = RayActions(cluster, recorder, self._observer, ray)
        self._writer = cluster.writer("kuberay-operator")
        self._clusters: Worker[Key] = Worker("raycluster", cluster.clock, self._reconcile_cluster, parallel=_PARALLEL)
        self._jobs: Worker[Key] = Worker("rayjob", cluster.clock, self._reconcile_job, parallel=_PARALLEL)
        self._pods = cluster.cache("pods")
        self._caches = [self._observer.clusters, self._observer.jobs, self._pods, cluster.cache("jobs.batch")]
        self._observer.clusters.on_change(self._on_cluster_change)
        self._observer.jobs.on_change(self._on_job_change)
        self._pods.on_change(self._on_pod_change)
        cluster.cache("jobs.batch").on_change(self._on_submitter_change)

    async def run(self) -> None:
        """Work until cancelled."""
        for cache in self._caches:
            await cache.synced.wait()
        async with asyncio.TaskGroup() as group:
            for worker in (self._clusters, self._jobs):
                group.create_task(worker.run())

    def _on_cluster_change(self, old: Manifest | None, new: Manifest | None) -> None:
        found = new or old
        if found is None or (old is not None and new is not None and not differs(old, new)):
            return
        self._clusters.add(key_of(found))
        self._add_owner(found, "RayJob")
        for job in self._observer.jobs.items():
            if submission.selected_cluster(job) == found["metadata"]["name"]:
                self._jobs.add(key_of(job))

    def _on_job_change(self, old: Manifest | None, new: Manifest | None) -> None:
        if new is not None and (old is None or differs(old, new)):
            self._jobs.add(key_of(new))

    def _on_pod_change(self, old: Manifest | None, new: Manifest | None) -> None:
        found = new or old
        if found is None or nodes.NODE_LABEL not in (found["metadata"].get("labels") or {}):
            return
        owner = controller_of(found)
        if owner is None or owner["kind"] != "RayCluster":
            return
        key = found["metadata"]["namespace"], owner["name"]
        self._clusters.add(key)
        cluster = self._observer.clusters.get(*key)
        if cluster is not None and len(found["spec"]["containers"]) > 1:  # the submitter may be one of them
            self._add_owner(cluster, "RayJob")

    def _on_submitter_change(self, old: Manifest | None, new: Manifest | None) -> None:
        if found := new or old:
            self._add_owner(found, "RayJob")

    def _add_owner(self, manifest: Manifest, kind: str) -> None:
        owner = controller_of(manifest)
        if owner is not None and owner["kind"] == kind:
            self._jobs.add((manifest["metadata"]["namespace"], owner["name"]))

    async def _reconcile_cluster(self, key: Key) -> None:
        while True:
            cluster = self._observer.clusters.get(*key)
            if cluster is None or "deletionTimestamp" in cluster["metadata"] or not clusters.is_ours(cluster):
                return
            pods = self._observer.pods.of(cluster["metadata"]["uid"])
            plan = clusters.decide(cluster, pods, self._ray, self._clock.now())
            await self._actions.apply_cluster(cluster, plan)
            if not (plan.status or plan.needs_ports or plan.creates):
                return

    async def _reconcile_job(self, key: Key) -> float | None:
        while True:
            job = self._observer.jobs.get(*key)
            if job is None or not clusters.is_ours(job):
                return None
            if "deletionTimestamp" in job["metadata"]:
                await self._release(job)
                return None
            if self._ray is None and not jobs.is_over(job):
                await self._actions.apply_job(job, jobs.not_installed(job, self._clock.now()))
                return None
            seen = await self._observer.seen(job)
            plan = jobs.decide(job, seen, _suffix, self._clock.now())
            await self._actions.apply_job(job, plan)
            if not (plan.status or plan.steps):
                return plan.again_seconds
            if plan.again_seconds is not None and not plan.status:
                return plan.again_seconds

    async def _release(self, job: Manifest) -> None:
        """Let a deleted RayJob go; on a cluster that is not its own, its driver is stopped first."""
        if jobs.FINALIZER not in (job["metadata"].get("finalizers") or ()):
            return
        if submission.selected_cluster(job) and jobs.may_have_driver(job):
            try:
                await (await self._observer.dashboard(job)).stop(job["status"]["jobId"])
            except (FairwayError, OSError) as error:
                self._recorder.warning(job, "FailedToStop", f"Ray could not be asked to stop the job: {error}")
        await remove_finalizer(self._writer, JOBS, job, jobs.FINALIZER)


def _suffix() -> str:
    return "".join(secrets.choice(_SUFFIX) for _ in range(5))
