"""One request on an HTTP/2 connection."""

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from fairway.server.http.exchange import Exchange, Headers
from fairway.server.http.frames import FRAME_BYTES, ErrorCode, StreamError
from fairway.server.http.hpack import encode
from fairway.server.responses import Response

if TYPE_CHECKING:
    from fairway.server.http.http2 import Http2Connection

STREAM_WINDOW: Final = 256 << 10
"""How much of a body a client may send before it is read."""


class Http2Stream(Exchange):
    """A request on an HTTP/2 connection."""

    __slots__ = (
        "_connection", "_credit", "_ending", "_length", "_pending", "id", "received_window", "stalled", "unsent",
        "window",
    )  # fmt: skip

    def __init__(
        self,
        connection: "Http2Connection",
        number: int,
        head: tuple[str, bytes, bytes],
        headers: list[tuple[bytes, bytes]],
    ) -> None:
        super().__init__(*head, headers, connection.client)
        self._connection = connection
        self.id = number
        self.window = connection.initial_window
        """How much the client takes of the response."""

        self.received_window = STREAM_WINDOW
        """How much the client may send of the body."""

        self.unsent = 0
        """How much of the response waits for the client to take it."""

        self.stalled = False
        """Whether nothing of that was taken since the last check."""

        self._pending: deque[memoryview] = deque()
        self._ending = False
        self._credit = 0
        length = next((value for name, value in headers if name == b"content-length"), None)
        if length is not None and not length.isdigit():
            raise StreamError(ErrorCode.PROTOCOL_ERROR)
        self._length = None if length is None else int(length[:20])

    # The request

    def peer_certificate(self) -> dict[str, Any]:
        return self._connection.peer_certificate()

    def receive(self, data: bytes) -> None:
        if self._length is not None:
            self._length -= len(data)
        self.feed(data)

    def receive_end(self) -> None:
        if self._length:
            raise StreamError(ErrorCode.PROTOCOL_ERROR)  # the body has another length than its header says
        self.feed_end()

    def _consumed(self, size: int) -> None:
        self._connection.credit(size)
        self._credit += size
        if self._credit >= STREAM_WINDOW // 4 and not (self.complete or self.finished or self.gone):
            self._connection.credit_stream(self, self._credit)
            self._credit = 0

    def _is_server_behind(self) -> bool:
        return self._connection.is_behind()

    # The response

    @property
    def writable(self) -> bool:
        return not self.unsent and not self._connection.paused

    def respond(self, response: Response) -> None:
        if self.finished or self.gone:
            return
        headers: Headers = ((b"content-type", response.content_type), *response.headers)
        if response.code != 204:
            headers = (*headers, (b"content-length", b"%d" % len(response.body)))
        block = encode(response.code, headers)
        body = b"" if self.method == "HEAD" else response.body
        self._connection.send_head(self, block, last=not body)
        if body:
            self._ending = True
            self._send(body)
        else:
            self._finish()

    def start(self, code: int, content_type: bytes, headers: Headers = ()) -> None:
        if not self.gone:
            self._connection.send_head(self, encode(code, ((b"content-type", content_type), *headers)), last=False)

    def write(self, data: bytes) -> None:
        if data and not self.finished and not self.gone and self.method != "HEAD":
            self._send(data)

    def end(self) -> None:
        if self.finished or self.gone or self._ending:
            return
        self._ending = True
        if not self.unsent:
            self._connection.send_data(self, b"", last=True)
            self._finish()

    def abort(self) -> None:
        """End the stream so that the client sees that the response is not complete."""
        if not self.finished and not self.gone:
            self._connection.reset(self.id, ErrorCode.INTERNAL_ERROR)
            self.lose()

    def _send(self, data: bytes) -> None:
        connection = self._connection
        size = len(data)
        if self.writable and size <= FRAME_BYTES and size <= self.window and size <= connection.window:
            self.window -= size
            connection.window -= size
            connection.send_data(self, data, last=self._ending)
            if self._ending:
                self._finish()
            return
        self._pending.append(memoryview(data))
        self.unsent += size
        connection.block(self)

    def send_frame(self) -> bool:
        """Send as much as one frame holds of what waits; false if the client takes nothing more for now."""
        connection = self._connection
        size = min(len(self._pending[0]), self.window, connection.window, FRAME_BYTES)
        if size <= 0:
            return False
        data = self._pending[0][:size]
        if size == len(self._pending[0]):
            self._pending.popleft()
        else:
            self._pending[0] = self._pending[0][size:]
        self.window -= size
        connection.window -= size
        self.unsent -= size
        self.stalled = False
        last = self._ending and not self.unsent
        connection.send_data(self, data, last=last)
        if last:
            self._finish()
        return True

    def lose(self) -> None:
        self._pending.clear()
        self.unsent = 0
        super().lose()
        self._take()
        self._connection.forget(self)

    def _finish(self) -> None:
        self._take()
        self._pending.clear()
        self.unsent = 0
        self.finished = True
        self._connection.finish(self)
