"""The load generator: many connections, each asking again as soon as it was answered (a closed loop).

Requests are bytes made beforehand, or put together from parts made beforehand; of an answer only the status and the end
are looked at (by llhttp, in C). So one request costs the generator some thirty microseconds, and the server sets the
pace.
"""

from __future__ import annotations

import asyncio
import time
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, cast

import httptools
import uvloop

from bench.api.wire import Target

LOST = 0
"""Counted in place of a status when the connection ended before the answer did."""


def percentile(ascending: Sequence[float], percent: float) -> float:
    """The value that this many percent are below of."""
    return ascending[min(len(ascending) - 1, int(len(ascending) * percent / 100))] if ascending else 0.0


class Report(NamedTuple):
    """What one load found."""

    seconds: float
    cpu_seconds: float
    """What the generator itself used."""
    latencies: array[float]
    """Seconds from sending to the end of the answer, ascending, of the answers that were a success."""
    statuses: dict[int, int]
    refusal: bytes = b""
    """The first answer that was no success, to see why."""

    @property
    def answered(self) -> int:
        return len(self.latencies)

    @property
    def rate(self) -> float:
        """Successful answers a second."""
        return self.answered / self.seconds if self.seconds else 0.0

    @property
    def cpu_each(self) -> float:
        return self.cpu_seconds / max(1, sum(self.statuses.values()))

    @property
    def errors(self) -> dict[int, int]:
        return {status: count for status, count in self.statuses.items() if not 200 <= status < 300}

    def percentile(self, percent: float) -> float:
        return percentile(self.latencies, percent)


class _Client(asyncio.Protocol):
    """One connection in a closed loop, until its requests or its time are used up."""

    def __init__(self, requests: Iterator[bytes]) -> None:
        self._requests = requests
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiting = False
        self._sent_at = 0.0
        self._deadline = 0.0
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.latencies: list[float] = []
        self.statuses: Counter[int] = Counter()
        self.refusal = b""
        self._received: list[bytes] = []

    def begin(self, deadline: float) -> None:
        self._deadline = deadline
        self._send(time.perf_counter())

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - what asyncio calls it
        self._transport = None
        if self._waiting:
            self._waiting = False
            self.statuses[LOST] += 1
        self._finish()

    def data_received(self, data: bytes) -> None:
        self._received.append(data)
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        del self._received[:-1]

    def on_message_complete(self) -> None:
        now = time.perf_counter()
        status = self._parser.get_status_code()
        self.statuses[status] += 1
        if 200 <= status < 300:
            self.latencies.append(now - self._sent_at)
        else:
            self.refusal = self.refusal or b"".join(self._received)
        self._waiting = False
        self._send(now)

    def _send(self, now: float) -> None:
        request = next(self._requests, None) if now < self._deadline else None
        if request is None or self._transport is None:
            self._finish()
            return
        self._waiting = True
        self._sent_at = now
        self._transport.write(request)

    def _finish(self) -> None:
        if not self.done.done():
            self.done.set_result(None)


async def _drive(target: Target, feeds: Sequence[Iterable[bytes]], limit_seconds: float) -> Report:
    loop = asyncio.get_running_loop()
    clients = [_Client(iter(feed)) for feed in feeds]
    trust = target.trust
    for client in clients:
        await loop.create_connection(lambda client=client: client, target.host, target.port, ssl=trust)
    cpu_before = time.process_time()
    begun = time.perf_counter()
    for client in clients:
        client.begin(begun + limit_seconds)
    await asyncio.gather(*(client.done for client in clients))
    seconds = time.perf_counter() - begun
    cpu_seconds = time.process_time() - cpu_before
    for client in clients:
        client.close()
    latencies = array("d", sorted(latency for client in clients for latency in client.latencies))
    statuses: Counter[int] = sum((client.statuses for client in clients), Counter())
    refusal = next((client.refusal for client in clients if client.refusal), b"")
    return Report(seconds, cpu_seconds, latencies, dict(statuses), refusal)


def drive(target: Target, feeds: Sequence[Iterable[bytes]], limit_seconds: float = 600.0) -> Report:
    """One connection a feed; each sends the requests of its feed one after the other, for at most this long."""
    return uvloop.run(_drive(target, feeds, limit_seconds))
