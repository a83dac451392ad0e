"""The interface of a scheduler plugin."""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct, field

from fairway.apis.machinery.quantities import Quantity
from fairway.errors import FairwayError
from fairway.schedulers.jobs import SchedulableJob

Amounts = Mapping[str, Quantity]


class SchedulingError(FairwayError):
    """A job that the chosen scheduler cannot take; the message says what to change."""


class GangParameters(Struct, frozen=True, kw_only=True):
    """YuniKorn's parameters of gang scheduling."""

    timeout_seconds: int | None = None
    """`placeholderTimeoutInSeconds`: how long placeholders wait for the rest; `None` for YuniKorn's 15 minutes."""

    style: str = ""
    """`Hard` fails the job then, `Soft` schedules its pods one by one; empty for YuniKorn's default, `Soft`."""


class SchedulingContext(Struct, frozen=True, kw_only=True):
    """Whose job it is, and what is configured for it."""

    organization: str
    job_type: str
    team: str = ""
    user: str = ""
    groups: tuple[str, ...] = ()
    application_id: str
    """A new one for every attempt: unique, and valid as a label."""

    queue: str = ""
    """The configured queue; empty for that of the organization and the job type."""

    priority_class: str = ""
    gang: bool = True
    gang_parameters: GangParameters = GangParameters()
    allow_preemption: bool | None = None
    overheads: Mapping[str, Amounts] = field(default_factory=dict)
    """What pods of a RuntimeClass take besides their containers, by its name."""


class SchedulerPlugin(Protocol):
    """Completes the manifest of a job for one scheduler, in place; called in this order.

    What the manifest says already stays as it is, so that to complete it twice is the same as once. A job that cannot
    be scheduled raises `SchedulingError`; what the author should know goes to `job.warnings`.
    """

    name: str

    def set_scheduler_name(self, job: SchedulableJob) -> None:
        """Set `schedulerName` where the operator takes it from."""

    def create_labels(self, job: SchedulableJob, context: SchedulingContext) -> None:
        """Add queue, application and user."""

    def create_group_labels(self, job: SchedulableJob, context: SchedulingContext) -> None:
        """Add what makes the pods of the job start together, and what says whether they may be preempted."""
