"""How jobs come back: after preemptions, losses and errors, and how they do not."""

from datetime import timedelta
from typing import Any

import pytest

from fairway.managedjobs.observation import PodState
from fairway.managedjobs.recovery import earned_priority, may_start_at
from fairway.managedjobs.states import Phase

from .world import World, a_job, a_task


def test_a_preempted_job_waits_in_its_old_workload_with_a_raised_priority() -> None:
    world = World(base_priority=5).running()
    name = world.life.workload
    world.wait(10)

    world.evict()
    world.settle()
    assert world.is_in(Phase.RECOVERING)
    assert world.life.reason == "Preempted"
    assert all(pod.deleting for pod in world.pods.values()), "its pods are told to end"
    assert world.workload is not None
    assert world.workload.reserved, "it keeps its quota while they run"

    world.obey()
    world.settle()
    life = world.life
    assert not world.pods
    assert (life.workload, life.recoveries, life.preemptions, life.priority) == (name, 1, 1, 15)
    assert (life.attempts[0].outcome, life.ran_seconds) == ("Preempted", 10)
    assert (world.workload.priority, world.workload.earned, world.workload.reserved) == (5, 10, False)

    world.run_again()
    assert world.is_in(Phase.RUNNING)
    assert (world.life.attempt, world.life.attempts[-1].cause) == (2, "preempted")
    assert world.started == [(0, 1), (0, 2)]


def test_a_job_that_is_not_to_come_back_ends_when_it_is_preempted() -> None:
    world = World(a_job(recover=False)).running()

    world.preempt()

    assert (world.life.phase, world.life.reason) == (Phase.FAILED, "Preempted")
    assert "fairway jobs launch" in world.life.message
    assert world.life.recoveries == 0
    assert world.workload is not None
    assert world.workload.finished, "its quota is free"
    assert not world.pods


def test_a_task_that_was_done_before_it_heard_of_its_preemption_is_done() -> None:
    world = World().running()
    world.evict()
    world.settle()

    world.end_the_pod(PodState.SUCCEEDED)
    world.settle()

    assert world.is_in(Phase.SUCCEEDED)
    assert (world.life.recoveries, world.life.attempts[0].outcome) == (0, "Succeeded")


def test_a_task_that_failed_before_it_heard_of_its_preemption_has_failed() -> None:
    world = World().running()
    world.evict()
    world.settle()

    world.end_the_pod(PodState.FAILED, 7)
    world.settle()

    assert (world.life.phase, world.life.attempts[0].exit_code) == (Phase.FAILED, 7)


@pytest.mark.parametrize(
    ("reason", "want_preemptions"),
    [
        pytest.param("Preempted", 1, id="a preemption ages"),
        pytest.param("ClusterQueueStopped", 0, id="a queue that was stopped does not"),
        pytest.param("PodsReadyTimeout", 0, id="pods that were not ready in time do not"),
    ],
)
def test_every_eviction_is_a_recovery_and_only_preemptions_age(reason: str, want_preemptions: int) -> None:
    world = World().running()

    world.evict(reason)
    world.settle()
    world.obey()
    world.settle()

    assert (world.life.recoveries, world.life.preemptions) == (1, want_preemptions)
    assert world.life.priority == 10 * want_preemptions


@pytest.mark.parametrize(
    ("step", "cap", "preemptions", "want"),
    [
        pytest.param(10, 100, 0, 0, id="nothing at first"),
        pytest.param(10, 100, 3, 30, id="a step each"),
        pytest.param(10, 25, 3, 25, id="up to the cap"),
        pytest.param(0, 100, 9, 0, id="no aging"),
    ],
)
def test_aging(step: int, cap: int, preemptions: int, want: int) -> None:
    assert earned_priority(a_job(aging_step=step, aging_cap=cap), 5, preemptions) == want


def test_no_priority_is_larger_than_the_largest() -> None:
    assert earned_priority(a_job(), 2**31 - 3, 5) == 2


@pytest.mark.parametrize(
    "state",
    [pytest.param(PodState.LOST, id="with its machine"), pytest.param(PodState.STOPPED, id="stopped by somebody")],
)
def test_lost_pods_start_again_in_place(state: PodState) -> None:
    world = World().running()
    world.end_the_pod(state)
    world.settle()
    world.settle()

    life = world.life
    assert (life.phase, life.recoveries, life.preemptions) == (Phase.RECOVERING, 1, 0)
    assert (life.attempt, life.attempts[-1].cause) == (2, "lost")
    assert world.workload is not None
    assert world.workload.admitted, "the quota stays"


def test_a_pod_that_somebody_deletes_is_lost() -> None:
    world = World().running()
    world.every_pod(deleting=True)
    world.settle()

    assert (world.life.phase, world.life.reason) == (Phase.RECOVERING, "Lost")
    world.obey()
    world.settle()
    assert world.started == [(0, 1), (0, 2)]


def test_a_lost_job_that_is_not_to_come_back_has_failed() -> None:
    world = World(a_job(recover=False)).running()
    world.end_the_pod(PodState.LOST)
    world.settle()

    assert (world.life.phase, world.life.reason) == (Phase.FAILED, "Lost")


def test_a_workload_that_somebody_deletes_is_made_anew() -> None:
    world = World().running()
    world.workloads.clear()
    world.settle()
    world.obey()
    world.settle()

    assert (world.life.phase, world.life.recoveries) == (Phase.RECOVERING, 1)
    assert world.workload is not None
    assert not world.workload.admitted


# Errors


def failing(**task: Any) -> World:
    return World(a_job(tasks=(a_task(**task),))).running()


def test_a_task_that_fails_has_failed() -> None:
    world = failing()
    world.fail(3)

    assert (world.life.phase, world.life.reason) == (Phase.FAILED, "Failed")
    assert world.life.message == "the task failed on train-1-t0-1-0 with exit code 3"
    assert world.life.attempts[0].exit_code == 3


@pytest.mark.parametrize(
    ("container", "want"),
    [
        pytest.param("setup", Phase.FAILED_SETUP, id="setup"),
        pytest.param("files", Phase.FAILED_PRECHECKS, id="files"),
        pytest.param("sidecar", Phase.FAILED, id="another container"),
    ],
)
def test_which_part_failed_is_told(container: str, want: Phase) -> None:
    world = World().starting()
    world.fail(1, container)
    assert world.is_in(want)


def test_errors_start_again_so_often_with_growing_pauses() -> None:
    world = failing(max_restarts_on_errors=3)
    pauses = []
    for restart in (1, 2, 3):
        world.fail(1)
        assert (world.life.phase, world.life.restarts_on_errors) == (Phase.RECOVERING, restart)
        assert world.again_at is not None
        pauses.append((world.again_at - world.now).total_seconds())
        world.now = world.again_at
        world.run_again()
        assert (world.life.phase, world.life.attempts[-1].cause) == (Phase.RUNNING, "error")
    assert pauses == [1, 2, 4]

    world.fail(1)
    assert (world.life.phase, world.life.attempt, world.life.recoveries) == (Phase.FAILED, 4, 0)


def test_pauses_grow_up_to_a_minute_and_begin_anew_after_a_long_run() -> None:
    world = failing(max_restarts_on_errors=20)
    pauses = []
    for run_for in [0] * 9 + [600, 0]:
        world.wait(run_for)
        world.fail(1)
        due = may_start_at(world.life, world.now)
        assert due is not None
        pauses.append((due - world.now).total_seconds())
        world.now = due
        world.run_again()
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60, 1, 2]


def test_some_exit_codes_start_again_without_being_counted() -> None:
    world = failing(exit_codes=frozenset({75}))
    for _ in range(3):
        world.fail(75)
        assert (world.life.phase, world.life.restarts_on_errors) == (Phase.RECOVERING, 0)
        world.wait(60)
        world.run_again()

    world.fail(1)
    assert world.is_in(Phase.FAILED)


def test_a_setup_that_fails_is_an_error_like_any_other() -> None:
    world = World(a_job(tasks=(a_task(max_restarts_on_errors=1),))).starting()
    world.fail(1, "setup")
    assert (world.life.phase, world.life.restarts_on_errors) == (Phase.PENDING, 1)
    world.wait(1)
    world.settle()
    world.fail(1, "setup")
    assert world.is_in(Phase.FAILED_SETUP)


def test_lost_attempts_in_a_row_are_slowed_down_after_the_first() -> None:
    world = World().running()
    for want in (None, 1, 2):
        world.end_the_pod(PodState.LOST)
        world.settle()
        due = may_start_at(world.life, world.now) if not world.pods else None
        assert (None if due is None else (due - world.now).total_seconds()) == want
        world.now = due or world.now
        world.run_again()


# Gangs


def test_all_of_a_gang_run_before_the_job_does() -> None:
    world = World(a_job(tasks=(a_task(num_nodes=3),))).starting()
    assert len(world.pods) == 3
    first, *_ = sorted(world.pods)
    world.pod(first, state=PodState.RUNNING)
    world.settle()
    assert world.is_in(Phase.STARTING)

    world.every_pod(state=PodState.RUNNING)
    world.settle()
    assert world.is_in(Phase.RUNNING)
    assert [one.rank for one in world.life.attempts[0].pods] == [0, 1, 2]


def test_the_first_of_a_gang_that_fails_decides_and_the_others_are_stopped() -> None:
    world = World(a_job(tasks=(a_task(num_nodes=3),))).running()
    head, first, second = sorted(world.pods)
    world.end(second, PodState.FAILED, 9)
    world.wait(2)
    world.end(head, PodState.FAILED, 1)
    world.settle()

    assert world.pods[first].deleting
    assert world.is_in(Phase.RUNNING), "it is over when nothing of it runs"
    world.obey()
    world.settle()
    assert (world.life.phase, world.life.attempts[0].exit_code) == (Phase.FAILED, 9)
    assert second in world.life.message


def test_a_gang_of_which_one_is_lost_is_lost_whoever_failed_of_it() -> None:
    world = World(a_job(tasks=(a_task(num_nodes=2),))).running()
    head, worker = sorted(world.pods)
    world.end(head, PodState.FAILED, 1)
    world.end(worker, PodState.LOST)
    world.settle()
    world.settle()

    assert (world.life.recoveries, world.life.restarts_on_errors) == (1, 0)
    assert len(world.pods) == 2


def test_a_gang_that_is_preempted_comes_back_though_one_of_it_fails_for_want_of_the_others() -> None:
    world = World(a_job(tasks=(a_task(num_nodes=3),))).running()
    head, first, _ = sorted(world.pods)
    world.evict()
    world.settle()
    world.end(head, PodState.STOPPED)
    world.end(first, PodState.FAILED, 1)
    world.obey()
    world.settle()

    assert (world.life.phase, world.life.attempts[0].outcome) == (Phase.RECOVERING, "Preempted")


def test_a_gang_that_failed_before_it_heard_of_its_preemption_failed_as_its_first_did() -> None:
    world = World(a_job(tasks=(a_task(num_nodes=2),))).running()
    head, worker = sorted(world.pods)
    world.evict()
    world.settle()
    world.end(worker, PodState.FAILED, 9)
    world.wait(2)
    world.end(head, PodState.FAILED, 1)
    world.settle()

    assert (world.life.phase, world.life.attempts[0].exit_code) == (Phase.FAILED, 9)


def test_a_pod_of_a_gang_that_vanished_is_not_made_again_in_the_same_attempt() -> None:
    world = World(a_job(tasks=(a_task(num_nodes=2),))).running()
    head, worker = sorted(world.pods)
    del world.pods[worker]
    world.settle()
    assert world.pods[head].deleting
    world.obey()
    world.settle()

    assert (world.life.attempt, world.life.attempts[0].outcome, len(world.pods)) == (2, "Lost", 2)


# How long


def test_nobody_waits_for_a_clock_that_was_set_back() -> None:
    world = failing(max_restarts_on_errors=1)
    world.wait(30)
    world.fail(1)
    world.wait(-24 * 3600)
    world.settle()

    assert world.started == [(0, 1), (0, 2)]


def test_a_task_runs_no_longer_than_it_may_all_attempts_together() -> None:
    world = World(a_job(tasks=(a_task(max_duration_seconds=60),))).running()
    assert world.again_at == world.now + timedelta(seconds=60)
    world.wait(40)
    world.preempt()
    world.wait(1000)
    world.run_again()
    assert world.again_at == world.now + timedelta(seconds=20)

    world.wait(20)
    world.settle()
    world.obey()
    world.settle()
    assert (world.life.phase, world.life.reason, world.life.ran_seconds) == (Phase.FAILED, "MaxDurationExceeded", 60)
