"""RayClusters and RayJobs for tables, as the server stores them."""

import copy
from typing import Any

from fairway.apis.machinery.kind import Manifest
from fairway.integrations.injection import PodSetInfo

FLAVOR_LABELS = {"instance": "spot"}
TOLERATIONS = [{"key": "spot", "operator": "Exists"}]


def template(cpu: str = "1", **metadata: Any) -> Manifest:
    """A pod template with one Ray container."""
    container = {"name": "ray", "image": "rayproject/ray:2.52.0", "resources": {"requests": {"cpu": cpu}}}
    made: Manifest = {"spec": {"containers": [container]}}
    return {"metadata": metadata, **made} if metadata else made


def group(name: str = "workers", *, pod: Manifest | None = None, **fields: Any) -> Manifest:
    return {"groupName": name, "rayStartParams": {}, "template": pod or template("2"), **fields}


def cluster_spec(*groups: Manifest, head: Manifest | None = None, **fields: Any) -> Manifest:
    return {
        "headGroupSpec": {"rayStartParams": {}, "template": head or template()},
        "workerGroupSpecs": copy.deepcopy(list(groups)),
        **copy.deepcopy(fields),
    }


def ray_cluster(
    *groups: Manifest,
    head: Manifest | None = None,
    annotations: dict[str, str] | None = None,
    status: Manifest | None = None,
    **fields: Any,
) -> Manifest:
    return _object("RayCluster", cluster_spec(*groups, head=head, **fields), annotations, status)


def ray_job(
    *groups: Manifest,
    head: Manifest | None = None,
    annotations: dict[str, str] | None = None,
    status: Manifest | None = None,
    cluster: Manifest | None = None,
    **fields: Any,
) -> Manifest:
    """A RayJob; `cluster` has more fields of its cluster, other keywords those of the job."""
    spec = {
        "entrypoint": "python train.py",
        "shutdownAfterJobFinishes": True,
        "submissionMode": "K8sJobMode",
        "rayClusterSpec": cluster_spec(*groups, head=head, **(cluster or {})),
    }
    return _object("RayJob", {**spec, **copy.deepcopy(fields)}, annotations, status)


def infos(*names: str) -> list[PodSetInfo]:
    """What pod sets of these names get by admission."""
    return [
        PodSetInfo(
            name=name,
            count=1,
            labels={"kueue.x-k8s.io/podset": name, "kueue.x-k8s.io/cluster-queue-name": "team"},
            annotations={"kueue.x-k8s.io/workload": "rayjob-train-1"},
            node_selector=dict(FLAVOR_LABELS),
            tolerations=copy.deepcopy(TOLERATIONS),
        )
        for name in names
    ]


def _object(kind: str, spec: Manifest, annotations: dict[str, str] | None, status: Manifest | None) -> Manifest:
    metadata = {
        "name": "train",
        "namespace": "default",
        "uid": "ray-uid",
        "labels": {"kueue.x-k8s.io/queue-name": "q"},
        "annotations": dict(annotations or {}),
    }
    return {"apiVersion": "ray.io/v1", "kind": kind, "metadata": metadata, "spec": spec, "status": status or {}}
