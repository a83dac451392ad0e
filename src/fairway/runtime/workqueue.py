"""Which keys still need work.

Producers add keys, as often as they like; workers take one, look at the state it stands for, and say when they are
done:

- A key that is added while it waits waits once.
- A key is never with two workers. Added while a worker has it, it waits until that worker is done and is handed out
  again, because the worker may have looked before the change.
- A key whose work failed is added with `add_rate_limited`, which waits longer after each failure until `forget`.
- A key that is to be looked at again later is added with `add_after`; of several such wishes the earliest counts.
  A wish for now leaves the one for later as it is; `withdraw` takes it back.

All delayed keys share one timer, which rings for the earliest: thousands of them are wishes for a far future.
Memory is bounded by the number of keys. All methods belong to the one event loop that the workers run on.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

from fairway.errors import FairwayError
from fairway.runtime.backoff import Backoff
from fairway.runtime.clock import Clock, Timer

K = TypeVar("K", bound=Hashable)

_MOST_STALE = 64


class QueueShutDown(FairwayError):
    """The queue was shut down and has nothing more to hand out; the worker can go home."""


class WorkQueue(Generic[K]):
    def __init__(self, clock: Clock, backoff: Backoff | None = None) -> None:
        self._clock = clock
        self._backoff = backoff or Backoff()
        self._ready: deque[K] = deque()
        self._waiting: set[K] = set()
        """Keys that need work: those in `_ready`, and those that wait for their worker to be done."""
        self._processing: set[K] = set()
        self._delayed: dict[K, float] = {}
        """When each delayed key is due."""
        self._due: list[tuple[float, int, K]] = []
        """The same as a heap, with the order of the wishes; also such as were overtaken by an earlier one."""
        self._wishes = 0
        self._timer: tuple[float, Timer] | None = None
        self._failures: dict[K, int] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._shut_down = False

    def __len__(self) -> int:
        """How many keys could be handed out at once; keys in work or delayed do not count."""
        return len(self._ready)

    def add(self, key: K) -> None:
        if self._shut_down or key in self._waiting:
            return
        self._waiting.add(key)
        if key not in self._processing:
            self._offer(key)

    def add_after(self, key: K, seconds: float) -> None:
        if self._shut_down:
            return
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.monotonic() + seconds
        earlier = self._delayed.get(key)
        if earlier is not None and earlier <= due:
            return
        self._delayed[key] = due
        self._wishes += 1
        heapq.heappush(self._due, (due, self._wishes, key))
        if len(self._due) > 2 * len(self._delayed) + _MOST_STALE:
            self._due = [one for one in self._due if self._delayed.get(one[2]) == one[0]]
            heapq.heapify(self._due)
        if self._timer is None or due < self._timer[0]:
            self._wind(due, seconds)

    def withdraw(self, key: K) -> None:
        """Nothing is to be looked at later any more; a wish for now stays."""
        self._delayed.pop(key, None)

    def add_rate_limited(self, key: K) -> None:
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.add_after(key, self._backoff.delay(failures))

    def forget(self, key: K) -> None:
        """The work on this key succeeded: its next failure waits as briefly as a first one."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        return self._failures.get(key, 0)

    async def get(self) -> K:
        """Wait for a key; the caller must call `done`. Raises `QueueShutDown` when there will be no more."""
        while not self._ready:
            if self._shut_down:
                raise QueueShutDown("the queue was shut down")
            getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                self._leave(getter)
                raise
        return self.take()

    def take(self) -> K:
        """The same where there is a key to be handed out."""
        key = self._ready.popleft()
        self._waiting.discard(key)
        self._processing.add(key)
        return key

    def done(self, key: K) -> None:
        if key not in self._processing:
            raise ValueError(f"{key!r} is not being worked on")
        self._processing.discard(key)
        if key in self._waiting:
            self._offer(key)

    def shut_down(self) -> None:
        """Takes no more keys and drops the delayed ones; what is ready is still handed out, then `get` raises."""
        self._shut_down = True
        if self._timer is not None:
            self._timer[1].cancel()
            self._timer = None
        self._delayed.clear()
        self._due.clear()
        while self._getters:
            self._wake_getter()

    def _wind(self, due: float, seconds: float) -> None:
        if self._timer is not None:
            self._timer[1].cancel()
        self._timer = due, self._clock.call_later(seconds, lambda: self._ring(due))

    def _ring(self, due: float) -> None:
        """Add what is due by now; what the timer was set for is, even if it rang a moment too early."""
        self._timer = None
        now = max(due, self._clock.monotonic())
        while self._due:
            moment, _, key = self._due[0]
            if self._delayed.get(key) == moment:
                if moment > now:
                    self._wind(moment, moment - now)
                    return
                del self._delayed[key]
                self.add(key)
            heapq.heappop(self._due)

    def _offer(self, key: K) -> None:
        self._ready.append(key)
        self._wake_getter()

    def _wake_getter(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    def _leave(self, getter: asyncio.Future[None]) -> None:
        """A waiter for a key was cancelled."""
        if getter.cancelled():
            if getter in self._getters:  # unless a key came in the same turn and found it cancelled
                self._getters.remove(getter)
        elif self._ready:  # woken and cancelled in the same turn: another waiter takes the key
            self._wake_getter()
