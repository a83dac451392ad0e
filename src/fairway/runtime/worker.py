"""Workers on a queue of keys: each key is looked at by one of them, and again when it asks for it or failed.

    worker = Worker("jobs", clock, reconcile, parallel=16)
    cache.on_change(lambda old, new: worker.add(key_of(new or old)))
    await worker.run()

`reconcile` brings the world in line with what a key stands for, however often it is called. It returns `None`, or the
number of seconds after which it wants to look again. Whatever it raises of Fairway's own errors is tried again: soon
after a conflict, with a growing back-off otherwise.
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

    def withdraw(self, key: K) -> None:
        """Cancel later checks of this key."""
        self._queue.withdraw(key)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._parallel):
                group.create_task(self._work())

    async def _work(self) -> None:
        queue, reconcile = self._queue, self._reconcile
        while True:
            try:
                key = queue.take() if queue else await queue.get()
            except QueueShutDown:
                return
            try:
                again = await reconcile(key)
            except Exception as error:  # noqa: BLE001 - a mistake in one object's case must not stop the work on all others
                self._try_again(key, error)
            else:
                queue.forget(key)
                if again is not None:
                    queue.add_after(key, again)
            finally:
                queue.done(key)

    def _try_again(self, key: K, error: Exception) -> None:
        if isinstance(error, Conflict):
            self._queue.add_after(key, _SOON_SECONDS)
            return
        if isinstance(error, NotFound):
            _log.debug("%s %s: %s; retrying", self._name, key, error)
        elif isinstance(error, FairwayError):
            _log.warning("%s %s: %s; retrying", self._name, key, error)
        else:
            _log.error("%s %s: failed; retrying", self._name, key, exc_info=error)
        self._queue.add_rate_limited(key)
