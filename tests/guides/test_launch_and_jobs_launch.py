"""Guide 002 through the command line: what is launched is gone after a preemption, what is a job comes back."""

from pathlib import Path

import pytest

from clients.fairway import Fairway
from clients.kubectl import Kubectl
from fairway.testing.servers import Server

from .test_job_controller_with_kueue import PRIORITIES, QUEUES
from .test_managed_job_controller import phase

TASK = """\
# {level}.yaml
resources:
    accelerators: T4:4
    labels:
        kueue.x-k8s.io/queue-name: user-queue # this is assigned by your admin
        kueue.x-k8s.io/priority-class: {level}-priority # specify {level} priority workload

run: |
    echo "hi i'm a {level} priority job"
    sleep 1000000
"""


@pytest.fixture
def fairway(server: Server, kubectl: Kubectl, tmp_path: Path) -> Fairway:
    kubectl("apply -f -", given=QUEUES.replace("nominalQuota: 8", "nominalQuota: 4"))
    kubectl("apply -f -", given=PRIORITIES)
    for level in ("low", "high"):
        (tmp_path / f"{level}.yaml").write_text(TASK.format(level=level))
    return Fairway(server.state, tmp_path)


def test_a_launched_task_is_not_submitted_again(fairway: Fairway, kubectl: Kubectl) -> None:
    fairway("launch", "-y", "-d", "-c", "low", "low.yaml")
    phase(kubectl, "low", "RUNNING")
    assert [row[1:4] for row in kubectl.table("get workloads")[1:]] == [["user-queue", "cluster-queue", "True"]]

    fairway("launch", "-y", "-d", "-c", "high", "high.yaml")
    phase(kubectl, "high", "RUNNING")
    phase(kubectl, "low", "FAILED")
    status = kubectl.json("get managedjob low")["status"]
    assert status["reason"] == "Preempted"
    assert "fairway jobs launch" in status["message"]
    fairway("down", "-y", "high")
    kubectl("wait --for=delete managedjob/high --timeout=20s")
    kubectl("wait --for=delete pod --all --timeout=20s")
    assert kubectl.json("get managedjob low")["status"]["attempt"] == 1, "it stays where it is"
    assert "hi i'm a low priority job" in fairway("logs", "low", "--no-follow")


def test_a_managed_job_is_submitted_again(fairway: Fairway, kubectl: Kubectl) -> None:
    fairway("jobs", "launch", "-y", "-d", "low.yaml")
    phase(kubectl, "low-1", "RUNNING")
    fairway("launch", "-y", "-d", "-c", "high", "high.yaml")
    phase(kubectl, "high", "RUNNING")
    phase(kubectl, "low-1", "RECOVERING")

    fairway("down", "-y", "high")
    phase(kubectl, "low-1", "RUNNING")
    assert kubectl.json("get managedjob low-1")["status"]["recoveries"] == 1
    fairway("jobs", "cancel", "-y", "1")
    phase(kubectl, "low-1", "CANCELLED")
    kubectl("wait --for=delete pod --all --timeout=20s")
