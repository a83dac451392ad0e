"""RayClusters, RayJobs and their pods as the store has them."""

from datetime import UTC, datetime
from typing import Any

from fairway.apis.machinery.kind import Manifest
from fairway.ray.nodes import RayInstallation

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
RAY = RayInstallation(version="2.60.0", programs="/opt/ray/bin", start="start-ray")
ENDPOINTS = {
    "gcs-server": "20001", "dashboard": "20002", "client": "20003", "dashboard-agent": "20004", "agent-grpc": "20005",
    "runtime-env": "20006", "metrics": "20007",
}  # fmt: skip


def template(**resources: Any) -> Manifest:
    return {"spec": {"containers": [{"name": "ray", "image": "rayproject/ray", "resources": resources}]}}


def group(name: str = "small", **fields: Any) -> Manifest:
    return {"groupName": name, "rayStartParams": {}, "template": template(limits={"cpu": "1"}), **fields}


def cluster_spec(*groups: Manifest, **fields: Any) -> Manifest:
    head = {"rayStartParams": {}, "template": template(requests={"cpu": "2", "memory": "8G"})}
    return {"headGroupSpec": head, "workerGroupSpecs": list(groups), **fields}


def ray_cluster(*groups: Manifest, status: Manifest | None = None, **fields: Any) -> Manifest:
    metadata = {"name": "train-abcde", "namespace": "default", "uid": "0a1b2c3d-0000", "generation": 1}
    spec = cluster_spec(*groups, **fields)
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": spec, "status": status or {}}


def ray_pod(name: str, of: str = "small", *, phase: str = "Running", ready: bool = True, **metadata: Any) -> Manifest:
    node_type = "head" if of == "headgroup" else "worker"
    labels = {"ray.io/node-type": node_type, "ray.io/group": of}
    condition = {"type": "Ready", "status": "True" if ready else "False", "reason": "ContainersNotReady"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "uid": name, "labels": labels, **metadata},
        "spec": {"containers": [{"name": "ray"}]},
        "status": {"phase": phase, "podIP": "127.0.0.1", "conditions": [condition]},
    }


def ray_job(deployment: str = "", *, status: Manifest | None = None, **spec: Any) -> Manifest:
    metadata = {
        "name": "train", "namespace": "default", "uid": "job-uid", "generation": 1,
        "finalizers": ["ray.io/rayjob-finalizer"],
    }  # fmt: skip
    started = {"jobId": "train-11111", "rayClusterName": "train-abcde", "startTime": "2026-01-02T03:04:00Z"}
    stored = ({"jobDeploymentStatus": deployment, **started} if deployment else {}) | (status or {})
    fields = {"entrypoint": "python train.py", "rayClusterSpec": cluster_spec(), "shutdownAfterJobFinishes": True}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": metadata,
        "spec": {name: value for name, value in (fields | spec).items() if value is not None},
        "status": stored,
    }


def ready_cluster() -> Manifest:
    return ray_cluster(status={"state": "ready", "endpoints": ENDPOINTS})


def submitter(end: str = "", at: str = "2026-01-02T03:04:00Z") -> Manifest:
    condition = {"type": end, "status": "True", "reason": "R", "message": "M", "lastTransitionTime": at}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "default", "uid": "submitter"},
        "status": {"conditions": [condition]} if end else {},
    }


def deleted(manifest: Manifest) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "deletionTimestamp": "2026-01-02T03:04:05Z"}}
