"""What a change of a Workload is worth counting: conditions that became true, and how long that took.

Read from the object before and after the change, so each transition counts once, for any writer. What is there when
we first look is no transition.

What happens most, that a Workload gets quota and is admitted at once and that it finishes, is counted by queue: all
series of it grow together, and get their share when they are asked for.
"""

import re
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any, Final, NamedTuple

from fairway.apis.machinery.kind import Manifest
from fairway.controllers.metrics.series import Histogram, Labels, Tally

_NOTHING: Final[dict[str, Any]] = {}
_DEACTIVATED: Final = "Deactivated"
_PREEMPTOR_PATH: Final = re.compile(r"preemptor path: (?:/[^/;]*)*/([^/;]+);")
"""Who a workload was preempted for is recorded nowhere but in the words of the condition."""


class _Names(NamedTuple):
    """A metric of ClusterQueues, and the same one of LocalQueues."""

    of_queue: str
    of_local_queue: str


def _names(name: str) -> _Names:
    return _Names(name, f"local_queue_{name}")


RESERVED: Final = _names("quota_reserved_workloads")
RESERVED_AFTER: Final = _names("quota_reserved_wait_time_seconds")
ADMITTED: Final = _names("admitted_workloads")
ADMITTED_AFTER: Final = _names("admission_wait_time_seconds")
_CHECKED_AFTER: Final = _names("admission_checks_wait_time_seconds")
_READY_AFTER: Final = _names("ready_wait_time_seconds")
_STARTED_AFTER: Final = _names("admitted_until_ready_wait_time_seconds")
FINISHED: Final = _names("finished_workloads")


class WorkloadView:
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


def count(
    tally: Tally, before: Collection[str], old: Manifest, new: WorkloadView, now: datetime, queued_in: str = ""
) -> None:
    """Add to the tally what happened between two states of a Workload: nothing, where the same conditions are true.

    `before` are the types of those that were, `queued_in` is the ClusterQueue of one without an admission.
    """
    after = new.conditions
    reserved = "QuotaReserved" in after and "QuotaReserved" not in before
    admitted = "Admitted" in after and "Admitted" not in before
    if reserved or admitted:
        _count_admission(tally, new, now, reserved=reserved, admitted=admitted)
    if "PodsReady" in after and "PodsReady" not in before and after["PodsReady"]["reason"] == "Started":
        _count_readiness(tally, new, now)
    if "Evicted" in after and "Evicted" not in before and new.cluster_queue:
        _count_eviction(tally, WorkloadView(old), new)
    if "Preempted" in after and "Preempted" not in before:
        _count_preemption(tally, after["Preempted"])
    if "QuotaReserved" in before and "QuotaReserved" not in after and "Evicted" in after:
        _time_release(tally, WorkloadView(old).cluster_queue, after["Evicted"], now)
    if "Finished" in after and "Finished" not in before:
        queue, local = _labels(new)
        tally.count(FINISHED.of_queue, (queue[0] or queued_in, *queue[1:]))
        tally.count(FINISHED.of_local_queue, local)


def _count_admission(tally: Tally, new: WorkloadView, now: datetime, *, reserved: bool, admitted: bool) -> None:
    """Mostly both come at once, and so after the same time."""
    waited = seconds(new.queued_since(), now)
    queue, local = _labels(new)
    for happened, counter, histogram in (
        (reserved, RESERVED, RESERVED_AFTER),
        (admitted, ADMITTED, ADMITTED_AFTER),
    ):
        if happened:
            tally.count(counter.of_queue, queue)
            tally.time(histogram.of_queue, queue, waited)
            tally.count(counter.of_local_queue, local)
            tally.time(histogram.of_local_queue, local, waited)
    if admitted and new.status.get("admissionChecks") and "QuotaReserved" in new.conditions:
        since = new.conditions["QuotaReserved"]["lastTransitionTime"]
        _time(tally, _CHECKED_AFTER, new, seconds(since, now))


def _count_readiness(tally: Tally, new: WorkloadView, now: datetime) -> None:
    _time(tally, _READY_AFTER, new, seconds(new.queued_since(), now))
    admitted, ready = new.conditions.get("Admitted"), new.conditions["PodsReady"]
    if admitted is not None:
        waited = seconds(admitted["lastTransitionTime"], datetime.fromisoformat(ready["lastTransitionTime"]))
        _time(tally, _STARTED_AFTER, new, waited)


def _count_eviction(tally: Tally, old: WorkloadView, new: WorkloadView) -> None:
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
        lasted = seconds(ready["lastTransitionTime"], datetime.fromisoformat(evicted["lastTransitionTime"]))
        tally.time("pods_ready_to_evicted_time_seconds", (new.cluster_queue, reason, cause), lasted)


def _time_release(tally: Tally, cluster_queue: str, evicted: dict[str, Any], now: datetime) -> None:
    if cluster_queue:
        reason, _ = _reason_and_cause(evicted["reason"])
        waited = seconds(evicted["lastTransitionTime"], now)
        tally.time("workload_eviction_latency_seconds", (cluster_queue, reason), waited)


def _count_preemption(tally: Tally, preempted: dict[str, Any]) -> None:
    preemptor = _PREEMPTOR_PATH.search(preempted["message"])
    if preemptor is not None:
        tally.count("preempted_workloads", (preemptor[1], preempted["reason"]))


def _time(tally: Tally, histogram: _Names, new: WorkloadView, seconds: float) -> None:
    queue, local = _labels(new)
    tally.time(histogram.of_queue, queue, seconds)
    tally.time(histogram.of_local_queue, local, seconds)


def _labels(shown: WorkloadView) -> tuple[Labels, Labels]:
    """Its ClusterQueue and its LocalQueue, each with its priority class."""
    priority_class = shown.priority_class
    return (shown.cluster_queue, priority_class), (*shown.local_queue, priority_class)


def _reason_and_cause(reason: str) -> tuple[str, str]:
    """`DeactivatedDueToX` is a deactivation, and X its cause."""
    plain, _, cause = reason.partition("DueTo")
    return (plain, cause) if plain == _DEACTIVATED else (reason, "")


def _evictions(shown: WorkloadView) -> dict[tuple[str, str], int]:
    """How often it was evicted, by reason and underlying cause."""
    stats = shown.status.get("schedulingStats") or _NOTHING
    return {(one["reason"], one.get("underlyingCause", "")): one["count"] for one in stats.get("evictions") or ()}


def seconds(since: str, until: datetime) -> float:
    return (until - datetime.fromisoformat(since)).total_seconds()


class QueuePlace:
    """A ClusterQueue, a LocalQueue and a priority class."""

    __slots__ = ("_cohorts", "_ends", "_local", "_queue", "_waits", "kept")

    def __init__(self, cluster_queue: str, local_queue: Labels, priority_class: str) -> None:
        self._queue = (cluster_queue, priority_class)
        self._local = (*local_queue, priority_class)
        self._cohorts: tuple[str, ...] = ()
        self._waits = Histogram()
        """How long those waited who got quota and were admitted at once, and are in no series yet."""

        self._ends = 0
        self.kept: int | None = None
        """How many finished Workloads are still stored; `None` if there never was one."""

    @property
    def cluster_queue(self) -> str:
        return self._queue[0]

    @property
    def local_queue(self) -> Labels:
        return self._local[:-1]

    def admitted(self, waited: float, cohorts: tuple[str, ...], tally: Tally) -> None:
        """One got quota and was admitted, below these cohorts."""
        if cohorts != self._cohorts:
            self.settle(tally)
            self._cohorts = cohorts
        self._waits.observe(max(0.0, waited))

    def finished(self) -> None:
        """One that was counted up to now has finished."""
        self._ends += 1

    def keep(self) -> None:
        """A finished one is stored."""
        self.kept = (self.kept or 0) + 1

    def let_go(self) -> None:
        """One that was kept is not stored any more, or not finished."""
        self.kept = (self.kept or 0) - 1

    def settle(self, tally: Tally) -> None:
        """Bring what was counted here to the series."""
        waits, ends = self._waits, self._ends
        if waits.count:
            self._waits = Histogram()
            for counter, histogram in ((RESERVED, RESERVED_AFTER), (ADMITTED, ADMITTED_AFTER)):
                tally.count(counter.of_queue, self._queue, waits.count)
                tally.count(counter.of_local_queue, self._local, waits.count)
                tally.add_times(histogram.of_queue, self._queue, waits)
                tally.add_times(histogram.of_local_queue, self._local, waits)
            for cohort in self._cohorts:
                tally.count("cohort_subtree_admitted_workloads", (cohort, self._queue[1]), waits.count)
        if ends:
            self._ends = 0
            tally.count(FINISHED.of_queue, self._queue, ends)
            tally.count(FINISHED.of_local_queue, self._local, ends)


class QueueTallies:
    """All of them, each made when something first happens there."""

    def __init__(self, queued_in: Callable[[Manifest], str] = lambda _: "") -> None:
        """`queued_in` gives the ClusterQueue of a Workload without an admission."""
        self._queued_in = queued_in
        self._places: dict[tuple[str, str, str, str], QueuePlace] = {}

    def of(self, workload: Manifest) -> QueuePlace:
        spec = workload["spec"]
        admission = (workload.get("status") or _NOTHING).get("admission") or _NOTHING
        namespace, local_queue = workload["metadata"]["namespace"], spec.get("queueName", "")
        cluster_queue = admission.get("clusterQueue") or self._queued_in(workload)
        priority_class = (spec.get("priorityClassRef") or _NOTHING).get("name", "")
        where = (cluster_queue, local_queue, namespace, priority_class)
        place = self._places.get(where)
        if place is None:
            place = self._places[where] = QueuePlace(cluster_queue, (local_queue, namespace), priority_class)
        return place

    def settle(self, tally: Tally) -> None:
        """Bring everything that was counted to the series."""
        for place in self._places.values():
            place.settle(tally)

    def kept(self) -> tuple[dict[str, int], dict[Labels, int]]:
        """How many finished Workloads are still stored, by ClusterQueue and by LocalQueue; none, where there were."""
        by_queue: dict[str, int] = {}
        by_local_queue: dict[Labels, int] = {}
        for place in self._places.values():
            if place.kept is not None:
                by_queue[place.cluster_queue] = by_queue.get(place.cluster_queue, 0) + place.kept
                by_local_queue[place.local_queue] = by_local_queue.get(place.local_queue, 0) + place.kept
        return by_queue, by_local_queue
