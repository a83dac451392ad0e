"""Answers that last: sent for as long as somebody listens, and never longer."""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

from fairway.server.requests import OpenRequest, Send


async def stream(request: OpenRequest, send: Send, telling: Coroutine[Any, Any, None]) -> None:
    """Carry out what tells a client something, until that is done or the client has hung up.

    The answer then ends as it should, except for a client that took nothing for too long (`telling` raises
    `TimeoutError`): that one is cut off, or what it does not take would stay in memory until it hangs up.
    """
    work = asyncio.current_task()
    gone = asyncio.ensure_future(request.gone())

    def stop(_: object) -> None:
        if work is not None and not work.done():
            work.cancel()

    gone.add_done_callback(stop)
    try:
        await telling
    except asyncio.CancelledError:
        if not gone.done():
            raise
        if work is not None:
            work.uncancel()
    except TimeoutError:
        gone.remove_done_callback(stop)
        if request.cut_off():
            await gone
        return
    finally:
        gone.remove_done_callback(stop)
        gone.cancel()
    with contextlib.suppress(Exception):
        await send({"type": "http.response.body", "body": b""})


async def send_piece(send: Send, piece: bytes, seconds: float) -> None:
    """Send a part of an answer; `TimeoutError` if the client takes nothing for so long."""
    message = {"type": "http.response.body", "body": piece, "more_body": True}
    if _takes_more(send):
        await send(message)
        return
    async with asyncio.timeout(seconds):
        await send(message)


async def until_taken(send: Send, seconds: float) -> None:
    """Wait before the next piece is even made, while the client has too much to take; `TimeoutError` as above."""
    flow = _flow(send)
    if getattr(flow, "write_paused", False) is True:
        async with asyncio.timeout(seconds):
            await flow.drain()


def _takes_more(send: Send) -> bool:
    """Whether a piece is handed on without waiting, as it mostly is: then nobody need watch the clock."""
    return getattr(_flow(send), "write_paused", True) is False


def _flow(send: Send) -> Any:
    return getattr(getattr(send, "__self__", None), "flow", None)
