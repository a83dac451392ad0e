"""What runs outside every queue: pods that name none and belong to no job of one. Quota does not count them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from fairway.client.rest import Rest

Manifest = Mapping[str, Any]

QUEUE: Final = "kueue.x-k8s.io/queue-name"
_QUEUED_KINDS: Final = frozenset({"ManagedJob"})
_MOST_NAMED: Final = 5


class Outsider(NamedTuple):
    """A pod outside every queue; amounts in nano-units, by resource."""

    namespace: str
    name: str
    requests: Mapping[str, int]


def outsiders(rest: "Rest") -> list[Outsider]:
    """The pods on nodes that no queue decided about; nothing where one may not look everywhere."""
    from fairway.client.rest import paths  # noqa: PLC0415
    from fairway.errors import Forbidden, NotFound  # noqa: PLC0415

    try:
        pods = rest.get(paths.resource("v1", "pods"))["items"]
        jobs = rest.get(paths.resource("batch/v1", "jobs"))["items"]
    except (Forbidden, NotFound):
        return []
    return sorted(_outside(pods, {job["metadata"]["uid"] for job in jobs if _names_queue(job)}))


def _outside(pods: Sequence[Manifest], queued: set[str]) -> list[Outsider]:
    from fairway.apis.core.pod_requests import pod_requests  # noqa: PLC0415

    found = []
    for pod in pods:
        metadata, phase = pod["metadata"], (pod.get("status") or {}).get("phase")
        if not pod["spec"].get("nodeName") or phase in {"Succeeded", "Failed"} or _names_queue(pod):
            continue
        owners = [one for one in metadata.get("ownerReferences") or () if one.get("controller")]
        if any(one["kind"] in _QUEUED_KINDS or one["uid"] in queued for one in owners):
            continue
        requests = {name: quantity.nanos for name, quantity in pod_requests(pod["spec"]).items()}
        found.append(Outsider(metadata["namespace"], metadata["name"], requests))
    return found


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
    names = ", ".join(f"{one.namespace}/{one.name}" for one in found[:_MOST_NAMED])
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    runs, take = ("1 pod runs", "takes") if len(found) == 1 else (f"{len(found)} pods run", "take")
    return f"{runs} outside every queue{f' and {take} {takes}' if takes else ''}, without quota: {names}{more}"
