"""Time that passes only when a test says so."""

import asyncio
from datetime import UTC, datetime, timedelta

from fairway.runtime.clock import SystemClock
from fairway.testing.clock import VirtualClock


def test_the_system_clock_is_aware_and_does_not_go_back() -> None:
    clock = SystemClock()

    assert clock.now().utcoffset() == timedelta(0)
    assert clock.monotonic() <= clock.monotonic()


def test_the_system_clock_calls_back_on_the_running_loop() -> None:
    async def scenario() -> list[str]:
        clock, calls = SystemClock(), list[str]()
        clock.call_later(0, lambda: calls.append("kept"))
        clock.call_later(0, lambda: calls.append("cancelled")).cancel()
        await clock.sleep(0.001)
        return calls

    assert asyncio.run(scenario()) == ["kept"]


def test_timers_run_in_the_order_of_their_times_and_see_their_own_time() -> None:
    clock, calls = VirtualClock(), list[tuple[str, float]]()

    def note(name: str) -> None:
        calls.append((name, clock.monotonic()))

    clock.call_later(2, lambda: note("second"))
    clock.call_later(1, lambda: note("first"))
    clock.call_later(2, lambda: note("set later for the same time"))
    clock.call_later(5, lambda: note("not yet due"))
    clock.call_later(1, lambda: note("cancelled")).cancel()
    clock.advance(3)

    assert calls == [("first", 1.0), ("second", 2.0), ("set later for the same time", 2.0)]
    assert clock.monotonic() == 3.0
    assert clock.next_due() == 2.0


def test_a_timer_set_by_a_timer_runs_in_the_same_stretch() -> None:
    clock, calls = VirtualClock(), list[float]()

    def again() -> None:
        calls.append(clock.monotonic())
        clock.call_later(1, again)

    clock.call_later(1, again)
    clock.advance(3.5)

    assert calls == [1.0, 2.0, 3.0]


def test_the_time_of_day_moves_with_it() -> None:
    clock = VirtualClock(datetime(2026, 2, 28, 23, 59, tzinfo=UTC))
    clock.advance(60)

    assert clock.now() == datetime(2026, 3, 1, tzinfo=UTC)


def test_tasks_that_sleep_again_and_again_are_woken_in_one_stretch() -> None:
    async def scenario() -> list[tuple[str, float]]:
        clock, woken = VirtualClock(), list[tuple[str, float]]()

        async def sleeper(name: str, seconds: float) -> None:
            while True:
                await clock.sleep(seconds)
                woken.append((name, clock.monotonic()))

        tasks = [asyncio.create_task(sleeper("slow", 2)), asyncio.create_task(sleeper("quick", 1.5))]
        await clock.run_for(4.5)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert clock.next_due() is None  # a cancelled sleep leaves no timer behind
        return woken

    assert asyncio.run(scenario()) == [("quick", 1.5), ("slow", 2.0), ("quick", 3.0), ("slow", 4.0), ("quick", 4.5)]
