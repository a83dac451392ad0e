"""What a change of a Workload is worth counting: conditions that became true, and how long that took.

Read from the object before and after the change, so each transition counts once, whoever wrote it. What is there when
we first look is no transition.
"""

import re
from datetime import datetime
from typing import Any, Final

from fairway.controllers.metrics.series import Labels, Tally
from fairway.kinds.kind import Manifest

_NOTHING: Final[dict[str, Any]] = {}
_DEACTIVATED: Final = "Deactivated"
_PREEMPTOR_PATH: Final = re.compile(r"preemptor path: (?:/[^/;]*)*/([^/;]+);")
"""Who a workload was preempted for is recorded nowhere but in the words of the condition."""


class Shown:
    """A Workload's conditions, by type."""

    __slots__ = ("conditions", "manifest", "status")

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.status: dict[str, Any] = manifest.get("status") or _NOTHING
        self.conditions: dict[str, dict[str, Any]] = {
            one["type"]: one for one in self.status.get("conditions") or () if one["status"] == "True"
        }
        """Those that are true."""

    @property
    def cluster_queue(self) -> str:
        return str((self.status.get("admission") or _NOTHING).get("clusterQueue", ""))

    @property
    def priority_class(self) -> str:
        return str((self.manifest["spec"].get("priorityClassRef") or _NOTHING).get("name", ""))

    @property
    def local_queue(self) -> Labels:
        return (self.manifest["spec"].get("queueName", ""), self.manifest["metadata"]["namespace"])

    def queued_since(self) -> str:
        """When it was created, or let back into its queue or kept from it."""
        for one in self.status.get("conditions") or ():
            if one["type"] == "Requeued":
                return str(one["lastTransitionTime"])
        return str(self.manifest["metadata"]["creationTimestamp"])


def count(tally: Tally, old: Shown, new: Shown, now: datetime) -> None:
    """Add to the tally what happened between two states of a Workload."""
    before, after = old.conditions, new.conditions
    if "QuotaReserved" in after and "QuotaReserved" not in before:
        _count_with_wait(tally, "quota_reserved_workloads", "quota_reserved_wait_time_seconds", new, now)
    if "Admitted" in after and "Admitted" not in before:
        _count_admission(tally, new, now)
    if "PodsReady" in after and "PodsReady" not in before and after["PodsReady"]["reason"] == "Started":
        _count_readiness(tally, new, now)
    if "Evicted" in after and "Evicted" not in before and new.cluster_queue:
        _count_eviction(tally, old, new)
    if "Preempted" in after and "Preempted" not in before:
        _count_preemption(tally, after["Preempted"])
    if "QuotaReserved" in before and "QuotaReserved" not in after and "Evicted" in after and old.cluster_queue:
        reason, _ = _reason_and_cause(after["Evicted"]["reason"])
        waited = _seconds(after["Evicted"]["lastTransitionTime"], now)
        tally.time("workload_eviction_latency_seconds", (old.cluster_queue, reason), waited)
    if "Finished" in after and "Finished" not in before:
        tally.count("finished_workloads", (new.cluster_queue, new.priority_class))
        tally.count("local_queue_finished_workloads", (*new.local_queue, new.priority_class))


def _count_with_wait(tally: Tally, counter: str, histogram: str, new: Shown, now: datetime) -> None:
    waited = _seconds(new.queued_since(), now)
    queue, local = (new.cluster_queue, new.priority_class), (*new.local_queue, new.priority_class)
    tally.count(counter, queue)
    tally.time(histogram, queue, waited)
    tally.count(f"local_queue_{counter}", local)
    tally.time(f"local_queue_{histogram}", local, waited)


def _count_admission(tally: Tally, new: Shown, now: datetime) -> None:
    _count_with_wait(tally, "admitted_workloads", "admission_wait_time_seconds", new, now)
    reserved = new.conditions.get("QuotaReserved")
    if new.status.get("admissionChecks") and reserved is not None:
        _time(tally, "admission_checks_wait_time_seconds", new, _seconds(reserved["lastTransitionTime"], now))


def _count_readiness(tally: Tally, new: Shown, now: datetime) -> None:
    _time(tally, "ready_wait_time_seconds", new, _seconds(new.queued_since(), now))
    admitted, ready = new.conditions.get("Admitted"), new.conditions["PodsReady"]
    if admitted is not None:
        waited = _seconds(admitted["lastTransitionTime"], datetime.fromisoformat(ready["lastTransitionTime"]))
        _time(tally, "admitted_until_ready_wait_time_seconds", new, waited)


def _count_eviction(tally: Tally, old: Shown, new: Shown) -> None:
    evicted = new.conditions["Evicted"]
    reason, cause = _reason_and_cause(evicted["reason"])
    before, after = _evictions(old), _evictions(new)
    grown = [key for key, times in after.items() if times > before.get(key, 0) and key[0] == reason]
    if grown:
        cause = grown[0][1]
    labels = (reason, cause, new.priority_class)
    tally.count("evicted_workloads", (new.cluster_queue, *labels))
    tally.count("local_queue_evicted_workloads", (*new.local_queue, *labels))
    if grown and grown[0] not in before:
        tally.count("evicted_workloads_once", (new.cluster_queue, *labels))
    ready = new.conditions.get("PodsReady")
    if ready is not None:
        lasted = _seconds(ready["lastTransitionTime"], datetime.fromisoformat(evicted["lastTransitionTime"]))
        tally.time("pods_ready_to_evicted_time_seconds", (new.cluster_queue, reason, cause), lasted)


def _count_preemption(tally: Tally, preempted: dict[str, Any]) -> None:
    preemptor = _PREEMPTOR_PATH.search(preempted["message"])
    if preemptor is not None:
        tally.count("preempted_workloads", (preemptor[1], preempted["reason"]))


def _time(tally: Tally, histogram: str, new: Shown, seconds: float) -> None:
    tally.time(histogram, (new.cluster_queue, new.priority_class), seconds)
    tally.time(f"local_queue_{histogram}", (*new.local_queue, new.priority_class), seconds)


def _reason_and_cause(reason: str) -> tuple[str, str]:
    """`DeactivatedDueToX` is a deactivation, and X its cause."""
    plain, _, cause = reason.partition("DueTo")
    return (plain, cause) if plain == _DEACTIVATED else (reason, "")


def _evictions(shown: Shown) -> dict[tuple[str, str], int]:
    """How often it was evicted, by reason and underlying cause."""
    stats = shown.status.get("schedulingStats") or _NOTHING
    return {(one["reason"], one.get("underlyingCause", "")): one["count"] for one in stats.get("evictions") or ()}


def _seconds(since: str, until: datetime) -> float:
    return (until - datetime.fromisoformat(since)).total_seconds()
