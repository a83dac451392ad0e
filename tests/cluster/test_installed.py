"""An installation on the whole cluster, with its kubelet and its Kueue: two controllers, one leads, a job runs."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
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
