"""A proxy in front of an API server that misbehaves as networks and busy servers do, and counts what it is asked.

    async with FaultyProxy(apiserver) as proxy:
        kubeconfig = proxy.kubeconfig(path)
        proxy.faults = Faults(refuse=0.1, ...)

Clients speak plain HTTP/1.1 to it, on loopback; it authenticates at the server with the certificate it was given.
Faults are drawn from a seed. A refused request never reaches the server; a `lost` one does, and its answer is lost.
"""

import asyncio
import json
import ssl
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final, Self

from tools.cluster.apiserver import ApiServer

from cluster.api import authority_of

_REFUSALS: Final = (
    ("409 Conflict", "Conflict", ""),
    ("429 Too Many Requests", "TooManyRequests", "Retry-After: 1\r\n"),
    ("429 Too Many Requests", "TooManyRequests", ""),
    ("500 Internal Server Error", "InternalError", ""),
    ("503 Service Unavailable", "ServiceUnavailable", ""),
)
_READS: Final = ("GET", "HEAD")


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Shares of the requests that go wrong."""

    refuse: float = 0.0
    """Answered with 409 (writes only), 429, 500 or 503."""

    lose: float = 0.0
    """Done by the server, and the connection is closed instead of an answer."""

    delay_seconds: float = 0.0
    """At most."""

    cut_seconds: float = 0.0
    """A watch is cut after at most so long, in the middle of whatever it sends."""

    expire: float = 0.0
    """Of the watches: answered with 410."""


class FaultyProxy:
    """See the module."""

    def __init__(self, apiserver: ApiServer, seed: int = 1) -> None:
        """It speaks to the server as its administrator."""
        here, admin = apiserver.plane.addresses, apiserver.plane.admin
        self._upstream = here.host, here.port
        self._tls = ssl.create_default_context(cafile=str(authority_of(apiserver)))
        self._tls.load_cert_chain(str(admin.certificate), str(admin.key))
        self._chance = Random(seed)  # noqa: S311 - the same faults every time
        self.faults = Faults()
        self.requests: Counter[str] = Counter()
        """By `VERB resource`, for example `WATCH pods`."""

        self.injected: Counter[str] = Counter()
        self.connections = 0
        self.most_connections = 0
        self.down = False
        """Whether connections are closed at once."""

        self.times: list[float] = []
        self._open: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._listening = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._listening.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._listening.close()
        self.cut()
        while self._open:  # noqa: ASYNC110 - they end by themselves
            await asyncio.sleep(0.01)

    def kubeconfig(self, path: Path, namespace: str = "default") -> Path:
        """A file that leads here."""
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": f"http://127.0.0.1:{self.port}"}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "", "namespace": namespace}}],
        }
        path.write_text(json.dumps(document))
        return path

    def cut(self) -> None:
        """Close all connections."""
        for writer in self._open:
            writer.transport.abort()

    def busiest_second(self) -> int:
        """The most requests within one second."""
        most, first = 0, 0
        for last, at in enumerate(self.times):
            while self.times[first] < at - 1.0:
                first += 1
            most = max(most, last - first + 1)
        return most

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.down:
            writer.transport.abort()
            return
        self._open.add(writer)
        self.connections += 1
        self.most_connections = max(self.most_connections, len(self._open))
        try:
            while await self._one(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request; whether the connection stays."""
        head = await reader.readuntil(b"\r\n\r\n")
        method, target = head.split(b"\r\n", 1)[0].decode().split(" ")[:2]
        body = await reader.readexactly(_length(head))
        watches = "watch=true" in target
        self.requests[f"{'WATCH' if watches else method} {_resource(target)}"] += 1
        self.times.append(asyncio.get_running_loop().time())
        faults, draw = self.faults, self._chance.random
        if faults.delay_seconds:
            await asyncio.sleep(draw() * faults.delay_seconds)
        if draw() < faults.refuse:
            writer.write(self._refusal(method))
            await writer.drain()
            return True
        if watches and draw() < faults.expire:
            self.injected["410"] += 1
            writer.write(_status("410 Gone", "Expired", ""))
            await writer.drain()
            return True
        loses = not watches and draw() < faults.lose
        limit = draw() * faults.cut_seconds if watches and faults.cut_seconds else None
        return await self._forward(head, body, writer, limit, loses=loses)

    async def _forward(
        self, head: bytes, body: bytes, writer: asyncio.StreamWriter, limit: float | None, *, loses: bool
    ) -> bool:
        reading, writing = await asyncio.open_connection(*self._upstream, ssl=self._tls)
        try:
            writing.write(head[:-2] + b"Connection: close\r\n\r\n" + body)
            async with asyncio.timeout(limit):
                while piece := await reading.read(65536):
                    if not loses:
                        writer.write(piece)
                        await writer.drain()
            self.injected["lost answers"] += loses
        except TimeoutError:
            self.injected["cut watches"] += 1
        finally:
            writing.transport.abort()
        return False  # as the server was asked to close its connection, so does this

    def _refusal(self, method: str) -> bytes:
        line, reason, more = self._chance.choice(_REFUSALS[1:] if method in _READS else _REFUSALS)
        self.injected[line[:3]] += 1
        return _status(line, reason, more)


def _status(line: str, reason: str, more: str) -> bytes:
    status = {"kind": "Status", "code": int(line[:3]), "reason": reason, "message": "injected by the test"}
    body = json.dumps(status).encode()
    return (
        f"HTTP/1.1 {line}\r\nContent-Type: application/json\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode()
        + body
    )


def _length(head: bytes) -> int:
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return int(line.split(b":")[1])
    return 0


def _resource(target: str) -> str:
    parts = target.partition("?")[0].strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    return parts[0] if parts else "discovery"
