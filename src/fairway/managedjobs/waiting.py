"""The rules of a job without a live attempt: it queues, is held, is admitted, or moves to another candidate.

The queue explains on request why it waits and at which position; the status says only that it
waits. So a waiting job costs no writes and, unless it may wait only for so long, no timer.
"""

from typing import Final

from fairway.admission.port import AdmittedBy
from fairway.integrations.workloads import workload_name as name_of_workload
from fairway.managedjobs import recovery
from fairway.managedjobs.instructions import (
    DeleteWorkload,
    JobEvent,
    JobPlan,
    MakeWorkload,
    ReleaseQuota,
    SetActive,
    StartPods,
)
from fairway.managedjobs.observation import ObservedWorkload
from fairway.managedjobs.states import AttemptOutcome, Cause, Phase
from fairway.managedjobs.status import HELD, MOST_ATTEMPTS, QUEUED, Attempt, ManagedJobStatus, RejectedCandidate
from fairway.managedjobs.view import JobView, ended, later, suffix_of

KIND: Final = "ManagedJob"
GROUP: Final = "fairway.dev"

TIMED_OUT: Final = "ProvisionTimeout"
CANNOT_RUN: Final = "CannotRun"
REFUSED: Final = "Refused"
UNKNOWN_CONTEXT: Final = "UnknownContext"
NO_QUEUE: Final = "NoQueue"
NO_CLASS: Final = "PriorityClassMissing"
DEACTIVATED: Final = "Deactivated"

_WORTH_WAITING: Final = frozenset({TIMED_OUT, CANNOT_RUN})
"""Reasons that may end by themselves: another job ends, a quota is raised."""


def unreadable(case: JobView) -> JobPlan | None:
    if not case.job.unreadable:
        return None
    return ended(case, case.life, Phase.FAILED_CONTROLLER, AttemptOutcome.UNREADABLE, case.job.unreadable)


def refused(case: JobView) -> JobPlan | None:
    """What it asks for cannot be queued."""
    if not case.seen.refused or case.life.infra:
        return None
    return ended(case, case.life, Phase.FAILED_PRECHECKS, AttemptOutcome.REFUSED, case.seen.refused)


def placed(case: JobView) -> JobPlan | None:
    """A task begins at its first candidate, wherever that is."""
    infra = case.candidate.infra
    if case.life.infra == infra:
        return None
    return JobPlan(life=case.life.replace(infra=infra))


def releasing(case: JobView) -> JobPlan | None:
    """An evicted Workload whose attempt is over goes back to its queue, with the priority that aging has earned."""
    workload = case.seen.workload
    if workload is None or workload.finished or not (workload.evicted and workload.reserved):
        return None
    if any(not pod.is_over for pod in case.seen.pods):
        return JobPlan()
    return JobPlan(do=(*case.set_priority(), ReleaseQuota()))


def held(case: JobView) -> JobPlan | None:
    """A held job is out of its queue; when it is let go, it is back in its old place."""
    workload, life = case.seen.workload, case.life
    active = workload is None or workload.finished or workload.active
    if case.job.hold:
        if life.reason != HELD or not life.held:
            said = "held; `fairway jobs release` resumes it"
            return JobPlan(life=life.replace(held=True, reason=HELD, message=said))
        return JobPlan(
            do=(SetActive(active=False),) if workload is not None and not workload.finished and active else ()
        )
    if not active and life.held:
        return JobPlan(do=(SetActive(active=True),))
    if not active:
        changed = life.replace(reason=DEACTIVATED, message=_deactivated_message(workload))
        return JobPlan(life=None if changed == life else changed)
    if life.held or life.reason == DEACTIVATED:
        since = None if life.queued_at is None else case.stamp
        return JobPlan(life=life.replace(held=False, reason=QUEUED, message="", queued_at=since))
    return None


def _deactivated_message(workload: ObservedWorkload | None) -> str:
    """Why it was, where that is known: limits and admission checks do it, too."""
    known = workload is not None and workload.evicted.startswith(DEACTIVATED)
    why = f": {workload.message}" if workload is not None and known and workload.message else ""
    return f"its Workload was deactivated{why}; `fairway jobs hold` and `release` put it back into its queue"


def queueing(case: JobView) -> JobPlan | None:
    """A job that has no Workload gets one."""
    workload, life = case.seen.workload, case.life
    if workload is not None and workload.deleting:
        return JobPlan()
    if workload is not None and workload.finished:
        return JobPlan(do=(DeleteWorkload(name=workload.name),))
    if workload is not None:
        return None
    missing = _missing(case)
    if missing is not None:
        reason, message = missing
        if (life.reason, life.message) == missing:
            return JobPlan()
        notice = JobEvent(reason=reason, message=message, warning=True)
        return JobPlan(life=life.replace(reason=reason, message=message), tell=(notice,))
    submitted = life.submitted_at or case.job.created_at
    queued = life.replace(
        workload=life.workload or workload_name(case),
        priority=case.priority,
        submitted_at=submitted,
        queued_at=life.queued_at or case.stamp,
    )
    if queued.reason in {"", NO_QUEUE, NO_CLASS}:
        queued = queued.replace(reason=QUEUED, message="")
    earned = case.earned if case.seen.admitted_by is AdmittedBy.FAIRWAY else 0
    make = MakeWorkload(priority=case.base_priority or 0, earned=earned)
    return JobPlan(life=None if queued == life else queued, do=(make,))


def _missing(case: JobView) -> tuple[str, str] | None:
    """What must be there before the job can queue."""
    if not case.seen.queue:
        return NO_QUEUE, (
            "names no queue, and there is no LocalQueue `default` in its namespace; create one, or launch with --queue"
        )
    if case.base_priority is None:
        return NO_CLASS, f"there is no WorkloadPriorityClass {case.seen.priority_class!r}; create it to start the job"
    return None


def prioritised(case: JobView) -> JobPlan | None:
    """The Workload follows the priority of its job at once."""
    if case.seen.workload is None:
        return None
    life = case.life.replace(priority=case.priority)
    do = case.set_priority()
    return JobPlan(life=None if life == case.life else life, do=do) if do or life != case.life else None


def beginning(case: JobView) -> JobPlan | None:
    """Quota is there: the next attempt begins, once nothing of the one before is left and its pause is over."""
    workload, life = case.seen.workload, case.life
    if not _has_quota(workload):
        return None
    if case.seen.pods or case.seen.predecessor:
        return JobPlan()
    due = recovery.may_start_at(life, case.now)
    if due is not None and due > case.now:
        return JobPlan(again_at=due)
    number = life.attempt + 1
    attempt = Attempt(
        task=life.task,
        attempt=number,
        cause=life.cause,
        infra=life.infra,
        priority=case.priority,
        queued_at=life.queued_at,
        started_at=case.stamp,
    )
    phase = Phase.STARTING if life.phase is Phase.PENDING else life.phase
    life = life.moved(phase).replace(
        attempt=number,
        attempts=(*life.attempts, attempt)[-MOST_ATTEMPTS:],
        submitted_at=life.submitted_at or case.job.created_at,
        queued_at=None,
        started_at=life.started_at or case.stamp,
    )
    told = JobEvent(
        reason="Started", message=f"attempt {number} starts{f' ({attempt.cause})' if attempt.cause else ''}"
    )
    return JobPlan(life=life, do=(StartPods(),), tell=(told,))


def _has_quota(workload: ObservedWorkload | None) -> bool:
    return workload is not None and workload.admitted and workload.reserved and not workload.evicted


def moving_on(case: JobView) -> JobPlan | None:
    """A job that has waited long enough where it is, or can never run there, goes to its next candidate."""
    if len(case.task.candidates) == 1 or is_settled(case):
        return None
    if case.seen.can_ever_run is False:
        return passed_over(case, CANNOT_RUN, "it can never run here with the quota there is")
    return timed_out(case)


def timed_out(case: JobView) -> JobPlan | None:
    """The move of a job that waited for as long as it may, or when to look again."""
    seconds = case.job.timeout_seconds(case.life.task)
    since = case.life.queued_at
    if seconds < 0 or since is None:
        return None
    due = later(since, seconds)
    if due > case.now:
        return JobPlan(again_at=due)
    return passed_over(case, TIMED_OUT, f"waited {seconds} s")


def is_settled(case: JobView) -> bool:
    """Whether all candidates have been tried: the job stays where it is."""
    return len({one.candidate for one in case.life.passed}) >= len(case.task.candidates)


def passed_over(case: JobView, reason: str, message: str) -> JobPlan:
    """Withdraw the job from its candidate, and go to the next one; or to the best one to wait at, if all are tried."""
    life, candidates = case.life, case.task.candidates
    passed = (*(one for one in life.passed if one.candidate != life.candidate), _passed(life, reason, message))
    tried = {one.candidate for one in passed}
    left = [index for index in range(len(candidates)) if index not in tried]
    if left:
        index, said = left[0], f"{_place(case, life.candidate)}: {message}; tries {_place(case, left[0])}"
        return _moved(case, life.replace(passed=passed), index, reason, said)
    found = _best_to_wait_at(passed)
    if found is None:
        said = "; ".join(f"{_place(case, one.candidate)}: {one.message}" for one in passed)
        return ended(case, life.withdrawn().replace(passed=passed), Phase.FAILED_NO_RESOURCE, reason, said)
    said = f"all {len(candidates)} candidates were tried; waits at {_place(case, found)}"
    if len(candidates) == 1:
        said = f"{_place(case, found)}: {message}; there is no other candidate, so it waits"
    if found == life.candidate:
        return JobPlan(life=life.replace(passed=passed, reason=reason, message=said))
    return _moved(case, life.replace(passed=passed), found, reason, said)


def _moved(case: JobView, life: ManagedJobStatus, index: int, reason: str, message: str) -> JobPlan:
    """At another candidate; the Workload of the one before is deleted as one that stands for nothing any more."""
    life = life.withdrawn().replace(
        candidate=index,
        infra=case.job.candidate(life.task, index).infra,
        workload="",
        queued_at=case.stamp,
        cause=Cause.MOVED.value if life.attempt else life.cause,
        reason=reason,
        message=message,
    )
    return JobPlan(life=life, tell=(JobEvent(reason="Moved", message=message),))


def _passed(life: ManagedJobStatus, reason: str, message: str) -> RejectedCandidate:
    return RejectedCandidate(candidate=life.candidate, reason=reason, message=message)


def _best_to_wait_at(passed: tuple[RejectedCandidate, ...]) -> int | None:
    """The first candidate that is not hopeless, else the first that may become possible; nothing if none can."""
    in_order = sorted(passed, key=lambda one: one.candidate)
    for wanted in ({TIMED_OUT}, _WORTH_WAITING):
        for one in in_order:
            if one.reason in wanted:
                return one.candidate
    return None


def _place(case: JobView, index: int) -> str:
    infra = case.job.candidate(case.life.task, index).infra
    name = infra or "here"
    several = sum(one.infra == infra for one in case.task.candidates) > 1
    return f"{name} (candidate {index + 1})" if several else name


def workload_name(case: JobView) -> str:
    """As Kueue names the Workloads of jobs; those of later tasks, candidates and rounds say which they are."""
    job = case.job
    return name_of_workload(KIND, GROUP, f"{job.name}{suffix_of(case.life)}", job.uid)
