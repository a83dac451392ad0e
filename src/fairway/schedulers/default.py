"""Kubernetes' own scheduler: jobs are left as they are."""

from fairway.schedulers.jobs import SchedulableJob
from fairway.schedulers.plugin import SchedulingContext


class DefaultScheduler:
    """Adds nothing."""

    name = "default"

    def set_scheduler_name(self, job: SchedulableJob) -> None:
        """Pods without a name are Kubernetes' scheduler's."""

    def create_labels(self, job: SchedulableJob, context: SchedulingContext) -> None:
        """There are no queues."""

    def create_group_labels(self, job: SchedulableJob, context: SchedulingContext) -> None:
        """There are no groups."""


PLUGIN = DefaultScheduler()
