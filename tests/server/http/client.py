"""An HTTP/2 client that says exactly what it is told to, right or wrong."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from fairway.server.http.connection import OpenConnections
from fairway.server.http.frames import PREFACE
from fairway.server.http.hpack import HpackDecoder
from fairway.server.http.http2 import Http2Connection
from fuzz.network import Streams, connected, listening
from fuzz.world import World

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS = 0x1, 0x1, 0x4
INITIAL_WINDOW = 4
MAPS = "/api/v1/namespaces/default/configmaps"


class Frame(NamedTuple):
    kind: int
    flags: int
    stream: int
    payload: bytes

    @property
    def number(self) -> int:
        """Of RST_STREAM and WINDOW_UPDATE, and the error of GOAWAY."""
        return int.from_bytes(self.payload[4:8] if self.kind == GOAWAY else self.payload[:4])


class Answer(NamedTuple):
    code: int
    headers: dict[bytes, bytes]
    body: bytes


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload


def literal(name: bytes, value: bytes, *, first: int = 0x00) -> bytes:
    """A header that is spelled out, not compressed; with `first=0x40` it enters the table."""

    def text(data: bytes) -> bytes:
        if len(data) < 127:
            return bytes((len(data),)) + data
        rest, out = len(data) - 127, bytearray(b"\x7f")
        while rest >= 128:
            out.append(rest & 127 | 128)
            rest >>= 7
        return bytes(out) + bytes((rest,)) + data

    return bytes((first,)) + text(name) + text(value)


class Client:
    """One connection to a server, of the user with this token."""

    def __init__(self, token: str, streams: Streams) -> None:
        self._token = token
        self._reader, self._writer = streams
        self._decoder = HpackDecoder()
        self.seen: list[Frame] = []

    def send(self, *frames: bytes) -> None:
        self._writer.write(b"".join(frames))

    def head(self, method: str, path: str, *headers: tuple[bytes, bytes]) -> bytes:
        """A header block."""
        fields = [
            (b":method", method.encode()), (b":scheme", b"https"), (b":path", path.encode()), (b":authority", b"x"),
            (b"authorization", b"Bearer " + self._token.encode()), (b"content-type", b"application/json"),
        ]  # fmt: skip
        return b"".join(literal(*field) for field in (*fields, *headers))

    def ask(self, stream: int, method: str, path: str, body: bytes = b"", *headers: tuple[bytes, bytes]) -> None:
        flags = END_HEADERS if body else END_HEADERS | END_STREAM
        self.send(frame(HEADERS, flags, stream, self.head(method, path, *headers)))
        if body:
            self.send(frame(DATA, END_STREAM, stream, body))

    async def next(self) -> Frame | None:
        """The next frame; `None` when the server has closed the connection."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            head = await self._reader.readexactly(9)
            length_and_kind, flags, stream = struct.unpack(">IBI", head)
            payload = await self._reader.readexactly(length_and_kind >> 8)
            found = Frame(length_and_kind & 255, flags, stream, payload)
            self.seen.append(found)
            return found
        return None

    async def until(self, kind: int, stream: int | None = None) -> Frame:
        """The next frame of a kind."""
        while found := await self.next():
            if found.kind == kind and stream in {None, found.stream}:
                return found
        raise AssertionError(f"the connection ended without a frame {kind}; before: {self.seen[-5:]}")

    async def answer(self, stream: int) -> Answer:
        """The whole response on a stream, while nothing else goes on."""
        head = await self.until(HEADERS, stream)
        fields = dict(self._decoder.decode(head.payload, 1 << 20) or ())
        body, last = b"", head
        while not last.flags & END_STREAM:
            last = await self.until(DATA, stream)
            body += last.payload
        return Answer(int(fields[b":status"]), fields, body)

    async def until_closed(self) -> Frame | None:
        """The GOAWAY with which the connection ended, if any."""
        while await self.next():
            pass
        return next((one for one in self.seen if one.kind == GOAWAY), None)


@asynccontextmanager
async def client_of(
    world: World, connections: OpenConnections | None = None, *settings: tuple[int, int], buffer: int | None = None
) -> AsyncIterator[Client]:
    """A client that has said hello."""
    async with (
        listening(world, connections, protocol=Http2Connection) as port,
        connected(port, buffer=buffer) as streams,
    ):
        client = Client(world.token, streams)
        client.send(PREFACE, frame(SETTINGS, payload=b"".join(struct.pack(">HI", *one) for one in settings)))
        yield client
