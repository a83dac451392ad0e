"""The input of an engine: events.

Each event carries the time it happened (seconds since the epoch). Objects arrive whole and typed; the narrow events
after them are for what happens often, and say the same as the changed object would.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from fairway.apis.core.node_views import NodeFacts
from fairway.apis.kueue.objects import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LocalQueue,
    PodSetUpdate,
    ResourceFlavor,
    Topology,
    Workload,
)


class Event(Struct, frozen=True, gc=False, kw_only=True):
    at: float


class TimePassed(Event, frozen=True, gc=False, kw_only=True):
    """Nothing happened but time: due requeues and back-offs are carried out."""


# Objects


class FlavorChanged(Event, frozen=True, gc=False, kw_only=True):
    flavor: ResourceFlavor


class FlavorDeleted(Event, frozen=True, gc=False, kw_only=True):
    name: str


class CohortChanged(Event, frozen=True, gc=False, kw_only=True):
    cohort: Cohort


class CohortDeleted(Event, frozen=True, gc=False, kw_only=True):
    name: str


class QueueChanged(Event, frozen=True, gc=False, kw_only=True):
    queue: ClusterQueue


class QueueDeleted(Event, frozen=True, gc=False, kw_only=True):
    name: str


class LocalQueueChanged(Event, frozen=True, gc=False, kw_only=True):
    queue: LocalQueue


class LocalQueueDeleted(Event, frozen=True, gc=False, kw_only=True):
    namespace: str
    name: str


class CheckChanged(Event, frozen=True, gc=False, kw_only=True):
    check: AdmissionCheck


class CheckDeleted(Event, frozen=True, gc=False, kw_only=True):
    name: str


class NamespaceChanged(Event, frozen=True, gc=False, kw_only=True):
    name: str
    labels: dict[str, str]


class NamespaceDeleted(Event, frozen=True, gc=False, kw_only=True):
    name: str


class LimitRangeChanged(Event, frozen=True, gc=False, kw_only=True):
    """``limits`` are those of its spec; ``None`` when it was deleted."""

    namespace: str
    name: str
    limits: tuple[dict[str, Any], ...] | None


class RuntimeClassChanged(Event, frozen=True, gc=False, kw_only=True):
    """``overhead`` is what a pod of this class takes besides its containers; ``None`` when there is none."""

    name: str
    overhead: dict[str, Any] | None


class NodesChanged(Event, frozen=True, gc=False, kw_only=True):
    """The nodes that there are, all of them, and the schedulers that place pods on them.

    An engine that was never told of a node decides by quota alone, as Kueue does.
    """

    nodes: tuple[NodeFacts, ...]
    schedulers: frozenset[str]


class TopologyChanged(Event, frozen=True, gc=False, kw_only=True):
    topology: Topology


class TopologyDeleted(Event, frozen=True, gc=False, kw_only=True):
    name: str


class NodeAvailable(Event, frozen=True, gc=False, kw_only=True):
    """A node that is ready and takes pods, for topologies; told again when it changed."""

    node: NodeFacts


class NodeUnavailable(Event, frozen=True, gc=False, kw_only=True):
    """A node is gone, not ready or cordoned."""

    name: str


class NodeUsageChanged(Event, frozen=True, gc=False, kw_only=True):
    """What pods outside topologies take on a node, all together, in the units of quota; ``pods`` counts them."""

    node: str
    amounts: dict[str, int]


class WorkloadAdded(Event, frozen=True, gc=False, kw_only=True):
    """A workload that the engine did not know, in whatever state it is (after a restart it may well hold quota)."""

    workload: Workload


class WorkloadChanged(Event, frozen=True, gc=False, kw_only=True):
    """The workload's spec, checks, reclaimable pods or conditions changed. Echoes of own decisions are harmless."""

    workload: Workload


class WorkloadDeleted(Event, frozen=True, gc=False, kw_only=True):
    key: str


# What job controllers report


class WorkloadFinished(Event, frozen=True, gc=False, kw_only=True):
    key: str


class QuotaReleased(Event, frozen=True, gc=False, kw_only=True):
    """The second phase of an eviction: the evicted job has stopped, its quota is free.

    Without ``requeue`` it stays out of its queue: its job went with it, as a single pod does.
    """

    key: str
    requeue: bool = True


class PodsReclaimed(Event, frozen=True, gc=False, kw_only=True):
    """So many pods of each pod set need their quota no more."""

    key: str
    counts: dict[str, int]


class PodsReadyChanged(Event, frozen=True, gc=False, kw_only=True):
    key: str
    ready: bool


class PriorityChanged(Event, frozen=True, gc=False, kw_only=True):
    key: str
    priority: int


class ActiveChanged(Event, frozen=True, gc=False, kw_only=True):
    """``spec.active`` was set: a deactivated workload gives up its quota and is not queued."""

    key: str
    active: bool


class CheckVerdict(Struct, frozen=True, gc=False, kw_only=True):
    """What an admission check says of a workload; ``state`` is one of the model's ``CheckState``."""

    state: str
    message: str = ""
    requeue_after_seconds: float | None = None
    updates: tuple[PodSetUpdate, ...] = ()
    """What the check adds to the pods; it narrows the nodes that they may run on."""


class CheckReported(Event, frozen=True, gc=False, kw_only=True):
    """An admission check of a workload came to a verdict (Pending, Ready, Retry, Rejected)."""

    key: str
    check: str
    verdict: CheckVerdict


class EvictionRequested(Event, frozen=True, gc=False, kw_only=True):
    """A reason to evict from outside: pods not ready in time, a failed node, the maximum execution time."""

    key: str
    reason: str
    message: str = ""
    cause: str = ""


class NodesFailed(Event, frozen=True, gc=False, kw_only=True):
    """Nodes that pods of this workload are placed on have failed: those of its status; none, if they are back."""

    key: str
    nodes: tuple[str, ...]


class WriteFailed(Event, frozen=True, gc=False, kw_only=True):
    """The last instruction for this workload could not be written: it is taken back."""

    key: str
