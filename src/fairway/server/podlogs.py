"""A pod's log over HTTP: the part that is asked for, followed for as long as its container runs."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

from fairway.errors import Expired
from fairway.kinds.kind import Manifest
from fairway.runtime.inotify import FileChanges
from fairway.server.limits import Limits
from fairway.server.logs.reading import log_path, read_log
from fairway.server.logs.requests import choose_container, choose_restart, parse_options
from fairway.server.requests import Request, Send
from fairway.server.responses import Response
from fairway.server.routes import Route
from fairway.server.streaming import send_piece, stream
from fairway.store.entries import DELETED
from fairway.store.objects import Objects
from fairway.store.objects.reading import decoded
from fairway.store.selectors import Selection

_TEXT = b"text/plain"


class Logs:
    """Where logs are kept, and the one watch on files that all followers share."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self._changes: FileChanges | None = None

    @property
    def changes(self) -> FileChanges:
        if self._changes is None:
            self._changes = FileChanges()
        return self._changes

    def close(self) -> None:
        if self._changes is not None:
            self._changes.close()
            self._changes = None


async def pod_log(
    objects: Objects,
    request: Request,
    route: Route,
    logs: Logs,
    limits: Limits,
    start: Callable[[], None],
    send: Send,
) -> Response | None:
    """Send a log; `start` is called right before the first byte. An answer comes back where nothing was sent."""
    options = parse_options(request.query, route.name)
    entry = objects.get(route.kind, route.namespace, route.name)
    pod = decoded(entry)
    container = choose_container(pod, options.container)
    restart = choose_restart(pod, container, previous=options.previous)
    if restart is None:
        return Response(204, b"", _TEXT)  # it is on no node yet, so nothing was written
    path = log_path(logs.state, route.namespace, entry.meta.uid, container, restart)
    finished = asyncio.Event()
    if not options.follow or _has_ended(pod, container, restart):
        finished.set()
    start()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", _TEXT)]})
    noticing = asyncio.create_task(_notice_end(objects, route, entry.meta.uid, container, restart, finished))
    try:
        log = read_log(path, options, finished=finished, changes=logs.changes)
        await stream(request, send, _send_all(log, limits, send))
    finally:
        noticing.cancel()
    return None


async def _send_all(log: AsyncGenerator[bytes, None], limits: Limits, send: Send) -> None:
    await send({"type": "http.response.body", "body": b"", "more_body": True})
    async with contextlib.aclosing(log) as pieces:
        async for piece in pieces:
            await send_piece(send, piece, limits.send_seconds)


async def _notice_end(
    objects: Objects, route: Route, uid: str, container: str, restart: int, finished: asyncio.Event
) -> None:
    """Follow the pod until this start of the container is over or the pod is gone."""
    selection = Selection(route.kind, route.namespace, fields=f"metadata.name={route.name}")
    while not finished.is_set():
        # From now on, not from when the pod last changed: that may be longer ago than changes are remembered.
        events = objects.watch(selection, objects.store.revision)
        entry = objects.store.get(route.kind.resource, (route.namespace, route.name))
        if entry is None or entry.meta.uid != uid or _has_ended(decoded(entry), container, restart):
            finished.set()
        try:
            while not finished.is_set():
                for event in await events.next():
                    if event.type == DELETED or _has_ended(decoded(event.entry), container, restart):
                        finished.set()
        except Expired:
            continue


def _has_ended(pod: Manifest, container: str, restart: int) -> bool:
    status = pod.get("status") or {}
    if status.get("phase") in {"Succeeded", "Failed"}:
        return True
    for name in ("containerStatuses", "initContainerStatuses"):
        for one in status.get(name) or ():
            if one.get("name") == container:
                return one.get("restartCount", 0) > restart or "terminated" in (one.get("state") or {})
    return False
