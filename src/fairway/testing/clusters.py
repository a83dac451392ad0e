"""Controllers in tests: a real store, the real caches, virtual time.

async with local_cluster() as world:
    controller = JobController(world.cluster)
    async with world.running(controller):
        await world.api.create("jobs", manifest)
        await world.api.until(lambda: ...)
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Protocol, cast

from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.client.local import LocalClient
from fairway.client.protocol import Client
from fairway.runtime.clock import Clock
from fairway.store.verbs.reading import decoded
from fairway.testing.clock import VirtualClock, settle
from fairway.testing.faults import active_faults, with_faults
from fairway.testing.stores import PATIENCE_SECONDS, LocalApi, OpenLog, local_api

_A_MOMENT = 0.001
_ROUNDS_OF_QUIET = 3


class Running(Protocol):
    """Anything that works until it is cancelled: a controller, a recorder."""

    async def run(self) -> None: ...


@dataclass(frozen=True)
class LocalCluster:
    """An API and the caches of it."""

    api: LocalApi
    cluster: Cluster
    clock: VirtualClock

    def seen(self, resource: str, name: str, namespace: str = "") -> Manifest:
        """An object as the controllers see it."""
        found = self.cluster.cache(resource).get(namespace, name)
        if found is None:
            raise LookupError(f"the caches have no {resource} {namespace}/{name}")
        return found

    async def cluster_says(self, condition: Callable[[], bool]) -> None:
        """Wait until the controllers see, or did, what is expected: the caches follow the store a moment later."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                await asyncio.sleep(_A_MOMENT)
                await self.heal()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until the store says what is expected, letting faults of clients heal."""
        await (self.cluster_says(condition) if active_faults() else self.api.until(condition))

    async def rest(self) -> None:
        """Let everything happen that needs no time, and faults of clients heal."""
        await self._until_quiet()
        await self.heal()

    async def heal(self) -> None:
        """Where clients are faulty, let time pass until everything has recovered from the faults; else none."""
        faults = active_faults()
        if faults is None:
            return
        while (due := self.clock.next_due()) is not None and self.clock.monotonic() + due <= faults.calm_at:
            self.clock.advance(max(0.0, due))
            await self._until_quiet(rounds=1)
        await self._until_quiet()
        faults.begin_step()

    async def healed(self, waiting: Coroutine[Any, Any, None]) -> None:
        """Wait for something that faults of clients may hold up."""
        task = asyncio.create_task(waiting)
        while active_faults() and not task.done():
            await asyncio.sleep(_A_MOMENT)
            await self.heal()
        await task

    async def _until_quiet(self, rounds: int = _ROUNDS_OF_QUIET) -> None:
        """Wait until nothing has been written for a while. A write that fails is its writer's business."""
        store, quiet = self.api.store, 0
        while quiet < rounds:
            before = store.next_revision
            if (settling := store.settling()) is not None:
                await asyncio.wait([settling])
                if not settling.cancelled():
                    settling.exception()
            await settle()
            quiet = quiet + 1 if store.next_revision == before else 0

    def events(self, reason: str = "") -> list[Manifest]:
        """The Events that were written, all or those with a reason."""
        collection = self.api.store.collection("events")
        events = [decoded(entry) for entry in collection.entries.values()]
        return [event for event in events if not reason or event["reason"] == reason]

    @asynccontextmanager
    async def running(self, *controllers: Running) -> AsyncIterator[None]:
        """The caches, and these controllers once the caches are full; one that ends by itself fails the test."""
        tasks = [asyncio.create_task(self.cluster.run())]
        try:
            await self.healed(self.cluster.synced())
            tasks += [asyncio.create_task(controller.run()) for controller in controllers]
            yield
        finally:
            await _cancelled(tasks)


@asynccontextmanager
async def local_cluster(
    open_log: OpenLog | None = None, *, keepers: bool = True, clock: VirtualClock | None = None
) -> AsyncIterator[LocalCluster]:
    """A store in memory, or on the given log, with garbage collection; nothing else runs yet."""
    clock = clock or VirtualClock()
    async with local_api(open_log, keepers=keepers, clock=clock) as api:
        yield LocalCluster(api, cluster_on(api, clock), clock)


class PlainClient:
    """A client that can do no more than every client must, like one over the wire."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        if name not in Client.__dict__:
            raise AttributeError(name)
        return getattr(self._client, name)


def plain(client: Client) -> Client:
    """The same client, without what it can do besides."""
    return cast("Client", PlainClient(client))


def cluster_on(api: LocalApi, clock: Clock) -> Cluster:
    """Another set of caches on the same API, as a second process has them."""
    return Cluster(lambda manager: with_faults(LocalClient(api.objects, manager), clock), api.objects.registry, clock)


async def _cancelled(tasks: Iterable[asyncio.Task[None]]) -> None:
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    broken = [one for one in ended if one is not None and not isinstance(one, asyncio.CancelledError)]
    if broken:
        raise AssertionError(f"something that was to run on ended: {broken}")
