"""Builds the Workloads of jobs: names, pod sets, initial state.

What is built here shares nothing with the manifests it is built from.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from fairway.apis.core.pod_parts import containers_of
from fairway.apis.machinery.copies import copied
from fairway.apis.machinery.kind import Manifest
from fairway.integrations import names
from fairway.integrations.priorities import Priority

MAIN: Final = "main"
"""The pod set of a job that has one."""

_HASH_LENGTH: Final = 5
_LONGEST_PREFIX: Final = 253 - 1 - _HASH_LENGTH


def workload_name(kind: str, group: str, owner_name: str, owner_uid: str, *more: str) -> str:
    """The name of the workload of a job: `job-train-1a2b3`; `more` tells those of one job apart."""
    digest = hashlib.sha1(
        "\n".join((kind, group, owner_name, owner_uid, *more)).encode(), usedforsecurity=False
    ).hexdigest()
    return f"{f'{kind.lower()}-{owner_name}'[:_LONGEST_PREFIX]}-{digest[:_HASH_LENGTH]}"


def is_of_single_pod(workload: Manifest) -> bool:
    """Whether a workload is that of one pod, and goes with it."""
    metadata = workload["metadata"]
    owners = metadata.get("ownerReferences") or ()
    in_group = (metadata.get("annotations") or {}).get(names.IS_GROUP_WORKLOAD) == "true"
    return not in_group and [(one["apiVersion"], one["kind"]) for one in owners] == [("v1", "Pod")]


def namespaced_name(manifest: Manifest) -> str:
    """`namespace/name`: an object in messages, and the key of a workload for the engine."""
    return f"{manifest['metadata']['namespace']}/{manifest['metadata']['name']}"


def owner_reference(manifest: Manifest, *, controller: bool = True) -> dict[str, Any]:
    """What makes an object the owner of another, and its controller."""
    metadata = manifest["metadata"]
    reference = {
        "apiVersion": manifest["apiVersion"],
        "kind": manifest["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }
    if controller:
        reference |= {"controller": True, "blockOwnerDeletion": True}
    return reference


def controller_of(manifest: Manifest) -> dict[str, Any] | None:
    """The owner reference of an object's controller."""
    for reference in manifest["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            found: dict[str, Any] = reference
            return found
    return None


def queue_order(workload: Manifest) -> tuple[int, str, str]:
    """The order of pending Workloads: priority, then since when each waits (creation, or eviction by a timeout)."""
    metadata = workload["metadata"]
    since = metadata["creationTimestamp"]
    for condition in (workload.get("status") or {}).get("conditions") or ():
        if (condition["type"], condition["status"], condition["reason"]) == ("Evicted", "True", "PodsReadyTimeout"):
            since = condition["lastTransitionTime"]
    return -(workload["spec"].get("priority") or 0), str(since), metadata["uid"]


def pod_set(
    name: str,
    template: Mapping[str, Any],
    count: int,
    min_count: int | None = None,
    topology_request: Mapping[str, Any] | None = None,
) -> Manifest:
    """A number of pods of one template, for `spec.podSets`."""
    result: Manifest = {"name": name, "template": sanitized(copied(template)), "count": count}
    if min_count is not None:
        result["minCount"] = min_count
    if topology_request is not None:
        result["topologyRequest"] = dict(topology_request)
    return result


def new_workload(  # noqa: PLR0913 - the fields of a workload
    name: str,
    namespace: str,
    owners: list[dict[str, Any]],
    pod_sets: list[Manifest],
    queue_name: str,
    priority: Priority,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    maximum_execution_seconds: int | None = None,
) -> Manifest:
    """A workload that has not been looked at yet."""
    metadata: Manifest = {"name": name, "namespace": namespace, "ownerReferences": owners}
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    spec: Manifest = {"podSets": pod_sets, "priority": priority.value}
    if queue_name:
        spec["queueName"] = queue_name
    if priority.class_ref is not None:
        spec["priorityClassRef"] = dict(priority.class_ref)
    if maximum_execution_seconds is not None:
        spec["maximumExecutionTimeSeconds"] = maximum_execution_seconds
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": metadata, "spec": spec}


def sanitized(template: Manifest) -> Manifest:
    """Of variables that a container sets twice, only the last stays; in place."""
    for container in containers_of(template.get("spec") or {}):
        variables = container.get("env")
        if variables:
            unique = {variable["name"]: variable for variable in variables}
            if len(unique) != len(variables):
                container["env"] = list(unique.values())
    return template
