"""Jobs of several pods that must start together, for YuniKorn, Kueue and Fairway alike."""

from typing import Any

from fairway.apis.machinery.kind import Manifest

IMAGE = "busybox:1.35"
GROUP = "kueue.x-k8s.io/pod-group-name"


def asks(cpu: str, memory: str = "32Mi") -> Manifest:
    return {"requests": {"cpu": cpu, "memory": memory}}


def pod(cpu: str, run: str = "sleep 3600", **spec: Any) -> Manifest:
    """The spec of a pod."""
    main = {"name": "main", "image": IMAGE, "command": ["sh", "-c", run], "resources": asks(cpu)}
    return {"restartPolicy": "Never", "terminationGracePeriodSeconds": 1, "containers": [main], **spec}


def crowded() -> Manifest:
    """A pod of one CPU in all: 750m of its own, 250m of a sidecar, and an init container that needs more memory."""
    first = {"name": "first", "image": IMAGE, "command": ["true"], "resources": asks("100m", "64Mi")}
    beside = {
        "name": "beside",
        "image": IMAGE,
        "command": ["sleep", "3600"],
        "restartPolicy": "Always",
        "resources": asks("250m", "16Mi"),
    }
    return pod("750m", initContainers=[beside, first])


def job(name: str, count: int, spec: Manifest, labels: dict[str, str] | None = None) -> Manifest:
    wanted = {"parallelism": count, "completions": count, "backoffLimit": 0, "template": {"spec": spec}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "labels": labels or {}}, "spec": wanted}


def pod_group(name: str, count: int) -> list[Manifest]:
    """Pods that belong together by a label alone; how many they are is for the plugin to say."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-{number}", "labels": {GROUP: name}},
            "spec": pod("1"),
        }
        for number in range(count)
    ]


def managed_job(name: str, nodes: int, cpus: int, **resources: str) -> Manifest:
    task = {"run": "sleep 3600", "num_nodes": nodes, "resources": {"cpus": cpus, **resources}}
    api_version = "fairway.dev/v1alpha1"
    return {"apiVersion": api_version, "kind": "ManagedJob", "metadata": {"name": name}, "spec": {"tasks": [task]}}
