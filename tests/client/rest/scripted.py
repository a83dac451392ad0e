"""A server that says exactly what a test wants, byte by byte, and remembers what it was asked."""

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fairway.client.rest.access import Access
from fairway.client.rest.api import Rest
from fairway.client.rest.http import Address, SyncConnection
from fairway.client.rest.kubeconfig import Endpoint, KubeContext

HOLD = b"<hold>"
"""In place of an answer: say nothing, and wait until the other side hangs up."""


def answer(body: bytes = b"{}", status: str = "200 OK", headers: Sequence[str] = ()) -> bytes:
    """A well-formed answer with a length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join((*lines, "", "")).encode() + body


def chunked(*pieces: bytes, trailers: bytes = b"") -> bytes:
    """A well-formed answer in chunks."""
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n" + trailers + b"\r\n"


class Scripted:
    """Takes one connection after the other; for each there is a list with an answer to each request on it, and after
    the last it hangs up."""

    def __init__(self, *connections: Sequence[bytes], read_bodies: bool = True) -> None:
        self._connections = connections
        self._read_bodies = read_bodies
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.requests: list[bytes] = []
        self.waited: list[float] = []
        """How long the client chose to wait before it asked again."""

        self.connected = 0
        self._opened: list[Rest | SyncConnection] = []

    @property
    def port(self) -> int:
        return int(self._listening.getsockname()[1])

    def rest(self, user: dict[str, Any] | None = None, *, now: Callable[[], float] = lambda: 0.0) -> Rest:
        """A client that does not really wait."""
        endpoint = Endpoint(f"http://127.0.0.1:{self.port}", https=False, host="127.0.0.1", port=self.port)
        context = KubeContext("scripted", "default", endpoint, user or {}, "tester", "kubeconfig")
        rest = Rest(Access(context, now), self.waited.append)
        self._opened.append(rest)
        return rest

    def connection(self) -> SyncConnection:
        connection = SyncConnection(Address("127.0.0.1", self.port))
        self._opened.append(connection)
        return connection

    def targets(self) -> list[str]:
        """What was asked for, as `METHOD path`."""
        return [" ".join(request.split(b"\r\n")[0].decode().split(" ")[:2]) for request in self.requests]

    def _serve(self) -> None:
        for script in self._connections:
            with contextlib.suppress(OSError), self._listening.accept()[0] as stream:
                self.connected += 1
                self._speak(stream, script)

    def _speak(self, stream: socket.socket, script: Sequence[bytes]) -> None:
        for said in script:
            request = self._request(stream)
            if not request:
                return
            self.requests.append(request)
            if said == HOLD:
                while stream.recv(65536):
                    pass
                return
            stream.sendall(said)
        if not self._read_bodies:  # else what was not read would be answered with a reset
            stream.shutdown(socket.SHUT_WR)
            while stream.recv(65536):
                pass

    def _request(self, stream: socket.socket) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data:
            more = stream.recv(65536)
            if not more:
                return b""
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        length = next(
            (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
        )
        while self._read_bodies and len(body) < length and (more := stream.recv(65536)):
            body += more
        return head + b"\r\n\r\n" + body

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for opened in self._opened:
            opened.close()
        # Whoever still waits for a connection gets one that says nothing.
        while self._thread.is_alive():
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            self._thread.join(0.01)
        self._listening.close()


def write_kubeconfig(path: Path, **changes: Any) -> Path:
    """A kubeconfig as text, with parts of it replaced."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "one", "cluster": {"server": "https://127.0.0.1:7437"}}],
        "users": [{"name": "ann", "user": {"token": "fw_secret"}}],
        "contexts": [{"name": "here", "context": {"cluster": "one", "user": "ann", "namespace": "research"}}],
        **changes,
    }
    path.write_text(json.dumps(document))
    return path
