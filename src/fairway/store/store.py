"""The store: objects, recent changes, and group commit.

All of it lives in the event loop, but for the commits. A write is *staged* first: it gets its revision, and the writes
after it are decided on top of it. When its batch is durable it becomes visible: to readers, then to watchers, then its
author gets its result. If the batch fails, everything staged is rolled back.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from fairway.errors import ApiError, TooManyRequests, Unavailable
from fairway.store.collection import Collection
from fairway.store.entries import ADDED, DELETED, MODIFIED, Change, Entry, Key
from fairway.store.feed import Watch
from fairway.store.log import Log, Row, UnusableFileError
from fairway.store.writer import LogWriter

_log = logging.getLogger(__name__)

MAX_STAGED: Final = 20_000
"""The limit of writes that wait for the disk; beyond it a write is refused with 429."""

_WRITABLE_SECONDS: Final = 5.0
"""For so long after a commit it is taken for granted that writes succeed."""

_PROBE_SECONDS: Final = 2.0


class History(NamedTuple):
    """How much of the past is kept for watchers and paging lists."""

    changes: int = 20_000
    data_bytes: int = 64 << 20


class _Staged(NamedTuple):
    """Changes on their way to the disk, and one future for each waiter, so that a cancelled waiter
    does not affect the others."""

    changes: Sequence[Change]
    waiting: list[asyncio.Future[None]]


class Store:
    """Objects by resource and key, with their recent history, on a revision log."""

    def __init__(self, log: Log, history: History | None = None) -> None:
        self._log = log
        self._history = history or History()
        self._collections: dict[str, Collection] = {}
        self._heads: dict[tuple[str, Key], tuple[Entry | None, int]] = {}
        self._staged: deque[_Staged] = deque()
        self._remembered: deque[tuple[str, Change]] = deque()
        self._remembered_bytes = 0
        self._garbage: list[int] = []
        self._observers: list[Callable[[Change], None]] = []
        self._writer: LogWriter | None = None
        self._floor = log.floor()
        self.revision = log.last()
        """The newest revision that is durable and visible."""

        self._staged_revision = self.revision
        self._written_at = -_WRITABLE_SECONDS
        self._write_error: ApiError | None = None
        self._load()

    async def start(self) -> None:
        """Begin to take writes."""
        self._loop = asyncio.get_running_loop()
        self._writer = LogWriter(self._log, self._committed)
        if self._garbage:
            self._writer.submit([], self._garbage, self._floor)
            self._garbage = []

    def observe(self, observer: Callable[[Change], None]) -> None:
        """Call this with every change once it is durable, in order; it must neither block nor fail."""
        self._observers.append(observer)

    async def close(self) -> None:
        """Commit what is staged and let go of the log."""
        if self._writer is not None:
            await self._writer.close()
            self._writer = None
        self._log.close()

    # Reading

    def collection(self, resource: str) -> Collection:
        """The durable objects of a resource."""
        found = self._collections.get(resource)
        if found is None:
            found = self._collections[resource] = Collection(self._floor)
        return found

    def get(self, resource: str, key: Key) -> Entry | None:
        """The newest durable state of an object."""
        collection = self._collections.get(resource)
        return collection.entries.get(key) if collection is not None else None

    def head(self, resource: str, key: Key) -> Entry | None:
        """The newest state of an object, durable or on its way there: what a write is decided on."""
        staged = self._heads.get((resource, key))
        return staged[0] if staged is not None else self.get(resource, key)

    def watch(self, resource: str, since: int) -> Watch:
        """The changes of a resource after a revision; `Expired` if they are no longer known."""
        feed = self.collection(resource).feed
        return Watch(feed, feed.place_after(since))

    def counts(self) -> dict[str, int]:
        """How many objects of each resource there are."""
        return {name: len(collection) for name, collection in self._collections.items()}

    # Writing

    @property
    def next_revision(self) -> int:
        """The revision that the next staged change gets."""
        return self._staged_revision + 1

    def check_room(self) -> None:
        """`TooManyRequests` while more writes wait than the disk keeps up with."""
        if len(self._staged) >= MAX_STAGED:
            raise TooManyRequests("too many writes wait for the disk; try again in a second")

    def stage(self, changes: Sequence[Change]) -> asyncio.Future[None]:
        """Send changes to the disk, all or none; done when they are durable and visible.

        Their entries carry `next_revision` and the revisions after it, in order.
        """
        if self._writer is None:
            raise Unavailable("the store is not running")
        rows = []
        for change in changes:
            entry = change.entry
            rows.append(Row(entry.revision, entry.resource, *entry.key, change.type == DELETED, entry.data))
        self._writer.submit(rows, *self._forget_old())
        for change in changes:
            entry = change.entry
            self._heads[entry.resource, entry.key] = (None if change.type == DELETED else entry, entry.revision)
        self._staged_revision = rows[-1].revision
        done = self._loop.create_future()
        self._staged.append(_Staged(changes, [done]))
        return done

    async def check_writable(self) -> None:
        """Raise what keeps writes from succeeding; a write is tried unless one has just gone well."""
        if self._writer is None:
            raise Unavailable("the store is not running")
        if self._write_error is None and self._loop.time() - self._written_at < _WRITABLE_SECONDS:
            return
        try:
            async with asyncio.timeout(_PROBE_SECONDS):
                await self._writer.probe()
        except TimeoutError:
            raise Unavailable(f"a write has not reached the disk for {_PROBE_SECONDS:g} seconds") from None
        except ApiError as error:
            self._note_written(error)
            raise
        self._note_written(None)

    def _note_written(self, error: ApiError | None) -> None:
        if error is None:
            self._written_at = self._loop.time()
            if self._write_error is not None:
                _log.info("writes succeed again")
        elif self._write_error is None:
            _log.error("writes fail: %s", error)
        self._write_error = error

    def settling(self) -> asyncio.Future[None] | None:
        """Done when everything staged so far is durable; its failure is raised there too. `None` if nothing is."""
        if not self._staged:
            return None
        done = self._loop.create_future()
        self._staged[-1].waiting.append(done)
        return done

    async def settled(self) -> None:
        """Wait until everything staged so far is durable; its failure is raised here too."""
        settling = self.settling()
        if settling is not None:
            await settling

    def _committed(self, last: int, error: ApiError | None) -> None:
        self._note_written(error)
        if error is not None:
            self._take_back(error)
            return
        touched: set[str] = set()
        done: list[asyncio.Future[None]] = []
        staged, observers = self._staged, self._observers
        while staged and staged[0].changes[-1].entry.revision <= last:
            changes, waiting = staged.popleft()
            for change in changes:
                self._show(change)
                touched.add(change.entry.resource)
                for observer in observers:
                    observer(change)
            done += waiting
        for resource in touched:
            self._collections[resource].feed.wake()
        for future in done:
            if not future.done():
                future.set_result(None)

    def _show(self, change: Change) -> None:
        entry = change.entry
        if change.previous is not None:
            change.previous.shared = None
        resource, revision = entry.resource, entry.revision
        collection = self.collection(resource)
        collection.apply(change)
        collection.feed.append(change)
        self._remember(resource, change)
        self.revision = revision
        place = (resource, entry.key)
        staged = self._heads.get(place)
        if staged is not None and staged[1] == revision:
            del self._heads[place]

    def _take_back(self, error: ApiError) -> None:
        if self._writer is not None:
            self._writer.give_up_waiting()
        self._heads.clear()
        staged, self._staged = self._staged, deque()
        for _, waiting in staged:
            for future in waiting:
                if not future.done():
                    future.set_exception(error)
                    future.exception()  # the waiter may have been cancelled

    # History

    def _remember(self, resource: str, change: Change) -> None:
        self._remembered.append((resource, change))
        self._remembered_bytes += len(change.entry.data)

    def _forget_old(self) -> tuple[list[int], int]:
        """Drop history beyond its limits; the revisions whose rows are no longer needed, and the new floor."""
        if len(self._remembered) <= self._history.changes and self._remembered_bytes <= self._history.data_bytes:
            return [], 0
        counts: dict[str, int] = {}
        dropped: list[int] = []
        # A tenth at a time, so that the cost is shared by many writes.
        while (
            len(self._remembered) > self._history.changes * 0.9
            or self._remembered_bytes > self._history.data_bytes * 0.9
        ) and self._remembered:
            resource, change = self._remembered.popleft()
            self._remembered_bytes -= len(change.entry.data)
            counts[resource] = counts.get(resource, 0) + 1
            self._floor = change.revision
            dropped += _unneeded(change)
        for resource, count in counts.items():
            self._collections[resource].feed.forget(count)
        return dropped, self._floor

    def _load(self) -> None:
        found: dict[str, dict[Key, Entry]] = {}
        recent: list[Change] = []
        for revision, resource, namespace, name, deleted, data in self._log.rows():
            entries = found.setdefault(resource, {})
            key = (namespace, name)
            previous = entries.get(key)
            entry = _loaded(resource, key, revision, data)
            if deleted:
                entries.pop(key, None)
            else:
                entries[key] = entry
            change = Change(DELETED if deleted else MODIFIED if previous is not None else ADDED, entry, previous)
            if revision > self._floor:
                recent.append(change)
            else:
                self._garbage += _unneeded(change)  # left behind by a batch that failed
        for resource, entries in found.items():
            self.collection(resource).fill(entries)
        for change in recent:
            self.collection(change.entry.resource).feed.append(change)
            self._remember(change.entry.resource, change)


def _loaded(resource: str, key: Key, revision: int, data: bytes) -> Entry:
    """The entry of a row, which must at least look like an object: reading all of it would take too long at a start."""
    if not (data.startswith(b"{") and data.endswith(b"}")):
        raise UnusableFileError(
            f"revision {revision} ({resource} {'/'.join(key)}) is damaged. Move the state aside and restore a backup "
            "(`fairway backup` makes them)."
        )
    return Entry(resource, key, revision, data)


def _unneeded(change: Change) -> list[int]:
    """The rows that no reader can request once a change is dropped: what it replaced, and its own if it deleted."""
    revisions = [change.previous.revision] if change.previous is not None else []
    if change.type == DELETED:
        revisions.append(change.revision)
    return revisions
