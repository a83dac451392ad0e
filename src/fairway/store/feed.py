"""The recent changes of one resource, and its watchers.

A watcher holds no buffer of its own, only a place in the feed: a thousand of them cost what one does, and one that is
too slow finds its place gone (`Expired`) instead of filling memory.
"""

import asyncio
from bisect import bisect_right
from operator import attrgetter

from fairway.errors import Expired
from fairway.store.entries import Change

_revision = attrgetter("entry.revision")


class Feed:
    """The changes of one resource that are still remembered, oldest first."""

    def __init__(self, floor: int) -> None:
        self.floor = floor
        """The highest revision of this resource that was dropped: a watch cannot start at or below an earlier one."""

        self._changes: list[Change] = []
        self._forgotten = 0
        self._waiting: set[asyncio.Future[None]] = set()

    @property
    def end(self) -> int:
        """The place after the newest change."""
        return self._forgotten + len(self._changes)

    def append(self, change: Change) -> None:
        self._changes.append(change)

    def wake(self) -> None:
        """Tell everybody who waits that there is something new."""
        waiting, self._waiting = self._waiting, set()
        for one in waiting:
            if not one.done():
                one.set_result(None)

    def forget(self, count: int) -> None:
        """Drop the oldest changes."""
        if count:
            self.floor = self._changes[count - 1].revision
            del self._changes[:count]
            self._forgotten += count

    def place_after(self, revision: int) -> int:
        """Where a watcher starts that has seen everything up to a revision."""
        if revision < self.floor:
            raise Expired(f"too old resource version: {revision} ({self.floor})")
        return self._forgotten + bisect_right(self._changes, revision, key=_revision)

    def since(self, place: int, limit: int) -> list[Change]:
        """The changes from a place on, at most so many."""
        start = place - self._forgotten
        if start < 0:
            raise Expired("too slow: the changes that come next are no longer remembered; list again, then watch")
        return self._changes[start : start + limit]

    def newer_than(self, revision: int) -> list[Change]:
        """All changes after a revision, oldest first."""
        return self._changes[self.place_after(revision) - self._forgotten :]

    async def more(self, place: int) -> None:
        """Wait until there is something at this place."""
        if place < self.end:
            return
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            await waiter
        finally:
            self._waiting.discard(waiter)


class Watch:
    """One watcher's place in a feed."""

    def __init__(self, feed: Feed, place: int) -> None:
        self._feed = feed
        self._place = place

    async def next(self, limit: int = 1000) -> list[Change]:
        """The changes that come next, at least one; `Expired` if the watcher was too slow for them."""
        await self._feed.more(self._place)
        return self.ready(limit)

    @property
    def is_behind(self) -> bool:
        """Whether there are changes that it has not taken yet."""
        return self._place < self._feed.end

    def ready(self, limit: int = 1000) -> list[Change]:
        """The changes that are there already, perhaps none."""
        changes = self._feed.since(self._place, limit)
        self._place += len(changes)
        return changes
