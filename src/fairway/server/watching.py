"""Watches over HTTP: a line of JSON for every change, for as long as the client listens.

Nothing is buffered for a watcher but its place in the feed. One that takes nothing for too long, or falls so far behind
that its next change is forgotten, is let go; it lists again and goes on from there.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable

import msgspec

from fairway.errors import ApiError, BadRequest, Expired
from fairway.kinds.kind import Manifest
from fairway.server.limits import Limits
from fairway.server.negotiation import Accepted, accepted
from fairway.server.reading import revision_of, selected
from fairway.server.requests import Request, Send
from fairway.server.responses import encode, status_of
from fairway.server.routes import Route
from fairway.server.tables import Page, bookmark, included, partial_metadata, table
from fairway.store.entries import ADDED, Entry
from fairway.store.objects import Objects
from fairway.store.objects.listing import check_not_too_new
from fairway.store.objects.watching import Event, Events

_FLUSH_BYTES = 256 << 10


class _Stream:
    """One watcher: what it asked for, and how its lines are written."""

    def __init__(self, objects: Objects, request: Request, route: Route, limits: Limits) -> None:
        self.objects = objects
        self.route = route
        self.limits = limits
        self.selection = selected(request, route)
        self.form: Accepted = accepted(request.header(b"accept"))
        if self.form.yaml:
            raise BadRequest("a watch is a stream of JSON; ask for application/json")
        self.include = included(request.query.get("includeObject", ""))
        self.bookmarks = request.flag("allowWatchBookmarks")
        self.since, self.initial = _start(objects, request)
        self.initial_end = request.flag("sendInitialEvents")
        self.seconds = _seconds(request, limits)
        self._headers_sent = False

    def events(self) -> tuple[list[Entry], Events]:
        """What is there at the start, if that is asked for, and the changes after it."""
        if not self.initial:
            return [], self.objects.watch(self.selection, self.since)
        page = self.objects.page(self.selection)
        self.since = page.revision
        return page.entries, self.objects.watch(self.selection, page.revision)

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


async def watch(
    objects: Objects, request: Request, route: Route, limits: Limits, start: Callable[[], None], send: Send
) -> None:
    """Stream changes until the client is gone, the time is up or the watcher is too slow.

    `start` is called right before the first byte: from there on the answer is 200, whatever comes.
    """
    stream = _Stream(objects, request, route, limits)
    present, events = stream.events()
    start()
    await send(
        {
            "type": "http.response.start",
            "status": 200,
            "headers": [(b"content-type", b"application/json"), (b"cache-control", b"no-cache, private")],
        }
    )
    work = asyncio.current_task()
    gone = asyncio.ensure_future(request.gone())
    gone.add_done_callback(lambda _: work.cancel() if work is not None and not work.done() else None)
    try:
        await _run(stream, present, events, send)
    except asyncio.CancelledError:
        if not gone.done():
            raise
    except TimeoutError:
        return  # it takes nothing any more: the connection is dropped, not ended
    finally:
        gone.cancel()
    with contextlib.suppress(Exception):
        await send({"type": "http.response.body", "body": b""})


async def _run(stream: _Stream, present: list[Entry], events: Events, send: Send) -> None:
    await _tell_initial(stream, present, send)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + stream.seconds
    while True:
        ends = min(deadline, loop.time() + stream.limits.bookmark_seconds)
        try:
            async with asyncio.timeout_at(ends):
                seen = await events.next()
        except TimeoutError:
            if stream.bookmarks:
                stream.since = max(stream.since, stream.objects.store.revision)
                await _send(stream, send, stream.bookmark())
            if loop.time() >= deadline:
                return
            continue
        except Expired as error:
            await _send(stream, send, _error_line(stream, error))
            return
        if seen:
            await _tell(stream, seen, send)


async def _tell_initial(stream: _Stream, present: list[Entry], send: Send) -> None:
    lines: list[bytes] = []
    size = 0
    for entry in present:
        line = stream.line(ADDED, entry)
        lines.append(line)
        size += len(line)
        if size > _FLUSH_BYTES:
            await _send(stream, send, b"".join(lines))
            lines, size = [], 0
    if stream.initial_end and stream.bookmarks:
        lines.append(stream.bookmark(initial_end=True))
    # An empty piece makes the headers leave at once, so that the client knows that it is watching.
    await _send(stream, send, b"".join(lines))


async def _tell(stream: _Stream, events: list[Event], send: Send) -> None:
    if len(events) == 1:
        await _send(stream, send, stream.line(events[0].type, events[0].entry))
    else:
        await _send(stream, send, b"".join(stream.line(event.type, event.entry) for event in events))
    stream.since = events[-1].entry.revision


async def _send(stream: _Stream, send: Send, body: bytes) -> None:
    async with asyncio.timeout(stream.limits.send_seconds):
        await send({"type": "http.response.body", "body": body, "more_body": True})


def _error_line(stream: _Stream, error: ApiError) -> bytes:
    return b'{"type":"ERROR","object":%b}\n' % encode(status_of(error, stream.objects.registry))


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
    return float(asked) if asked else limits.watch_seconds * random.uniform(1, 2)  # noqa: S311
