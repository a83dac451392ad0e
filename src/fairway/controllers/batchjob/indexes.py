"""Sets of completion indexes, kept as intervals: a job may have a hundred thousand of them.

Written as Kubernetes writes them: `1,3-5,7`, and two neighbours as `1,2`.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator

from msgspec import Struct

Interval = tuple[int, int]
"""The first and the last index of a run."""


class Indexes(Struct, frozen=True):
    """Indexes in order, neighbours joined."""

    intervals: tuple[Interval, ...] = ()

    @classmethod
    def read(cls, text: str | None, completions: int) -> "Indexes":
        """The set that a text names, without what a job of so many completions does not have and what is no index."""
        found: list[Interval] = []
        for part in (text or "").split(",") if text else ():
            first, _, last = part.partition("-")
            if first.isdigit() and (last or first).isdigit() and int(first) < completions:
                found.append((int(first), min(int(last or first), completions - 1)))
        return cls(_joined(found))

    def __str__(self) -> str:
        return ",".join(
            str(first) if first == last else f"{first}{',' if last == first + 1 else '-'}{last}"
            for first, last in self.intervals
        )

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.intervals)

    def __contains__(self, index: int) -> bool:
        at = bisect_left(self.intervals, index, key=lambda interval: interval[1])
        return at < len(self.intervals) and self.intervals[at][0] <= index

    def with_indexes(self, indexes: Iterable[int]) -> "Indexes":
        """These and those."""
        more = [(index, index) for index in indexes]
        return Indexes(_joined([*self.intervals, *more])) if more else self

    def joined(self, other: "Indexes") -> "Indexes":
        return Indexes(_joined([*self.intervals, *other.intervals]))

    def shared_with(self, other: "Indexes") -> int:
        """How many indexes are in both."""
        return len(self) + len(other) - len(self.joined(other))

    def missing(self, completions: int) -> Iterator[int]:
        """The indexes of a job that are not in here, in order."""
        candidate = 0
        for first, last in self.intervals:
            yield from range(candidate, min(first, completions))
            candidate = last + 1
        yield from range(candidate, completions)


def _joined(intervals: list[Interval]) -> tuple[Interval, ...]:
    joined: list[Interval] = []
    for first, last in sorted(intervals):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return tuple(joined)
