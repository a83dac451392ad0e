"""Guide 003 with kubectl on one machine: RayJobs that queue, one that preempts, and a raised quota, on real Ray."""

import http.client
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from clients.kubectl import Kubectl
from fairway.testing.servers import Server

from .conftest import eventually, ray_files, ray_processes
from .manifests import training_job

DATA = Path(__file__).parents[1] / "clients" / "data" / "v1beta1"
FILE = "ray-job.pytorch-distributed-training.yaml"
EPOCHS = 12


class Guide:
    """The commands of the guide."""

    def __init__(self, kubectl: Kubectl, directory: Path) -> None:
        self.kubectl = kubectl
        self.file = directory / FILE
        self.checkpoints = directory
        self.pause(3)

    def pause(self, seconds: float) -> None:
        """How long attempts that start from now on pause after each epoch."""
        (self.checkpoints / "pause").write_text(str(seconds))

    def create(self, kind: str) -> str:
        self.file.write_text(yaml.safe_dump(training_job(kind, self.checkpoints, EPOCHS)))
        said = self.kubectl("create -f", str(self.file))
        name = said.split()[0].removeprefix("rayjob.ray.io/")
        assert said == f"rayjob.ray.io/{name} created\n"
        return name

    def field(self, name: str, path: str) -> str:
        return self.kubectl("get rayjobs.ray.io", name, "-o", f"jsonpath={{.status.{path}}}")

    def epoch(self, name: str) -> int:
        """The last epoch of which there is a checkpoint."""
        file = self.checkpoints / f"{name}.json"
        return int(json.loads(file.read_text())["epoch"]) if file.exists() else 0

    def running(self) -> set[str]:
        """The names of pods that run, without their random ends."""
        return {row[0].rpartition("-")[0] for row in self.kubectl.table("get pods")[1:] if row[2] == "Running"}

    def ends(self, name: str) -> list[str]:
        """Wait for the end of a RayJob; the output of its driver."""
        eventually(lambda: self.field(name, "jobDeploymentStatus") in {"Complete", "Failed"}, f"the end of {name}")
        assert self.field(name, "message") == "Job finished successfully."
        assert self.field(name, "jobStatus") == "SUCCEEDED"
        assert self.field(name, "jobDeploymentStatus") == "Complete"
        lines = self.kubectl("logs", f"job/{name}").splitlines()
        assert f"finished after epoch {EPOCHS}" in lines
        return lines


def _status(kubectl: Kubectl) -> dict[str, Any]:
    found: dict[str, Any] = kubectl.json("get clusterqueues.v1beta1.kueue.x-k8s.io cluster-queue")["status"]
    return found


def _dashboard_answers(server: Server, name: str) -> None:
    """`fairway ray dashboard` says where it is and what opens it."""
    command = [sys.executable, "-m", "fairway.cli.main", "ray", "dashboard", name, "-o", "json"]
    said = subprocess.run([*command, "--state", str(server.state)], capture_output=True, check=True, timeout=60)  # noqa: S603
    found = json.loads(said.stdout)
    assert _get_jobs(found["url"], {"Authorization": f"Bearer {found['token']}"}) == (200, ["RUNNING"])
    assert _get_jobs(found["url"], {})[0] == 401


def _get_jobs(url: str, headers: dict[str, str]) -> tuple[int, list[str]]:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    connection.request("GET", "/api/jobs/", headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, [job["status"] for job in json.loads(body)] if answer.status == 200 else []


def test_the_guide(server: Server, kubectl: Kubectl, tmp_path: Path) -> None:
    guide = Guide(kubectl, tmp_path)
    kubectl("apply -f", str(DATA / "kueue-resources.yaml"))

    # Deploy a RayJob
    alone = guide.create("dev")
    eventually(lambda: guide.field(alone, "jobStatus") == "RUNNING", "the driver")
    cluster = guide.field(alone, "rayClusterName")
    assert guide.running() == {alone, f"{cluster}-head"[-50:].lstrip("-.0123456789")}
    header, row = kubectl.table("get rayjobs")
    assert header[:4] == ["NAME", "JOB STATUS", "DEPLOYMENT STATUS", "RAY CLUSTER NAME"]
    assert row[:4] == [alone, "RUNNING", "Running", cluster]
    header, row = kubectl.table("get rayclusters")
    assert header == ["NAME", "DESIRED WORKERS", "AVAILABLE WORKERS", "CPUS", "MEMORY", "GPUS", "STATUS", "AGE"]
    assert row[3:7] == ["2", "8G", "1", "ready"]
    (head,) = (one for one in kubectl.json("get pods")["items"] if "head" in one["metadata"]["name"])
    assert "Ray runtime started." in kubectl("logs", head["metadata"]["name"])
    _dashboard_answers(server, alone)
    lines = guide.ends(alone)
    assert "training with 2 workers on 2 CPUs" in lines
    assert kubectl("delete rayjob", alone) == f'rayjob.ray.io "{alone}" deleted\n'
    eventually(lambda: not ray_processes(server) and not ray_files(server), "nothing of Ray is left")

    # Queuing multiple RayJob resources
    guide.pause(30)
    dev = [guide.create("dev") for _ in range(3)]
    eventually(lambda: guide.epoch(dev[0]) >= 2, "training")
    rows = kubectl.table("get clusterqueue cluster-queue")
    assert rows == [["NAME", "COHORT", "PENDING WORKLOADS"], ["cluster-queue", "", "2"]]
    found = _status(kubectl)
    assert (found["admittedWorkloads"], found["reservingWorkloads"], found["pendingWorkloads"]) == (1, 1, 2)
    totals = {one["name"]: one["total"] for one in found["flavorsReservation"][0]["resources"]}
    assert totals == {"cpu": "2", "memory": "7812500Ki", "nvidia.com/gpu": "1"}
    assert [guide.field(name, "jobDeploymentStatus") for name in dev[1:]] == ["Suspended", "Suspended"]

    # Deploy a RayJob with higher priority
    guide.pause(3)
    prod = guide.create("prod")
    eventually(lambda: guide.field(dev[0], "jobDeploymentStatus") == "Suspended", "the preemption")
    saved = guide.epoch(dev[0])
    assert 2 <= saved < EPOCHS
    eventually(lambda: guide.field(prod, "jobStatus") == "RUNNING", "the production job")
    assert {name.removesuffix("-head") for name in guide.running()} >= {prod}
    assert not any(dev[0] in name for name in guide.running())

    # Increasing cluster quotas
    guide.pause(0.5)
    kubectl("apply -f", str(DATA / "more-quota.yaml"))
    guide.ends(prod)
    for name in dev:
        lines = guide.ends(name)
        if name == dev[0]:
            assert f"resumed from epoch {saved}" in lines
            assert f"epoch {saved} loss" not in " ".join(lines)
    eventually(lambda: not ray_processes(server) and not ray_files(server), "nothing of Ray is left")
