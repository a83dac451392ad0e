"""Workloads made for jobs and kept in step with them."""

from typing import Any

from fairway.controllers.frameworks.tools import WORKLOADS, Tools
from fairway.jobs import conditions, names, priorities, webhooks
from fairway.jobs import workloads as new
from fairway.jobs.framework import Framework, HasPriorityClass
from fairway.jobs.priorities import Priority
from fairway.kinds.kind import Manifest


class Maker:
    """Makes the workloads of one job kind."""

    def __init__(self, tools: Tools, framework: Framework) -> None:
        self._tools = tools
        self._framework = framework
        self._named_by = framework if isinstance(framework, HasPriorityClass) else None

    async def create(self, job: Manifest) -> None:
        """A workload for a job that has none."""
        framework, metadata = self._framework, job["metadata"]
        copied = self._tools.configuration.value.label_keys_to_copy
        given = webhooks.labels_of(job)
        labels = {key: given[key] for key in copied if key in given}
        labels[names.JOB_UID] = metadata["uid"]
        workload = new.new_workload(
            new.workload_name(framework.kind, framework.group, metadata["name"], metadata["uid"]),
            metadata["namespace"],
            [new.owner_reference(job)],
            self._pod_sets(job),
            webhooks.queue_name(job),
            self._priority(job),
            labels=labels,
            annotations=_passed_on(webhooks.annotations_of(job)),
            maximum_execution_seconds=webhooks.maximum_seconds(job),
        )
        made = await self._tools.writer.create(WORKLOADS, workload)
        self._tools.recorder.normal(job, "CreatedWorkload", f"Created Workload: {_name(made)}")

    async def update(self, job: Manifest, workload: Manifest) -> Manifest:
        """Make a workload that waits what a new one would be."""
        priority = self._priority(job)
        spec = {
            "podSets": self._pod_sets(job),
            "queueName": webhooks.queue_name(job) or None,
            "priority": priority.value,
            "priorityClassRef": priority.class_ref,
            "maximumExecutionTimeSeconds": webhooks.maximum_seconds(job),
        }
        patch = {"spec": spec, **_gates(job, workload)}
        updated = await self._tools.writer.patch(WORKLOADS, workload, patch, locked=True)
        message = f"Updated not matching Workload for suspended job: {_name(updated)}"
        self._tools.recorder.normal(job, "UpdatedWorkload", message)
        return updated

    async def keep_in_step(self, job: Manifest, workload: Manifest, *, suspended: bool) -> Manifest:
        """Pass on what may change while the workload stays the same one: gates, priority, queue."""
        patch = _gates(job, workload)
        spec: Manifest = {}
        moved = self._moved_priority(job, workload)
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
            gates = webhooks.annotations_of(job).get(names.ADMISSION_GATED_BY, "")
            self._tools.recorder.normal(job, "UpdatedWorkload", f'Updated workload AdmissionGatedBy to "{gates}"')
        if moved is not None:
            self._tools.recorder.normal(job, "UpdatedWorkload", f"Updated workload priority class: {_name(updated)}")
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

    def _pod_sets(self, job: Manifest) -> list[Manifest]:
        return [
            new.pod_set(one["name"], one["template"], one["count"], one.get("minCount"), one.get("topologyRequest"))
            for one in self._framework.pod_sets(job)
        ]

    def _priority(self, job: Manifest) -> Priority:
        return priorities.resolve(
            webhooks.labels_of(job),
            (one["template"] for one in self._framework.pod_sets(job)),
            self._tools.workload_classes,
            self._tools.priority_classes,
            own_class=None if self._named_by is None else self._named_by.priority_class(job),
        )

    def _moved_priority(self, job: Manifest, workload: Manifest) -> Priority | None:
        """The priority of a workload that follows the label of its job, where the label names another class."""
        held: dict[str, Any] | None = workload["spec"].get("priorityClassRef")
        chosen = webhooks.labels_of(job).get(names.PRIORITY_CLASS, "")
        if held is None:
            if not chosen or conditions.is_true(workload, conditions.QUOTA_RESERVED):
                return None
        elif held["kind"] != "WorkloadPriorityClass" or held["name"] == chosen:
            return None
        return self._priority(job)


def _passed_on(annotations: Any) -> dict[str, str]:
    """What of a job's annotations its workload needs."""
    return {
        key: value
        for key, value in annotations.items()
        if key.startswith(names.PROVISIONING_PREFIX) or (key == names.ADMISSION_GATED_BY and value)
    }


def _gates(job: Manifest, workload: Manifest) -> Manifest:
    """The patch that passes the gates of a job on to its workload; empty if they are there."""
    gates = webhooks.annotations_of(job).get(names.ADMISSION_GATED_BY, "")
    if gates == webhooks.annotations_of(workload).get(names.ADMISSION_GATED_BY, ""):
        return {}
    return {"metadata": {"annotations": {names.ADMISSION_GATED_BY: gates or None}}}


def _name(manifest: Manifest) -> str:
    return f"{manifest['metadata']['namespace']}/{manifest['metadata']['name']}"
