"""A world for the state machine: a queue that lets in and evicts, pods that run and end, a user, a clock.

Whatever a plan asks for is done at once, unless the world is told to be cut off in the middle of it.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import msgspec

from fairway.admission.port import AdmittedBy
from fairway.managedjobs import instructions as told
from fairway.managedjobs.deciding import step
from fairway.managedjobs.instructions import JobPlan
from fairway.managedjobs.observation import (
    ENDED,
    JobObservation,
    ManagedJobSpec,
    ObservedPod,
    ObservedWorkload,
    PodState,
)
from fairway.managedjobs.observing import without_queue
from fairway.managedjobs.states import MOVES, Phase
from fairway.managedjobs.status import ManagedJobStatus, read, written
from fairway.managedjobs.tasks.task import Candidate, Recovery, Task

START = datetime(2026, 1, 1, tzinfo=UTC)
MOST_STEPS = 30


def a_job(**changes: Any) -> ManagedJobSpec:
    given: dict[str, Any] = {"name": "train-1", "uid": "uid-1", "created_at": START, "tasks": (Task(run="true"),)}
    return ManagedJobSpec(**(given | changes))


def a_task(**changes: Any) -> Task:
    recovery = {name: changes.pop(name) for name in ("max_restarts_on_errors", "exit_codes") if name in changes}
    infras = changes.pop("infras", ("",))
    candidates = tuple(Candidate(infra=infra) for infra in infras)
    return Task(run="true", candidates=candidates, recovery=Recovery(**recovery), **changes)


class World:
    def __init__(
        self,
        job: ManagedJobSpec | None = None,
        base_priority: int = 0,
        admitted_by: AdmittedBy = AdmittedBy.FAIRWAY,
    ) -> None:
        self.admitted_by = admitted_by
        self.job = job or a_job()
        self.life = ManagedJobStatus()
        self.now = START
        self.base_priority: int | None = base_priority
        self.queue = "user-queue"
        self.can_ever_run: bool | None = None
        self.refused = ""
        self.lingering = False
        """Whether pods that are let go take a while to go."""

        self.workloads: dict[str, ObservedWorkload] = {}
        self.pods: dict[str, ObservedPod] = {}
        self.started: list[tuple[int, int]] = []
        """Every attempt that got pods, in order, by task and number."""

        self.notices: list[str] = []
        self.writes = 0
        self._hands: dict[type, Callable[[Any], None]] = {
            told.MakeWorkload: self._make_workload,
            told.SetPriority: self._set_priority,
            told.SetActive: self._set_active,
            told.ReleaseQuota: self._release,
            told.FinishWorkload: self._finish,
            told.DeleteWorkload: self._delete_workload,
            told.StartPods: self._start_pods,
            told.StopPods: self._stop_pods,
            told.LetGoOfPods: self._let_go,
        }
        self.again_at: datetime | None = None

    @property
    def workload(self) -> ObservedWorkload | None:
        return self.workloads.get(self.life.workload)

    def seen(self) -> JobObservation:
        others = tuple(name for name, one in self.workloads.items() if name != self.life.workload and not one.finished)
        return JobObservation(
            workload=without_queue(self.job, self.life, self.admitted_by) or self.workload,
            admitted_by=self.admitted_by,
            others=others,
            pods=tuple(self.pods.values()),
            base_priority=self.base_priority,
            queue=self.queue,
            can_ever_run=self.can_ever_run,
            refused=self.refused,
        )

    def is_in(self, phase: Phase) -> bool:
        return self.life.phase is phase

    def plan(self) -> JobPlan:
        return step(self.job, self.life, self.seen(), self.now)

    def settle(self, cut_off_after: int | None = None) -> None:
        """Carry out plans until there is nothing to do, or as many writes as are left before the end."""
        left = cut_off_after
        for _ in range(MOST_STEPS):
            plan = self.plan()
            self.again_at = plan.again_at
            if plan.is_empty:
                return
            writes: list[Any] = [*([plan.life] if plan.life is not None else []), *plan.do]
            for write in writes:
                if left is not None:
                    if left == 0:
                        return
                    left -= 1
                self._write(write)
            self.notices += [one.reason for one in plan.tell]
        raise AssertionError(f"there is always something more to do: {self.plan()}")

    def _write(self, write: Any) -> None:
        self.writes += 1
        if isinstance(write, ManagedJobStatus):
            assert write != self.life, "a write that changes nothing"
            self._check_change(write)
            self.refused = ""
            self.life = read({"status": written(write)})
            assert self.life == write, "what is written says all"
            return
        self._hands[type(write)](write)

    def _check_change(self, new: ManagedJobStatus) -> None:
        old = self.life
        if old.phase is not new.phase:
            assert (old.phase, new.phase) in MOVES or _leads(old.phase, new.phase), (old.phase, new.phase)
        if old.is_final and not new.is_final:
            assert new.observed_retry > old.observed_retry, "an end is left only by a retry"
        known = {(one.task, one.attempt): one for one in old.attempts}
        for one in new.attempts:
            before = known.get((one.task, one.attempt))
            if before is not None and before.outcome:
                assert one == before, "what is recorded of an attempt stays"
        if new.task == old.task:
            assert new.attempt >= old.attempt

    # What plans ask for

    def _make_workload(self, one: told.MakeWorkload) -> None:
        assert self.life.workload not in self.workloads
        self.workloads[self.life.workload] = ObservedWorkload(
            name=self.life.workload, priority=one.priority, earned=one.earned
        )

    def _set_priority(self, one: told.SetPriority) -> None:
        self.change(priority=one.priority, earned=one.earned)

    def _set_active(self, one: told.SetActive) -> None:
        self.change(active=one.active)
        if not one.active:
            self.change(evicted="Deactivated", message="The workload is deactivated")

    def _release(self, _: told.ReleaseQuota) -> None:
        workload = self.workload
        assert workload is not None
        assert workload.evicted
        assert workload.reserved
        assert all(pod.is_over for pod in self.pods.values()), "quota goes back when nothing runs"
        self.change(reserved=False, admitted=False)

    def _finish(self, one: told.FinishWorkload) -> None:
        assert not self.workloads[one.name].finished
        self.workloads[one.name] = msgspec.structs.replace(self.workloads[one.name], finished=True)

    def _delete_workload(self, one: told.DeleteWorkload) -> None:
        del self.workloads[one.name]

    def _start_pods(self, _: told.StartPods) -> None:
        attempt = self.life.live_attempt
        assert attempt is not None
        mine = (attempt.task, attempt.attempt)
        assert all((pod.task, pod.attempt) == mine for pod in self.pods.values()), "one attempt at a time"
        if not self.started or self.started[-1] != mine:
            assert mine not in self.started, "an attempt is started once"
            self.started.append(mine)
        for rank in range(self.job.task(attempt.task).num_nodes):
            name = f"{self.job.name}-t{attempt.task}-{attempt.attempt}-{rank}"
            if name not in self.pods:
                assert not attempt.pods, "what ran is not made again"
                self.pods[name] = ObservedPod(
                    name=name, uid=f"uid-of-{name}", task=mine[0], attempt=mine[1], rank=rank, state=PodState.STARTING
                )

    def _stop_pods(self, one: told.StopPods) -> None:
        for name in one.names:
            assert not self.pods[name].deleting
            self.pod(name, deleting=True)

    def _let_go(self, one: told.LetGoOfPods) -> None:
        for name in one.names:
            pod = self.pods[name]
            assert pod.is_over
            assert pod.kept, "it has been let go"
            if self.lingering and pod.deleting:
                self.pod(name, kept=False)
            else:
                del self.pods[name]
            recorded = [ref.uid for attempt in self.life.attempts for ref in attempt.pods]
            assert pod.uid in recorded or pod.attempt not in {one.attempt for one in self.life.attempts}

    # What others do

    def change(self, **changes: Any) -> None:
        """The Workload changes."""
        workload = self.workload
        assert workload is not None
        self.workloads[workload.name] = msgspec.structs.replace(workload, **changes)

    def ask(self, **changes: Any) -> None:
        """The user asks for something else."""
        self.job = msgspec.structs.replace(self.job, generation=self.job.generation + 1, **changes)

    def admit(self) -> None:
        self.change(reserved=True, admitted=True, evicted="", message="")

    def evict(self, reason: str = "Preempted") -> None:
        self.change(evicted=reason, message=f"evicted: {reason}")

    def pod(self, name: str, **changes: Any) -> None:
        self.pods[name] = msgspec.structs.replace(self.pods[name], **changes)

    def every_pod(self, **changes: Any) -> None:
        for name in self.pods:
            self.pod(name, **changes)

    def end(self, name: str, state: PodState, exit_code: int | None = None, container: str = "run") -> None:
        assert state in ENDED
        self.pod(name, state=state, exit_code=exit_code, container=container if exit_code else "", ended_at=self.now)

    def end_the_pod(self, state: PodState, exit_code: int | None = None) -> None:
        """There is one."""
        (name,) = self.pods
        self.end(name, state, exit_code)

    def obey(self) -> None:
        """Pods that were told to end do, and those that were let go are gone."""
        for name, pod in list(self.pods.items()):
            if pod.deleting and not pod.is_over:
                self.end(name, PodState.STOPPED)
            elif not pod.kept:
                del self.pods[name]

    def wait(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    # Shortcuts for stories: everything settles after each

    def queued(self) -> Self:
        self.settle()
        return self

    def starting(self) -> Self:
        self.queued().admit()
        self.settle()
        return self

    def running(self) -> Self:
        self.starting().every_pod(state=PodState.RUNNING)
        self.settle()
        return self

    def run_again(self) -> None:
        """Let a job that waits be admitted, and run."""
        if self.workload is not None and not self.workload.admitted:
            self.admit()
        self.settle()
        self.every_pod(state=PodState.RUNNING)
        self.settle()

    def done(self) -> None:
        for name in list(self.pods):
            self.end(name, PodState.SUCCEEDED)
        self.settle()

    def fail(self, exit_code: int = 1, container: str = "run") -> None:
        self.end(min(self.pods), PodState.FAILED, exit_code, container)
        self.settle()
        self.obey()
        self.settle()

    def preempt(self) -> None:
        self.evict()
        self.settle()
        self.obey()
        self.settle()


def _leads(origin: Phase, target: Phase) -> bool:
    """Whether moves of one look, one after the other, are legal."""
    first = {there for here, there in MOVES if here is origin}
    second = {there for here, there in MOVES if here in first}
    return target in second or any((here, target) in MOVES for here in second)
