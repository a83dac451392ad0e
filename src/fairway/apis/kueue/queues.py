"""ClusterQueue, Cohort and LocalQueue: who owns how much, who lends to whom, and where users submit."""

from enum import StrEnum
from typing import ClassVar

from fairway.apis.machinery.metadata import Conditions, Object
from fairway.apis.machinery.quantities import ZERO, Quantity
from fairway.apis.machinery.selectors import LabelSelector
from fairway.apis.machinery.structs import Time, Value, always, normalise_times


class QueueingStrategy(StrEnum):
    STRICT_FIFO = "StrictFIFO"
    BEST_EFFORT_FIFO = "BestEffortFIFO"


class StopPolicy(StrEnum):
    NONE = "None"
    HOLD = "Hold"
    HOLD_AND_DRAIN = "HoldAndDrain"


class PreemptionPolicy(StrEnum):
    """Whom a queue may preempt; each field allows three of the four."""

    NEVER = "Never"
    ANY = "Any"
    LOWER_PRIORITY = "LowerPriority"
    LOWER_OR_NEWER_EQUAL_PRIORITY = "LowerOrNewerEqualPriority"


class BorrowWithinCohortPolicy(StrEnum):
    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"


class FlavorFungibilityPolicy(StrEnum):
    MAY_STOP_SEARCH = "MayStopSearch"
    TRY_NEXT_FLAVOR = "TryNextFlavor"


class FlavorFungibilityPreference(StrEnum):
    BORROWING_OVER_PREEMPTION = "BorrowingOverPreemption"
    PREEMPTION_OVER_BORROWING = "PreemptionOverBorrowing"


class AdmissionMode(StrEnum):
    USAGE_BASED_ADMISSION_FAIR_SHARING = "UsageBasedAdmissionFairSharing"
    NO_ADMISSION_FAIR_SHARING = "NoAdmissionFairSharing"


class ConcurrentAdmissionMigrationMode(StrEnum):
    TRY_PREFERRED_FLAVORS = "TryPreferredFlavors"
    RETAIN_FIRST_ADMISSION = "RetainFirstAdmission"


class ResourceQuota(Value, frozen=True, kw_only=True):
    """How much of one resource in one flavor a queue or cohort owns, may borrow and lends."""

    name: str
    nominal_quota: Quantity
    borrowing_limit: Quantity | None = None
    lending_limit: Quantity | None = None


class FlavorQuotas(Value, frozen=True, kw_only=True):
    name: str
    resources: tuple[ResourceQuota, ...]


class ResourceGroup(Value, frozen=True, kw_only=True):
    """Resources that always come from the same flavor, and the flavors to try in this order."""

    covered_resources: tuple[str, ...]
    flavors: tuple[FlavorQuotas, ...]


class FairSharing(Value, frozen=True, kw_only=True):
    weight: Quantity = always(Quantity.parse("1"))


class FairSharingStatus(Value, frozen=True, kw_only=True):
    weighted_share: int


class FlavorFungibility(Value, frozen=True, kw_only=True):
    """Whether the search for a flavor stops at one that needs borrowing or preemption."""

    when_can_borrow: FlavorFungibilityPolicy = always(FlavorFungibilityPolicy.MAY_STOP_SEARCH)
    when_can_preempt: FlavorFungibilityPolicy = always(FlavorFungibilityPolicy.TRY_NEXT_FLAVOR)
    preference: FlavorFungibilityPreference | None = None


class BorrowWithinCohort(Value, frozen=True, kw_only=True):
    policy: BorrowWithinCohortPolicy = always(BorrowWithinCohortPolicy.NEVER)
    max_priority_threshold: int | None = None


class ClusterQueuePreemption(Value, frozen=True, kw_only=True):
    reclaim_within_cohort: PreemptionPolicy = always(PreemptionPolicy.NEVER)
    borrow_within_cohort: BorrowWithinCohort = always(BorrowWithinCohort())
    within_cluster_queue: PreemptionPolicy = always(PreemptionPolicy.NEVER)


class AdmissionCheckStrategyRule(Value, frozen=True, kw_only=True):
    """A check, and the flavors that need it; no flavors means all of them."""

    name: str
    on_flavors: tuple[str, ...] = ()


class AdmissionChecksStrategy(Value, frozen=True, kw_only=True):
    admission_checks: tuple[AdmissionCheckStrategyRule, ...]


class AdmissionScope(Value, frozen=True, kw_only=True):
    admission_mode: AdmissionMode


class ConcurrentAdmissionConstraints(Value, frozen=True, kw_only=True):
    last_acceptable_flavor_name: str = ""


class ConcurrentAdmissionMigration(Value, frozen=True, kw_only=True):
    mode: ConcurrentAdmissionMigrationMode
    constraints: ConcurrentAdmissionConstraints | None = None


class ConcurrentAdmissionPolicy(Value, frozen=True, kw_only=True):
    migration: ConcurrentAdmissionMigration


class ClusterQueueSpec(Value, frozen=True, kw_only=True):
    resource_groups: tuple[ResourceGroup, ...] = ()
    cohort_name: str = ""
    queueing_strategy: QueueingStrategy = always(QueueingStrategy.BEST_EFFORT_FIFO)
    namespace_selector: LabelSelector | None = None
    """`None` selects no namespace at all, an empty selector selects every one."""
    flavor_fungibility: FlavorFungibility = always(FlavorFungibility())
    preemption: ClusterQueuePreemption = always(ClusterQueuePreemption())
    admission_checks_strategy: AdmissionChecksStrategy | None = None
    stop_policy: StopPolicy = always(StopPolicy.NONE)
    fair_sharing: FairSharing | None = None
    admission_scope: AdmissionScope | None = None
    concurrent_admission_policy: ConcurrentAdmissionPolicy | None = None


class ResourceUsage(Value, frozen=True, kw_only=True):
    name: str
    total: Quantity = always(ZERO)
    borrowed: Quantity = always(ZERO)


class FlavorUsage(Value, frozen=True, kw_only=True):
    name: str
    resources: tuple[ResourceUsage, ...]


class ClusterQueueStatus(Value, frozen=True, kw_only=True):
    conditions: Conditions = ()
    flavors_reservation: tuple[FlavorUsage, ...] = ()
    flavors_usage: tuple[FlavorUsage, ...] = ()
    pending_workloads: int = always(0)
    reserving_workloads: int = always(0)
    admitted_workloads: int = always(0)
    fair_sharing: FairSharingStatus | None = None


class ClusterQueue(Object, frozen=True, kw_only=True):
    """A share of the cluster: quotas per flavor, and the rules for admitting workloads into them."""

    KIND: ClassVar[str] = "ClusterQueue"

    spec: ClusterQueueSpec = ClusterQueueSpec()
    status: ClusterQueueStatus = ClusterQueueStatus()


class CohortSpec(Value, frozen=True, kw_only=True):
    parent_name: str = ""
    resource_groups: tuple[ResourceGroup, ...] = ()
    fair_sharing: FairSharing | None = None


class CohortStatus(Value, frozen=True, kw_only=True):
    fair_sharing: FairSharingStatus | None = None


class Cohort(Object, frozen=True, kw_only=True):
    """ClusterQueues and cohorts that lend each other what they do not use."""

    KIND: ClassVar[str] = "Cohort"

    spec: CohortSpec = CohortSpec()
    status: CohortStatus = CohortStatus()


class LocalQueueSpec(Value, frozen=True, kw_only=True):
    cluster_queue: str = ""
    stop_policy: StopPolicy = always(StopPolicy.NONE)
    fair_sharing: FairSharing | None = None


class LocalQueueResourceUsage(Value, frozen=True, kw_only=True):
    name: str
    total: Quantity = always(ZERO)


class LocalQueueFlavorUsage(Value, frozen=True, kw_only=True):
    name: str
    resources: tuple[LocalQueueResourceUsage, ...]


class AdmissionFairSharingStatus(Value, frozen=True, kw_only=True):
    consumed_resources: dict[str, Quantity]
    last_update: Time

    def __post_init__(self) -> None:
        normalise_times(self, "last_update")


class LocalQueueFairSharingStatus(Value, frozen=True, kw_only=True):
    weighted_share: int
    admission_fair_sharing_status: AdmissionFairSharingStatus | None = None


class LocalQueueStatus(Value, frozen=True, kw_only=True):
    conditions: Conditions = ()
    pending_workloads: int = always(0)
    reserving_workloads: int = always(0)
    admitted_workloads: int = always(0)
    flavors_reservation: tuple[LocalQueueFlavorUsage, ...] = ()
    flavors_usage: tuple[LocalQueueFlavorUsage, ...] = ()
    fair_sharing: LocalQueueFairSharingStatus | None = None


class LocalQueue(Object, frozen=True, kw_only=True):
    """Where the users of one namespace submit; it points to the ClusterQueue that pays."""

    KIND: ClassVar[str] = "LocalQueue"
    NAMESPACED: ClassVar[bool] = True

    spec: LocalQueueSpec = LocalQueueSpec()
    status: LocalQueueStatus = LocalQueueStatus()
