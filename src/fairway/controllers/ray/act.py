"""Carries out what is decided about RayClusters and RayJobs."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from fairway.apis.machinery.copies import copied
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.client.recorder import Recorder
from fairway.client.rest.errors import Unreachable
from fairway.controllers.kit.writes import add_finalizer, all_done
from fairway.controllers.ray import machine
from fairway.controllers.ray.observe import RayObserver
from fairway.errors import AlreadyExists, FairwayError
from fairway.ray import clusters, commands, nodes, submission
from fairway.ray.clusters import ClusterPlan
from fairway.ray.commands import HeadPorts, WorkerPorts
from fairway.ray.jobs import FINALIZER, RayJobPlan, RayJobStep
from fairway.ray.nodes import RayInstallation

CLUSTERS = "rayclusters.ray.io"
JOBS = "rayjobs.ray.io"
_HEAD = "HeadPod", "head Pod"
_WORKER = "WorkerPod", "worker Pod"


class NoPorts(FairwayError):
    """This machine has no free ports for Ray."""


class RayActions:
    """Writes objects of the API; the runner starts the processes."""

    def __init__(
        self, cluster: Cluster, recorder: Recorder, observer: RayObserver, ray: RayInstallation | None
    ) -> None:
        self._writer = cluster.writer("kuberay-operator")
        self._recorder = recorder
        self._observer = observer
        self._pods = cluster.cache("pods")
        self._ray = ray
        self._reserved: set[int] = set()
        """Ports of objects that are being written."""

    async def apply_cluster(self, cluster: Manifest, plan: ClusterPlan) -> None:
        if plan.status is not None:
            cluster = await self._writer.patch(CLUSTERS, cluster, {"status": plan.status}, subresource="status")
        if plan.needs_ports:
            await self._give_ports(cluster)
        await all_done(self._writer.delete("pods", pod) for pod in plan.delete)
        for reason, message in plan.warnings:
            self._recorder.warning(cluster, reason, message)
        head, ray = nodes.head_ports(cluster), self._ray
        if not plan.creates or head is None or ray is None:
            return
        new = [nodes.head_pod(cluster, head, ray)] if plan.create_head else []
        wanted = [group.group for group in plan.create_workers for _ in range(group.count)]
        each = len(WorkerPorts._fields)
        with self._ports(each * len(wanted)) as ports:
            for position, group in enumerate(wanted):
                own = WorkerPorts(*ports[each * position : each * (position + 1)])
                new.append(nodes.worker_pod(cluster, group, own, head, ray))
            await all_done(
                self._create(cluster, "pods", pod, *(_HEAD if nodes.is_head(pod) else _WORKER)) for pod in new
            )

    async def _create(self, owner: Manifest, resource: str, manifest: Manifest, reason: str, what: str) -> Manifest:
        """Create an object; an event of its owner says so, or why it failed."""
        try:
            made = await self._writer.create(resource, manifest)
        except FairwayError as error:
            self._recorder.warning(owner, f"FailedToCreate{reason}", f"Failed to create {what}: {error}")
            raise
        name = f"{made['metadata']['namespace']}/{made['metadata']['name']}"
        self._recorder.normal(owner, f"Created{reason}", f"Created {what} {name}")
        return made

    async def _give_ports(self, cluster: Manifest) -> None:
        """Choose the ports and the token of a cluster, for as long as it runs."""
        with suppress(AlreadyExists):
            await self._writer.create("secrets", nodes.token_secret(cluster, secrets.token_hex(32)))
        with self._ports(len(HeadPorts._fields)) as ports:
            status = {"endpoints": nodes.endpoints_of(HeadPorts(*ports))}
            await self._writer.patch(CLUSTERS, cluster, {"status": status}, subresource="status")

    @contextmanager
    def _ports(self, count: int) -> Iterator[tuple[int, ...]]:
        """Free ports, which no other cluster gets before they are written."""
        taken = set(self._reserved)
        for cluster in self._observer.clusters.items():
            taken.update(nodes.head_ports(cluster) or ())
        for pod in self._pods.items():
            if nodes.NODE_LABEL in (pod["metadata"].get("labels") or {}):
                taken |= nodes.ports_of(pod)
        try:
            start = secrets.randbelow(commands.PORTS)
            found = commands.choose_ports(count, start, lambda port: port not in taken and machine.is_free(port))
        except ValueError as error:
            raise NoPorts(str(error)) from error
        self._reserved.update(found)
        try:
            yield found
        finally:
            self._reserved.difference_update(found)

    async def apply_job(self, job: Manifest, plan: RayJobPlan) -> None:
        if plan.status is not None:
            job = await self._writer.patch(JOBS, job, {"status": plan.status}, subresource="status", locked=True)
        if plan.warning is not None:
            self._recorder.warning(job, *plan.warning)
        for step in plan.steps:
            await self._step(job, step)

    async def _step(self, job: Manifest, step: RayJobStep) -> None:
        cluster = self._observer.cluster_of(job)
        if step is RayJobStep.ADD_FINALIZER:
            await add_finalizer(self._writer, JOBS, job, FINALIZER)
        elif step is RayJobStep.CREATE_CLUSTER:
            await self._create_cluster(job)
        elif step is RayJobStep.CREATE_SUBMITTER and cluster is not None and self._ray is not None:
            submitter = submission.submitter(job, cluster, self._ray)
            await self._create(job, "jobs.batch", submitter, "RayJobSubmitter", "Kubernetes Job")
        elif step is RayJobStep.SUBMIT:
            await self._submit(job)
        elif step is RayJobStep.DELETE_CLUSTER and cluster is not None:
            # The cluster stays until its pods have ended: what they use is not free before.
            await self._writer.delete(CLUSTERS, cluster, propagation="Foreground")
            name = f"{cluster['metadata']['namespace']}/{cluster['metadata']['name']}"
            self._recorder.normal(job, "DeletedRayCluster", f"Deleted cluster {name}")
        elif step is RayJobStep.DELETE_WORKERS and cluster is not None:
            groups = [{**group, "suspend": True} for group in cluster["spec"].get("workerGroupSpecs") or ()]
            await self._writer.patch(CLUSTERS, cluster, {"spec": {"workerGroupSpecs": copied(groups)}})
        elif step is RayJobStep.DELETE_SUBMITTER:
            found = self._observer.submitter_of(job, cluster)
            if found is not None and found["kind"] == "Job":
                await self._writer.delete("jobs.batch", found, propagation="Foreground")
        elif step is RayJobStep.DELETE_SELF:
            await self._writer.delete(JOBS, job, propagation="Background")

    async def _create_cluster(self, job: Manifest) -> None:
        manifest = submission.new_cluster(job, job["status"]["rayClusterName"], self._ray)
        made = await self._create(job, CLUSTERS, manifest, "RayCluster", "RayCluster")
        if self._ray is not None and (message := clusters.version_mismatch(made["spec"], self._ray)):
            self._recorder.warning(job, clusters.VERSION_MISMATCH, message)

    async def _submit(self, job: Manifest) -> None:
        refusal = await (await self._observer.dashboard(job)).submit(submission.request_body(job))
        if refusal:
            self._recorder.warning(job, "FailedToSubmit", f"Ray refused the job: {refusal}")
            raise Unreachable(f"Ray refused the job: {refusal}")
