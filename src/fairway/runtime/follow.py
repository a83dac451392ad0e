"""Reading a file that still grows.

Waiting costs nothing: a follower sleeps until the kernel tells of a change (`inotify`), and looks every now and then
only where no such news can be had. Data is read in bounded pieces and only as fast as the reader takes it. When
another file takes the name (rotation) the old one is read to its end first; when the file is cut short, reading
starts again at its beginning. The last part of the path must not be a symbolic link, whose target changes without
news for its own directory.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import suppress
from pathlib import Path

from fairway.runtime.inotify import FileChanges

PIECE = 64 * 1024
LOOK_EVERY = 0.1
"""Seconds between two polls where the kernel sends no events."""


async def follow(
    path: Path, *, stop: asyncio.Event, changes: FileChanges | None = None, start: int = 0, piece: int = PIECE
) -> AsyncGenerator[bytes, None]:
    """What is in the file from byte `start` on, and what is added to it, until `stop` is set and all is read.

    The file need not exist yet. Everything written before `stop` was set is yielded. Many followers should share one
    `changes`; without one, a follower keeps its own for as long as it runs.
    """
    news = FileChanges() if changes is None else changes
    woken = asyncio.Event()
    stopping = asyncio.ensure_future(stop.wait())
    stopping.add_done_callback(lambda _: woken.set())
    subscription = news.subscribe(path, woken.set)
    tail = _Tail(path, start, piece)
    try:
        while True:
            last = stop.is_set()  # asked before reading: what was written before the stop is read in any case
            woken.clear()
            for data in tail.read():
                yield data
                await asyncio.sleep(0)  # a long file must not keep everybody else from running
            if last:
                return
            if subscription.live:
                await woken.wait()
            else:
                await _woken_or_time_to_look(woken)
                subscription.close()
                subscription = news.subscribe(path, woken.set)
    finally:
        stopping.cancel()
        subscription.close()
        tail.close()
        if changes is None:
            news.close()


async def _woken_or_time_to_look(woken: asyncio.Event) -> None:
    timer = asyncio.get_running_loop().call_later(LOOK_EVERY, woken.set)
    try:
        await woken.wait()
    finally:
        timer.cancel()


class _Tail:
    """One open file and how far it was read."""

    def __init__(self, path: Path, position: int, piece: int) -> None:
        self._path = path
        self._position = position
        self._piece = piece
        self._file: int | None = None

    def read(self) -> Iterator[bytes]:
        """All there is to read now."""
        while self._file is not None or self._open():
            yield from self._rest()
            if not self._was_replaced():
                return
            yield from self._rest()  # written between reaching the end and the renaming
            self.close()
            self._position = 0

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self) -> bool:
        with suppress(FileNotFoundError, NotADirectoryError):
            self._file = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        return self._file is not None

    def _rest(self) -> Iterator[bytes]:
        while self._file is not None:
            data = os.pread(self._file, self._piece, self._position)
            if not data and os.fstat(self._file).st_size < self._position:
                self._position = 0
                continue
            if not data:
                return
            self._position += len(data)
            yield data

    def _was_replaced(self) -> bool:
        """Whether the name leads to another file by now; a name that leads nowhere may yet come back."""
        if self._file is None:
            return False
        with suppress(FileNotFoundError, NotADirectoryError):
            return not os.path.samestat(os.fstat(self._file), self._path.stat())
        return False
