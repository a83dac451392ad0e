"""A controller's view of one kind: everything that is there, kept current by one list and one watch.

When the watch is lost, the informer lists again and tells its handlers the difference, so that they miss nothing and
hear nothing twice. A controller that writes tells the informer what came of it (`note`, `note_gone`), and so never
decides on a state from before its own write; what the watch then says of it is old news.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from fairway.apis.machinery.keys import Key, key_of
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.client.protocol import EVERYTHING, Client, Scope
from fairway.errors import Expired, FairwayError
from fairway.runtime.backoff import Backoff
from fairway.runtime.clock import Clock

_log = logging.getLogger(__name__)
_BACKOFF: Final = Backoff()

Handler: TypeAlias = Callable[[Manifest | None, Manifest | None], None]
"""Called with an object before and after a change: `(None, new)` it appeared, `(old, None)` it is gone."""


class Informer:
    """Caches the selected objects of a kind, and reports their changes in order."""

    def __init__(
        self, client: Client, kind: Kind, clock: Clock, scope: Scope = EVERYTHING, backoff: Backoff = _BACKOFF
    ) -> None:
        """`backoff` is waited between failed lists."""
        self._backoff = backoff
        self._client = client
        self._kind = kind
        self._clock = clock
        self._scope = scope
        self._known: dict[Key, Manifest] = {}
        self._gone: set[str] = set()
        """The UIDs of objects that are known to be gone while the watch has not said so yet."""
        self._heard = 0
        """The revision up to which the watch has told all that happened."""
        self._handlers: list[Handler] = []
        self._list_handlers: list[Callable[[], None]] = []
        self.synced = asyncio.Event()
        """Set once the initial list has been reported."""

    def get(self, namespace: str, name: str) -> Manifest | None:
        """The last known state of an object; shared, so not to be changed."""
        return self._known.get((namespace, name))

    def items(self) -> Iterable[Manifest]:
        """The last known states of all objects; shared, so not to be changed."""
        return self._known.values()

    def on_change(self, handler: Handler) -> None:
        """Tell this handler of every change, and of everything that is known already."""
        for manifest in self._known.values():
            handler(None, manifest)
        self._handlers.append(handler)

    def on_list(self, handler: Callable[[], None]) -> None:
        """Call this after every list: at the start, and whenever a watch was lost."""
        self._list_handlers.append(handler)

    def note(self, manifest: Manifest) -> None:
        """Take in what a write answered.

        The answer may come late: what the watch has passed already and does not know, was deleted since.
        """
        key = key_of(manifest)
        if key in self._known or int(manifest["metadata"]["resourceVersion"]) > self._heard:
            self._on_state(key, manifest)

    def note_gone(self, manifest: Manifest) -> None:
        """Take in that an object was deleted at once."""
        known = self._known.get(key_of(manifest))
        if known is not None and known["metadata"]["uid"] == manifest["metadata"]["uid"]:
            self._gone.add(known["metadata"]["uid"])
            self._update(key_of(manifest), None)

    async def run(self) -> None:
        """Follow the kind until cancelled."""
        failures = 0
        while True:
            began = self._clock.monotonic()
            try:
                since = await self._list()
                if failures:
                    _log.info("watching %s: the API answers again", self._kind.resource)
                await self._follow(since)
            except Expired:
                continue
            except FairwayError as error:
                if self._clock.monotonic() - began > self._backoff.cap:
                    failures = 0  # it went well for a while, so this is another trouble than the last one
                if not failures:
                    _log.warning("watching %s: %s; listing again", self._kind.resource, error)
                await self._clock.sleep(self._backoff.delay(failures))
                failures += 1

    async def _list(self) -> str:
        listed = await self._client.list(self._kind, self._scope)
        found = {key_of(manifest): manifest for manifest in listed.items}
        self._gone.clear()
        for key in [key for key in self._known if key not in found]:
            self._update(key, None)
        for key, manifest in found.items():
            self._update(key, manifest)
        self._heard = int(listed.resource_version)
        self.synced.set()
        for handler in self._list_handlers:
            handler()
        return listed.resource_version

    async def _follow(self, since: str) -> None:
        async for changes in self._client.watch(self._kind, since, self._scope):
            self._heard = max(self._heard, int(changes[-1].manifest["metadata"]["resourceVersion"]))
            for change, manifest in changes:
                key = key_of(manifest)
                if change == "DELETED":
                    self._on_deleted(key, manifest)
                elif self._known.get(key) is not manifest:  # else the writer has reported it already, as is usual
                    self._on_state(key, manifest)

    def _on_state(self, key: Key, new: Manifest) -> None:
        """Take a state from a watch or from a write; the newer one of both stays."""
        known = self._known.get(key)
        metadata = new["metadata"]
        if self._gone and metadata["uid"] in self._gone:
            return
        if known is None or int(known["metadata"]["resourceVersion"]) < int(metadata["resourceVersion"]):
            self._dispatch(key, known, new)

    def _on_deleted(self, key: Key, last: Manifest) -> None:
        uid = last["metadata"]["uid"]
        self._gone.discard(uid)
        known = self._known.get(key)
        if known is not None and known["metadata"]["uid"] == uid:
            self._update(key, None)

    def _update(self, key: Key, new: Manifest | None) -> None:
        old = self._known.get(key)
        if _version(old) != _version(new):
            self._dispatch(key, old, new)

    def _dispatch(self, key: Key, old: Manifest | None, new: Manifest | None) -> None:
        if old is not None and new is not None and old["metadata"]["uid"] != new["metadata"]["uid"]:
            self._dispatch(key, old, None)  # another object of the same name: one went, one came
            old = None
        if new is None:
            del self._known[key]
        else:
            self._known[key] = new
        for handler in self._handlers:
            handler(old, new)


def _version(manifest: Manifest | None) -> str | None:
    return None if manifest is None else str(manifest["metadata"]["resourceVersion"])
