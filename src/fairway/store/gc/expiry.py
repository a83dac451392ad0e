"""Expiry of Events: an hour after the last occurrence, and beyond a maximum number."""

import asyncio
import heapq
from collections.abc import Callable
from datetime import UTC, datetime

from fairway.errors import ApiError
from fairway.store.entries import DELETED, Change, Entry, Key
from fairway.store.verbs import Objects

EVENTS = "events"
LIFETIME_SECONDS = 3600.0
MOST_EVENTS = 20_000


class EventExpiry:
    """Deletes events when their time has come."""

    def __init__(
        self,
        objects: Objects,
        *,
        lifetime: float = LIFETIME_SECONDS,
        most: int = MOST_EVENTS,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        self._objects = objects
        self._store = objects.store
        self._lifetime = lifetime
        self._most = most
        self._now = now or objects.now
        self._due: list[tuple[float, Key, int]] = []
        self._more = asyncio.Event()
        kind = objects.registry.by_kind("", "Event")
        if kind is None:
            raise ValueError("the registry has no kind Event")
        self._kind = kind
        for entry in self._store.collection(EVENTS).entries.values():
            self._note(entry, _created(entry) or self._now().timestamp())
        self._store.observe(self._observe)

    async def run(self) -> None:
        """Delete what is due until cancelled."""
        while True:
            self._more.clear()  # before the look: what comes meanwhile is looked at once more
            await self.delete_due()
            wait = self._due[0][0] - self._now().timestamp() if self._due else None
            try:
                async with asyncio.timeout(wait):
                    await self._more.wait()
            except TimeoutError:
                continue

    async def delete_due(self) -> None:
        """Delete what is due now, and the oldest of too many."""
        now = self._now().timestamp()
        entries = self._store.collection(EVENTS).entries
        doomed: list[Key] = []
        while self._due and (self._due[0][0] <= now or len(entries) - len(doomed) > self._most):
            _, key, revision = heapq.heappop(self._due)
            entry = entries.get(key)
            if entry is not None and entry.revision == revision:
                doomed.append(key)
        outcomes = await asyncio.gather(
            *(self._objects.delete(self._kind, key) for key in doomed), return_exceptions=True
        )
        for key, outcome in zip(doomed, outcomes, strict=True):
            entry = entries.get(key)
            if isinstance(outcome, ApiError) and entry is not None:
                self._note(entry, now - self._lifetime + 60)  # could not be written now; once more in a minute

    def _observe(self, change: Change) -> None:
        if change.entry.resource == EVENTS and change.type != DELETED:
            self._note(change.entry, self._now().timestamp())
            if len(self._store.collection(EVENTS).entries) > self._most or len(self._due) == 1:
                self._more.set()

    def _note(self, entry: Entry, happened: float) -> None:
        heapq.heappush(self._due, (happened + self._lifetime, entry.key, entry.revision))


def _created(entry: Entry) -> float | None:
    stamp = entry.meta.creation_timestamp
    if not stamp:
        return None
    try:
        return datetime.fromisoformat(stamp).astimezone(UTC).timestamp()
    except ValueError:
        return None
