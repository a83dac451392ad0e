"""What a RayJob's next step depends on: its cluster, its submitter, and what Ray says about the submission."""

from base64 import b64decode
from typing import Any

from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.client.raydashboard import RayDashboard
from fairway.controllers.kit.owners import OwnerIndex, controller_uid
from fairway.errors import FairwayError, NotFound
from fairway.integrations.ray_job import IN_HEAD, submission_mode
from fairway.ray import jobs, nodes
from fairway.ray.jobs import JobInfo, RayJobSeen


class RayObserver:
    """Reads caches, Secrets and dashboards."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.clusters = cluster.cache("rayclusters.ray.io")
        self.jobs = cluster.cache("rayjobs.ray.io")
        self._submitters = cluster.cache("jobs.batch")
        self.pods: OwnerIndex[str] = OwnerIndex(controller_uid, cluster.cache("pods"))

    async def seen(self, job: Manifest) -> RayJobSeen:
        """Asks Ray only while the job runs."""
        cluster = self.cluster_of(job)
        submitter = self.submitter_of(job, cluster)
        identifier = (job.get("status") or {}).get("jobId")
        if not jobs.wants_info(job) or not identifier:
            return RayJobSeen(cluster=cluster, submitter=submitter)
        try:
            found = await (await self._dashboard(cluster)).job(identifier)
        except (FairwayError, OSError):
            return RayJobSeen(cluster=cluster, submitter=submitter)
        info = None if found is None else _info(found)
        return RayJobSeen(cluster=cluster, submitter=submitter, info=info, is_submitted=found is not None)

    def cluster_of(self, job: Manifest) -> Manifest | None:
        name = (job.get("status") or {}).get("rayClusterName")
        return None if not name else self.clusters.get(job["metadata"]["namespace"], name)

    async def dashboard(self, job: Manifest) -> RayDashboard:
        """The dashboard of a job's cluster; `NotFound` if there is none."""
        return await self._dashboard(self.cluster_of(job))

    async def _dashboard(self, cluster: Manifest | None) -> RayDashboard:
        address = None if cluster is None else nodes.dashboard_of(cluster)
        if cluster is None or address is None:
            raise NotFound("the RayCluster has no dashboard")
        metadata = cluster["metadata"]
        secret = await self._cluster.get("secrets", metadata["namespace"], metadata["name"])
        return RayDashboard(address, b64decode(secret["data"][nodes.TOKEN_KEY]).decode())

    def submitter_of(self, job: Manifest, cluster: Manifest | None) -> Manifest | None:
        """The Job that submits, or the head pod where a container of it does."""
        if submission_mode(job) == IN_HEAD:
            pods = [] if cluster is None else self.pods.of(cluster["metadata"]["uid"])
            return next((pod for pod in pods if nodes.is_head(pod)), None)
        metadata = job["metadata"]
        found = self._submitters.get(metadata["namespace"], metadata["name"])
        return found if found is not None and controller_uid(found) == metadata["uid"] else None


def _info(found: dict[str, Any]) -> JobInfo:
    return JobInfo(
        status=str(found.get("status") or ""),
        message=str(found.get("message") or ""),
        start_time=found.get("start_time"),
        end_time=found.get("end_time"),
    )
