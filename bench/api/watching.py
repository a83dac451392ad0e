"""Many watchers of one namespace, in a process of their own, and what they saw when.

The writer stays in the calling process and learns over a pipe which event has reached everybody. Watchers whose stream
ends go on from the last revision they saw, as clients do; an event that comes twice, out of order or not at all is
found by its name.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import re
import time
from array import array
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Self, cast

import httptools
import uvloop

from bench.api.manifests import name
from bench.api.wire import Refused, Target

_REVISION = re.compile(rb'"resourceVersion": ?"(\d+)"')
_OPENED = -1
"""Sent in place of an event's number when all streams are open."""


class Sightings(NamedTuple):
    """What all watchers saw together."""

    last_seen: array[float]
    """When the last watcher had the event, for each event (of the clock all processes share)."""
    resumed: int
    """Streams that the server ended, and that were opened again."""


class _Tally:
    """Counts each event until every watcher has it, and says so over the pipe."""

    def __init__(self, watchers: int, events: int, progress: Connection) -> None:
        self._watchers = watchers
        self._progress = progress
        self._missing = array("L", [watchers]) * events
        self.names = [f'"{name(number)}"'.encode() for number in range(events)]
        self.last_seen = array("d", [0.0]) * events
        self.complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.listening = 0
        self.resumed = 0

    def opened(self) -> None:
        self.listening += 1
        if self.listening == self._watchers:
            self._progress.send(_OPENED)

    def seen(self, number: int) -> None:
        self._missing[number] -= 1
        if self._missing[number] == 0:
            self.last_seen[number] = time.monotonic()
            self._progress.send(number)
            if number == len(self._missing) - 1:
                self.complete.set_result(None)

    def failed(self, problem: Exception) -> None:
        if not self.complete.done():
            self.complete.set_exception(problem)


class _Watcher(asyncio.Protocol):
    """One stream; which event comes next is known, as there is one writer."""

    def __init__(self, target: Target, path: str, revision: str, tally: _Tally) -> None:
        self._target = target
        self._path = f"{path}?watch=true&resourceVersion="
        self._revision = revision
        self._tally = tally
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._listened = False
        self._rest = b""
        self._last_line = b""
        self._next = 0
        self._reopening: asyncio.Future[None] | None = None

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, self._target.host, self._target.port, ssl=self._target.trust)

    async def _reopen(self) -> None:
        try:
            await self.open()
        except OSError as problem:
            self._tally.failed(problem)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpResponseParser(self)
        self._ask()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - what asyncio calls it
        self._transport = None
        if not self._tally.complete.done():
            self._tally.resumed += 1
            self._reopening = asyncio.ensure_future(self._reopen())

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status != 200:
            self._tally.failed(Refused(f"a watch was answered with {status}"))
        elif not self._listened:
            self._listened = True
            self._tally.opened()

    def on_body(self, body: bytes) -> None:
        *lines, self._rest = (self._rest + body if self._rest else body).split(b"\n")
        for line in lines:
            self._event(line)

    def on_message_complete(self) -> None:
        """The server ended the stream but kept the connection."""
        if not self._tally.complete.done():
            self._tally.resumed += 1
            self._ask()

    def _ask(self) -> None:
        """For all that comes after the last event seen; one that was cut off comes again."""
        found = _REVISION.search(self._last_line)
        revision = found[1].decode() if found else self._revision
        self._rest = b""
        if self._transport is not None:
            self._transport.write(self._target.head("GET", self._path + revision))

    def _event(self, line: bytes) -> None:
        if self._next == len(self._tally.names) or self._tally.names[self._next] not in line:
            self._tally.failed(AssertionError(f"a watcher waited for event {self._next} and got {line[:300]!r}"))
            return
        self._last_line = line
        self._tally.seen(self._next)
        self._next += 1


async def watch(
    target: Target, path: str, revision: str, watchers: int, events: int, progress: Connection
) -> Sightings:
    """Until every watcher has every event, which ``progress`` hears of one by one."""
    tally = _Tally(watchers, events, progress)
    streams = [_Watcher(target, path, revision, tally) for _ in range(watchers)]
    try:
        for stream in streams:
            await stream.open()
        await tally.complete
    finally:
        for stream in streams:
            stream.close()
    return Sightings(tally.last_seen, tally.resumed)


class Crowd:
    """The watchers, seen from the writer's process. Inside ``with`` all of them listen."""

    def __init__(self, target: Target, path: str, revision: str, watchers: int, events: int) -> None:
        context = multiprocessing.get_context("fork")
        self._received, self._sender = context.Pipe(duplex=False)
        self._process = context.Process(target=self._run, args=(target, path, revision, watchers, events))
        self._events = events
        self._everywhere = _OPENED - 1

    def _run(self, target: Target, path: str, revision: str, watchers: int, events: int) -> None:
        self._sender.send(uvloop.run(watch(target, path, revision, watchers, events, self._sender)))

    def __enter__(self) -> Self:
        self._process.start()
        self._sender.close()
        self.wait_for(_OPENED)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.is_alive():
            self._process.terminate()
        self._process.join()

    def wait_for(self, number: int) -> None:
        """Until every watcher has the event with this number."""
        while self._everywhere < number:
            if not self._received.poll(60):
                raise TimeoutError(f"event {self._everywhere + 1} did not reach every watcher within a minute")
            self._everywhere = self._receive()

    def sightings(self) -> Sightings:
        """What they saw, once the last event has reached everybody."""
        self.wait_for(self._events - 1)
        sightings: Sightings = self._receive()
        return sightings

    def _receive(self) -> Any:
        try:
            return self._received.recv()
        except EOFError:
            raise Refused("the watchers failed, see above") from None
