"""Workload: the pods that must run together, and how far they have come."""

from enum import StrEnum
from typing import Annotated, Any, ClassVar

import msgspec

from fairway.apis.core.taints import Tolerations
from fairway.apis.machinery.metadata import Conditions, Metadata, Object
from fairway.apis.machinery.quantities import Quantity
from fairway.apis.machinery.structs import (
    CheckName,
    GateName,
    Int32,
    Message,
    OptionalReference,
    PodSetName,
    Reference,
    RequiredReference,
    Time,
    Value,
    always,
    limits,
    normalise_times,
)

DEFAULT_POD_SET_NAME = "main"

Count = Annotated[Int32, limits(minimum=0)]
Positive = Annotated[Int32, limits(minimum=1)]
LevelName = Annotated[str, limits(max_length=63)]


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
    topology: Annotated[str, limits(min_length=1, max_length=63)]
    size: Positive


class TopologyRequest(Value, frozen=True, kw_only=True):
    """How near to each other the pods of a pod set want to be."""

    required: LevelName | None = None
    preferred: LevelName | None = None
    unconstrained: bool | None = None
    pod_index_label: Annotated[str, limits(max_length=317)] | None = None
    sub_group_index_label: Annotated[str, limits(max_length=317)] | None = None
    sub_group_count: Int32 | None = None
    pod_set_group_name: Annotated[str, limits(max_length=256)] | None = None
    pod_set_slice_required_topology: LevelName | None = None
    pod_set_slice_size: Int32 | None = None
    podset_slice_required_topology_constraints: Annotated[tuple[SliceTopologyConstraint, ...], limits(max_items=3)] = ()


class PodSet(Value, frozen=True, kw_only=True):
    """A number of identical pods."""

    name: PodSetName = always(DEFAULT_POD_SET_NAME)
    template: PodTemplate
    count: Count = always(1)
    min_count: Positive | None = None
    """The least number that is still useful; set only where partial admission is wanted."""
    topology_request: TopologyRequest | None = None


class PriorityClassRef(Value, frozen=True, kw_only=True):
    group: PriorityClassGroup
    kind: PriorityClassKind
    name: RequiredReference


class PreemptionGate(Value, frozen=True, kw_only=True):
    name: GateName


class WorkloadSpec(Value, frozen=True, kw_only=True):
    pod_sets: Annotated[tuple[PodSet, ...], limits(min_items=1, max_items=18, unique_by=("name",))] = ()
    queue_name: OptionalReference = ""
    priority_class_ref: PriorityClassRef | None = None
    priority: Int32 | None = None
    active: bool = always(True)  # noqa: FBT003  the value of a field, not a flag of a call
    maximum_execution_time_seconds: Positive | None = None
    preemption_gates: Annotated[tuple[PreemptionGate, ...], limits(max_items=8, unique_by=("name",))] = ()


class LevelIndividualValues(Value, frozen=True, kw_only=True):
    prefix: LevelName | None = None
    suffix: LevelName | None = None
    roots: Annotated[tuple[LevelName, ...], limits(min_items=1, max_items=100000)]


class LevelValues(Value, frozen=True, kw_only=True):
    universal: LevelName | None = None
    individual: LevelIndividualValues | None = None


class SlicePodCounts(Value, frozen=True, kw_only=True):
    universal: Positive | None = None
    individual: Annotated[tuple[Positive, ...], limits(min_items=1, max_items=100000)] | None = None


class TopologyAssignmentSlice(Value, frozen=True, kw_only=True):
    """Domains of the lowest level that share most of their path, and how many pods each has."""

    domain_count: Positive
    values_per_level: Annotated[tuple[LevelValues, ...], limits(min_items=1, max_items=16)]
    pod_counts: SlicePodCounts


class TopologyAssignment(Value, frozen=True, kw_only=True):
    levels: Annotated[tuple[Annotated[str, limits(max_length=317)], ...], limits(min_items=1, max_items=16)]
    slices: Annotated[tuple[TopologyAssignmentSlice, ...], limits(max_items=1000)]


class PodSetAssignment(Value, frozen=True, kw_only=True):
    """What a pod set got: the flavor of each resource and the total that it uses of it."""

    name: PodSetName = always(DEFAULT_POD_SET_NAME)
    flavors: dict[str, Reference] = msgspec.field(default_factory=dict)
    resource_usage: dict[str, Quantity] = msgspec.field(default_factory=dict)
    count: Count | None = None
    topology_assignment: TopologyAssignment | None = None
    delayed_topology_request: DelayedTopologyRequestState | None = None


class Admission(Value, frozen=True, kw_only=True):
    cluster_queue: OptionalReference = ""
    pod_set_assignments: Annotated[tuple[PodSetAssignment, ...], limits(max_items=18, unique_by=("name",))] = ()


class RequeueState(Value, frozen=True, kw_only=True):
    count: Count | None = None
    requeue_at: Time | None = None

    def __post_init__(self) -> None:
        normalise_times(self, "requeue_at")


class ReclaimablePod(Value, frozen=True, kw_only=True):
    """How many pods of a pod set are done, so that their quota can be given away."""

    name: PodSetName
    count: Count


class PodSetUpdate(Value, frozen=True, kw_only=True):
    """What an admission check adds to the pods of a pod set."""

    name: PodSetName
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    tolerations: Tolerations = ()


class AdmissionCheckState(Value, frozen=True, kw_only=True):
    name: CheckName
    state: CheckState
    last_transition_time: Time
    message: Message
    requeue_after_seconds: Count | None = None
    retry_count: Count | None = None
    pod_set_updates: Annotated[tuple[PodSetUpdate, ...], limits(max_items=18)] = ()

    def __post_init__(self) -> None:
        normalise_times(self, "last_transition_time")


class PodSetRequest(Value, frozen=True, kw_only=True):
    name: PodSetName
    resources: dict[str, Quantity] = msgspec.field(default_factory=dict)


class SchedulingStatsEviction(Value, frozen=True, kw_only=True):
    reason: Annotated[str, limits(max_length=316)]
    underlying_cause: Annotated[str, limits(max_length=316)]
    count: Count


class SchedulingStats(Value, frozen=True, kw_only=True):
    evictions: Annotated[
        tuple[SchedulingStatsEviction, ...], limits(max_items=256, unique_by=("reason", "underlying_cause"))
    ] = ()


class UnhealthyNode(Value, frozen=True, kw_only=True):
    name: Annotated[str, limits(max_length=63)]


class PreemptionGateState(Value, frozen=True, kw_only=True):
    name: GateName
    position: PreemptionGatePosition
    last_transition_time: Time

    def __post_init__(self) -> None:
        normalise_times(self, "last_transition_time")


class WorkloadStatus(Value, frozen=True, kw_only=True):
    conditions: Conditions = ()
    admission: Admission | None = None
    requeue_state: RequeueState | None = None
    reclaimable_pods: Annotated[tuple[ReclaimablePod, ...], limits(max_items=18, unique_by=("name",))] = ()
    admission_checks: Annotated[tuple[AdmissionCheckState, ...], limits(max_items=8, unique_by=("name",))] = ()
    resource_requests: Annotated[tuple[PodSetRequest, ...], limits(max_items=18, unique_by=("name",))] = ()
    accumulated_past_execution_time_seconds: Int32 | None = None
    scheduling_stats: SchedulingStats | None = None
    nominated_cluster_names: Annotated[tuple[Annotated[str, limits(max_length=256)], ...], limits(max_items=20)] = ()
    cluster_name: Annotated[str, limits(max_length=256)] | None = None
    unhealthy_nodes: Annotated[tuple[UnhealthyNode, ...], limits(max_items=8, unique_by=("name",))] = ()
    preemption_gates: Annotated[tuple[PreemptionGateState, ...], limits(max_items=8, unique_by=("name",))] = ()


class Workload(Object, frozen=True, kw_only=True):
    """A job as the queue sees it."""

    KIND: ClassVar[str] = "Workload"
    NAMESPACED: ClassVar[bool] = True

    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()
