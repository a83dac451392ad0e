"""Pods outside every queue: they name none and belong to no job of one. Quota does not count them.

Pods of a cluster's own components are left out.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from fairway.client.rest import Rest

Manifest = Mapping[str, Any]

QUEUE: Final = "kueue.x-k8s.io/queue-name"
_QUEUED_KINDS: Final = frozenset({"ManagedJob"})
_MOST_NAMED: Final = 5
_SYSTEM: Final = frozenset({"kube-system", "kueue-system", "fairway-system"})
"""The namespaces of a cluster's own components, which have no queue."""


class Outsider(NamedTuple):
    """A pod outside every queue; amounts in nano-units, by resource."""

    namespace: str
    name: str
    requests: Mapping[str, int]


def outsiders(rest: "Rest") -> list[Outsider]:
    """The pods on nodes that no queue admitted; empty without the right to list all pods."""
    return on_nodes(pods_outside(rest))


def pods_outside(rest: "Rest") -> list[Manifest]:
    """The pods outside every queue that have not ended; empty without the right to list all pods."""
    from fairway.client.rest import paths  # noqa: PLC0415
    from fairway.errors import Forbidden, NotFound  # noqa: PLC0415

    try:
        pods = rest.get(paths.resource("v1", "pods"))["items"]
        jobs = rest.get(paths.resource("batch/v1", "jobs"))["items"]
    except (Forbidden, NotFound):
        return []
    return _outside(pods, {job["metadata"]["uid"] for job in jobs if _names_queue(job)})


def _outside(pods: Sequence[Manifest], queued: set[str]) -> list[Manifest]:
    found = []
    for pod in pods:
        metadata, phase = pod["metadata"], (pod.get("status") or {}).get("phase")
        if phase in {"Succeeded", "Failed"} or _names_queue(pod) or metadata.get("namespace") in _SYSTEM:
            continue
        owners = [one for one in metadata.get("ownerReferences") or () if one.get("controller")]
        if not any(one["kind"] in _QUEUED_KINDS or one["uid"] in queued for one in owners):
            found.append(pod)
    return found


def on_nodes(pods: Sequence[Manifest]) -> list[Outsider]:
    from fairway.apis.core.pod_requests import pod_requests  # noqa: PLC0415

    return sorted(
        Outsider(
            pod["metadata"]["namespace"],
            pod["metadata"]["name"],
            {name: quantity.nanos for name, quantity in pod_requests(pod["spec"]).items()},
        )
        for pod in pods
        if pod["spec"].get("nodeName")
    )


def unschedulable(pods: Sequence[Manifest]) -> str:
    """Which of these pods get no node, with the reason of the first; empty if none."""
    waiting = [
        (pod["metadata"]["namespace"], pod["metadata"]["name"], condition.get("message", ""))
        for pod in pods
        for condition in (pod.get("status") or {}).get("conditions") or ()
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable"
    ]
    if not waiting:
        return ""
    wait = "1 pod outside every queue waits" if len(waiting) == 1 else f"{len(waiting)} pods outside every queue wait"
    return f"{wait} for a node: {_named([one[:2] for one in waiting])} ({waiting[0][2]})"


def _names_queue(manifest: Manifest) -> bool:
    return bool((manifest["metadata"].get("labels") or {}).get(QUEUE))


def sentence(found: Sequence[Outsider]) -> str:
    """How many there are, what they take and who they are; empty if there are none."""
    from fairway.apis.machinery.amounts import readable  # noqa: PLC0415

    if not found:
        return ""
    total: dict[str, int] = {}
    for one in found:
        for resource, nanos in one.requests.items():
            total[resource] = total.get(resource, 0) + nanos
    takes = ", ".join(f"{resource} {readable(resource, nanos)}" for resource, nanos in sorted(total.items()) if nanos)
    runs, take = ("1 pod runs", "takes") if len(found) == 1 else (f"{len(found)} pods run", "take")
    names = _named([one[:2] for one in found])
    return f"{runs} outside every queue{f' and {take} {takes}' if takes else ''}, without quota: {names}"


def _named(pods: Sequence[tuple[str, str]]) -> str:
    more = f" and {len(pods) - _MOST_NAMED} more" if len(pods) > _MOST_NAMED else ""
    return ", ".join(f"{namespace}/{name}" for namespace, name in pods[:_MOST_NAMED]) + more
