"""Connections of servers: requests in, responses out, each at the pace of its server."""

import socket
from collections.abc import Callable
from contextlib import suppress

from fairway.runner.supervising import messages
from fairway.runner.supervising.loop import READABLE, WRITABLE, Loop, note

_AT_ONCE = 256 * 1024
_REQUESTS_AT_ONCE = 16
"""After so many requests of one server, everybody else has a turn."""

_MOST_TO_DRAIN = 16 * 1024 * 1024
MOST_UNREAD = 64 * 1024 * 1024
"""Bytes; a server that leaves more answers unread is disconnected, and learns all when it comes back."""


class ServerConnection:
    """One server."""

    def __init__(
        self,
        loop: Loop,
        link: socket.socket,
        on_request: Callable[["ServerConnection", messages.Request], None],
        on_gone: Callable[["ServerConnection"], None],
    ) -> None:
        self.is_welcome = False
        """Whether it sent hello and got the list of processes; only then it gets changes."""

        self._loop = loop
        self._link = link
        self._on_request = on_request
        self._on_gone = on_gone
        self._frames = messages.Frames()
        self._unsent = bytearray()
        self._is_open = True
        self._will_flush = self._is_blocked = self._has_more = self._is_deaf = False
        link.setblocking(False)  # noqa: FBT003 - the standard library's signature
        loop.watch(link.fileno(), READABLE, self._on_ready)

    def send(self, answer: messages.Answer) -> None:
        """Leaves in the same turn of the loop, together with others."""
        if not self._is_open or self._is_deaf:
            return
        self._unsent += messages.frame(answer)
        if len(self._unsent) > MOST_UNREAD:
            note("disconnected a server that does not read")
            self._hang_up()
        elif not self._will_flush:
            self._will_flush = True
            self._loop.soon(self.flush)

    def refuse(self, reason: str) -> None:
        """Say why, and end the connection."""
        note(f"refused a connection: {reason}")
        self.send(messages.Rejected(reason))
        self.flush()
        self.close()

    @property
    def is_closed(self) -> bool:
        return not self._is_open

    def drain(self) -> None:
        """Handle everything that was sent so far, at most what a socket buffer holds."""
        for _ in range(_MOST_TO_DRAIN // _AT_ONCE):
            if not self._receive():
                break
        self._handle(most=None)

    def flush(self) -> None:
        """Send as much as can be sent without waiting."""
        self._will_flush = False
        if not self._is_open:
            return
        try:
            while self._unsent:
                sent = self._link.send(bytes(self._unsent[:_AT_ONCE]))
                del self._unsent[:sent]
        except BlockingIOError:
            self._wait_for(READABLE | WRITABLE, blocked=True)
        except OSError:
            self._hang_up()
        else:
            self._wait_for(READABLE, blocked=False)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._loop.unwatch(self._link.fileno())
            self._link.close()
            self._on_gone(self)

    def _hang_up(self) -> None:
        """Say nothing more; what was asked before is still carried out, and then the connection ends."""
        self._is_deaf = True
        self._unsent.clear()
        with suppress(OSError):
            self._link.shutdown(socket.SHUT_RDWR)

    def _on_ready(self) -> None:
        if self._is_blocked:
            self.flush()
        if not self._has_more:  # what is there already comes first
            self._receive()
            self._handle()

    def _receive(self) -> bool:
        """Whether something came."""
        if not self._is_open:
            return False
        try:
            data = self._link.recv(_AT_ONCE)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        if data:
            self._frames.feed(data)
            return True
        self._handle(most=None)  # what was sent before the end still counts
        self.close()
        return False

    def _handle(self, most: int | None = _REQUESTS_AT_ONCE) -> None:
        self._has_more = False
        if not self._is_open:
            return
        try:
            for number, data in enumerate(self._frames, 1):
                self._on_request(self, messages.request(data))
                if number == most or self.is_closed:
                    self._has_more = True
                    self._loop.soon(self._handle)
                    return
        except messages.BadMessage as error:
            self.refuse(str(error))

    def _wait_for(self, events: int, *, blocked: bool) -> None:
        if self._is_blocked != blocked:
            self._is_blocked = blocked
            self._loop.watch(self._link.fileno(), events, self._on_ready)
