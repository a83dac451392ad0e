"""The ceiling: a server that does nothing but send the body back, to see that the generator is not what is measured."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import uvloop

from bench.api.load import Report, drive
from bench.api.wire import Target
from fairway.errors import ApiError
from fairway.server.http import Exchange, Handler
from fairway.server.http.connection import OpenConnections
from fairway.server.http.http1 import Http1Connection
from fairway.server.responses import Response


def echo(exchange: Exchange) -> None:
    def answer(body: bytes | ApiError) -> None:
        exchange.respond(Response(200, body if isinstance(body, bytes) else b""))

    exchange.collect(1 << 20, 10, answer)


@contextmanager
def serving(handler: Handler) -> Iterator[Target]:
    """A handler in a process of its own, on the server's connections."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = multiprocessing.get_context("fork").Process(target=_serve, args=(handler, listener))
        process.start()
        target = Target("127.0.0.1", listener.getsockname()[1], tls=False, token="")
    try:
        yield target
    finally:
        process.terminate()
        process.join()


def _serve(handler: Handler, listener: socket.socket) -> None:
    async def serve() -> None:
        connections = OpenConnections(handler)
        server = await asyncio.get_running_loop().create_server(lambda: Http1Connection(connections), sock=listener)
        await server.serve_forever()

    uvloop.run(serve())


def measure(clients: int, seconds: float, body: bytes) -> Report:
    """The closed loop against the bare server."""
    with serving(echo) as target:
        request = target.head("POST", "/", length=len(body)) + body
        return drive(target, [itertools.repeat(request) for _ in range(clients)], seconds)
