"""Whatever happens, and whenever whoever carries out the plans is killed: what must always hold of a managed job."""

from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fairway.admission.port import AdmittedBy
from fairway.managedjobs.observation import PodState
from fairway.managedjobs.states import Phase

from .world import START, World, a_job, a_task

STATES = st.sampled_from([PodState.SUCCEEDED, PodState.FAILED, PodState.LOST])
RARELY = st.integers(0, 5).map(lambda number: number == 0)
TASKS = st.builds(
    a_task,
    num_nodes=st.integers(1, 3),
    max_restarts_on_errors=st.integers(0, 2),
    exit_codes=st.sampled_from([frozenset(), frozenset({75})]),
    max_duration_seconds=st.sampled_from([None, None, 30]),
    infras=st.sampled_from([("",), ("", ""), ("", "", "")]),
    provision_timeout_seconds=st.sampled_from([None, -1, 20]),
)


WRITES = st.sampled_from([None, None, None, None, 0, 1, 2, 3])
"""How many writes of what follows are made before whoever makes them is killed; mostly all."""


class Lives(RuleBasedStateMachine):
    world: World

    @initialize(
        tasks=st.lists(TASKS, min_size=1, max_size=2),
        recover=st.sampled_from([True, True, False]),
        step=st.sampled_from([0, 10]),
        cap=st.sampled_from([0, 25]),
        base=st.integers(-5, 5),
        lingering=st.booleans(),
        admitted_by=st.sampled_from([AdmittedBy.FAIRWAY, AdmittedBy.KUEUE]),
    )
    def begin(
        self,
        *,
        tasks: list[Any],
        recover: bool,
        step: int,
        cap: int,
        base: int,
        lingering: bool,
        admitted_by: AdmittedBy,
    ) -> None:
        job = a_job(tasks=tuple(tasks), recover=recover, aging_step=step, aging_cap=cap)
        self.world = World(job, base, admitted_by)
        self.world.lingering = lingering
        self.cancelling = False
        self.set_back = 0
        self.before: tuple[int, int | None] | None = None

    # The queue

    @precondition(lambda self: self.can_be_admitted())
    @rule(writes=WRITES)
    def admit(self, writes: int | None) -> None:
        self.world.admit()
        self.world.settle(writes)

    @precondition(lambda self: self.holds_quota())
    @rule(writes=WRITES, reason=st.sampled_from(["Preempted", "Preempted", "ClusterQueueStopped", "PodsReadyTimeout"]))
    def evict(self, writes: int | None, reason: str) -> None:
        self.world.evict(reason)
        self.world.settle(writes)

    @precondition(lambda self: self.world.workload is not None)
    @rule(writes=WRITES, really=RARELY)
    def delete_workload(self, *, writes: int | None, really: bool) -> None:
        if really:
            self.world.workloads.pop(self.world.life.workload)
            self.world.settle(writes)

    @rule(writes=WRITES, can=st.sampled_from([None, True, False]))
    def judge(self, *, writes: int | None, can: bool | None) -> None:
        self.world.can_ever_run = can
        self.world.settle(writes)

    # The pods

    @precondition(lambda self: any(pod.state is PodState.STARTING for pod in self.world.pods.values()))
    @rule(writes=WRITES)
    def run(self, writes: int | None) -> None:
        self.run_all()
        self.world.settle(writes)

    @precondition(lambda self: any(not pod.is_over for pod in self.world.pods.values()))
    @rule(
        writes=WRITES,
        data=st.data(),
        state=STATES,
        code=st.sampled_from([1, 75]),
        container=st.sampled_from(["run", "run", "setup", "files"]),
    )
    def end(self, writes: int | None, data: st.DataObject, state: PodState, code: int, container: str) -> None:
        name = data.draw(st.sampled_from(sorted(one for one, pod in self.world.pods.items() if not pod.is_over)))
        self.world.end(name, state, code if state is PodState.FAILED else None, container)
        self.world.settle(writes)

    @precondition(lambda self: any(pod.deleting for pod in self.world.pods.values()))
    @rule(writes=WRITES)
    def obey(self, writes: int | None) -> None:
        self.world.obey()
        self.world.settle(writes)

    @precondition(lambda self: self.world.pods)
    @rule(writes=WRITES, really=RARELY, data=st.data())
    def delete_pod(self, *, writes: int | None, really: bool, data: st.DataObject) -> None:
        if really:
            self.world.pod(data.draw(st.sampled_from(sorted(self.world.pods))), deleting=True)
            self.world.settle(writes)

    @precondition(lambda self: self.world.pods)
    @rule(writes=WRITES, really=RARELY, data=st.data())
    def tear_out_pod(self, *, writes: int | None, really: bool, data: st.DataObject) -> None:
        if really:
            del self.world.pods[data.draw(st.sampled_from(sorted(self.world.pods)))]
            self.world.settle(writes)

    @precondition(lambda self: not self.world.life.is_final)
    @rule(writes=WRITES, really=RARELY)
    def refuse(self, *, writes: int | None, really: bool) -> None:
        if really:
            self.world.refused = "no such field"
            self.world.settle(writes)
            self.world.refused = ""

    @precondition(lambda self: self.can_be_switched())
    @rule(writes=WRITES, active=st.booleans())
    def switch(self, *, writes: int | None, active: bool) -> None:
        """Somebody else deactivates the Workload, or activates it."""
        self.world.change(active=active)
        if not active and self.holds_quota():
            self.world.evict("Deactivated")
        self.world.settle(writes)

    # The user and the time

    @rule(writes=WRITES, really=RARELY)
    def hold_or_release(self, *, writes: int | None, really: bool) -> None:
        if really or self.world.job.hold:
            self.world.ask(hold=not self.world.job.hold)
            self.world.settle(writes)

    @rule(writes=WRITES, base=st.integers(-5, 5))
    def prioritise(self, writes: int | None, base: int) -> None:
        self.world.base_priority = base
        self.world.settle(writes)

    @precondition(lambda self: not self.world.job.cancel)
    @rule(writes=WRITES, really=RARELY)
    def cancel(self, *, writes: int | None, really: bool) -> None:
        if really:
            self.world.ask(cancel=True)
            self.world.settle(writes)

    @precondition(lambda self: self.world.life.is_final)
    @rule(writes=WRITES)
    def retry(self, writes: int | None) -> None:
        self.world.ask(retry=self.world.job.retry + 1, cancel=False)
        self.world.settle(writes)

    @rule(writes=WRITES, seconds=st.sampled_from([0.4, 1, 7, 40]))
    def wait(self, writes: int | None, seconds: float) -> None:
        self.world.wait(seconds)
        self.world.settle(writes)

    @rule(writes=WRITES, really=RARELY)
    def set_clock_back(self, *, writes: int | None, really: bool) -> None:
        if really:
            self.world.wait(-50)
            self.set_back += 50
            self.world.settle(writes)

    def teardown(self) -> None:
        """Whatever happened: once nothing speaks against it any more, the job comes to an end."""
        world = self.world
        world.ask(hold=False)
        world.can_ever_run = None
        if self.can_be_switched():
            world.change(active=True)
        for _ in range(60):
            world.settle()
            if world.life.is_final:
                break
            world.obey()
            self.end_what_runs()
            self.run_all()
            if self.can_be_admitted():
                world.admit()
            if world.again_at is not None:
                world.now = max(world.now, world.again_at)
        assert world.life.is_final, world.life
        for _ in range(2):
            world.obey()
            world.settle()
        assert not world.pods
        assert all(one.finished for one in world.workloads.values())

    def end_what_runs(self) -> None:
        for name, pod in list(self.world.pods.items()):
            if pod.state is PodState.RUNNING and not pod.deleting:
                self.world.end(name, PodState.SUCCEEDED)

    def run_all(self) -> None:
        for name, pod in self.world.pods.items():
            if pod.state is PodState.STARTING and not pod.deleting:
                self.world.pod(name, state=PodState.RUNNING)

    # What always holds

    @invariant()
    def priority_stays_within_its_cap(self) -> None:
        world = self.world
        if world.life.priority is None or world.base_priority is None:
            return
        bases = (world.base_priority, -5, 5)
        assert min(bases) <= world.life.priority <= max(bases) + world.job.aging_cap

    @invariant()
    def the_workload_has_the_base_priority_alone(self) -> None:
        workload = self.world.workload
        if workload is not None:
            assert -5 <= workload.priority <= 5
            assert 0 <= workload.earned <= self.world.job.aging_cap

    @invariant()
    def priority_never_falls_by_itself(self) -> None:
        now, base = self.world.life.priority, self.world.base_priority
        if self.before is not None and now is not None and now < self.before[0]:
            assert base != self.before[1], "its user did not ask for less"
        if now is not None and (self.before is None or now != self.before[0]):
            self.before = (now, base)

    @invariant()
    def it_ran_no_longer_than_time_passed(self) -> None:
        life, passed = self.world.life, (self.world.now.replace(microsecond=0) - START).total_seconds() + self.set_back
        since = 0 if life.running_since is None else (self.world.now - life.running_since).total_seconds()
        assert life.ran_seconds + int(since) <= passed
        assert life.task_ran_seconds <= life.ran_seconds

    @invariant()
    def cancelling_ends_in_cancelled(self) -> None:
        phase = self.world.life.phase
        if self.cancelling:
            assert phase in {Phase.CANCELLING, Phase.CANCELLED, Phase.PENDING}
        self.cancelling = phase is Phase.CANCELLING

    @invariant()
    def only_an_attempt_has_pods(self) -> None:
        attempts = {(one.task, one.attempt) for one in self.world.life.attempts}
        assert {(pod.task, pod.attempt) for pod in self.world.pods.values()} <= attempts

    def can_be_admitted(self) -> bool:
        workload = self.world.workload
        return workload is not None and workload.active and not workload.finished and not workload.reserved

    def can_be_switched(self) -> bool:
        workload = self.world.workload
        return workload is not None and not workload.finished

    def holds_quota(self) -> bool:
        workload = self.world.workload
        return workload is not None and workload.admitted and not workload.evicted and not workload.finished


Lives.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestLives = Lives.TestCase
