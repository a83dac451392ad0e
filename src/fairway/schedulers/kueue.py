"""Kueue: the queue and the priority class of a job; of kinds without an integration, a group of their pods."""

from collections.abc import Collection
from typing import Any, Final

from fairway.integrations.frameworks import FRAMEWORKS
from fairway.integrations.names import PRIORITY_CLASS, QUEUE_NAME
from fairway.integrations.pod_groups import TOTAL_COUNT
from fairway.integrations.pods import GROUP
from fairway.schedulers.jobs import RoleStart, SchedulableJob
from fairway.schedulers.kinds import KINDS
from fairway.schedulers.plugin import SchedulingContext

_FRAMEWORKS: Final = {one.name: one for one in FRAMEWORKS}


class KueueScheduler:
    """Pods keep Kubernetes' scheduler: Kueue only decides when they may start."""

    name = "kueue"
    integrations: Collection[str] = tuple(one.integration for one in KINDS if one.integration)
    """The kinds that are queued as a whole, by Kueue's names."""

    def set_scheduler_name(self, job: SchedulableJob) -> None:
        """Kueue is no scheduler of pods."""

    def create_labels(self, job: SchedulableJob, context: SchedulingContext) -> None:
        """Add the LocalQueue and the WorkloadPriorityClass, to the job or to its pods."""
        wanted = {QUEUE_NAME: context.queue or context.job_type}
        if context.priority_class:
            wanted[PRIORITY_CLASS] = context.priority_class
        if job.kind.deferred:
            _name_queue(job, wanted)
        elif job.kind.integration in self.integrations:
            _fill(job.labels(), wanted)
            job.warnings += _refused(job)
        else:
            for role in job.roles:
                _fill(role.labels(), wanted)

    def create_group_labels(self, job: SchedulableJob, context: SchedulingContext) -> None:
        """Make one group of the pods that are created with the job."""
        if job.kind.integration in self.integrations or job.kind.deferred or not context.gang:
            return
        members = [role for role in job.roles if role.starts is RoleStart.AT_ONCE and role.count]
        total = sum({role.name: role.count for role in members}.values())
        late = [role.name for role in job.roles if role.starts is not RoleStart.AT_ONCE and role.count]
        if late:
            job.warnings.append(
                f"{job.kind.kind} has no integration in {self.name}: {', '.join(late)} cannot be in the group, because "
                "these pods are created later; each is admitted on its own"
            )
        if total < 2:
            return
        name = job.find_label(GROUP) or context.application_id
        for role in members:
            _fill(role.labels(), {GROUP: name})
            _fill(role.annotations(), {TOTAL_COUNT: str(total)})


def _fill(held: dict[str, str], wanted: dict[str, str]) -> None:
    for key, value in wanted.items():
        held.setdefault(key, value)


def _name_queue(job: SchedulableJob, wanted: dict[str, str]) -> None:
    """A ManagedJob names its queue in its spec, and says it in a label."""
    spec: dict[str, Any] = job.manifest["spec"]
    if not spec.get("queue"):
        spec["queue"] = wanted[QUEUE_NAME]
    job.labels().setdefault(QUEUE_NAME, spec["queue"])
    if PRIORITY_CLASS in wanted and spec.get("priority") is None and not spec.get("priorityClass"):
        spec["priorityClass"] = wanted[PRIORITY_CLASS]


def _refused(job: SchedulableJob) -> list[str]:
    """What the webhook for the kind will not take, or Kueue counts otherwise than the operator."""
    framework = _FRAMEWORKS.get(job.kind.integration)
    if framework is not None:
        return [str(error) for error in framework.wrong_on_create(job.manifest)]
    if job.kind.kind == "SparkApplication":
        executor = job.manifest["spec"].get("executor") or {}
        unsaid = [f"spec.executor.{name}" for name in ("instances", "coreRequest") if not executor.get(name)]
        if unsaid:
            return [f"{' and '.join(unsaid)}: Kueue counts only what is said; set it"]
    return []


PLUGIN: Final = KueueScheduler()
