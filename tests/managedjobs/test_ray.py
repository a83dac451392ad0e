"""Tasks with a Ray cluster: its pods are head and workers, and the driver's end is the end of the task."""

from typing import Any

import msgspec
import pytest

from fairway.integrations.priorities import Priority
from fairway.managedjobs.asking import workload_for
from fairway.managedjobs.kubernetes import OnKubernetes
from fairway.managedjobs.observation import PodState
from fairway.managedjobs.observing import job_of
from fairway.managedjobs.states import Phase
from fairway.managedjobs.status import ManagedJobStatus
from fairway.managedjobs.tasks.parse import task_of
from fairway.managedjobs.tasks.places import SourceMap, Where
from fairway.managedjobs.tasks.task import Candidate, RayWorkers, Task, node_count

from .pods.jobs import PLACES, container_of, main_of, managed_job, pods_of, values_of
from .world import World, a_job

WORKERS = RayWorkers(count=2, cpus="3", memory="2Gi", gpus=1, accelerators=("T4",))
TASK = Task(ray=WORKERS, num_nodes=3, run="python train.py", candidates=(Candidate(cpus="2", image="ray:1"),))


def told(pod: dict[str, Any]) -> Any:
    """What the program of a node is told."""
    return msgspec.json.decode(main_of(pod)["command"][6])


def world() -> World:
    return World(a_job(tasks=(TASK,)))


def roles(running: World) -> list[str]:
    """The names of its pods, the head's first."""
    return [pod.name for pod in sorted(running.pods.values(), key=lambda pod: pod.rank)]


def test_one_workload_has_a_pod_set_for_the_head_and_one_for_the_workers() -> None:
    manifest = managed_job()
    manifest["spec"]["tasks"] = [{"run": "x"}]
    workload = workload_for(
        manifest, job_of(manifest, (TASK,)), ManagedJobStatus(workload="w"), PLACES, "q", Priority(0, None)
    )
    head, workers = workload["spec"]["podSets"]
    assert (head["name"], head["count"]) == ("head", 1)
    assert (workers["name"], workers["count"]) == ("workers", 2)
    assert main_of(head["template"])["resources"] == {"requests": {"cpu": "2"}}
    assert main_of(workers["template"])["resources"] == {
        "requests": {"cpu": "3", "memory": "2Gi", "nvidia.com/gpu": "1"},
        "limits": {"nvidia.com/gpu": "1"},
    }
    assert workload["metadata"]["annotations"]["fairway.dev/gang"] == "true"


def test_a_cluster_without_workers_is_a_head() -> None:
    task = Task(ray=RayWorkers(count=0), run="x")
    (pod,) = pods_of(task)
    assert told(pod)["nodes"] == 1


def test_pods_have_what_their_group_needs_and_ray_is_told_the_same() -> None:
    head, first, second = pods_of(TASK)
    assert [pod["metadata"]["name"] for pod in (head, first, second)] == [
        "train-7-1-head", "train-7-1-worker1", "train-7-1-worker2"
    ]  # fmt: skip
    assert "--num-cpus=2" in told(head)["start"].split()
    assert {"--num-cpus=3", "--num-gpus=1", f"--memory={2 << 30}"} <= set(told(second)["start"].split())
    assert "--head" not in told(first)["start"].split()
    assert main_of(head)["command"][-1] == "python train.py"
    assert "python train.py" not in main_of(first)["command"], "only the head has a driver"
    assert told(head)["meeting"] == told(first)["meeting"]
    assert values_of(main_of(head))["FAIRWAY_NUM_NODES"] == "3"


def test_attempts_do_not_meet_each_other() -> None:
    assert told(pods_of(TASK, attempt=1)[0])["meeting"] != told(pods_of(TASK, attempt=2)[0])["meeting"]


def test_setup_runs_on_every_node_before_ray() -> None:
    task = msgspec.structs.replace(TASK, setup="pip list")
    for pod in pods_of(task):
        assert container_of(pod, "setup")["command"][-1] == "pip list"


def test_on_a_cluster_the_head_has_a_fixed_port_and_an_image_without_ray_is_named() -> None:
    platform = OnKubernetes()
    head, first, _ = pods_of(TASK, platform=platform)
    script = main_of(head)["command"][2]
    assert "the image has no ray" in script
    assert main_of(head)["command"][-2:] == ["run", "python train.py"]
    assert msgspec.json.decode(main_of(first)["command"][-1])["port"] == 6379
    assert head["spec"]["subdomain"] == first["spec"]["subdomain"]
    assert {"name": "fairway-shared-memory", "mountPath": "/dev/shm"} in main_of(first)["volumeMounts"]  # noqa: S108


@pytest.mark.parametrize(
    ("stored", "nodes"),
    [
        ({}, 1),
        ({"num_nodes": 4}, 4),
        ({"ray": {"workers": 2}}, 3),
        ({"ray": {}}, 2),
        ({"ray": {"workers": 0}}, 1),
    ],
)
def test_the_nodes_of_a_stored_task(stored: dict[str, Any], nodes: int) -> None:
    assert node_count(stored) == nodes
    assert task_of(stored | {"run": "x"}, Where(SourceMap())).num_nodes == nodes


def test_workers_end_when_the_driver_has_succeeded() -> None:
    running = world().running()
    head, *workers = roles(running)
    running.end(head, PodState.SUCCEEDED)
    running.settle()
    assert all(running.pods[name].deleting for name in workers)
    assert running.is_in(Phase.RUNNING)

    running.obey()
    running.settle()
    assert (running.life.phase, running.pods) == (Phase.SUCCEEDED, {})


def test_the_exit_code_is_the_drivers_whatever_workers_do_afterwards() -> None:
    running = world().running()
    head, worker, _ = roles(running)
    running.end(worker, PodState.FAILED, 1)
    running.end(head, PodState.FAILED, 3)
    running.settle()
    running.obey()
    running.settle()
    assert running.is_in(Phase.FAILED)
    assert running.life.attempts[-1].exit_code == 3


def test_a_worker_that_ends_because_the_head_is_gone_decides_nothing() -> None:
    running = world().running()
    head, first, second = roles(running)
    running.end(first, PodState.SUCCEEDED)
    running.end(second, PodState.SUCCEEDED)
    running.settle()
    assert running.is_in(Phase.RUNNING)
    running.end(head, PodState.SUCCEEDED)
    running.settle()
    assert running.is_in(Phase.SUCCEEDED)


def test_a_worker_that_fails_under_its_driver_fails_the_attempt() -> None:
    running = world().running()
    running.end(roles(running)[2], PodState.FAILED, 1)
    running.settle()
    running.obey()
    running.settle()
    assert running.is_in(Phase.FAILED)


def test_a_preempted_cluster_comes_back() -> None:
    running = world().running()
    running.preempt()
    assert running.is_in(Phase.RECOVERING)
    running.run_again()
    assert (running.life.attempt, len(running.pods)) == (2, 3)


def test_a_driver_that_succeeds_while_it_is_preempted_has_succeeded() -> None:
    running = world().running()
    running.evict()
    running.settle()
    running.end(roles(running)[0], PodState.SUCCEEDED)
    running.obey()
    running.settle()
    assert running.is_in(Phase.SUCCEEDED)
