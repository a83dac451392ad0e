"""The status of a Workload as decisions change it: conditions, reasons and messages as Kueue writes them.

A draft starts at what is stored, takes in one decision after the other, and ends as one patch, with the events to tell
once it is written. It decides nothing; what the decisions are is in `fairway.admission.instructions`, and who writes
drafts when is in `writing`.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

from fairway.admission import wording
from fairway.admission.instructions import (
    Admit,
    Deactivate,
    DeactivationCause,
    Evict,
    EvictionReason,
    PodSetAdmission,
    Requeue,
    Start,
    Unreserve,
)
from fairway.admission.reasons import Explanation, Outcome
from fairway.admission.records import Record
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import format_amount
from fairway.apis.machinery.timestamps import stamp
from fairway.controllers.kit.status import BLOCKED_ON_GATES, DEACTIVATION_TARGET, PREEMPTED, WorkloadStatusChange
from fairway.integrations.conditions import ADMITTED, EVICTED, QUOTA_RESERVED, REQUEUED

PENDING: Final = "Pending"
INADMISSIBLE: Final = "Inadmissible"
WAITING: Final = "Waiting"
GATED: Final = "AdmissionGated"

_REASONS: Final = {
    Outcome.QUEUE_INACTIVE: INADMISSIBLE,
    Outcome.QUEUE_MISSING: INADMISSIBLE,
    Outcome.LOCAL_QUEUE_INACTIVE: INADMISSIBLE,
    Outcome.LOCAL_QUEUE_MISSING: INADMISSIBLE,
    Outcome.WAITING_FOR_PODS_READY: WAITING,
}
"""Why a workload has no quota; all that a try found is `Pending`."""

_NOT_SHOWN: Final = frozenset({Outcome.BACKING_OFF, Outcome.DEACTIVATED, Outcome.GATED, Outcome.NOT_TRIED})
"""What no condition of its own tells: other conditions do, or nothing is to be told yet."""

_IS_ADMITTED: Final = "The workload is admitted"


class Notice(NamedTuple):
    """An event to tell once a draft is written; `about` is another workload's key where it is not the draft's."""

    reason: str
    message: str
    warning: bool = False
    about: str = ""


class Draft(WorkloadStatusChange):
    """One Workload's status in the making, with the events to tell once it is written."""

    def __init__(self, manifest: Manifest, now: datetime, now_text: str) -> None:
        super().__init__(manifest, now, now_text)
        self.notices: list[Notice] = []

    # Getting quota

    def admit(self, said: Admit, checks: Iterable[str]) -> None:
        """Quota is reserved, and with no check left to wait for the workload may start."""
        requeued = self.find(REQUEUED)
        waited = self.seconds_since(
            self.manifest["metadata"]["creationTimestamp"] if requeued is None else requeued["lastTransitionTime"]
        )
        assignments = [_assignment(given) for given in said.pod_sets]
        self.put("admission", {"clusterQueue": said.cluster_queue, "podSetAssignments": assignments})
        self.put("resourceRequests", None)
        self.set(QUOTA_RESERVED, "True", QUOTA_RESERVED, wording.reserved(said))
        if len(self._conditions) > 1:  # beside the one that was just set
            for kind in (EVICTED, PREEMPTED, BLOCKED_ON_GATES):
                condition = self.find(kind)
                if condition is not None and condition["status"] == "True":
                    self.set(kind, "False", QUOTA_RESERVED, f"Previously: {condition['message']}")
        state = self.get("requeueState")
        if state is not None and (state.get("requeueAt") or self._now_text) < self._now_text:
            self.end_backoff()
        self.list_checks(checks)
        self._tell(
            QUOTA_RESERVED,
            f"Quota reserved in ClusterQueue {said.cluster_queue}, wait time since queued was {waited:.0f}s",
        )
        if said.admitted:
            self._admitted(said.cluster_queue, 0.0)

    def start(self, said: Start) -> None:
        """Every check is ready."""
        reserved = self.find(QUOTA_RESERVED)
        waited = self.seconds_since(reserved["lastTransitionTime"]) if reserved is not None else 0.0
        self._admitted(said.cluster_queue, waited)

    def _admitted(self, cluster_queue: str, waited: float) -> None:
        if self.is_true(ADMITTED):  # before it lost its quota: begin anew
            self.remove(ADMITTED)
        self.set(ADMITTED, "True", ADMITTED, _IS_ADMITTED)
        self._tell(ADMITTED, f"Admitted by ClusterQueue {cluster_queue}, wait time since reservation was {waited:.0f}s")

    def list_checks(self, required: Iterable[str]) -> None:
        """Bring the list of checks in line with those that are needed; new ones are pending."""
        known = {check["name"]: check for check in self.get("admissionChecks") or ()}
        listed = [known.get(name) or self.new_check(name) for name in sorted(required)]
        self.put("admissionChecks", listed or None)

    # Losing it

    def carry_out_eviction(self, said: Evict, victim: Record, preemptor: Record | None) -> None:
        """The first phase of an eviction: the job is to stop."""
        cause, message = str(said.cause), wording.eviction(said)
        target = self.find(DEACTIVATION_TARGET)
        if said.reason is EvictionReason.DEACTIVATED and not cause and target is not None:
            cause, message = target["reason"], f"{message} due to {target['message']}"
        requeue_at = "" if said.requeue_at is None else stamp(datetime.fromtimestamp(said.requeue_at, UTC))
        preempted = "" if said.preemption is None else str(said.preemption.reason)
        reason = self.evict(str(said.reason), message, cause, requeue_at=requeue_at, preempted=preempted)
        if self.get("admission") is None:
            return
        self._tell(f"{EVICTED}DueTo{reason}", message)
        if said.preemption is not None:
            ranks = f"preemptor effective {_rank(preemptor)}; preemptee effective {_rank(victim)}"
            self._tell(PREEMPTED, f"{message}; {ranks}")
            what = f"Preempted workload {victim.key} (UID: {victim.uid}) in ClusterQueue {victim.cluster_queue}"
            self.notices.append(Notice("PreemptedWorkload", f"{what}; {ranks}", about=said.preemption.preemptor))

    def give_back(self, said: Unreserve) -> None:
        """A reservation is given back that never became an admission."""
        self.unreserve(_REASONS.get(said.explanation.outcome, INADMISSIBLE), wording.waiting(said.explanation))

    def begin_deactivation(self, said: Deactivate) -> None:
        message = wording.deactivation(said)
        self.mark_for_deactivation(said.cause, message)
        if said.cause == DeactivationCause.ADMISSION_CHECK:
            self._tell("AdmissionCheckRejected", f"Deactivated due to {message}", warning=True)

    # Waiting

    def requeue(self, said: Requeue) -> None:
        """What kept it out of its queue is over."""
        self.end_backoff()
        self.set(REQUEUED, "True", said.reason, wording.requeue(said.reason))

    def explain(self, explanation: Explanation, record: Record) -> None:
        """It was looked at and waits on."""
        if explanation.outcome in _NOT_SHOWN:
            return
        reason, message = _REASONS.get(explanation.outcome, PENDING), wording.waiting(explanation)
        before = self.find(QUOTA_RESERVED)
        same = before is not None and (before["status"], before["reason"], before["message"]) == (
            "False",
            reason,
            message,
        )
        self.unreserve(reason, message)
        if reason != PENDING:
            return
        requests = [
            {"name": ask.name, "resources": {name: _quantity(name, amount) for name, amount in sorted(ask.requests)}}
            for ask in record.demand.asks
        ]
        self.put("resourceRequests", requests or None)
        if not same:
            self._tell(PENDING, message, warning=True)

    def show_gate(self, gate: str) -> None:
        self.unreserve(GATED, f"Admission is gated by: {gate}")
        self._tell(GATED, f"Workload admission is gated by: {gate}")

    def show_no_gate(self) -> None:
        self.unreserve(PENDING, "AdmissionGatedBy cleared, waiting for quota reservation")
        self._tell("AdmissionGateCleared", "Admission gate cleared, workload is now admissible")

    def _tell(self, reason: str, message: str, *, warning: bool = False) -> None:
        self.notices.append(Notice(reason, message, warning))


def first_admission(
    said: Admit, manifest: Manifest, now: datetime, now_text: str
) -> tuple[Manifest, tuple[Notice, ...]]:
    """What a draft comes to for a Workload that has no status yet and needs no check: the patch, and what to tell."""
    metadata, queue = manifest["metadata"], said.cluster_queue
    message = wording.reserved(said)
    reserved = {
        "type": QUOTA_RESERVED,
        "status": "True",
        "reason": QUOTA_RESERVED,
        "message": message,
        "lastTransitionTime": now_text,
    }
    admitted = {
        "type": ADMITTED,
        "status": "True",
        "reason": ADMITTED,
        "message": _IS_ADMITTED,
        "lastTransitionTime": now_text,
    }
    if "generation" in metadata:
        reserved["observedGeneration"] = admitted["observedGeneration"] = metadata["generation"]
    assignments = [_assignment(given) for given in said.pod_sets]
    admission = {"clusterQueue": queue, "podSetAssignments": assignments}
    waited = (now - datetime.fromisoformat(metadata["creationTimestamp"])).total_seconds()
    notices = (
        Notice(QUOTA_RESERVED, f"{message}, wait time since queued was {waited:.0f}s"),
        Notice(ADMITTED, f"Admitted by ClusterQueue {queue}, wait time since reservation was 0s"),
    )
    return {"status": {"admission": admission, "conditions": [reserved, admitted]}}, notices


def _rank(record: Record | None) -> str:
    if record is None:
        return "priority: unknown"
    return f"priority: {record.priority} (base: {record.base_priority}, boost: {record.earned})"


def _assignment(given: PodSetAdmission) -> dict[str, Any]:
    return {
        "name": given.name,
        "flavors": dict(given.flavors),
        "resourceUsage": {name: _quantity(name, amount) for name, amount in given.usage.items()},
        "count": given.count,
    }


@lru_cache(maxsize=4096)
def _quantity(resource: str, amount: int) -> str:
    return format_amount(resource, amount)
