"""Who admits: Kueue, which knows one priority only, or nobody."""

import pytest

from fairway.admission.port import AdmittedBy
from fairway.managedjobs.observation import PodState
from fairway.managedjobs.states import Phase

from .world import World, a_job


def priority_of(world: World) -> tuple[int, int]:
    assert world.workload is not None
    return world.workload.priority, world.workload.earned


def test_with_kueue_the_earned_priority_protects_who_runs_and_gives_no_right_to_preempt() -> None:
    world = World(base_priority=5, admitted_by=AdmittedBy.KUEUE).running()
    assert priority_of(world) == (5, 0)
    world.preempt()
    assert world.life.preemptions == 1
    assert priority_of(world) == (5, 0), "a pending Workload has its base priority"
    world.run_again()
    assert priority_of(world) == (15, 0), "one with quota is protected by what it earned"
    world.evict()
    world.settle()
    world.obey()
    world.settle()
    assert priority_of(world) == (5, 0), "back to the base before its quota is released"
    assert world.life.priority == 25, "the job shows what it has earned"


def test_with_kueue_a_class_that_is_gone_leaves_the_priority_as_it_is() -> None:
    world = World(base_priority=5, admitted_by=AdmittedBy.KUEUE).running()
    world.preempt()
    world.run_again()
    world.base_priority = None
    world.settle()
    assert priority_of(world) == (15, 0)


def test_where_nobody_admits_pods_come_at_once_and_there_is_no_workload() -> None:
    world = World(admitted_by=AdmittedBy.NONE)
    world.settle()
    assert (world.life.phase, world.workloads, len(world.pods)) == (Phase.STARTING, {}, 1)
    world.every_pod(state=PodState.RUNNING)
    world.settle()
    world.done()
    assert (world.life.phase, world.workloads, world.pods) == (Phase.SUCCEEDED, {}, {})


@pytest.mark.parametrize("lost", [PodState.LOST, PodState.STOPPED])
def test_where_nobody_admits_a_lost_pod_is_replaced(lost: PodState) -> None:
    world = World(admitted_by=AdmittedBy.NONE)
    world.settle()
    world.every_pod(state=PodState.RUNNING)
    world.settle()
    world.end_the_pod(lost)
    world.settle()
    world.wait(600)
    world.settle()
    assert world.started == [(0, 1), (0, 2)]
    assert world.life.recoveries == 1


def test_where_nobody_admits_a_held_job_has_no_pods_until_it_is_released() -> None:
    world = World(a_job(hold=True), admitted_by=AdmittedBy.NONE)
    world.settle()
    assert (world.life.reason, world.pods) == ("Held", {})
    world.ask(hold=False)
    world.settle()
    assert len(world.pods) == 1
    world.ask(hold=True)
    world.settle()
    world.obey()
    world.settle()
    assert (world.life.phase, world.life.reason, world.pods) == (Phase.PENDING, "Held", {})


@pytest.mark.parametrize("way", [AdmittedBy.KUEUE, AdmittedBy.FAIRWAY])
def test_an_attempt_that_began_without_a_queue_goes_on_when_queues_are_installed(way: AdmittedBy) -> None:
    world = World(admitted_by=AdmittedBy.NONE)
    world.settle()
    world.every_pod(state=PodState.RUNNING)
    world.settle()
    world.admitted_by = way
    world.settle()
    assert (world.life.phase, world.workloads, world.started) == (Phase.RUNNING, {}, [(0, 1)])

    world.end_the_pod(PodState.LOST)
    world.settle()
    world.wait(600)
    world.settle()
    assert (world.life.phase, len(world.workloads), world.pods) == (Phase.RECOVERING, 1, {}), "the next one waits"


@pytest.mark.parametrize("way", [AdmittedBy.KUEUE, AdmittedBy.FAIRWAY])
def test_an_attempt_that_was_admitted_goes_on_when_queues_are_removed(way: AdmittedBy) -> None:
    world = World(admitted_by=way).running()
    world.workloads.clear()
    world.admitted_by = AdmittedBy.NONE
    world.settle()
    assert (world.life.phase, world.started) == (Phase.RUNNING, [(0, 1)])
    world.done()
    assert (world.life.phase, world.pods) == (Phase.SUCCEEDED, {})
