"""Checks, workloads with quota and requests for tests of provisioning."""

from typing import Any

from controllers import timeline
from fairway.apis.machinery.kind import Manifest
from fairway.testing.clusters import LocalCluster

CHECK = "prov"
CONFIG = "prov-config"
CLASS = "queued-provisioning.gke.io"
NOW = "2026-01-01T00:00:00Z"


def check(name: str = CHECK, controller: str = "kueue.x-k8s.io/provisioning-request", **parameters: str) -> Manifest:
    reference = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": CONFIG, **parameters}
    return {"metadata": {"name": name}, "spec": {"controllerName": controller, "parameters": reference}}


def config(name: str = CONFIG, **spec: Any) -> Manifest:
    return {"metadata": {"name": name}, "spec": {"provisioningClassName": CLASS, **spec}}


def template(requests: dict[str, str] | None = None, **spec: Any) -> Manifest:
    resources = {"requests": requests or {"cpu": "1"}}
    return {
        "metadata": {},
        "spec": {
            "containers": [{"name": "main", "image": "job", "resources": resources}],
            "restartPolicy": "Never",
            **spec,
        },
    }


def pod_set(name: str = "main", count: int = 1, requests: dict[str, str] | None = None, **spec: Any) -> Manifest:
    return {"name": name, "count": count, "template": template(requests, **spec)}


def workload(name: str = "wl", *pod_sets: Manifest, annotations: dict[str, str] | None = None) -> Manifest:
    metadata: Manifest = {"name": name, "namespace": "default"}
    if annotations:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": {"queueName": "queue", "podSets": list(pod_sets or (pod_set(),))}}


def state(name: str = CHECK, state: str = "Pending", message: str = "", **more: Any) -> Manifest:
    return {"name": name, "state": state, "message": message, "lastTransitionTime": NOW, **more}


def condition(kind: str, status: str = "True", message: str = "", reason: str = "Test") -> Manifest:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": NOW}


def admission(manifest: Manifest, counts: dict[str, int] | None = None) -> Manifest:
    """What a workload gets that gets all it asks for, or these counts of it."""
    return {
        "clusterQueue": "cluster-queue",
        "podSetAssignments": [
            {"name": one["name"], "count": (counts or {}).get(one["name"], one["count"]), "flavors": {"cpu": "flavor"}}
            for one in manifest["spec"]["podSets"]
        ],
    }


def reserved(manifest: Manifest, *checks: Manifest, counts: dict[str, int] | None = None) -> Manifest:
    """A workload as it is once it has quota."""
    status = {
        "conditions": [condition("QuotaReserved")],
        "admission": admission(manifest, counts),
        "admissionChecks": list(checks or (state(),)),
    }
    return {**manifest, "status": status}


async def reserve(
    local: LocalCluster, manifest: Manifest, *checks: Manifest, counts: dict[str, int] | None = None
) -> None:
    """Create a workload and give it quota, as the queue does."""
    name = manifest["metadata"]["name"]
    await local.api.create("workloads", manifest)
    await set_status(local, name, reserved(manifest, *checks, counts=counts)["status"])


async def set_status(local: LocalCluster, name: str, status: Manifest) -> None:
    await local.api.patch("workloads", name, {"status": status}, subresource="status")
    await timeline.catch_up(local)


async def answer(local: LocalCluster, name: str, *conditions: Manifest, **status: Any) -> None:
    """Say what became of a request, as its provisioner does."""
    patch = {"status": {"conditions": list(conditions), **status}}
    await local.api.patch("provisioningrequests", name, patch, subresource="status")
    await timeline.catch_up(local)


def check_of(local: LocalCluster, name: str = "wl") -> Manifest:
    """What the first check of a workload says."""
    found = local.api.get("workloads", name)
    assert found is not None
    first: Manifest = found["status"]["admissionChecks"][0]
    return first


async def events(local: LocalCluster) -> list[tuple[str, str, str]]:
    """What was told, in no order: type, reason, message."""
    await timeline.pass_time(local, 0.5)
    listed = [local.api.get("events", name) for name in local.api.names("events")]
    return sorted((one["type"], one["reason"], one["message"]) for one in listed if one)
