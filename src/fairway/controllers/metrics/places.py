"""What happens most to Workloads, counted by where they are: that they get quota and are admitted at once, and that
they finish.

All series that tell of these grow together, so each is counted once, and the series get their share when somebody asks
for them. What happens seldom goes to them at once (`transitions.py`).
"""

from typing import Any, Final

from fairway.apis.machinery.kind import Manifest
from fairway.controllers.metrics.series import Histogram, Labels, Tally
from fairway.controllers.metrics.transitions import ADMITTED, ADMITTED_AFTER, FINISHED, RESERVED, RESERVED_AFTER

_NOTHING: Final[dict[str, Any]] = {}


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

    def __init__(self) -> None:
        self._places: dict[tuple[str, str, str, str], QueuePlace] = {}

    def of(self, workload: Manifest) -> QueuePlace:
        spec = workload["spec"]
        admission = (workload.get("status") or _NOTHING).get("admission") or _NOTHING
        cluster_queue, local_queue = admission.get("clusterQueue", ""), spec.get("queueName", "")
        namespace = workload["metadata"]["namespace"]
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
