"""Writes of the job framework: workloads made for jobs and kept in step with them, jobs stopped; and the caches and the
writer that they share.
"""

from collections.abc import Sequence
from typing import Final

from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.client.recorder import Recorder
from fairway.controllers.kit.configuration import ConfigurationSource
from fairway.controllers.kit.owners import OwnerIndex, Owners, controller_uid
from fairway.controllers.kit.workloads import LONGEST_EVENT, WORKLOADS, WorkloadWriter
from fairway.integrations import following, names, slices, webhooks
from fairway.integrations import workloads as new
from fairway.integrations.conditions import shortened
from fairway.integrations.framework import Framework, HasPriorityClass, StopProgress

_MOST_STEPS: Final = 8
"""More than any kind takes; the rest is for the next time."""


class JobWriter(WorkloadWriter):
    """One set for all job kinds."""

    def __init__(
        self,
        cluster: Cluster,
        configuration: ConfigurationSource,
        recorder: Recorder,
        frameworks: tuple[Framework, ...],
    ) -> None:
        super().__init__(cluster, recorder)
        self.cluster = cluster
        self.configuration = configuration
        self.owners = Owners(cluster, configuration, frameworks)
        self.workloads = cluster.cache(WORKLOADS)
        self._workloads_by_owner = OwnerIndex(controller_uid, self.workloads)
        self.namespaces = cluster.cache("namespaces")
        self._flavors = cluster.cache("resourceflavors.kueue.x-k8s.io")

    def workloads_of(self, uid: str) -> list[Manifest]:
        """The workloads that a job controls, the oldest first."""
        found = self._workloads_by_owner.of(uid)
        return sorted(found, key=_age) if len(found) > 1 else found

    def flavor(self, name: str) -> Manifest | None:
        return self._flavors.get("", name)


def _age(manifest: Manifest) -> tuple[str, str]:
    metadata = manifest["metadata"]
    return metadata["creationTimestamp"], metadata["name"]


class WorkloadBuilder:
    """Makes the workloads of one job kind."""

    def __init__(self, tools: JobWriter, framework: Framework) -> None:
        self._tools = tools
        self._framework = framework
        self._named_by = framework if isinstance(framework, HasPriorityClass) else None

    async def create(self, job: Manifest, others: Sequence[Manifest] | None = None) -> None:
        """A workload for a job that has none, or another slice beside the `others` of an elastic one."""
        framework, metadata = self._framework, job["metadata"]
        pod_sets = framework.pod_sets(job)
        copied = self._tools.configuration.value.label_keys_to_copy
        given = webhooks.labels_of(job)
        labels = {key: given[key] for key in copied if key in given}
        labels[names.JOB_UID] = metadata["uid"]
        generation = () if others is None else (str(metadata.get("generation", 0)),)
        name = new.workload_name(framework.kind, framework.group, metadata["name"], metadata["uid"], *generation)
        said = {} if others is None else slices.annotations_of_new(name, others)
        workload = new.new_workload(
            name,
            metadata["namespace"],
            [new.owner_reference(job)],
            [_pod_set(one) for one in pod_sets],
            webhooks.queue_name(job),
            self._tools.priority(job, pod_sets, self._own_class(job)),
            labels=labels,
            annotations=following.passed_on(webhooks.annotations_of(job)) | said,
            maximum_execution_seconds=webhooks.maximum_seconds(job),
        )
        await self._tools.create(workload, job)

    async def update(self, job: Manifest, workload: Manifest) -> Manifest:
        """Make a workload that waits what a new one would be."""
        pod_sets = self._framework.pod_sets(job)
        priority = self._tools.priority(job, pod_sets, self._own_class(job))
        spec = {
            "podSets": [_pod_set(one) for one in pod_sets],
            "queueName": webhooks.queue_name(job) or None,
            "priority": priority.value,
            "priorityClassRef": priority.class_ref,
            "maximumExecutionTimeSeconds": webhooks.maximum_seconds(job),
        }
        return await self._tools.replace(workload, {"spec": spec, **following.gates_patch(job, workload)}, job)

    async def keep_in_step(self, job: Manifest, workload: Manifest, *, suspended: bool) -> Manifest:
        return await self._tools.keep_in_step(workload, job, own_class=self._own_class(job), queue=suspended)

    def _own_class(self, job: Manifest) -> str | None:
        return None if self._named_by is None else self._named_by.priority_class(job)


def _pod_set(one: Manifest) -> Manifest:
    return new.pod_set(one["name"], one["template"], one["count"], one.get("minCount"), one.get("topologyRequest"))


async def stop(tools: JobWriter, framework: Framework, job: Manifest, workload: Manifest | None, why: str) -> bool:
    """Take the steps that can be taken now; whether the job has stopped by them."""
    pod_sets = None if workload is None else workload["spec"]["podSets"]
    for _ in range(_MOST_STEPS):
        step = framework.stop(job, pod_sets)
        if isinstance(step, StopProgress):
            return step is StopProgress.STOPPED
        job = await tools.writer.patch(framework.resource, job, step.patch, subresource=step.subresource, locked=True)
        if step.stops:
            tools.recorder.normal(job, "Stopped", shortened(why, LONGEST_EVENT))
    return False
