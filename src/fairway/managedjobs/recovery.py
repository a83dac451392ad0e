"""Recovery of managed jobs: restarts on errors, back-off, aging."""

from datetime import datetime, timedelta
from typing import Final

from fairway.managedjobs.observation import ManagedJobSpec
from fairway.managedjobs.states import AttemptOutcome
from fairway.managedjobs.status import LARGEST_PRIORITY, Attempt, ManagedJobStatus

FIRST_PAUSE_SECONDS: Final = 1
LONGEST_PAUSE_SECONDS: Final = 60
LONG_ENOUGH_SECONDS: Final = 600
"""An attempt that ran for so long is not one of a row of quick failures."""

_ERRORS: Final = frozenset({AttemptOutcome.FAILED, AttemptOutcome.SETUP_FAILED})
_IN_PLACE: Final = _ERRORS | {AttemptOutcome.LOST}
COMES_BACK: Final = frozenset(
    {AttemptOutcome.PREEMPTED, AttemptOutcome.EVICTED, AttemptOutcome.LOST, AttemptOutcome.HELD}
)
"""Ends that are not the task's own doing."""


def earned_priority(job: ManagedJobSpec, base: int, preemptions: int) -> int:
    """What aging adds to the base priority: a step for each preemption, up to the cap."""
    return min(job.aging_step * preemptions, job.aging_cap, LARGEST_PRIORITY - base)


def comes_back(job: ManagedJobSpec, life: ManagedJobStatus, outcome: AttemptOutcome, exit_code: int | None) -> bool:
    """Whether a job runs again after an attempt that ended so."""
    if outcome is AttemptOutcome.HELD:
        return True  # a held job waits and does not end
    if outcome in COMES_BACK:
        return job.recover
    if outcome in _ERRORS:
        recovery = job.task(life.task).recovery
        return exit_code in recovery.exit_codes or life.restarts_on_errors < recovery.max_restarts_on_errors
    return False


def counts_as_restart(
    job: ManagedJobSpec, life: ManagedJobStatus, outcome: AttemptOutcome, exit_code: int | None
) -> bool:
    """Whether coming back after this uses up one of the task's restarts."""
    return outcome in _ERRORS and exit_code not in job.task(life.task).recovery.exit_codes


def may_start_at(life: ManagedJobStatus, now: datetime) -> datetime | None:
    """When the next attempt may begin; at once if there is nothing to wait for.

    Restarts in place keep their quota, so nothing else slows down a task that fails as soon as it runs. What was lost
    is tried again at once the first time. An end in the future means that the clock was set back, and is ignored.
    """
    if not life.attempts:
        return None
    latest = life.attempts[-1]
    row = _quick_failures(life)
    if not row or latest.ended_at is None or latest.ended_at > now:
        return None
    exponent = row - 1 if latest.outcome in _ERRORS else row - 2
    if exponent < 0:
        return None
    pause = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(exponent, 16))
    return latest.ended_at + timedelta(seconds=pause)


def _quick_failures(life: ManagedJobStatus) -> int:
    """How many attempts in a row, up to the latest, ended in a way that is tried again in place."""
    if life.cause not in {"error", "lost"}:
        return 0
    count = 0
    for attempt in reversed(life.attempts):
        if attempt.task != life.task or attempt.outcome not in _IN_PLACE:
            break
        count += 1
        if _seconds(attempt) >= LONG_ENOUGH_SECONDS:
            break
    return count


def _seconds(attempt: Attempt) -> float:
    if attempt.started_at is None or attempt.ended_at is None:
        return 0.0
    return (attempt.ended_at - attempt.started_at).total_seconds()
