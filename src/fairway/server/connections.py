"""One connection of the web server, guarded against clients that never come to the point.

Whoever connects may be anybody: until a request's headers are complete, nobody knows who is asking. So they must come
soon and may not be large; else the connection ends with a `Status` that says why. The same goes for what is no HTTP.
"""

import asyncio
import resource
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fairway.server.requests import CUT_OFF
from fairway.server.responses import encode, failure

HEADER_BYTES: Final = 64 << 10
"""How large the line and the headers of a request may be together."""

HEADER_SECONDS: Final = 30.0
"""How long they may take from the first byte, or from the connection's beginning, to the last."""

STALL_SECONDS: Final = 30.0
"""A client that takes nothing of its answer for so long is cut off, with all that waits for it."""

_REASONS: Final = {400: ("Bad Request", "BadRequest"), 431: ("Request Header Fields Too Large", "BadRequest")}


_MOST_FILES: Final = 65_536


def allow_many() -> None:
    """Let this process have as many connections as it may; by default the system stops it at 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class GuardedProtocol(HttpToolsProtocol):
    """uvicorn's protocol for HTTP/1.1 with limits on headers, and with connections that can be cut off."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._header_bytes = 0
        self._in_headers = True
        self._headers_due: asyncio.TimerHandle | None = None
        self._unsent = 0
        self._stalling: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_headers()

    def connection_lost(self, exc: Exception | None) -> None:
        self._headers_came()
        super().connection_lost(exc)
        if self._stalling is not None:
            self._stalling.cancel()
            self._stalling = None

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._in_headers:
            self._header_bytes += len(data)
        super().data_received(data)
        if self._in_headers and self._header_bytes:
            if self._headers_due is None:
                self._await_headers()
            if self._header_bytes > HEADER_BYTES:
                self._refuse(431, f"the headers of the request are larger than {HEADER_BYTES} bytes")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        cast("dict[str, Any]", self.scope)["extensions"] = {CUT_OFF: self.transport.abort}

    def on_headers_complete(self) -> None:
        self._in_headers = False
        self._headers_came()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_headers = True
        self._header_bytes = 0
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unsent = self.transport.get_write_buffer_size()
        if self._stalling is None:
            self._stalling = self.loop.call_later(STALL_SECONDS, self._look_whether_it_stalls)

    def resume_writing(self) -> None:
        super().resume_writing()
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
        self._refuse(400, f"what was sent is not an HTTP request: {msg}")

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
