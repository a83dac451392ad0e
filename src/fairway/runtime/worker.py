"""Workers on a queue of keys: each key is looked at by one of them, and again when it asks for it or failed.

    worker = Worker("jobs", clock, reconcile, parallel=16)
    cache.on_change(lambda old, new: worker.add(key_of(new or old)))
    await worker.run()

`reconcile` brings the world in line with what a key stands for, however often it is called. It returns `None`, or the
number of seconds after which it wants to look again. Whatever it raises of Fairway's own errors is tried again: soon
where somebody else wrote first, later and later otherwise.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from fairway.errors import Conflict, FairwayError, NotFound
from fairway.runtime.backoff import Backoff
from fairway.runtime.clock import Clock
from fairway.runtime.workqueue import QueueShutDown, WorkQueue

_log = logging.getLogger(__name__)
_SOON_SECONDS = 0.005

K = TypeVar("K", bound=Hashable)


class Worker(Generic[K]):
    """Runs `reconcile` for every key that was added, at most `parallel` at a time and never twice for one key."""

    def __init__(
        self,
        name: str,
        clock: Clock,
        reconcile: Callable[[K], Awaitable[float | None]],
        *,
        parallel: int = 16,
        backoff: Backoff | None = None,
    ) -> None:
        self._name = name
        self._reconcile = reconcile
        self._parallel = parallel
        self._queue: WorkQueue[K] = WorkQueue(clock, backoff)

    def add(self, key: K) -> None:
        """Look at this key."""
        self._queue.add(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Look at this key then; of several such wishes the earliest counts."""
        self._queue.add_after(key, seconds)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._parallel):
                group.create_task(self._work())

    async def _work(self) -> None:
        while True:
            try:
                key = await self._queue.get()
            except QueueShutDown:
                return
            try:
                await self._look_at(key)
            finally:
                self._queue.done(key)

    async def _look_at(self, key: K) -> None:
        queue = self._queue
        try:
            again = await self._reconcile(key)
        except Conflict:
            queue.add_after(key, _SOON_SECONDS)
        except NotFound as error:
            _log.debug("%s %s: %s; looking again", self._name, key, error)
            queue.add_rate_limited(key)
        except FairwayError as error:
            _log.warning("%s %s: %s; trying again", self._name, key, error)
            queue.add_rate_limited(key)
        except Exception:  # noqa: BLE001 - a mistake in one object's case must not stop the work on all others
            _log.exception("%s %s: failed; trying again", self._name, key)
            queue.add_rate_limited(key)
        else:
            queue.forget(key)
            if again is not None:
                queue.add_after(key, again)
