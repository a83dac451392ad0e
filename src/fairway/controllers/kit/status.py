"""The status of an object in the making: conditions and fields, gathered into one patch.

Values in, values out; `writes.commit` sends the patch. For Workloads there is one implementation of every move that
several controllers make: evicted, released, finished.
"""

from datetime import datetime
from typing import Any, Final

from fairway.admission.instructions import DeactivationCause, EvictionReason
from fairway.apis.kueue.objects import CheckState
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.timestamps import stamp
from fairway.controllers.kit.readiness import WAITING
from fairway.integrations import conditions
from fairway.integrations.conditions import Condition

PREEMPTED: Final = "Preempted"
DEACTIVATION_TARGET: Final = "DeactivationTarget"
BLOCKED_ON_GATES: Final = "BlockedOnPreemptionGates"
_REQUEUED_AT_ONCE: Final = frozenset({EvictionReason.PREEMPTED, EvictionReason.NODE_FAILURES})
_PLACED_ELSEWHERE: Final = ("clusterName", "nominatedClusterNames", "unhealthyNodes")


def differs(old: Manifest, new: Manifest) -> bool:
    """Whether a change of an object is of its spec, its status, or that it is deleted."""
    return bool(
        old["metadata"].get("generation") != new["metadata"].get("generation")
        or old.get("status") != new.get("status")
        or ("deletionTimestamp" in old["metadata"]) != ("deletionTimestamp" in new["metadata"])
    )


class StatusChange:
    """Changes of one object's status; nothing is written here."""

    def __init__(self, manifest: Manifest, now: datetime, now_text: str = "") -> None:
        """`now_text` is `stamp(now)`, for callers that have it."""
        self.manifest = manifest
        self._status: dict[str, Any] = manifest.get("status") or {}
        self._conditions: list[Condition] = self._status.get("conditions") or []
        self._generation: int | None = manifest["metadata"].get("generation")
        self._changes: dict[str, Any] = {}
        self._now = now
        self._now_text = now_text or stamp(now)

    @property
    def patch(self) -> Manifest | None:
        """What is to be written, locked on the object's state; `None` if it is stored like this already."""
        status = {
            name: value
            for name, value in self._changes.items()
            if (value != self._status.get(name) if value is not None else name in self._status)
        }
        stored = self._status.get("conditions") or []
        if self._conditions is not stored and self._conditions != stored:
            status["conditions"] = self._conditions
        return {"status": status} if status else None

    def get(self, field: str) -> Any:
        return self._changes[field] if field in self._changes else self._status.get(field)

    def put(self, field: str, value: object) -> None:
        """Set a field of the status; `None` removes it."""
        self._changes[field] = value

    def find(self, kind: str) -> Condition | None:
        for condition in self._conditions:
            if condition["type"] == kind:
                return condition
        return None

    def is_true(self, kind: str) -> bool:
        condition = self.find(kind)
        return condition is not None and condition["status"] == "True"

    def set(self, kind: str, status: str, reason: str, message: str, *, observed: bool = True) -> None:
        """Set a condition; `observed` says that it is about the generation that is stored."""
        generation = self._generation if observed else None
        self._conditions = conditions.with_condition(
            self._conditions, kind, status, str(reason), message, self._now_text, generation
        )

    def remove(self, kind: str) -> None:
        """Remove a condition."""
        self._conditions = [one for one in self._conditions if one["type"] != kind]

    def seconds_since(self, moment: str) -> float:
        return (self._now - datetime.fromisoformat(moment)).total_seconds()


class WorkloadStatusChange(StatusChange):
    """Changes of a Workload's status, with conditions, reasons and messages as Kueue writes them."""

    def finish(self, reason: str, message: str) -> None:
        self.set(conditions.FINISHED, "True", reason, message)

    # Eviction in two phases: the job is to stop and keeps its quota; it has stopped, and the quota is released.

    def evict(self, reason: str, message: str, cause: str = "", *, requeue_at: str = "", preempted: str = "") -> str:
        """The first phase; the reason of the condition.

        `cause` is that of a deactivation, `requeue_at` the earliest moment to be queued again, `preempted` the reason
        of the condition `Preempted`.
        """
        shown = reason
        if reason == EvictionReason.DEACTIVATED:
            self.end_deactivation()
            shown = f"{reason}DueTo{cause}" if cause else reason
        else:
            self._back_off(reason, requeue_at)
        if preempted:
            self.set(PREEMPTED, "True", preempted, message, observed=False)
        self.set(conditions.EVICTED, "True", shown, message)
        for field in _PLACED_ELSEWHERE:
            self.put(field, None)
        if checks := self.get("admissionChecks"):
            self.put("admissionChecks", [self._reset_check(check) for check in checks])
        if self.is_true(BLOCKED_ON_GATES):
            self.set(BLOCKED_ON_GATES, "False", shown, message)
        self._count_eviction(reason, cause)
        return shown

    def release(self, *, single_pod: bool = False) -> None:
        """The second phase.

        `single_pod` says that the workload is that of one pod: it goes with the pod, so it is not queued again.
        """
        evicted = self.find(conditions.EVICTED)
        if evicted is None:
            raise ValueError("only an evicted workload is released")
        reason, message = evicted["reason"], evicted["message"]
        again = reason in _REQUEUED_AT_ONCE and not single_pod
        self.set(conditions.REQUEUED, "True" if again else "False", reason, message)
        self.unreserve("Pending", message)

    def unreserve(self, reason: str, message: str) -> None:
        """It has no quota: `QuotaReserved` and `Admitted` are false, the time that it was admitted is added up.

        Pods that are not to run are not ready: where `PodsReady` is followed, that is said in the same write.
        """
        self.set(conditions.QUOTA_RESERVED, "False", reason, message)
        self.put("admission", None)
        admitted = self.find(conditions.ADMITTED)
        if admitted is None or admitted["status"] != "True":
            return
        if self.find(conditions.PODS_READY) is not None:
            self.set(conditions.PODS_READY, *WAITING)
        spent = int(self.seconds_since(admitted["lastTransitionTime"]))
        self.put("accumulatedPastExecutionTimeSeconds", (self.get("accumulatedPastExecutionTimeSeconds") or 0) + spent)
        if all(check["state"] == CheckState.READY for check in self.get("admissionChecks") or ()):
            self.set(conditions.ADMITTED, "False", "NoReservation", "The workload has no reservation")
        else:
            message = "The workload has no reservation and not all checks ready"
            self.set(conditions.ADMITTED, "False", "NoReservationUnsatisfiedChecks", message)

    # Deactivation: why is written before `spec.active` is set to false, so that it is known however the next steps go.

    def mark_for_deactivation(self, cause: str, message: str) -> None:
        self.set(DEACTIVATION_TARGET, "True", cause, message)
        if cause == DeactivationCause.MAXIMUM_EXECUTION_TIME:
            self.put("accumulatedPastExecutionTimeSeconds", None)

    def end_deactivation(self) -> None:
        """A deactivated workload begins anew when it is activated again."""
        self.put("requeueState", None)
        self.remove(DEACTIVATION_TARGET)

    def end_backoff(self) -> None:
        """Nothing is waited for any more; the count of earlier tries stays."""
        state = dict(self.get("requeueState") or {})
        if state.pop("requeueAt", None) is not None:
            # A patch leaves alone what it does not name.
            self.put("requeueState", {**state, "requeueAt": None} if state else None)

    def new_check(self, name: str, state: str = CheckState.PENDING, message: str = "") -> dict[str, Any]:
        return {"name": name, "state": str(state), "lastTransitionTime": self._now_text, "message": message}

    def _back_off(self, reason: str, requeue_at: str) -> None:
        """Moments to requeue at are only ever moved later."""
        before: dict[str, Any] = self.get("requeueState") or {}
        state = dict(before)
        if requeue_at > before.get("requeueAt", ""):
            state["requeueAt"] = requeue_at
        if reason == EvictionReason.PODS_READY_TIMEOUT:
            state["count"] = before.get("count", 0) + 1
        if state != before:
            self.put("requeueState", state)

    def _reset_check(self, check: dict[str, Any]) -> dict[str, Any]:
        state = check["state"]
        if state == CheckState.PENDING:
            return check
        message = f"Reset to Pending after eviction. Previously: {state}"
        fresh = self.new_check(check["name"], CheckState.PENDING, message)
        if "requeueAfterSeconds" in check:
            fresh["requeueAfterSeconds"] = check["requeueAfterSeconds"]
        if state == CheckState.RETRY:
            fresh["retryCount"] = check.get("retryCount", 0) + 1
        elif state == CheckState.REJECTED and "retryCount" in check:
            fresh["retryCount"] = check["retryCount"]
        return fresh

    def _count_eviction(self, reason: str, cause: str) -> None:
        counted = [dict(one) for one in (self.get("schedulingStats") or {}).get("evictions") or ()]
        for one in counted:
            if one["reason"] == reason and one["underlyingCause"] == cause:
                one["count"] += 1
                break
        else:
            counted.append({"reason": str(reason), "underlyingCause": cause, "count": 1})
        self.put("schedulingStats", {"evictions": counted})
