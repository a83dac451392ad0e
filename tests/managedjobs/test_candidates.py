"""Where jobs run: the candidates of a task, one after the other."""

from datetime import timedelta

import pytest

from fairway.managedjobs.observation import ManagedJobSpec
from fairway.managedjobs.states import Phase

from .world import World, a_job, a_task


def several(count: int = 2, **task: object) -> World:
    return World(a_job(tasks=(a_task(infras=("",) * count, **task),)))


def test_a_job_moves_on_when_it_has_waited_long_enough() -> None:
    world = several(provision_timeout_seconds=60).queued()
    first = world.life.workload
    assert world.again_at == world.now + timedelta(seconds=60)

    world.wait(60)
    world.settle()
    assert world.life.candidate == 1
    assert world.life.workload not in {"", first}
    assert [*world.workloads] == [world.life.workload], "it is withdrawn where it was"
    assert "candidate 1" in world.life.message
    assert world.life.submitted_at == world.job.created_at, "its place in the queue stays"


def test_when_all_were_tried_it_waits_at_the_first_and_says_so() -> None:
    world = several(provision_timeout_seconds=60).queued()
    for _ in range(2):
        world.wait(60)
        world.settle()
    assert world.life.candidate == 0
    assert "all 2 candidates were tried" in world.life.message
    assert world.again_at is None

    world.wait(10_000)
    writes = world.writes
    world.settle()
    assert world.writes == writes, "it waits, and that costs nothing"
    world.run_again()
    assert world.is_in(Phase.RUNNING)


def test_a_candidate_where_it_can_never_run_is_left_at_once_and_not_waited_at() -> None:
    world = several(3, provision_timeout_seconds=60).queued()
    world.can_ever_run = False
    world.settle(cut_off_after=1)
    world.can_ever_run = None
    world.settle()
    assert world.life.candidate == 1

    for _ in range(2):
        world.wait(60)
        world.settle()
    assert world.life.candidate == 1, "the first that is not hopeless"


def test_a_single_candidate_is_waited_for_whatever_the_queue_thinks_of_it() -> None:
    world = World(a_job(tasks=(a_task(provision_timeout_seconds=5),))).queued()
    world.can_ever_run = False
    world.wait(100)
    writes = world.writes
    world.settle()

    assert (world.life.phase, world.writes) == (Phase.PENDING, writes)


def test_time_in_the_queue_counts_anew_after_a_preemption() -> None:
    world = several(provision_timeout_seconds=60).queued()
    world.wait(50)
    world.run_again()
    world.preempt()
    world.wait(59)
    world.settle()
    assert world.life.candidate == 0

    world.wait(1)
    world.settle()
    world.run_again()
    assert (world.life.candidate, world.life.attempts[-1].cause) == (1, "moved")


@pytest.mark.parametrize(
    ("job", "want"),
    [
        pytest.param(a_job(), -1, id="one candidate waits for ever"),
        pytest.param(a_job(tasks=(a_task(infras=("", "")),)), 86400, id="several wait for a day"),
        pytest.param(a_job(tasks=(a_task(infras=("", ""), provision_timeout_seconds=9),)), 9, id="what the task says"),
        pytest.param(
            a_job(provision_timeout_seconds=-1, tasks=(a_task(infras=("", ""), provision_timeout_seconds=9),)),
            -1,
            id="what the job says counts before",
        ),
    ],
)
def test_how_long_a_job_waits_at_a_candidate(job: ManagedJobSpec, want: int) -> None:
    assert job.timeout_seconds(0) == want
