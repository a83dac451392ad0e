"""Group commit: whatever waits while one commit is on its way to the disk goes into the next one together."""

import asyncio
import threading
from collections.abc import Callable
from typing import NamedTuple

from fairway.errors import ApiError, StorageFailed, Unavailable
from fairway.store.log import Batch, Log, Row


class _Work(NamedTuple):
    rows: list[Row]
    dropped: list[int]
    floor: int


class Writer:
    """Owns the log's writing side: one thread, one batch at a time, in the order of `submit`.

    `on_done(last_revision, error)` is called in the event loop after each batch, with the revision up to which all is
    durable, or with what went wrong. After a failure everything submitted meanwhile fails too: it was decided on top of
    what is now not there.
    """

    def __init__(self, log: Log, on_done: Callable[[int, ApiError | None], None]) -> None:
        self._log = log
        self._on_done = on_done
        self._loop = asyncio.get_running_loop()
        self._wakeup = threading.Condition(threading.Lock())
        self._work = _Work([], [], 0)
        self._owed = _Work([], [], 0)
        """What failed batches should have dropped. It goes with the next one: a later drop without it would bring an
        old state back to life. It is no reason to write by itself, so that a full disk is not asked again and again."""

        self._closing = False
        self._thread = threading.Thread(target=self._run, name="fairway-writer", daemon=True)
        self._thread.start()

    def submit(self, rows: list[Row], dropped: list[int], floor: int) -> None:
        """Add to the next batch."""
        with self._wakeup:
            if self._closing:
                raise Unavailable("the server is shutting down; try again when it is up")
            work = self._work
            work.rows.extend(rows)
            work.dropped.extend(dropped)
            self._work = _Work(work.rows, work.dropped, max(floor, work.floor))
            self._wakeup.notify()

    def give_up_waiting(self) -> None:
        """Forget what is not yet on its way: called in the loop after a failure, before anybody is told."""
        with self._wakeup:
            self._owe(self._work)
            self._work = _Work([], [], 0)

    def _owe(self, work: _Work) -> None:
        self._owed = _Work([], self._owed.dropped + work.dropped, max(self._owed.floor, work.floor))

    async def close(self) -> None:
        """Commit what waits, then end."""
        with self._wakeup:
            self._closing = True
            self._wakeup.notify()
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        while (work := self._next()) is not None:
            error: ApiError | None = None
            try:
                self._log.append(Batch(*work))
            except ApiError as refused:
                error = refused
            except Exception as failed:  # noqa: BLE001 - whatever it is, the writers that wait must hear of it
                error = StorageFailed(f"the write failed unexpectedly: {failed}")
            if error:
                with self._wakeup:
                    self._owe(work)
            done = threading.Event()
            last = work.rows[-1].revision if work.rows else 0
            try:
                self._loop.call_soon_threadsafe(self._finish, last, error, done if error else None)
            except RuntimeError:  # the loop is gone, and with it everybody who waits
                return
            if error:
                done.wait()  # nothing more is committed until the loop has taken back what failed

    def _finish(self, last: int, error: ApiError | None, done: threading.Event | None) -> None:
        try:
            self._on_done(last, error)
        finally:
            if done:
                done.set()

    def _next(self) -> _Work | None:
        with self._wakeup:
            while not (self._work.rows or self._work.dropped or self._closing):
                self._wakeup.wait()
            work = self._work
            if not work.rows and not work.dropped:
                return None
            owed = self._owed
            self._work, self._owed = _Work([], [], 0), _Work([], [], 0)
            return _Work(work.rows, owed.dropped + work.dropped, max(owed.floor, work.floor))
