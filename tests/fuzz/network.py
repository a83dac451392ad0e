"""A world on a port, by the web server's own protocol, and connections to it."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from uvicorn.server import ServerState

from fairway.server.connections import GuardedProtocol
from fairway.server.listening import _Protocol
from fuzz.world import World

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def listening(
    world: World, made: list[GuardedProtocol] | None = None, *, keep_alive_seconds: float = 75
) -> AsyncIterator[int]:
    """The world on a port, by the server's own protocol; connections as they are made are added to `made`."""
    config = uvicorn.Config(
        world.api, http=_Protocol, proxy_headers=False, ws="none", lifespan="off", access_log=False, log_config=None
    )
    config.load()
    config.timeout_keep_alive = keep_alive_seconds  # type: ignore[assignment]
    state = ServerState()
    loop = asyncio.get_running_loop()

    def new() -> _Protocol:
        protocol = _Protocol(config, state, {})
        if made is not None:
            made.append(protocol)
        return protocol

    server = await loop.create_server(new, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for connection in list(state.connections):
            connection.transport.abort()
        await asyncio.gather(*state.tasks, return_exceptions=True)


@asynccontextmanager
async def connected(port: int, *, buffer: int | None = None) -> AsyncIterator[Streams]:
    client = socket.socket()
    if buffer is not None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    client.settimeout(0)
    await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=client, limit=1024)
    try:
        async with asyncio.timeout(20):
            yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
