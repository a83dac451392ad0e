"""Counters and histograms as plain numbers, each series under its labels; and the metrics that are kept.

Names and labels are Kueue's. Every series also has the label `replica_role`, which is always `standalone` here.
"""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final, NamedTuple

PREFIX: Final = "kueue_"
ROLE: Final = "standalone"

BUCKETS: Final = (1.0, *(2.5 * 2**step for step in range(13)))
"""The bounds of all times, in seconds."""

_QUEUE: Final = ("cluster_queue",)
_BY_PRIORITY: Final = ("cluster_queue", "priority_class")
_LOCAL: Final = ("name", "namespace")
_LOCAL_BY_PRIORITY: Final = ("name", "namespace", "priority_class")
_EVICTION: Final = ("cluster_queue", "reason", "underlying_cause", "priority_class")
_QUOTA: Final = ("cohort", "cluster_queue", "flavor", "resource")
_COHORT_QUOTA: Final = ("cohort", "flavor", "resource")
Labels = tuple[str, ...]
_NOTHING: Final[dict[Labels, float]] = {}


class Family(NamedTuple):
    help: str
    labels: tuple[str, ...]


COUNTERS: Final = {
    "admission_attempts": Family("Scheduling cycles of a tree of cohorts, by whether they admitted any.", ("result",)),
    "quota_reserved_workloads": Family("Workloads that got quota.", _BY_PRIORITY),
    "admitted_workloads": Family("Workloads that were admitted.", _BY_PRIORITY),
    "finished_workloads": Family("Workloads that finished.", _BY_PRIORITY),
    "evicted_workloads": Family("Evictions, each one counted.", _EVICTION),
    "evicted_workloads_once": Family("Workloads that were evicted for a reason for the first time.", _EVICTION),
    "preempted_workloads": Family(
        "Workloads that were preempted, by the queue that got their quota.", ("preempting_cluster_queue", "reason")
    ),
    "cohort_subtree_admitted_workloads": Family(
        "Workloads that were admitted anywhere below a cohort.", ("cohort", "priority_class")
    ),
    "local_queue_quota_reserved_workloads": Family("Workloads that got quota.", _LOCAL_BY_PRIORITY),
    "local_queue_admitted_workloads": Family("Workloads that were admitted.", _LOCAL_BY_PRIORITY),
    "local_queue_finished_workloads": Family("Workloads that finished.", _LOCAL_BY_PRIORITY),
    "local_queue_evicted_workloads": Family("Evictions, each one counted.", (*_LOCAL, *_EVICTION[1:])),
}

HISTOGRAMS: Final = {
    "quota_reserved_wait_time_seconds": Family("From creation or requeueing to quota.", _BY_PRIORITY),
    "admission_wait_time_seconds": Family("From creation or requeueing to admission.", _BY_PRIORITY),
    "admission_checks_wait_time_seconds": Family("From quota to admission, where there are checks.", _BY_PRIORITY),
    "ready_wait_time_seconds": Family("From creation or requeueing to ready pods.", _BY_PRIORITY),
    "admitted_until_ready_wait_time_seconds": Family("From admission to ready pods.", _BY_PRIORITY),
    "pods_ready_to_evicted_time_seconds": Family("From ready pods to the eviction.", _EVICTION[:3]),
    "workload_eviction_latency_seconds": Family("From an eviction to the release of the quota.", _EVICTION[:2]),
    "local_queue_quota_reserved_wait_time_seconds": Family("From creation or requeueing to quota.", _LOCAL_BY_PRIORITY),
    "local_queue_admission_wait_time_seconds": Family("From creation or requeueing to admission.", _LOCAL_BY_PRIORITY),
    "pod_scheduling_gate_removal_seconds": Family(
        "From the admission of a workload to a pod without its gate.", ("cluster_queue", "name", "is_group")
    ),
    "local_queue_admission_checks_wait_time_seconds": Family(
        "From quota to admission, where there are checks.", _LOCAL_BY_PRIORITY
    ),
    "local_queue_ready_wait_time_seconds": Family("From creation or requeueing to ready pods.", _LOCAL_BY_PRIORITY),
    "local_queue_admitted_until_ready_wait_time_seconds": Family("From admission to ready pods.", _LOCAL_BY_PRIORITY),
}

GAUGES: Final = {
    "pending_workloads": Family("Workloads that wait.", ("cluster_queue", "status")),
    "reserving_active_workloads": Family("Workloads that hold quota.", _QUEUE),
    "admitted_active_workloads": Family("Workloads that are admitted and not finished.", _QUEUE),
    "finished_workloads": Family("Finished workloads that are still stored.", _QUEUE),
    "cluster_queue_status": Family(
        "1 for what a queue is: pending, active or terminating.", ("cluster_queue", "status")
    ),
    "cluster_queue_info": Family("Where a queue is.", ("cluster_queue", "parent_cohort", "root_cohort")),
    "cluster_queue_nominal_quota": Family("What a queue may use by itself.", _QUOTA),
    "cluster_queue_borrowing_limit": Family("How much it may borrow; +Inf if nothing says.", _QUOTA),
    "cluster_queue_lending_limit": Family("How much it may lend; +Inf if nothing says.", _QUOTA),
    "cluster_queue_resource_reservation": Family("What is reserved.", _QUOTA),
    "cluster_queue_resource_usage": Family("What admitted workloads use.", _QUOTA),
    "cluster_queue_resource_pending": Family("What waiting workloads ask for.", ("cluster_queue", "resource")),
    "cluster_queue_weighted_share": Family("How far it is beyond its own quota.", ("cluster_queue", "cohort")),
    "cohort_info": Family("Where a cohort is.", ("cohort", "parent_cohort", "root_cohort")),
    "cohort_weighted_share": Family("How far it is beyond its own quota.", ("cohort",)),
    "cohort_subtree_quota": Family("All quota below a cohort.", _COHORT_QUOTA),
    "cohort_subtree_resource_reservations": Family("All that is reserved below a cohort.", _COHORT_QUOTA),
    "cohort_subtree_admitted_active_workloads": Family("Admitted workloads below a cohort.", ("cohort",)),
    "local_queue_pending_workloads": Family("Workloads that wait.", (*_LOCAL, "status")),
    "local_queue_reserving_active_workloads": Family("Workloads that hold quota.", _LOCAL),
    "local_queue_admitted_active_workloads": Family("Workloads that are admitted and not finished.", _LOCAL),
    "local_queue_finished_workloads": Family("Finished workloads that are still stored.", _LOCAL),
    "local_queue_status": Family("1 for what its condition Active says.", (*_LOCAL, "active")),
    "local_queue_resource_reservation": Family("What is reserved.", (*_LOCAL, "flavor", "resource")),
    "local_queue_resource_usage": Family("What admitted workloads use.", (*_LOCAL, "flavor", "resource")),
    "local_queue_admission_fair_sharing_usage": Family("What it used lately, weighted.", (*_LOCAL, "cluster_queue")),
}


class Histogram:
    """How often, and how long in all and by bucket."""

    __slots__ = ("buckets", "count", "total")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BUCKETS) + 1)
        self.count = 0
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        self.buckets[bisect_left(BUCKETS, seconds)] += 1
        self.count += 1
        self.total += seconds

    def add(self, other: "Histogram") -> None:
        """Everything that another one observed."""
        self.buckets = [one + more for one, more in zip(self.buckets, other.buckets, strict=True)]
        self.count += other.count
        self.total += other.total

    def cumulative(self) -> Iterator[tuple[str, float]]:
        total = 0
        for bound, count in zip((*map(str, BUCKETS), "+Inf"), self.buckets, strict=True):
            total += count
            yield bound, total


class Tally:
    """Everything that was counted and timed, by the name of the metric."""

    def __init__(self) -> None:
        self.counts: dict[str, dict[Labels, float]] = {}
        self.times: dict[str, dict[Labels, Histogram]] = {}

    def count(self, name: str, labels: Labels, times: int = 1) -> None:
        series = self.counts.get(name)
        if series is None:
            series = self.counts[name] = {}
        series[labels] = series.get(labels, 0) + times

    def time(self, name: str, labels: Labels, seconds: float) -> None:
        self._timed(name, labels).observe(max(0.0, seconds))

    def add_times(self, name: str, labels: Labels, times: Histogram) -> None:
        self._timed(name, labels).add(times)

    def _timed(self, name: str, labels: Labels) -> Histogram:
        series = self.times.get(name)
        if series is None:
            series = self.times[name] = {}
        found = series.get(labels)
        if found is None:
            found = series[labels] = Histogram()
        return found

    def forget(self, name: str, first_labels: Labels) -> None:
        """Drop the series of a metric whose labels begin like this: what they are about is gone."""
        for series in (self.counts.get(name), self.times.get(name)):
            if series is not None:
                for labels in [one for one in series if one[: len(first_labels)] == first_labels]:
                    del series[labels]

    def counted(self, name: str, labels: Labels) -> float:
        return self.counts.get(name, _NOTHING).get(labels, 0)
