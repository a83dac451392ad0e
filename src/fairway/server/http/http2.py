"""HTTP/2 (RFC 9113): many requests at a time on one connection.

Frames (`frames`) are parsed and written here; headers are in `hpack`. A `stream` is an `Exchange`. Everything a client
can make the server keep or do for nothing is bounded: header blocks, streams, windows, and by a budget the frames that
ask for work without being part of a request (resets, pings, settings, priorities, empty data).
"""

import asyncio
import struct
import time
from collections import deque
from typing import Final

from fairway.server.http.connection import HEADER_BYTES, STALL_SECONDS, HttpConnection, OpenConnections, refusal
from fairway.server.http.frames import (
    ACK,
    CONTINUATION,
    DATA,
    DEFAULT_WINDOW,
    ENABLE_PUSH,
    END_HEADERS,
    END_STREAM,
    FRAME_BYTES,
    FRAME_HEAD,
    GOAWAY,
    HEADERS,
    INITIAL_WINDOW_SIZE,
    MAX_CONCURRENT_STREAMS,
    MAX_FRAME_SIZE,
    MAX_HEADER_LIST_SIZE,
    MAX_WINDOW,
    NUMBER,
    PADDED,
    PING,
    PREFACE,
    PRIORITIZED,
    RST_STREAM,
    SETTING,
    SETTINGS,
    WINDOW_UPDATE,
    ErrorCode,
    Http2Error,
    StreamError,
    request_of,
    unpadded,
)
from fairway.server.http.hpack import HpackDecoder, HpackError
from fairway.server.http.stream import STREAM_WINDOW, Http2Stream

MAX_STREAMS: Final = 5000
"""Requests at a time on one connection, watches counted: as many as `Limits.requests`. A client in Go that needs more
opens a connection for each request over the limit, and their handshakes cost more than the requests."""

CONNECTION_WINDOW: Final = 1 << 20
"""The same for all bodies on a connection."""

PING_SECONDS: Final = 30.0
"""A client that has sent nothing for so long, with requests open, is asked whether it is there; one that is silent for
as long again is disconnected."""

TURN_SECONDS: Final = 0.02
"""How long the requests of one connection are handled before everything else gets a turn: a client may have thousands
of them on their way, and watches must not wait for all of these."""

BEHIND_SECONDS: Final = 1.0
"""A connection whose frames needed more than one turn so lately is behind: a body may wait among them."""

BUDGET: Final = 1000
BUDGET_PER_SECOND: Final = 50
"""How many frames without a use a client may send at once, and in the long run."""

_FLUSH_BYTES: Final = 64 << 10
_MAX_RESET: Final = 200
"""How many streams that were reset here are remembered: frames for them may still be on their way."""


class Http2Connection(HttpConnection):
    """A connection that speaks HTTP/2."""

    def __init__(self, connections: OpenConnections) -> None:
        super().__init__(connections)
        self.window = DEFAULT_WINDOW
        """How much the client takes of all responses together."""

        self.initial_window = DEFAULT_WINDOW
        self._received_window = CONNECTION_WINDOW
        self._credit = 0
        self._decoder = HpackDecoder()
        self._rest = b""
        self._yielding = False
        """Whether the rest is handled in the next turn; nothing is read until then."""

        self._yielded_at = -BEHIND_SECONDS
        self._has_preface = False
        self._has_settings = False
        self._block: tuple[int, int, list[bytes]] | None = None
        """A header block that is not complete: its stream, the flags of its first frame, its parts."""

        self._streams: dict[int, Http2Stream] = {}
        self._last = 0
        """The highest number of a stream that the client opened."""

        self._fresh: list[Http2Stream] = []
        """Streams whose request came with the data that is being read, and was not passed on yet."""

        self._blocked: dict[int, Http2Stream] = {}
        self._resets: deque[int] = deque(maxlen=_MAX_RESET)
        self._budget: float = BUDGET
        self._budget_at = self._loop.time()
        self._out: list[bytes | memoryview] = []
        self._out_bytes = 0
        self._flushing = False
        self._heard = False
        self._pinged = False
        self._alive_check: asyncio.TimerHandle | None = None
        self._stream_check: asyncio.TimerHandle | None = None
        self._frames = (
            self._on_data, self._on_headers, self._on_priority, self._on_reset, self._on_settings, self._on_push,
            self._on_ping, self._on_goaway, self._on_window_update, self._on_continuation,
        )  # fmt: skip

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        settings = (
            (MAX_CONCURRENT_STREAMS, MAX_STREAMS),
            (INITIAL_WINDOW_SIZE, STREAM_WINDOW),
            (MAX_HEADER_LIST_SIZE, HEADER_BYTES),
        )
        self._send_frame(SETTINGS, 0, 0, b"".join(SETTING.pack(*setting) for setting in settings))
        self._send_frame(WINDOW_UPDATE, 0, 0, NUMBER.pack(CONNECTION_WINDOW - DEFAULT_WINDOW))
        self._alive_check = self._loop.call_later(PING_SECONDS, self._check_alive)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        for timer in (self._alive_check, self._stream_check):
            if timer is not None:
                timer.cancel()
        for stream in tuple(self._streams.values()):
            stream.lose()

    def data_received(self, data: bytes) -> None:
        self._heard = True
        if self.transport.is_closing():
            return
        self._rest = self._rest + data if self._rest else data
        if not self._yielding:
            self._handle_frames()

    def _handle_frames(self) -> None:
        try:
            self._read_frames(self._rest)
        except Http2Error as error:
            self._break_off(error)
        except HpackError as error:
            self._break_off(Http2Error(ErrorCode.COMPRESSION_ERROR, str(error)))
        if self._block is not None:
            self._await_head()
        fresh, self._fresh = self._fresh, []
        for stream in fresh:
            self._pass_on(stream)  # the rest of its body is still to come

    def _yield(self) -> None:
        """Handle the frames that are left in the next turn of the event loop."""
        self._yielding = True
        self._yielded_at = self._loop.time()
        self.transport.pause_reading()
        self._loop.call_soon(self._continue)

    def is_behind(self) -> bool:
        """Whether frames of the client wait for the server, or did so a moment ago."""
        return self._yielding or self._loop.time() - self._yielded_at < BEHIND_SECONDS

    def _continue(self) -> None:
        self._yielding = False
        if self.transport.is_closing():
            return
        self._handle_frames()
        if not self._yielding and not self.transport.is_closing():
            self.transport.resume_reading()

    def _read_frames(self, data: bytes) -> None:
        at, end = 0, len(data)
        if not self._has_preface:
            if end < len(PREFACE) and PREFACE.startswith(data):
                self._rest = data
                return
            if not data.startswith(PREFACE):
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "what was sent is not HTTP/2")
            self._has_preface = True
            at = len(PREFACE)
        turn_ends = time.monotonic() + TURN_SECONDS
        while end - at >= 9:
            length_and_kind, flags, number = FRAME_HEAD.unpack_from(data, at)
            length = length_and_kind >> 8
            if length > FRAME_BYTES:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {length} bytes")
            after = at + 9 + length
            if after > end:
                break
            self._on_frame(length_and_kind & 0xFF, flags, number & MAX_WINDOW, data[at + 9 : after])
            at = after
            if at < end and not self._fresh and time.monotonic() > turn_ends and not self.transport.is_closing():
                self._yield()
                break
        self._rest = data[at:]

    # HttpConnection

    def shutdown(self) -> None:
        if not self._ending:
            self._ending = True
            self._send_frame(GOAWAY, 0, 0, struct.pack(">II", self._last, ErrorCode.NO_ERROR))
        if not self._streams:
            self._close()

    def _is_busy(self) -> bool:
        return bool(self._streams) or self._block is not None

    def _on_resume(self) -> None:
        self._send_blocked()
        if not self.paused:
            for stream in tuple(self._streams.values()):
                stream.wake()

    def _close(self) -> None:
        self._flush()
        if not self.transport.is_closing():
            self.transport.close()

    def _break_off(self, error: Http2Error) -> None:
        self._rest, self._block = b"", None
        body = struct.pack(">II", self._last, error.code) + str(error).encode()[:200]
        self._ending = True
        self._send_frame(GOAWAY, 0, 0, body)
        self._close()

    def _check_alive(self) -> None:
        self._alive_check = self._loop.call_later(PING_SECONDS, self._check_alive)
        if self._heard or not self._streams:
            self._heard = self._pinged = False
        elif self._pinged:
            self.abort()
        else:
            self._pinged = True
            self._send_frame(PING, 0, 0, bytes(8))

    def _spend(self) -> None:
        """The client sent something that is of no use to it, and costs the server work."""
        self._budget -= 1
        if self._budget < 0:
            now = self._loop.time()
            self._budget = min(BUDGET, self._budget + (now - self._budget_at) * BUDGET_PER_SECOND)
            self._budget_at = now
            if self._budget < 0:
                raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, "too many resets, pings, settings or empty frames")

    # Frames that come in

    def _on_frame(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if self._block is not None and (kind != CONTINUATION or number != self._block[0]):
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a frame in the middle of a header block")
        if not self._has_settings and kind != SETTINGS:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "the first frame is not SETTINGS")
        if kind >= len(self._frames):
            self._spend()  # a kind of a later version, which is to be ignored
            return
        try:
            self._frames[kind](flags, number, payload)
        except StreamError as error:
            self._spend()
            self.reset(number, error.code)
            if stream := self._streams.get(number):
                stream.lose()

    def _on_data(self, flags: int, number: int, payload: bytes) -> None:
        size = len(payload)
        self._received_window -= size
        if self._received_window < 0:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "more data than the connection's window")
        stream = self._streams.get(number)
        if stream is None or stream.complete:
            self.credit(size)
            self._check_reset(number, "DATA")
            return
        stream.received_window -= size
        if stream.received_window < 0:
            raise StreamError(ErrorCode.FLOW_CONTROL_ERROR)
        if flags & PADDED:
            payload = unpadded(payload)
            if padding := size - len(payload):
                self.credit(padding)
                self.credit_stream(stream, padding)
        if payload:
            stream.receive(payload)
        elif not flags & END_STREAM:
            self._spend()
        if flags & END_STREAM:
            stream.receive_end()
            if stream in self._fresh:
                self._fresh.remove(stream)
                self._pass_on(stream)

    def _check_reset(self, number: int, what: str) -> None:
        """A frame for a stream that is not open: fine only if the client could not know yet."""
        if number > self._last or number % 2 == 0:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"{what} on a stream that was never opened")
        if number not in self._resets:
            raise Http2Error(ErrorCode.STREAM_CLOSED, f"{what} on a stream that is closed")

    def _on_headers(self, flags: int, number: int, payload: bytes) -> None:
        if number % 2 == 0:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a request on a stream that is not a client's")
        if flags & PADDED:
            payload = unpadded(payload)
        if flags & PRIORITIZED:
            if len(payload) < 5 or NUMBER.unpack_from(payload)[0] & MAX_WINDOW == number:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a stream that depends on itself")
            payload = payload[5:]
        if flags & END_HEADERS:
            self._on_block(number, flags, payload)
        else:
            self._block = (number, flags, [payload])

    def _on_continuation(self, flags: int, number: int, payload: bytes) -> None:
        if self._block is None:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "CONTINUATION without HEADERS")
        first, parts = self._block[1], self._block[2]
        parts.append(payload)
        if sum(map(len, parts)) > HEADER_BYTES or len(parts) > 2 + HEADER_BYTES // 1024:
            raise Http2Error(
                ErrorCode.ENHANCE_YOUR_CALM, f"the headers of a request are larger than {HEADER_BYTES} bytes"
            )
        if flags & END_HEADERS:
            self._block = None
            self._on_block(number, first, b"".join(parts))

    def _on_block(self, number: int, flags: int, block: bytes) -> None:
        """The headers of a request are complete, or those after its body."""
        self._head_complete()
        headers = self._decoder.decode(block, HEADER_BYTES)
        stream = self._streams.get(number)
        if stream is not None:
            if stream.complete:
                raise StreamError(ErrorCode.STREAM_CLOSED)
            if not flags & END_STREAM or any(name[:1] == b":" for name, _ in headers or ()):
                raise StreamError(ErrorCode.PROTOCOL_ERROR)
            stream.receive_end()
            return
        if number <= self._last:
            if number not in self._resets:
                raise Http2Error(ErrorCode.STREAM_CLOSED, "HEADERS on a stream that is closed")
            return
        self._last = number
        if self._ending or len(self._streams) >= MAX_STREAMS:
            raise StreamError(ErrorCode.REFUSED_STREAM)
        if headers is None:
            stream = Http2Stream(self, number, ("GET", b"", b""), [])
        else:
            stream = Http2Stream(self, number, *request_of(headers))
        self._streams[number] = stream
        if flags & END_STREAM:
            stream.receive_end()
        if headers is None:
            stream.respond(refusal(431, f"the headers of the request are larger than {HEADER_BYTES} bytes"))
        elif stream.complete:
            self._pass_on(stream)
        else:
            self._fresh.append(stream)

    def _pass_on(self, stream: Http2Stream) -> None:
        if not stream.gone:
            self._connections.handler(stream)

    def _on_priority(self, _: int, number: int, payload: bytes) -> None:
        if number == 0:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "PRIORITY of the connection")
        if len(payload) != 5:
            raise StreamError(ErrorCode.FRAME_SIZE_ERROR)
        if NUMBER.unpack_from(payload)[0] & MAX_WINDOW == number:
            raise StreamError(ErrorCode.PROTOCOL_ERROR)
        self._spend()

    def _on_reset(self, _: int, number: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "RST_STREAM of a wrong size")
        if number == 0 or number > self._last:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "RST_STREAM on a stream that was never opened")
        self._spend()
        if stream := self._streams.get(number):
            if stream in self._fresh:
                self._fresh.remove(stream)
            stream.lose()

    def _on_settings(self, flags: int, number: int, payload: bytes) -> None:
        if number:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "SETTINGS of a stream")
        if len(payload) % 6 or (flags & ACK and payload):
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS of a wrong size")
        self._has_settings = True
        self._spend()
        if flags & ACK:
            return
        for name, value in SETTING.iter_unpack(payload):
            if name == INITIAL_WINDOW_SIZE:
                self._set_initial_window(value)
            elif (name == MAX_FRAME_SIZE and not FRAME_BYTES <= value < 1 << 24) or (name == ENABLE_PUSH and value > 1):
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"setting {name} to {value}")
        self._send_frame(SETTINGS, ACK, 0, b"")

    def _set_initial_window(self, value: int) -> None:
        if value > MAX_WINDOW:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "a window that is too large")
        more, self.initial_window = value - self.initial_window, value
        for stream in self._streams.values():
            stream.window += more
            if stream.window > MAX_WINDOW:
                raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, "a window that is too large")
        if more > 0:
            self._send_blocked()

    def _on_push(self, _: int, __: int, ___: bytes) -> None:
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, "PUSH_PROMISE from a client")

    def _on_ping(self, flags: int, number: int, payload: bytes) -> None:
        if number:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "PING of a stream")
        if len(payload) != 8:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "PING of a wrong size")
        self._spend()
        if not flags & ACK:
            self._send_frame(PING, ACK, 0, payload)

    def _on_goaway(self, _: int, number: int, __: bytes) -> None:
        if number:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "GOAWAY of a stream")
        self.shutdown()

    def _on_window_update(self, _: int, number: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "WINDOW_UPDATE of a wrong size")
        more = NUMBER.unpack(payload)[0] & MAX_WINDOW
        if number == 0:
            self.window += more
            if not more or self.window > MAX_WINDOW:
                code = ErrorCode.FLOW_CONTROL_ERROR if more else ErrorCode.PROTOCOL_ERROR
                raise Http2Error(code, f"WINDOW_UPDATE by {more}")
            self._send_blocked()
            return
        stream = self._streams.get(number)
        if stream is None:
            if number > self._last or number % 2 == 0:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "WINDOW_UPDATE on a stream that was never opened")
            return
        stream.window += more
        if not more or stream.window > MAX_WINDOW:
            raise StreamError(ErrorCode.FLOW_CONTROL_ERROR if more else ErrorCode.PROTOCOL_ERROR)
        if number in self._blocked:
            self._send_blocked()

    # What streams do

    def send_head(self, stream: Http2Stream, block: bytes, *, last: bool) -> None:
        """Send the head of a response."""
        flags = END_HEADERS | END_STREAM if last else END_HEADERS
        if len(block) <= FRAME_BYTES:
            self._send_frame(HEADERS, flags, stream.id, block)
            return
        self._send_frame(HEADERS, flags & ~END_HEADERS, stream.id, block[:FRAME_BYTES])
        for at in range(FRAME_BYTES, len(block), FRAME_BYTES):
            end = END_HEADERS if at + FRAME_BYTES >= len(block) else 0
            self._send_frame(CONTINUATION, end, stream.id, block[at : at + FRAME_BYTES])

    def send_data(self, stream: Http2Stream, data: bytes | memoryview, *, last: bool) -> None:
        """Send a part of a response that fits in a frame and in the windows."""
        self._send_frame(DATA, END_STREAM if last else 0, stream.id, data)

    def block(self, stream: Http2Stream) -> None:
        """Something of a response waits: send it in turn with others as soon as the client takes it."""
        self._blocked[stream.id] = stream
        self._send_blocked()
        if stream.unsent:
            self._connections.backlog.set(stream, stream.unsent)
            if self._stream_check is None:
                self._stream_check = self._loop.call_later(STALL_SECONDS, self._check_streams)

    def _send_blocked(self) -> None:
        """A frame of each response that waits, one after the other, until the client takes no more."""
        waiting = deque(self._blocked.values())
        while waiting and self.window > 0 and not self.paused:
            stream = waiting.popleft()
            if stream.unsent and stream.send_frame() and stream.unsent:
                self._connections.backlog.set(stream, stream.unsent)
                waiting.append(stream)
            elif not stream.unsent:
                self._blocked.pop(stream.id, None)
                self._connections.backlog.remove(stream)
                stream.wake()

    def _check_streams(self) -> None:
        self._stream_check = None
        for stream in tuple(self._blocked.values()):
            if stream.stalled:
                stream.abort()
            stream.stalled = True
        if self._blocked:
            self._stream_check = self._loop.call_later(STALL_SECONDS, self._check_streams)

    def reset(self, number: int, code: ErrorCode) -> None:
        """End a stream at once."""
        self._resets.append(number)
        self._send_frame(RST_STREAM, 0, number, NUMBER.pack(code))

    def finish(self, stream: Http2Stream) -> None:
        """A response is complete, or was given up."""
        if not stream.complete and stream.id not in self._resets:
            self.reset(stream.id, ErrorCode.NO_ERROR)  # the rest of the body is of no use
        self.forget(stream)

    def forget(self, stream: Http2Stream) -> None:
        """A stream is closed."""
        self._blocked.pop(stream.id, None)
        self._connections.backlog.remove(stream)
        if self._streams.pop(stream.id, None) is not None and not self._streams:
            if self._ending:
                self._close()
            else:
                self._on_idle()

    def credit(self, size: int) -> None:
        """So much of the bodies was read: the client may send more."""
        self._credit += size
        if self._credit >= CONNECTION_WINDOW // 4:
            self._received_window += self._credit
            self._send_frame(WINDOW_UPDATE, 0, 0, NUMBER.pack(self._credit))
            self._credit = 0

    def credit_stream(self, stream: Http2Stream, size: int) -> None:
        """The same for one body."""
        stream.received_window += size
        self._send_frame(WINDOW_UPDATE, 0, stream.id, NUMBER.pack(size))

    # Frames that go out: together, once in a turn of the event loop

    def _send_frame(self, kind: int, flags: int, number: int, payload: bytes | memoryview) -> None:
        self._out.append(FRAME_HEAD.pack(len(payload) << 8 | kind, flags, number))
        self._out.append(payload)
        self._out_bytes += 9 + len(payload)
        if self._out_bytes > _FLUSH_BYTES:
            self._flush()  # not later: it has to be noticed when the client is slow
        elif not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._on_turn)

    def _on_turn(self) -> None:
        self._flushing = False
        self._flush()

    def _flush(self) -> None:
        if self._out and not self.transport.is_closing():
            out, self._out, self._out_bytes = self._out, [], 0
            self.transport.write(b"".join(out))
