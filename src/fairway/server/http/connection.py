"""What connections of all versions of HTTP share: bounds on slow clients, and their end when the server goes down.

Clients are not authenticated before the head of a request is complete. So heads are bounded
in time and size, and so is everything that waits for a client which does not read.
"""

import asyncio
from http import HTTPStatus
from typing import Any, Final, Protocol, cast

from fairway.client.rest.http import keep_alive
from fairway.server.http.exchange import Handler
from fairway.server.responses import Response, encode, failure

HEADER_BYTES: Final = 64 << 10
"""Bound on the head of a request: line and headers together."""

HEADER_SECONDS: Final = 30.0
"""Bound on the time from the first byte of a head (or the start of the connection) to the last."""

STALL_SECONDS: Final = 30.0
"""A client that takes nothing of its response for so long is disconnected."""

KEEP_ALIVE_SECONDS: Final = 75.0
"""A connection without requests is closed after this time."""

MAX_UNSENT_BYTES: Final = 64 << 20
"""Bound on what waits for all slow clients together; beyond it, the slowest are disconnected."""

BUFFER_BYTES: Final = 64 << 10
"""Bound on what waits in memory for one exchange before its handler has to wait, in each direction."""


class Stalling(Protocol):
    """What may wait for a slow client: a connection, or a stream of one."""

    def abort(self) -> None:
        """End it at once, with everything that waits."""


class Backlog:
    """What clients have not taken yet of their responses, beyond what fits in their sockets.

    One exchange holds at most a buffer and one piece of a response; this bounds the sum. Beyond it, those that have
    taken nothing for longest are aborted: a watch resumes from where it was, other requests are repeated.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._sizes: dict[Stalling, int] = {}
        self._total = 0

    def set(self, waiting: Stalling, size: int) -> None:
        """So much waits for this one now."""
        self.remove(waiting)
        self._sizes[waiting] = size
        self._total += size
        while self._total > self._limit:
            slowest = next(iter(self._sizes))
            self.remove(slowest)
            slowest.abort()

    def remove(self, waiting: Stalling) -> None:
        """Nothing waits for this one any more."""
        self._total -= self._sizes.pop(waiting, 0)


class OpenConnections:
    """The open connections of a server, and what they have in common."""

    def __init__(
        self,
        handler: Handler,
        *,
        keep_alive_seconds: float = KEEP_ALIVE_SECONDS,
        header_seconds: float = HEADER_SECONDS,
    ) -> None:
        self.handler = handler
        self.keep_alive_seconds = keep_alive_seconds
        self.header_seconds = header_seconds
        self.backlog = Backlog(MAX_UNSENT_BYTES)
        self.open: set[HttpConnection] = set()

    def shutdown(self) -> None:
        """Let every connection end when its last response is sent."""
        for connection in tuple(self.open):
            connection.shutdown()

    def abort(self) -> None:
        """End every connection at once."""
        for connection in tuple(self.open):
            connection.abort()


class HttpConnection(asyncio.Protocol):
    """A connection to a client. Subclasses speak a version of HTTP."""

    def __init__(self, connections: OpenConnections) -> None:
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self.transport: asyncio.Transport
        self.client = ""
        self.paused = False
        """Whether the client does not keep up with what is sent to it."""

        self._ending = False
        self._unsent = 0
        self._stalling: asyncio.TimerHandle | None = None
        self._head_due: asyncio.TimerHandle | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._used = 0.0

    # Subclasses

    def shutdown(self) -> None:
        """End when the last response is sent; take no further requests."""
        raise NotImplementedError

    def _is_busy(self) -> bool:
        """Whether a request is being received or answered."""
        raise NotImplementedError

    def _on_resume(self) -> None:
        """The client keeps up again."""
        raise NotImplementedError

    def peer_certificate(self) -> dict[str, Any]:
        """The verified certificate of the client; empty without one."""
        return self.transport.get_extra_info("peercert") or {}

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self.client = peer[0] if isinstance(peer, tuple) else ""
        if isinstance(peer, tuple) and (found := transport.get_extra_info("socket")) is not None:
            keep_alive(found)
        self._connections.open.add(self)
        self._await_head()

    def connection_lost(self, _: Exception | None) -> None:
        for timer in (self._stalling, self._head_due, self._idle):
            if timer is not None:
                timer.cancel()
        self._connections.backlog.remove(self)
        self._connections.open.discard(self)

    def pause_writing(self) -> None:
        self.paused = True
        self._unsent = self.transport.get_write_buffer_size()
        if self._stalling is None:
            self._stalling = self._loop.call_later(STALL_SECONDS, self._check_stall)
        self._connections.backlog.set(self, self._unsent)

    def resume_writing(self) -> None:
        self.paused = False
        self._connections.backlog.remove(self)
        if self._stalling is not None:
            self._stalling.cancel()
            self._stalling = None
        self._on_resume()

    def abort(self) -> None:
        self.transport.abort()

    # Timers: one of each kind for a connection, not one for each request

    def _check_stall(self) -> None:
        self._stalling = None
        unsent = self.transport.get_write_buffer_size()
        if unsent >= self._unsent:
            self.abort()
        else:
            self._unsent = unsent
            self._stalling = self._loop.call_later(STALL_SECONDS, self._check_stall)

    def _await_head(self) -> None:
        """The head of a request is incomplete: it has to be complete soon."""
        if self._head_due is None:
            self._head_due = self._loop.call_later(self._connections.header_seconds, self.transport.close)

    def _head_complete(self) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
            self._head_due = None

    def _on_idle(self) -> None:
        """The last request is answered: the connection ends unless another one comes in time."""
        self._used = self._loop.time()
        if self._idle is None:
            self._idle = self._loop.call_later(self._connections.keep_alive_seconds, self._check_idle)

    def _check_idle(self) -> None:
        self._idle = None
        if self._is_busy():
            return  # the end of its response sets the timer again
        left = self._used + self._connections.keep_alive_seconds - self._loop.time()
        if left > 0:
            self._idle = self._loop.call_later(left, self._check_idle)
        else:
            self.shutdown()


def refusal(code: int, message: str) -> Response:
    """The response to something that is not a request."""
    return Response(code, encode(failure(code, "BadRequest", message)))


PHRASES: Final = {status.value: status.phrase for status in HTTPStatus}
