"""What a workload's status should say of its pods, gathered so that it is written at once."""

from datetime import datetime
from typing import Any

from fairway.controllers.frameworks.eviction import release_patch
from fairway.controllers.frameworks.readiness import WAITING, Settling, readiness
from fairway.jobs import conditions
from fairway.kinds.kind import Manifest
from fairway.model.configuration import WaitForPodsReady
from fairway.runtime.clock import Clock


class StatusChange:
    """Changes of one workload's status; nothing is written here."""

    def __init__(self, workload: Manifest, now: datetime) -> None:
        self._workload = workload
        self._now_text = conditions.stamp(now)
        self._generation: int | None = workload["metadata"].get("generation")
        self._conditions: list[dict[str, Any]] | None = None
        self._fields: dict[str, Any] = {}

    @property
    def patch(self) -> Manifest | None:
        """The patch of the status, to be sent locked; `None` if nothing changes."""
        if self._conditions is not None:
            return {"status": {**self._fields, "conditions": self._conditions}}
        return {"status": self._fields} if self._fields else None

    def set(self, kind: str, status: str, reason: str, message: str) -> None:
        """Set a condition."""
        self._conditions = conditions.with_condition(
            self._found(), kind, status, reason, message, self._now_text, self._generation
        )

    def put(self, field: str, value: object) -> None:
        """Set another field."""
        self._fields[field] = value

    def finish(self, reason: str, message: str) -> None:
        self.set(conditions.FINISHED, "True", reason, message)

    def release(self, *, single_pod: bool) -> None:
        """Give the quota of an evicted workload back."""
        status = {**self._workload["status"], "conditions": self._found()}
        released = release_patch({**self._workload, "status": status}, self._now_text, single_pod=single_pod)["status"]
        self._conditions = released.pop("conditions")
        self._fields |= released
        if conditions.find(self._workload, conditions.PODS_READY) is not None:
            self.set(conditions.PODS_READY, *WAITING)

    def _found(self) -> list[dict[str, Any]]:
        return conditions.of(self._workload) if self._conditions is None else self._conditions


class ReadinessReports:
    """Says whether the pods of workloads are ready, once it is worth a write."""

    def __init__(self, clock: Clock) -> None:
        self._settling = Settling(clock)

    def forget(self, workload: Manifest) -> None:
        self._settling.forget(workload["metadata"]["uid"])

    def add(
        self, change: StatusChange, workload: Manifest, waiting: WaitForPodsReady | None, *, ready: bool
    ) -> float | None:
        """Add the condition to a change if it is another one now, or say in how many seconds it may be."""
        wanted = None if waiting is None else readiness(workload, ready=ready)
        held = conditions.find(workload, conditions.PODS_READY)
        if waiting is None or wanted is None or (held is not None and (held["status"], held["reason"]) == wanted[:2]):
            self.forget(workload)
            return None
        at_once = waiting.block_admission and wanted.status == "True"
        uid = workload["metadata"]["uid"]
        left = self._settling.seconds_left(uid, wanted, at_once=at_once, first=held is None)
        if left > 0:
            return left
        self.forget(workload)
        change.set(conditions.PODS_READY, *wanted)
        return None
