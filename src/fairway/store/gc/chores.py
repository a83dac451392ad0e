"""A queue of keys, processed by one task."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Hashable
from itertools import islice
from typing import Generic, TypeVar

from fairway.errors import ApiError, Conflict, FairwayError, NotFound
from fairway.runtime.slices import Slices

_log = logging.getLogger(__name__)
_PAUSE_SECONDS = 1.0
_AT_ONCE = 32

Chore = TypeVar("Chore", bound=Hashable)


class Chores(Generic[Chore]):
    """Hands each chore to `do` in the order they came; one that is added twice before its turn is done once."""

    def __init__(
        self, do: Callable[[Chore], Awaitable[None]], settled: Callable[[], Awaitable[None]], slices: Slices
    ) -> None:
        """`settled` waits until what is on its way to the disk is there: a conflict is with a state yet to be seen."""
        self._do = do
        self._settled = settled
        self._slices = slices
        self._waiting: dict[Chore, None] = {}
        self._more = asyncio.Event()

    def add(self, chore: Chore) -> None:
        self._waiting[chore] = None
        self._more.set()

    async def run(self) -> None:
        """Work until cancelled. What fails is tried again: after a conflict soon, else after a pause.

        Several are done at the same time, so that what they write is committed together.
        """
        while True:
            await self._slices.turn()  # a long list must not keep everybody else from running
            await self._more.wait()
            if not self._waiting:
                self._more.clear()
                continue
            some = list(islice(self._waiting, _AT_ONCE))
            for chore in some:
                del self._waiting[chore]
            if len(some) == 1:
                await self._attempt(some[0])
            else:
                await asyncio.gather(*map(self._attempt, some))

    async def _attempt(self, chore: Chore) -> None:
        try:
            await self._do(chore)
        except NotFound:
            return  # another write was faster
        except Conflict:
            self.add(chore)
            with contextlib.suppress(ApiError):
                await self._settled()
        except FairwayError as error:
            _log.warning("%s: %s; retrying", chore, error)
            self.add(chore)
            await asyncio.sleep(_PAUSE_SECONDS)
