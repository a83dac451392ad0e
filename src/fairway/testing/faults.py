"""A client on a bad network: watches are cut, events come late, writes meet conflicts, responses are lost.

    with faulty(seed=7):
        ...            # controllers on `local_cluster` and `cluster_on` get a faulty client; the test has its own

Each fault is drawn from the seed, the request and how often that request was made, so the same seed gives the same
faults whatever the order of unrelated requests. Faults are bounded, so that every back-off is shorter than
`_HEALING_SECONDS`: `Faults.calm_at` is when all consequences of the faults so far are over (see `LocalCluster.heal`).
Events are exempt: recording them is best effort, and a lost one is not written again.
"""

from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Final, TypeVar
from uuid import UUID

from fairway.apis.machinery.keys import key_of
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.client.protocol import EVERYTHING, Client, Listed, Scope, WatchEvent
from fairway.errors import Conflict, Expired, Unavailable
from fairway.runtime.clock import Clock

_CONFLICTS: Final = 0.15
_LOST_RESPONSES: Final = 0.05
_FAILED_READS: Final = 0.05
_CUTS: Final = 0.1
_DELAYS: Final = 0.3
_LONGEST_DELAY_SECONDS: Final = 0.1

_MOST_FAILURES: Final = 8
"""Failed requests in one step of a test; a worker's back-off doubles with each."""

_MOST_BREAKS: Final = 3
"""Failed lists and cut watches of a resource in a row; an informer's back-off doubles with each."""

_RECOVERED_SECONDS: Final = 10.0
"""After this long without a break an informer's back-off starts again from the beginning."""

_HEALING_SECONDS: Final = 3.0
"""Longer than any back-off after that many failures."""

_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"

_Response = TypeVar("_Response")
_active: "list[Faults]" = []


class Faults:
    """The faults of one test: which were drawn from the seed, and when they will have healed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._names = Random(seed)  # noqa: S311 - reproducible, not secret
        self._requests: Counter[tuple[str, ...]] = Counter()
        self._failures = 0
        self._breaks: dict[str, tuple[int, float]] = {}
        """How often in a row the list or watch of a resource broke, and when it last did."""

        self.calm_at = 0.0
        """The time on the clock by which everything has recovered from the faults so far."""

    def begin_step(self) -> None:
        """The next step of the test, with everything healed: as many requests may fail again."""
        self._failures = 0

    def draw(self, *request: str) -> Random:
        """The random numbers for the next request of this kind."""
        count = self._requests[request]
        self._requests[request] += 1
        return Random(repr((self._seed, request, count)))  # noqa: S311 - reproducible, not secret

    def may_fail(self, now: float) -> bool:
        """Whether a request may fail; if so it is counted as failed."""
        if self._failures >= _MOST_FAILURES:
            return False
        self._failures += 1
        self.disturb(now)
        return True

    def may_break(self, resource: str, now: float) -> bool:
        """Whether the list or the watch of a resource may fail; if so it is counted as failed."""
        count, last = self._breaks.get(resource, (0, now))
        if now - last > _RECOVERED_SECONDS:
            count = 0
        if count >= _MOST_BREAKS:
            return False
        self._breaks[resource] = count + 1, now
        self.disturb(now)
        return True

    def disturb(self, now: float) -> None:
        self.calm_at = now + _HEALING_SECONDS

    def new_uid(self) -> str:
        return str(UUID(int=self._names.getrandbits(128), version=4))

    def new_suffix(self) -> str:
        return "".join(self._names.choices(_SUFFIX_LETTERS, k=5))


@contextmanager
def faulty(seed: int) -> Iterator[None]:
    """Controllers that are started within have faulty clients."""
    _active.append(Faults(seed))
    try:
        yield
    finally:
        _active.pop()


def active_faults() -> Faults | None:
    return _active[-1] if _active else None


def with_faults(client: Client, clock: Clock) -> Client:
    """The client, faulty if faults are on; for controllers, which must tolerate it."""
    faults = active_faults()
    return FaultyClient(client, faults, clock) if faults is not None else client


class FaultyClient:
    """Keeps the contract of `Client`, with the errors and the order of events that it allows."""

    def __init__(self, client: Client, faults: Faults, clock: Clock) -> None:
        self._client = client
        self._faults = faults
        self._clock = clock

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest:
        if self._draw("get", kind, namespace, name).random() < _FAILED_READS:
            self._fail(Unavailable("connection lost"))
        return await self._client.get(kind, namespace, name)

    async def list(self, kind: Kind, scope: Scope = EVERYTHING) -> Listed:
        if self._draw("list", kind).random() < _FAILED_READS:
            self._break(kind, Unavailable("connection lost"))
        return await self._client.list(kind, scope)

    async def watch(
        self, kind: Kind, since: str, scope: Scope = EVERYTHING
    ) -> AsyncGenerator[tuple[WatchEvent, ...], None]:
        """Late against other kinds, one event at a time, and cut: with 410, or in the middle."""
        async for batch in self._client.watch(kind, since, scope):
            for event in batch:
                chance = self._draw("watch", kind, *key_of(event.manifest))
                if chance.random() < _DELAYS:
                    self._faults.disturb(self._clock.monotonic())
                    await self._clock.sleep(chance.random() * _LONGEST_DELAY_SECONDS)
                    self._faults.disturb(self._clock.monotonic())
                if chance.random() < _CUTS:
                    self._break(
                        kind, chance.choice((Expired("too old resource version"), Unavailable("connection lost")))
                    )
                yield (event,)

    async def create(self, kind: Kind, manifest: Manifest, *, trusted: bool = False) -> Manifest:
        metadata = manifest["metadata"]
        name = metadata.get("name") or metadata.get("generateName", "")
        chance = self._draw("create", kind, metadata.get("namespace", ""), name)
        if kind.resource == "events":
            return await self._client.create(kind, manifest, trusted=trusted)
        self._fail_some(chance, Unavailable("the server is overloaded"))
        return self._lose_some(chance, await self._client.create(kind, manifest, trusted=trusted))

    async def update(self, kind: Kind, manifest: Manifest, subresource: str = "") -> Manifest:
        chance = self._before_write("update", kind, *key_of(manifest))
        return self._lose_some(chance, await self._client.update(kind, manifest, subresource))

    async def patch(self, kind: Kind, namespace: str, name: str, patch: Any, **options: Any) -> Manifest:
        chance = self._before_write("patch", kind, namespace, name)
        return self._lose_some(chance, await self._client.patch(kind, namespace, name, patch, **options))

    async def apply(self, kind: Kind, manifest: Manifest, **options: Any) -> Manifest:
        chance = self._before_write("apply", kind, *key_of(manifest))
        return self._lose_some(chance, await self._client.apply(kind, manifest, **options))

    async def delete(self, kind: Kind, namespace: str, name: str, **options: Any) -> Manifest | None:
        chance = self._before_write("delete", kind, namespace, name)
        return self._lose_some(chance, await self._client.delete(kind, namespace, name, **options))

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> Manifest:
        chance = self._faults.draw("bind", namespace, name)
        self._fail_some(chance, _modified())
        return self._lose_some(chance, await self._client.bind(namespace, name, uid, node))

    def _draw(self, verb: str, kind: Kind, *key: str) -> Random:
        return self._faults.draw(verb, kind.resource, *key)

    def _before_write(self, verb: str, kind: Kind, namespace: str, name: str) -> Random | None:
        """The chances of a write that has not failed yet; `None` for one that is exempt."""
        if kind.resource == "events":
            return None
        chance = self._draw(verb, kind, namespace, name)
        self._fail_some(chance, _modified())
        return chance

    def _fail_some(self, chance: Random, error: Exception) -> None:
        if chance.random() < _CONFLICTS:
            self._fail(error)

    def _lose_some(self, chance: Random | None, response: _Response) -> _Response:
        """The write is done, and its sender does not learn so."""
        if chance is not None and chance.random() < _LOST_RESPONSES:
            self._fail(Unavailable("connection lost before the answer"))
        return response

    def _fail(self, error: Exception) -> None:
        if self._faults.may_fail(self._clock.monotonic()):
            raise error

    def _break(self, kind: Kind, error: Exception) -> None:
        if self._faults.may_break(kind.resource, self._clock.monotonic()):
            raise error


def _modified() -> Conflict:
    return Conflict("the object has been modified; please apply your changes to the latest version")
