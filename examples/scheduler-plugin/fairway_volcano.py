"""Volcano as a scheduler of Fairway: what a scheduler plugin of your own looks like.

    pip install ./examples/scheduler-plugin
    fairway schedule --scheduler volcano --org ml job.yaml

Pods get Volcano's name, its queue and the group that they belong to; the PodGroup itself is to be created with
the job, with the number of pods that the annotation says.
"""

from fairway.schedulers.jobs import SchedulableJob
from fairway.schedulers.plugin import SchedulingContext

GROUP = "scheduling.k8s.io/group-name"
QUEUE = "scheduling.volcano.sh/queue-name"
MEMBERS = "example.com/min-member"


class VolcanoScheduler:
    """One queue an organization, one PodGroup a job."""

    name = "volcano"

    def set_scheduler_name(self, job: SchedulableJob) -> None:
        for role in job.roles:
            if not role.scheduler_name:
                role.set_spec_field("schedulerName", self.name)

    def create_labels(self, job: SchedulableJob, context: SchedulingContext) -> None:
        for role in job.roles:
            role.annotations().setdefault(QUEUE, context.queue or context.organization)

    def create_group_labels(self, job: SchedulableJob, context: SchedulingContext) -> None:
        if not context.gang:
            return
        members = sum({role.name: role.count for role in job.roles}.values())
        for role in job.roles:
            role.annotations().setdefault(GROUP, context.application_id)
            role.annotations().setdefault(MEMBERS, str(members))


PLUGIN = VolcanoScheduler()
