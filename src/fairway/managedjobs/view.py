"""The input of the rules: spec, status, observation and time of one job."""

import hashlib
from datetime import datetime, timedelta

from msgspec import Struct

from fairway.admission.port import AdmittedBy
from fairway.managedjobs import recovery
from fairway.managedjobs.instructions import JobAction, JobEvent, JobPlan, SetPriority
from fairway.managedjobs.observation import JobObservation, ManagedJobSpec, ObservedPod
from fairway.managedjobs.states import FAILURES, Phase
from fairway.managedjobs.status import Attempt, ManagedJobStatus, stamp
from fairway.managedjobs.tasks.task import Candidate, Task

_HASH_LENGTH = 6


class JobView(Struct, frozen=True, kw_only=True):
    job: ManagedJobSpec
    life: ManagedJobStatus
    seen: JobObservation
    now: datetime

    @property
    def stamp(self) -> datetime:
        """Now, as a status keeps it."""
        return stamp(self.now)

    @property
    def task(self) -> Task:
        return self.job.task(self.life.task)

    @property
    def candidate(self) -> Candidate:
        return self.job.candidate(self.life.task, self.life.candidate)

    @property
    def base_priority(self) -> int | None:
        """The Workload's `spec.priority`: without aging. It stays as it is while the class that it comes from is
        missing; `None` if it was never known.
        """
        if self.seen.base_priority is not None:
            return self.seen.base_priority
        workload = self.seen.workload
        if workload is not None:
            earned = recovery.earned_priority(self.job, 0, self.life.preemptions) if self.aged else 0
            return workload.priority - earned
        if self.life.priority is None:
            return None
        return self.life.priority - recovery.earned_priority(self.job, 0, self.life.preemptions)

    @property
    def earned(self) -> int:
        """What aging adds to it."""
        return self.earned_after(self.life.preemptions)

    def earned_after(self, preemptions: int) -> int:
        return recovery.earned_priority(self.job, self.base_priority or 0, preemptions)

    @property
    def priority(self) -> int | None:
        """The priority by which the job queues and is protected, as its status shows it."""
        base = self.base_priority
        return None if base is None else base + self.earned

    @property
    def aged(self) -> bool:
        """Whether `spec.priority` of the Workload includes what aging earned.

        Kueue knows no other priority: the earned part protects a Workload with quota from the next preemption, and a
        pending one must not have it, because it would be a right to preempt.
        """
        workload = self.seen.workload
        return (
            self.seen.admitted_by is AdmittedBy.KUEUE
            and workload is not None
            and workload.reserved
            and not workload.evicted
        )

    def pods_of(self, attempt: Attempt) -> list[ObservedPod]:
        """Head first."""
        found = [pod for pod in self.seen.pods if (pod.task, pod.attempt) == (attempt.task, attempt.attempt)]
        return sorted(found, key=lambda pod: pod.rank)

    def strays(self) -> list[ObservedPod]:
        """Pods that belong to no live attempt."""
        live = self.life.live_attempt
        mine = (None, None) if live is None else (live.task, live.attempt)
        return [pod for pod in self.seen.pods if (pod.task, pod.attempt) != mine]

    def set_priority(self) -> tuple[JobAction, ...]:
        """What makes the Workload follow the priority; nothing if it does."""
        workload, base, way = self.seen.workload, self.base_priority, self.seen.admitted_by
        if workload is None or workload.finished or base is None or way is AdmittedBy.NONE:
            return ()
        wanted, earned = base, self.earned if way is AdmittedBy.FAIRWAY else 0
        if self.aged:
            wanted += self.earned
        named, held = self.seen.priority_class, workload.priority_class
        # A class cannot be given to who holds quota, nor taken away; it can be another one.
        renamed = (
            self.seen.base_priority is not None and named != held and not (workload.reserved and "" in {named, held})
        )
        if renamed or (workload.priority, workload.earned) != (wanted, earned):
            return (SetPriority(priority=wanted, earned=earned),)
        return ()


def seconds_between(since: datetime | None, until: datetime) -> int:
    """Whole seconds, never below zero: clocks are set back now and then."""
    return 0 if since is None else max(0, int((until - since).total_seconds()))


def later(since: datetime, seconds: float) -> datetime:
    return since + timedelta(seconds=seconds)


def ended(case: JobView, life: ManagedJobStatus, phase: Phase, reason: str, message: str) -> JobPlan:
    """The job is over."""
    life = life.moved(phase, reason, message).replace(ended_at=case.stamp, running_since=None, queued_at=None)
    text = message or {Phase.SUCCEEDED: "all tasks are done"}.get(phase, reason)
    return JobPlan(
        life=life, tell=(JobEvent(reason=phase.title().replace("_", ""), message=text, warning=phase in FAILURES),)
    )


def suffix_of(life: ManagedJobStatus) -> str:
    """What tells the Workloads of one job apart: task, candidate and round, where they are not the first."""
    parts = (("t", life.task), ("c", life.candidate), ("r", life.observed_retry))
    return "".join(f"-{letter}{number}" for letter, number in parts if number)


def remote_name(job: ManagedJobSpec, life: ManagedJobStatus) -> str:
    """What the job is called at another server: always the same for the same task, candidate and round."""
    full = f"{job.name}{suffix_of(life)}"
    digest = hashlib.sha1(f"{job.uid}{full}".encode(), usedforsecurity=False).hexdigest()[:_HASH_LENGTH]
    return f"{full[: 63 - 1 - _HASH_LENGTH].rstrip('-')}-{digest}"
