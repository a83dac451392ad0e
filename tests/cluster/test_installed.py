"""An installation on the whole cluster, with its kubelet and its Kueue: two controllers, one leads, a job runs."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tools.cluster.lifecycle import RunningCluster

Kubectl = Callable[..., str]
JOB = {
    "apiVersion": "fairway.dev/v1alpha1",
    "kind": "ManagedJob",
    "metadata": {"name": "hello", "namespace": "install-trial"},
    "spec": {
        "queue": "skypilot-local-queue",
        "tasks": [{"run": "echo hello; sleep 5", "resources": {"cpus": 1, "image_id": "docker:python:3.11"}}],
    },
}
FAILOVER_SECONDS = 15.0
"""10 s on a quiet machine."""


def fairway(cluster: RunningCluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "fairway.cli.main", "cluster", *arguments, "--kubeconfig", str(cluster.kubeconfig)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)  # noqa: S603 - our own


def until(check: Callable[[], bool], seconds: float, what: str) -> float:
    begun = time.monotonic()
    while not check():
        assert time.monotonic() - begun < seconds, what
        time.sleep(0.2)
    return time.monotonic() - begun


@pytest.fixture
def k(cluster: RunningCluster, kubectl: Callable[[Path], Kubectl]) -> Kubectl:
    return kubectl(cluster.kubeconfig)


@pytest.fixture
def installed(cluster: RunningCluster, k: Kubectl) -> Iterator[RunningCluster]:
    ran = fairway(cluster, "install", "--timeout", "5m")
    assert ran.returncode == 0, ran.stderr
    yield cluster
    gone = fairway(cluster, "uninstall", "--delete-jobs", "-y", "--timeout", "5m")
    k("delete", "namespace", "install-trial", "--ignore-not-found")
    assert gone.returncode == 0, gone.stderr


def test_a_job_runs_another_controller_leads_and_nothing_is_left(installed: RunningCluster, k: Kubectl) -> None:
    mended = fairway(installed, "doctor", "--fix", "-y", "--queues", "install-trial", "--timeout", "5m")
    assert mended.returncode == 0, mended.stdout + mended.stderr

    def leader() -> str:
        return k("-n", "fairway-system", "get", "lease", "fairway-controller", "-o", "jsonpath={.spec.holderIdentity}")

    labelled = ("-n", "fairway-system", "get", "pod", "-l", "fairway.dev/leader=true", "-o", "name")
    first = leader()
    assert k(*labelled) == f"pod/{first.partition('_')[0]}", "the Service selects the pod that leads"
    assert json.loads(k("get", "--raw", "/apis/explain.fairway.dev/v1alpha1/waitingjobs"))["items"] == []
    k("-n", "fairway-system", "delete", "pod", first.partition("_")[0], "--force", "--grace-period=0")
    until(lambda: leader() not in {"", first}, FAILOVER_SECONDS, "another controller leads")
    until(lambda: k(*labelled) == f"pod/{leader().partition('_')[0]}", FAILOVER_SECONDS, "its pod is labelled")

    def phase() -> str:
        job = json.loads(k("-n", "install-trial", "get", "managedjob", "hello", "-o", "json"))
        return str((job.get("status") or {}).get("phase"))

    until(lambda: fairway(installed, "install", "--timeout", "5m").returncode == 0, 600, "the webhooks answer again")
    k("apply", "-f", "-", given=json.dumps(JOB))
    until(lambda: phase() == "SUCCEEDED", 300, "the job ends")
