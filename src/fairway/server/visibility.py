"""Kueue's visibility API: who waits in a queue, in which order, told from the Workloads that are stored."""

from collections import defaultdict
from typing import Any, Final

from fairway.errors import BadRequest, NotFound
from fairway.kinds.kind import Manifest
from fairway.server.requests import Request
from fairway.server.routes import Place
from fairway.store.objects import Objects
from fairway.store.objects.reading import decoded

GROUP: Final = "visibility.kueue.x-k8s.io"
_WORKLOADS: Final = "workloads.kueue.x-k8s.io"
_LOCAL_QUEUES: Final = "localqueues.kueue.x-k8s.io"
_CLUSTER_QUEUES: Final = "clusterqueues.kueue.x-k8s.io"
_DEFAULT_LIMIT: Final = 1000
_NOT_WAITING: Final = ("QuotaReserved", "Finished")


def pending_workloads(objects: Objects, request: Request, place: Place) -> Manifest:
    """The summary of the workloads that wait in a ClusterQueue or a LocalQueue, best first."""
    if place.subresource != "pendingworkloads" or place.resource not in {"clusterqueues", "localqueues"}:
        raise NotFound("the server could not find the requested resource")
    local = place.resource == "localqueues"
    key = (place.namespace if local else "", place.name)
    queue = objects.store.get(_LOCAL_QUEUES if local else _CLUSTER_QUEUES, key)
    if queue is None:
        raise NotFound(
            f'{place.resource} "{place.name}" not found', details={"name": place.name, "kind": place.resource}
        )
    cluster_queue = _cluster_queue_of(decoded(queue)) if local else place.name
    offset, limit = request.number("offset") or 0, request.number("limit")
    limit = _DEFAULT_LIMIT if limit is None else limit
    if offset < 0 or limit < 0:
        raise BadRequest("offset and limit must not be negative")
    items = _ranked(objects, cluster_queue)
    if local:
        items = [one for one in items if (one["metadata"]["namespace"], one["localQueueName"]) == key]
    return {
        "kind": "PendingWorkloadsSummary",
        "apiVersion": f"{GROUP}/{place.version}",
        "metadata": {"creationTimestamp": None},
        "items": items[offset : offset + limit],
    }


def _ranked(objects: Objects, cluster_queue: str) -> list[Manifest]:
    """All that wait in a ClusterQueue in the order of priority and time, with their positions."""
    store = objects.store
    queues = {
        key
        for key, entry in store.collection(_LOCAL_QUEUES).entries.items()
        if _cluster_queue_of(decoded(entry)) == cluster_queue
    }
    waiting = []
    for entry in store.collection(_WORKLOADS).entries.values():
        manifest = decoded(entry)
        spec = manifest.get("spec") or {}
        if (entry.namespace, spec.get("queueName", "")) in queues and _is_waiting(manifest):
            waiting.append(((-spec.get("priority", 0), _queued_since(manifest), manifest["metadata"]["uid"]), manifest))
    waiting.sort(key=lambda one: one[0])
    places: dict[tuple[str, str], int] = defaultdict(int)
    items = []
    for position, (_, manifest) in enumerate(waiting):
        metadata, spec = manifest["metadata"], manifest["spec"]
        queue = (metadata["namespace"], spec["queueName"])
        items.append(
            {
                "metadata": {
                    name: metadata[name]
                    for name in ("name", "namespace", "creationTimestamp", "ownerReferences")
                    if name in metadata
                },
                "priority": spec.get("priority", 0),
                "localQueueName": spec["queueName"],
                "positionInClusterQueue": position,
                "positionInLocalQueue": places[queue],
            }
        )
        places[queue] += 1
    return items


def _cluster_queue_of(local_queue: Manifest) -> str:
    """Where a LocalQueue leads; it may be stored before anybody has said."""
    return str((local_queue.get("spec") or {}).get("clusterQueue") or "")


def _conditions(manifest: Manifest) -> dict[str, Any]:
    return {one["type"]: one for one in (manifest.get("status") or {}).get("conditions") or ()}


def _is_waiting(manifest: Manifest) -> bool:
    conditions = _conditions(manifest)
    taken = any(conditions.get(name, {}).get("status") == "True" for name in _NOT_WAITING)
    return not taken and manifest["spec"].get("active", True) and "deletionTimestamp" not in manifest["metadata"]


def _queued_since(manifest: Manifest) -> str:
    """Since when it waits: its creation, or the eviction by a timeout, as Kueue orders by default."""
    evicted = _conditions(manifest).get("Evicted", {})
    if evicted.get("status") == "True" and evicted.get("reason") == "PodsReadyTimeout":
        return str(evicted["lastTransitionTime"])
    return str(manifest["metadata"]["creationTimestamp"])
