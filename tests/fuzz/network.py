"""A world on a port, by the web server's own protocol, and connections to it."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fairway.server.http.connection import HttpConnection, OpenConnections
from fairway.server.http.http1 import Http1Connection
from fuzz.world import World

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def listening(
    world: World,
    connections: OpenConnections | None = None,
    *,
    protocol: Callable[[OpenConnections], HttpConnection] = Http1Connection,
) -> AsyncIterator[int]:
    """The world on a port, by the server's own protocol."""
    shared = connections or OpenConnections(world.api.handle)
    server = await asyncio.get_running_loop().create_server(lambda: protocol(shared), "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        shared.abort()
        await asyncio.sleep(0)
        await asyncio.gather(*world.api._tasks, return_exceptions=True)


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
