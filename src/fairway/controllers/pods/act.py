"""What is done to pods and workloads. Each step may have been done before: a process that was killed starts over."""

from collections.abc import Iterable, Sequence
from contextlib import suppress

from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.timestamps import stamp
from fairway.client.cluster import Cluster
from fairway.client.informer import Informer
from fairway.client.recorder import Recorder
from fairway.controllers.kit.readiness import Settling
from fairway.controllers.kit.status import WorkloadStatusChange
from fairway.controllers.kit.writes import all_done, commit, remove_finalizer
from fairway.errors import NotFound
from fairway.integrations import conditions, following, pods, priorities
from fairway.integrations.conditions import shortened
from fairway.integrations.pods import MANAGED
from fairway.integrations.webhooks import labels_of, queue_name
from fairway.integrations.workloads import namespaced_name

_LONGEST_MESSAGE = 1024
_SPEC_FIELDS = ("podSets", "queueName", "priority", "priorityClassRef", "maximumExecutionTimeSeconds")


class Effects:
    """Writes for the controller, and tells about it."""

    def __init__(self, cluster: Cluster, recorder: Recorder) -> None:
        self._clock = cluster.clock
        self._writer = cluster.writer("kueue")
        self._recorder = recorder
        self._workload_classes: Informer = cluster.cache("workloadpriorityclasses.kueue.x-k8s.io")
        self._priority_classes: Informer = cluster.cache("priorityclasses.scheduling.k8s.io")
        self._deleted: set[str] = set()
        """The UIDs of workloads that were deleted here, until the cache has told of it."""

        self.readiness = Settling(cluster.clock.monotonic)
        self._told: dict[str, str] = {}
        """What was last told about the admission checks of a workload, by its UID."""

    def forget(self, workload: Manifest) -> bool:
        """A workload is gone; whether somebody else deleted it."""
        uid = workload["metadata"]["uid"]
        self._told.pop(uid, None)
        self.readiness.forget(workload["metadata"]["uid"])
        if uid in self._deleted:
            self._deleted.discard(uid)
            return False
        return True

    def priority(self, about: Manifest, pod_sets: Iterable[Manifest]) -> priorities.Priority:
        """The priority of a pod or group; `MissingPriorityClass` if it names a class that does not exist."""
        templates = [pod_set["template"] for pod_set in pod_sets]
        return priorities.resolve(labels_of(about), templates, self._workload_classes, self._priority_classes)

    async def start(self, patches: Sequence[tuple[Manifest, Manifest]], cluster_queue: str) -> None:
        """Open the gates of pods, each with its patch."""

        async def open_gate(pod: Manifest, patch: Manifest) -> None:
            await self._writer.patch("pods", pod, patch, locked=True)
            self._recorder.normal(pod, "Started", f"Admitted by clusterQueue {cluster_queue}")

        await all_done(open_gate(pod, patch) for pod, patch in patches)

    async def stop(self, members: Iterable[Manifest], reason: str, message: str, *, everything: bool = False) -> None:
        """Delete the pods that run, or with `everything` also those that do not."""

        async def stop_one(pod: Manifest) -> None:
            patch = pods.stop_patch(pod, reason, message, stamp(self._clock.now()))
            try:
                if patch is not None:
                    await self._writer.patch("pods", pod, patch, subresource="status", patch_type="strategic")
            except NotFound:
                return
            await self._writer.delete("pods", pod)
            self._recorder.normal(pod, "Stopped", shortened(message, _LONGEST_MESSAGE))

        await all_done(
            stop_one(pod) for pod in members if not pods.is_deleting(pod) and (everything or not pods.is_suspended(pod))
        )

    async def let_go(self, members: Iterable[Manifest]) -> None:
        """Take the finalizer from pods, so that those that are deleted go."""

        async def let_one_go(pod: Manifest) -> None:
            with suppress(NotFound):
                await remove_finalizer(self._writer, "pods", pod, MANAGED)

        await all_done(let_one_go(pod) for pod in members if pods.is_held(pod))

    async def remove_excess(self, members: Sequence[Manifest], current: Informer) -> None:
        """Delete pods that are too many."""
        await self.let_go(members)
        for pod in members:
            metadata = pod["metadata"]
            left = current.get(metadata["namespace"], metadata["name"])
            if left is not None and left["metadata"]["uid"] == metadata["uid"] and not pods.is_deleting(left):
                await self._writer.delete("pods", left)
                self._recorder.normal(pod, "ExcessPodDeleted", "Excess pod deleted")

    async def expire(self, members: Iterable[Manifest]) -> None:
        """Delete the pods of a job that was deactivated long enough ago."""
        for pod in members:
            if not pods.is_deleting(pod):
                await self._writer.delete("pods", pod, propagation="Background")
                self._recorder.normal(pod, "Deleted", "Deleted job: deactivation retention period expired")

    async def create_workload(self, workload: Manifest, about: Manifest) -> None:
        created = await self._writer.create("workloads", workload)
        self._recorder.normal(about, "CreatedWorkload", f"Created Workload: {namespaced_name(created)}")

    async def replace_spec(self, workload: Manifest, wanted: Manifest, about: Manifest) -> None:
        """Make a workload that has no quota the one that its job needs now."""
        spec = {field: wanted["spec"].get(field) for field in _SPEC_FIELDS}
        await self._writer.patch("workloads", workload, {"spec": spec}, locked=True)
        message = f"Updated not matching Workload for suspended job: {namespaced_name(workload)}"
        self._recorder.normal(about, "UpdatedWorkload", message)

    async def delete_workload(self, workload: Manifest, about: Manifest) -> None:
        self._deleted.add(workload["metadata"]["uid"])
        await self._writer.delete("workloads", workload)
        self._recorder.normal(about, "DeletedWorkload", f"Deleted not matching Workload: {namespaced_name(workload)}")

    async def add_owners(self, workload: Manifest, missing: list[Manifest]) -> Manifest:
        owners = [*(workload["metadata"].get("ownerReferences") or ()), *missing]
        written = await self._writer.patch(
            "workloads", workload, {"metadata": {"ownerReferences": owners}}, locked=True
        )
        self._recorder.normal(workload, "OwnerReferencesAdded", f"Added {len(missing)} owner reference(s)")
        return written

    async def commit(self, change: WorkloadStatusChange) -> Manifest:
        return await commit(self._writer, "workloads", change)

    async def finish(self, workload: Manifest, about: Manifest, reason: str, message: str) -> None:
        change = WorkloadStatusChange(workload, self._clock.now())
        change.finish(reason, message)
        await self.commit(change)
        self.readiness.forget(workload["metadata"]["uid"])
        message = f"Workload '{namespaced_name(workload)}' is declared finished"
        self._recorder.normal(about, "FinishedWorkload", message)

    async def keep_in_step(self, workload: Manifest, about: Manifest) -> Manifest:
        """Let a workload follow what its pod says about gates of the admission and the priority."""
        workload = await self._follow_gates(workload, about)
        return await self._follow_class(workload, about)

    async def follow_queue(self, workload: Manifest, about: Manifest) -> Manifest:
        """Move a workload without quota to the queue that its pod names now."""
        queue = queue_name(about)
        held = conditions.is_true(workload, conditions.QUOTA_RESERVED)
        if held or workload["spec"].get("queueName", "") == queue:
            return workload
        return await self._writer.patch("workloads", workload, {"spec": {"queueName": queue}}, locked=True)

    def tell_refusal(self, about: Manifest, message: str) -> None:
        """Why there is no workload."""
        self._recorder.warning(about, "ErrWorkloadCompose", shortened(message, _LONGEST_MESSAGE))

    def tell_conflict(self, about: Manifest, name: str) -> None:
        message = (
            f'A Workload named "{name}" already exists but is not a pod group workload; '
            "this pod group cannot be admitted"
        )
        self._recorder.warning(about, "WorkloadNameConflict", message)

    def tell_checks(self, workload: Manifest, members: Iterable[Manifest]) -> None:
        """What admission checks say while they make a workload wait; each message once."""
        message = following.waited_for_checks(workload)
        uid = workload["metadata"]["uid"]
        if not message or self._told.get(uid) == message:
            return
        self._told[uid] = message
        for pod in members:
            self._recorder.normal(pod, "UpdatedAdmissionCheck", shortened(message, _LONGEST_MESSAGE))

    async def _follow_gates(self, workload: Manifest, about: Manifest) -> Manifest:
        patch = following.gates_patch(about, workload)
        if not patch:
            return workload
        written = await self._writer.patch("workloads", workload, patch, locked=True)
        gates = following.gates_of(about)
        self._recorder.normal(about, "UpdatedWorkload", f'Updated workload AdmissionGatedBy to "{gates}"')
        return written

    async def _follow_class(self, workload: Manifest, about: Manifest) -> Manifest:
        if not following.names_another_class(about, workload):
            return workload
        wanted = self.priority(about, workload["spec"]["podSets"])
        patch = {"spec": {"priority": wanted.value, "priorityClassRef": wanted.class_ref}}
        written = await self._writer.patch("workloads", workload, patch, locked=True)
        self._recorder.normal(about, "UpdatedWorkload", f"Updated workload priority class: {namespaced_name(workload)}")
        return written
