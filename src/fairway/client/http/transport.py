"""Requests to one server: sent, retried where that is safe, answered with JSON or an `ApiError`."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

import msgspec

from fairway import __version__
from fairway.client.http.connection import ClientResponse
from fairway.client.http.pool import MOST_CONNECTIONS, Pool
from fairway.client.rest import refusals
from fairway.client.rest.access import Access
from fairway.client.rest.errors import Garbled, Unreachable, Unreadable
from fairway.client.rest.http import Dropped
from fairway.client.rest.kubeconfig import load_context
from fairway.client.rest.wire import (
    JSON,
    LONGEST_EVENT,
    LONGEST_WAIT,
    Query,
    decode,
    decode_event,
    query_string,
    retry_after,
)
from fairway.errors import ApiError, NotFound
from fairway.runtime.backoff import Backoff
from fairway.runtime.clock import Clock
from fairway.runtime.ratelimit import RateLimit

_SILENT_SECONDS: Final = 60.0
_LARGEST_BODY: Final = 512 << 20
_PIECE: Final = 256 << 10
_READS: Final = frozenset({"GET", "HEAD"})
_BACKOFF: Final = Backoff(first=0.1, cap=5.0)
_NOTHING: Final[Mapping[str, Query]] = {}


class Transport:
    """One server, as the user of one context of a kubeconfig. For one event loop.

    Reads are repeated after a lost connection or a 5xx; every request is repeated after a 429, and after a 503 with
    Retry-After where it is idempotent; credentials of exec plugins and of files are renewed after a 401. All of it
    within `LONGEST_WAIT` seconds, then the last error is raised.
    """

    def __init__(
        self, access: Access, clock: Clock, *, silent_seconds: float = _SILENT_SECONDS, most: int = MOST_CONNECTIONS
    ) -> None:
        self._access = access
        self._clock = clock
        self._silent_seconds = silent_seconds
        self._pool = Pool(access, clock, most)
        self.context = access.context.name
        self.namespace = access.context.namespace
        """Of the context; `default` if it names none."""

        self.limit: RateLimit | None = None
        """Every request waits for it, repeated ones too."""

        self.fence: Callable[[], None] | None = None
        """Called before each write is sent, after all waiting; what it raises is raised instead (`election.py`)."""

    @property
    def server(self) -> str:
        return self._access.context.endpoint.url

    async def json(
        self, method: str, path: str, query: Mapping[str, Query] = _NOTHING, body: Any = None, content: str = JSON
    ) -> Any:
        """The decoded answer to a request; `body` is encoded as JSON."""
        encoded = b"" if body is None else msgspec.json.encode(body)
        headers = [("Content-Type", content)] if encoded else []
        answer = await self._read(method, f"{path}{query_string(query, path)}", headers, encoded)
        return decode(answer, self.server)

    async def exists(self, path: str) -> bool:
        """Whether a HEAD finds something."""
        try:
            await self._read("HEAD", path, [], b"")
        except NotFound:
            return False
        return True

    async def upload(self, path: str, file: BinaryIO, size: int, content_type: str = "application/gzip") -> None:
        """Send `size` bytes of a file from where it stands."""
        start = file.tell()

        async def pieces() -> AsyncIterator[bytes]:
            left = size
            await asyncio.to_thread(file.seek, start)
            while left:
                piece = await asyncio.to_thread(file.read, min(_PIECE, left))
                if not piece:
                    raise Unreadable(
                        f"{path}: the file to be sent is {left} bytes shorter than it was; was it changed?"
                    )
                left -= len(piece)
                yield piece

        headers = [("Content-Type", content_type), ("Content-Length", str(size))]
        await self._read("PUT", path, headers, pieces())

    async def watch(
        self, path: str, query: Mapping[str, Query] = _NOTHING
    ) -> AsyncGenerator[list[dict[str, Any]], None]:
        """The events of a watch, those that arrive together in one list, until the server ends it.

        An ERROR event is raised as the error it stands for, such as `Expired`.
        """
        target = f"{path}{query_string({**query, 'watch': True}, path)}"
        held = b""
        ends = query.get("timeoutSeconds")
        silent = None if ends is None else int(ends) + self._silent_seconds
        async with aclosing(self._stream(target, silent)) as pieces:
            async for piece in pieces:
                *lines, held = (held + piece).split(b"\n")
                if len(held) > LONGEST_EVENT:
                    raise Garbled(f"{self.server} sent an event of more than {LONGEST_EVENT >> 20} MiB")
                if events := [decode_event(line, self.server) for line in lines if line.strip()]:
                    yield events

    def stream(self, path: str, query: Mapping[str, Query] = _NOTHING) -> AsyncGenerator[bytes, None]:
        """What comes, as it comes, until the server ends it; it may be silent for as long as it likes."""
        return self._stream(f"{path}{query_string(query, path)}", None)

    def refresh(self) -> None:
        """Read the kubeconfig again; new connections use what it says now."""
        if self._access.moved():
            self._pool.drop_idle()

    def close(self) -> None:
        """Close all connections; requests under way end with `Unreachable`."""
        self._pool.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def _stream(self, target: str, silent_seconds: float | None) -> AsyncGenerator[bytes, None]:
        response = await self._answer("GET", target, [], b"", lasting=True)
        try:
            async with aclosing(response.pieces(silent_seconds)) as pieces:
                async for piece in pieces:
                    yield piece
        finally:
            self._pool.give_back(response.connection, lasting=True)

    async def _read(
        self, method: str, target: str, headers: list[tuple[str, str]], body: bytes | AsyncIterable[bytes]
    ) -> bytes:
        response = await self._answer(method, target, headers, body)
        try:
            return await response.read(self._silent_seconds, _LARGEST_BODY)
        finally:
            self._pool.give_back(response.connection)

    async def _answer(
        self,
        method: str,
        target: str,
        headers: list[tuple[str, str]],
        body: bytes | AsyncIterable[bytes],
        *,
        lasting: bool = False,
    ) -> ClientResponse:
        """A response that says yes; its connection is to be given back."""
        waited, failures, renewed = 0.0, 0, False
        while True:
            error: ApiError | Unreachable
            if self.limit is not None:
                await self.limit.wait()
            if self.fence is not None and method not in _READS:
                self.fence()
            try:
                response = await self._send(method, target, headers, body, lasting=lasting)
                if 200 <= response.status < 300:
                    return response
                error = await self._refusal(method, target, response, lasting=lasting)
                if error.code == 401 and not renewed and self._access.renew():
                    renewed = True
                    self._pool.drop_idle()
                    continue
                pause = retry_after(method, response.status, response.headers)
                if pause is None and (response.status == 429 or (response.status >= 500 and method in _READS)):
                    pause = _BACKOFF.delay(failures)
            except Unreachable as lost:
                error, pause = lost, None
                moved = self._access.moved()
                if method in _READS and (moved or isinstance(lost, Dropped)) and failures < 3:
                    pause = 0.0 if isinstance(lost, Dropped) else _BACKOFF.delay(failures)
            if pause is None or waited + pause > LONGEST_WAIT or not isinstance(body, bytes):
                raise error
            await self._clock.sleep(pause)
            waited += pause
            failures += 1

    async def _send(
        self,
        method: str,
        target: str,
        headers: list[tuple[str, str]],
        body: bytes | AsyncIterable[bytes],
        *,
        lasting: bool,
    ) -> ClientResponse:
        connection = await self._pool.take(lasting=lasting)
        try:
            access = self._access
            credentials = await asyncio.to_thread(access.headers) if access.runs_plugin else access.headers()
            everything = [("User-Agent", f"fairway/{__version__}"), ("Accept", JSON), *headers, *credentials]
            whole = f"{access.context.endpoint.base}{target}"
            return await connection.request(method, whole, everything, body, self._silent_seconds)
        except BaseException:
            connection.close()
            self._pool.give_back(connection, lasting=lasting)
            raise

    async def _refusal(self, method: str, target: str, response: ClientResponse, *, lasting: bool) -> ApiError:
        try:
            if 300 <= response.status < 400:
                to = response.headers.get("location", "elsewhere")[:200]
                raise Garbled(f"{self.server} redirects to {to!r}; give the address of the API server itself")
            body = await response.read(self._silent_seconds, _LARGEST_BODY)
        finally:
            self._pool.give_back(response.connection, lasting=lasting)
        return refusals.refusal(response.status, body, f"{method} {target.partition('?')[0]}")


def open_transport(
    kubeconfig: Path | str, context: str, clock: Clock, *, silent_seconds: float = _SILENT_SECONDS
) -> Transport:
    """The server of a context, of the current one if empty. Nothing is sent yet."""
    found = load_context(kubeconfig, context)
    access = Access(found, reread=lambda: load_context(kubeconfig, found.name))
    return Transport(access, clock, silent_seconds=silent_seconds)
