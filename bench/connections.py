"""Connections for benchmarks that play a client: a pool that answers requests, and streams of events.

Small and fast on purpose: what is measured is the server, and the client must not be what sets the pace.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple, cast

import httptools

from bench.api.wire import JSON, Refused, Target


class Answer(NamedTuple):
    status: int
    body: bytes


Heard = Callable[["Answer | Exception"], object]
"""Called once, with the answer to a request or with what kept it from coming."""


class _Connection(asyncio.Protocol):
    """One connection: a request at a time."""

    def __init__(self, free: Callable[[_Connection], None]) -> None:
        """`free` is called whenever it could take another request."""
        self._free = free
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._heard: Heard | None = None
        self._body: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        heard, self._heard = self._heard, None
        if heard is not None:
            heard(exc or ConnectionError("the server ended the connection"))

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        heard, self._heard = self._heard, None
        body, self._body = self._body, []
        answer = Answer(self._parser.get_status_code(), body[0] if len(body) == 1 else b"".join(body))
        self._free(self)
        if heard is not None:
            heard(answer)

    def send(self, request: bytes, heard: Heard) -> None:
        if self._transport is None:
            heard(ConnectionError("the connection is closed"))
            return
        self._heard = heard
        self._transport.write(request)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()


class Pool:
    """So many connections to one server; requests take turns."""

    def __init__(self, target: Target, size: int) -> None:
        self._target = target
        self._size = size
        self._free: deque[_Connection] = deque()
        self._waiting: deque[tuple[bytes, Heard]] = deque()
        self._all: list[_Connection] = []

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(self._size):
            connection = _Connection(self._go_on)
            await loop.create_connection(
                lambda connection=connection: connection,
                self._target.host,
                self._target.port,
                ssl=self._target.trust,
            )
            self._all.append(connection)
            self._free.append(connection)

    def send(self, method: str, path: str, body: bytes, content_type: str, heard: Heard) -> None:
        """One request; nobody has to wait for its answer."""
        request = self._target.head(method, path, length=len(body), content_type=content_type) + body
        if self._free:
            self._free.popleft().send(request, heard)
        else:
            self._waiting.append((request, heard))

    async def ask(self, method: str, path: str, body: bytes = b"", content_type: str = JSON) -> Answer:
        """One request, whatever the answer is."""
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def heard(answer: Answer | Exception) -> None:
            if answered.done():
                return
            if isinstance(answer, Exception):
                answered.set_exception(answer)
            else:
                answered.set_result(answer)

        self.send(method, path, body, content_type, heard)
        return await answered

    async def must(self, method: str, path: str, body: bytes = b"", content_type: str = JSON) -> bytes:
        """One request that has to succeed."""
        answer = await self.ask(method, path, body, content_type)
        if not 200 <= answer.status < 300:
            raise Refused(f"{method} {path}: {answer.status} {answer.body[:500].decode(errors='replace')}")
        return answer.body

    def close(self) -> None:
        for connection in self._all:
            connection.close()

    def _go_on(self, connection: _Connection) -> None:
        if self._waiting:
            connection.send(*self._waiting.popleft())
        else:
            self._free.append(connection)


class Stream(asyncio.Protocol):
    """A watch: each line goes to a handler. It must not end before it is closed."""

    def __init__(self, target: Target, path: str, on_line: Callable[[bytes], None]) -> None:
        self._target = target
        self._path = path
        self._on_line = on_line
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._rest: deque[bytes] = deque()
        self._closed = False
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Never done while all is well."""

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.create_connection(lambda: self, self._target.host, self._target.port, ssl=self._target.trust)

    def close(self) -> None:
        self._closed = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._target.head("GET", self._path))

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or ConnectionError("the server ended the watch"))

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except Exception as problem:  # noqa: BLE001 - whatever a handler finds wrong ends the benchmark
            self._fail(problem)

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status != 200:
            self._fail(Refused(f"the watch of {self._path} was answered with {status}"))

    def on_body(self, body: bytes) -> None:
        *lines, rest = body.split(b"\n")
        if lines and self._rest:
            lines[0] = b"".join(self._rest) + lines[0]
            self._rest.clear()
        if rest:
            self._rest.append(rest)
        for line in lines:
            self._on_line(line)

    def on_message_complete(self) -> None:
        self._fail(ConnectionError("the server ended the watch"))

    def _fail(self, problem: Exception) -> None:
        if not self._closed and not self.failed.done():
            self.failed.set_exception(problem)
