"""The ceiling: a server that does nothing but send the body back, to see that the generator is not what is measured."""

from __future__ import annotations

import itertools
import multiprocessing
import socket
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any

import uvicorn

from bench.api.load import Report, drive
from bench.api.wire import Target

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


async def echo(scope: Message, receive: Receive, send: Send) -> None:
    if scope["type"] != "http":
        return
    body = b""
    more = True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    length = str(len(body)).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def serving(application: Application) -> Iterator[Target]:
    """An application on uvicorn in a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = multiprocessing.get_context("fork").Process(target=_serve, args=(application, listener))
        process.start()
        target = Target("127.0.0.1", listener.getsockname()[1], tls=False, token="")
    try:
        yield target
    finally:
        process.terminate()
        process.join()


def _serve(application: Application, listener: socket.socket) -> None:
    config = uvicorn.Config(
        application,
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="error",
        timeout_graceful_shutdown=1,
    )
    uvicorn.Server(config).run(sockets=[listener])


def measure(clients: int, seconds: float, body: bytes) -> Report:
    """The closed loop against the bare server."""
    with serving(echo) as target:
        request = target.head("POST", "/", length=len(body)) + body
        return drive(target, [itertools.repeat(request) for _ in range(clients)], seconds)
