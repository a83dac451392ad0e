"""Queues and workloads as people write them."""

from datetime import datetime
from typing import Any

from fairway.controllers.kit.status import WorkloadStatusChange

Manifest = dict[str, Any]


def flavor(name: str = "default-flavor", **spec: Any) -> Manifest:
    return {"metadata": {"name": name}, "spec": spec}


def cluster_queue(name: str = "cluster-queue", *flavors: str, **spec: Any) -> Manifest:
    """Four cores of each flavor."""
    return {
        "metadata": {"name": name},
        "spec": {
            "namespaceSelector": {},
            "resourceGroups": [
                {
                    "coveredResources": ["cpu"],
                    "flavors": [
                        {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": "4"}]}
                        for flavor in flavors or ("default-flavor",)
                    ],
                }
            ],
            **spec,
        },
    }


def local_queue(name: str = "user-queue", cluster_queue: str = "cluster-queue", **spec: Any) -> Manifest:
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"clusterQueue": cluster_queue, **spec}}


def workload(
    name: str = "w", *, queue: str = "user-queue", pods: int = 1, metadata: Manifest | None = None, **spec: Any
) -> Manifest:
    """One core a pod, unless `requests` says otherwise."""
    requests = spec.pop("requests", {"cpu": "1"})
    template = {
        "spec": {
            "containers": [{"name": "main", "image": "busybox", "resources": {"requests": requests}}],
            "restartPolicy": "Never",
        }
    }
    return {
        "metadata": {"name": name, "namespace": "default", **(metadata or {})},
        "spec": {"queueName": queue, "podSets": [{"name": "main", "count": pods, "template": template}], **spec},
    }


def condition(kind: str, status: str, reason: str, since: str, message: str = "") -> Manifest:
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


def admission(cluster_queue: str = "cluster-queue", *, cpu: str = "1", count: int = 1) -> Manifest:
    """What a workload of one pod set got."""
    assignment = {
        "name": "main",
        "count": count,
        "flavors": {"cpu": "default-flavor"},
        "resourceUsage": {"cpu": cpu},
    }
    return {"clusterQueue": cluster_queue, "podSetAssignments": [assignment]}


def released(workload: Manifest, now: datetime, *, single_pod: bool = False) -> Manifest:
    """The patch of an evicted Workload whose job has stopped."""
    change = WorkloadStatusChange(workload, now)
    change.release(single_pod=single_pod)
    assert change.patch is not None
    return change.patch
