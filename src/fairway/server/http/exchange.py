"""One request and its response, independent of the version of HTTP.

A connection makes an `Exchange` when the head of a request is complete and passes it to the handler. The handler reads
the body from it (`collect`, `body`, `pieces`) and answers with `respond`, or with `start`, `write` and `end`; neither
side knows more of the other. A test can be the connection: it subclasses `Exchange` and needs no socket.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from fairway.errors import ApiError, BadRequest, TooLarge
from fairway.server.responses import Response

Headers = tuple[tuple[bytes, bytes], ...]


class Exchange:
    """One request and its response. Subclasses send the response, and say when the client takes more."""

    __slots__ = (
        "_drained",
        "_on_arrival",
        "_parts",
        "client",
        "complete",
        "finished",
        "gone",
        "headers",
        "method",
        "on_gone",
        "path",
        "query",
    )

    def __init__(self, method: str, path: bytes, query: bytes, headers: list[tuple[bytes, bytes]], client: str) -> None:
        self.method = method
        self.path = path
        self.query = query
        self.headers = headers
        """Names in lower case, in the order of arrival; a name may occur more than once."""

        self.client = client
        """The client's address."""

        self.complete = False
        """Whether the whole body has arrived."""

        self.finished = False
        """Whether the response was sent, or given up."""

        self.gone = False
        """Whether the client hung up before that."""

        self.on_gone: Callable[[], object] | None = None
        """Called when the client hangs up."""

        self._parts: list[bytes] = []
        self._on_arrival: Callable[[], None] | None = None
        self._drained: asyncio.Future[None] | None = None

    def peer_certificate(self) -> dict[str, Any]:
        """The verified certificate of the client, in the form of `ssl.SSLSocket.getpeercert`; empty without one."""
        return {}

    # The connection's side

    def feed(self, data: bytes) -> None:
        """A part of the body arrived."""
        if self.finished or self.gone:
            self._consumed(len(data))
            return
        self._parts.append(data)
        if self._on_arrival is not None:
            self._on_arrival()

    def feed_end(self) -> None:
        """The body is complete."""
        self.complete = True
        if self._on_arrival is not None:
            self._on_arrival()

    def lose(self) -> None:
        """The client hung up, or is not waited for any longer."""
        if self.finished or self.gone:
            return
        self.gone = True
        self.wake()
        if self._on_arrival is not None:
            self._on_arrival()
        if self.on_gone is not None:
            self.on_gone()

    def wake(self) -> None:
        """The client takes more."""
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    # The handler's side: the request

    def collect(self, limit: int, seconds: float, done: Callable[[bytes | ApiError], None]) -> None:
        """Call `done` with the whole body, at once if it is here, or with the reason why there is none.

        That is a body larger than `limit`, one that takes longer than `seconds` (without the time that the server
        itself is behind), or a client that hangs up.
        """
        if self.complete:
            body = self._take()
            done(body if len(body) <= limit else too_large(limit))
        else:
            self._gather(limit, seconds, done)

    def _gather(self, limit: int, seconds: float, done: Callable[[bytes | ApiError], None]) -> None:
        parts: list[bytes] = []
        size = 0
        timer: asyncio.TimerHandle

        def finish(found: bytes | ApiError) -> None:
            timer.cancel()
            self._on_arrival = None
            done(found)

        def on_arrival() -> None:
            nonlocal size
            if part := self._take():
                parts.append(part)
                size += len(part)
            if size > limit:
                finish(too_large(limit))
            elif self.complete:
                finish(b"".join(parts))
            elif self.gone:
                finish(_broken_off())

        def on_time_out() -> None:
            nonlocal timer
            if self._is_server_behind():
                timer = loop.call_later(seconds, on_time_out)
            else:
                finish(BadRequest(f"the body did not arrive within {seconds:g} seconds"))

        loop = asyncio.get_running_loop()
        timer = loop.call_later(seconds, on_time_out)
        length = next((value for name, value in self.headers if name == b"content-length"), b"0")
        if length.isdigit() and int(length[:20]) > limit:
            finish(too_large(limit))
            return
        self._on_arrival = on_arrival
        self._invite_body()
        on_arrival()

    async def body(self, limit: int, seconds: float) -> bytes:
        """The whole body; raises what `collect` passes."""
        found: asyncio.Future[bytes | ApiError] = asyncio.get_running_loop().create_future()
        self.collect(limit, seconds, lambda body: None if found.done() else found.set_result(body))
        body = await found
        if isinstance(body, ApiError):
            raise body
        return body

    async def pieces(self, idle_seconds: float) -> AsyncIterator[bytes]:
        """The body as it arrives, of any size; `BadRequest` if it ends early, or nothing comes for so long."""
        while True:
            if self._parts:
                yield self._take()
            elif self.complete:
                return
            elif self.gone:
                raise _broken_off()
            else:
                await self._arrival(idle_seconds)

    async def _arrival(self, seconds: float) -> None:
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_arrival = lambda: None if arrived.done() else arrived.set_result(None)
        self._invite_body()
        try:
            async with asyncio.timeout(seconds):
                await arrived
        except TimeoutError:
            raise BadRequest(f"no data of the body arrived for {seconds:g} seconds") from None
        finally:
            self._on_arrival = None

    def _take(self) -> bytes:
        parts, self._parts = self._parts, []
        if not parts:
            return b""
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        self._consumed(len(body))
        return body

    # The handler's side: the response

    async def send(self, data: bytes, seconds: float | None = None) -> None:
        """Write a part of the response once the client takes more; `TimeoutError` if it takes nothing for so long."""
        if not self.writable:
            await self.drain(seconds)
        self.write(data)

    async def drain(self, seconds: float | None = None) -> None:
        """Wait until the client takes more, before more is even made; `TimeoutError` if that takes longer."""
        while not self.writable and not self.gone:
            self._drained = asyncio.get_running_loop().create_future()
            try:
                async with asyncio.timeout(seconds):
                    await self._drained
            finally:
                self._drained = None

    # What the versions of HTTP do in their own way

    @property
    def writable(self) -> bool:
        """Whether the client keeps up, so that another part of the response need not wait."""
        raise NotImplementedError

    def respond(self, response: Response) -> None:
        """Send a whole response."""
        raise NotImplementedError

    def start(self, code: int, content_type: bytes, headers: Headers = ()) -> None:
        """Begin a response of unknown length; its head leaves with the first `write`, even of nothing."""
        raise NotImplementedError

    def write(self, data: bytes) -> None:
        """Send a part of the response, or keep it until the client takes it; nothing if the client is gone."""
        raise NotImplementedError

    def end(self) -> None:
        """The response is complete."""
        raise NotImplementedError

    def abort(self) -> None:
        """End the exchange at once, so that the client sees that the response is not complete."""
        raise NotImplementedError

    def _consumed(self, size: int) -> None:
        """So much of the body was read: the client may send more."""

    def _is_server_behind(self) -> bool:
        """Whether the body may have arrived without having been read yet."""
        return False

    def _invite_body(self) -> None:
        """The handler waits for the body: a client with `Expect: 100-continue` gets its answer."""


Handler = Callable[[Exchange], None]
"""Answers an exchange, now or later; called when the head of the request is complete."""


def too_large(limit: int) -> TooLarge:
    """The refusal of a body."""
    return TooLarge(f"the body is larger than the limit of {limit} bytes")


def _broken_off() -> BadRequest:
    return BadRequest("the connection was closed before the end of the body")
