"""Listening: uvicorn on a socket that is bound already, ended without waiting for those who watch."""

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, cast

import uvicorn

from fairway.errors import ApiError, FairwayError
from fairway.server.app import Api
from fairway.server.certificates import Certificate
from fairway.server.connections import GuardedProtocol, allow_many

_BACKLOG = 2048
_GRACE_SECONDS = 5
_GOODBYE_SECONDS = 0.3
_GATHERED_BYTES = 64 << 10
_ENDING = (signal.SIGINT, signal.SIGTERM)


class CannotListenError(FairwayError):
    """The address cannot be listened on."""


@contextmanager
def bound_socket(host: str, port: int) -> Iterator[socket.socket]:
    """A socket bound to an address, so that its port is known before anybody is served."""
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


class _Gathering:
    """A transport that sends what is written in one go together: a response's head and body are one packet, one call.

    Whatever else is asked of it, the transport itself answers.
    """

    __slots__ = ("_loop", "_parts", "_size", "_transport", "is_closing")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self.is_closing = transport.is_closing  # asked several times a request
        self._loop = asyncio.get_running_loop()
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)
        self._size += len(data)
        if self._size > _GATHERED_BYTES:
            self._flush()  # not later: whoever writes much must feel it when the other side is slow

    def write_now(self, data: bytes) -> None:
        """Write what is a whole in itself, after what waits."""
        if self._parts:
            self._flush()
        self._transport.write(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._parts:
            data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            self._parts, self._size = [], 0
            self._transport.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class _Protocol(GuardedProtocol):
    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast("asyncio.Transport", _Gathering(transport)))

    def send(self, data: bytes) -> None:
        cast("_Gathering", self.transport).write_now(data)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, api: Api, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._api = api
        self._on_ready = on_ready

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End on a signal, and no more than that: uvicorn would raise it again, and nothing could be tidied up."""
        loop = asyncio.get_running_loop()
        for number in _ENDING:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in _ENDING:
                loop.remove_signal_handler(number)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._api.end_streams()
        hanging_up = asyncio.create_task(self._hang_up())
        try:
            await super().shutdown(sockets)
        finally:
            hanging_up.cancel()

    async def _hang_up(self) -> None:
        """Once every request is answered, cut the lines: a client that does nothing does not say goodbye over TLS."""
        while running := set(self.server_state.tasks):
            await asyncio.wait(running)
        with suppress(ApiError):  # whoever waits for the disk is told of it
            await self._api.objects.store.settled()
        await asyncio.sleep(_GOODBYE_SECONDS)
        for connection in tuple(self.server_state.connections):
            cast("_Protocol", connection).transport.abort()


class Listener:
    """Serves an API until the process is told to end (SIGINT or SIGTERM)."""

    def __init__(self, api: Api, listening: socket.socket, certificate: Certificate | None) -> None:
        """Without a certificate it speaks plain HTTP."""
        self._api = api
        self._socket = listening
        self._config = uvicorn.Config(
            api,
            http=_Protocol,
            proxy_headers=False,
            ws="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            date_header=False,
            backlog=_BACKLOG,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            ssl_certfile=certificate.certificate if certificate else None,
            ssl_keyfile=certificate.key if certificate else None,
            h11_max_incomplete_event_size=64 << 10,
        )

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Serve; `on_ready` is called when connections are taken."""
        allow_many()
        await _Server(self._config, self._api, on_ready).serve([self._socket])
