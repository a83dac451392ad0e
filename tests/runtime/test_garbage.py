"""Garbage: found where there is some, hardly looked for where there is none, and never kept for good."""

import asyncio
import gc
import weakref
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from fairway.runtime import garbage
from fairway.runtime.garbage import BATCH, GarbageKeeper
from fairway.testing.clock import VirtualClock


class BusyClock(VirtualClock):
    """Timers ring late, as where a loop has other things to do."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds + 0.05)


class Ring:
    """Refers to itself, so that only a look at all objects finds out that nobody needs it."""

    def __init__(self) -> None:
        self.itself = self


class Looks:
    """How often Python went through new objects, and through all."""

    def __init__(self) -> None:
        self.at_new = self.at_all = 0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self.at_new += info["generation"] == 0
            self.at_all += info["generation"] == 2


@pytest.fixture
def looks() -> Iterator[Looks]:
    looks = Looks()
    gc.callbacks.append(looks)
    yield looks
    gc.callbacks.remove(looks)
    gc.enable()
    gc.unfreeze()


def kept(clock: VirtualClock, story: Coroutine[Any, Any, None]) -> None:
    """A story while somebody looks after garbage."""

    async def play() -> None:
        keeper = asyncio.create_task(GarbageKeeper(clock).run())
        await clock.run_for(0.1)
        await story
        keeper.cancel()
        await asyncio.gather(keeper, return_exceptions=True)

    asyncio.run(play())


def batch() -> list[list[int]]:
    """New objects that are in use."""
    return [[] for _ in range(BATCH + 1000)]


def lost_ring() -> "weakref.ref[Ring]":
    return weakref.ref(Ring())


def test_a_cycle_that_nobody_needs_is_freed_with_the_first_batch(looks: Looks) -> None:
    clock = BusyClock()

    async def story() -> None:
        lost, held = lost_ring(), batch()
        await clock.run_for(6)
        assert lost() is None
        assert (len(held), looks.at_new) == (BATCH + 1000, 1)

    kept(clock, story())


def test_python_itself_looks_only_before_and_after(looks: Looks) -> None:
    clock = VirtualClock()

    async def story() -> None:
        assert not gc.isenabled()
        held = [batch() for _ in range(3)]
        assert (len(held), looks.at_new) == (3, 0)

    kept(clock, story())
    assert gc.isenabled()


def test_where_nothing_is_found_fewer_and_fewer_batches_are_gone_through(looks: Looks) -> None:
    clock, held = BusyClock(), []

    async def story() -> None:
        for _ in range(1 + 2 + 4 + 8 + 8):
            held.append(batch())
            await clock.run_for(6)
        assert looks.at_new == 5
        assert looks.at_all == 1  # at the start

    kept(clock, story())


def test_garbage_makes_the_next_batches_be_gone_through(looks: Looks) -> None:
    clock, held = BusyClock(), []

    async def story() -> None:
        for number in range(12):
            lost = [lost_ring() for _ in range(BATCH // 10)]
            held.append(batch())
            await clock.run_for(6)
            assert not any(one() for one in lost), number
        assert looks.at_new == 12

    kept(clock, story())


def test_what_was_passed_over_is_gone_through_when_nothing_is_going_on(looks: Looks) -> None:
    clock = VirtualClock()

    async def story() -> None:
        held = [batch()]
        await clock.run_for(6)
        lost = lost_ring()
        held.append(batch())
        await clock.run_for(6)
        assert lost() is not None
        await clock.run_for(20)
        assert lost() is None
        assert (len(held), looks.at_all) == (2, 2)
        await clock.run_for(100)
        assert looks.at_all == 2  # there was nothing new

    kept(clock, story())


def test_one_who_is_never_idle_still_gets_rid_of_it(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(garbage, "_MOST_UNSEEN", 3 * BATCH)
    clock, held, lost = BusyClock(), [batch()], []

    async def story() -> None:
        await clock.run_for(6)
        lost.append(lost_ring())
        for _ in range(3):
            held.append(batch())
            await clock.run_for(6)
        assert lost[0]() is None
        assert looks.at_all == 2

    kept(clock, story())
