"""Group commit: all writes that arrive during one commit go into the next one together.

The event loop forms the batches, one thread commits them. The two meet twice a batch, not once a write: each meeting
costs both a wait for Python's interpreter lock.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, NamedTuple

from fairway.errors import ApiError, StorageFailed, Unavailable
from fairway.store.log import Batch, Log, Row
from fairway.store.memory import MemoryLog


class _Work(NamedTuple):
    rows: list[Row]
    dropped: list[int]
    floor: int


_NOTHING = _Work([], [], 0)


class _Probe(NamedTuple):
    """A write that changes nothing, to see whether writes succeed."""

    work: _Work
    done: "asyncio.Future[None]"


class LogWriter:
    """Owns the log's writing side: one batch at a time, in the order of `submit`. Its methods belong to the event loop.

    `on_done(last_revision, error)` is called after each batch, with the revision up to which all is durable, or with
    what went wrong. After a failure everything submitted meanwhile fails too: it was decided on top of what is now not
    there.
    """

    def __init__(self, log: Log, on_done: Callable[[int, ApiError | None], None]) -> None:
        self._log = log
        self._on_done = on_done
        self._loop = asyncio.get_running_loop()
        self._batches: SimpleQueue[_Work | _Probe | None] = SimpleQueue()
        self._waiting = _Work([], [], 0)
        self._owed = _NOTHING
        """What failed batches should have dropped. It goes with the next one: a later drop without it would bring an
        old state back to life. It is no reason to write by itself, so that a full disk is not asked again and again."""

        self._busy = False
        self._called = False
        self._closing = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._thread: threading.Thread | None = None
        """None for a log in memory, which does not block: its batches are committed in the event loop."""

        if not isinstance(log, MemoryLog):
            self._thread = threading.Thread(target=self._run, name="fairway-writer", daemon=True)
            self._thread.start()

    def submit(self, rows: list[Row], dropped: list[int], floor: int) -> None:
        """Add to the next batch."""
        if self._closing:
            raise Unavailable("the server is shutting down; try again when it is up")
        waiting = self._waiting
        waiting.rows.extend(rows)
        waiting.dropped.extend(dropped)
        if floor > waiting.floor:
            self._waiting = waiting._replace(floor=floor)
        if not self._busy and not self._called:
            # Not at once: the requests that came in together should leave together.
            self._called = True
            self._idle.clear()
            self._loop.call_soon(self._submit_batch)

    def probe(self) -> "asyncio.Future[None]":
        """Write without changing anything; done when that is durable, or with what went wrong."""
        if self._closing:
            raise Unavailable("the server is shutting down; try again when it is up")
        done = self._loop.create_future()
        self._hand_over(_Probe(_Work([], [], 1), done))
        return done

    def give_up_waiting(self) -> None:
        """Forget what is not yet being written: called after a failure, before the waiters get it."""
        self._owe(self._waiting)
        self._waiting = _Work([], [], 0)

    async def close(self) -> None:
        """Commit what waits, then end."""
        self._closing = True
        await self._idle.wait()
        if self._thread is not None:
            self._batches.put(None)
            await asyncio.to_thread(self._thread.join)

    def _owe(self, work: _Work) -> None:
        self._owed = _Work([], self._owed.dropped + work.dropped, max(self._owed.floor, work.floor))

    def _submit_batch(self) -> None:
        self._called = False
        work, owed = self._waiting, self._owed
        if not work.rows and not work.dropped:
            self._idle.set()
            return
        self._busy = True
        self._waiting, self._owed = _Work([], [], 0), _NOTHING
        self._hand_over(_Work(work.rows, owed.dropped + work.dropped, max(owed.floor, work.floor)))

    def _hand_over(self, work: _Work | _Probe) -> None:
        if self._thread is None:
            self._loop.call_soon(*self._commit(work))
        else:
            self._batches.put(work)

    def _finish(self, work: _Work, error: ApiError | None) -> None:
        self._busy = False
        if error is not None:
            self._owe(work)
        try:
            self._on_done(work.rows[-1].revision if work.rows else 0, error)
        finally:
            self._submit_batch()

    def _run(self) -> None:
        """The thread: commit what it is handed until there is no more."""
        while (work := self._batches.get()) is not None:
            try:
                self._loop.call_soon_threadsafe(*self._commit(work))
            except RuntimeError:  # the loop is gone, and with it everybody who waits
                return

    def _commit(self, work: _Work | _Probe) -> tuple[Any, ...]:
        """Commit; what to call in the event loop afterwards."""
        if isinstance(work, _Probe):
            return _finish_probe, work.done, self._append(work.work)
        return self._finish, work, self._append(work)

    def _append(self, work: _Work) -> ApiError | None:
        try:
            self._log.append(Batch(*work))
        except ApiError as refused:
            return refused
        except Exception as failed:  # noqa: BLE001 - every failure must reach the waiters
            return StorageFailed(f"the write failed unexpectedly: {failed}")
        return None


def _finish_probe(done: "asyncio.Future[None]", error: ApiError | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
