"""`fairway simulate` on the live state of a server: each kind of change, and who starts, waits or is preempted then."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from fairway.testing.servers import Server

JOBS = "/apis/fairway.dev/v1alpha1/namespaces/default/managedjobs"
_SECONDS = 60.0
_AN_HOUR = 3600

LIVE = {
    "runs": {"cpus": 2},
    "next": {"cpus": 2},
    "last": {"cpus": 2},
    "trains": {"cpus": 0.5, "accelerators": "T4:1"},
    "wants-gpu": {"cpus": 0.5, "accelerators": "T4:1"},
}
"""What each job asks for, in the order of submission; the server has 3 CPUs and a GPU, so three of them wait."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    options = ("--cpus", "3", "--memory", "8Gi", "--gpus", "T4:1")
    with Server(tmp_path_factory.mktemp("simulate") / "state", *options, jobs=True) as found:
        for priority, (name, resources) in zip(range(0, -50, -10), LIVE.items(), strict=True):
            task = {"resources": resources, "run": "sleep 3600", "max_duration": _AN_HOUR}
            spec = {"name": name, "priority": priority, "tasks": [task]}
            assert found.call("POST", JOBS, {"metadata": {"name": name}, "spec": spec}).code == 201
        deadline = time.monotonic() + _SECONDS
        while [phase(found, name) for name in LIVE] != ["RUNNING", "PENDING", "PENDING", "RUNNING", "PENDING"]:
            assert time.monotonic() < deadline, [phase(found, name) for name in LIVE]
            time.sleep(0.05)
        yield found


def phase(server: Server, name: str) -> str:
    return str((server.call("GET", f"{JOBS}/{name}").body.get("status") or {}).get("phase", ""))


def simulated(server: Server, *options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "fairway.cli.main", "simulate", "--state", str(server.state), "-o", "json"]
    done = subprocess.run(  # noqa: S603 - our own command
        [*command, *options], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    status: dict[str, Any] = json.loads(done.stdout)
    return status


def changes(status: dict[str, Any]) -> dict[str, str]:
    """What changes for each job, but for those for which nothing does; with how often it is preempted then."""
    found = {}
    for job in status["jobs"]:
        name = job["owner"]["name"] if job["owner"] else job["workload"]
        times = (job["after"] or {}).get("preemptions", 0)
        if job["change"] != "same" or times:
            found[name] = job["change"] + (f", preempted {times}" if times else "")
    return found


@pytest.mark.parametrize(
    ("options", "want"),
    [
        pytest.param((), {}, id="as it is"),
        pytest.param(("--quota", "cluster-queue:cpu=+2"), {"next": "sooner", "last": "sooner"}, id="more quota"),
        pytest.param(
            ("--quota", "cluster-queue:cpu=0.5"), {"next": "later", "last": "later"}, id="too little quota for two"
        ),
        pytest.param(
            ("--priority", "last=-5"), {"last": "sooner", "next": "later"}, id="a priority above that of the next"
        ),
        pytest.param(
            ("--priority", "last=100"),
            {"last": "sooner", "next": "later", "runs": "same, preempted 1"},
            id="a priority that preempts",
        ),
        pytest.param(
            ("--priority", "last=100", "--policy", "cluster-queue:withinClusterQueue=Never"),
            {"last": "sooner", "next": "later"},
            id="a policy that does not",
        ),
        pytest.param(("--add-node", "cpu=0.5,gpu=1"), {"wants-gpu": "sooner"}, id="a node with a GPU"),
        pytest.param(
            ("--add-node", "cpu=1,gpu=1"),
            {"next": "sooner", "last": "sooner", "trains": "same, preempted 1", "wants-gpu": "later"},
            id="a node that lets the next preempt",
        ),
        pytest.param(("--add-node", "cpu=2,count=2"), {"next": "sooner", "last": "sooner"}, id="two nodes"),
        pytest.param(("--job", "name=fresh,cpu=0.5,duration=30m"), {"fresh": "new"}, id="a job that fits beside them"),
        pytest.param(
            ("--job", "name=fresh,cpu=2,priority=-5,duration=2h"),
            {"fresh": "new", "next": "later", "last": "later"},
            id="a job before those that wait",
        ),
        pytest.param(("--cancel", "next"), {"next": "gone", "last": "sooner"}, id="without a job"),
    ],
)
def test_what_would_happen(server: Server, options: tuple[str, ...], want: dict[str, str]) -> None:
    assert changes(simulated(server, *options)) == want


def test_waits_and_use_are_compared_side_by_side(server: Server) -> None:
    status = simulated(server, "--quota", "cluster-queue:cpu=+4")

    before, after = status["before"], status["after"]
    assert after["wait"]["p90"] < before["wait"]["p90"]
    assert after["makespanSeconds"] < before["makespanSeconds"]
    nominal = {one["resource"]: one["nominal"] for one in after["use"]}
    assert (nominal["cpu"], [one["nominal"] for one in before["use"] if one["resource"] == "cpu"]) == ("7", ["3"])


def test_nothing_on_the_server_changes(server: Server) -> None:
    simulated(server, "--priority", "last=100", "--cancel", "runs")

    assert [phase(server, name) for name in LIVE] == ["RUNNING", "PENDING", "PENDING", "RUNNING", "PENDING"]
