"""A rate limit in virtual time."""

import asyncio

import pytest

from fairway.runtime.ratelimit import RateLimit
from fairway.testing.clock import VirtualClock


def test_a_burst_passes_at_once_and_the_rest_at_the_rate_in_order() -> None:
    async def story() -> None:
        clock = VirtualClock()
        began = clock.monotonic()
        limit = RateLimit(10, 3, clock)
        passed: list[tuple[int, float]] = []

        async def one(number: int) -> None:
            await limit.wait()
            passed.append((number, round(clock.monotonic() - began, 3)))

        tasks = [asyncio.create_task(one(number)) for number in range(6)]
        await clock.run_for(0.35)
        assert passed == [(0, 0.0), (1, 0.0), (2, 0.0), (3, 0.1), (4, 0.2), (5, 0.3)]
        await clock.run_for(10)
        tasks += [asyncio.create_task(one(number)) for number in range(6, 10)]
        await clock.run_for(1)
        assert [at for _, at in passed[6:]] == [10.35, 10.35, 10.35, 10.45], "a pause fills the bucket, no more"
        await asyncio.gather(*tasks)

    asyncio.run(story())


@pytest.mark.parametrize(("qps", "burst"), [(0, 1), (-1, 1), (1, 0)])
def test_a_limit_that_lets_nothing_through_is_an_error(qps: float, burst: int) -> None:
    with pytest.raises(ValueError, match="a rate limit needs"):
        RateLimit(qps, burst, VirtualClock())
