"""Long work takes turns, a slice at a time; short work is never kept waiting."""

import asyncio

from fairway.runtime.slices import Slices


def test_short_work_runs_at_once() -> None:
    async def story() -> None:
        work = Slices(seconds=3600).begin()
        assert not work.is_over
        assert work.pauses == 0

    asyncio.run(story())


def test_all_long_work_together_takes_one_slice_to_a_turn_of_the_loop() -> None:
    slices = Slices(seconds=0)
    done: list[str] = []

    async def work(name: str) -> None:
        piece = slices.begin()
        for _ in range(5):
            done.append(name)
            assert piece.is_over
            await piece.pause()

    async def story() -> None:
        tasks = [asyncio.create_task(work(name)) for name in "abc"]
        await asyncio.sleep(0)
        assert done == ["a", "b", "c"], "the first slice of each runs at once"
        for _ in range(30):
            before = len(done)
            await asyncio.sleep(0)
            assert len(done) <= before + 1, "more than one slice in one turn"
        await asyncio.gather(*tasks)

    asyncio.run(story())
    assert done == [*"abc"] * 5, "first come, first served"


def test_who_gives_up_does_not_hold_up_the_others() -> None:
    slices = Slices(seconds=0)

    async def story() -> None:
        first, second = asyncio.create_task(slices.turn()), asyncio.create_task(slices.turn())
        await asyncio.sleep(0)
        first.cancel()
        async with asyncio.timeout(10):
            await second
            await slices.turn()

    asyncio.run(story())
