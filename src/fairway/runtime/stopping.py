"""The end of a process by SIGTERM or SIGINT."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any


async def until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run until SIGTERM or SIGINT, which cancel the work, or until it ends; its error is raised."""
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        working.cancel()
        stopping.cancel()
        ended, _ = await asyncio.gather(working, stopping, return_exceptions=True)
    if isinstance(ended, Exception):
        raise ended
