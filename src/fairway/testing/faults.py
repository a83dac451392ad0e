"""A client as a bad network makes it: watches that are cut, events that come late, conflicts, answers that are lost.

    with faulty(seed=7):
        ...            # controllers on `local_cluster` and `cluster_on` get a faulty client; the test has its own

What happens when is drawn from the seed. Faults need time to heal (back-off, relists), so a test in virtual time has to
let some pass: `patience` says how much.
"""

from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Final, TypeVar

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.client.protocol import EVERYTHING, Client, Listed, Scope, WatchEvent
from fairway.errors import Conflict, Expired, Unavailable
from fairway.runtime.clock import Clock

_CONFLICTS: Final = 0.15
_LOST_ANSWERS: Final = 0.05
_FAILED_READS: Final = 0.05
_CUTS: Final = 0.1
_DELAYS: Final = 0.3
_LONGEST_DELAY_SECONDS: Final = 0.1

_Answer = TypeVar("_Answer")
_active: list[Random] = []


@contextmanager
def faulty(seed: int) -> Iterator[None]:
    """Controllers that are started within have faulty clients."""
    _active.append(Random(seed))  # noqa: S311 - the same faults every time
    try:
        yield
    finally:
        _active.pop()


def patience() -> float:
    """How many seconds of virtual time to let pass before nothing happens any more; none without faults."""
    return 0.5 if _active else 0.0


def with_faults(client: Client, clock: Clock) -> Client:
    """The client, faulty if faults are on; for controllers, which must stand it."""
    return FaultyClient(client, _active[-1], clock) if _active else client


class FaultyClient:
    """Keeps the contract of `Client`, with the errors and the order of events that it allows."""

    def __init__(self, client: Client, chance: Random, clock: Clock) -> None:
        self._client = client
        self._chance = chance
        self._clock = clock

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest:
        self._fail_read()
        return await self._client.get(kind, namespace, name)

    async def list(self, kind: Kind, scope: Scope = EVERYTHING) -> Listed:
        self._fail_read()
        return await self._client.list(kind, scope)

    async def watch(
        self, kind: Kind, since: str, scope: Scope = EVERYTHING
    ) -> AsyncGenerator[tuple[WatchEvent, ...], None]:
        """Late against other kinds, one event at a time, and cut: with 410, or in the middle."""
        async for batch in self._client.watch(kind, since, scope):
            for event in batch:
                if self._happens(_DELAYS):
                    await self._clock.sleep(self._chance.random() * _LONGEST_DELAY_SECONDS)
                if self._happens(_CUTS):
                    raise self._chance.choice((Expired("too old resource version"), Unavailable("connection lost")))
                yield (event,)

    async def create(self, kind: Kind, manifest: Manifest, *, trusted: bool = False) -> Manifest:
        if self._happens(_CONFLICTS):
            raise Unavailable("the server is overloaded")
        return self._lose(await self._client.create(kind, manifest, trusted=trusted))

    async def update(self, kind: Kind, manifest: Manifest, subresource: str = "") -> Manifest:
        self._conflict()
        return self._lose(await self._client.update(kind, manifest, subresource))

    async def patch(self, kind: Kind, namespace: str, name: str, patch: Any, **options: Any) -> Manifest:
        self._conflict()
        return self._lose(await self._client.patch(kind, namespace, name, patch, **options))

    async def apply(self, kind: Kind, manifest: Manifest, **options: Any) -> Manifest:
        self._conflict()
        return self._lose(await self._client.apply(kind, manifest, **options))

    async def delete(self, kind: Kind, namespace: str, name: str, **options: Any) -> Manifest | None:
        self._conflict()
        return self._lose(await self._client.delete(kind, namespace, name, **options))

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> Manifest:
        self._conflict()
        return self._lose(await self._client.bind(namespace, name, uid, node))

    def _happens(self, share: float) -> bool:
        return self._chance.random() < share

    def _conflict(self) -> None:
        if self._happens(_CONFLICTS):
            raise Conflict("the object has been modified; please apply your changes to the latest version")

    def _fail_read(self) -> None:
        if self._happens(_FAILED_READS):
            raise Unavailable("connection lost")

    def _lose(self, answer: _Answer) -> _Answer:
        """The write is done, and who asked for it does not hear so."""
        if self._happens(_LOST_ANSWERS):
            raise Unavailable("connection lost before the answer")
        return answer
