"""Kueue's visibility API: who waits in a queue, in which order.

The order is the decider's; where it does not know (an API alone), stored Workloads are ordered by priority and time.
Only those that are shown are looked up, so a long queue costs little.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from fairway.admission.port import PendingWorkload
from fairway.apis.machinery.kind import Manifest
from fairway.errors import BadRequest, NotFound
from fairway.integrations.workloads import queue_order
from fairway.server.requests import Request
from fairway.server.routes import ResourcePath
from fairway.server.virtual import ObjectView

GROUP: Final = "visibility.kueue.x-k8s.io"
_WORKLOADS: Final = "workloads.kueue.x-k8s.io"
_LOCAL_QUEUES: Final = "localqueues.kueue.x-k8s.io"
_CLUSTER_QUEUES: Final = "clusterqueues.kueue.x-k8s.io"
_DEFAULT_LIMIT: Final = 1000
_NOT_WAITING: Final = ("QuotaReserved", "Finished")
_OF_AN_OWNER: Final = ("apiVersion", "kind", "name", "uid")


class _Stored(NamedTuple):
    namespace: str
    name: str
    local_queue_name: str
    priority: int


class _Ranked(NamedTuple):
    waiting: PendingWorkload
    position: int
    local_position: int


PendingSource = Callable[[str], Awaitable[Sequence[PendingWorkload] | None]]
"""`WaitingExplainer.pending`."""


async def pending_workloads(
    view: ObjectView, request: Request, place: ResourcePath, pending: PendingSource | None = None
) -> Manifest:
    """The summary of the workloads that wait in a ClusterQueue or a LocalQueue, best first."""
    if place.subresource != "pendingworkloads" or place.resource not in {"clusterqueues", "localqueues"}:
        raise NotFound("the server could not find the requested resource")
    local = place.resource == "localqueues"
    key = (place.namespace if local else "", place.name)
    queue = view.get(_LOCAL_QUEUES if local else _CLUSTER_QUEUES, *key)
    if queue is None:
        raise NotFound(
            f'{place.resource} "{place.name}" not found', details={"name": place.name, "kind": place.resource}
        )
    cluster_queue = _cluster_queue_of(queue) if local else place.name
    offset, limit = request.number("offset") or 0, request.number("limit")
    limit = _DEFAULT_LIMIT if limit is None else limit
    if offset < 0 or limit < 0:
        raise BadRequest("offset and limit must not be negative")
    found = await pending(cluster_queue) if pending is not None else None
    waiting = _stored(view, cluster_queue) if found is None else found
    shown = _shown(waiting, key if local else None, offset, limit)
    return {
        "kind": "PendingWorkloadsSummary",
        "apiVersion": f"{GROUP}/{place.version}",
        "metadata": {"creationTimestamp": None},
        "items": [item for ranked in shown if (item := _item(view, ranked)) is not None],
    }


def _shown(
    waiting: Sequence[PendingWorkload], local_queue: tuple[str, str] | None, offset: int, limit: int
) -> Iterator[_Ranked]:
    """Those of a ClusterQueue, or of one of its LocalQueues, that are asked for, with their positions."""
    places: dict[tuple[str, str], int] = defaultdict(int)
    passed = 0
    for position, one in enumerate(waiting):
        if passed >= offset + limit:
            return
        queue = (one.namespace, one.local_queue_name)
        local_position = places[queue]
        places[queue] += 1
        if local_queue is not None and queue != local_queue:
            continue
        passed += 1
        if passed > offset:
            yield _Ranked(one, position, local_position)


def _item(view: ObjectView, ranked: _Ranked) -> Manifest | None:
    """The item of one workload; nothing if it was deleted a moment ago."""
    one = ranked.waiting
    workload = view.get(_WORKLOADS, one.namespace, one.name)
    if workload is None:
        return None
    stored = workload["metadata"]
    metadata = {"name": one.name, "namespace": one.namespace, "creationTimestamp": stored["creationTimestamp"]}
    owners = stored.get("ownerReferences")
    if owners:
        metadata["ownerReferences"] = [{field: owner[field] for field in _OF_AN_OWNER} for owner in owners]
    return {
        "metadata": metadata,
        "priority": one.priority,
        "localQueueName": one.local_queue_name,
        "positionInClusterQueue": ranked.position,
        "positionInLocalQueue": ranked.local_position,
    }


def _stored(view: ObjectView, cluster_queue: str) -> list[_Stored]:
    """All stored workloads that wait for a ClusterQueue, in the order of priority and time."""
    queues = {
        (queue["metadata"]["namespace"], queue["metadata"]["name"])
        for queue in view.all(_LOCAL_QUEUES)
        if _cluster_queue_of(queue) == cluster_queue
    }
    found = []
    for manifest in view.all(_WORKLOADS):
        metadata, spec = manifest["metadata"], manifest.get("spec") or {}
        local_queue, priority = spec.get("queueName", ""), spec.get("priority", 0)
        namespace = metadata["namespace"]
        if (namespace, local_queue) in queues and _is_waiting(manifest):
            found.append((queue_order(manifest), _Stored(namespace, metadata["name"], local_queue, priority)))
    found.sort(key=lambda pair: pair[0])
    return [one for _, one in found]


def _cluster_queue_of(local_queue: Manifest) -> str:
    """The ClusterQueue of a LocalQueue; empty if not set."""
    return str((local_queue.get("spec") or {}).get("clusterQueue") or "")


def _conditions(manifest: Manifest) -> dict[str, Any]:
    return {one["type"]: one for one in (manifest.get("status") or {}).get("conditions") or ()}


def _is_waiting(manifest: Manifest) -> bool:
    conditions = _conditions(manifest)
    taken = any(conditions.get(name, {}).get("status") == "True" for name in _NOT_WAITING)
    return not taken and manifest["spec"].get("active", True) and "deletionTimestamp" not in manifest["metadata"]
