"""The states of a managed job, and the moves between them.

The words are SkyPilot's. What differs: PENDING means that the job waits for quota, not for a slot of a controller; a
job is RECOVERING until it runs again; and an ended job can be retried.
"""

from enum import StrEnum
from typing import Final

from fairway.errors import FairwayError


class Phase(StrEnum):
    """Where a job stands."""

    PENDING = "PENDING"
    """It waits for quota, and nothing of its task has run."""

    STARTING = "STARTING"
    """It was admitted and its pods were made; not all of them run."""

    RUNNING = "RUNNING"
    RECOVERING = "RECOVERING"
    """It ran, had to stop, and will run again."""

    CANCELLING = "CANCELLING"
    SUCCEEDED = "SUCCEEDED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    FAILED_SETUP = "FAILED_SETUP"
    FAILED_PRECHECKS = "FAILED_PRECHECKS"
    """Its files could not be put in place, or its pods cannot be made as they are asked for."""

    FAILED_NO_RESOURCE = "FAILED_NO_RESOURCE"
    """None of the places where it may run exists."""

    FAILED_CONTROLLER = "FAILED_CONTROLLER"
    """What is stored of it cannot be read."""


LIVE: Final = frozenset({Phase.PENDING, Phase.STARTING, Phase.RUNNING, Phase.RECOVERING, Phase.CANCELLING})
FINAL: Final = frozenset(Phase) - LIVE
FAILURES: Final = FINAL - {Phase.SUCCEEDED, Phase.CANCELLED}

_TO_FAILURE: Final = {(live, end) for live in LIVE - {Phase.CANCELLING} for end in FAILURES}
_TO_CANCEL: Final = {(live, Phase.CANCELLING) for live in LIVE - {Phase.CANCELLING}}
_AGAIN: Final = {(end, Phase.PENDING) for end in FINAL}
_IMPOSSIBLE: Final = {
    (Phase.PENDING, Phase.FAILED),
    (Phase.PENDING, Phase.FAILED_SETUP),
}
"""What has not started cannot fail by itself."""

MOVES: Final = frozenset(
    {
        (Phase.PENDING, Phase.STARTING),
        (Phase.STARTING, Phase.RUNNING),
        (Phase.STARTING, Phase.PENDING),
        (Phase.RUNNING, Phase.SUCCEEDED),
        (Phase.RUNNING, Phase.RECOVERING),
        (Phase.RUNNING, Phase.PENDING),
        (Phase.RECOVERING, Phase.RUNNING),
        (Phase.CANCELLING, Phase.CANCELLED),
        *_TO_FAILURE,
        *_TO_CANCEL,
        *_AGAIN,
    }
    - _IMPOSSIBLE
)
"""Every legal move. From RUNNING to PENDING goes a pipeline whose next task waits; from an end, only a retry."""


class IllegalMove(FairwayError):
    """A job was to go where it cannot: a mistake of ours, never of its user."""

    def __init__(self, origin: Phase, target: Phase) -> None:
        super().__init__(f"a managed job does not go from {origin} to {target}")


def route(origin: Phase, target: Phase) -> tuple[Phase, ...]:
    """The phases that lead from one to another, without the first: the phases that were missed.

    Only forward: through STARTING and RUNNING to how it ended, or through CANCELLING.
    """
    if origin is target:
        return ()
    if (origin, target) in MOVES:
        return (target,)
    for between in _BETWEEN.get(origin, ()):
        if (between, target) in MOVES:
            return between, target
        for further in _BETWEEN.get(between, ()):
            if (further, target) in MOVES:
                return between, further, target
    raise IllegalMove(origin, target)


_BETWEEN: Final[dict[Phase, tuple[Phase, ...]]] = {
    Phase.PENDING: (Phase.STARTING, Phase.CANCELLING),
    Phase.STARTING: (Phase.RUNNING, Phase.CANCELLING),
    Phase.RUNNING: (Phase.CANCELLING,),
    Phase.RECOVERING: (Phase.RUNNING, Phase.CANCELLING),
}


class AttemptOutcome(StrEnum):
    """How an attempt ended; the words are also those of a job's `reason`."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    SETUP_FAILED = "SetupFailed"
    FILES_FAILED = "FilesFailed"
    REFUSED = "PodsRefused"
    """Its pods could not be made."""

    IMAGE_FAILED = "ImagePullFailed"
    NOT_STARTED = "ProvisionTimeout"
    """Its pods found no node in time, and there is another candidate."""

    PREEMPTED = "Preempted"
    EVICTED = "Evicted"
    """The queue took its quota back for another reason than a preemption."""

    LOST = "Lost"
    """Its pods, or the machine they were on, went away."""

    HELD = "Held"
    CANCELLED = "Cancelled"
    EXCEEDED = "MaxDurationExceeded"
    UNREADABLE = "Unreadable"


class Cause(StrEnum):
    """Why an attempt was begun; the task finds it in its environment."""

    START = ""
    PREEMPTED = "preempted"
    EVICTED = "evicted"
    LOST = "lost"
    ERROR = "error"
    HELD = "held"
    RETRY = "retry"
    MOVED = "moved"
    """To another candidate, after it had run at one."""


CAUSE_AFTER: Final = {
    AttemptOutcome.PREEMPTED: Cause.PREEMPTED,
    AttemptOutcome.EVICTED: Cause.EVICTED,
    AttemptOutcome.LOST: Cause.LOST,
    AttemptOutcome.HELD: Cause.HELD,
    AttemptOutcome.FAILED: Cause.ERROR,
    AttemptOutcome.SETUP_FAILED: Cause.ERROR,
}
"""Why a job that comes back after such an end does."""

PHASE_AFTER: Final = {
    AttemptOutcome.SUCCEEDED: Phase.SUCCEEDED,
    AttemptOutcome.CANCELLED: Phase.CANCELLED,
    AttemptOutcome.SETUP_FAILED: Phase.FAILED_SETUP,
    AttemptOutcome.FILES_FAILED: Phase.FAILED_PRECHECKS,
    AttemptOutcome.REFUSED: Phase.FAILED_PRECHECKS,
    AttemptOutcome.IMAGE_FAILED: Phase.FAILED_PRECHECKS,
    AttemptOutcome.NOT_STARTED: Phase.FAILED_NO_RESOURCE,
    AttemptOutcome.UNREADABLE: Phase.FAILED_CONTROLLER,
}
"""How a job ends that does not come back; FAILED where nothing is said."""
