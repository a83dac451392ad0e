"""Nodes and pods for tests of scheduling."""

from typing import Any

from fairway.apis.machinery.kind import Manifest


def node(name: str = "n1", *, ready: str | None = "True", **status_or_spec: Any) -> Manifest:
    """A node with four cores, 8Gi and room for ten pods, unless it says otherwise."""
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10", **status_or_spec.pop("allocatable", {})}
    conditions = [{"type": "Ready", "status": ready}] if ready is not None else []
    return {
        "metadata": {"name": name, "labels": status_or_spec.pop("labels", {})},
        "spec": status_or_spec,
        "status": {"capacity": allocatable, "allocatable": allocatable, "conditions": conditions},
    }


def pod_spec(requests: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "job", "resources": {"requests": requests or {}}}
    return {"containers": [container], "restartPolicy": "Never", **spec}


def pod(name: str, requests: dict[str, str] | None = None, **spec: Any) -> Manifest:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": pod_spec(requests, **spec)}
