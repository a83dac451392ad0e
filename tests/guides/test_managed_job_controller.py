"""Guide 000 through the command line: `fairway` where the guide writes `sky`."""

from pathlib import Path

import pytest

from clients.fairway import Fairway
from clients.kubectl import Kubectl
from fairway.testing.servers import Server

from .test_job_controller_with_kueue import CONFIGURATION, PRIORITIES, QUEUES

GUIDE_CONFIG = """\
kubernetes:
  provision_timeout: -1  # Wait indefinitely in the queue to get scheduled on the k8s cluster
  remote_identity: SERVICE_ACCOUNT # Set this field If you're using exec based auth, e.g., for GKE
"""

TASK = """\
resources:
  cpus: 6
  cloud: kubernetes
  labels:
    kueue.x-k8s.io/queue-name: user-queue{priority}

run: |
  echo "attempt $FAIRWAY_ATTEMPT of $SKYPILOT_TASK_ID"
  trap 'exit 0' TERM
  while [ ! -e "{go}" ]; do sleep 0.05; done
  echo done
"""


@pytest.fixture
def fairway(server: Server, tmp_path: Path) -> Fairway:
    (server.state / "config.yaml").write_text(GUIDE_CONFIG)
    return Fairway(server.state, tmp_path)


def task(tmp_path: Path, go: str, priority: str = "") -> None:
    label = f"\n    kueue.x-k8s.io/priority-class: {priority}" if priority else ""
    (tmp_path / "sky-kueue-task.yaml").write_text(TASK.format(go=tmp_path / go, priority=label))


def phase(kubectl: Kubectl, name: str, wanted: str) -> None:
    kubectl(f"wait --for=jsonpath={{.status.phase}}={wanted} managedjob/{name} --timeout=20s")


def test_the_second_job_is_queued_until_the_first_is_done(fairway: Fairway, kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("apply --server-side -f -", given=CONFIGURATION)
    kubectl("apply -f -", given=QUEUES)
    task(tmp_path, "go")

    fairway("job", "launch", "-y", "-d", "-n", "job1", "sky-kueue-task.yaml")
    phase(kubectl, "job1-1", "RUNNING")
    fairway("job", "launch", "-y", "-d", "-n", "job2", "sky-kueue-task.yaml")

    _, first, second = kubectl.table("get workloads -o wide")
    assert first[0].startswith("managedjob-job1-1")
    assert first[1:4] == ["user-queue", "cluster-queue", "True"]
    assert second[0].startswith("managedjob-job2-2")
    assert second[1:4] == ["user-queue", "", ""]
    assert kubectl.table("get pods")[1:][0][0] == "job1-1-1-head", "a job that waits is a row, and has no pod"
    why = fairway("jobs", "why", "2")
    assert "cpu" in why.lower()
    assert "default-flavor" in why
    assert "job1" in why

    (tmp_path / "go").touch()
    phase(kubectl, "job1-1", "SUCCEEDED")
    phase(kubectl, "job2-2", "SUCCEEDED")
    assert "done" in fairway("jobs", "logs", "2", "--no-follow")


def test_a_preempted_job_comes_back_by_itself(fairway: Fairway, kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("apply -f -", given=QUEUES)
    kubectl("apply -f -", given=PRIORITIES)
    task(tmp_path, "low-may-end", "low-priority")
    fairway("job", "launch", "-y", "-d", "-n", "job1", "sky-kueue-task.yaml")
    phase(kubectl, "job1-1", "RUNNING")

    task(tmp_path, "high-may-end", "high-priority")
    fairway("job", "launch", "-y", "-d", "-n", "job2", "sky-kueue-task.yaml")
    phase(kubectl, "job1-1", "RECOVERING")
    phase(kubectl, "job2-2", "RUNNING")
    shown = fairway("job", "status")
    rows = {line.split()[0]: line for line in shown.splitlines() if line.split()[:1] and line.split()[0].isdigit()}
    assert "RECOVERING" in rows["1"]
    assert "RUNNING" in rows["2"]

    (tmp_path / "high-may-end").touch()
    phase(kubectl, "job2-2", "SUCCEEDED")
    phase(kubectl, "job1-1", "RUNNING")
    (tmp_path / "low-may-end").touch()
    phase(kubectl, "job1-1", "SUCCEEDED")
    status = kubectl.json("get managedjob job1-1")["status"]
    assert (status["recoveries"], status["attempt"]) == (1, 2)
    assert status["priority"] == 100 + 10, "a step higher than its class says"
    logs = fairway("jobs", "logs", "1", "--no-follow", "--attempt", "all")
    assert "attempt 1 of" in logs
    assert "attempt 2 of" in logs


def test_labels_of_the_configuration_count_and_those_of_a_task_win(
    fairway: Fairway, kubectl: Kubectl, server: Server, tmp_path: Path
) -> None:
    kubectl("apply -f -", given=QUEUES)
    kubectl("apply -f -", given=QUEUES.partition("---\n")[2].partition("---\n")[2].replace("user-queue", "other-queue"))
    labels = {"kueue.x-k8s.io/queue-name": "user-queue", "team": "everybody"}
    lines = "".join(f"        {name}: {value}\n" for name, value in labels.items())
    (server.state / "config.yaml").write_text(f"kubernetes:\n  pod_config:\n    metadata:\n      labels:\n{lines}")
    (tmp_path / "plain.yaml").write_text("run: sleep 1000\n")
    (tmp_path / "own.yaml").write_text(
        "run: sleep 1000\nresources:\n  labels:\n    kueue.x-k8s.io/queue-name: other-queue\n    team: mine\n"
    )

    fairway("jobs", "launch", "-y", "-d", "plain.yaml")
    fairway("jobs", "launch", "-y", "-d", "own.yaml")
    phase(kubectl, "plain-1", "RUNNING")
    phase(kubectl, "own-2", "RUNNING")
    queues = {
        one["metadata"]["ownerReferences"][0]["name"]: one["spec"]["queueName"]
        for one in kubectl.json("get workloads")["items"]
    }
    assert queues == {"plain-1": "user-queue", "own-2": "other-queue"}
    teams = {one["metadata"]["name"]: one["metadata"]["labels"]["team"] for one in kubectl.json("get pods")["items"]}
    assert teams == {"plain-1-1-head": "everybody", "own-2-1-head": "mine"}
