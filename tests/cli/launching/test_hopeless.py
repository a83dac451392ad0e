"""What can never run on the machine that there is: said at once, by an exit code or a warning."""

import json
from pathlib import Path
from typing import cast

import pytest

from fairway.cli.prospects import Prospects
from fairway.cli.session import Session

from .conftest import Commands

CAUSES = [
    pytest.param(["--cpus", "9999", "--memory", "1Gi"], "never has more than", id="more than the queue ever has"),
    pytest.param(
        ["--queue", "vast", "--cpus", "9999"], "in one pod, and no machine here has more than", id="too large"
    ),
    pytest.param(["--queue", "vast", "--gpus", "T4:4"], "no machine here has", id="a model that is not there"),
]

VAST = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: vast}
spec:
  namespaceSelector: {}
  resourceGroups:
  - coveredResources: [cpu, memory, nvidia.com/gpu]
    flavors:
    - name: default-flavor
      resources:
      - {name: cpu, nominalQuota: 100k}
      - {name: memory, nominalQuota: 100Ti}
      - {name: nvidia.com/gpu, nominalQuota: 100k}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: vast, namespace: default}
spec: {clusterQueue: vast}
"""


@pytest.fixture(autouse=True)
def _vast_queue(fairway: Commands, tmp_path: Path) -> None:
    (tmp_path / "vast.yaml").write_text(VAST)
    fairway("apply", "-f", "vast.yaml")


@pytest.mark.parametrize(("asks", "reason"), CAUSES)
def test_a_followed_launch_ends_with_three_and_the_reason(fairway: Commands, asks: list[str], reason: str) -> None:
    said = fairway.run("jobs", "launch", "-y", *asks, "--", "echo", "hi")

    assert (said.code, said.output) == (3, "")
    last = said.errors.splitlines()[-1]
    assert "can never run with the current nodes and quotas: " in last
    assert reason in last
    assert "fairway jobs cancel " in last


@pytest.mark.parametrize(("asks", "reason"), CAUSES)
def test_a_detached_launch_is_warned_and_stays_zero(fairway: Commands, asks: list[str], reason: str) -> None:
    said = fairway.run("jobs", "launch", "-y", "-d", *asks, "--", "echo", "hi")

    assert said.code == 0
    (warning,) = [line for line in said.errors.splitlines() if line.startswith("warning: ")]
    assert "can never run with the current nodes and quotas: " in warning
    assert reason in warning


def test_a_wait_for_what_can_never_run_ends_with_three_and_the_reason(fairway: Commands) -> None:
    first, second = (fairway.submitted("--queue", "vast", "--cpus", "9999", "--", "true") for _ in range(2))
    well = fairway.submitted("true")

    said = fairway.run("jobs", "wait", str(first), str(second), str(well))
    listed = fairway.run("jobs", "wait", str(first), "-o", "json")

    assert (said.code, said.output) == (3, f"Job {well} (job) ended: SUCCEEDED\n")
    errors = [line for line in said.errors.splitlines() if line.startswith("error: ")]
    assert [number for line in errors for number in (first, second) if f"error: job {number} (" in line] == [
        first,
        second,
    ]
    assert all("in one pod, and no machine here has more than" in line for line in errors)
    assert listed.code == 3
    assert [one["status"] for one in json.loads(listed.output)] == ["PENDING"]


def test_a_wait_goes_on_while_another_job_runs(fairway: Commands, tmp_path: Path) -> None:
    never = fairway.submitted("--queue", "vast", "--cpus", "9999", "--", "true")
    runs = fairway.submitted("until [ -e $GO ]; do sleep 0.05; done", "--env", f"GO={tmp_path}/go")
    fairway.until(runs, "RUNNING")

    with fairway.process("jobs", "wait", str(never), str(runs)) as waiting:
        (tmp_path / "go").touch()
        said, code = waiting.rest()

    assert f"Job {runs} (job) ended: SUCCEEDED" in said
    assert code == 3


def test_nothing_is_asked_while_a_job_runs() -> None:
    """A session that cannot answer shows it."""
    jobs = [{"status": {"phase": phase}} for phase in ("PENDING", "RUNNING")]
    prospects = Prospects(cast("Session", None))

    assert [prospects.check(jobs) for _ in range(3)] == [16, 16, 16]
    assert prospects.stuck == []


def test_one_that_can_run_is_warned_of_nothing(fairway: Commands) -> None:
    said = fairway.run("jobs", "launch", "-y", "-d", "--", "true")

    assert (said.code, said.errors) == (0, "")


def test_it_holds_no_quota_and_why_says_what_there_is(fairway: Commands) -> None:
    number = fairway.submitted("--queue", "vast", "--cpus", "9999", "--", "true")
    fairway.run("jobs", "logs", str(number))  # ends when it is known that it cannot run

    (told,) = fairway.json("jobs", "why", str(number))
    used = json.loads(fairway("queues", "vast", "-o", "json"))["clusterQueues"][0]

    assert not told["waiting"]["canEverRun"]
    assert "no machine here has more than" in told["waiting"]["message"]
    assert any("fairway up --cpus" in hint for hint in told["waiting"]["hints"])
    assert {pool["used"] for pool in used["pools"]} == {0}


def test_a_bare_number_is_so_many_gpus_of_any_model(fairway: Commands) -> None:
    number = fairway.submitted("--queue", "vast", "--gpus", "2", "--", "true")

    (task,) = fairway.job(number)["spec"]["tasks"]
    assert task["resources"]["accelerators"] == {"gpu": 2}


def test_quotas_beyond_the_machine_are_warned_of_by_apply_and_doctor(fairway: Commands, tmp_path: Path) -> None:
    (tmp_path / "vast.yaml").write_text(VAST.replace("100Ti", "99Ti"))

    said = fairway.run("apply", "-f", "vast.yaml")
    found = [one["message"] for one in fairway.json("doctor") if one["check"] == "quotas"]

    assert "Warning: all ClusterQueues together have a quota of" in said.errors
    assert any(" cpu (vast 1" in one for one in found)
