"""What a workload's status should say of its pods, gathered so that it is written at once."""

from datetime import datetime
from typing import Any

from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.timestamps import stamp
from fairway.controllers.kit.eviction import release_patch
from fairway.controllers.kit.readiness import WAITING
from fairway.integrations import conditions


class StatusChange:
    """Changes of one workload's status; nothing is written here."""

    def __init__(self, workload: Manifest, now: datetime) -> None:
        self._workload = workload
        self._now_text = stamp(now)
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
