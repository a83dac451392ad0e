"""The Workloads of jobs and pods: written, kept in step with them, and told of with Kueue's events."""

from collections.abc import Iterable
from typing import Final

from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.client.recorder import Recorder
from fairway.controllers.kit.readiness import Settling
from fairway.controllers.kit.status import WorkloadStatusChange
from fairway.controllers.kit.writes import commit
from fairway.integrations import conditions, following, names, priorities, webhooks
from fairway.integrations.conditions import shortened
from fairway.integrations.workloads import namespaced_name, owner_reference

WORKLOADS: Final = "workloads.kueue.x-k8s.io"
LONGEST_EVENT: Final = 1024
OUT_OF_SYNC: Final = ("OutOfSync", "The prebuilt workload is out of sync with its user job")
"""Reason and message of the end of a workload that was made beforehand and does not fit."""


class WorkloadWriter:
    """Writes Workloads; events are about the job or pod that is given as `about`."""

    def __init__(self, cluster: Cluster, recorder: Recorder) -> None:
        self.clock = cluster.clock
        self.recorder = recorder
        self.writer = cluster.writer("kueue")
        self.readiness = Settling(cluster.clock.monotonic)
        self.workload_classes = cluster.cache("workloadpriorityclasses.kueue.x-k8s.io")
        self.priority_classes = cluster.cache("priorityclasses.scheduling.k8s.io")
        self._checks_told: dict[str, str] = {}
        """What was last told about the admission checks of a workload, by its UID."""

    def forget_workload(self, uid: str) -> None:
        self._checks_told.pop(uid, None)
        self.readiness.forget(uid)

    def priority(
        self, about: Manifest, pod_sets: Iterable[Manifest], own_class: str | None = None
    ) -> priorities.Priority:
        """The priority of a job or pod; `MissingPriorityClass` if it names a class that does not exist."""
        templates = [pod_set["template"] for pod_set in pod_sets]
        return priorities.resolve(
            webhooks.labels_of(about), templates, self.workload_classes, self.priority_classes, own_class=own_class
        )

    def change(self, workload: Manifest) -> WorkloadStatusChange:
        return WorkloadStatusChange(workload, self.clock.now())

    async def commit(self, change: WorkloadStatusChange) -> Manifest:
        return await commit(self.writer, WORKLOADS, change)

    async def create(self, workload: Manifest, about: Manifest) -> None:
        created = await self.writer.create(WORKLOADS, workload)
        self.recorder.normal(about, "CreatedWorkload", f"Created Workload: {namespaced_name(created)}")

    async def take_over(self, workload: Manifest, about: Manifest) -> Manifest:
        """Make a workload that was made beforehand that of a job or pod."""
        owners = workload["metadata"].get("ownerReferences") or []
        uid = about["metadata"]["uid"]
        patch = {
            "metadata": {
                "ownerReferences": [*(one for one in owners if one["uid"] != uid), owner_reference(about)],
                "labels": {names.JOB_UID: uid},
            }
        }
        return await self.writer.patch(WORKLOADS, workload, patch, locked=True)

    async def replace(self, workload: Manifest, patch: Manifest, about: Manifest) -> Manifest:
        """Make a workload without quota what a new one would be."""
        updated = await self.writer.patch(WORKLOADS, workload, patch, locked=True)
        message = f"Updated not matching Workload for suspended job: {namespaced_name(updated)}"
        self.recorder.normal(about, "UpdatedWorkload", message)
        return updated

    async def delete(self, workload: Manifest, about: Manifest) -> None:
        await self.writer.delete(WORKLOADS, workload)
        self.recorder.normal(about, "DeletedWorkload", f"Deleted not matching Workload: {namespaced_name(workload)}")

    async def finish(self, workload: Manifest, about: Manifest, reason: str, message: str) -> None:
        change = self.change(workload)
        change.finish(reason, message)
        await self.commit(change)
        self.readiness.forget(workload["metadata"]["uid"])
        self.recorder.normal(about, "FinishedWorkload", f"Workload '{namespaced_name(workload)}' is declared finished")

    async def keep_in_step(
        self, workload: Manifest, about: Manifest, *, own_class: str | None = None, queue: bool = False
    ) -> Manifest:
        """Pass on what may change while the workload stays the same one: gates, priority class and, with `queue`, the
        queue of one without quota.
        """
        patch, moved = following.gates_patch(about, workload), None
        spec: Manifest = {}
        if following.names_another_class(about, workload):
            moved = self.priority(about, workload["spec"]["podSets"], own_class)
            spec |= {"priority": moved.value, "priorityClassRef": moved.class_ref}
        named = webhooks.queue_name(about)
        if (
            queue
            and workload["spec"].get("queueName", "") != named
            and not conditions.is_true(workload, conditions.QUOTA_RESERVED)
        ):
            spec["queueName"] = named or None
        if spec:
            patch = {**patch, "spec": spec}
        if not patch:
            return workload
        updated = await self.writer.patch(WORKLOADS, workload, patch, locked=True)
        if "metadata" in patch:
            gates = following.gates_of(about)
            self.recorder.normal(about, "UpdatedWorkload", f'Updated workload AdmissionGatedBy to "{gates}"')
        if moved is not None:
            message = f"Updated workload priority class: {namespaced_name(updated)}"
            self.recorder.normal(about, "UpdatedWorkload", message)
        return updated

    def emit_check_events(self, workload: Manifest, about: Iterable[Manifest]) -> None:
        """What admission checks say while they make a workload wait; each message once."""
        message, uid = following.waited_for_checks(workload), workload["metadata"]["uid"]
        if not message or self._checks_told.get(uid) == message:
            return
        self._checks_told[uid] = message
        for one in about:
            self.recorder.normal(one, "UpdatedAdmissionCheck", shortened(message, LONGEST_EVENT))
