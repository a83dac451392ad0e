"""How long a job will run: from what its owner declared and what jobs like it took before.

`Durations` keeps the last run times by name, user and queue; `Estimate` is what is known of one job, and gives its run
time for a number between 0 and 1, so that a future can be drawn, or the middle one taken.
"""

from __future__ import annotations

import re
from bisect import bisect_right, insort
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

ASSUMED_SECONDS: Final = 3600.0
"""The run time of a job that nothing is known of."""

BASES: Final = ("declared", "name", "user", "queue", "all", "")
"""What an estimate rests on, from the best to the weakest: the owner's word, jobs of the same name, user and queue, of
the same user and queue, of the same queue, any jobs, nothing.
"""

NOTHING_KNOWN: Final = ""
_MOST_SAMPLES: Final = 50
_MOST_KEYS: Final = 4096
_ENOUGH: Final = 3
"""So many run times of a kind are needed before they count more than those of a larger circle."""

_DIGITS: Final = re.compile(r"\d+")
_LONGEST_TAIL: Final = 0.95


class Estimate(Struct, frozen=True, gc=False):
    """What is known of how long one job runs."""

    samples: tuple[float, ...] = ()
    """Run times of jobs like it, in ascending order."""

    basis: str = NOTHING_KNOWN
    declared: float | None = None

    def seconds(self, draw: float, elapsed: float = 0.0) -> float:
        """The whole run time for a number between 0 and 1, of a job that has run for `elapsed` already."""
        if self.samples:
            longer = self.samples[bisect_right(self.samples, elapsed) :] if elapsed else self.samples
            # One that outlasts all others is as likely as not to run for as long again.
            found = _quantile(longer, draw) if longer else elapsed / (1.0 - min(draw, _LONGEST_TAIL))
        elif self.declared is not None:
            found = self.declared * min(1.0, 2.0 * draw)
        else:
            found = max(ASSUMED_SECONDS, elapsed / (1.0 - min(draw, _LONGEST_TAIL)))
        if self.declared is not None:
            found = min(found, self.declared)
        return max(found, elapsed)


def _quantile(ordered: Sequence[float], draw: float) -> float:
    place = draw * (len(ordered) - 1)
    low = int(place)
    if low + 1 >= len(ordered):
        return ordered[-1]
    return ordered[low] + (ordered[low + 1] - ordered[low]) * (place - low)


class _Samples:
    """The last run times of one kind of job."""

    __slots__ = ("_order", "_sorted", "_tuple")

    def __init__(self) -> None:
        self._order: deque[float] = deque()
        self._sorted: list[float] = []
        self._tuple: tuple[float, ...] | None = None

    def add(self, seconds: float) -> None:
        self._order.append(seconds)
        insort(self._sorted, seconds)
        if len(self._order) > _MOST_SAMPLES:
            del self._sorted[bisect_right(self._sorted, self._order.popleft()) - 1]
        self._tuple = None

    @property
    def values(self) -> tuple[float, ...]:
        if self._tuple is None:
            self._tuple = tuple(self._sorted)
        return self._tuple

    def __len__(self) -> int:
        return len(self._sorted)


class Durations:
    """Run times of ended jobs, bounded: the last 50 of each kind, of the kinds that were seen last."""

    def __init__(self) -> None:
        self._samples: OrderedDict[tuple[str, ...], _Samples] = OrderedDict()
        self.count = 0
        """How many were added in all."""

    def add(self, name: str, user: str, queue: str, seconds: float) -> None:
        """A job like that ran for so long."""
        self.count += 1
        for _, key in _circles(name, user, queue):
            samples = self._samples.get(key)
            if samples is None:
                samples = self._samples[key] = _Samples()
                if len(self._samples) > _MOST_KEYS:
                    self._samples.popitem(last=False)
            self._samples.move_to_end(key)
            samples.add(max(0.0, seconds))

    def estimate(self, name: str, user: str, queue: str, declared: float | None = None) -> Estimate:
        """What is known of a job: jobs of its name, then its owner's word, then what is farther away."""
        few: Estimate | None = None
        for basis, key in _circles(name, user, queue):
            samples = self._samples.get(key)
            if samples:
                found = Estimate(samples.values, basis, declared)
                if len(samples) >= _ENOUGH:
                    return found
                few = few or found
            if basis == "name" and declared is not None:
                return few or Estimate((), "declared", declared)
        return few or Estimate((), NOTHING_KNOWN, declared)


def _circles(name: str, user: str, queue: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The kinds that a job belongs to, from the narrowest. Jobs of a sweep differ in numbers only."""
    purpose = _DIGITS.sub("#", name)
    return ("name", (purpose, user, queue)), ("user", (user, queue)), ("queue", (queue,)), ("all", ())
