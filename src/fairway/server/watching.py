"""Watches over HTTP: a line of JSON for every change, for as long as the client listens.

Nothing is buffered for a watcher but its place in the feed. One that takes nothing for too long, or falls so far behind
that its next change was dropped, is disconnected; it lists again and continues from there.
"""

import asyncio
import random
from collections.abc import Callable, Iterable

import msgspec

from fairway.apis.machinery.kind import Manifest
from fairway.errors import ApiError, BadRequest, Expired
from fairway.server.http import Exchange
from fairway.server.limits import Limits
from fairway.server.negotiation import Accepted, accepted
from fairway.server.reading import revision_of, selected
from fairway.server.requests import Request
from fairway.server.responses import JSON_TYPE, encode, status_of
from fairway.server.routes import Route
from fairway.server.streaming import stream
from fairway.server.tables import Page, bookmark, included, partial_metadata, table
from fairway.store.entries import ADDED, Entry
from fairway.store.verbs import Objects
from fairway.store.verbs.listing import EVERYTHING, check_not_too_new
from fairway.store.verbs.watching import Events

_FLUSH_BYTES = 32 << 10
_LARGE_BYTES = 256 << 10


class _Watcher:
    """One watcher: what it asked for, and how its lines are written."""

    def __init__(self, objects: Objects, request: Request, route: Route, limits: Limits) -> None:
        self.objects = objects
        self.route = route
        self.limits = limits
        self.selection = selected(request, route)
        self.form: Accepted = accepted(request.header(b"accept"))
        if self.form.yaml:
            raise BadRequest("a watch is a JSON stream; use Accept: application/json")
        self.include = included(request.query.get("includeObject", ""))
        self.bookmarks = request.flag("allowWatchBookmarks")
        self.since, self.initial = _start(objects, request)
        self.initial_end = request.flag("sendInitialEvents")
        self.seconds = _seconds(request, limits)
        self._headers_sent = False

    async def events(self) -> tuple[list[Entry], Events]:
        """What is there at the start, if that is asked for, and the changes after it."""
        if not self.initial:
            return [], self.objects.watch(self.selection, self.since)
        self.since = self.objects.store.revision
        events = self.objects.watch(self.selection, self.since)
        page = await self.objects.page_in_slices(self.selection, EVERYTHING, self.objects.slices.begin())
        return page.entries, events

    def line(self, change_type: str, entry: Entry) -> bytes:
        data = self.objects.rendered(self.route.kind, entry, self.route.version)
        if self.form.shape:
            data = self._reshaped(msgspec.json.decode(data), entry)
        return b'{"type":"%b","object":%b}\n' % (change_type.encode(), data)

    def _reshaped(self, manifest: Manifest, entry: Entry) -> bytes:
        if self.form.shape != "Table":
            return encode(partial_metadata(manifest, self.form.version))
        body = table(
            self.route.kind,
            self.route.version,
            [manifest],
            now=self.objects.now(),
            page=Page(str(entry.revision)),
            include_object=self.include,
            with_headers=not self._headers_sent,
            meta_version=self.form.version,
        )
        self._headers_sent = True
        return encode(body)

    def bookmark(self, *, initial_end: bool = False) -> bytes:
        kind, version = self.route.kind, self.route.version
        metadata: Manifest = {"resourceVersion": str(self.since), "creationTimestamp": None}
        if initial_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        body: Manifest
        if self.form.shape == "Table":
            body = bookmark(kind, version, metadata, include_object=self.include, meta_version=self.form.version)
        elif self.form.shape:
            body = partial_metadata({"metadata": metadata}, self.form.version)
        else:
            body = {"kind": kind.kind, "apiVersion": kind.api_version(version), "metadata": metadata}
        return b'{"type":"BOOKMARK","object":%b}\n' % encode(body)


async def watch(objects: Objects, request: Request, route: Route, limits: Limits, start: Callable[[], None]) -> None:
    """Stream changes until the client is gone, the time is up or the watcher is too slow.

    `start` is called right before the first byte: from there on the answer is 200, whatever comes.
    """
    watcher = _Watcher(objects, request, route, limits)
    present, events = await watcher.events()
    start()
    exchange = request.exchange
    exchange.start(200, JSON_TYPE, ((b"cache-control", b"no-cache, private"),))
    await stream(exchange, _run(watcher, present, events, exchange))


async def _run(watcher: _Watcher, present: list[Entry], events: Events, exchange: Exchange) -> None:
    await _send_initial(watcher, present, exchange)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + watcher.seconds
    while True:
        ends = min(deadline, loop.time() + watcher.limits.bookmark_seconds)
        try:
            async with asyncio.timeout_at(ends):
                seen = await events.next()
        except TimeoutError:
            if events.is_behind:
                continue  # a change came at the last moment; a bookmark must not skip it
            if watcher.bookmarks:
                watcher.since = max(watcher.since, watcher.objects.store.revision)
                await _send(watcher, exchange, watcher.bookmark())
            if loop.time() >= deadline:
                return
            continue
        except Expired as error:
            await _send(watcher, exchange, _error_line(watcher, error))
            return
        if seen:
            await _send_changes(watcher, ((event.type, event.entry) for event in seen), exchange)
            watcher.since = seen[-1].entry.revision
        if events.is_behind:
            await watcher.objects.slices.turn()


async def _send_initial(watcher: _Watcher, present: list[Entry], exchange: Exchange) -> None:
    await _send_changes(watcher, ((ADDED, entry) for entry in present), exchange)
    # Even an empty piece makes the headers leave at once, so that the client knows that it is watching.
    initial_end = watcher.initial_end and watcher.bookmarks
    await _send(watcher, exchange, watcher.bookmark(initial_end=True) if initial_end else b"")


async def _send_changes(watcher: _Watcher, changes: Iterable[tuple[str, Entry]], exchange: Exchange) -> None:
    """Send changes in pieces of bounded size, so that a slow client is noticed before much is waiting for it."""
    lines: list[bytes] = []
    size, work = 0, watcher.objects.slices.begin()
    await exchange.drain(watcher.limits.send_seconds)
    for change_type, entry in changes:
        lines.append(watcher.line(change_type, entry))
        size += len(lines[-1])
        if size > _FLUSH_BYTES:
            await _send(watcher, exchange, b"".join(lines))
            if size > _LARGE_BYTES or work.is_over:
                await work.pause()  # a thousand watchers of one large object do not all copy it at the same time
            lines, size = [], 0
            await exchange.drain(watcher.limits.send_seconds)
        elif work.is_over:
            await work.pause()
    if lines:
        await _send(watcher, exchange, lines[0] if len(lines) == 1 else b"".join(lines))


async def _send(watcher: _Watcher, exchange: Exchange, body: bytes) -> None:
    await exchange.send(body, watcher.limits.send_seconds)


def _error_line(watcher: _Watcher, error: ApiError) -> bytes:
    return b'{"type":"ERROR","object":%b}\n' % encode(status_of(error, watcher.objects.registry))


def _start(objects: Objects, request: Request) -> tuple[int, bool]:
    """The revision to start after, and whether what is there comes first."""
    revision = revision_of(request)
    check_not_too_new(objects.store, revision)
    match = request.query.get("resourceVersionMatch", "")
    if request.query.get("sendInitialEvents"):
        if match != "NotOlderThan":
            raise BadRequest("resourceVersionMatch: Forbidden: sendInitialEvents requires it to be set to NotOlderThan")
        return revision or objects.store.revision, request.flag("sendInitialEvents")
    if match:
        raise BadRequest(
            "resourceVersionMatch: Forbidden: it is forbidden for watch unless sendInitialEvents is provided"
        )
    return revision, revision == 0


def _seconds(request: Request, limits: Limits) -> float:
    asked = request.number("timeoutSeconds")
    if asked is not None and asked < 0:
        raise BadRequest(f"timeoutSeconds: Invalid value: {asked}: must not be negative")
    # Watchers that began together should not all come back together.
    return min(float(asked), limits.longest_watch_seconds) if asked else limits.watch_seconds * random.uniform(1, 2)  # noqa: S311
