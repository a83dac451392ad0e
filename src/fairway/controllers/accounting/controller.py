"""Follows Workloads and ManagedJobs, and writes the books."""

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from fairway.accounting.attempts import AttemptRecord
from fairway.accounting.books import LABEL, AccountBooks, BookWrite, JournalLimits
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.client.protocol import NotServed, Scope, WatchEvent, is_newer
from fairway.controllers.accounting.observe import JOBS, WORKLOADS, AttemptSource
from fairway.errors import AlreadyExists, Expired, FairwayError, NotFound
from fairway.runtime.backoff import Backoff

_log = logging.getLogger(__name__)
_CONFIG_MAPS: Final = "configmaps"
_FLUSH_SECONDS: Final = 1.0
"""From the first line to the write; what happens in between goes into the same one."""

_BEGINNING: Final = "1"
"""The version before all changes of Workloads and jobs ("0" would be any): a new server still knows them all."""

_BACKOFF: Final = Backoff(first=0.1, cap=30.0)
_AT_ONCE: Final = 100


class AccountingController:
    """Keeps `books`."""

    def __init__(self, cluster: Cluster, limits: JournalLimits | None = None) -> None:
        self.books = AccountBooks(limits)
        self.ready = asyncio.Event()
        """Set once the books are read."""

        self._cluster = cluster
        self._clock = cluster.clock
        self._source = AttemptSource(cluster)
        self._writer = cluster.writer("fairway")
        self._cursors: dict[str, str] = {}
        self._changed = asyncio.Event()

    def now(self) -> int:
        """Seconds since the epoch."""
        return int(self._clock.now().timestamp())

    async def run(self) -> None:
        """Work until cancelled."""
        await self._load()
        async with asyncio.TaskGroup() as group:
            for resource in (WORKLOADS, JOBS):
                if resource in self._cluster.followed:  # without admission there is no right to see Workloads
                    group.create_task(self._follow(resource))
            group.create_task(self._write())

    async def _load(self) -> None:
        scope = Scope(self._cluster.namespace, labels=LABEL)
        stored, failures = None, 0
        while stored is None:
            try:
                stored = await self._cluster.list(_CONFIG_MAPS, scope)
            except FairwayError as error:
                _log.warning("cannot read the history: %s; retrying", error)
                await self._clock.sleep(_BACKOFF.delay(failures))
                failures += 1
        for _ in self.books.load(stored.items, self._source.existing()):
            await asyncio.sleep(0)
        self._cursors = dict(self.books.cursors)
        self.ready.set()

    # Reading

    async def _follow(self, resource: str) -> None:
        failures, is_known = 0, True
        while True:
            began = self._clock.monotonic()
            try:
                if not is_known:
                    await self._list(resource)
                    is_known = True
                since = self._cursors.setdefault(resource, _BEGINNING)
                async for events in self._cluster.watch(resource, since):
                    self._take_in(resource, events)
            except Expired:
                is_known = False  # the cursor stays: until the list is written, the next process has to list again too
            except NotServed:
                await self._clock.sleep(_BACKOFF.cap)
            except FairwayError as error:
                failures = 0 if self._clock.monotonic() - began > _BACKOFF.cap else failures + 1
                _log.warning("following %s for the history: %s; retrying", resource, error)
                await self._clock.sleep(_BACKOFF.delay(failures))

    async def _list(self, resource: str) -> None:
        """All objects as they are now, where the changes since the last look are not known."""
        listed = await self._cluster.list(resource, Scope())
        for number, manifest in enumerate(listed.items, 1):
            self._add(self.books.ledger.observe(self._source.attempts(resource, manifest)))
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        existing = self._source.existing().union(one["metadata"]["uid"] for one in listed.items)
        self._add(self.books.ledger.forget_missing(existing, self.now()))
        self._cursors[resource] = listed.resource_version
        self._changed.set()  # what is deleted from now on is found by this version alone

    def _take_in(self, resource: str, events: Iterable[WatchEvent]) -> None:
        ledger = self.books.ledger
        for event in events:
            manifest = event.manifest
            self._add(ledger.observe(self._source.attempts(resource, manifest)))
            if event.type == "DELETED":
                self._add(ledger.remove(manifest["metadata"]["uid"], self.now()))
            version = manifest["metadata"]["resourceVersion"]
            if is_newer(version, self._cursors[resource]):
                self._cursors[resource] = version

    def _add(self, lines: Iterable[AttemptRecord]) -> None:
        self.books.add(lines)
        if self.books.has_changes:
            self._changed.set()

    # Writing

    async def _write(self) -> None:
        while True:
            await self._changed.wait()
            await self._clock.sleep(_FLUSH_SECONDS)
            self._changed.clear()
            for write in self.books.flush(self._cursors, self.now()):
                await self._store(write)

    async def _store(self, write: BookWrite) -> None:
        """One write; it is repeated until it is done, for the next one builds on it."""
        failures, create = 0, write.create
        target: Manifest = {"metadata": {"namespace": self._cluster.namespace, "name": write.name, "uid": ""}}
        done = False
        while not done:
            try:
                if write.body is None:
                    await self._writer.delete(_CONFIG_MAPS, target)
                elif create:
                    metadata = {**write.body["metadata"], **_named(target)}
                    await self._writer.create(_CONFIG_MAPS, {**write.body, "metadata": metadata})
                else:
                    await self._writer.patch(_CONFIG_MAPS, target, write.body)
                done = True
            except AlreadyExists:
                create = False
            except NotFound:
                create = True
            except FairwayError as error:
                _log.warning("cannot write the history (%s): %s; retrying", write.name, error)
                await self._clock.sleep(_BACKOFF.delay(failures))
                failures += 1


def _named(target: Manifest) -> dict[str, str]:
    return {name: target["metadata"][name] for name in ("namespace", "name")}
