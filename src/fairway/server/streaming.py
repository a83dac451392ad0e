"""Responses that last: sent for as long as the client listens, and never longer."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from fairway.server.http import Exchange


async def stream(exchange: Exchange, telling: Coroutine[Any, Any, None]) -> None:
    """Run what writes the response, until that is done or the client has hung up.

    A client that takes nothing for too long (`telling` raises `TimeoutError`) is aborted: what it does not take would
    stay in memory until it hangs up.
    """
    work = asyncio.current_task()
    hung_up = exchange.gone
    if hung_up or work is None:
        telling.close()
        return
    exchange.on_gone = work.cancel
    try:
        await telling
    except asyncio.CancelledError:
        if not exchange.gone:
            raise
        work.uncancel()
    except TimeoutError:
        exchange.on_gone = None
        exchange.abort()
    else:
        exchange.end()
    finally:
        exchange.on_gone = None
