"""The state machine of a managed job: observation in, plan out.

    plan = step(job, life, seen, now)

The rules are evaluated in order; the first that applies decides. The controller applies the plan and calls again until
the plan is empty. A rule that returns an empty plan says: wait for an event.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Final

import msgspec

from fairway.managedjobs import elsewhere, running, waiting
from fairway.managedjobs.instructions import (
    DeleteWorkload,
    FinishWorkload,
    JobAction,
    JobEvent,
    JobPlan,
    LetGoOfPods,
    StopPods,
)
from fairway.managedjobs.observation import JobObservation, ManagedJobSpec
from fairway.managedjobs.states import FINAL, AttemptOutcome, Cause, Phase
from fairway.managedjobs.status import QUEUED, ManagedJobStatus
from fairway.managedjobs.view import JobView, ended

Rule = Callable[[JobView], JobPlan | None]


def step(job: ManagedJobSpec, life: ManagedJobStatus, seen: JobObservation, now: datetime) -> JobPlan:
    """What comes next."""
    case = JobView(job=job, life=life, seen=seen, now=now)
    for rule in RULES:
        plan = rule(case)
        if plan is not None:
            return _noted(case, plan)
    return _noted(case, JobPlan())


def _noted(case: JobView, plan: JobPlan) -> JobPlan:
    """The same, with the requests of the job's user."""
    job, life = case.job, plan.life or case.life
    # A live job has nothing to retry, and what is asked of it now does not count when it has ended.
    retry = max(job.retry, life.observed_retry) if _is_going(life) else life.observed_retry
    noted = life.replace(observed_generation=job.generation, observed_retry=retry)
    return msgspec.structs.replace(plan, life=None if noted == case.life else noted)


def _is_going(life: ManagedJobStatus) -> bool:
    return life.phase not in FINAL and life.phase is not Phase.CANCELLING


def beginning_again(case: JobView) -> JobPlan | None:
    """An ended job whose user asks for it goes back to the task at which it ended."""
    job, life = case.job, case.life
    if not life.is_final or job.retry <= life.observed_retry or job.cancel:
        return None
    task = 0 if life.phase is Phase.SUCCEEDED else life.task
    life = life.moved(Phase.PENDING, QUEUED, "").replace(
        task=task,
        attempt=life.attempt if task == life.task else life.last_attempt(task),
        candidate=0,
        infra=job.candidate(task, 0).infra,
        cause=Cause.RETRY.value,
        workload="",
        held=False,
        submitted_at=case.stamp,
        queued_at=None,
        ended_at=None,
        restarts_on_errors=0,
        task_ran_seconds=0,
        passed=(),
        remote=None,
        observed_retry=job.retry,
    )
    return JobPlan(life=life, tell=(JobEvent(reason="Retried", message="restarted by its user"),))


def tidying(case: JobView) -> JobPlan | None:
    """An ended job leaves no pods and no quota behind; there is nothing else to do for it."""
    life, workload = case.life, case.seen.workload
    if not life.is_final:
        return None
    do: list[JobAction] = list(_cleared(case))
    if workload is not None and not workload.finished and not workload.deleting:
        if life.phase is Phase.CANCELLED and not workload.reserved:
            do.append(DeleteWorkload(name=workload.name))
        elif all(pod.is_over for pod in case.seen.pods):
            done = life.phase is Phase.SUCCEEDED
            message = life.message or ("Job finished successfully" if done else life.reason)
            do.append(FinishWorkload(name=workload.name, succeeded=done, message=message))
    return JobPlan(do=tuple(do))


def clearing(case: JobView) -> JobPlan | None:
    """Nothing is left of attempts and candidates that are over."""
    do = _cleared(case)
    return JobPlan(do=do) if do else None


def _cleared(case: JobView) -> tuple[JobAction, ...]:
    do: list[JobAction] = []
    strays = case.strays()
    told = tuple(pod.name for pod in strays if not pod.deleting and not pod.is_over)
    over = tuple(pod.name for pod in strays if pod.is_over and (pod.kept or not pod.deleting))
    if told:
        do.append(StopPods(names=told, message="its attempt is over"))
    if over:
        do.append(LetGoOfPods(names=over))
    do += [_ended_workload(case, name) for name in case.seen.others]
    return tuple(do)


def _ended_workload(case: JobView, name: str) -> JobAction:
    """What to do with a Workload of the past: that of a task that succeeded stays, finished."""
    last = case.life.attempts[-1] if case.life.attempts else None
    if last is not None and last.task < case.life.task and last.outcome == AttemptOutcome.SUCCEEDED.value:
        return FinishWorkload(name=name, succeeded=True, message=running.task_done(case.job, case.life))
    return DeleteWorkload(name=name)


def cancelling(case: JobView) -> JobPlan | None:
    """A job that waits is cancelled at once; one that has pods, or is elsewhere, once they have ended."""
    life = case.life
    attempt, asked = life.live_attempt, life.phase is Phase.CANCELLING
    if not case.job.cancel and not asked:
        return None
    if attempt is None and life.remote is None:
        return ended(case, life, Phase.CANCELLED, AttemptOutcome.CANCELLED, "cancelled by its user")
    if asked:
        return None
    life = life.moved(Phase.CANCELLING, "Cancelling", "cancelled by its user; waits for its pods to end")
    if attempt is not None and not attempt.stopping:
        life = life.with_attempt(stopping=AttemptOutcome.CANCELLED.value, message="cancelled by its user")
    return JobPlan(life=life, tell=(JobEvent(reason="Cancelling", message="cancelled by its user"),))


RULES: Final[tuple[Rule, ...]] = (
    beginning_again,
    tidying,
    clearing,
    cancelling,
    running.stopping,
    running.living,
    waiting.unreadable,
    waiting.refused,
    waiting.placed,
    elsewhere.delegated,
    waiting.releasing,
    waiting.prioritised,
    waiting.held,
    waiting.queueing,
    waiting.beginning,
    waiting.moving_on,
)
