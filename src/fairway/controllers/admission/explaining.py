"""When to say why a workload waits.

Reasons change with every try, and under load there are thousands of tries a second. So an explanation waits a moment,
as the workload may be admitted before anybody reads it; only the latest counts, at most one a second is written for a
workload; and while there are admissions to write, hardly any are.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Final

from fairway.admission.reasons import Explanation
from fairway.runtime.clock import Clock, Timer

_SETTLE_SECONDS: Final = 0.1
_APART_SECONDS: Final = 1.0
_TICK_SECONDS: Final = 0.05
_MOST_WHEN_IDLE: Final = 16
_MOST_WHEN_BUSY: Final = 2


class Explanations:
    """Those that are still to be written. One without reasons asks for chores only."""

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        """`ring` is called when something may be due."""
        self._clock = clock
        self._ring = ring
        self._waiting: dict[str, Explanation | None] = {}
        self._order: list[tuple[float, int, str]] = []
        self._sequence = count()
        self._said: dict[str, float] = {}
        self._timer: Timer | None = None

    def put(self, key: str, explanation: Explanation | None) -> None:
        """Say this of a workload, instead of what was to be said."""
        if key in self._waiting:
            if explanation is not None:
                self._waiting[key] = explanation
            return
        self._waiting[key] = explanation
        now = self._clock.monotonic()
        due = max(now + _SETTLE_SECONDS, self._said.get(key, now - _APART_SECONDS) + _APART_SECONDS)
        heappush(self._order, (due, next(self._sequence), key))
        self._wind(due - now)

    def drop(self, key: str) -> None:
        """There is nothing to say of this workload any more."""
        self._waiting.pop(key, None)
        self._said.pop(key, None)

    def clear(self) -> None:
        self._waiting.clear()
        self._order.clear()
        self._said.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def due(self, *, idle: bool) -> list[tuple[str, Explanation | None]]:
        """A few that are due, earliest first."""
        now = self._clock.monotonic()
        if self._timer is not None:
            return []
        most = _MOST_WHEN_IDLE if idle else _MOST_WHEN_BUSY
        found: list[tuple[str, Explanation | None]] = []
        while self._order and len(found) < most and self._order[0][0] <= now:
            _, _, key = heappop(self._order)
            if key in self._waiting:
                self._said[key] = now
                found.append((key, self._waiting.pop(key)))
        if self._order:
            self._wind(max(_TICK_SECONDS, self._order[0][0] - now))
        return found

    def _wind(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self._clock.call_later(seconds, self._rung)

    def _rung(self) -> None:
        self._timer = None
        self._ring()
