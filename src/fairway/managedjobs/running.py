"""The rules of a live attempt: its pods, its status, its stop and its outcome.

An attempt is in the status before its pods exist. It is stopped in two steps: first the status says why, then its pods
are stopped; once no process runs, the outcome is written, and only then are the pods released. What the pods did in
between counts: a task that succeeded before it was stopped has succeeded.
"""

from typing import Final

import msgspec

from fairway.managedjobs import recovery
from fairway.managedjobs.containers import FILES, SETUP
from fairway.managedjobs.instructions import (
    JobAction,
    JobEvent,
    JobPlan,
    LetGoOfPods,
    SetActive,
    StartPods,
    StopPods,
)
from fairway.managedjobs.observation import ManagedJobSpec, ObservedPod, PodState, StartObstacle
from fairway.managedjobs.states import CAUSE_AFTER, PHASE_AFTER, AttemptOutcome, Cause, Phase
from fairway.managedjobs.status import HELD, QUEUED, Attempt, ManagedJobStatus, PodRef
from fairway.managedjobs.view import JobView, ended, later, seconds_between
from fairway.managedjobs.waiting import REFUSED, TIMED_OUT, is_settled, passed_over

PREEMPTED: Final = "Preempted"

_OWN_FAILURES: Final = {SETUP: AttemptOutcome.SETUP_FAILED, FILES: AttemptOutcome.FILES_FAILED}
_TAKEN_AWAY: Final = frozenset({AttemptOutcome.PREEMPTED, AttemptOutcome.EVICTED, AttemptOutcome.HELD})
_PASSED_OVER: Final = frozenset({AttemptOutcome.NOT_STARTED, AttemptOutcome.IMAGE_FAILED})
_IMAGE_SECONDS: Final = 600
"""How long an image may be missing: a registry that is away comes back, a name that is wrong does not."""

_WAYS_BACK: Final = "; `fairway jobs launch` restarts jobs"


def stopping(case: JobView) -> JobPlan | None:
    """An attempt that is being stopped: wait for its pods, then write down how it ended."""
    attempt = case.life.live_attempt
    if attempt is None or not attempt.stopping:
        return None
    pods = case.pods_of(attempt)
    do: list[JobAction] = []
    workload = case.seen.workload
    if attempt.stopping == AttemptOutcome.HELD and case.job.hold and workload is not None and workload.active:
        do.append(SetActive(active=False))
    told = tuple(pod.name for pod in pods if not pod.deleting and not pod.is_over)
    if told:
        do.append(StopPods(names=told, message=attempt.message))
    if do or not all(pod.is_over for pod in pods):
        return JobPlan(life=_blocked(case, pods), do=tuple(do))
    return _closed(case, attempt, *_how_it_ended(attempt, _deciding(case, pods)))


def _blocked(case: JobView, pods: list[ObservedPod]) -> ManagedJobStatus | None:
    """The status of a job whose next attempt must wait because a pod may still run on a node that cannot be reached."""
    for pod in pods:
        if pod.node_trouble and not pod.is_over:
            message = (
                f"waits for the end of pod {pod.name}: {pod.node_trouble}, so it may still run; it counts as ended "
                "when the node is back, is deleted, or has the taint node.kubernetes.io/out-of-service"
            )
            return None if case.life.message == message else case.life.replace(message=message)
    return None


def living(case: JobView) -> JobPlan | None:
    """The rule of a running attempt: keep it, or stop it."""
    attempt = case.life.live_attempt
    if attempt is None:
        return None
    pods = case.pods_of(attempt)
    over = _judged(case, attempt, pods) or _taken_away(case)
    if over is not None:
        return over
    if len(pods) < case.task.num_nodes:
        gone = [one.name for one in attempt.pods if one.name not in {pod.name for pod in pods}]
        # All of them ran: one that is not there any more must not be made again as if it had not.
        return (
            _stop(case, AttemptOutcome.LOST, f"pod {gone[0]} no longer exists") if gone else JobPlan(do=(StartPods(),))
        )
    late = _late(case, attempt, pods)
    if isinstance(late, JobPlan):
        return late
    longest = _outlived(case)
    if isinstance(longest, JobPlan):
        return longest
    return _shown(case, attempt, pods, longest if late is None else late)


def _judged(case: JobView, attempt: Attempt, pods: list[ObservedPod]) -> JobPlan | None:
    """What the pods themselves say of the attempt."""
    if case.job.unreadable:
        return _stop(case, AttemptOutcome.UNREADABLE, case.job.unreadable)
    deciding = _deciding(case, pods)
    failed = [pod for pod in deciding if pod.state is PodState.FAILED]
    lost = [
        pod for pod in deciding if pod.state in {PodState.LOST, PodState.STOPPED} or (pod.deleting and not pod.is_over)
    ]
    if lost:
        return _stop(case, AttemptOutcome.LOST, _lost_message(lost[0]))
    if failed:
        return _stop(case, *_failure(failed))
    complete = len(pods) == case.task.num_nodes or deciding is not pods
    if complete and all(pod.state is PodState.SUCCEEDED for pod in deciding):
        if all(pod.is_over for pod in pods):
            return _closed(case, attempt, AttemptOutcome.SUCCEEDED, "", 0)
        return _stop(case, AttemptOutcome.SUCCEEDED, "", 0)
    if case.seen.refused:
        return _stop(case, AttemptOutcome.REFUSED, case.seen.refused)
    return None


def _deciding(case: JobView, pods: list[ObservedPod]) -> list[ObservedPod]:
    """The pods whose ends are the end of the task: all, or the head alone once the driver of its Ray cluster ended."""
    if case.task.ray is None:
        return pods
    return [pod for pod in pods if pod.rank == 0 and pod.state in {PodState.SUCCEEDED, PodState.FAILED}] or pods


def _taken_away(case: JobView) -> JobPlan | None:
    """Whether the attempt has lost what it runs on: quota, or its user's wish that it runs."""
    workload = case.seen.workload
    if case.job.hold:
        return _stop(case, AttemptOutcome.HELD, "held by its user")
    if workload is None or workload.finished or workload.deleting:
        return _stop(case, AttemptOutcome.EVICTED, "its Workload was deleted")
    if workload.evicted and workload.reserved:
        outcome = AttemptOutcome.PREEMPTED if workload.evicted == PREEMPTED else AttemptOutcome.EVICTED
        return _stop(case, outcome, workload.message or workload.evicted)
    if not workload.admitted:
        return _stop(case, AttemptOutcome.EVICTED, "it is no longer admitted")
    return None


def _late(case: JobView, attempt: Attempt, pods: list[ObservedPod]) -> JobPlan | float | None:
    """The end of an attempt whose pods cannot start, or how many seconds they still have."""
    found = next((pod for pod in pods if pod.obstacle), None)
    if found is None or attempt.started_at is None or case.life.running_since is not None:
        return None
    if found.obstacle is StartObstacle.HOPELESS:
        return _stop(case, AttemptOutcome.IMAGE_FAILED, found.message)
    elsewhere = len(case.task.candidates) > 1 and not is_settled(case)
    seconds = case.job.timeout_seconds(case.life.task)
    if found.obstacle is StartObstacle.IMAGE:
        seconds, outcome = min(seconds if seconds >= 0 else _IMAGE_SECONDS, _IMAGE_SECONDS), AttemptOutcome.IMAGE_FAILED
    else:
        outcome = AttemptOutcome.NOT_STARTED
        if not elsewhere or seconds < 0:
            return None
    left = seconds - (case.now - attempt.started_at).total_seconds()
    return left if left > 0 else _stop(case, outcome, f"not started within {seconds} s: {found.message}")


def _outlived(case: JobView) -> JobPlan | float | None:
    """The end of an attempt that ran for too long, or how many seconds are left."""
    longest, since = case.task.max_duration_seconds, case.life.running_since
    if longest is None or since is None:
        return None
    left = longest - case.life.task_ran_seconds - (case.now - since).total_seconds()
    if left > 0:
        return left
    return _stop(case, AttemptOutcome.EXCEEDED, f"ran for longer than max_duration, {longest} s")


def _shown(case: JobView, attempt: Attempt, pods: list[ObservedPod], left: float | None) -> JobPlan:
    """What a healthy attempt says of itself; nothing where it has been said."""
    life = case.life.replace(priority=case.priority)
    tell: tuple[JobEvent, ...] = ()
    up = all(pod.state in {PodState.RUNNING, PodState.SUCCEEDED} for pod in pods)
    if up and life.running_since is None:
        life = life.moved(Phase.RUNNING).replace(running_since=case.stamp)
        life = life.with_attempt(pods=_references(pods))
        longest = case.task.max_duration_seconds
        left = None if longest is None else longest - life.task_ran_seconds
        tell = (JobEvent(reason="Running", message=f"attempt {attempt.attempt} runs"),)
    elif not up and life.running_since is None:
        trouble = next((pod.message for pod in pods if pod.message), "")
        life = life.replace(message=trouble)
    elif life.phase is Phase.RUNNING:
        life = life.replace(message=next((pod.node_trouble for pod in pods if pod.node_trouble), ""))
    again = None if left is None else later(case.now, left)
    return JobPlan(life=None if life == case.life else life, do=case.set_priority(), tell=tell, again_at=again)


# How an attempt stops and ends


def _stop(case: JobView, outcome: AttemptOutcome, message: str, exit_code: int | None = None) -> JobPlan:
    """Say that the attempt is to stop, and why; where the job will come back, it is on its way from now on."""
    life = case.life.with_attempt(stopping=outcome.value, message=message, exit_code=exit_code)
    if outcome is AttemptOutcome.HELD:
        life = life.replace(held=True)
    if life.phase is not Phase.CANCELLING and recovery.comes_back(case.job, life, outcome, exit_code):
        life = life.moved(_phase_between(life.phase), outcome.value, message)
    elif life.phase is not Phase.CANCELLING:
        life = life.replace(reason=outcome.value, message=message)
    if outcome is AttemptOutcome.SUCCEEDED:
        return JobPlan(life=life)
    told = JobEvent(reason=outcome.value, message=message, warning=outcome is not AttemptOutcome.HELD)
    return JobPlan(life=life, tell=(told,))


def _phase_between(phase: Phase) -> Phase:
    """Where a job is while it waits for its next attempt: one that has run recovers, another waits as before."""
    return Phase.RECOVERING if phase in {Phase.RUNNING, Phase.RECOVERING} else Phase.PENDING


def _how_it_ended(attempt: Attempt, pods: list[ObservedPod]) -> tuple[AttemptOutcome, str, int | None]:
    """The outcome, a sentence and an exit code; what the task brought to its end by itself counts first.

    By itself means all of its pods: one that fails while others are stopped most often fails because they are.
    """
    intended = AttemptOutcome(attempt.stopping)
    by_itself = bool(pods) and all(pod.state in {PodState.SUCCEEDED, PodState.FAILED} for pod in pods)
    if by_itself and intended in recovery.COMES_BACK:
        failed = [pod for pod in pods if pod.state is PodState.FAILED]
        return _failure(failed) if failed else (AttemptOutcome.SUCCEEDED, "", 0)
    return intended, attempt.message, attempt.exit_code


def _closed(case: JobView, attempt: Attempt, outcome: AttemptOutcome, message: str, exit_code: int | None) -> JobPlan:
    """Nothing of the attempt runs any more: write down how it ended, and what comes next."""
    life, job = case.life, case.job
    pods = case.pods_of(attempt)
    ran = seconds_between(life.running_since, case.stamp)
    life = life.with_attempt(
        outcome=outcome.value,
        stopping="",
        exit_code=exit_code,
        message=message,
        ended_at=case.stamp,
        pods=_references(pods) or attempt.pods,
    )
    life = life.replace(
        ran_seconds=life.ran_seconds + ran, task_ran_seconds=life.task_ran_seconds + ran, running_since=None
    )
    if life.phase is Phase.CANCELLING:
        plan = ended(case, life, Phase.CANCELLED, AttemptOutcome.CANCELLED, "cancelled by its user")
    elif outcome is AttemptOutcome.SUCCEEDED and life.task + 1 < len(job.tasks):
        plan = next_task(case, life)
    elif outcome in _PASSED_OVER and len(case.task.candidates) > 1 and not is_settled(case):
        moved = msgspec.structs.replace(case, life=life.moved(_phase_between(life.phase)))
        plan = passed_over(moved, TIMED_OUT if outcome is AttemptOutcome.NOT_STARTED else REFUSED, message)
    elif recovery.comes_back(job, life, outcome, exit_code):
        plan = _coming_back(case, life, outcome, message, exit_code)
    else:
        if outcome in recovery.COMES_BACK and not job.recover:
            message += _WAYS_BACK
        reason = "" if outcome is AttemptOutcome.SUCCEEDED else outcome.value
        plan = ended(case, life, PHASE_AFTER.get(outcome, Phase.FAILED), reason, message)
    gone = LetGoOfPods(names=tuple(pod.name for pod in pods))
    return JobPlan(life=plan.life, do=(*plan.do, gone) if pods else plan.do, tell=plan.tell)


def _coming_back(
    case: JobView, life: ManagedJobStatus, outcome: AttemptOutcome, message: str, exit_code: int | None
) -> JobPlan:
    job = case.job
    life = life.moved(_phase_between(life.phase), outcome.value, message).replace(cause=CAUSE_AFTER[outcome].value)
    if outcome in _TAKEN_AWAY:
        life = life.replace(queued_at=case.stamp)
    if recovery.counts_as_restart(job, life, outcome, exit_code):
        life = life.replace(restarts_on_errors=life.restarts_on_errors + 1)
    elif outcome is not AttemptOutcome.HELD and outcome in recovery.COMES_BACK:
        life = life.replace(recoveries=life.recoveries + 1)
    if outcome is AttemptOutcome.PREEMPTED:
        life = life.replace(preemptions=life.preemptions + 1)
        if case.base_priority is not None:
            life = life.replace(priority=case.base_priority + case.earned_after(life.preemptions))
    if outcome is AttemptOutcome.HELD:
        life = life.replace(reason=HELD)
    return JobPlan(life=life, tell=(JobEvent(reason="Recovering", message=f"comes back: {message or outcome.value}"),))


def next_task(case: JobView, life: ManagedJobStatus) -> JobPlan:
    """A task of a pipeline is done: the next one queues."""
    index = life.task + 1
    life = life.moved(Phase.PENDING, QUEUED).replace(
        task=index,
        attempt=life.last_attempt(index),
        candidate=0,
        infra=case.job.candidate(index, 0).infra,
        cause=Cause.START.value,
        workload="",
        queued_at=None,
        restarts_on_errors=0,
        task_ran_seconds=0,
        passed=(),
        remote=None,
    )
    return JobPlan(life=life, tell=(JobEvent(reason="TaskDone", message=task_done(case.job, life)),))


def task_done(job: ManagedJobSpec, life: ManagedJobStatus) -> str:
    """Says that the task before the present one is done."""
    return f"task {life.task} of {len(job.tasks)} is done"


def _references(pods: list[ObservedPod]) -> tuple[PodRef, ...]:
    return tuple(PodRef(name=pod.name, uid=pod.uid, rank=pod.rank) for pod in pods)


def _failure(failed: list[ObservedPod]) -> tuple[AttemptOutcome, str, int | None]:
    """The outcome, a sentence and an exit code: those of the pod that failed first."""
    pod = min(failed, key=lambda one: (one.ended_at is None, one.ended_at, one.rank))
    return _OWN_FAILURES.get(pod.container, AttemptOutcome.FAILED), _failure_message(pod), pod.exit_code


def _failure_message(pod: ObservedPod) -> str:
    what = {SETUP: "setup", FILES: "unpacking the files"}.get(pod.container, "the task")
    code = "" if pod.exit_code is None else f" with exit code {pod.exit_code}"
    return f"{what} failed on {pod.name}{code}{f': {pod.message}' if pod.message else ''}"


def _lost_message(pod: ObservedPod) -> str:
    if pod.message:
        return f"pod {pod.name} was lost: {pod.message}"
    return f"pod {pod.name} was deleted" if pod.deleting else f"pod {pod.name} was lost"
