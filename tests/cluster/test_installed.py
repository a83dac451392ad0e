"""An installation on the whole cluster, with its kubelet and its Kueue: two controllers, one leads, a job runs."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from tools.cluster.lifecycle import RunningCluster

from .installation import Installation, Kubectl, until

PLACE = "install-trial"
QUEUE = "skypilot-local-queue"
FAILOVER_SECONDS = 60.0
"""10 s on a quiet machine, as tests/cluster/test_leadership.py measures."""


@pytest.fixture
def k(cluster: RunningCluster, kubectl: Callable[[Path], Kubectl]) -> Kubectl:
    return kubectl(cluster.kubeconfig)


@pytest.fixture
def installed(cluster: RunningCluster, k: Kubectl, tree_image: str) -> Iterator[Installation]:
    found = Installation(cluster.kubeconfig, k, tree_image)
    found.install()
    yield found
    found.uninstall("--delete-jobs")
    k("delete", "namespace", PLACE, "--ignore-not-found")


def kueue_configuration(k: Kubectl) -> str:
    found = json.loads(k("-n", "kueue-system", "get", "configmap", "kueue-manager-config", "-o", "json"))
    return str(found["data"]["controller_manager_config.yaml"])


def test_a_job_runs_and_another_controller_leads(installed: Installation, k: Kubectl) -> None:
    installed("doctor", "--fix", "-y", "--queues", PLACE, "--timeout", "10m")
    labelled = ("-n", "fairway-system", "get", "pod", "-l", "fairway.dev/leader=true", "-o", "name")
    first = installed.leader
    assert k(*labelled) == f"pod/{first}", "the Service selects the pod that leads"
    assert json.loads(k("get", "--raw", "/apis/explain.fairway.dev/v1alpha1/waitingjobs"))["items"] == []
    k("-n", "fairway-system", "delete", "pod", first, "--force", "--grace-period=0")
    until(lambda: installed.leader not in {"", first}, "another controller leads", FAILOVER_SECONDS)
    until(lambda: k(*labelled) == f"pod/{installed.leader}", "its pod is labelled", FAILOVER_SECONDS)
    installed.install()
    installed.launch("hello", PLACE, "echo hello; sleep 5", QUEUE)
    installed.ends("hello", PLACE)


def test_kueue_works_as_before_after_an_uninstall(installed: Installation, k: Kubectl) -> None:
    """Its webhook for pods reads the owners of pods, if it is configured to, and waits in vain without the right."""
    installed("doctor", "--fix", "-y", "--queues", PLACE, "--timeout", "10m")
    assert "ManagedJob.v1alpha1.fairway.dev" in kueue_configuration(k)
    installed.launch("kept", PLACE, "true", QUEUE)
    installed.ends("kept", PLACE)

    tried = installed("uninstall", "--dry-run")
    assert "ManagedJobs would be removed from Kueue's configuration" in tried
    assert "ManagedJob.v1alpha1.fairway.dev" in kueue_configuration(k)
    installed.uninstall()

    assert "ManagedJob.v1alpha1.fairway.dev" not in kueue_configuration(k)
    assert '"pod"' in kueue_configuration(k), "plain pods stay managed"
    uid = k("-n", PLACE, "get", "managedjob", "kept", "-o", "jsonpath={.metadata.uid}")
    owner = {"apiVersion": "fairway.dev/v1alpha1", "kind": "ManagedJob", "name": "kept", "uid": uid, "controller": True}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "orphan", "namespace": PLACE, "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "main", "image": "busybox:1.35", "command": ["true"]}]},
    }
    k("create", "-f", "-", given=json.dumps(pod))
    installed.install()  # again, for the jobs that were kept


def test_a_job_of_a_laptop_runs_on_the_cluster_and_its_log_comes_back(
    installed: Installation, k: Kubectl, tmp_path: Path
) -> None:
    """The server of a laptop sends it on; Kueue admits it on the cluster."""
    installed("doctor", "--queues", PLACE)
    known = yaml.safe_load(installed.kubeconfig.read_text())
    (context,) = known["contexts"]
    known["contexts"] = [{"name": "prod", "context": {**context["context"], "namespace": PLACE}}]
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump({**known, "current-context": "prod"}))
    laptop = Laptop(tmp_path)
    (tmp_path / "data.txt").write_text("from the laptop")
    task = {
        "workdir": ".",
        "resources": {"cpus": 1, "infra": "k8s/prod", "image_id": "docker:python:3.11"},
        "run": "cat data.txt; echo; echo $(hostname) has ended",
    }
    (tmp_path / "task.yaml").write_text(yaml.safe_dump(task))
    try:
        followed = laptop("jobs", "launch", "-y", "-n", "far", "--queue", QUEUE, "task.yaml")
        (job,) = json.loads(laptop("jobs", "queue", "-a", "-o", "json"))
        again = laptop("jobs", "logs", str(job["id"]))
    finally:
        laptop("shutdown", "-y")

    assert (job["status"], job["infra"]) == ("SUCCEEDED", "prod")
    for log in (followed, again):
        assert "from the laptop" in log
        assert "has ended" in log
    queues = k("get", "workloads", "-n", PLACE, "-o", "jsonpath={.items[*].status.admission.clusterQueue}")
    assert queues == "skypilot-cluster-queue"


class Laptop:
    """The command line with a server of its own, which starts by itself."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __call__(self, *arguments: str) -> str:
        unset = {"FAIRWAY_KUBECONFIG", "FAIRWAY_NAMESPACE", "FAIRWAY_CONTEXT"}
        environment = {name: value for name, value in os.environ.items() if name not in unset}
        own = {"state": "FAIRWAY_STATE", "kubeconfig": "KUBECONFIG", "": "HOME"}
        ran = subprocess.run(  # noqa: S603 - our own
            [sys.executable, "-m", "fairway.cli.main", *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
            cwd=self._directory,
            env={
                **environment,
                "FAIRWAY_PORT": "0",
                **{name: str(self._directory / path) for path, name in own.items()},
            },
        )
        assert ran.returncode == 0, f"{arguments}: {ran.stdout}{ran.stderr}"
        return ran.stdout
