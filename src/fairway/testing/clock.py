"""Time that passes only when a test says so."""

import asyncio
import heapq
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

LONG_ENOUGH_TO_SETTLE = 20
"""How many turns of the event loop tasks get to react to a timer: awaits that wait for nothing else take one each."""


class VirtualTimer:
    """A callback on a `VirtualClock`."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        self.callback = None


class VirtualClock:
    """A `fairway.runtime.clock.Clock` that stands still until it is moved.

    Timers run in the order of their times, and those of the same time in the order in which they were set, each seeing
    exactly its own time on the clock.
    """

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._start = start
        self._elapsed = 0.0
        self._timers: list[tuple[float, int, VirtualTimer]] = []
        self._set = 0

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def wake() -> None:
            if not woken.done():
                woken.set_result(None)

        timer = self.call_later(seconds, wake)
        try:
            await woken
        finally:
            timer.cancel()

    def call_later(self, seconds: float, callback: Callable[[], object]) -> VirtualTimer:
        timer = VirtualTimer(callback)
        self._set += 1
        heapq.heappush(self._timers, (self._elapsed + max(0.0, seconds), self._set, timer))
        return timer

    def next_due(self) -> float | None:
        """How many seconds until the next timer, or `None` if none is set."""
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        return self._timers[0][0] - self._elapsed if self._timers else None

    def advance(self, seconds: float) -> None:
        """Moves on and runs every timer that falls due, also those that are set by these timers.

        Tasks that wake up by it run only when the caller next awaits; where they set timers of their own that fall into
        the same stretch, use `run_for`.
        """
        end = self._elapsed + seconds
        while self._run_next(end):
            pass
        self._elapsed = end

    async def run_for(self, seconds: float) -> None:
        """Like `advance`, but lets tasks react to each timer before the clock moves on."""
        end = self._elapsed + seconds
        await settle()
        while self._run_next(end):
            await settle()
        self._elapsed = end

    def _run_next(self, end: float) -> bool:
        due = self.next_due()
        if due is None or self._elapsed + due > end:
            return False
        at, _, timer = heapq.heappop(self._timers)
        self._elapsed = max(self._elapsed, at)
        if timer.callback is not None:
            timer.callback()
        return True


async def settle() -> None:
    """Lets every task that can run do so, as far as it goes without time passing or I/O."""
    for _ in range(LONG_ENOUGH_TO_SETTLE):
        await asyncio.sleep(0)
