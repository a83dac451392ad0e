"""Pods that find no node or no image, and pods that may still run where they cannot be seen."""

from datetime import timedelta

from fairway.managedjobs.observation import PodState, StartObstacle
from fairway.managedjobs.states import Phase

from .world import World, a_job, a_task


def starting(obstacle: StartObstacle, count: int = 1, **task: object) -> World:
    """A job with quota whose pods meet an obstacle."""
    world = World(a_job(tasks=(a_task(infras=("",) * count, **task),))).queued()
    world.admit()
    world.settle()
    world.every_pod(obstacle=obstacle, message="no such thing")
    world.settle()
    return world


def late(world: World, seconds: float) -> World:
    world.wait(seconds)
    world.settle()
    world.obey()
    world.settle()
    return world


def test_pods_without_a_node_move_the_job_to_its_next_candidate_in_time() -> None:
    world = starting(StartObstacle.UNSCHEDULABLE, 2, provision_timeout_seconds=60)
    assert world.again_at == world.now + timedelta(seconds=60)
    late(world, 60)
    assert (world.life.candidate, world.life.phase) == (1, Phase.PENDING)
    assert world.life.attempts[0].outcome == "ProvisionTimeout"
    assert "no such thing" in world.life.message
    assert not world.pods, "nothing is left of the first"


def test_pods_without_a_node_wait_where_there_is_no_other_candidate() -> None:
    world = late(starting(StartObstacle.UNSCHEDULABLE, provision_timeout_seconds=60), 10_000)
    assert (world.life.phase, world.life.message) == (Phase.STARTING, "no such thing")


def test_pods_wait_for_a_node_once_all_candidates_were_tried() -> None:
    world = starting(StartObstacle.UNSCHEDULABLE, 2, provision_timeout_seconds=60)
    late(world, 60)
    world.admit()
    world.settle()
    world.every_pod(obstacle=StartObstacle.UNSCHEDULABLE, message="no such thing")
    late(world, 60)
    assert world.life.candidate == 0
    world.admit()
    world.settle()
    world.every_pod(obstacle=StartObstacle.UNSCHEDULABLE, message="no such thing")
    late(world, 10_000)
    assert world.is_in(Phase.STARTING)


def test_an_image_that_cannot_be_pulled_ends_the_job_after_a_while() -> None:
    world = late(starting(StartObstacle.IMAGE), 599)
    assert world.is_in(Phase.STARTING)
    late(world, 1)
    assert (world.life.phase, world.life.reason) == (Phase.FAILED_PRECHECKS, "ImagePullFailed")


def test_an_image_that_cannot_be_pulled_is_no_end_if_there_is_another_candidate() -> None:
    world = late(starting(StartObstacle.IMAGE, 2), 600)
    assert world.life.candidate == 1


def test_a_name_that_no_image_can_have_ends_the_job_at_once() -> None:
    world = late(starting(StartObstacle.HOPELESS), 0)
    assert (world.life.phase, world.life.message) == (Phase.FAILED_PRECHECKS, "no such thing")


def test_a_pod_that_may_still_run_blocks_the_next_attempt_and_says_so() -> None:
    world = World().queued()
    world.admit()
    world.settle()
    world.every_pod(state=PodState.RUNNING)
    world.settle()
    assert world.is_in(Phase.RUNNING)
    world.every_pod(node_trouble="node n1 is unreachable since noon")
    world.settle()
    assert world.life.message == "node n1 is unreachable since noon"
    world.every_pod(deleting=True)
    world.settle()
    world.wait(100_000)
    world.settle()
    assert world.started == [(0, 1)], "never two at a time"
    assert world.life.message.startswith("waits for the end of pod train-1-t0-1-0: node n1 is unreachable since noon")
    assert "out-of-service" in world.life.message

    world.every_pod(state=PodState.LOST, node_trouble="")
    world.settle()
    world.obey()
    world.settle()
    assert world.started == [(0, 1), (0, 2)]
