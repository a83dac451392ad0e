"""The status of a managed job, as a value.

The status is all that the state machine knows of the past. A controller that was killed between any two writes reads it
again and continues; so what must not happen twice is in the status before it is done.
"""

from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from fairway.apis.machinery.kind import Manifest
from fairway.managedjobs.states import FINAL, MOVES, AttemptOutcome, IllegalMove, Phase, route

MOST_ATTEMPTS: Final = 50
"""So many are remembered, the latest."""

LARGEST_PRIORITY: Final = 2**31 - 1

_OUTCOMES: Final = frozenset(one.value for one in AttemptOutcome)

HELD: Final = "Held"
QUEUED: Final = "Queued"


class PodRef(Struct, frozen=True, kw_only=True, rename="camel"):
    """A pod of an attempt: its uid leads to its logs when it is gone."""

    name: str
    uid: str = ""
    rank: int = 0


class Attempt(Struct, frozen=True, kw_only=True, rename="camel"):
    """One try of a task: a gang of pods, from when it was begun to when nothing of it was left."""

    task: int
    attempt: int
    cause: str = ""
    infra: str = ""
    priority: int | None = None
    queued_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    stopping: str = ""
    """Why its pods are being stopped; how it ended may still turn out to be another thing."""

    outcome: str = ""
    exit_code: int | None = None
    message: str = ""
    pods: tuple[PodRef, ...] = ()

    def __post_init__(self) -> None:
        if self.stopping and self.stopping not in _OUTCOMES:
            raise ValueError(f"{self.stopping!r} is not an outcome of an attempt")

    @property
    def is_live(self) -> bool:
        return self.ended_at is None


class RejectedCandidate(Struct, frozen=True, kw_only=True, rename="camel"):
    """A candidate that was given up, and why."""

    candidate: int
    reason: str
    message: str = ""


class RemoteCleanup(Struct, frozen=True, kw_only=True, rename="camel"):
    """A job to delete on another server, once that server answers."""

    infra: str
    name: str


class Remote(Struct, frozen=True, kw_only=True, rename="camel"):
    """The job at another server that does the work, and what was counted before it."""

    name: str
    uid: str = ""
    """Empty until that server has answered."""

    attempt: int = 0
    recoveries: int = 0
    preemptions: int = 0
    restarts_on_errors: int = 0
    ran_seconds: int = 0


class ManagedJobStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """The status of a managed job."""

    phase: Phase = Phase.PENDING
    reason: str = ""
    message: str = ""
    task: int = 0
    candidate: int = 0
    infra: str = ""
    attempt: int = 0
    cause: str = ""
    """Why the next attempt will be begun, or the latest was."""

    workload: str = ""
    held: bool = False
    """Whether its Workload was deactivated by hold; only that is undone."""

    priority: int | None = None
    recoveries: int = 0
    preemptions: int = 0
    restarts_on_errors: int = 0
    submitted_at: datetime | None = None
    """The time by which the job queues: when it was made, or asked to begin again."""

    queued_at: datetime | None = None
    """Since when it waits at its candidate; nothing while it does not wait."""

    started_at: datetime | None = None
    running_since: datetime | None = None
    ended_at: datetime | None = None
    ran_seconds: int = 0
    task_ran_seconds: int = 0
    """The part of `ran_seconds` that counts against the task's longest duration."""

    observed_retry: int = 0
    observed_generation: int = 0
    attempts: tuple[Attempt, ...] = ()
    passed: tuple[RejectedCandidate, ...] = ()
    remote: Remote | None = None
    withdrawing: tuple[RemoteCleanup, ...] = ()

    @property
    def is_final(self) -> bool:
        return self.phase in FINAL

    @property
    def live_attempt(self) -> Attempt | None:
        """The attempt whose pods there are or will be, here; those of another server are its business."""
        latest = self.attempts[-1] if self.attempts else None
        return latest if latest is not None and latest.is_live and self.remote is None else None

    def last_attempt(self, task: int) -> int:
        """The number of the latest attempt at a task that is remembered; zero if there was none."""
        return max((one.attempt for one in self.attempts if one.task == task), default=0)

    def with_attempt(self, **changes: Any) -> "ManagedJobStatus":
        """The same with the latest attempt changed."""
        latest = msgspec.structs.replace(self.attempts[-1], **changes)
        return msgspec.structs.replace(self, attempts=(*self.attempts[:-1], latest))

    def replace(self, **changes: Any) -> "ManagedJobStatus":
        """A copy with these fields changed."""
        return msgspec.structs.replace(self, **changes)

    def withdrawn(self) -> "ManagedJobStatus":
        """The same with nothing at another server, but for what is still to be taken back from there."""
        if self.remote is None:
            return self
        gone = RemoteCleanup(infra=self.infra, name=self.remote.name)
        return self.replace(remote=None, withdrawing=(*self.withdrawing, gone))

    def moved(self, phase: Phase, reason: str = "", message: str = "") -> "ManagedJobStatus":
        """In another phase, by legal moves; and why."""
        here = self.phase
        for there in route(here, phase):
            if (here, there) not in MOVES:
                raise IllegalMove(here, there)
            here = there
        return self.replace(phase=phase, reason=reason, message=message)


def read(job: Manifest) -> ManagedJobStatus:
    """What a stored job says; what is not as it should be is a `msgspec.ValidationError`."""
    return msgspec.convert(job.get("status") or {}, ManagedJobStatus)


def salvaged(job: Manifest) -> ManagedJobStatus:
    """What can be read of a status that cannot be read as a whole; pods of an attempt that is lost here are strays."""
    status = job.get("status") or {}
    attempts = status.get("attempts")
    if isinstance(attempts, list):
        status = {**status, "attempts": [one for one in attempts if _is_readable({"attempts": [one]})]}
    return msgspec.convert({name: one for name, one in status.items() if _is_readable({name: one})}, ManagedJobStatus)


def _is_readable(status: Manifest) -> bool:
    try:
        msgspec.convert(status, ManagedJobStatus)
    except msgspec.ValidationError:
        return False
    return True


def written(life: ManagedJobStatus) -> Manifest:
    """As a status: what says nothing is left out."""
    status: Manifest = _without_nothing(msgspec.to_builtins(life))
    return status


def status_patch(before: Manifest, life: ManagedJobStatus) -> Manifest:
    """The merge patch that makes a status say this; empty if it does. What others wrote into it stays."""
    wanted = written(life)
    gone = {name: None for name in _NAMES if name in before and name not in wanted}
    return {**{name: value for name, value in wanted.items() if before.get(name) != value}, **gone}


def stamp(moment: datetime) -> datetime:
    """A time as a status keeps it: whole seconds."""
    return moment.replace(microsecond=0)


_NAMES: Final = tuple(field.encode_name for field in msgspec.structs.fields(ManagedJobStatus))
_NOTHING: Final[tuple[Any, ...]] = (None, "", [], (), {})


def _without_nothing(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nothing(one) for name, one in value.items() if one is not False and one not in _NOTHING}
    if isinstance(value, list | tuple):
        return [_without_nothing(one) for one in value]
    return value
