"""Boats: the simplest objects that the store takes, written below the verbs."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fairway.store.entries import ADDED, DELETED, MODIFIED, Change, Entry, Key
from fairway.store.log import Batch, Log
from fairway.store.store import History, Store
from fairway.testing.stores import PATIENCE_SECONDS, OpenLog, UnreliableLog

BOATS = "boats"
CREWS = "crews"


def boat(name: str) -> Key:
    return ("harbour", name)


def document(name: str, load: int | str) -> bytes:
    return json.dumps({"metadata": {"name": name}, "load": load}).encode()


def load_of(entry: Entry | None) -> Any:
    """What a boat carries; `None` if there is no boat."""
    return json.loads(entry.data)["load"] if entry is not None else None


def put(store: Store, name: str, load: int | str = 0, resource: str = BOATS) -> asyncio.Future[None]:
    """Stage a boat's new state on top of what is staged."""
    return store.stage([_change(store, name, load, resource, store.next_revision)])


def put_together(store: Store, names: list[str], load: int = 0) -> asyncio.Future[None]:
    """Stage several at once, all or none."""
    return store.stage(
        [_change(store, name, load, BOATS, store.next_revision + step) for step, name in enumerate(names)]
    )


def remove(store: Store, name: str, resource: str = BOATS) -> asyncio.Future[None]:
    """Stage a boat's end; its last state says so."""
    previous = store.head(resource, boat(name))
    assert previous is not None
    entry = Entry(resource, boat(name), store.next_revision, document(name, "sunk"))
    return store.stage([Change(DELETED, entry, previous)])


def _change(store: Store, name: str, load: int | str, resource: str, revision: int) -> Change:
    previous = store.head(resource, boat(name))
    entry = Entry(resource, boat(name), revision, document(name, load))
    return Change(ADDED if previous is None else MODIFIED, entry, previous)


def there(store: Store, resource: str = BOATS) -> dict[str, Any]:
    """What readers see, by name."""
    return {key[1]: load_of(entry) for key, entry in store.collection(resource).entries.items()}


def told(changes: list[Change]) -> list[tuple[str, str, Any, int]]:
    """Changes as values: type, name, load, revision."""
    return [(change.type, change.entry.name, load_of(change.entry), change.revision) for change in changes]


@asynccontextmanager
async def running(open_log: OpenLog, history: History | None = None) -> AsyncIterator[Store]:
    """A store on a log, until the block ends."""
    store = Store(open_log(), history)
    await store.start()
    try:
        yield store
    finally:
        await store.close()


class HeldLog(UnreliableLog):
    """A log whose commits wait until they are let through, as on a disk that takes its time."""

    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self._open = threading.Event()
        self._open.set()
        self._arrived = threading.Event()

    def hold(self) -> None:
        self._arrived.clear()
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    async def arrival(self) -> None:
        """Wait until a commit is under way, and held."""
        assert await asyncio.to_thread(self._arrived.wait, PATIENCE_SECONDS)

    def append(self, batch: Batch) -> None:
        self._arrived.set()
        assert self._open.wait(PATIENCE_SECONDS)
        super().append(batch)
