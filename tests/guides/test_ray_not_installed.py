"""A RayJob on a machine without Ray: what `kubectl describe` and `fairway doctor` say."""

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
    "metadata": {"name": "train"},
    "spec": {
        "entrypoint": "python train.py",
        "managedBy": "kueue.x-k8s.io/multikueue",  # so that this server leaves its status alone
        "suspend": True,
        "shutdownAfterJobFinishes": True,
        "rayClusterSpec": {"headGroupSpec": {"rayStartParams": {}, "template": POD}},
    },
}


def test_doctor_says_which_ray_jobs_wait_for_an_installation(server: Server, kubectl: Kubectl) -> None:
    assert kubectl("apply -f -", given=RAY_JOB) == "rayjob.ray.io/train created\n"
    # What the controller writes where Ray is missing: this test also runs where it is installed.
    kubectl("patch rayjob train --subresource status --type merge -p", '{"status":{"reason":"RayNotInstalled"}}')

    said = _doctor(server.state)
    assert "1 RayJob does not run: train" in said
    assert "pip install 'fairway[ray]'" in said
    kubectl("delete rayjob train")
    assert "does not run" not in _doctor(server.state)


def _doctor(state: Path) -> str:
    command = [sys.executable, "-m", "fairway.cli.main", "doctor", "--state", str(state)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout  # noqa: S603
