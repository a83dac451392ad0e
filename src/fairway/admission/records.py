"""The engine's record of a workload: its demand, its queue or reservation, and its history.

A record is changed only by the engine's parts; others see it through instructions and explanations. Everything a
search compares often (priority, order key, victim key, usage) is computed when it changes, not when it is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from fairway.admission.config import Config, RequeueTimestamp
from fairway.admission.events import CheckVerdict
from fairway.admission.holders import VictimKey
from fairway.admission.instructions import EvictionReason, PodSetAdmission
from fairway.admission.reasons import Explanation
from fairway.admission.resources import Amounts, merged
from fairway.admission.shapes import MOST_KEPT, Shape, Shapes
from fairway.admission.topology.requests import is_explicit
from fairway.apis.kueue.objects import Condition, PodSet, TopologyRequest, Workload, find_condition

if TYPE_CHECKING:
    from fairway.admission.clusterqueues import QueueState
    from fairway.admission.pending import Lane
    from fairway.admission.topology.capacity import Occupied

FIRST_SUBMITTED = "fairway.dev/first-submitted-at"
EARNED_PRIORITY = "fairway.dev/earned-priority"
"""What aging has earned a workload on top of its ``spec.priority``, the *base*. It counts for the place in the queue
and against being preempted; the right to preempt comes from the base alone. Only controllers and admins may write it.
"""
GANG = "fairway.dev/gang"
POD_GROUP = "kueue.x-k8s.io/is-group-workload"
"""A Workload with one of these annotations set to ``true`` is a gang: its pods run at the same time or not at all."""
GATED_BY = "kueue.x-k8s.io/admission-gated-by"
REPLACEMENT_FOR = "kueue.x-k8s.io/workload-slice-replacement-for"
"""On a slice of an elastic job that has grown: the key of the slice whose place it takes."""
JOB_UID = "kueue.x-k8s.io/job-uid"

_MOST_DIGITS = 10
_LARGEST = 2**31 - 1

OrderKey = tuple[int, float, str]


class Stage(IntEnum):
    """How far a workload has come. Only the first waits in a queue; only the second and third hold quota."""

    PENDING = 0
    RESERVED = 1
    ADMITTED = 2
    FINISHED = 3


class PendingPlace(IntEnum):
    """Where a pending workload is: in exactly one of these."""

    NOWHERE = 0
    QUEUED = 1
    ASIDE = 2


class PodSetDemand(NamedTuple):
    """What one pod set asks for, for all its pods together."""

    name: str
    pods: int
    shape: Shape
    requests: tuple[tuple[str, int], ...]
    wants_topology: bool = False
    topology: TopologyRequest | None = None

    def scaled(self, pods: int) -> PodSetDemand:
        if self.pods in (0, pods):
            return self
        requests = tuple((resource, amount // self.pods * pods) for resource, amount in self.requests)
        return self._replace(pods=pods, requests=requests)


class Progress(NamedTuple):
    """How far the last try got through the flavors, so that the next can continue there."""

    tried: tuple[dict[str, int], ...]
    cycle: int
    generation: int
    lane_key: object

    @property
    def unfinished(self) -> bool:
        return any(index != -1 for pod_set in self.tried for index in pod_set.values())


class Record:
    """One workload. Times are seconds since the epoch; ``None`` in a time field means that it has not happened.

    ``queue`` is set while its usage counts; ``cluster_queue`` names where its admission is, counted or not.
    ``replaced`` is the slice that ended for it, and how far that was, until both are stored.
    """

    __slots__ = (
        "active",
        "admission",
        "base_priority",
        "checks",
        "cluster_queue",
        "created",
        "demand",
        "earned",
        "evicted",
        "evicted_at",
        "evictions",
        "explanation",
        "failed_nodes",
        "filed_under",
        "gang",
        "gated",
        "job_uid",
        "key",
        "lane",
        "lane_key",
        "local_queue",
        "name",
        "namespace",
        "order_key",
        "place",
        "placed",
        "pods_ready",
        "preemption_reason",
        "priority",
        "progress",
        "protection",
        "queue",
        "reclaimed",
        "replaced",
        "replaces",
        "requeue_at",
        "requeue_count",
        "requeue_held_by",
        "reserved_at",
        "spec",
        "stage",
        "token",
        "uid",
        "usage",
        "victim_key",
        "waiting_for_replacement",
    )

    def __init__(self, workload: Workload, local_queue: str) -> None:
        metadata = workload.metadata
        self.key = f"{metadata.namespace}/{metadata.name}"
        self.namespace = metadata.namespace
        self.name = metadata.name
        self.uid = metadata.uid
        self.job_uid = metadata.labels.get(JOB_UID, "")
        self.local_queue = local_queue
        self.created = seconds(metadata.creation_timestamp)
        self.spec = workload.spec
        self.base_priority = 0
        self.earned = 0
        self.priority = 0
        self.protection = 0
        self.active = True
        self.gang = False
        self.gated = ""
        self.waiting_for_replacement = False
        self.replaces = metadata.annotations.get(REPLACEMENT_FOR, "")
        self.replaced: tuple[Record, Stage] | None = None

        self.demand = NOTHING
        self.reclaimed: dict[str, int] = {}
        self.lane_key: object = None
        self.order_key: OrderKey = (0, 0.0, "")

        self.stage = Stage.PENDING
        self.place = PendingPlace.NOWHERE
        self.lane: Lane | None = None
        self.token = 0
        self.progress: Progress | None = None
        self.explanation: Explanation | None = None

        self.queue: QueueState | None = None
        self.cluster_queue = ""
        self.admission: tuple[PodSetAdmission, ...] = ()
        self.usage: Amounts = ()
        self.placed: tuple[Occupied, ...] = ()
        self.failed_nodes: tuple[str, ...] = ()
        self.reserved_at: float | None = None
        self.pods_ready = False
        self.checks: dict[str, CheckVerdict] = {}
        self.victim_key: VictimKey = (0, 0.0, "", "")
        self.filed_under: VictimKey = (0, 0.0, "", "")

        self.evicted: EvictionReason | None = None
        self.evicted_at = 0.0
        self.preemption_reason = ""
        self.evictions: dict[str, int] = {}
        self.requeue_held_by = ""
        self.requeue_at: float | None = None
        self.requeue_count = 0

    def __repr__(self) -> str:
        return f"<{self.key} {self.stage.name.lower()} priority={self.priority}>"

    @property
    def local_queue_name(self) -> str:
        return self.local_queue.partition("/")[2]

    @property
    def holding(self) -> bool:
        """Whether its usage counts against quota. An evicted workload holds on until its job has stopped."""
        return self.queue is not None

    @property
    def admissible(self) -> bool:
        """Whether it may sit in a queue at all."""
        return self.stage is Stage.PENDING and self.active and not self.gated and not self.waiting_for_replacement

    def backing_off(self, now: float) -> bool:
        return bool(self.requeue_held_by) or (self.requeue_at is not None and now < self.requeue_at)

    # Keys

    def refresh_keys(self, config: Config) -> None:
        """Recompute what depends on priority, eviction and age."""
        self.priority = self.base_priority + self.earned
        self.order_key = (-self.priority, self.order_time(config), self.uid)
        self.lane_key = (self.base_priority, self.demand.key, self.replaces)
        # What a workload has earned does not save it from an eviction that is under way: its preemptor counts on that.
        self.protection = self.priority if self.evicted is None else self.base_priority
        self.victim_key = (self.protection, -(self.reserved_at or 0.0), self.uid, self.key)

    @property
    def base_order_key(self) -> OrderKey:
        """The order key without what aging earned."""
        return -self.base_priority, *self.order_key[1:]

    def order_time(self, config: Config) -> float:
        if (
            self.evicted is EvictionReason.PODS_READY_TIMEOUT
            and config.pods_ready.requeue_timestamp is RequeueTimestamp.EVICTION
        ):
            return self.evicted_at
        if self.evicted is EvictionReason.ADMISSION_CHECK:
            return self.evicted_at
        return self.created


def seconds(moment: datetime | None) -> float:
    return moment.timestamp() if moment is not None else 0.0


class WorkloadDemand(NamedTuple):
    """What a workload asks for. Equal workloads share one, identified by its key.

    ``groups`` are the pod sets that must get the same flavors; usually each is a group of its own. The pods of a
    ``gang`` run at the same time.
    """

    asks: tuple[PodSetDemand, ...]
    groups: tuple[tuple[int, ...], ...]
    full_counts: tuple[int, ...]
    min_counts: tuple[int, ...]
    key: tuple[object, ...]
    gang: bool = False
    wants_topology: bool = False

    @property
    def divisible(self) -> bool:
        """Whether it may be admitted with fewer pods."""
        return any(least < full for least, full in zip(self.min_counts, self.full_counts, strict=True))


class Demands:
    """Works out demands; remembers the last ones."""

    __slots__ = ("_known", "_shapes")

    def __init__(self, shapes: Shapes) -> None:
        self._shapes = shapes
        self._known: dict[tuple[object, ...], WorkloadDemand] = {}

    def of(self, pod_sets: tuple[PodSet, ...], reclaimed: Mapping[str, int], *, gang: bool = False) -> WorkloadDemand:
        """What these pod sets ask for, less the pods that need their quota no more."""
        pod_set_keys = tuple(
            (
                pod_set.name,
                self._shapes.of(pod_set.template),
                max(0, pod_set.count - reclaimed.get(pod_set.name, 0)),
                pod_set.count,
                pod_set.min_count,
                pod_set.topology_request,
            )
            for pod_set in pod_sets
        )
        key = (*pod_set_keys, GANG) if gang else pod_set_keys
        known = self._known.get(key)
        if known is None:
            known = _demand(pod_set_keys)
            if gang:
                known = known._replace(key=(*known.key, GANG), gang=True)
            if len(self._known) >= MOST_KEPT:
                del self._known[next(iter(self._known))]
            self._known[key] = known
        return known


_PodSetKey = tuple[str, Shape, int, int, int | None, TopologyRequest | None]


def _demand(pod_sets: tuple[_PodSetKey, ...]) -> WorkloadDemand:
    asks = []
    groups: dict[str, list[int]] = {}
    for index, (name, shape, pods, _, _, topology) in enumerate(pod_sets):
        requests = tuple((resource, amount * pods) for resource, amount in shape.requests)
        asks.append(PodSetDemand(name, pods, shape, requests, is_explicit(topology), topology))
        together = topology.pod_set_group_name if topology is not None else None
        groups.setdefault(together or f"#{index}", []).append(index)
    full = tuple(count for _, _, _, count, _, _ in pod_sets)
    least = tuple(count if fewest is None else fewest for _, _, _, count, fewest, _ in pod_sets)
    key = tuple(
        (ask.name, ask.shape.key, ask.pods, ask.requests, fewest, ask.topology)
        for ask, fewest in zip(asks, least, strict=True)
    )
    return WorkloadDemand(
        tuple(asks),
        tuple(tuple(members) for members in groups.values()),
        full,
        least,
        key,
        wants_topology=any(ask.wants_topology for ask in asks),
    )


NOTHING = WorkloadDemand((), (), (), (), ())


def total_requests(record: Record) -> dict[str, int]:
    """Everything the workload asks for, by resource."""
    return dict(merged(ask.requests for ask in record.demand.asks))


def true_condition(conditions: tuple[Condition, ...], kind: str) -> Condition | None:
    found = find_condition(conditions, kind)
    return found if found is not None and found.status == "True" else None


def annotation_number(annotations: Mapping[str, str], key: str) -> int:
    """A number from 0 to 2147483647 from an annotation; anything else counts as 0, for here nothing can be rejected."""
    text = annotations.get(key, "")
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS):
        return 0
    return min(int(text), _LARGEST)
