"""A list of things to look at, each once, by one task."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from fairway.errors import ApiError, Conflict, FairwayError, NotFound

_log = logging.getLogger(__name__)
_PAUSE_SECONDS = 1.0

Chore = TypeVar("Chore", bound=Hashable)


class Chores(Generic[Chore]):
    """Hands each chore to `do` in the order they came; one that is added twice before its turn is done once."""

    def __init__(self, do: Callable[[Chore], Awaitable[None]], settled: Callable[[], Awaitable[None]]) -> None:
        """`settled` waits until what is on its way to the disk is there: a conflict is with a state yet to be seen."""
        self._do = do
        self._settled = settled
        self._waiting: dict[Chore, None] = {}
        self._more = asyncio.Event()

    def add(self, chore: Chore) -> None:
        self._waiting[chore] = None
        self._more.set()

    async def run(self) -> None:
        """Work until cancelled. What fails is tried again: after a conflict soon, else after a pause."""
        while True:
            await asyncio.sleep(0)  # a long list must not keep everybody else from running
            await self._more.wait()
            if not self._waiting:
                self._more.clear()
                continue
            chore = next(iter(self._waiting))
            del self._waiting[chore]
            try:
                await self._do(chore)
            except NotFound:
                continue  # somebody else was faster
            except Conflict:
                self.add(chore)
                with contextlib.suppress(ApiError):
                    await self._settled()
            except FairwayError as error:
                _log.warning("%s: %s; trying again", chore, error)
                self.add(chore)
                await asyncio.sleep(_PAUSE_SECONDS)
