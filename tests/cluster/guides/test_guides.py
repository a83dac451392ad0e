"""Guides for Kueue and SkyPilot, step by step with the command line and kubectl on a real kubelet and the real Kueue.

Fairway's controller is the Deployment of `fairway cluster install`. The guides are those of `tests/guides`, which runs
them on one machine.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tools.cluster.lifecycle import RunningCluster

from cluster.commands import Commands
from cluster.controllers import Kubectl, eventually, listed

_KUEUE = "kueue.x-k8s.io/v1beta1"


@pytest.fixture(scope="module")
def kube(cluster: RunningCluster, kubectl: Callable[[Path], Kubectl]) -> Kubectl:
    return kubectl(cluster.kubeconfig)


@pytest.fixture(scope="module")
def installed(
    cluster: RunningCluster, kube: Kubectl, tree_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The kubeconfig of a cluster with Fairway."""
    command = Commands(tmp_path_factory.mktemp("install") / "work", cluster.kubeconfig, "default")
    at = ("--kubeconfig", str(cluster.kubeconfig))
    command("cluster", "install", *at, "--image", tree_image, "--admission", "kueue", "--force-conflicts")
    yield cluster.kubeconfig
    command("cluster", "uninstall", *at, "-y")


@pytest.fixture
def fairway(installed: Path, kube: Kubectl, unique: str, tmp_path: Path) -> Iterator[Commands]:
    """The command line in a namespace of its own, with a ClusterQueue of 9 CPUs and 4 GPUs."""
    kube("create", "namespace", unique)
    kube("apply", "-f", "-", given=json.dumps(listed(_queues(unique))))
    commands = Commands(tmp_path / "work", installed, unique)
    commands.directory.mkdir()
    yield commands
    kube("delete", "managedjobs", "--all", "-n", unique, "--wait=true")
    kube("delete", "namespace", unique, "--wait=false")
    for kind, name in (("clusterqueue", unique), ("resourceflavor", unique)):
        kube("delete", kind, name, "--wait=false")


def _queues(unique: str) -> list[dict[str, Any]]:
    amounts = [("cpu", "9"), ("memory", "36Gi"), ("nvidia.com/gpu", "4")]
    resources = [{"name": name, "nominalQuota": amount} for name, amount in amounts]
    group = {"coveredResources": [name for name, _ in amounts], "flavors": [{"name": unique, "resources": resources}]}
    return [
        {"apiVersion": _KUEUE, "kind": "ResourceFlavor", "metadata": {"name": unique}},
        {
            "apiVersion": _KUEUE,
            "kind": "ClusterQueue",
            "metadata": {"name": unique},
            "spec": {
                "namespaceSelector": {},
                "preemption": {"withinClusterQueue": "LowerPriority"},
                "resourceGroups": [group],
            },
        },
        {
            "apiVersion": _KUEUE,
            "kind": "LocalQueue",
            "metadata": {"name": "user-queue", "namespace": unique},
            "spec": {"clusterQueue": unique},
        },
        *(
            {"apiVersion": _KUEUE, "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}
            for name, value in (("low-priority", 100), ("high-priority", 1000))
        ),
    ]


def task(commands: Commands, name: str, resources: str, priority: str, run: str) -> None:
    labels = f"{{kueue.x-k8s.io/queue-name: user-queue, kueue.x-k8s.io/priority-class: {priority}}}"
    image = "image_id: docker:python:3.11"
    text = f"resources: {{{resources}, {image}, labels: {labels}}}\nworkdir: .\nrun: |\n  {run}\n"
    (commands.directory / name).write_text(text)


def admitted(kube: Kubectl, namespace: str) -> dict[str, bool]:
    """`kubectl get workloads`: which jobs are admitted."""
    found = json.loads(kube("get", "workloads", "-n", namespace, "-o", "json"))["items"]
    return {
        one["metadata"]["labels"]["fairway.dev/job"].rpartition("-")[0]: any(
            condition["type"] == "Admitted" and condition["status"] == "True"
            for condition in one["status"].get("conditions") or ()
        )
        for one in found
    }


def test_two_jobs_on_one_quota_then_a_preemption_that_is_recovered(fairway: Commands, kube: Kubectl) -> None:
    """Guide 000: the second job waits for the first; a high priority preempts, and the preempted job comes back."""
    task(fairway, "low.yaml", "cpus: 6", "low-priority", "ls; test $FAIRWAY_ATTEMPT -gt 1 || sleep 10000; echo done")
    for name in ("job1", "job2"):
        fairway("jobs", "launch", "-d", "-n", name, "low.yaml")
    jobs = {one["name"]: one["id"] for one in fairway.jobs().values()}

    eventually(lambda: admitted(kube, fairway.namespace), {"job1": True, "job2": False})
    waiting = fairway.until(jobs["job2"], lambda one: "quota" in (one["why"] or ""))
    assert waiting["position"] == 1
    assert "insufficient unused quota for cpu" in fairway("why", str(jobs["job2"]))
    fairway.until(jobs["job1"], lambda one: one["status"] == "RUNNING")

    task(fairway, "high.yaml", "cpus: 6", "high-priority", "echo urgent")
    said = fairway("jobs", "launch", "-n", "urgent", "high.yaml")
    assert "urgent" in said.splitlines(), "the launch follows the log to the end"

    back = fairway.until(jobs["job1"], lambda one: one["status"] == "SUCCEEDED", 300)
    assert (back["preemptions"], back["recoveries"]) == (1, 1)
    logs = fairway("jobs", "logs", str(jobs["job1"]), "--attempt", "all")
    assert logs.count("low.yaml") == 2, "both attempts had the files, and the first log is kept"
    assert logs.splitlines().count("done") == 1


def test_a_queue_of_the_configuration(fairway: Commands, kube: Kubectl) -> None:
    """Guide 001: the queue's label stands in SkyPilot's configuration, and tasks name none."""
    sky = fairway.directory.parent / ".sky"
    sky.mkdir()
    labels = "{kueue.x-k8s.io/queue-name: user-queue}"
    (sky / "config.yaml").write_text(f"kubernetes:\n  pod_config:\n    metadata:\n      labels: {labels}\n")
    (fairway.directory / "task.yaml").write_text(
        "resources: {cpus: 1, image_id: 'docker:python:3.11'}\nrun: python -c 'print(6 * 7)'\n"
    )

    said = fairway("jobs", "launch", "task.yaml")

    assert "42" in said.splitlines()
    assert json.loads(kube("get", "workloads", "-n", fairway.namespace, "-o", "json"))["items"] == [] or all(
        admitted(kube, fairway.namespace).values()
    )


def test_a_launch_with_gpus_is_preempted_and_does_not_come_back(
    fairway: Commands, kube: Kubectl, cluster: RunningCluster
) -> None:
    """Guide 002: `launch` runs once; four T4 are one quota, and a high priority takes them."""
    node = json.loads(kube("get", "nodes", "-o", "json"))["items"][0]["metadata"]["name"]
    gpus = [{"op": "add", "path": "/status/capacity/nvidia.com~1gpu", "value": "8"}]
    kube("patch", "node", node, "--subresource=status", "--type=json", "-p", json.dumps(gpus))
    kube("label", "node", node, "skypilot.co/accelerator=t4", "--overwrite")
    task(fairway, "low.yaml", "accelerators: 'T4:4', cpus: 1", "low-priority", "echo low; sleep 1000000")
    task(fairway, "high.yaml", "accelerators: 'T4:4', cpus: 1", "high-priority", "echo high; sleep 1000000")

    fairway("launch", "-y", "-d", "-c", "low", "low.yaml")
    low = next(iter(fairway.jobs()))
    fairway.until(low, lambda one: one["status"] == "RUNNING")
    fairway("launch", "-y", "-d", "-c", "high", "high.yaml")
    high = max(fairway.jobs())

    ended = fairway.until(low, lambda one: one["status"] == "FAILED")
    assert "preempt" in ended["why"].lower()
    fairway.until(high, lambda one: one["status"] == "RUNNING")
    assert "deleted" in fairway("down", "-y", "low", "high")
