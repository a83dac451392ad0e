"""HTTP/1.1 as far as a client of the API needs it: one connection, kept, one request at a time.

The standard library's client would do, but it brings `email` with it and takes longer to import than a whole command
may. What is understood: status line, headers, bodies with a length, in chunks or up to the end of the connection.
What comes from the other side is not trusted: lines and headers have bounds, and nonsense is `Garbled`.
"""

import contextlib
import select
import socket
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from fairway.client.rest.errors import AnswerLost, Garbled, Unreachable

if TYPE_CHECKING:
    import ssl

Headers = Sequence[tuple[str, str]]

CONNECT_SECONDS: Final = 10.0
_LONGEST_LINE: Final = 64 << 10
_MOST_HEADERS: Final = 256
_PIECE: Final = 256 << 10
_WITHOUT_BODY: Final = frozenset({204, 304})
_MOST_HINTS: Final = 16
"""So many 1xx answers are passed over before the real one."""


class Address(NamedTuple):
    """Where a server listens, and how it is spoken to."""

    host: str
    """In ASCII: names in other letters are encoded already."""

    port: int
    tls: "ssl.SSLContext | None" = None
    server_name: str = ""
    """The name that its certificate must have, if not that of the host."""

    host_header: str = ""

    def __str__(self) -> str:
        return f"{'https' if self.tls else 'http'}://{self.host_header or self.host}"


class Dropped(AnswerLost):
    """The other side hung up on a connection that had been used before, and answered nothing to this request."""


class SyncConnection:
    """One connection to a server, opened with the first request and broken for good by the first thing that fails."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._socket: socket.socket | None = None
        self._held = bytearray()
        """What has arrived and is not read yet."""

        self._answered = 0
        self._aborted = False
        self.usable = True
        """Whether another request can be sent: no failure, no answer half read, and the server keeps it open."""

    def request(
        self, method: str, target: str, headers: Headers, body: bytes | Iterable[bytes] | None, seconds: float | None
    ) -> "SyncResponse":
        """Send a request and return when the head of the answer is here.

        `seconds` is how long the other side may be silent, now and while the body is read; `None` is for ever.
        """
        self.usable = False  # until the answer is read to its end
        sent = False
        try:
            stream = self._opened()
            stream.settimeout(seconds)
            sent = True
            self._send(stream, method, target, headers, body)
            response = self._head(method)
        except EOFError:
            self.close()
            raise AnswerLost(f"{self.address} closed the connection in the middle of a response") from None
        except OSError as error:
            self.close()
            raise (AnswerLost if sent else Unreachable)(failure(self.address, error)) from error
        except BaseException:  # an interrupt too: what comes after it would be taken for the answer to another request
            self.close()
            raise
        self._answered += 1
        return response

    def is_stale(self) -> bool:
        """Whether the peer has closed the connection, or sent unexpected data."""
        if self._socket is None:
            return False
        if self._held:
            return True
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return bool(poll.poll(0))

    def taken_over(self) -> tuple[socket.socket, bytes]:
        """After 101: the socket, which stays this connection's to close, and what arrived after the head."""
        if self._socket is None:
            raise AnswerLost(f"{self.address} closed the connection")
        held = bytes(self._held)
        self._held.clear()
        return self._socket, held

    def abort(self) -> None:
        """From any thread: break the connection for a thread that waits on it."""
        self._aborted = True
        stream = self._socket
        if stream is not None:
            with contextlib.suppress(OSError):  # it is closed, or not connected yet
                # Of the plain socket: the waiting thread uses the TLS layer.
                socket.socket.shutdown(stream, socket.SHUT_RDWR)

    def close(self) -> None:
        self.usable = False
        stream, self._socket = self._socket, None
        self._held.clear()
        if stream is not None:
            stream.close()

    # Opening and sending

    def _opened(self) -> socket.socket:
        if self._socket is None:
            address = self.address
            # Bytes: for a text Python would load its tables of the letters that names of hosts may have.
            host = address.host.encode("ascii")
            plain = socket.create_connection((host, address.port), timeout=CONNECT_SECONDS)  # type: ignore[arg-type]
            self._socket = plain
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            keep_alive(plain)
            if address.tls is not None:
                name = address.server_name.encode("ascii") if address.server_name else host
                self._socket = address.tls.wrap_socket(plain, server_hostname=name)
        if self._aborted:
            raise ConnectionAbortedError("the connection is closed")
        return self._socket

    def _send(
        self, stream: socket.socket, method: str, target: str, headers: Headers, body: bytes | Iterable[bytes] | None
    ) -> None:
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self.address.host_header or self.address.host}"]
        lines += [f"{name}: {value}" for name, value in headers]
        if isinstance(body, bytes):
            lines.append(f"Content-Length: {len(body)}")
        if " " in target or any("\r" in line or "\n" in line for line in lines):
            raise ValueError(f"{method} {target!r}: the path or a header has a space or a line break in it")
        head = "\r\n".join((*lines, "", "")).encode("latin-1")
        try:
            if body is None or isinstance(body, bytes):
                stream.sendall(head + (body or b""))
                return
            stream.sendall(head)
            for piece in body:
                stream.sendall(piece)
        except (BrokenPipeError, ConnectionResetError):
            # A server that refuses a body need not read it all: its answer may be here already.
            if body is None or not self._fill():
                raise self._hung_up() from None

    # Reading

    def _head(self, method: str) -> "SyncResponse":
        for _ in range(_MOST_HINTS):
            try:
                first = self._line()
            except (ConnectionResetError, EOFError):
                raise self._hung_up() from None
            version, status = self._status(first)
            headers = self._headers()
            if status >= 200 or status == 101:  # 101: not a hint, the last answer in HTTP
                keeps = version == b"HTTP/1.1" and "close" not in headers.get("connection", "").lower()
                return SyncResponse(self, status, headers, method=method, keeps=keeps)
        raise self._garbled("too many 1xx responses")

    def _status(self, line: bytes) -> tuple[bytes, int]:
        version, _, rest = line.partition(b" ")
        code = rest[:3]
        if version not in {b"HTTP/1.1", b"HTTP/1.0"} or not code.isdigit() or rest[3:4] not in {b"", b" "}:
            raise self._garbled(f"its first line is {_shown(line)}")
        status = int(code)
        if not 100 <= status <= 599:
            raise self._garbled(f"its status is {status}")
        return version, status

    def _headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        for _ in range(_MOST_HEADERS + 1):
            line = self._line()
            if not line:
                return headers
            name, colon, value = line.partition(b":")
            if not colon or not name or name != name.strip():
                raise self._garbled(f"a line among its headers is {_shown(line)}")
            key, text = name.decode("latin-1").lower(), value.strip().decode("latin-1")
            if key == "content-length" and headers.get(key, text) != text:
                raise self._garbled("it gives two lengths for one body")
            headers[key] = f"{headers[key]}, {text}" if key in headers and key != "content-length" else text
        raise self._garbled(f"it has more than {_MOST_HEADERS} headers")

    def _line(self) -> bytes:
        """The next line without its end; `EOFError` if the connection ends before one."""
        looked = 0
        while (end := self._held.find(b"\n", looked)) < 0:
            looked = len(self._held)
            if looked > _LONGEST_LINE:
                raise self._garbled(f"it has a line of more than {_LONGEST_LINE} bytes")
            if not self._fill():
                raise EOFError
        line = bytes(self._held[:end]).removesuffix(b"\r")
        del self._held[: end + 1]
        return line

    def _fill(self) -> bool:
        """Wait for more; false at the end of the connection."""
        data = self._receive()
        self._held += data
        return bool(data)

    def _receive(self) -> bytes:
        if self._socket is None:  # another thread closed it
            raise ConnectionAbortedError("the connection is closed")
        return self._socket.recv(_PIECE)

    def some(self, most: int) -> bytes:
        """Of the body, at least a byte and at most so many; empty at the end of the connection."""
        if not self._held and not self._fill():
            return b""
        piece = bytes(self._held[:most])
        del self._held[:most]
        return piece

    def pieces(self, length: int) -> Iterator[bytes]:
        """So many bytes of the body, as they come."""
        while length > 0:
            piece = self.some(length)
            if not piece:
                raise EOFError
            length -= len(piece)
            yield piece

    def chunks(self) -> Iterator[bytes]:
        """A body in chunks, as they come, up to and with its last line."""
        while size := self._chunk_size():
            yield from self.pieces(size)
            if self._line():
                raise self._garbled("a chunk of its body is longer than it says")
        for _ in range(_MOST_HEADERS):
            if not self._line():
                return
        raise self._garbled(f"it has more than {_MOST_HEADERS} trailers")

    def _chunk_size(self) -> int:
        line = self._line()
        digits = line.partition(b";")[0].strip()
        if not digits or len(digits) > 15 or digits.strip(b"0123456789abcdefABCDEF"):
            raise self._garbled(f"the length of a chunk is {_shown(line)}")
        return int(digits, 16)

    def _hung_up(self) -> Unreachable:
        if self._answered and not self._held:
            return Dropped(f"{self.address} closed the connection")
        return AnswerLost(f"{self.address} closed the connection without a response")

    def _garbled(self, what: str) -> Garbled:
        return Garbled(f"{self.address} does not speak valid HTTP/1.1: {what}")


class SyncResponse:
    """An answer, of which the body may still be on its way."""

    def __init__(
        self, connection: SyncConnection, status: int, headers: dict[str, str], *, method: str, keeps: bool
    ) -> None:
        self.status = status
        self.headers = headers
        """By their names in lower case; those that came twice are joined by commas."""

        self.connection = connection
        self._keeps = keeps
        self._body = self._parts(method)

    def read(self) -> bytes:
        """The whole body."""
        return b"".join(self.stream())

    def stream(self) -> Generator[bytes, None, None]:
        """The body as it comes; the connection is free for another request at its end, and closed if that is not
        waited for."""
        connection = self.connection
        try:
            yield from self._body
            connection.usable = self._keeps
        except EOFError:
            raise AnswerLost(f"{connection.address} closed the connection in the middle of a response") from None
        except OSError as error:
            raise AnswerLost(
                f"{connection.address} stopped sending in the middle of a response: {said(error)}"
            ) from error
        finally:
            if not connection.usable:
                connection.close()

    def _parts(self, method: str) -> Iterator[bytes]:
        connection = self.connection
        coding = self.headers.get("transfer-encoding", "").lower()
        length = self.headers.get("content-length", "")
        if method == "HEAD" or self.status in _WITHOUT_BODY:
            return iter(())
        if coding == "chunked":
            self._keeps = self._keeps and not length  # with both headers the end of the body is ambiguous
            return connection.chunks()
        if coding:
            raise Garbled(f"{connection.address} sent an unsupported Transfer-Encoding: {coding!r}")
        if length:
            if not (length.isascii() and length.isdigit() and len(length) <= 15):
                raise Garbled(f"{connection.address} sent an invalid Content-Length: {length[:40]!r}")
            return connection.pieces(int(length))
        self._keeps = False
        return iter(lambda: connection.some(_PIECE), b"")


def failure(address: Address, error: OSError) -> str:
    """Why a connection could not be opened, or broke."""
    untrusted = getattr(error, "verify_message", "")
    if untrusted:
        return f"{address} has an untrusted certificate: {untrusted}"
    return f"{address} does not answer: {said(error)}"


def said(error: OSError) -> str:
    """What the system says about a failure, without the numbers."""
    if isinstance(error, TimeoutError):
        return "timed out"
    text = getattr(error, "reason", "") or error.strerror or str(error) or type(error).__name__  # `reason`: of TLS
    return text.replace("_", " ").lower() if text.isupper() else text[:1].lower() + text[1:]


def keep_alive(stream: socket.socket) -> None:
    """Have the system ask now and then whether the other machine is still there: a watch may be silent for hours."""
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            stream.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _shown(line: bytes) -> str:
    text = line.decode("latin-1")
    return repr(text if len(text) <= 60 else f"{text[:60]}…")
