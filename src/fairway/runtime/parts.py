"""Parts of a process that work side by side until they are cancelled; one that breaks is noticed by all."""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, Protocol

_log = logging.getLogger(__name__)


class Part(Protocol):
    """Anything that works until it is cancelled."""

    async def run(self) -> None: ...


@asynccontextmanager
async def running(*parts: Part, broken: "asyncio.Future[None] | None" = None) -> AsyncIterator["asyncio.Future[None]"]:
    """Parts at work; when one ends by itself, `broken` gets its error."""
    broken = broken or asyncio.get_running_loop().create_future()
    tasks = [_started(part, broken) for part in parts]
    try:
        yield broken
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def unless(broken: "asyncio.Future[None]", work: Coroutine[Any, Any, None]) -> None:
    """Await the work to its end; if something that it needs breaks before, cancel it and raise that error."""
    task = asyncio.create_task(work)
    try:
        await asyncio.wait({task, broken}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            broken.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    await task


def _started(part: Part, broken: "asyncio.Future[None]") -> "asyncio.Task[None]":
    task = asyncio.create_task(part.run(), name=type(part).__name__)

    def ended(task: "asyncio.Task[None]") -> None:
        if task.cancelled() or broken.done():
            return
        error = task.exception() or RuntimeError(f"{task.get_name()} ended by itself")
        _log.error("%s broke", task.get_name(), exc_info=error)
        broken.set_exception(error)

    task.add_done_callback(ended)
    return task
