"""What the command line says about jobs: what they may use, and that they outlive a server unless told otherwise."""

import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from fairway.testing.servers import Server

from .conftest import CommandLine

JOBS = "/apis/batch/v1/namespaces/default/jobs"
SLEEPER = {
    "metadata": {"name": "sleeper"},
    "spec": {
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 5,
                "containers": [{"name": "main", "image": "none", "command": ["/bin/sleep", "1000"]}],
            }
        }
    },
}


def sleepers(state: Path) -> list[psutil.Process]:
    """The processes of jobs that work beneath a state directory."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.name() == "sleep" and Path(process.cwd()).is_relative_to(state):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def wait_until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_jobs_go_on_when_the_server_ends_and_end_when_they_are_told_to(fairway: CommandLine) -> None:
    server = Server(fairway.state, jobs=True)
    server.url = fairway("up", "--port", "0").split()[4]
    assert server.call("POST", JOBS, SLEEPER).code == 201
    wait_until(lambda: sleepers(server.state))
    (before,) = sleepers(server.state)

    assert "has ended" in fairway("shutdown")
    assert sleepers(server.state) == [before]

    assert fairway("shutdown", "--jobs").splitlines()[-1] == "All jobs have ended."
    assert sleepers(server.state) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(("--cpus", "many"), "--cpus many: give an amount", id="no amount of CPUs"),
        pytest.param(("--cpus", "0"), "--cpus 0: give an amount greater than 0", id="no CPUs at all"),
        pytest.param(("--memory", "16 GB"), "--memory 16 GB: give an amount", id="no amount of memory"),
        pytest.param(("--gpus", "-1"), "--gpus -1: give a number", id="fewer GPUs than none"),
    ],
)
def test_amounts_that_make_no_sense_are_refused(fairway: CommandLine, arguments: tuple[str, ...], words: str) -> None:
    assert words in fairway.refused("serve", *arguments)


def test_a_server_of_the_api_alone_runs_nothing(tmp_path: Path) -> None:
    with Server(tmp_path / "state") as server:
        assert server.call("POST", JOBS, SLEEPER).code == 201
        assert server.call("GET", "/api/v1/nodes").body["items"] == []
        assert server.call("GET", JOBS + "/sleeper").body["status"] == {}


def test_what_is_declared_is_what_the_node_and_the_first_queue_have(tmp_path: Path) -> None:
    amounts = ("--cpus", "3500m", "--memory", "5Gi", "--gpus", "3")
    with Server(tmp_path / "state", *amounts, jobs=True) as server:
        wait_until(lambda: server.call("GET", "/api/v1/nodes").body["items"])
        (node,) = server.call("GET", "/api/v1/nodes").body["items"]
        allocatable = node["status"]["allocatable"]
        assert (allocatable["cpu"], allocatable["memory"], allocatable["nvidia.com/gpu"]) == ("3500m", "5Gi", "3")
        queue = server.call("GET", "/apis/kueue.x-k8s.io/v1beta2/clusterqueues/cluster-queue").body
        quotas = queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
        assert [one["nominalQuota"] for one in quotas] == ["3500m", "5Gi", "3"]
