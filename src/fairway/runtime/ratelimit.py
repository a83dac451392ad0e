"""A token bucket: so many a second, more at once after a pause."""

from fairway.runtime.clock import Clock


class RateLimit:
    """Lets `burst` through at once and `qps` a second after that, in the order of the calls."""

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError(f"a rate limit needs qps > 0 and burst >= 1, not qps={qps:g}, burst={burst}")
        self._interval = 1.0 / qps
        self._ahead = (burst - 1) * self._interval
        self._clock = clock
        self._due = 0.0
        """When the next one would be let through without a burst."""

    async def wait(self) -> None:
        """Return when one more may pass."""
        now = self._clock.monotonic()
        due = max(self._due, now)
        self._due = due + self._interval
        if due - now > self._ahead:
            await self._clock.sleep(due - now - self._ahead)
