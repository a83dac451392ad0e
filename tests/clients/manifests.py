"""Small manifests that the tests of all clients share, and where they are served."""

from typing import Any

from fairway.apis.machinery.kind import Manifest

KUEUE = "kueue.x-k8s.io"
V1BETA1, V1BETA2 = f"{KUEUE}/v1beta1", f"{KUEUE}/v1beta2"

_OF_NO_NAMESPACE = {"Namespace", "Node", "ClusterQueue", "ResourceFlavor", "WorkloadPriorityClass", "AdmissionCheck"}


def path(manifest: Manifest, namespace: str) -> str:
    """Where objects of this kind are listed and created."""
    version, kind = manifest["apiVersion"], manifest["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = f"{kind.lower()}es" if kind.endswith("s") else f"{kind.lower()}s"
    return f"{root}/{plural}" if kind in _OF_NO_NAMESPACE else f"{root}/namespaces/{namespace}/{plural}"


def named(kind: str, name: str, /, version: str = "v1", **parts: Any) -> Manifest:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **parts}


def config(name: str, /, data: dict[str, str] | None = None, **metadata: Any) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": data or {},
    }


def pod(name: str, /, *containers: str, **metadata: Any) -> Manifest:
    """A pod whose containers are called so; one `main` if none is named."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {"containers": [{"name": each, "image": f"{each}:1"} for each in containers or ("main",)]},
    }


def job(name: str, /, **spec: Any) -> Manifest:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "work", "image": "work:1"}]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template, **spec},
    }


def flavor(name: str, /, **spec: Any) -> Manifest:
    return {"apiVersion": V1BETA2, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec}


def cluster_queue(name: str, /, cpu: str = "4", **spec: Any) -> Manifest:
    quota = {"name": f"{name}-flavor", "resources": [{"name": "cpu", "nominalQuota": cpu}]}
    group = {"coveredResources": ["cpu"], "flavors": [quota]}
    return {
        "apiVersion": V1BETA2,
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {"namespaceSelector": {}, "resourceGroups": [group], **spec},
    }


def local_queue(name: str, /, cluster_queue: str) -> Manifest:
    return {
        "apiVersion": V1BETA2,
        "kind": "LocalQueue",
        "metadata": {"name": name},
        "spec": {"clusterQueue": cluster_queue},
    }


def workload(name: str, /, queue: str = "queue", cpu: str = "1", count: int = 1, **spec: Any) -> Manifest:
    container = {"name": "work", "image": "work:1", "resources": {"requests": {"cpu": cpu}}}
    pods = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": V1BETA2,
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {"queueName": queue, "podSets": [{"name": "main", "count": count, "template": pods}], **spec},
    }


def admitted_status(cluster_queue: str) -> Manifest:
    """The status of a workload that holds quota and runs."""
    usage = {"name": "main", "flavors": {"cpu": f"{cluster_queue}-flavor"}, "resourceUsage": {"cpu": "1"}, "count": 1}
    return {
        "admission": {"clusterQueue": cluster_queue, "podSetAssignments": [usage]},
        "conditions": [
            condition("QuotaReserved", reason="QuotaReserved"),
            condition("Admitted", reason="Admitted"),
        ],
    }


def condition(kind: str, /, status: str = "True", reason: str = "Test", message: str = "") -> Manifest:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": "2026-11-16T08:30:00Z",
    }


def ray_job(**metadata: Any) -> Manifest:
    container = {"name": "ray", "image": "ray:1", "resources": {"limits": {"cpu": "1"}}}
    head = {"rayStartParams": {}, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": metadata,
        "spec": {"entrypoint": "python train.py", "rayClusterSpec": {"headGroupSpec": head}},
    }
