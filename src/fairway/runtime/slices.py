"""Long work cut into slices, so that nothing else on the event loop waits for it.

    work = slices.begin()
    for item in items:
        handle(item)
        if work.is_over:
            await work.pause()

The first slice of a piece of work runs at once: most work ends within it and costs one look at the clock an item. All
later slices take turns, one to a turn of the loop, however many pieces of work there are: between two of them every
other callback and every socket is served.
"""

import asyncio
from collections import deque
from time import perf_counter
from typing import Final

SLICE_SECONDS: Final = 0.010


class Slices:
    """The turns that all long work of one event loop shares."""

    def __init__(self, seconds: float = SLICE_SECONDS) -> None:
        self.seconds = seconds
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_granting = False

    def begin(self) -> "Slice":
        """A new piece of work."""
        return Slice(self)

    async def turn(self) -> None:
        """Wait for the next slice; first come, first served."""
        loop = asyncio.get_running_loop()
        turn = loop.create_future()
        self._waiting.append(turn)
        if not self._is_granting:
            self._is_granting = True
            loop.call_soon(self._grant)
        await turn

    def _grant(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                break
        self._is_granting = bool(self._waiting)
        if self._is_granting:
            asyncio.get_running_loop().call_soon(self._grant)


class Slice:
    """The current slice of one piece of work."""

    __slots__ = ("_ends", "_slices", "pauses")

    def __init__(self, slices: Slices) -> None:
        self._slices = slices
        self._ends = perf_counter() + slices.seconds
        self.pauses = 0
        """How often it has let others run."""

    @property
    def is_over(self) -> bool:
        """Whether it is time to pause."""
        return perf_counter() >= self._ends

    async def pause(self) -> None:
        """Let everything else run, then continue with a new slice."""
        self.pauses += 1
        await self._slices.turn()
        self._ends = perf_counter() + self._slices.seconds
