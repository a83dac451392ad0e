"""Stores for tests: on a file or in memory, on virtual time, closed and opened again at will.

What is tested through here is the real thing: the logs, the writer and the verbs are those of the server. In memory the
writer has no thread, so that a test in virtual time is reproducible.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.apis.registry import Registry, default_registry
from fairway.errors import StorageFailed
from fairway.store.entries import Change
from fairway.store.gc import DefinitionKeeper, EventExpiry, GarbageCollector, NamespaceKeeper
from fairway.store.log import Batch, Log, Row
from fairway.store.memory import MemoryLog
from fairway.store.sqlite import SqliteLog
from fairway.store.store import History, Store
from fairway.store.verbs import DeleteOptions, Objects, PatchType, WriteOptions, Written
from fairway.store.verbs.reading import decoded
from fairway.testing.clock import VirtualClock
from fairway.testing.faults import active_faults

OpenLog = Callable[[], Log]
"""Opens the same log again and again, each time after the store before has closed it."""

PATIENCE_SECONDS = 60.0
"""How long anything may take before it counts as stuck."""


def log_on_a_file(path: Path) -> OpenLog:
    return lambda: SqliteLog(path)


def log_in_memory() -> OpenLog:
    log = MemoryLog()
    return lambda: log


class UnreliableLog:
    """A log that can be made to refuse appends, like one on a full disk; otherwise the given log."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.failing = False
        self.batches: list[Batch] = []
        """What was asked for, whatever came of it."""

    def rows(self) -> Iterator[Row]:
        return self._log.rows()

    def floor(self) -> int:
        return self._log.floor()

    def last(self) -> int:
        return self._log.last()

    def append(self, batch: Batch) -> None:
        self.batches.append(Batch(list(batch.rows), list(batch.dropped), batch.floor))
        if self.failing:
            raise StorageFailed("the disk is full; nothing was written")
        self._log.append(batch)

    def backup(self, target: Path) -> None:
        self._log.backup(target)

    def close(self) -> None:
        self._log.close()


class LocalApi:
    """The verbs, with kinds by the names that people type and objects as manifests."""

    def __init__(self, objects: Objects, clock: VirtualClock) -> None:
        self.objects = objects
        self.store = objects.store
        self.clock = clock

    def kind(self, name: str) -> Kind:
        return self.objects.registry.named(name)

    def get(self, kind: str, name: str, namespace: str = "default") -> Manifest | None:
        """What a reader sees."""
        entry = self.store.get(self.kind(kind).resource, self._key(kind, name, namespace))
        return decoded(entry) if entry is not None else None

    def names(self, kind: str) -> set[str]:
        """What is there, by name, in all namespaces."""
        return {name for _, name in self.store.collection(self.kind(kind).resource).entries}

    async def create(self, kind: str, manifest: Manifest, namespace: str = "default", **options: Any) -> Manifest:
        return decoded((await self.written(kind, manifest, namespace, **options)).entry)

    async def written(self, kind: str, manifest: Manifest, namespace: str = "default", **options: Any) -> Written:
        """The same, with all that a create answers."""
        found = self.kind(kind)
        place = namespace if found.namespaced else ""
        return await self.objects.create(found, found.stored, place, manifest, WriteOptions(**options))

    async def update(self, kind: str, manifest: Manifest, subresource: str = "", **options: Any) -> Manifest:
        """Replace the object that the manifest names."""
        found = self.kind(kind)
        metadata = manifest["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        written = await self.objects.update(found, found.stored, key, manifest, WriteOptions(**options), subresource)
        return decoded(written.entry)

    async def patch(
        self, kind: str, name: str, patch: Any, *, subresource: str = "", namespace: str = "default", **options: Any
    ) -> Written:
        """A merge patch, unless `patch_type` says otherwise."""
        found = self.kind(kind)
        patch_type = options.pop("patch_type", PatchType.MERGE)
        key = self._key(kind, name, namespace)
        return await self.objects.patch(
            found, found.stored, key, patch_type, patch, WriteOptions(**options), subresource
        )

    async def delete(self, kind: str, name: str, namespace: str = "default", **options: Any) -> Written:
        return await self.objects.delete(self.kind(kind), self._key(kind, name, namespace), DeleteOptions(**options))

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for durable changes until a condition holds."""
        changed = asyncio.Event()

        def note(_change: Change) -> None:
            changed.set()

        self.store.observe(note)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                changed.clear()
                await changed.wait()

    def _key(self, kind: str, name: str, namespace: str) -> tuple[str, str]:
        return (namespace if self.kind(kind).namespaced else "", name)


@asynccontextmanager
async def local_api(
    open_log: OpenLog | None = None,
    *,
    history: History | None = None,
    registry: Registry | None = None,
    clock: VirtualClock | None = None,
    keepers: bool = False,
) -> AsyncIterator[LocalApi]:
    """A running store with the usual namespaces; with `keepers`, also what tidies up by itself."""
    clock = clock or VirtualClock()
    store = Store((open_log or log_in_memory())(), history)
    try:
        await store.start()
        faults = active_faults()
        identities = {"new_uid": faults.new_uid, "new_suffix": faults.new_suffix} if faults is not None else {}
        objects = Objects(store, registry or default_registry(), clock.now, **identities)
        definitions = DefinitionKeeper(objects)
        namespaces = NamespaceKeeper(objects)
        await namespaces.make_defaults()
        tasks = []
        if keepers:
            tidying = (definitions, GarbageCollector(objects), namespaces, EventExpiry(objects))
            tasks = [asyncio.create_task(one.run()) for one in tidying]
        try:
            yield LocalApi(objects, clock)
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        broken = [one for one in ended if not isinstance(one, asyncio.CancelledError)]
        if broken:
            raise AssertionError(f"a keeper ended by itself: {broken}")
    finally:
        await store.close()
