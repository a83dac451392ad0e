"""A controller's view of one kind: a cache that is kept current by a list and a watch per scope.

When a watch is lost, the informer lists again and reports the difference, so that handlers miss nothing and get nothing
twice. A controller that writes passes the answer on (`note`, `note_gone`), and so never decides on a state from before
its own write; a list or an event from before that write does not undo it.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from fairway.apis.machinery.keys import Key, key_of
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.client.protocol import EVERYTHING, Client, Listed, NotServed, Scope, is_newer
from fairway.client.rest.errors import Unreachable
from fairway.errors import Expired, FairwayError
from fairway.runtime.backoff import Backoff
from fairway.runtime.clock import Clock
from fairway.store.selectors import field_terms, label_test

_log = logging.getLogger(__name__)
_BACKOFF: Final = Backoff(first=0.1, cap=8.0)
"""Between lists that the API server answered with an error."""

_AWAY_BACKOFF: Final = Backoff(first=0.1, cap=1.0)
"""While nothing listens: another look costs the API server nothing, and all work waits until it is back."""

_UNSERVED_SECONDS: Final = 30.0
"""How often to look whether a resource is served by now."""

Handler: TypeAlias = Callable[[Manifest | None, Manifest | None], None]
"""Called with an object before and after a change: `(None, new)` it appeared, `(old, None)` it is gone."""


class Informer:
    """Caches the selected objects of a kind, and reports their changes in order."""

    def __init__(self, client: Client, kind: Kind, clock: Clock, scopes: Sequence[Scope] = (EVERYTHING,)) -> None:
        """Objects of all `scopes` are cached, which are of different namespaces; without any, nothing is asked for."""
        self._client = client
        self._kind = kind
        self._clock = clock
        self._feeds = [_Feed(kind, scope) for scope in scopes]
        self._known: dict[Key, Manifest] = {}
        self._gone: set[str] = set()
        """The UIDs of objects that were deleted, while the watch has not reported it yet."""
        self._handlers: list[Handler] = []
        self._list_handlers: list[Callable[[], None]] = []
        self.synced = asyncio.Event()
        """Set once the initial lists have been reported."""

        if not self._feeds:
            self.synced.set()

    def get(self, namespace: str, name: str) -> Manifest | None:
        """The last known state of an object; shared, so not to be changed."""
        return self._known.get((namespace, name))

    def items(self) -> Iterable[Manifest]:
        """The last known states of all objects; shared, so not to be changed."""
        return self._known.values()

    def on_change(self, handler: Handler, *, replay: bool = True) -> None:
        """Call this handler with every change, and with everything that is known already, unless `replay` is off."""
        for manifest in self._known.values() if replay else ():
            handler(None, manifest)
        self._handlers.append(handler)

    def on_list(self, handler: Callable[[], None]) -> None:
        """Call this after every list: at the start, and whenever a watch was lost."""
        self._list_handlers.append(handler)

    def note(self, manifest: Manifest) -> None:
        """Take in the answer to a write.

        It may come late: an object that the watch has passed already and that is not known, was deleted since.
        """
        key, version = key_of(manifest), manifest["metadata"]["resourceVersion"]
        known = self._known.get(key)
        feed = next((feed for feed in self._feeds if feed.selects(manifest)), None)
        if feed is None:
            if known is not None and is_newer(version, known["metadata"]["resourceVersion"]):
                self.note_gone(manifest)  # it has left the scope
        elif known is not None or is_newer(version, feed.heard):
            if feed.written is not None:
                feed.written.add(key)
            self._on_state(key, manifest)

    def note_gone(self, manifest: Manifest) -> None:
        """Take in that an object was deleted at once."""
        known = self._known.get(key_of(manifest))
        if known is not None and known["metadata"]["uid"] == manifest["metadata"]["uid"]:
            self._gone.add(known["metadata"]["uid"])
            self._dispatch(key_of(manifest), known, None)

    async def run(self) -> None:
        """Follow the kind until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for feed in self._feeds:
                tasks.create_task(self._run(feed))

    async def _run(self, feed: "_Feed") -> None:
        failures, absent = 0, False
        while True:
            began = self._clock.monotonic()
            try:
                since = await self._list(feed)
                if failures or absent:
                    _log.info("watching %s: the API answers again", self._kind.resource)
                absent = False
                await self._follow(feed, since)
            except NotServed as error:
                if not absent:
                    _log.info("watching %s: %s; there are none", self._kind.resource, error)
                absent = True
                self._replace(feed, Listed([], feed.heard), set())
                await self._clock.sleep(_UNSERVED_SECONDS)
            except FairwayError as error:
                if self._clock.monotonic() - began > _BACKOFF.cap:
                    failures = 0  # it went well for a while, so this is another trouble than the last one
                expired = isinstance(error, Expired)
                if not failures:
                    level = logging.INFO if expired else logging.WARNING
                    _log.log(level, "watching %s: %s; listing again", self._kind.resource, error)
                if failures or not expired:
                    away = isinstance(error, Unreachable)
                    await self._clock.sleep((_AWAY_BACKOFF if away else _BACKOFF).delay(failures))
                failures += 1

    async def _list(self, feed: "_Feed") -> str:
        gone, written = set(self._gone), set[Key]()
        feed.written = written
        try:
            listed = await self._client.list(self._kind, feed.scope)
        finally:
            feed.written = None
        self._gone -= gone  # the list knows of those
        self._replace(feed, listed, written)
        return listed.resource_version

    def _replace(self, feed: "_Feed", listed: Listed, written: set[Key]) -> None:
        """Take in a list. Objects that were `written` while it was on its way may be newer than in it."""
        found = {key_of(manifest): manifest for manifest in listed.items}
        for key, known in list(self._known.items()):
            newer = key in written and is_newer(known["metadata"]["resourceVersion"], listed.resource_version)
            if key not in found and not newer and feed.selects(known):
                self._dispatch(key, known, None)
        for key, manifest in found.items():
            before = self._known.get(key)
            if key in written or before is None:
                self._on_state(key, manifest)
            elif before["metadata"]["resourceVersion"] != manifest["metadata"]["resourceVersion"]:
                self._dispatch(key, before, manifest)
        feed.heard, feed.listed = listed.resource_version, True
        if all(feed.listed for feed in self._feeds):
            self.synced.set()
        for handler in self._list_handlers:
            handler()

    async def _follow(self, feed: "_Feed", since: str) -> None:
        async for changes in self._client.watch(self._kind, since, feed.scope):
            version = changes[-1].manifest["metadata"]["resourceVersion"]
            if is_newer(version, feed.heard):
                feed.heard = version
            for change, manifest in changes:
                key = key_of(manifest)
                if change == "DELETED":
                    self._on_deleted(key, manifest)
                elif self._known.get(key) is not manifest:  # else the writer has reported it already, as is usual
                    self._on_state(key, manifest)

    def _on_state(self, key: Key, new: Manifest) -> None:
        """Take a state from a watch or a write; the newer one of both stays."""
        known = self._known.get(key)
        metadata = new["metadata"]
        if self._gone and metadata["uid"] in self._gone:
            return
        if known is None or is_newer(metadata["resourceVersion"], known["metadata"]["resourceVersion"]):
            self._dispatch(key, known, new)

    def _on_deleted(self, key: Key, last: Manifest) -> None:
        uid = last["metadata"]["uid"]
        self._gone.discard(uid)
        known = self._known.get(key)
        if known is not None and known["metadata"]["uid"] == uid:
            self._dispatch(key, known, None)

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


class _Feed:
    """One scope of an informer, and how far it is known."""

    def __init__(self, kind: Kind, scope: Scope) -> None:
        self.scope = scope
        self.heard = "0"
        """The resource version up to which the watch has reported everything."""

        self.listed = False
        self.written: set[Key] | None = None
        """What was written since the list that is on its way was asked for."""

        self._kind = kind
        self._labels = label_test(scope.labels)
        self._fields = field_terms(scope.fields)

    def selects(self, manifest: Manifest) -> bool:
        """Whether an object is in this scope."""
        if self.scope is EVERYTHING:
            return True
        metadata = manifest["metadata"]
        if self.scope.namespace and metadata.get("namespace") != self.scope.namespace:
            return False
        if self._labels is not None and not self._labels(metadata.get("labels") or {}):
            return False
        return all((self._field(manifest, term.path) == term.value) == term.equal for term in self._fields)

    def _field(self, manifest: Manifest, path: str) -> str:
        if path in {"metadata.name", "metadata.namespace"}:
            return str(manifest["metadata"].get(path.removeprefix("metadata."), ""))
        return self._kind.selectable[path](manifest)
