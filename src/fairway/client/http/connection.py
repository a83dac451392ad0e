"""One HTTP/1.1 connection to a server: one request at a time, bodies as they arrive.

Responses are parsed by httptools. What arrives faster than it is read is bounded: reading from the socket pauses. What
the server sends is not trusted: headers have bounds, and anything that is not HTTP is `Garbled`.
"""

import asyncio
import os
import socket
import ssl
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from typing import Any, Final, cast

import httptools

from fairway.client.rest.errors import Garbled, Unreachable
from fairway.client.rest.http import CONNECT_SECONDS, Address, Dropped, failure, keep_alive

Headers = Sequence[tuple[str, str]]

_MOST_HEADER_BYTES: Final = 64 << 10
_MOST_BUFFERED: Final = 1 << 20
"""Bytes of a body that wait to be read before reading from the socket pauses."""


class ClientResponse:
    """A response whose head has arrived; the body may still be on its way."""

    def __init__(self, connection: "Connection", status: int, headers: dict[str, str]) -> None:
        self.connection = connection
        self.status = status
        self.headers = headers
        """By lower-case name; several of one name are joined with a comma."""

    async def pieces(self, seconds: float | None) -> AsyncGenerator[bytes, None]:
        """The body as it arrives; `seconds` bounds the silence between two pieces."""
        while piece := await self.connection.piece(seconds):
            yield piece

    async def read(self, seconds: float | None, most: int) -> bytes:
        """The whole body; `Garbled` if it is larger than `most` bytes."""
        found, size = [], 0
        async for piece in self.pieces(seconds):
            size += len(piece)
            if size > most:
                self.connection.close()
                raise Garbled(f"{self.connection.address} answered with more than {most >> 20} MiB")
            found.append(piece)
        return found[0] if len(found) == 1 else b"".join(found)


class Connection(asyncio.Protocol):
    """A connection that is used for one request after another until something fails on it."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._headers: dict[str, str] = {}
        self._head_bytes = 0
        self._pieces: deque[bytes] = deque()
        self._buffered = 0
        self._paused = False
        self._complete = True
        self._until_eof = False
        self._head_only = False
        self._failure: Exception | None = None
        self._arrived: asyncio.Future[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._answered = 0
        self._status = 0

    @classmethod
    async def open(cls, address: Address) -> "Connection":
        loop = asyncio.get_running_loop()
        connection = cls(address)
        server_name = (address.server_name or address.host) if address.tls else None
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await loop.create_connection(
                    lambda: connection, address.host, address.port, ssl=address.tls, server_hostname=server_name
                )
        except TimeoutError:
            raise Unreachable(f"{address}: no connection within {CONNECT_SECONDS:.0f} s") from None
        except OSError as error:
            if type(error) is not ssl.SSLCertVerificationError and error.errno and error.errno > 0:
                error.strerror = os.strerror(error.errno)  # asyncio puts the address there
            raise Unreachable(failure(address, error)) from error
        return connection

    @property
    def usable(self) -> bool:
        """Whether another request can be sent: connected, and the last response was read to its end."""
        return self._transport is not None and self._failure is None and self._complete and not self._pieces

    async def request(
        self, method: str, target: str, headers: Headers, body: bytes | AsyncIterable[bytes], seconds: float | None
    ) -> ClientResponse:
        """Send a request and return when the head of the response has arrived.

        `Dropped` if the server closed a kept connection before it sent anything: nothing was processed.
        """
        self._parser = httptools.HttpResponseParser(self)
        self._headers, self._head_bytes, self._status = {}, 0, 0
        self._complete, self._until_eof, self._head_only = False, False, method == "HEAD"
        try:
            await self._send(method, target, headers, body)
            while not self._status:
                await self._wait(seconds)
        except BaseException:  # a cancelled request too: its response would be taken for that of the next one
            self.close()
            raise
        self._answered += 1
        return ClientResponse(self, self._status, self._headers)

    async def piece(self, seconds: float | None) -> bytes:
        """The next part of the body; empty at its end."""
        while not self._pieces:
            if self._complete:
                return b""
            try:
                await self._wait(seconds)
            except BaseException:
                self.close()
                raise
        piece = self._pieces.popleft()
        self._buffered -= len(piece)
        if self._paused and self._buffered < _MOST_BUFFERED // 2 and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()
        return piece

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _send(self, method: str, target: str, headers: Headers, body: bytes | AsyncIterable[bytes]) -> None:
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self.address.host_header or self.address.host}"]
        lines += [f"{name}: {value}" for name, value in headers]
        if isinstance(body, bytes) and (body or method in {"POST", "PUT", "PATCH"}):
            lines.append(f"Content-Length: {len(body)}")
        if " " in target or any("\r" in line or "\n" in line for line in lines):
            raise ValueError(f"{method} {target!r}: the path or a header has a space or a line break in it")
        head = "\r\n".join((*lines, "", "")).encode("latin-1")
        if isinstance(body, bytes):
            self._write(head + body)
            return
        self._write(head)
        async for part in body:
            await self._writable.wait()
            self._write(part)

    def _write(self, data: bytes) -> None:
        if self._transport is None or self._failure is not None:
            raise self._broken()
        self._transport.write(data)

    async def _wait(self, seconds: float | None) -> None:
        """Until something arrives."""
        if self._failure is not None:
            raise self._broken()
        self._arrived = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                await self._arrived
        except TimeoutError:
            raise Unreachable(f"{self.address} sent nothing for {seconds:g} s") from None
        finally:
            self._arrived = None

    def _wake(self) -> None:
        if self._arrived is not None and not self._arrived.done():
            self._arrived.set_result(None)

    def _broken(self) -> Exception:
        if isinstance(self._failure, Garbled):
            return self._failure
        if self._answered and not self._status and not self._complete:
            return Dropped(f"{self.address} closed the connection")
        return Unreachable(f"{self.address} closed the connection in the middle of a response")

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        found: socket.socket | None = transport.get_extra_info("socket")
        if found is not None:
            keep_alive(found)

    def data_received(self, data: bytes) -> None:
        if self._complete:
            self._fail(Garbled(f"{self.address} sent an unexpected response"))
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(Garbled(f"{self.address} does not speak HTTP/1.1: {error}"))
        if not self._status:
            self._head_bytes += len(data)
            if self._head_bytes > _MOST_HEADER_BYTES:
                self._fail(Garbled(f"{self.address} sent more than {_MOST_HEADER_BYTES >> 10} KiB of headers"))
        if self._buffered > _MOST_BUFFERED and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._writable.set()
        if self._until_eof and self._status and error is None:
            self._complete = True
        self._failure = self._failure or error or ConnectionError("closed")
        self._wake()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _fail(self, error: Exception) -> None:
        self._failure = error
        self.close()
        self._wake()

    # httptools

    def on_header(self, name: bytes, value: bytes) -> None:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        before = self._headers.get(key)
        self._headers[key] = text if before is None else f"{before}, {text}"

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            return
        self._status = status
        self._until_eof = not self._headers.keys() & {"content-length", "transfer-encoding"}
        if self._head_only:
            self._complete = True
            self._failure = ConnectionError("not kept after HEAD")  # the parser would wait for a body

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)
        self._buffered += len(body)

    def on_message_complete(self) -> None:
        if not self._status:
            self._headers = {}  # a 1xx: the response comes after it
            return
        self._complete = True
        if not self._parser.should_keep_alive():
            self._failure = ConnectionError("not kept")
