"""Workloads made for jobs and kept in step with them."""

from collections.abc import Sequence

from fairway.apis.machinery.kind import Manifest
from fairway.controllers.jobframework.tools import WORKLOADS, Tools
from fairway.integrations import conditions, following, names, priorities, webhooks
from fairway.integrations import workloads as new
from fairway.integrations.framework import Framework, HasPriorityClass
from fairway.integrations.priorities import Priority


class Maker:
    """Makes the workloads of one job kind."""

    def __init__(self, tools: Tools, framework: Framework) -> None:
        self._tools = tools
        self._framework = framework
        self._named_by = framework if isinstance(framework, HasPriorityClass) else None

    async def create(self, job: Manifest) -> None:
        """A workload for a job that has none."""
        framework, metadata = self._framework, job["metadata"]
        pod_sets = framework.pod_sets(job)
        copied = self._tools.configuration.value.label_keys_to_copy
        given = webhooks.labels_of(job)
        labels = {key: given[key] for key in copied if key in given}
        labels[names.JOB_UID] = metadata["uid"]
        workload = new.new_workload(
            new.workload_name(framework.kind, framework.group, metadata["name"], metadata["uid"]),
            metadata["namespace"],
            [new.owner_reference(job)],
            [_pod_set(one) for one in pod_sets],
            webhooks.queue_name(job),
            self._priority(job, pod_sets),
            labels=labels,
            annotations=following.passed_on(webhooks.annotations_of(job)),
            maximum_execution_seconds=webhooks.maximum_seconds(job),
        )
        made = await self._tools.writer.create(WORKLOADS, workload)
        self._tools.recorder.normal(job, "CreatedWorkload", f"Created Workload: {new.namespaced_name(made)}")

    async def update(self, job: Manifest, workload: Manifest) -> Manifest:
        """Make a workload that waits what a new one would be."""
        pod_sets = self._framework.pod_sets(job)
        priority = self._priority(job, pod_sets)
        spec = {
            "podSets": [_pod_set(one) for one in pod_sets],
            "queueName": webhooks.queue_name(job) or None,
            "priority": priority.value,
            "priorityClassRef": priority.class_ref,
            "maximumExecutionTimeSeconds": webhooks.maximum_seconds(job),
        }
        patch = {"spec": spec, **following.gates_patch(job, workload)}
        updated = await self._tools.writer.patch(WORKLOADS, workload, patch, locked=True)
        message = f"Updated not matching Workload for suspended job: {new.namespaced_name(updated)}"
        self._tools.recorder.normal(job, "UpdatedWorkload", message)
        return updated

    async def keep_in_step(self, job: Manifest, workload: Manifest, *, suspended: bool) -> Manifest:
        """Pass on what may change while the workload stays the same one: gates, priority, queue."""
        patch = following.gates_patch(job, workload)
        spec: Manifest = {}
        moved = None
        if following.names_another_class(job, workload):
            moved = self._priority(job, self._framework.pod_sets(job))
        if moved is not None:
            spec |= {"priority": moved.value, "priorityClassRef": moved.class_ref}
        queue = webhooks.queue_name(job)
        if (
            suspended
            and workload["spec"].get("queueName", "") != queue
            and not conditions.is_true(workload, conditions.QUOTA_RESERVED)
        ):
            spec["queueName"] = queue or None
        if spec:
            patch = {**patch, "spec": spec}
        if not patch:
            return workload
        updated = await self._tools.writer.patch(WORKLOADS, workload, patch, locked=True)
        if "metadata" in patch:
            gates = following.gates_of(job)
            self._tools.recorder.normal(job, "UpdatedWorkload", f'Updated workload AdmissionGatedBy to "{gates}"')
        if moved is not None:
            message = f"Updated workload priority class: {new.namespaced_name(updated)}"
            self._tools.recorder.normal(job, "UpdatedWorkload", message)
        return updated

    async def take_over(self, job: Manifest, workload: Manifest) -> Manifest:
        """Make a workload that was made beforehand that of a job."""
        owners = workload["metadata"].get("ownerReferences") or []
        uid = job["metadata"]["uid"]
        patch = {
            "metadata": {
                "ownerReferences": [*(one for one in owners if one["uid"] != uid), new.owner_reference(job)],
                "labels": {names.JOB_UID: uid},
            }
        }
        return await self._tools.writer.patch(WORKLOADS, workload, patch, locked=True)

    def _priority(self, job: Manifest, pod_sets: Sequence[Manifest]) -> Priority:
        return priorities.resolve(
            webhooks.labels_of(job),
            (one["template"] for one in pod_sets),
            self._tools.workload_classes,
            self._tools.priority_classes,
            own_class=None if self._named_by is None else self._named_by.priority_class(job),
        )


def _pod_set(one: Manifest) -> Manifest:
    return new.pod_set(one["name"], one["template"], one["count"], one.get("minCount"), one.get("topologyRequest"))
