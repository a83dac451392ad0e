"""The rules of a job on another server: it is created there and mirrored here."""

from typing import Any, Final

import msgspec

from fairway.managedjobs import waiting
from fairway.managedjobs.instructions import ChangeRemote, Delegate, JobEvent, JobPlan
from fairway.managedjobs.observation import ObservedRemote
from fairway.managedjobs.running import next_task
from fairway.managedjobs.states import FAILURES, AttemptOutcome, Cause, Phase
from fairway.managedjobs.status import HELD, MOST_ATTEMPTS, Attempt, ManagedJobStatus, Remote
from fairway.managedjobs.view import JobView, ended, remote_name

DELEGATED: Final = "Delegated"
_WAITS: Final = frozenset({Phase.PENDING, Phase.RECOVERING})


def delegated(case: JobView) -> JobPlan | None:
    """Everything about a job whose candidate is elsewhere."""
    life, remote = case.life, case.seen.remote
    if not life.infra:
        return None
    if remote is None or not remote.context_known:
        return waiting.passed_over(
            case, waiting.UNKNOWN_CONTEXT, f"the server's kubeconfig has no context {life.infra!r}"
        )
    if case.seen.refused and life.remote is not None and not life.remote.uid:
        return waiting.passed_over(case, waiting.REFUSED, case.seen.refused)
    if life.remote is None:
        return _handed_over(case)
    if not life.remote.uid or (remote.known and not remote.uid):
        return _unanswered(case, remote)
    if not remote.known:
        return JobPlan()
    return _passed_on(case, remote) or _mirrored(case, remote)


def _handed_over(case: JobView) -> JobPlan:
    life = case.life
    if life.phase is Phase.CANCELLING:
        return ended(case, life, Phase.CANCELLED, AttemptOutcome.CANCELLED, "cancelled by its user")
    if case.job.hold:
        return waiting.held(case) or JobPlan()
    name = remote_name(case.job, life)
    remote = Remote(
        name=name,
        attempt=life.attempt,
        recoveries=life.recoveries,
        preemptions=life.preemptions,
        restarts_on_errors=life.restarts_on_errors,
        ran_seconds=life.ran_seconds,
    )
    said = f"moved to {life.infra} as {name}"
    life = life.replace(
        remote=remote,
        reason=DELEGATED,
        message=said,
        priority=case.priority,
        submitted_at=life.submitted_at or case.job.created_at,
        queued_at=life.queued_at or case.stamp,
    )
    do = Delegate(context=life.infra, name=name)
    return JobPlan(life=life, do=(do,), tell=(JobEvent(reason=DELEGATED, message=said),))


def _unanswered(case: JobView, seen: ObservedRemote) -> JobPlan:
    """The other server has not said that it has the job, or says that it has it no more."""
    life = case.life
    if life.remote is None:
        raise ValueError("the job was not moved to another server")
    if seen.uid:
        return JobPlan(life=life.replace(remote=msgspec.structs.replace(life.remote, uid=seen.uid)))
    if life.phase is Phase.CANCELLING:
        return ended(case, life.withdrawn(), Phase.CANCELLED, AttemptOutcome.CANCELLED, "cancelled by its user")
    if not life.remote.uid:
        waited = None if waiting.is_settled(case) else waiting.timed_out(case)
        if waited is not None and not waited.is_empty:
            return waited
        do = Delegate(context=life.infra, name=life.remote.name)
        return JobPlan(do=(do,), again_at=None if waited is None else waited.again_at)
    said = f"the job was deleted on {life.infra}"
    if not case.job.recover:
        return ended(case, life.replace(remote=None), Phase.FAILED, AttemptOutcome.LOST, said)
    back = Phase.RECOVERING if life.phase in {Phase.RUNNING, Phase.RECOVERING} else Phase.PENDING
    life = life.moved(back, AttemptOutcome.LOST, said).replace(
        remote=None, recoveries=life.recoveries + 1, cause=Cause.LOST.value, queued_at=case.stamp, running_since=None
    )
    return JobPlan(
        life=_all_ended(case, life), tell=(JobEvent(reason=AttemptOutcome.LOST, message=said, warning=True),)
    )


def _passed_on(case: JobView, remote: ObservedRemote) -> JobPlan | None:
    """What its user says here is said there."""
    life, job = case.life, case.job
    if life.remote is None:
        return None
    cancel = True if life.phase is Phase.CANCELLING and not remote.cancel else None
    hold = job.hold if job.hold != remote.hold else None
    base = case.seen.base_priority
    priority = base if base is not None and base != remote.priority else None
    if cancel is None and hold is None and priority is None:
        return None
    change = ChangeRemote(context=life.infra, name=life.remote.name, cancel=cancel, hold=hold, priority=priority)
    return JobPlan(do=(change,))


def _mirrored(case: JobView, remote: ObservedRemote) -> JobPlan:
    """The job there, as the job here shows it."""
    try:
        there = msgspec.convert(remote.status, ManagedJobStatus)
    except msgspec.ValidationError as error:
        life = case.life.replace(message=f"its status on {case.life.infra} cannot be read: {error}")
        return JobPlan(life=None if life == case.life else life)
    life = _counted(case, there)
    if there.is_final:
        return _ended_there(case, life, there)
    if life.phase is Phase.CANCELLING:
        return JobPlan(life=None if life == case.life else life)
    phase = there.phase
    if phase is Phase.PENDING and life.phase in _WAITS:
        phase = life.phase
    if phase in {Phase.STARTING, Phase.PENDING} and life.phase in {Phase.RUNNING, Phase.RECOVERING}:
        phase = Phase.RECOVERING
    if phase is Phase.RECOVERING and life.phase in {Phase.PENDING, Phase.STARTING}:
        life = life.moved(Phase.RUNNING)
    elif phase is Phase.CANCELLING:
        phase = life.phase  # cancelled on the other server: its end will show
    reason = there.reason or (DELEGATED if there.attempt == 0 else "")
    life = life.moved(phase, HELD if case.job.hold else reason, there.message or life.message)
    if there.attempt == 0 and not case.job.hold and not waiting.is_settled(case):
        waited = waiting.timed_out(case)
        if waited is not None and not waited.is_empty:
            return waited
        again = None if waited is None else waited.again_at
        return JobPlan(life=None if life == case.life else life, again_at=again)
    return JobPlan(life=None if life == case.life else life)


def _counted(case: JobView, there: ManagedJobStatus) -> ManagedJobStatus:
    """The counts and attempts of before, and those of there."""
    life, before = case.life, case.life.remote
    if before is None:
        raise ValueError("the job was not moved to another server")
    own = tuple(one for one in life.attempts if one.task != life.task or one.attempt <= before.attempt)
    theirs = tuple(_as_ours(one, before.attempt, life) for one in there.attempts)
    ran = max(life.ran_seconds, before.ran_seconds + there.ran_seconds)
    return life.replace(
        attempt=max(life.attempt, before.attempt + there.attempt),
        attempts=(*own, *theirs)[-MOST_ATTEMPTS:],
        recoveries=max(life.recoveries, before.recoveries + there.recoveries),
        preemptions=max(life.preemptions, before.preemptions + there.preemptions),
        restarts_on_errors=before.restarts_on_errors + there.restarts_on_errors,
        ran_seconds=ran,
        task_ran_seconds=there.task_ran_seconds,
        started_at=life.started_at or there.started_at,
        running_since=there.running_since,
        queued_at=life.queued_at if there.attempt == 0 else None,
        priority=there.priority if there.priority is not None else life.priority,
        cause=there.cause or life.cause,
    )


def _as_ours(attempt: Attempt, before: int, life: ManagedJobStatus) -> Attempt:
    changes: dict[str, Any] = {"task": life.task, "attempt": before + attempt.attempt, "infra": life.infra}
    if before and attempt.attempt == 1:
        changes["cause"] = life.cause
    return msgspec.structs.replace(attempt, **changes)


def _ended_there(case: JobView, life: ManagedJobStatus, there: ManagedJobStatus) -> JobPlan:
    if life.phase is Phase.CANCELLING:
        return ended(case, life, Phase.CANCELLED, AttemptOutcome.CANCELLED, "cancelled by its user")
    if there.phase is Phase.SUCCEEDED and life.task + 1 < len(case.job.tasks):
        return next_task(case, life.moved(Phase.RUNNING))
    if there.phase in FAILURES and life.phase is Phase.PENDING and there.attempt:
        life = life.moved(Phase.STARTING)
    return ended(case, life, there.phase, there.reason, there.message)


def _all_ended(case: JobView, life: ManagedJobStatus) -> ManagedJobStatus:
    """Attempts that were under way there are over."""
    over = tuple(
        msgspec.structs.replace(one, ended_at=case.stamp, outcome=AttemptOutcome.LOST.value) if one.is_live else one
        for one in life.attempts
    )
    return life.replace(attempts=over)
