"""Instructions of the state machine. Each is idempotent: after a crash in between, the controller
observes again and decides the same.
"""

from datetime import datetime

from msgspec import Struct

from fairway.managedjobs.status import ManagedJobStatus


class JobAction(Struct, frozen=True, kw_only=True):
    """Something to be done, in the order in which it is said."""


class MakeWorkload(JobAction, frozen=True, kw_only=True):
    """Queue for the job's task and candidate, under the name that the status has."""

    priority: int
    earned: int = 0


class SetPriority(JobAction, frozen=True, kw_only=True):
    """Give the Workload its base priority and what aging earned on top of it."""

    priority: int
    earned: int = 0


class SetActive(JobAction, frozen=True, kw_only=True):
    active: bool


class ReleaseQuota(JobAction, frozen=True, kw_only=True):
    """Nothing runs any more: the evicted Workload goes back to its queue."""


class FinishWorkload(JobAction, frozen=True, kw_only=True):
    name: str
    succeeded: bool
    message: str


class DeleteWorkload(JobAction, frozen=True, kw_only=True):
    name: str


class StartPods(JobAction, frozen=True, kw_only=True):
    """Make those pods of the live attempt that are not there."""


class StopPods(JobAction, frozen=True, kw_only=True):
    """Tell these pods to end."""

    names: tuple[str, ...]
    message: str


class LetGoOfPods(JobAction, frozen=True, kw_only=True):
    """Nothing of these pods runs, and how they ended is written down: they may go."""

    names: tuple[str, ...]


class Delegate(JobAction, frozen=True, kw_only=True):
    """Make the job that the status names at another server."""

    context: str
    name: str


class ChangeRemote(JobAction, frozen=True, kw_only=True):
    context: str
    name: str
    hold: bool | None = None
    cancel: bool | None = None
    priority: int | None = None


class JobEvent(Struct, frozen=True, kw_only=True):
    """Something to tell people, as an Event."""

    reason: str
    message: str
    warning: bool = False


class JobPlan(Struct, frozen=True, kw_only=True):
    """What comes next: first the status, then what it stands for."""

    life: ManagedJobStatus | None = None
    """The status to be written; nothing if it stays as it is."""

    do: tuple[JobAction, ...] = ()
    tell: tuple[JobEvent, ...] = ()
    again_at: datetime | None = None
    """When time alone may change something."""

    @property
    def is_empty(self) -> bool:
        return self.life is None and not self.do
