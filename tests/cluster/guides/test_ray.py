"""Priority scheduling of RayJobs, step by step with kubectl, on the real KubeRay and real Ray.

On a cluster with Kueue its own integration queues the RayJobs, and Fairway, installed beside it, leaves them alone. On
a cluster without it, Fairway decides. The steps are the same.
"""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tools.cluster import versions
from tools.cluster.lifecycle import RunningCluster

from cluster.commands import Commands
from cluster.conftest import ROOT
from cluster.controllers import Kubectl, listed
from cluster.installation import give_gpus

_RAY = f"rayproject/ray:{versions.RAY}"
_KUEUE = "kueue.x-k8s.io/v1beta1"
_PROGRAM = (Path(__file__).parent / "data" / "train.py.txt").read_text()
_PI = ROOT / "examples" / "ray" / "pi.yaml"
_PATIENCE = 1200.0
_STEPS = 60
"""About 30 s: long enough to be preempted half-way."""


def _until(what: Callable[[], Any], wanted: Callable[[Any], bool]) -> Any:
    """Wait for a look that is wanted; four Ray clusters on two cores take their time."""
    deadline = time.monotonic() + _PATIENCE
    while not wanted(seen := what()):
        assert time.monotonic() < deadline, f"still {seen!r}"
        time.sleep(1)
    return seen


@dataclass(frozen=True, slots=True)
class Guide:
    """A namespace with the guide's queue, and its commands."""

    kubectl: Kubectl
    namespace: str
    fairway: Commands

    def __call__(self, *arguments: str, given: Any = None) -> str:
        return self.kubectl(*arguments, "-n", self.namespace, given="" if given is None else json.dumps(given))

    def create(self, priority: str, steps: int = _STEPS) -> str:
        """`kubectl create -f ray-job.yaml`: the name that the RayJob got."""
        made = self("create", "-f", "-", "-o", "name", given=_ray_job(priority, steps, self.namespace))
        return made.rpartition("/")[2]

    def status(self, job: str) -> tuple[str, str]:
        fields = "jsonpath={.status.jobStatus},{.status.jobDeploymentStatus}"
        first, _, second = self("get", "rayjobs.ray.io", job, "-o", fields).partition(",")
        return first, second

    def suspended(self) -> set[str]:
        """The RayJobs that wait."""
        found = json.loads(self("get", "rayjobs.ray.io", "-o", "json"))["items"]
        return {one["metadata"]["name"] for one in found if one["spec"].get("suspend")}

    def log(self, job: str) -> list[str]:
        """What the training printed, by the log of the pod that submitted it; none if that has not started."""
        chosen = ("-l", f"batch.kubernetes.io/job-name={job}", "--field-selector=status.phase!=Pending")
        pods = self("get", "pods", *chosen, "-o", "jsonpath={.items[*].metadata.name}")
        return self("logs", pods.split()[0]).splitlines() if pods else []

    def pods(self) -> list[str]:
        """`kubectl get pods`: those of Ray that are not ending."""
        found = json.loads(self("get", "pods", "-o", "json"))["items"]
        return [one["metadata"]["name"] for one in found if "deletionTimestamp" not in one["metadata"]]

    def queue(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self("get", "clusterqueue", self.namespace, "-o", "json"))["status"]
        return {field: found.get(field, 0) for field in ("admittedWorkloads", "pendingWorkloads", "reservingWorkloads")}


@pytest.fixture
def guide(
    kuberay: RunningCluster, kubectl: Callable[[Path], Kubectl], tree_image: str, unique: str, tmp_path: Path
) -> Iterator[Guide]:
    kube = kubectl(kuberay.kubeconfig)
    way = "kueue" if kube("get", "deployments", "-A", "-l", "app.kubernetes.io/name=kueue", "-o", "name") else "fairway"
    command = Commands(tmp_path / "work", kuberay.kubeconfig, unique)
    with command.installation(tree_image, way):
        give_gpus(kube)
        kube("create", "namespace", unique)
        made = Guide(kube, unique, command)
        made("create", "configmap", "train", f"--from-literal=train.py={_PROGRAM}")
        yield made
        made("delete", "rayjobs.ray.io", "--all", "--wait=true", "--timeout=120s")
        kube("delete", "namespace", unique, "--wait=false")
        for kind, name in (("clusterqueue", unique), ("resourceflavor", unique)):
            kube("delete", kind, name, "--wait=false")


def test_dev_jobs_queue_a_prod_job_preempts_and_more_quota_lets_all_in(guide: Guide) -> None:
    guide("apply", "-f", "-", given=listed(_queues(guide.namespace, cpus="2", memory="2G", gpus="1")))

    alone = guide.create("dev", steps=3)
    _until(guide.pods, lambda found: any("-head-" in name for name in found))
    _until(lambda: guide.status(alone), lambda status: status == ("SUCCEEDED", "Complete"))
    assert "weight 2.61 after 3 steps" in guide.log(alone)
    guide("delete", "rayjob", alone)

    first, second, third = (guide.create("dev") for _ in range(3))
    waiting = {"admittedWorkloads": 1, "pendingWorkloads": 2, "reservingWorkloads": 1}
    _until(guide.queue, lambda found: found == waiting)
    assert guide("get", "clusterqueue", guide.namespace, "--no-headers").split()[-1] == "2"
    assert guide.suspended() == {second, third}
    _until(lambda: guide.log(first), lambda lines: "step 3" in lines)

    prod = guide.create("prod", steps=3)
    _until(lambda: guide.status(first)[1], lambda status: status == "Suspended")
    _until(lambda: guide.status(prod)[1], lambda status: status in {"Running", "Complete"})
    _until(guide.pods, lambda found: not any(name.startswith("dev-") for name in found))

    guide("apply", "-f", "-", given=listed(_queues(guide.namespace, cpus="100", memory="100Gi", gpus="10")[1:2]))
    _until(guide.suspended, lambda found: not found)
    _until(guide.queue, lambda found: found["pendingWorkloads"] == 0)
    guide("delete", "rayjob", second, third)  # two Ray clusters at a time are enough for two cores
    for job in (prod, first):
        _until(lambda job=job: guide.status(job), lambda status: status == ("SUCCEEDED", "Complete"))  # type: ignore[misc]
    assert f"weight 3.00 after {_STEPS} steps" in guide.log(first)
    started = next(line for line in guide.log(first) if line.startswith("starts at step"))
    assert int(started.split()[-1]) >= 3, "the preempted training went on from its checkpoint"
    _until(lambda: guide.queue()["reservingWorkloads"], lambda count: count == 0)


def test_a_task_that_names_ray_is_the_driver_of_a_cluster_of_its_own(guide: Guide) -> None:
    guide("apply", "-f", "-", given=listed(_queues(guide.namespace, cpus="4", memory="8Gi", gpus="1")))

    done = guide.fairway.run("jobs", "launch", "--queue", "user-queue", str(_PI), seconds=_PATIENCE)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 nodes, 3 CPUs" in done.stdout
    assert "round 5: pi is about 3.1" in done.stdout
    _until(guide.pods, lambda found: not found)


def _queues(name: str, *, cpus: str, memory: str, gpus: str) -> list[dict[str, Any]]:
    """The guide's objects. Its quota is that of the head; here it also has room for the submitter, which counts."""
    amounts = [("cpu", cpus), ("memory", memory), ("nvidia.com/gpu", gpus)]
    resources = [{"name": resource, "nominalQuota": amount} for resource, amount in amounts]
    group = {"coveredResources": [one for one, _ in amounts], "flavors": [{"name": name, "resources": resources}]}
    spec = {
        "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
        "namespaceSelector": {},
        "resourceGroups": [group],
    }
    return [
        {"apiVersion": _KUEUE, "kind": "ResourceFlavor", "metadata": {"name": name}},
        {"apiVersion": _KUEUE, "kind": "ClusterQueue", "metadata": {"name": name}, "spec": spec},
        {
            "apiVersion": _KUEUE,
            "kind": "LocalQueue",
            "metadata": {"name": "user-queue", "namespace": name},
            "spec": {"clusterQueue": name},
        },
        *(
            {
                "apiVersion": _KUEUE,
                "kind": "WorkloadPriorityClass",
                "metadata": {"name": f"{one}-priority"},
                "value": value,
            }
            for one, value in (("prod", 1000), ("dev", 100))
        ),
    ]


def _ray_job(priority: str, steps: int, namespace: str) -> dict[str, Any]:
    """The guide's RayJob: a head alone with one GPU; checkpoints are in a directory of the node."""
    amounts = {"memory": "3G", "nvidia.com/gpu": "1"}
    container = {
        "name": "ray-head",
        "image": _RAY,
        "env": [{"name": "CHECKPOINTS", "value": "/checkpoints"}, {"name": "STEPS", "value": str(steps)}],
        "resources": {"limits": amounts, "requests": {**amounts, "cpu": "1", "memory": "1G"}},
        "volumeMounts": [
            {"name": "code", "mountPath": "/code"},
            {"name": "checkpoints", "mountPath": "/checkpoints"},
        ],
    }
    volumes = [
        {"name": "code", "configMap": {"name": "train"}},
        {"name": "checkpoints", "hostPath": {"path": f"/run/{namespace}", "type": "DirectoryOrCreate"}},
    ]
    head = {
        "rayStartParams": {"dashboard-host": "0.0.0.0"},  # noqa: S104 - inside its pod
        "template": {"spec": {"containers": [container], "volumes": volumes}},
    }
    labels = {
        "kueue.x-k8s.io/queue-name": "user-queue",
        "kueue.x-k8s.io/priority-class": f"{priority}-priority",
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"generateName": f"{priority}-pytorch-text-classifier-", "labels": labels},
        "spec": {
            "shutdownAfterJobFinishes": True,
            "entrypoint": "python /code/train.py",
            "rayClusterSpec": {"rayVersion": versions.RAY, "headGroupSpec": head},
        },
    }
