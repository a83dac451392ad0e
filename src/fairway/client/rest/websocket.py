"""`exec` into a container over WebSocket (RFC 6455), as kube-apiserver has it since Kubernetes 1.30.

A binary message begins with the number of its channel: 0 standard input, 1 output, 2 errors, 3 the `Status` in which
the command ended; 255 closes the channel that follows (protocol v5). One thread sends and receives, so that output and
an early end are seen at once.
"""

import base64
import contextlib
import hashlib
import os
import select
import socket
import ssl
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Final, NamedTuple

import msgspec

from fairway.client.rest import refusals
from fairway.client.rest.errors import AnswerLost, Garbled

PROTOCOL: Final = "v5.channel.k8s.io"
_GUID: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_BINARY, _CLOSE, _PING, _PONG = 0x2, 0x8, 0x9, 0xA
_INPUT: Final = b"\0"
_STATUS: Final = 3
_END_OF_INPUT: Final = b"\xff\0"
_LONGEST_MESSAGE: Final = 1 << 20
_LONGEST_OUTPUT: Final = 16 << 10
_STALLED_SECONDS: Final = 60.0
"""How long the other side may take nothing of what is sent."""

_RECEIVED: Final = 64 << 10


class Executed(NamedTuple):
    """How a command in a container ended."""

    exit_code: int
    output: str
    """The end of what it wrote, to standard output and errors."""


def new_key() -> str:
    return base64.b64encode(os.urandom(16)).decode()


def handshake(key: str) -> list[tuple[str, str]]:
    """The headers of a request that asks for a WebSocket."""
    return [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", key),
        ("Sec-WebSocket-Protocol", PROTOCOL),
    ]


def is_accepted(status: int, headers: dict[str, str], key: str) -> bool:
    """Whether the answer is a WebSocket with our protocol."""
    expected = base64.b64encode(hashlib.sha1(key.encode() + _GUID, usedforsecurity=False).digest()).decode()
    return (
        status == 101
        and headers.get("sec-websocket-accept") == expected
        and headers.get("sec-websocket-protocol") == PROTOCOL
    )


def frame(opcode: int, payload: bytes) -> bytes:
    """A whole message of a client: these are masked."""
    size = len(payload)
    if size < 126:
        head = bytes((0x80 | opcode, 0x80 | size))
    elif size < 1 << 16:
        head = bytes((0x80 | opcode, 0x80 | 126)) + size.to_bytes(2)
    else:
        head = bytes((0x80 | opcode, 0x80 | 127)) + size.to_bytes(8)
    key = os.urandom(4)
    mask = int.from_bytes((key * (size // 4 + 1))[:size], "little")
    return head + key + (int.from_bytes(payload, "little") ^ mask).to_bytes(size, "little")


class Messages:
    """Takes bytes of the server as they come, and gives whole messages."""

    def __init__(self, server: str) -> None:
        self._server = server
        self._held = bytearray()
        self._parts = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """All messages that are complete now, with their opcodes."""
        self._held += data
        while (found := self._frame()) is not None:
            final, opcode, payload = found
            if opcode >= _CLOSE:  # control frames may come between the parts of a message, and have no parts
                yield opcode, payload
                continue
            self._parts += payload
            if len(self._parts) > _LONGEST_MESSAGE:
                raise self._garbled("a message is too long")
            if final:
                whole = bytes(self._parts)
                self._parts.clear()
                yield _BINARY, whole

    def _frame(self) -> tuple[bool, int, bytes] | None:
        held = self._held
        if len(held) < 2:
            return None
        if held[0] & 0x70 or held[1] & 0x80:
            raise self._garbled("a frame is masked, or has unknown flags")
        size, start = held[1] & 0x7F, 2
        if size >= 126:
            start = 4 if size == 126 else 10
            if len(held) < start:
                return None
            size = int.from_bytes(held[2:start])
        if size > _LONGEST_MESSAGE:
            raise self._garbled("a frame is too long")
        if len(held) < start + size:
            return None
        final, opcode, payload = bool(held[0] & 0x80), held[0] & 0x0F, bytes(held[start : start + size])
        del held[: start + size]
        return final, opcode, payload

    def _garbled(self, what: str) -> Garbled:
        return Garbled(f"{self._server} does not speak valid WebSocket: {what}")


class ExecStream:
    """A command that runs in a container. For one use."""

    def __init__(self, stream: socket.socket, server: str, seconds: float) -> None:
        """`seconds` is how long the command may be silent after its input was sent."""
        self._stream = stream
        self._server = server
        self._seconds = seconds
        self._messages = Messages(server)
        self._outgoing = memoryview(b"")
        self._output = b""
        self._status: dict[str, Any] | None = None
        self._over = False

    def run(self, received: bytes, pieces: Iterable[bytes], sent: Callable[[int], None]) -> Executed:
        """Send standard input, and wait for the end; `sent` is called with the bytes sent so far."""
        self._take(received)
        self._stream.settimeout(0.0)
        poll = select.poll()
        done = 0
        messages = chain((_INPUT + piece for piece in pieces), (_END_OF_INPUT,))
        while not self._over:
            if not self._outgoing:
                sent(done)
                message = next(messages, b"")
                done += len(message) - 1 if message.startswith(_INPUT) else 0
                self._outgoing = memoryview(frame(_BINARY, message) if message else b"")
            poll.register(self._stream, select.POLLIN | (select.POLLOUT if self._outgoing else 0))
            if not poll.poll(1000 * (_STALLED_SECONDS if self._outgoing else self._seconds)):
                raise AnswerLost(f"{self._server} does not answer: timed out")
            try:
                self._receive()
                self._send()
            except OSError as error:
                with contextlib.suppress(OSError):
                    self._receive()  # how it ended may have arrived before the connection broke
                self._over = True
                if self._status is None:
                    raise AnswerLost(f"{self._server} closed the connection: {error.strerror or error}") from error
        return self._ended()

    def _receive(self) -> None:
        """Everything that is there: TLS may hold more than the poll of the socket shows."""
        while not self._over:
            try:
                data = self._stream.recv(_RECEIVED)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            if not data:
                self._over = True
            self._take(data)

    def _send(self) -> None:
        while self._outgoing and not self._over:  # TLS takes no more than 16 KiB at a time
            try:
                self._outgoing = self._outgoing[self._stream.send(self._outgoing) :]
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return

    def _take(self, data: bytes) -> None:
        for opcode, payload in self._messages.feed(data):
            if opcode == _CLOSE:
                self._over = True
            elif opcode == _PING and len(self._outgoing) < _LONGEST_MESSAGE:
                self._outgoing = memoryview(bytes(self._outgoing) + frame(_PONG, payload))
            elif opcode == _BINARY and payload:
                self._on_message(payload[0], payload[1:])

    def _on_message(self, channel: int, content: bytes) -> None:
        if channel == _STATUS:
            try:
                self._status = msgspec.json.decode(content, type=dict[str, Any])
            except msgspec.MsgspecError:
                raise Garbled(f"{self._server} ended a command without a Status") from None
            self._over = True
        else:
            self._output = (self._output + content)[-_LONGEST_OUTPUT:]

    def _ended(self) -> Executed:
        status = self._status
        if status is None:
            raise AnswerLost(f"{self._server} closed the connection before the command ended")
        output = self._output.decode("utf-8", "replace").strip()
        if status.get("status") == "Success":
            return Executed(0, output)
        causes = (status.get("details") or {}).get("causes") or ()
        for cause in causes:
            code = str(cause.get("message", ""))
            if cause.get("reason") == "ExitCode" and code.isascii() and code.isdigit():
                return Executed(int(code), output)
        raise refusals.of_status(status)
