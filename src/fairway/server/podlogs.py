"""A pod's log over HTTP: the part that is asked for, followed for as long as its container runs."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

from fairway.apis.core.pod_parts import statuses_of
from fairway.apis.machinery.kind import Manifest
from fairway.errors import Expired
from fairway.runtime.inotify import FileChanges
from fairway.server.http import Exchange
from fairway.server.limits import Limits
from fairway.server.logs.reading import log_path, read_log
from fairway.server.logs.requests import LogOptions, choose_container, choose_restart, parse_options
from fairway.server.requests import Request
from fairway.server.responses import Response
from fairway.server.routes import Route
from fairway.server.streaming import stream
from fairway.store.selectors import Selection
from fairway.store.verbs import Objects
from fairway.store.verbs.reading import decoded

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


class Source(NamedTuple):
    """One start of a container."""

    namespace: str
    pod: str
    uid: str
    container: str
    restart: int


async def pod_log(
    objects: Objects,
    request: Request,
    route: Route,
    logs: Logs,
    limits: Limits,
    start: Callable[[], None],
) -> Response | None:
    """Send a log; `start` is called right before the first byte. An answer comes back where nothing was sent."""
    options = parse_options(request.query, route.name)
    entry = objects.get(route.kind, route.namespace, route.name)
    pod = decoded(entry)
    container = choose_container(pod, options.container)
    restart = choose_restart(pod, container, previous=options.previous)
    if restart is None:
        return nothing()  # it is on no node yet, so nothing was written
    source = Source(route.namespace, route.name, entry.meta.uid, container, restart)
    exchange = request.exchange
    await answer(exchange, start, send_log(objects, source, options, logs, limits, exchange))
    return None


def nothing() -> Response:
    """The answer where there is no log yet."""
    return Response(204, b"", _TEXT)


async def answer(exchange: Exchange, start: Callable[[], None], telling: Coroutine[Any, Any, None]) -> None:
    """Begin the answer, and carry out what tells the client something for as long as it listens."""
    start()
    exchange.start(200, _TEXT)
    exchange.write(b"")
    await stream(exchange, telling)


async def send_log(
    objects: Objects, source: Source, options: LogOptions, logs: Logs, limits: Limits, exchange: Exchange
) -> None:
    """Send the log of a container; followed until it has ended or its pod is gone."""
    path = log_path(logs.state, source.namespace, source.uid, source.container, source.restart)
    finished = asyncio.Event()
    if not options.follow:
        finished.set()
    noticing = asyncio.create_task(_notice_end(objects, source, finished))
    try:
        async with contextlib.aclosing(read_log(path, options, finished=finished, changes=logs.changes)) as pieces:
            async for piece in pieces:
                await exchange.send(piece, limits.send_seconds)
    finally:
        noticing.cancel()


async def pod_until(objects: Objects, source: Source, condition: Callable[[Manifest], bool]) -> None:
    """Return when something holds of a pod, or it is gone."""
    key = (source.namespace, source.pod)
    pods = objects.registry.named("pods")
    selection = Selection(pods, source.namespace, fields=f"metadata.name={source.pod}")
    while True:
        # From now on, not from when the pod last changed: that may be longer ago than changes are remembered.
        events = objects.watch(selection, objects.store.revision)
        entry = objects.store.get(pods.resource, key)
        if entry is None or entry.meta.uid != source.uid or condition(decoded(entry)):
            return
        with contextlib.suppress(Expired):
            while not await events.next():
                pass


async def _notice_end(objects: Objects, source: Source, finished: asyncio.Event) -> None:
    if not finished.is_set():
        await pod_until(objects, source, lambda pod: has_ended(pod, source.container, source.restart))
        finished.set()


def has_ended(pod: Manifest, container: str, restart: int) -> bool:
    """Whether that start of a container is over."""
    status = pod.get("status") or {}
    if status.get("phase") in {"Succeeded", "Failed"}:
        return True
    for one in statuses_of(pod):
        if one.get("name") == container:
            return one.get("restartCount", 0) > restart or "terminated" in (one.get("state") or {})
    return False
