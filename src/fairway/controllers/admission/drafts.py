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
from fairway.apis.kueue.objects import CheckState
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import format_amount
from fairway.apis.machinery.timestamps import stamp
from fairway.integrations.conditions import Condition, with_condition

QUOTA_RESERVED: Final = "QuotaReserved"
ADMITTED: Final = "Admitted"
EVICTED: Final = "Evicted"
PREEMPTED: Final = "Preempted"
REQUEUED: Final = "Requeued"
DEACTIVATION_TARGET: Final = "DeactivationTarget"
BLOCKED_ON_GATES: Final = "BlockedOnPreemptionGates"

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
_PLACED_ELSEWHERE: Final = ("clusterName", "nominatedClusterNames", "unhealthyNodes")


class Notice(NamedTuple):
    """An event to tell once a draft is written; `about` is another workload's key where it is not the draft's."""

    reason: str
    message: str
    warning: bool = False
    about: str = ""


class Draft:
    """One Workload's status in the making."""

    def __init__(self, manifest: Manifest, now: datetime, now_text: str) -> None:
        self._manifest = manifest
        self._status: dict[str, Any] = manifest.get("status") or {}
        self._generation: int | None = manifest["metadata"].get("generation")
        self._conditions: list[Condition] = self._status.get("conditions") or []
        self._changes: dict[str, Any] = {}
        self._now = now
        self._now_text = now_text
        self.notices: list[Notice] = []

    def patch(self) -> dict[str, Any] | None:
        """What is to be written, or `None` if it is stored like this already."""
        status = {
            name: value
            for name, value in self._changes.items()
            if (value != self._status.get(name) if value is not None else name in self._status)
        }
        if self._conditions is not self._status.get("conditions"):
            conditions = [dict(condition) for condition in self._conditions]
            if conditions != (self._status.get("conditions") or []):
                status["conditions"] = conditions
        return {"status": status} if status else None

    # Getting quota

    def admit(self, said: Admit, checks: Iterable[str]) -> None:
        """Quota is reserved, and with no check left to wait for the workload may start."""
        waited = self._since(self._queued_at())
        self._changes["admission"] = {
            "clusterQueue": said.cluster_queue,
            "podSetAssignments": [_assignment(given) for given in said.pod_sets],
        }
        self._changes["resourceRequests"] = None
        self._set(QUOTA_RESERVED, "True", QUOTA_RESERVED, wording.reserved(said))
        if len(self._conditions) > 1:  # beside the one that was just set
            for kind in (EVICTED, PREEMPTED, BLOCKED_ON_GATES):
                self._reset(kind)
        self._drop_passed_backoff()
        self.list_checks(checks)
        self._tell(
            QUOTA_RESERVED,
            f"Quota reserved in ClusterQueue {said.cluster_queue}, wait time since queued was {waited:.0f}s",
        )
        if said.admitted:
            self._admitted(said.cluster_queue, 0.0)

    def start(self, said: Start) -> None:
        """Every check is ready."""
        reserved = self._find(QUOTA_RESERVED)
        waited = self._since(reserved["lastTransitionTime"]) if reserved is not None else 0.0
        self._admitted(said.cluster_queue, waited)

    def _admitted(self, cluster_queue: str, waited: float) -> None:
        # One that was admitted before and lost its quota since begins anew.
        self._conditions = [one for one in self._conditions if one["type"] != ADMITTED or one["status"] != "True"]
        self._set(ADMITTED, "True", ADMITTED, _IS_ADMITTED)
        self._tell(ADMITTED, f"Admitted by ClusterQueue {cluster_queue}, wait time since reservation was {waited:.0f}s")

    def list_checks(self, required: Iterable[str]) -> None:
        """Bring the list of checks in line with those that are needed; new ones are pending."""
        known = {check["name"]: check for check in self._get("admissionChecks") or ()}
        listed = [known.get(name) or self._check(name, CheckState.PENDING, "") for name in sorted(required)]
        self._changes["admissionChecks"] = listed or None

    # Losing it

    def evict(self, said: Evict, victim: Record, preemptor: Record | None) -> None:
        """The first phase of an eviction: the job is to stop."""
        cause, message = str(said.cause), wording.eviction(said)
        target = self._find(DEACTIVATION_TARGET)
        if said.reason is EvictionReason.DEACTIVATED:
            if not cause and target is not None:
                cause, message = target["reason"], f"{message} due to {target['message']}"
            self.end_deactivation()
        else:
            self._postpone(said)
        reason = _due_to(said.reason, cause) if said.reason is EvictionReason.DEACTIVATED else str(said.reason)
        if said.preemption is not None:
            self._set(PREEMPTED, "True", said.preemption.reason, message, observed=False)
        self._set(EVICTED, "True", reason, message)
        self._changes |= dict.fromkeys(_PLACED_ELSEWHERE)
        self._set_checks_back()
        if self._is_true(BLOCKED_ON_GATES):
            self._set(BLOCKED_ON_GATES, "False", reason, message)
        self._count_eviction(said.reason, cause)
        if self._get("admission") is None:
            return
        self._tell(_due_to(EVICTED, reason), message)
        if said.preemption is not None:
            self._tell_of_preemption(message, victim, preemptor, said.preemption.preemptor)

    def _tell_of_preemption(self, message: str, victim: Record, preemptor: Record | None, preemptor_key: str) -> None:
        ranks = f"preemptor effective {_rank(preemptor)}; preemptee effective {_rank(victim)}"
        self._tell(PREEMPTED, f"{message}; {ranks}")
        what = f"Preempted workload {victim.key} (UID: {victim.uid}) in ClusterQueue {victim.cluster_queue}"
        self.notices.append(Notice("PreemptedWorkload", f"{what}; {ranks}", about=preemptor_key))

    def _postpone(self, said: Evict) -> None:
        """Moments to requeue at are only ever moved later."""
        before: dict[str, Any] = self._get("requeueState") or {}
        state = dict(before)
        if said.requeue_at is not None:
            at = _text(said.requeue_at)
            if at > before.get("requeueAt", ""):
                state["requeueAt"] = at
        if said.reason is EvictionReason.PODS_READY_TIMEOUT:
            state["count"] = before.get("count", 0) + 1
        if state != before:
            self._changes["requeueState"] = state

    def _drop_passed_backoff(self) -> None:
        state = self._get("requeueState")
        if state is not None and (state.get("requeueAt") or self._now_text) < self._now_text:
            self._end_backoff()

    def _end_backoff(self) -> None:
        """The count of earlier tries stays."""
        state = dict(self._get("requeueState") or {})
        if state.pop("requeueAt", None) is not None:
            # A patch leaves alone what it does not name.
            self._changes["requeueState"] = {**state, "requeueAt": None} if state else None

    def _set_checks_back(self) -> None:
        checks = self._get("admissionChecks")
        if checks:
            self._changes["admissionChecks"] = [self._set_back(check) for check in checks]

    def _set_back(self, check: dict[str, Any]) -> dict[str, Any]:
        state = check["state"]
        if state == CheckState.PENDING:
            return check
        fresh = self._check(check["name"], CheckState.PENDING, f"Reset to Pending after eviction. Previously: {state}")
        if "requeueAfterSeconds" in check:
            fresh["requeueAfterSeconds"] = check["requeueAfterSeconds"]
        if state == CheckState.RETRY:
            fresh["retryCount"] = check.get("retryCount", 0) + 1
        return fresh

    def _count_eviction(self, reason: str, cause: str) -> None:
        counted = [dict(one) for one in (self._get("schedulingStats") or {}).get("evictions") or ()]
        for one in counted:
            if one["reason"] == reason and one["underlyingCause"] == cause:
                one["count"] += 1
                break
        else:
            counted.append({"reason": str(reason), "underlyingCause": cause, "count": 1})
        self._changes["schedulingStats"] = {"evictions": counted}

    def unreserve(self, said: Unreserve) -> None:
        """A reservation is given back that never became an admission."""
        self._without_quota(_REASONS.get(said.explanation.outcome, INADMISSIBLE), wording.waiting(said.explanation))

    def mark_for_deactivation(self, said: Deactivate) -> None:
        """The first step of a deactivation: why it will be, so that it is known however the next steps go."""
        message = wording.deactivation(said)
        self._set(DEACTIVATION_TARGET, "True", said.cause, message)
        if said.cause == DeactivationCause.ADMISSION_CHECK:
            self._tell("AdmissionCheckRejected", f"Deactivated due to {message}", warning=True)
        if said.cause == DeactivationCause.MAXIMUM_EXECUTION_TIME:
            self._changes["accumulatedPastExecutionTimeSeconds"] = None

    def end_deactivation(self) -> None:
        """A deactivated workload begins anew when it is activated again."""
        self._changes["requeueState"] = None
        self._conditions = [one for one in self._conditions if one["type"] != DEACTIVATION_TARGET]

    # Waiting

    def requeue(self, said: Requeue) -> None:
        """What kept it out of its queue is over."""
        self._end_backoff()
        self._set(REQUEUED, "True", said.reason, wording.requeue(said.reason))

    def explain(self, explanation: Explanation, record: Record) -> None:
        """It was looked at and waits on."""
        if explanation.outcome in _NOT_SHOWN:
            return
        reason, message = _REASONS.get(explanation.outcome, PENDING), wording.waiting(explanation)
        before = self._find(QUOTA_RESERVED)
        same = before is not None and (before["status"], before["reason"], before["message"]) == (
            "False",
            reason,
            message,
        )
        self._without_quota(reason, message)
        if reason != PENDING:
            return
        self._changes["resourceRequests"] = [
            {"name": ask.name, "resources": {name: _quantity(name, amount) for name, amount in sorted(ask.requests)}}
            for ask in record.demand.asks
        ] or None
        if not same:
            self._tell(PENDING, message, warning=True)

    def show_gate(self, gate: str) -> None:
        self._without_quota(GATED, f"Admission is gated by: {gate}")
        self._tell(GATED, f"Workload admission is gated by: {gate}")

    def show_no_gate(self) -> None:
        self._without_quota(PENDING, "AdmissionGatedBy cleared, waiting for quota reservation")
        self._tell("AdmissionGateCleared", "Admission gate cleared, workload is now admissible")

    def clear_admission(self) -> None:
        """Somebody took the quota back and left what it was for."""
        self._changes["admission"] = None

    def _without_quota(self, reason: str, message: str) -> None:
        self._set(QUOTA_RESERVED, "False", reason, message)
        self._changes["admission"] = None
        admitted = self._find(ADMITTED)
        if admitted is None or admitted["status"] != "True":
            return
        spent = int(self._since(admitted["lastTransitionTime"]))
        before = self._get("accumulatedPastExecutionTimeSeconds") or 0
        self._changes["accumulatedPastExecutionTimeSeconds"] = before + spent
        if all(check["state"] == CheckState.READY for check in self._get("admissionChecks") or ()):
            self._set(ADMITTED, "False", "NoReservation", "The workload has no reservation")
        else:
            message = "The workload has no reservation and not all checks ready"
            self._set(ADMITTED, "False", "NoReservationUnsatisfiedChecks", message)

    # Parts

    def _get(self, name: str) -> Any:
        return self._changes[name] if name in self._changes else self._status.get(name)

    def _find(self, kind: str) -> Condition | None:
        for condition in self._conditions:
            if condition["type"] == kind:
                return condition
        return None

    def _is_true(self, kind: str) -> bool:
        condition = self._find(kind)
        return condition is not None and condition["status"] == "True"

    def _set(self, kind: str, status: str, reason: str, message: str, *, observed: bool = True) -> None:
        generation = self._generation if observed else None
        self._conditions = with_condition(
            self._conditions, kind, status, str(reason), message, self._now_text, generation
        )

    def _reset(self, kind: str) -> None:
        condition = self._find(kind)
        if condition is not None and condition["status"] == "True":
            self._set(kind, "False", QUOTA_RESERVED, f"Previously: {condition['message']}")

    def _check(self, name: str, state: CheckState, message: str) -> dict[str, Any]:
        return {"name": name, "state": str(state), "lastTransitionTime": self._now_text, "message": message}

    def _queued_at(self) -> str:
        requeued = self._find(REQUEUED)
        since: str = (
            requeued["lastTransitionTime"] if requeued is not None else self._manifest["metadata"]["creationTimestamp"]
        )
        return since

    def _since(self, moment: str) -> float:
        return (self._now - datetime.fromisoformat(moment)).total_seconds()

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


def _due_to(what: str, cause: str) -> str:
    return f"{what}DueTo{cause}" if cause else str(what)


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


def _text(moment: float) -> str:
    return stamp(datetime.fromtimestamp(moment, UTC))
