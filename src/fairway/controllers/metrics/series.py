"""Counters and histograms as plain numbers, each series under its labels."""

from bisect import bisect_left
from collections.abc import Iterator
from typing import Final

from fairway.controllers.metrics.families import BUCKETS

Labels = tuple[str, ...]


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


_NOTHING: Final[dict[Labels, float]] = {}


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
