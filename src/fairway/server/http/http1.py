"""HTTP/1.1: one request after the other on a connection, parsed by httptools."""

import asyncio
from collections import deque
from typing import Any, Final

import httptools

from fairway.server.http.connection import BUFFER_BYTES, HEADER_BYTES, PHRASES, HttpConnection, OpenConnections, refusal
from fairway.server.http.exchange import Exchange, Headers
from fairway.server.responses import Response

_STATUS_LINES: Final = {
    code: f"HTTP/1.1 {code} {phrase}\r\ncontent-type: ".encode() for code, phrase in PHRASES.items()
}
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_LINGER_SECONDS: Final = 10.0
"""How long the rest of a body is discarded after its response: closing at once would make clients miss that."""


class Http1Exchange(Exchange):
    """A request on an HTTP/1.1 connection."""

    __slots__ = ("_chunked", "_connection", "_expects", "_head", "_held", "keep_alive", "passed_on")

    def __init__(
        self,
        connection: "Http1Connection",
        method: str,
        target: tuple[bytes, bytes],
        headers: list[tuple[bytes, bytes]],
        *,
        chunked: bool,
    ) -> None:
        super().__init__(method, *target, headers, connection.client)
        self._connection = connection
        self._expects = False
        self._chunked = chunked
        self._head = b""
        self._held = 0
        self.keep_alive = True
        """Whether another request may follow on the connection."""

        self.passed_on = False
        """Whether the handler has it, or will in its turn."""

    def peer_certificate(self) -> dict[str, Any]:
        return self._connection.peer_certificate()

    @property
    def writable(self) -> bool:
        return not self._connection.paused

    def respond(self, response: Response) -> None:
        if self.finished or self.gone:
            return
        body = response.body
        head = self._headers(response.code, response.content_type, response.headers)
        if response.code != 204:
            head += b"content-length: %d\r\n" % len(body)
        self._connection.transport.write(head + b"\r\n" + (b"" if self.method == "HEAD" else body))
        self._finish()

    def start(self, code: int, content_type: bytes, headers: Headers = ()) -> None:
        self._head = self._headers(code, content_type, headers)
        self._head += b"transfer-encoding: chunked\r\n\r\n" if self._chunked else b"\r\n"

    def write(self, data: bytes) -> None:
        if self.finished or self.gone:
            return
        head, self._head = self._head, b""
        if self.method == "HEAD" or not data:
            data = b""
        elif self._chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        if head or data:
            self._connection.transport.write(head + data)

    def end(self) -> None:
        if self.finished or self.gone:
            return
        last = b"0\r\n\r\n" if self._chunked and self.method != "HEAD" else b""
        if self._head or last:
            self._connection.transport.write(self._head + last)
        self._finish()

    def abort(self) -> None:
        self.finished = True
        self._connection.abort()

    def expect_continue(self) -> None:
        """The client waits for a word before it sends the body."""
        self._expects = True

    def feed(self, data: bytes) -> None:
        self._held += len(data)
        super().feed(data)
        if self._held > BUFFER_BYTES:
            self._connection.transport.pause_reading()

    def _consumed(self, size: int) -> None:
        if self._held > BUFFER_BYTES >= self._held - size and not self._connection.transport.is_closing():
            self._connection.transport.resume_reading()
        self._held -= size

    def _invite_body(self) -> None:
        if self._expects and not self.complete:
            self._expects = False
            self._connection.transport.write(_CONTINUE)

    def _headers(self, code: int, content_type: bytes, headers: Headers) -> bytes:
        if not self.complete and self._expects:
            self.keep_alive = False  # the client may send the body or not: the next bytes are ambiguous
        head = b"%b%b\r\n" % (_STATUS_LINES[code], content_type)
        for name, value in headers:
            head += b"%b: %b\r\n" % (name, value)
        return head if self.keep_alive else head + b"connection: close\r\n"

    def _finish(self) -> None:
        self._take()
        self.finished = True
        self._connection.finish(self)


class Http1Connection(HttpConnection):
    """A connection that speaks HTTP/1.1.

    Requests are passed on one at a time, in their order: as soon as the body is complete, or with the part of it that
    came together with the head.
    """

    def __init__(self, connections: OpenConnections) -> None:
        super().__init__(connections)
        self._parser: Any = httptools.HttpRequestParser(self)
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._expects = False
        self._head_bytes = 0
        self._in_head = True
        self._receiving: Http1Exchange | None = None
        """The request whose body is being received."""

        self._waiting: deque[Http1Exchange] = deque()
        """Requests that came before the one being answered was."""

        self._answering: Http1Exchange | None = None
        self._lingering: asyncio.TimerHandle | None = None

    def shutdown(self) -> None:
        self._ending = True
        self._take_no_more()

    def _is_busy(self) -> bool:
        return self._answering is not None or self._head_bytes > 0

    def _on_resume(self) -> None:
        if self._answering is not None:
            self._answering.wake()

    # asyncio.Protocol

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        if self._lingering is not None:
            self._lingering.cancel()
        self._waiting.clear()
        if self._answering is not None:
            self._answering.lose()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._in_head:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._take_no_more()  # upgrades are not offered: the request is answered as any other
        except httptools.HttpParserError as error:
            self._refuse(400, f"malformed HTTP request: {error}")
            return
        if self._receiving is not None and not self._receiving.passed_on:
            self._pass_on(self._receiving)  # the rest of its body is still to come
        if self._in_head and self._head_bytes:
            self._await_head()
            if self._head_bytes > HEADER_BYTES:
                self._refuse(431, f"the headers of the request are larger than {HEADER_BYTES} bytes")

    # httptools

    def on_message_begin(self) -> None:
        self._target, self._headers, self._expects = b"", [], False

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self._expects = True
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._head_complete()
        parser = self._parser
        method, is_current = parser.get_method().decode("latin-1"), parser.get_http_version() == "1.1"
        exchange = Http1Exchange(self, method, _split(self._target), self._headers, chunked=is_current)
        exchange.keep_alive = is_current and not self._ending and parser.should_keep_alive()
        if self._expects:
            exchange.expect_continue()
        self._receiving = exchange

    def on_body(self, body: bytes) -> None:
        if self._receiving is not None:
            self._receiving.feed(body)

    def on_message_complete(self) -> None:
        self._in_head = True
        self._head_bytes = 0
        exchange, self._receiving = self._receiving, None
        if exchange is None:
            return
        exchange.feed_end()
        if not exchange.passed_on:
            self._pass_on(exchange)
        if self._lingering is not None and exchange.finished:
            self._lingering.cancel()
            self._lingering = None
            self._next(exchange)

    # One request after the other

    def _pass_on(self, exchange: Http1Exchange) -> None:
        exchange.passed_on = True
        if self._answering is None:
            self._answering = exchange
            self._connections.handler(exchange)
        else:
            self._waiting.append(exchange)
            self.transport.pause_reading()  # until it is its turn

    def finish(self, exchange: Http1Exchange) -> None:
        """A request is answered."""
        if exchange.complete:
            self._next(exchange)
        elif not self.transport.is_closing():
            self._lingering = self._loop.call_later(_LINGER_SECONDS, self.transport.close)

    def _next(self, exchange: Http1Exchange) -> None:
        self._answering = None
        if self.transport.is_closing():
            return
        if not exchange.keep_alive:
            self.transport.close()
        elif self._waiting:
            self._answering = self._waiting.popleft()
            self._loop.call_soon(self._handle, self._answering)  # not here: there may be a thousand of them
            if not self._waiting:
                self.transport.resume_reading()
        else:
            self._on_idle()

    def _handle(self, exchange: Http1Exchange) -> None:
        if not exchange.gone:
            self._connections.handler(exchange)

    # What is not served

    def _take_no_more(self) -> None:
        """End the connection with the response to the last request that came."""
        for exchange in (self._answering, *self._waiting):
            if exchange is not None:
                exchange.keep_alive = False
        if not self._is_busy() and not self.transport.is_closing():
            self.transport.close()

    def _refuse(self, code: int, message: str) -> None:
        """Answer what cannot be understood, and end the connection."""
        self._receiving = None
        self.transport.pause_reading()
        if self._answering is not None and self._answering.complete:
            self._take_no_more()  # the requests before it are answered first
            return
        response = refusal(code, message)
        head = b"%bapplication/json\r\ncontent-length: %d\r\n" % (_STATUS_LINES[code], len(response.body))
        self.transport.write(head + b"connection: close\r\n\r\n" + response.body)
        self.transport.close()


def _split(target: bytes) -> tuple[bytes, bytes]:
    """Path and query of a request's target, which proxies may give with scheme and host."""
    if target[:1] != b"/":
        try:
            parsed = httptools.parse_url(target)
        except httptools.HttpParserInvalidURLError:
            return target, b""
        return parsed.path or b"/", parsed.query or b""
    path, _, query = target.partition(b"?")
    return path, query
