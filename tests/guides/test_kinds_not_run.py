"""A RayJob is accepted, and everybody hears that nothing runs it: kubectl, `describe`, `fairway doctor`."""

import subprocess
import sys
from pathlib import Path
from typing import Any

from clients.kubectl import Kubectl
from fairway.testing.servers import Server

POD = {"spec": {"containers": [{"name": "ray", "image": "rayproject/ray", "resources": {"requests": {"cpu": "1"}}}]}}
RAY_JOB: dict[str, Any] = {
    "apiVersion": "ray.io/v1",
    "kind": "RayJob",
    "metadata": {"name": "train", "labels": {"kueue.x-k8s.io/queue-name": "default"}},
    "spec": {
        "entrypoint": "python train.py",
        "suspend": True,
        "rayClusterSpec": {"headGroupSpec": {"rayStartParams": {}, "template": POD}},
    },
}


def test_a_ray_job_is_stored_with_a_warning_and_takes_no_quota(server: Server, kubectl: Kubectl) -> None:
    made = kubectl.run("apply -f -", given=RAY_JOB)
    assert made.output == "rayjob.ray.io/train created\n"
    assert "Warning: this RayJob is stored, and nothing runs it here yet" in made.errors
    kubectl("wait --for=jsonpath={.status.reason}=NotRun rayjob/train --timeout=20s")
    assert kubectl.table("get rayjobs")[1][:3] == ["train", "", "Waiting"]
    kubectl("wait --for=jsonpath={.reason}=NotRun event --all --timeout=20s")
    assert "Warning  NotRun" in kubectl("describe rayjob train")
    assert kubectl("get workloads -o name") == ""

    said = _doctor(server.state)
    assert "1 RayJob is stored and not run: train" in said
    kubectl("delete rayjob train")
    assert "stored and not run" not in _doctor(server.state)


def _doctor(state: Path) -> str:
    command = [sys.executable, "-m", "fairway.cli.main", "doctor", "--state", str(state)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout  # noqa: S603
