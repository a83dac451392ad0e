"""The connections to one server: kept open, bounded in number, replaced when they break."""

import asyncio
from typing import Final

from fairway.client.http.connection import Connection
from fairway.client.rest.access import Access
from fairway.client.rest.http import Address
from fairway.runtime.clock import Clock

MOST_CONNECTIONS: Final = 16
_IDLE_SECONDS: Final = 45.0
"""Connections that were idle for longer are closed: servers close them after 60 to 90 seconds, and a write that is sent
at that moment is lost.
"""


class Pool:
    """Lends connections; more than `most` requests at once wait for each other. Long-lived streams are not counted."""

    def __init__(self, access: Access, clock: Clock, most: int = MOST_CONNECTIONS) -> None:
        self._access = access
        self._clock = clock
        self._most = most
        self._slots = asyncio.Semaphore(most)
        self._idle: list[tuple[Connection, float]] = []
        """With the time since when they are; the most recently used one last."""
        self._lent: set[Connection] = set()

    async def take(self, *, lasting: bool = False) -> Connection:
        """A connection of one's own until it is given back; a `lasting` one is for a watch."""
        if not lasting:
            await self._slots.acquire()
        try:
            address = (
                await asyncio.to_thread(self._access.address) if self._access.runs_plugin else self._access.address()
            )
            connection = self._kept(address) or await Connection.open(address)
        except BaseException:
            if not lasting:
                self._slots.release()
            raise
        self._lent.add(connection)
        return connection

    def give_back(self, connection: Connection, *, lasting: bool = False) -> None:
        """Keep it for the next request if it can be used again."""
        if not lasting:
            self._slots.release()
        self._lent.discard(connection)
        if connection.usable and len(self._idle) < self._most:
            self._idle.append((connection, self._clock.monotonic()))
        else:
            connection.close()

    def _kept(self, address: Address) -> Connection | None:
        """An idle connection that can be used; those that cannot are closed."""
        while self._idle:
            connection, since = self._idle.pop()
            if self._clock.monotonic() - since > _IDLE_SECONDS:
                connection.close()
                self.drop_idle()  # the others are idle for longer
            elif connection.usable and connection.address is address:
                return connection
            else:
                connection.close()
        return None

    def drop_idle(self) -> None:
        """Close what is kept, for example because a client certificate has changed."""
        while self._idle:
            self._idle.pop()[0].close()

    def close(self) -> None:
        """Close all of them; requests under way end with `Unreachable`."""
        self.drop_idle()
        for connection in self._lent:
            connection.close()
