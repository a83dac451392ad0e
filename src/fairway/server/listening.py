"""Listening on a socket that is bound already, with HTTP/2 and HTTP/1.1, and a graceful end."""

import asyncio
import resource
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from fairway.errors import ApiError, FairwayError
from fairway.server.app import Api
from fairway.server.certificates import Certificate
from fairway.server.http.connection import OpenConnections
from fairway.server.http.http1 import Http1Connection
from fairway.server.http.http2 import Http2Connection

_BACKLOG = 2048
_GRACE_SECONDS = 5
_GOODBYE_SECONDS = 0.3
_MAX_FILES = 65_536
_ENDING = (signal.SIGINT, signal.SIGTERM)


class CannotListenError(FairwayError):
    """The address cannot be listened on."""


@contextmanager
def bound_socket(host: str, port: int) -> Iterator[socket.socket]:
    """A socket bound to an address, so that its port is known before the first request."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((host, port))
        except OSError as error:
            raise CannotListenError(
                f"cannot listen on {host}:{port}: {error.strerror}. Is the port in use? Choose another with --port."
            ) from error
        yield listening
    finally:
        listening.close()


class _Negotiation(asyncio.Protocol):
    """A connection until the version of HTTP is known: `h2` if TLS has negotiated it, else HTTP/1.1."""

    def __init__(self, connections: OpenConnections) -> None:
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        tls: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        is_http2 = tls is not None and tls.selected_alpn_protocol() == "h2"
        connection = Http2Connection(self._connections) if is_http2 else Http1Connection(self._connections)
        transport.set_protocol(connection)
        connection.connection_made(transport)


class HttpServer:
    """A handler on a listening socket, with HTTP/1.1 and, over TLS, HTTP/2."""

    def __init__(self, connections: OpenConnections, listening: socket.socket, certificate: Certificate | None) -> None:
        self._connections = connections
        self._socket = listening
        self._certificate = certificate
        self._authorities = ""
        self._tls = _tls(certificate) if certificate else None
        self._server: asyncio.Server

    def use(self, certificate: Certificate) -> None:
        """Serve another certificate from the next connection on."""
        if self._tls is not None:
            self._certificate = certificate
            self._tls.load_cert_chain(certificate.certificate, certificate.key)

    async def trust(self, authorities: str) -> None:
        """Verify certificates of clients from the next connection on, with these authorities (PEM) and no others."""
        if self._certificate is None or authorities == self._authorities:
            return
        # A context never forgets an authority, so there is a new one; the queue of the socket is shared by both.
        tls = _tls(self._certificate, authorities)
        before, self._socket = self._server, self._socket.dup()
        self._tls, self._authorities = tls, authorities
        await self._listen()
        before.close()

    @classmethod
    async def start(
        cls, connections: OpenConnections, listening: socket.socket, certificate: Certificate | None
    ) -> "HttpServer":
        """Accept connections; without a certificate they are plain HTTP."""
        server = cls(connections, listening, certificate)
        await server._listen()
        return server

    async def _listen(self) -> None:
        connections = self._connections
        self._server = await asyncio.get_running_loop().create_server(
            lambda: _Negotiation(connections),
            sock=self._socket,
            backlog=_BACKLOG,
            ssl=self._tls,
            ssl_handshake_timeout=connections.header_seconds if self._tls else None,
        )

    def shutdown(self) -> None:
        """Accept nothing more; let every connection end when its last response is sent."""
        self._server.close()
        self._connections.shutdown()

    def close(self) -> None:
        """Accept nothing more, and end every connection at once."""
        self._server.close()
        self._connections.abort()


class Listener:
    """Serves an API until SIGINT or SIGTERM."""

    def __init__(self, api: Api, listening: socket.socket, certificate: Certificate | None) -> None:
        """Without a certificate it speaks plain HTTP."""
        self._api = api
        self._socket = listening
        self._certificate = certificate

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Serve; `on_ready` is called when connections are accepted."""
        _allow_many_files()
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        server = await HttpServer.start(OpenConnections(self._api.handle), self._socket, self._certificate)
        for number in _ENDING:
            loop.add_signal_handler(number, ended.set)
        try:
            on_ready()
            await ended.wait()
        finally:
            self._api.end_streams()
            server.shutdown()
            with suppress(TimeoutError, ApiError):  # clients that wait for the disk get its failure
                async with asyncio.timeout(_GRACE_SECONDS):
                    await self._api.finished()
            # Responses leave; then the connections are cut: a client that does nothing does not say goodbye over TLS.
            await asyncio.sleep(_GOODBYE_SECONDS)
            server.close()
            for number in _ENDING:
                loop.remove_signal_handler(number)


def _tls(certificate: Certificate, authorities: str = "") -> ssl.SSLContext:
    """With authorities, a client may show a certificate, which is then verified."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    context.set_alpn_protocols(["h2", "http/1.1"])
    if authorities:
        context.load_verify_locations(cadata=authorities)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def _allow_many_files() -> None:
    """Let this process have as many connections as it may; by default the system stops it at 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
