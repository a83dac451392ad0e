"""The connections to one server: kept open, bounded in number, replaced when they break."""

import asyncio
from typing import Final

from fairway.client.http.connection import Connection
from fairway.client.rest.access import Access

MOST_CONNECTIONS: Final = 16


class Pool:
    """Lends connections; more than `most` requests at once wait for each other. Long-lived streams are not counted."""

    def __init__(self, access: Access, most: int = MOST_CONNECTIONS) -> None:
        self._access = access
        self._slots = asyncio.Semaphore(most)
        self._idle: list[Connection] = []
        self._lent: set[Connection] = set()

    async def take(self, *, lasting: bool = False) -> Connection:
        """A connection of one's own until it is given back; a `lasting` one is for a watch."""
        if not lasting:
            await self._slots.acquire()
        try:
            address = (
                await asyncio.to_thread(self._access.address) if self._access.runs_plugin else self._access.address()
            )
            connection = None
            while self._idle and connection is None:
                connection = self._idle.pop()
                if not connection.usable or connection.address is not address:
                    connection.close()
                    connection = None
            if connection is None:
                connection = await Connection.open(address)
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
        if connection.usable:
            self._idle.append(connection)
        else:
            connection.close()

    def drop_idle(self) -> None:
        """Close what is kept, for example because a client certificate has changed."""
        while self._idle:
            self._idle.pop().close()

    def close(self) -> None:
        """Close all of them; requests under way end with `Unreachable`."""
        self.drop_idle()
        for connection in self._lent:
            connection.close()
