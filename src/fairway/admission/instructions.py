"""The output of an engine: instructions, which are writes to make.

It has assumed each of these already; a failed write is reported with ``WriteFailed``.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from fairway.admission.events import CheckVerdict
from fairway.admission.reasons import Explanation
from fairway.apis.kueue.placements import Placement


class EvictionReason(StrEnum):
    PREEMPTED = "Preempted"
    PODS_READY_TIMEOUT = "PodsReadyTimeout"
    ADMISSION_CHECK = "AdmissionCheck"
    CLUSTER_QUEUE_STOPPED = "ClusterQueueStopped"
    LOCAL_QUEUE_STOPPED = "LocalQueueStopped"
    NODE_FAILURES = "NodeFailures"
    DEACTIVATED = "Deactivated"


class PreemptionReason(StrEnum):
    IN_CLUSTER_QUEUE = "InClusterQueue"
    RECLAMATION = "InCohortReclamation"
    FAIR_SHARING = "InCohortFairSharing"
    RECLAIM_WHILE_BORROWING = "InCohortReclaimWhileBorrowing"


class RequeueReason(StrEnum):
    BACKOFF_FINISHED = "BackoffFinished"
    REACTIVATED = "Reactivated"
    CLUSTER_QUEUE_RESTARTED = "ClusterQueueRestarted"
    LOCAL_QUEUE_RESTARTED = "LocalQueueRestarted"


class DeactivationCause(StrEnum):
    ADMISSION_CHECK = "AdmissionCheck"
    REQUEUING_LIMIT = "RequeuingLimitExceeded"
    MAXIMUM_EXECUTION_TIME = "MaximumExecutionTimeExceeded"


class Instruction(Struct, frozen=True, gc=False, kw_only=True):
    at: float
    key: str


class PodSetAdmission(Struct, frozen=True, gc=False):
    """What one pod set got: the flavor and the total of each resource, and how many pods."""

    name: str
    count: int
    flavors: dict[str, str]
    usage: dict[str, int]
    placement: Placement | None = None
    """Where its pods go, in a topology."""
    delayed: str = ""
    """The state of a placement that is made only after the admission checks."""


class Admit(Instruction, frozen=True, gc=False, kw_only=True):
    """Quota is reserved. ``admitted`` says whether it may start; otherwise it waits for ``pending_checks``."""

    cluster_queue: str
    pod_sets: tuple[PodSetAdmission, ...]
    admitted: bool
    pending_checks: tuple[str, ...] = ()
    waited_seconds: float = 0.0
    replaces: str = ""
    """The slice that ends with this, once it is written."""


class Replace(Instruction, frozen=True, gc=False, kw_only=True):
    """A slice of an elastic job is finished: another of its job, which is admitted, has taken its place."""

    uid: str
    job_uid: str


class Start(Instruction, frozen=True, gc=False, kw_only=True):
    """Every admission check is ready: the workload that holds quota is admitted."""

    cluster_queue: str


class Place(Instruction, frozen=True, gc=False, kw_only=True):
    """A workload that holds quota got its place in a topology, or another one instead of a failed node."""

    pod_sets: tuple[PodSetAdmission, ...]


class SecondPassFailed(Instruction, frozen=True, gc=False, kw_only=True):
    """A workload that holds quota found no place in a topology yet; it is tried again."""

    explanation: Explanation


class Preemption(Struct, frozen=True, gc=False, kw_only=True):
    """For whom a workload is preempted, and by which right. Paths lead from the root cohort to the ClusterQueue."""

    reason: PreemptionReason
    preemptor: str
    preemptor_uid: str
    preemptor_job_uid: str
    preemptor_path: tuple[str, ...]
    path: tuple[str, ...]


class Evict(Instruction, frozen=True, gc=False, kw_only=True):
    """The first phase of an eviction: the job must stop. Its quota stays taken until ``QuotaReleased``.

    ``preemption`` and ``checks`` say for whom or by which checks; ``message`` is a reason from outside.
    """

    reason: EvictionReason
    cause: str = ""
    preemption: Preemption | None = None
    checks: dict[str, CheckVerdict] = {}
    message: str = ""
    requeue_at: float | None = None


class Unreserve(Instruction, frozen=True, gc=False, kw_only=True):
    """A reservation that never became an admission is given back, because its queue was stopped or is gone."""

    explanation: Explanation


class Deactivate(Instruction, frozen=True, gc=False, kw_only=True):
    """Set ``spec.active`` to false, for this cause: a ``DeactivationCause``, or a reason from outside.

    ``message`` is a reason from outside.
    """

    cause: str
    checks: dict[str, CheckVerdict] = {}
    message: str = ""


class Requeue(Instruction, frozen=True, gc=False, kw_only=True):
    """What kept the workload out of its queue is over."""

    reason: RequeueReason


class Explain(Instruction, frozen=True, gc=False, kw_only=True):
    """The workload was tried and waits on, for these reasons. Only sent when they changed."""

    explanation: Explanation
