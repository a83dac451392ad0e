"""Guides for Kueue and SkyPilot, step by step with the command line and kubectl on a real kubelet and the real Kueue.

Fairway's controller is the Deployment of `fairway cluster install`. The guides are those of `tests/guides`, which runs
them on one machine.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from tools.cluster.lifecycle import RunningCluster

from cluster.commands import Commands
from cluster.controllers import CLAIM, Kubectl, eventually, listed
from cluster.installation import give_gpus

_KUEUE = "kueue.x-k8s.io/v1beta1"
_TRAINING = """
ls
cd $FAIRWAY_CHECKPOINT_DIR
step=$(cat step || echo 0)
echo from step $step
last=$((FAIRWAY_ATTEMPT > 1 ? step + 3 : 1000000))
while [ $step -lt $last ]; do sleep 0.2; step=$((step + 1)); echo $step > new; mv new step; done
echo done at step $step
"""
"""The first attempt never ends; the next goes on from the checkpoint and ends."""


@pytest.fixture(scope="module")
def kube(cluster: RunningCluster, kubectl: Callable[[Path], Kubectl]) -> Kubectl:
    return kubectl(cluster.kubeconfig)


@pytest.fixture(scope="module")
def installed(
    cluster: RunningCluster, kube: Kubectl, tree_image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """The kubeconfig of a cluster with Fairway."""
    command = Commands(tmp_path_factory.mktemp("install") / "work", cluster.kubeconfig, "default")
    with command.installation(tree_image, "kueue"):
        yield cluster.kubeconfig


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


def task(commands: Commands, name: str, resources: str, priority: str, run: str, more: str = "") -> None:
    labels = f"{{kueue.x-k8s.io/queue-name: user-queue, kueue.x-k8s.io/priority-class: {priority}}}"
    image = "image_id: docker:python:3.11"
    text = f"resources: {{{resources}, {image}, labels: {labels}}}\nworkdir: .\n{more}run: |\n{indent(run, '  ')}\n"
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
    """Guide 000: the second job waits for the first; a high priority preempts, and the preempted job comes back.

    It goes on from its checkpoint.
    """
    kube("apply", "-f", "-", given=CLAIM.format(name=fairway.namespace))
    checkpoints = "config: {kubernetes: {checkpoints: {claim: shared}}}\n"
    task(fairway, "low.yaml", "cpus: 6", "low-priority", _TRAINING, checkpoints)
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
    begun = re.findall(r"^from step (\d+)$", logs, re.MULTILINE)
    ended = re.findall(r"^done at step (\d+)$", logs, re.MULTILINE)
    assert (len(begun), len(ended)) == (2, 1)
    assert int(begun[0]) == 0 < int(begun[1]) == int(ended[0]) - 3


def test_nine_users_share_one_queue_and_one_controller(fairway: Commands, kube: Kubectl) -> None:
    """Each with their own rights; who has none is refused."""
    users = [f"user{number}" for number in range(9)]
    asked = " ".join(f"--user={user}" for user in users)
    kube("create", "rolebinding", "users", "--clusterrole=edit", *asked.split(), "-n", fairway.namespace)
    task(fairway, "task.yaml", "cpus: 3", "low-priority", "echo hello")
    known = json.loads(fairway.kubeconfig.read_text())

    def of(user: str) -> Commands:
        known["users"][0]["user"]["as"] = user
        path = fairway.directory.parent / f"{user}.json"
        path.write_text(json.dumps(known))
        return Commands(fairway.directory, path, fairway.namespace)

    for user in users:
        of(user)("jobs", "launch", "-d", "-n", user, "task.yaml")
    assert "--clusterrole=edit --user=stranger" in of("stranger").refused("jobs", "launch", "-d", "task.yaml")

    for number, job in fairway.jobs().items():
        ended = fairway.until(number, lambda one: one["status"] == "SUCCEEDED", 300)
        assert (ended["user"], ended["recoveries"]) == (job["name"], 0)
    assert sorted(job["name"] for job in fairway.jobs().values()) == users


def test_the_history_outlives_jobs_and_controllers(fairway: Commands, kube: Kubectl) -> None:
    """What ran is counted once, also when both controllers are killed and the jobs are deleted."""
    task(fairway, "task.yaml", "cpus: 1", "low-priority", "sleep 3")

    def attempts() -> list[tuple[str, str]]:
        done = fairway.run("jobs", "history", "-o", "json")  # unavailable while no controller leads
        found = json.loads(done.stdout) if done.returncode == 0 else []
        return sorted((one["job"]["name"].rpartition("-")[0], one["outcome"]) for one in found)

    def used() -> tuple[int, bool]:
        (total,) = json.loads(fairway("usage", "-o", "json"))["items"]
        return total["succeeded"], 0 < total["hours"]["cpu"] < 0.1

    fairway("jobs", "launch", "-n", "first", "task.yaml")
    eventually(attempts, [("first", "Succeeded")])
    for count, name in enumerate(("second", "third"), start=2):
        fairway("jobs", "launch", "-d", "-n", name, "task.yaml")
        kube("delete", "pods", "--all", "--force", "--grace-period=0", "-n", "fairway-system")
        eventually(lambda: len(attempts()), count)
        eventually(lambda: {outcome for _, outcome in attempts()}, {"Succeeded"})
    kube("delete", "managedjobs", "--all", "-n", fairway.namespace)

    assert attempts() == [(name, "Succeeded") for name in ("first", "second", "third")]
    assert used() == (3, True)


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
    give_gpus(kube)
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
