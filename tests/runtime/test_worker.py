"""Workers: every key is looked at, again when it wants or failed, never twice at once."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from fairway.errors import Conflict, NotFound, Unavailable
from fairway.runtime.worker import Worker
from fairway.testing.clock import VirtualClock


class Log:
    """Looks at keys and notes when; fails as it is told to."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.looked: list[tuple[str, float]] = []
        self.failures: dict[str, list[Exception]] = {}
        self.again: dict[str, float] = {}

    async def reconcile(self, key: str) -> float | None:
        self.looked.append((key, round(self.clock.monotonic(), 3)))
        failures = self.failures.get(key)
        if failures:
            raise failures.pop(0)
        return self.again.pop(key, None)


@asynccontextmanager
async def working(worker: Worker[str]) -> AsyncIterator[None]:
    task = asyncio.create_task(worker.run())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    ("error", "want_seconds"),
    [
        pytest.param(Conflict("somebody was faster"), 0.005, id="soon when somebody else wrote first"),
        pytest.param(NotFound("not there yet"), 0.005, id="after a moment when something is not there"),
        pytest.param(Unavailable("the store is busy"), 0.005, id="after a moment when the store refuses"),
        pytest.param(KeyError("a mistake"), 0.005, id="after a moment when it is a mistake of ours"),
    ],
)
def test_a_key_whose_work_failed_is_tried_again(
    error: Exception, want_seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        clock = VirtualClock()
        log = Log(clock)
        log.failures["a"] = [error]
        worker = Worker("tester", clock, log.reconcile, parallel=2)
        async with working(worker):
            worker.add("a")
            worker.add("b")
            await clock.run_for(5)
        assert [key for key, _ in log.looked] == ["a", "b", "a"]
        assert log.looked[-1][1] >= want_seconds

    with caplog.at_level(logging.CRITICAL):
        asyncio.run(story())


def test_a_key_that_wants_to_be_looked_at_later_is() -> None:
    async def story() -> None:
        clock = VirtualClock()
        log = Log(clock)
        log.again["a"] = 30.0
        worker = Worker("tester", clock, log.reconcile)
        async with working(worker):
            worker.add("a")
            worker.add_after("b", 10.0)
            await clock.run_for(60)
        assert log.looked == [("a", 0.0), ("b", 10.0), ("a", 30.0)]

    asyncio.run(story())


def test_a_look_that_was_wished_for_later_can_be_taken_back() -> None:
    async def story() -> None:
        clock = VirtualClock()
        log = Log(clock)
        log.again["a"] = 30.0
        worker = Worker("tester", clock, log.reconcile)
        async with working(worker):
            worker.add("a")
            worker.add_after("b", 10.0)
            await clock.run_for(5)
            worker.withdraw("a")
            await clock.run_for(60)
        assert log.looked == [("a", 0.0), ("b", 10.0)]

    asyncio.run(story())


def test_no_key_is_with_two_workers() -> None:
    async def story() -> None:
        clock = VirtualClock()
        busy: set[int] = set()
        most = 0

        async def reconcile(key: int) -> None:
            nonlocal most
            assert key not in busy
            busy.add(key)
            most = max(most, len(busy))
            await asyncio.sleep(0)
            busy.remove(key)

        worker = Worker("tester", clock, reconcile, parallel=4)
        task = asyncio.create_task(worker.run())
        for turn in range(50):
            worker.add(turn % 7)
            await asyncio.sleep(0)
        await clock.run_for(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert 1 < most <= 4

    asyncio.run(story())
