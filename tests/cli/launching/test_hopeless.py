"""What can never run on the machine that there is: said at once, by an exit code or a warning."""

import json
from pathlib import Path

import pytest

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
