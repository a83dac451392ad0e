"""Warnings for writes of ClusterQueues when all quotas together exceed the nodes."""

from typing import Final

from fairway.apis.kueue.commitment import Amounts, allocatable, promised, warnings
from fairway.apis.machinery.admission import ALLOWED, AdmissionRequest, AdmissionResponse
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Lister


class CommitmentWarnings:
    """Follows the quotas of all ClusterQueues and the capacities of all nodes."""

    resources: Final = ("clusterqueues.kueue.x-k8s.io",)

    def __init__(self, cluster: Lister) -> None:
        self._queues: dict[str, Amounts] = {}
        self._nodes: dict[str, Amounts] = {}
        cluster.cache("clusterqueues.kueue.x-k8s.io").on_change(self._queue_changed)
        cluster.cache("nodes").on_change(self._node_changed)

    def admit(self, request: AdmissionRequest) -> AdmissionResponse:
        if request.old is not None and request.old.get("spec") == request.object.get("spec"):
            return ALLOWED
        name, quotas = request.object["metadata"].get("name", ""), promised(request.object)
        if not quotas:
            return ALLOWED
        return AdmissionResponse(warnings=tuple(warnings({**self._queues, name: quotas}, self._nodes)))

    def _queue_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if new is None:
            self._queues.pop((old or {})["metadata"]["name"], None)
        elif old is None or old.get("spec") != new.get("spec"):
            self._queues[new["metadata"]["name"]] = promised(new)

    def _node_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if new is None:
            self._nodes.pop((old or {})["metadata"]["name"], None)
        else:
            self._nodes[new["metadata"]["name"]] = allocatable(new)
