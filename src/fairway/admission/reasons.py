"""Why a workload waits, as data. Sentences are made in :mod:`fairway.admission.wording`, as Kueue words them, and in
:mod:`fairway.admission.advice`, for people.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class Code(StrEnum):
    """What stands between one pod set and one flavor (or the whole ClusterQueue)."""

    RESOURCE_NOT_COVERED = "ResourceNotCovered"
    FLAVOR_NOT_FOUND = "FlavorNotFound"
    TOPOLOGY_UNSUPPORTED = "TopologyUnsupported"
    UNTOLERATED_TAINT = "UntoleratedTaint"
    AFFINITY_MISMATCH = "AffinityMismatch"
    OTHER_SLICE_FLAVOR = "OtherSliceFlavor"
    NO_NODE = "NoNode"
    GANG_TOO_LARGE = "GangTooLarge"
    EXCEEDS_MAXIMUM = "ExceedsMaximum"
    INSUFFICIENT_UNUSED = "InsufficientUnused"
    TOPOLOGY_FULL = "TopologyFull"
    TOPOLOGY_TOO_SMALL = "TopologyTooSmall"


FOR_GOOD = frozenset(Code) - {Code.INSUFFICIENT_UNUSED, Code.TOPOLOGY_FULL}
"""Codes that waiting does not cure: only a change of the quota, the flavor, the nodes or the workload does."""


class Reason(Struct, frozen=True, gc=False, omit_defaults=True):
    """One obstacle. Amounts are in the unit quota is counted in; which of them are set depends on the code."""

    code: Code
    flavor: str = ""
    resource: str = ""
    missing: int = 0
    requested: int = 0
    assumed: int = 0
    capacity: int = 0
    detail: str = ""
    domain: str = ""
    """The topology domain that came nearest."""


class Outcome(StrEnum):
    """How the last try ended."""

    NO_FIT = "NoFit"
    NO_CANDIDATES = "PreemptionNoCandidates"
    PENDING_PREEMPTION = "PendingPreemption"
    OVERLAPPING_TARGETS = "OverlappingTargets"
    NO_LONGER_FITS = "NoLongerFits"
    WAITING_FOR_PODS_READY = "WaitingForPodsReady"
    FAILED_CHECKS = "FailedChecks"
    NAMESPACE_MISMATCH = "NamespaceMismatch"
    NAMESPACE_MISSING = "NamespaceMissing"
    REQUESTS_EXCEED_LIMITS = "RequestsExceedLimits"
    OUTSIDE_LIMIT_RANGE = "OutsideLimitRange"
    QUEUE_INACTIVE = "ClusterQueueInactive"
    QUEUE_MISSING = "ClusterQueueMissing"
    LOCAL_QUEUE_INACTIVE = "LocalQueueInactive"
    LOCAL_QUEUE_MISSING = "LocalQueueMissing"
    BACKING_OFF = "BackingOff"
    DEACTIVATED = "Deactivated"
    GATED = "AdmissionGated"
    SCHEDULER_MISSING = "SchedulerMissing"
    NOT_TRIED = "NotTried"
    ON_HOLD = "AdmissionOnHold"


class PodSetReasons(Struct, frozen=True, gc=False):
    name: str
    reasons: tuple[Reason, ...]

    @property
    def can_ever_fit(self) -> bool:
        """Whether some flavor lacks only quota that others use now."""
        lost = {reason.flavor for reason in self.reasons if reason.code in FOR_GOOD}
        return any(reason.code not in FOR_GOOD and reason.flavor not in lost for reason in self.reasons)


class Explanation(Struct, frozen=True, gc=False):
    """What one try found. ``victims`` counts the workloads whose eviction is being waited for."""

    outcome: Outcome
    subject: str = ""
    pod_sets: tuple[PodSetReasons, ...] = ()
    victims: int = 0

    @property
    def can_ever_fit(self) -> bool:
        """Whether waiting can help."""
        return self.outcome is not Outcome.SCHEDULER_MISSING and all(pod_set.can_ever_fit for pod_set in self.pod_sets)


class Holder(Struct, frozen=True, gc=False):
    """A workload that holds what a waiting workload needs."""

    workload: str
    cluster_queue: str
    priority: int
    amount: int
    evicting: bool


class Shortage(Struct, frozen=True, gc=False):
    """What one waiting workload lacks in one flavor-resource, and who holds it."""

    pod_set: str
    flavor: str
    resource: str
    missing: int
    holders: tuple[Holder, ...]


class Why(Struct, frozen=True, gc=False):
    """The whole answer to "why is my job waiting?". Positions start at 0, as Kueue's visibility API counts them.

    ``explanation`` is what the last try found, which is what Kueue's condition says; ``obstacles``, ``can_ever_fit``
    and ``shortages`` are how things stand now, for all flavors.
    """

    workload: str
    cluster_queue: str
    local_queue: str
    position: int | None
    local_position: int | None
    priority: int
    explanation: Explanation
    obstacles: tuple[PodSetReasons, ...]
    can_ever_fit: bool
    shortages: tuple[Shortage, ...]
    ahead: tuple[str, ...]
