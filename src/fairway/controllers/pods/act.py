"""What is done to pods and workloads. Each step may have been done before: a process that was killed starts over."""

from collections.abc import Iterable, Sequence
from contextlib import suppress

from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.timestamps import stamp
from fairway.client.cluster import Cluster
from fairway.client.informer import Informer
from fairway.client.recorder import Recorder
from fairway.controllers.kit.workloads import LONGEST_EVENT, WORKLOADS, WorkloadWriter
from fairway.controllers.kit.writes import all_done, remove_finalizer
from fairway.errors import NotFound
from fairway.integrations import pods
from fairway.integrations.conditions import shortened
from fairway.integrations.pods import MANAGED

_SPEC_FIELDS = ("podSets", "queueName", "priority", "priorityClassRef", "maximumExecutionTimeSeconds")


class PodWriter(WorkloadWriter):
    """Writes for the controller, and tells about it."""

    def __init__(self, cluster: Cluster, recorder: Recorder) -> None:
        super().__init__(cluster, recorder)
        self._deleted: set[str] = set()
        """The UIDs of workloads that were deleted here, until the cache has told of it."""

    def forget(self, workload: Manifest) -> bool:
        """A workload was deleted; returns whether by another writer."""
        uid = workload["metadata"]["uid"]
        self.forget_workload(uid)
        if uid in self._deleted:
            self._deleted.discard(uid)
            return False
        return True

    async def start(self, patches: Sequence[tuple[Manifest, Manifest]], cluster_queue: str) -> None:
        """Open the gates of pods, each with its patch."""

        async def open_gate(pod: Manifest, patch: Manifest) -> None:
            await self.writer.patch("pods", pod, patch, locked=True)
            self.recorder.normal(pod, "Started", f"Admitted by clusterQueue {cluster_queue}")

        await all_done(open_gate(pod, patch) for pod, patch in patches)

    async def stop(self, members: Iterable[Manifest], reason: str, message: str, *, everything: bool = False) -> None:
        """Delete the pods that run, or with `everything` also those that do not."""

        async def stop_one(pod: Manifest) -> None:
            patch = pods.stop_patch(pod, reason, message, stamp(self.clock.now()))
            try:
                if patch is not None:
                    await self.writer.patch("pods", pod, patch, subresource="status", patch_type="strategic")
            except NotFound:
                return
            await self.writer.delete("pods", pod)
            self.recorder.normal(pod, "Stopped", shortened(message, LONGEST_EVENT))

        await all_done(
            stop_one(pod) for pod in members if not pods.is_deleting(pod) and (everything or not pods.is_suspended(pod))
        )

    async def let_go(self, members: Iterable[Manifest]) -> None:
        """Take the finalizer from pods, so that those that are deleted go."""

        async def let_one_go(pod: Manifest) -> None:
            with suppress(NotFound):
                await remove_finalizer(self.writer, "pods", pod, MANAGED)

        await all_done(let_one_go(pod) for pod in members if pods.is_held(pod))

    async def remove_excess(self, members: Sequence[Manifest], current: Informer) -> None:
        """Delete pods that are too many."""
        await self.let_go(members)
        for pod in members:
            metadata = pod["metadata"]
            left = current.get(metadata["namespace"], metadata["name"])
            if left is not None and left["metadata"]["uid"] == metadata["uid"] and not pods.is_deleting(left):
                await self.writer.delete("pods", left)
                self.recorder.normal(pod, "ExcessPodDeleted", "Excess pod deleted")

    async def expire(self, members: Iterable[Manifest]) -> None:
        """Delete the pods of a job that was deactivated long enough ago."""
        for pod in members:
            if not pods.is_deleting(pod):
                await self.writer.delete("pods", pod, propagation="Background")
                self.recorder.normal(pod, "Deleted", "Deleted job: deactivation retention period expired")

    async def replace_spec(self, workload: Manifest, wanted: Manifest, about: Manifest) -> None:
        """Make a workload that has no quota the one that its job needs now."""
        await self.replace(workload, {"spec": {field: wanted["spec"].get(field) for field in _SPEC_FIELDS}}, about)

    async def delete(self, workload: Manifest, about: Manifest) -> None:
        self._deleted.add(workload["metadata"]["uid"])
        await super().delete(workload, about)

    async def add_owners(self, workload: Manifest, missing: list[Manifest]) -> Manifest:
        owners = [*(workload["metadata"].get("ownerReferences") or ()), *missing]
        written = await self.writer.patch(WORKLOADS, workload, {"metadata": {"ownerReferences": owners}}, locked=True)
        self.recorder.normal(workload, "OwnerReferencesAdded", f"Added {len(missing)} owner reference(s)")
        return written

    def emit_refusal(self, about: Manifest, message: str) -> None:
        """Why there is no workload."""
        self.recorder.warning(about, "ErrWorkloadCompose", shortened(message, LONGEST_EVENT))

    def emit_conflict(self, about: Manifest, name: str) -> None:
        message = (
            f'A Workload named "{name}" already exists but is not a pod group workload; '
            "this pod group cannot be admitted"
        )
        self.recorder.warning(about, "WorkloadNameConflict", message)
