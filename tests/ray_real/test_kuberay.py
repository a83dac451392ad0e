"""The real KubeRay operator on the embedded API, instead of Fairway's controller: a RayJob comes to the same end.

`make test-kuberay` runs this; it builds the operator with Go. The operator is a pod, as on a cluster, and its RayJob
goes through a queue. It makes a Service for each head, by whose name operator, submitter and workers find it.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from clients.kubectl import Kubectl
from fairway.controllers.ray.machine import is_free
from fairway.ray import commands
from fairway.ray.commands import HeadPorts, WorkerPorts
from fairway.testing.servers import Server

from .conftest import MACHINE, PATIENCE_SECONDS, eventually, ray_processes
from .manifests import ROOT, TRAINING

EPOCHS = 3
NODE = {"block": "true", "disable-usage-stats": "true", "min-worker-port": "0", "max-worker-port": "0"}
NODE |= {"node-manager-port": "0", "object-manager-port": "0"}
RESOURCES = {"requests": {"cpu": "1", "memory": "2Gi"}}
TRIES_SECONDS = "60"
"""A raylet that gave up on a busy machine is not waited for: KubeRay starts its node again."""

NAMES = {"kind": "RayService", "listKind": "RayServiceList", "plural": "rayservices", "singular": "rayservice"}
OPEN = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
RAY_SERVICES = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "rayservices.ray.io"},
    "spec": {
        "group": "ray.io",
        "scope": "Namespaced",
        "names": NAMES,
        "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}, "schema": OPEN}],
    },
}
"""Without fields: KubeRay's own has more values than this server takes in one object."""


@pytest.fixture(scope="module")
def operator() -> Path:
    """The folder of the built operator."""
    found = subprocess.run([ROOT / "tools/operators/get", "kuberay"], check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
    return Path(found.stdout.strip())


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "state", *MACHINE, "--controllers=-ray", jobs=True) as running:
        yield running
        running.stop()
        running.end_jobs()
    assert ray_processes(running) == []


def run_operator(kubectl: Kubectl, operator: Path, server: Server) -> None:
    """Its Service and its pod, as its own manifests have them; it does not start without a definition of RayService."""
    kubectl("create -f -", given=RAY_SERVICES)
    kubectl("create service clusterip kuberay-operator --tcp=8080")
    command = [str(operator / "manager"), "--enable-leader-election=false", "--metrics-addr=127.0.0.1:0"]
    container = {
        "name": "kuberay-operator",
        "image": "quay.io/kuberay/operator",
        "command": [*command, "--health-probe-bind-address=127.0.0.1:0"],
        "env": [{"name": "KUBECONFIG", "value": str(server.kubeconfig)}],
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "kuberay-operator", "namespace": "default"},
        "spec": {"containers": [container]},
    }
    kubectl("create -f -", given=pod)


@pytest.fixture
def directory() -> Iterator[Path]:
    """For the files of Ray, at a path that is short enough for its sockets."""
    with tempfile.TemporaryDirectory(prefix="fwk-", ignore_cleanup_errors=True) as found:
        yield Path(found)


def ray_job(directory: Path) -> dict[str, Any]:
    """A head and a worker on ports of their own: both are processes of one machine."""
    own = {**NODE, "temp-dir": str(directory)}
    ports = commands.choose_ports(len(HeadPorts._fields) + len(WorkerPorts._fields), os.getpid(), is_free)
    head, worker = HeadPorts(*ports[: len(HeadPorts._fields)]), WorkerPorts(*ports[len(HeadPorts._fields) :])
    named = {"gcs-server": head.gcs, "dashboard": head.dashboard, "client": head.client}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "training", "labels": {"kueue.x-k8s.io/queue-name": "default"}},
        "spec": {
            "shutdownAfterJobFinishes": True,
            "entrypoint": f"python {TRAINING} --workers 2 --epochs {EPOCHS}",
            "submitterPodTemplate": {"spec": {"restartPolicy": "Never", "containers": [container("submitter")]}},
            "rayClusterSpec": {
                "rayVersion": "2.60.0",
                "authOptions": {"mode": "token"},
                "headGroupSpec": {
                    "rayStartParams": {**own, **commands.port_parameters(head), "dashboard-host": "127.0.0.1"},
                    "template": {"spec": {"containers": [container("ray-head", named)]}},
                },
                "workerGroupSpecs": [
                    {
                        "groupName": "small",
                        "replicas": 1,
                        "minReplicas": 1,
                        "maxReplicas": 1,
                        "rayStartParams": {**own, **commands.port_parameters(worker)},
                        "template": {"spec": {"containers": [container("ray-worker")]}},
                    }
                ],
            },
        },
    }


def container(name: str, ports: dict[str, int] | None = None) -> dict[str, Any]:
    """The programs of Ray are those of the interpreter that runs this."""
    environment = {**commands.environment(), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    del environment["RAY_AUTH_MODE"]  # KubeRay sets it
    environment["RAY_raylet_start_wait_time_s"] = TRIES_SECONDS
    return {
        "name": name,
        "image": "rayproject/ray:2.60.0",
        "env": [{"name": key, "value": value} for key, value in environment.items()],
        "ports": [{"name": key, "containerPort": value} for key, value in (ports or {}).items()],
        "resources": RESOURCES,
    }


def test_the_operator_brings_a_queued_ray_job_to_the_same_end(
    server: Server, kubectl: Kubectl, operator: Path, directory: Path
) -> None:
    run_operator(kubectl, operator, server)
    kubectl("create -f -", given=ray_job(directory))

    def status() -> dict[str, Any]:
        found: dict[str, Any] = kubectl.json("get rayjob training").get("status") or {}
        return found

    def over() -> bool:
        assert kubectl.json("get pod kuberay-operator")["status"]["phase"] in {"Pending", "Running"}
        return status().get("jobDeploymentStatus") in {"Complete", "Failed", "ValidationFailed"}

    eventually(over, "the end of the RayJob", 2 * PATIENCE_SECONDS)
    ended = status()
    log = kubectl("logs kuberay-operator")
    assert (ended["jobStatus"], ended["jobDeploymentStatus"]) == ("SUCCEEDED", "Complete"), log[-4000:]
    assert ended["message"] == "Job finished successfully."
    lines = kubectl("logs job/training").splitlines()
    assert "training with 2 workers on 2 CPUs" in lines
    assert f"finished after epoch {EPOCHS}" in lines
    workload = next(
        one for one in kubectl.json("get workloads")["items"] if one["metadata"]["name"].startswith("rayjob-")
    )
    assert {one["name"]: one["count"] for one in workload["spec"]["podSets"]} == {"head": 1, "small": 1, "submitter": 1}
    eventually(lambda: not kubectl.json("get rayclusters")["items"], "the Ray cluster is gone")
