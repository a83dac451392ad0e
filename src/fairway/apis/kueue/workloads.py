"""Workload: the pods that must run together, and how far they have come."""

from enum import StrEnum
from typing import Any, ClassVar

import msgspec

from fairway.apis.core.taints import Toleration
from fairway.apis.machinery.metadata import Conditions, Metadata, Object
from fairway.apis.machinery.quantities import Quantity
from fairway.apis.machinery.structs import Time, Value, always, normalise_times

DEFAULT_POD_SET_NAME = "main"


class PriorityClassGroup(StrEnum):
    WORKLOAD = "kueue.x-k8s.io"
    POD = "scheduling.k8s.io"


class PriorityClassKind(StrEnum):
    WORKLOAD = "WorkloadPriorityClass"
    POD = "PriorityClass"


class CheckState(StrEnum):
    PENDING = "Pending"
    READY = "Ready"
    RETRY = "Retry"
    REJECTED = "Rejected"


class DelayedTopologyRequestState(StrEnum):
    PENDING = "Pending"
    READY = "Ready"


class PreemptionGatePosition(StrEnum):
    CLOSED = "Closed"
    OPEN = "Open"


class PodTemplate(Value, frozen=True, kw_only=True):
    """The pods' template; its spec is kept whole and as written, `pods` reads what admission needs of it."""

    metadata: Metadata = Metadata()
    spec: dict[str, Any] = msgspec.field(default_factory=dict)


class SliceTopologyConstraint(Value, frozen=True, kw_only=True):
    topology: str
    size: int


class TopologyRequest(Value, frozen=True, kw_only=True):
    """How near to each other the pods of a pod set want to be."""

    required: str | None = None
    preferred: str | None = None
    unconstrained: bool | None = None
    pod_index_label: str | None = None
    sub_group_index_label: str | None = None
    sub_group_count: int | None = None
    pod_set_group_name: str | None = None
    pod_set_slice_required_topology: str | None = None
    pod_set_slice_size: int | None = None
    podset_slice_required_topology_constraints: tuple[SliceTopologyConstraint, ...] = ()


class PodSet(Value, frozen=True, kw_only=True):
    """A number of identical pods."""

    name: str = always(DEFAULT_POD_SET_NAME)
    template: PodTemplate
    count: int = always(1)
    min_count: int | None = None
    """The least number that is still useful; set only where partial admission is wanted."""
    topology_request: TopologyRequest | None = None


class PriorityClassRef(Value, frozen=True, kw_only=True):
    group: PriorityClassGroup
    kind: PriorityClassKind
    name: str


class PreemptionGate(Value, frozen=True, kw_only=True):
    name: str


class WorkloadSpec(Value, frozen=True, kw_only=True):
    pod_sets: tuple[PodSet, ...] = ()
    queue_name: str = ""
    priority_class_ref: PriorityClassRef | None = None
    priority: int | None = None
    active: bool = always(True)  # noqa: FBT003  the value of a field, not a flag of a call
    maximum_execution_time_seconds: int | None = None
    preemption_gates: tuple[PreemptionGate, ...] = ()


class LevelIndividualValues(Value, frozen=True, kw_only=True):
    prefix: str | None = None
    suffix: str | None = None
    roots: tuple[str, ...]


class LevelValues(Value, frozen=True, kw_only=True):
    universal: str | None = None
    individual: LevelIndividualValues | None = None


class SlicePodCounts(Value, frozen=True, kw_only=True):
    universal: int | None = None
    individual: tuple[int, ...] | None = None


class TopologyAssignmentSlice(Value, frozen=True, kw_only=True):
    """Domains of the lowest level that share most of their path, and how many pods each has."""

    domain_count: int
    values_per_level: tuple[LevelValues, ...]
    pod_counts: SlicePodCounts


class TopologyAssignment(Value, frozen=True, kw_only=True):
    levels: tuple[str, ...]
    slices: tuple[TopologyAssignmentSlice, ...]


class PodSetAssignment(Value, frozen=True, kw_only=True):
    """What a pod set got: the flavor of each resource and the total that it uses of it."""

    name: str = always(DEFAULT_POD_SET_NAME)
    flavors: dict[str, str] = msgspec.field(default_factory=dict)
    resource_usage: dict[str, Quantity] = msgspec.field(default_factory=dict)
    count: int | None = None
    topology_assignment: TopologyAssignment | None = None
    delayed_topology_request: DelayedTopologyRequestState | None = None


class Admission(Value, frozen=True, kw_only=True):
    cluster_queue: str = ""
    pod_set_assignments: tuple[PodSetAssignment, ...] = ()


class RequeueState(Value, frozen=True, kw_only=True):
    count: int | None = None
    requeue_at: Time | None = None

    def __post_init__(self) -> None:
        normalise_times(self, "requeue_at")


class ReclaimablePod(Value, frozen=True, kw_only=True):
    """How many pods of a pod set are done, so that their quota can be given away."""

    name: str
    count: int


class PodSetUpdate(Value, frozen=True, kw_only=True):
    """What an admission check adds to the pods of a pod set."""

    name: str
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()


class AdmissionCheckState(Value, frozen=True, kw_only=True):
    name: str
    state: CheckState
    last_transition_time: Time
    message: str
    requeue_after_seconds: int | None = None
    retry_count: int | None = None
    pod_set_updates: tuple[PodSetUpdate, ...] = ()

    def __post_init__(self) -> None:
        normalise_times(self, "last_transition_time")


class PodSetRequest(Value, frozen=True, kw_only=True):
    name: str
    resources: dict[str, Quantity] = msgspec.field(default_factory=dict)


class SchedulingStatsEviction(Value, frozen=True, kw_only=True):
    reason: str
    underlying_cause: str
    count: int


class SchedulingStats(Value, frozen=True, kw_only=True):
    evictions: tuple[SchedulingStatsEviction, ...] = ()


class UnhealthyNode(Value, frozen=True, kw_only=True):
    name: str


class PreemptionGateState(Value, frozen=True, kw_only=True):
    name: str
    position: PreemptionGatePosition
    last_transition_time: Time

    def __post_init__(self) -> None:
        normalise_times(self, "last_transition_time")


class WorkloadStatus(Value, frozen=True, kw_only=True):
    conditions: Conditions = ()
    admission: Admission | None = None
    requeue_state: RequeueState | None = None
    reclaimable_pods: tuple[ReclaimablePod, ...] = ()
    admission_checks: tuple[AdmissionCheckState, ...] = ()
    resource_requests: tuple[PodSetRequest, ...] = ()
    accumulated_past_execution_time_seconds: int | None = None
    scheduling_stats: SchedulingStats | None = None
    nominated_cluster_names: tuple[str, ...] = ()
    cluster_name: str | None = None
    unhealthy_nodes: tuple[UnhealthyNode, ...] = ()
    preemption_gates: tuple[PreemptionGateState, ...] = ()


class Workload(Object, frozen=True, kw_only=True):
    """A job as the queue sees it."""

    KIND: ClassVar[str] = "Workload"
    NAMESPACED: ClassVar[bool] = True

    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()
