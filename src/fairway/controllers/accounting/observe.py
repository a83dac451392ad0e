"""The attempts that an object of the API tells of, with the queues and teams that the caches know."""

from collections.abc import Iterator
from typing import Final

from fairway.accounting.attempts import (
    NO_OWNER,
    AttemptRecord,
    OwnerLabels,
    QuotaPlace,
    is_managed,
    of_managed_job,
    of_workload,
    place_of,
)
from fairway.apis.fairway.teams import LABEL as TEAM
from fairway.apis.fairway.teams import ORGANIZATION_LABEL
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.integrations.webhooks import labels_of

WORKLOADS: Final = "workloads.kueue.x-k8s.io"
JOBS: Final = "managedjobs.fairway.dev"


class AttemptSource:
    """Reads attempts off Workloads and ManagedJobs."""

    def __init__(self, cluster: Cluster) -> None:
        self._workloads = cluster.cache(WORKLOADS)
        self._jobs = cluster.cache(JOBS)
        self._queues = cluster.cache("clusterqueues.kueue.x-k8s.io")
        self._namespaces = cluster.cache("namespaces")

    def attempts(self, resource: str, manifest: Manifest) -> Iterator[AttemptRecord]:
        """The attempts of an object."""
        if resource == JOBS:
            yield from self._of_job(manifest)
        elif not is_managed(manifest):
            found = of_workload(manifest, lambda queue: self._group(manifest, queue))
            if found is not None:
                yield found

    def existing(self) -> set[str]:
        """The UIDs of all objects that attempts are read off."""
        return {one["metadata"]["uid"] for cache in (self._workloads, self._jobs) for one in cache.items()}

    def _of_job(self, job: Manifest) -> Iterator[AttemptRecord]:
        status = job.get("status") or {}
        if not status.get("attempts"):
            return
        name = status.get("workload", "")
        workload = self._workloads.get(job["metadata"]["namespace"], name) if name else None
        place = place_of(workload) if workload is not None else QuotaPlace(job["spec"].get("queue", ""))
        yield from of_managed_job(job, place, self._group(job, place.cluster_queue))

    def _group(self, manifest: Manifest, cluster_queue: str) -> OwnerLabels:
        """By the labels of the ClusterQueue, else of the namespace."""
        queue = self._queues.get("", cluster_queue) if cluster_queue else None
        found = _labelled(queue)
        return found if any(found) else _labelled(self._namespaces.get("", manifest["metadata"]["namespace"]))


def _labelled(manifest: Manifest | None) -> OwnerLabels:
    if manifest is None:
        return NO_OWNER
    labels = labels_of(manifest)
    return OwnerLabels(labels.get(TEAM, ""), labels.get(ORGANIZATION_LABEL, ""))
