"""What the parts of this controller share: the caches they look into, and the hand they write with."""

from datetime import datetime

from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.client.recorder import Recorder
from fairway.controllers.kit.configuration import ConfigurationSource
from fairway.controllers.kit.owners import OwnerIndex, Owners, controller_uid
from fairway.controllers.kit.status import WorkloadStatusChange
from fairway.controllers.kit.writes import commit
from fairway.integrations.framework import Framework

WORKLOADS = "workloads.kueue.x-k8s.io"


class Tools:
    """One set for all job kinds."""

    def __init__(
        self,
        cluster: Cluster,
        configuration: ConfigurationSource,
        recorder: Recorder,
        frameworks: tuple[Framework, ...],
    ) -> None:
        self.cluster = cluster
        self.configuration = configuration
        self.recorder = recorder
        self.writer = cluster.writer("kueue")
        self.owners = Owners(cluster, configuration, frameworks)
        self.workloads = cluster.cache(WORKLOADS)
        self._workloads_by_owner = OwnerIndex(controller_uid, self.workloads)
        self.namespaces = cluster.cache("namespaces")
        self.workload_classes = cluster.cache("workloadpriorityclasses.kueue.x-k8s.io")
        self.priority_classes = cluster.cache("priorityclasses.scheduling.k8s.io")
        self._flavors = cluster.cache("resourceflavors.kueue.x-k8s.io")

    def workloads_of(self, uid: str) -> list[Manifest]:
        """The workloads that a job controls, the oldest first."""
        found = self._workloads_by_owner.of(uid)
        return sorted(found, key=_age) if len(found) > 1 else found

    def flavor(self, name: str) -> Manifest | None:
        return self._flavors.get("", name)

    def now(self) -> datetime:
        return self.cluster.clock.now()

    def change(self, workload: Manifest) -> WorkloadStatusChange:
        return WorkloadStatusChange(workload, self.now())

    async def commit(self, change: WorkloadStatusChange) -> Manifest:
        return await commit(self.writer, WORKLOADS, change)

    async def finish(self, workload: Manifest, reason: str, message: str) -> None:
        """Declare a workload finished."""
        change = self.change(workload)
        change.finish(reason, message)
        await self.commit(change)


def _age(manifest: Manifest) -> tuple[str, str]:
    metadata = manifest["metadata"]
    return metadata["creationTimestamp"], metadata["name"]
