"""A server that is killed while RayJobs run: they go on, are found again, and leave nothing behind."""

from pathlib import Path

from clients.kubectl import Kubectl
from fairway.testing.servers import Server

from .conftest import eventually, ray_files, ray_processes
from .manifests import training_job
from .test_guide import DATA, EPOCHS, Guide

WORKERS = {
    "groupName": "small",
    "replicas": 2,
    "minReplicas": 2,
    "maxReplicas": 2,
    "rayStartParams": {},
    "template": {
        "spec": {
            "containers": [
                {"name": "ray", "image": "rayproject/ray", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
            ]
        }
    },
}


def test_ray_jobs_survive_a_killed_server(server: Server, kubectl: Kubectl, tmp_path: Path) -> None:
    guide = Guide(kubectl, tmp_path)
    guide.pause(0.5)
    kubectl("apply -f", str(DATA / "kueue-resources.yaml"))
    kubectl("apply -f", str(DATA / "more-quota.yaml"))
    gate = tmp_path / "go"
    with_worker = training_job("dev", tmp_path, EPOCHS, gate)
    with_worker["spec"]["rayClusterSpec"]["workerGroupSpecs"] = [WORKERS]
    by_request = training_job("dev", tmp_path, EPOCHS, gate, submissionMode="HTTPMode")
    del by_request["spec"]["submitterPodTemplate"]
    made = [kubectl("create -f -", given=job).split()[0].partition("/")[2] for job in (with_worker, by_request)]
    eventually(lambda: all(guide.epoch(name) == 1 for name in made), "both train")

    server.kill()
    gate.touch()
    eventually(lambda: all(guide.epoch(name) == EPOCHS for name in made), "both go on without a server")
    server.start()

    lines = guide.ends(made[0])
    assert "training with 2 workers on 4 CPUs" in lines
    eventually(lambda: guide.field(made[1], "jobDeploymentStatus") == "Complete", "the other")
    assert guide.field(made[1], "jobStatus") == "SUCCEEDED"
    eventually(lambda: not ray_processes(server) and not ray_files(server), "nothing of Ray is left")
