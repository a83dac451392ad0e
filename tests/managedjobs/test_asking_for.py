"""What users ask of their jobs after they launched them: cancel, hold, retry, another priority; and pipelines."""

import pytest

from fairway.managedjobs.observation import PodState
from fairway.managedjobs.states import Phase

from .world import World, a_job, a_task

# Cancel


def test_a_waiting_job_is_cancelled_at_once_and_leaves_no_workload() -> None:
    world = World().queued()
    world.ask(cancel=True)
    world.settle()

    assert (world.life.phase, world.workloads) == (Phase.CANCELLED, {})


@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.RUNNING])
def test_a_job_with_pods_is_cancelled_when_they_have_ended(phase: Phase) -> None:
    world = World().starting() if phase is Phase.STARTING else World().running()
    world.ask(cancel=True)
    world.settle()
    assert world.is_in(Phase.CANCELLING)
    assert all(pod.deleting for pod in world.pods.values())

    world.obey()
    world.settle()
    assert (world.life.phase, world.pods) == (Phase.CANCELLED, {})
    assert world.workload is not None
    assert world.workload.finished


def test_a_recovering_job_is_cancelled() -> None:
    world = World().running()
    world.preempt()
    world.ask(cancel=True)
    world.settle()

    assert (world.life.phase, world.workloads) == (Phase.CANCELLED, {})


def test_a_job_that_is_being_preempted_is_cancelled_all_the_same() -> None:
    world = World().running()
    world.evict()
    world.settle()
    world.ask(cancel=True)
    world.settle()
    assert world.is_in(Phase.CANCELLING)

    world.obey()
    world.settle()
    assert (world.life.phase, world.life.attempts[0].outcome) == (Phase.CANCELLED, "Preempted")


def test_what_is_cancelled_stays_cancelled_whatever_its_pods_say() -> None:
    world = World().running()
    world.ask(cancel=True)
    world.settle()
    world.done()

    assert world.is_in(Phase.CANCELLED)


# Hold


def test_a_held_job_waits_outside_its_queue() -> None:
    world = World().queued()
    world.ask(hold=True)
    world.settle()
    assert (world.life.phase, world.life.reason) == (Phase.PENDING, "Held")
    assert world.workload is not None
    assert not world.workload.active

    world.ask(hold=False)
    world.settle()
    assert (world.life.reason, world.workload.active) == ("Queued", True)


def test_a_job_that_runs_stops_when_it_is_held_and_that_is_no_recovery() -> None:
    world = World(a_job(recover=False)).running()
    world.ask(hold=True)
    world.settle()
    world.obey()
    world.settle()
    life = world.life
    assert (life.phase, life.reason, life.recoveries) == (Phase.RECOVERING, "Held", 0)
    assert world.workload is not None
    assert (world.workload.active, world.workload.reserved) == (False, False)

    world.ask(hold=False)
    world.settle()
    world.run_again()
    assert (world.life.phase, world.life.attempts[-1].cause) == (Phase.RUNNING, "held")


def test_a_job_that_is_held_from_the_start_has_no_workload() -> None:
    world = World(a_job(hold=True)).queued()
    assert (world.life.reason, world.workloads) == ("Held", {})

    world.ask(hold=False)
    world.settle()
    assert len(world.workloads) == 1


def test_a_workload_that_somebody_else_deactivated_is_left_alone() -> None:
    world = World().queued()
    world.change(active=False, evicted="Deactivated")
    world.settle()
    assert world.life.reason == "Deactivated"
    assert world.workload is not None
    assert not world.workload.active

    for hold in (True, False):
        world.ask(hold=hold)
        world.settle()
    assert world.workload.active


def test_what_was_held_is_let_go_however_its_attempt_ended() -> None:
    """An attempt that failed by itself while it was being held left nobody who knew that the hold was ours."""
    world = World(a_job(tasks=(a_task(exit_codes=frozenset({75})),))).running()
    world.ask(hold=True)
    world.settle()
    world.end_the_pod(PodState.FAILED, 75)
    world.settle()
    assert (world.life.reason, world.life.attempts[0].outcome) == ("Held", "Failed")

    world.ask(hold=False)
    world.settle()
    assert world.workload is not None
    assert world.workload.active


# Retry


def test_an_ended_job_begins_again_with_the_next_attempt() -> None:
    world = World().running()
    world.fail(1)
    old = world.life.workload
    world.wait(30)

    world.ask(retry=1)
    world.settle()
    assert (world.life.phase, world.life.ended_at) == (Phase.PENDING, None)
    assert world.life.workload not in {"", old}
    world.run_again()
    assert (world.life.attempt, world.life.attempts[-1].cause) == (2, "retry")
    world.done()
    assert world.is_in(Phase.SUCCEEDED)


def test_a_live_job_has_nothing_to_retry() -> None:
    world = World().running()
    world.ask(retry=1)
    world.settle()
    world.fail(1)

    assert (world.life.phase, world.life.attempt) == (Phase.FAILED, 1)


def test_a_cancelled_job_begins_again_only_when_it_is_no_longer_to_be_cancelled() -> None:
    world = World().queued()
    world.ask(cancel=True)
    world.settle()
    world.ask(retry=1)
    world.settle()
    assert world.is_in(Phase.CANCELLED)

    world.ask(cancel=False)
    world.settle()
    assert world.is_in(Phase.PENDING)


def test_a_retry_counts_restarts_and_durations_anew_and_keeps_the_rest() -> None:
    task = a_task(max_restarts_on_errors=1, max_duration_seconds=100)
    world = World(a_job(tasks=(task,))).running()
    world.preempt()
    world.run_again()
    world.wait(50)
    for _ in range(2):
        world.fail(1)
        world.wait(5)
        world.settle()
    assert world.is_in(Phase.FAILED)

    world.ask(retry=1)
    world.settle()
    life = world.life
    assert (life.restarts_on_errors, life.task_ran_seconds) == (0, 0)
    assert (life.ran_seconds, life.preemptions, life.priority) == (50, 1, 10)


# Priority


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.RUNNING])
def test_the_workload_follows_the_priority_at_once(phase: Phase) -> None:
    world = World().queued() if phase is Phase.PENDING else World().running()
    world.base_priority = 50
    world.settle()

    assert world.workload is not None
    assert (world.life.priority, world.workload.priority) == (50, 50)


def test_what_a_job_has_earned_is_added_to_its_new_priority() -> None:
    world = World().running()
    world.preempt()
    world.base_priority = -20
    world.settle()

    assert world.life.priority == -10
    assert world.workload is not None
    assert (world.workload.priority, world.workload.earned) == (-20, 10)


def test_a_priority_class_that_is_gone_leaves_the_base_priority_as_it_was() -> None:
    world = World().running()
    world.base_priority = 7
    world.settle()
    world.base_priority = None
    world.preempt()
    world.settle()

    assert world.workload is not None
    assert (world.life.priority, world.workload.priority, world.workload.earned) == (17, 7, 10)


def test_a_job_waits_for_its_priority_class_and_its_queue() -> None:
    world = World()
    world.base_priority, world.queue = None, ""
    world.settle()
    assert (world.life.reason, world.workloads) == ("NoQueue", {})

    world.queue = "default"
    world.settle()
    assert (world.life.reason, world.workloads) == ("PriorityClassMissing", {})

    world.base_priority = 3
    world.settle()
    assert (world.life.reason, world.life.priority) == ("Queued", 3)


# Pipelines


def test_tasks_of_a_pipeline_run_one_after_the_other() -> None:
    world = World(a_job(tasks=(a_task(), a_task(num_nodes=2)))).running()
    first = world.life.workload
    world.done()
    assert (world.life.phase, world.life.task, world.life.attempt) == (Phase.PENDING, 1, 0)
    assert world.workloads[first].finished
    assert world.life.workload != first

    world.run_again()
    assert (world.life.phase, len(world.pods)) == (Phase.RUNNING, 2)
    world.done()
    assert world.is_in(Phase.SUCCEEDED)
    assert world.started == [(0, 1), (1, 1)]


def test_a_controller_that_ends_between_two_tasks_leaves_the_workload_of_the_first_finished() -> None:
    world = World(a_job(tasks=(a_task(), a_task()))).running()
    first = world.life.workload
    world.end_the_pod(PodState.SUCCEEDED)
    while world.life.task == 0:
        world.settle(cut_off_after=1)
    assert not world.workloads[first].finished, "only the job's status is written"
    world.settle()
    assert world.workloads[first].finished
    assert world.workloads.keys() == {first, world.life.workload}


def test_the_first_failure_ends_a_pipeline_and_a_retry_begins_there() -> None:
    world = World(a_job(tasks=(a_task(), a_task(), a_task()))).running()
    world.done()
    world.run_again()
    world.fail(1)
    assert (world.life.phase, world.life.task) == (Phase.FAILED, 1)

    world.ask(retry=1)
    world.settle()
    world.run_again()
    assert world.started == [(0, 1), (1, 1), (1, 2)]


# What cannot be


def test_pods_that_cannot_be_made_fail_the_job() -> None:
    world = World().starting()
    world.pods.clear()
    world.refused = "pods: a label is too long"
    world.settle()

    assert (world.life.phase, world.life.message) == (Phase.FAILED_PRECHECKS, "pods: a label is too long")


def test_a_workload_that_cannot_be_made_fails_the_job() -> None:
    world = World()
    world.refused = "too many pods"
    world.settle()

    assert (world.life.phase, world.life.reason) == (Phase.FAILED_PRECHECKS, "PodsRefused")


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.RUNNING])
def test_a_job_that_cannot_be_read_any_more_is_stopped(phase: Phase) -> None:
    world = World().queued() if phase is Phase.PENDING else World().running()
    world.ask(unreadable="spec.tasks[0].run: is missing", tasks=())
    world.settle()
    world.obey()
    world.settle()

    assert (world.life.phase, world.pods) == (Phase.FAILED_CONTROLLER, {})


def test_what_keeps_pods_from_starting_is_shown() -> None:
    world = World().starting()
    world.every_pod(message="Unschedulable: no node has 4 GPUs")
    world.settle()
    assert world.life.message == "Unschedulable: no node has 4 GPUs"

    world.every_pod(message="", state=PodState.RUNNING)
    world.settle()
    assert (world.life.phase, world.life.message) == (Phase.RUNNING, "")
