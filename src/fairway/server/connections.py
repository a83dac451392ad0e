"""One connection of the web server, guarded against clients that never come to the point.

Whoever connects may be anybody: until a request's headers are complete, nobody knows who is asking. So they must come
soon and may not be large; else the connection ends with a `Status` that says why. The same goes for what is no HTTP.
"""

import asyncio
import resource
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, Protocol, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from fairway.server.requests import CUT_OFF, Head
from fairway.server.responses import Response, encode, failure

HEADER_BYTES: Final = 64 << 10
"""How large the line and the headers of a request may be together."""

HEADER_SECONDS: Final = 30.0
"""How long they may take from the first byte, or from the connection's beginning, to the last."""

STALL_SECONDS: Final = 30.0
"""A client that takes nothing of its answer for so long is cut off, with all that waits for it."""

MOST_UNSENT_BYTES: Final = 64 << 20
"""What may wait for slow clients in all; beyond it, the slowest are cut off."""

_REASONS: Final = {400: ("Bad Request", "BadRequest"), 431: ("Request Header Fields Too Large", "BadRequest")}


_MOST_FILES: Final = 65_536
_WRITES: Final = {b"POST": "POST", b"PUT": "PUT", b"PATCH": "PATCH", b"DELETE": "DELETE"}


def allow_many() -> None:
    """Let this process have as many connections as it may; by default the system stops it at 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


_HEADS: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: ".encode() for status in HTTPStatus
}


class Backlog:
    """What all clients together have not taken yet of their answers, beyond what fits in their sockets.

    One client holds at most the transport's buffer and one piece of an answer; this bounds the sum. Beyond it, those
    who have taken nothing for longest are cut off: a watcher goes on from where it was, others ask again.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._sizes: dict[GuardedProtocol, int] = {}
        self._total = 0

    def add(self, connection: "GuardedProtocol", size: int) -> None:
        self._sizes[connection] = size
        self._total += size
        while self._total > self._most:
            slowest = next(iter(self._sizes))
            self.remove(slowest)
            slowest.cut_off()

    def remove(self, connection: "GuardedProtocol") -> None:
        self._total -= self._sizes.pop(connection, 0)


_backlog: Final = Backlog(MOST_UNSENT_BYTES)


class _Nobody:
    """Who waits for the rest of a request that is here as a whole."""

    def set(self) -> None:
        """Nothing to tell anybody."""


class _Whole:
    """What uvicorn calls a cycle, for a request that is answered without one."""

    __slots__ = ("disconnected", "keep_alive", "response_complete")
    message_event = _Nobody()

    def __init__(self) -> None:
        self.disconnected = False
        self.keep_alive = True
        self.response_complete = True


class Application(Protocol):
    """What answers requests: an ASGI application that can also take some of them without a task."""

    def take(self, head: Head, body: bytes, respond: Callable[[Response], None]) -> bool:
        """Answer a request that is here as a whole by calling `respond`; false if it has to go the usual way."""


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol for HTTP/1.1 with limits on headers, and with connections that can be cut off.

    A write whose body came with it is offered to the application as a whole, and has its answer sent in one piece. All
    others, and whatever comes while one is being answered, go uvicorn's way.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._header_bytes = 0
        self._in_headers = True
        self._headers_due: asyncio.TimerHandle | None = None
        self._unsent = 0
        self._stalling: asyncio.TimerHandle | None = None
        self._whole = _Whole()
        self._gathered: list[bytes] | None = None
        """The body so far of a request that may turn out to be here as a whole."""
        self._idle_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_came()
        self._whole.disconnected = True
        super().connection_lost(exc)
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None
        if self._stalling is not None:
            self._stalling.cancel()
            self._stalling = None
        _backlog.remove(self)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._in_headers:
            self._header_bytes += len(data)
        super().data_received(data)
        if self._gathered is not None:
            self._go_the_usual_way()  # the rest of the body is still to come
        if self._in_headers and self._header_bytes:
            if self._headers_due is None:
                self._await_headers()
            if self._header_bytes > HEADER_BYTES:
                self._refuse(431, f"the headers of the request are larger than {HEADER_BYTES} bytes")

    # One request

    def on_message_begin(self) -> None:
        self.url = b""
        self.expect_100_continue = False
        self.headers = []

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self._headers_came()
        self._gathered = []
        if not self._may_be_taken():
            self._go_the_usual_way()

    def on_body(self, body: bytes) -> None:
        if self._gathered is None:
            super().on_body(body)
        else:
            self._gathered.append(body)

    def on_message_complete(self) -> None:
        self._in_headers = True
        self._header_bytes = 0
        if self._gathered is not None and self._is_taken(b"".join(self._gathered)):
            self._gathered = None
            return
        if self._gathered is not None:
            self._go_the_usual_way()
        super().on_message_complete()

    def _may_be_taken(self) -> bool:
        """Whether a request may be one that is answered as a whole: a write, alone on its way, to who takes answers."""
        parser = self.parser
        return (
            parser.get_method() in _WRITES
            and not self.expect_100_continue
            and not self.pipeline
            and self._is_idle()
            and not self.flow.write_paused
            and parser.should_keep_alive()
            and not parser.should_upgrade()
            and self._is_of_this_version()
        )

    def _is_of_this_version(self) -> bool:
        """Whether a request to be kept alive is one of HTTP/1.1: under 1.0 it would have to ask for that."""
        for name, _ in self.headers:
            if name == b"connection":
                return bool(self.parser.get_http_version() == "1.1")
        return True

    def _is_idle(self) -> bool:
        """Whether no request is being answered."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return cycle is None or cycle.response_complete

    def _is_taken(self, body: bytes) -> bool:
        headers = dict(self.headers)
        if len(headers) < len(self.headers):
            return False  # a header that comes twice is looked at more closely
        path, _, query = self.url.partition(b"?")
        client = self.client[0] if self.client else ""
        before, whole = self.cycle, self._whole
        whole.response_complete = False
        self.cycle = cast("Any", whole)
        head = (_WRITES[self.parser.get_method()], path, query, headers, client)
        if path[:1] == b"/" and cast("Application", self.app).take(head, body, self._answer):
            return True
        whole.response_complete = True
        self.cycle = before
        return False

    def _answer(self, response: Response) -> None:
        whole, body = self._whole, response.body
        whole.response_complete = True
        if whole.disconnected or self.transport.is_closing():
            return
        head = b"%b%b\r\ncontent-length: %d\r\n" % (_HEADS[response.code], response.content_type, len(body))
        for name, value in response.headers:
            head += b"%b: %b\r\n" % (name, value)
        if not whole.keep_alive:
            head += b"connection: close\r\n"
        self.send(head + b"\r\n" + body)
        if not whole.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def send(self, data: bytes) -> None:
        """Write a whole answer."""
        self.transport.write(data)

    def _go_the_usual_way(self) -> None:
        """Let uvicorn begin with a request now that its headers are known, with as much of its body as came."""
        url, headers, expected, gathered = self.url, self.headers, self.expect_100_continue, self._gathered or ()
        self._gathered = None
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expected
        self.headers.extend(headers)
        cast("dict[str, Any]", self.scope)["extensions"] = {CUT_OFF: self.transport.abort}
        super().on_headers_complete()
        for part in gathered:
            super().on_body(part)

    # Connections that are kept: one timer looks after each, instead of one being wound and stopped for each request

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)
            return
        self._idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._look_later(self.timeout_keep_alive)

    def _unset_keepalive_if_required(self) -> None:
        """Whether the connection was used meanwhile is looked at when its time is over."""

    def timeout_keep_alive_handler(self) -> None:
        self.timeout_keep_alive_task = None
        if self._header_bytes or not self._is_idle():
            return  # there is a request; the end of its answer winds the timer again
        left = self._idle_since + self.timeout_keep_alive - self.loop.time()
        if left > 0:
            self._look_later(left)
        elif not self.transport.is_closing():
            self.transport.close()

    def _look_later(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    # Slow readers

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unsent = self.transport.get_write_buffer_size()
        if self._stalling is None:
            self._stalling = self.loop.call_later(STALL_SECONDS, self._look_whether_it_stalls)
        _backlog.add(self, self._unsent)

    def cut_off(self) -> None:
        """End the connection at once, with all that waits for the client."""
        self.transport.abort()

    def resume_writing(self) -> None:
        super().resume_writing()
        _backlog.remove(self)
        if self._stalling is not None:
            self._stalling.cancel()
            self._stalling = None

    def _look_whether_it_stalls(self) -> None:
        self._stalling = None
        unsent = self.transport.get_write_buffer_size()
        if unsent >= self._unsent:
            self.transport.abort()
        else:
            self._unsent = unsent
            self._stalling = self.loop.call_later(STALL_SECONDS, self._look_whether_it_stalls)

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, f"malformed HTTP request: {msg}")

    def _refuse(self, code: int, message: str) -> None:
        if self.transport.is_closing():
            return
        title, reason = _REASONS[code]
        body = encode(failure(code, reason, message))
        head = (
            f"HTTP/1.1 {code} {title}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
            "connection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def _await_headers(self) -> None:
        self._headers_due = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _headers_came(self) -> None:
        if self._headers_due is not None:
            self._headers_due.cancel()
            self._headers_due = None

    def _give_up(self) -> None:
        self._headers_due = None
        if not self.transport.is_closing():
            self.transport.close()
