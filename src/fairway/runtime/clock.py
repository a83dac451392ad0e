"""Time as something that is handed in.

Whatever waits takes a `Clock`, so that tests and the simulator run hours of back-off in milliseconds on
`fairway.testing.clock.VirtualClock`. Nothing outside this module and that one asks the system for the time.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol


class Timer(Protocol):
    """A callback that is still to come."""

    def cancel(self) -> None: ...


class Clock(Protocol):
    """What time it is, and how to wait for a later one."""

    def now(self) -> datetime:
        """The time of day, aware, in UTC; it may jump when the system's clock is set."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        """Calls back on the event loop once `seconds` have passed, unless the timer is cancelled before."""
        ...


class SystemClock:
    """The machine's own time, on the running event loop."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def call_later(self, seconds: float, callback: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(seconds, callback)
