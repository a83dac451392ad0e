"""Reading the log of a container: some of it, all of it, or all that is still to come.

It costs what is shown, not what is there: the last lines are found from the end of the file, a time by bisection,
both in a thread. A reader that follows sleeps until the kernel tells of new data, and one that takes its time is
waited for.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from fairway.runtime.clock import Clock, SystemClock
from fairway.runtime.follow import follow
from fairway.runtime.inotify import FileChanges
from fairway.runtime.logformat import stamp
from fairway.server.logs.entries import HEAD_LENGTH, Lines, is_partial, time_of
from fairway.server.logs.requests import LogOptions

BLOCK = 64 * 1024
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def log_path(directory: Path, namespace: str, uid: str, container: str, restart: int) -> Path:
    """Where in the state directory the log of one start of a container is."""
    for part in (namespace, uid, container):
        if part in ("", ".", "..") or "/" in part or "\0" in part:
            raise ValueError(f"{part!r} cannot be part of a path")
    return directory / "logs" / namespace / uid / container / f"{restart}.log"


async def read_log(
    path: Path,
    options: LogOptions,
    *,
    finished: asyncio.Event,
    changes: FileChanges | None = None,
    clock: Clock | None = None,
) -> AsyncGenerator[bytes, None]:
    """The lines that the options ask for, in pieces of bounded size.

    With `follow` also those still to come, until `finished` is set (by who sees the container end, or the pod go) and
    all is read. Followers should share one `changes`. A file that is not there is empty, or waited for.
    """
    since = _since(options, clock or SystemClock())
    lines = Lines(since=None if since is None else stamp(since), timestamps=options.timestamps, stream=options.stream)
    start, size = await asyncio.to_thread(_find_part, path, options.tail_lines, since)
    source = follow(path, stop=finished, changes=changes, start=start) if options.follow else _read(path, start, size)
    remaining = options.limit_bytes
    async with aclosing(_shown(source, lines)) as pieces:
        async for piece in pieces:
            if remaining is None:
                yield piece
                continue
            yield piece[:remaining]
            remaining -= len(piece)
            if remaining <= 0:
                return


async def _shown(source: AsyncGenerator[bytes, None], lines: Lines) -> AsyncGenerator[bytes, None]:
    async with aclosing(source):
        async for data in source:
            if shown := lines.feed(data):
                yield shown
    if shown := lines.finish():
        yield shown


async def _read(path: Path, start: int, size: int) -> AsyncGenerator[bytes, None]:
    """What was in the file when the request came; a writer that is faster than the reader does not keep it busy."""
    if start >= size:
        return
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        while start < size and (data := file.read(min(BLOCK, size - start))):
            start += len(data)
            yield data
            await asyncio.sleep(0)  # a long file must not keep everybody else from running


def _since(options: LogOptions, clock: Clock) -> int | None:
    """The earliest time asked for, in nanoseconds since the epoch."""
    moment = options.since_time
    if options.since_seconds is not None:
        try:
            moment = clock.now() - timedelta(seconds=options.since_seconds)
        except OverflowError:
            return None
    return None if moment is None else max(0, (moment - _EPOCH) // timedelta(microseconds=1) * 1000)


def _find_part(path: Path, tail_lines: int | None, since: int | None) -> tuple[int, int]:
    """From where on to read, never later than what is asked for, and the size of the file."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0, 0
    try:
        size = os.fstat(file).st_size
        start = 0 if tail_lines is None else _start_of_last(file, size, tail_lines)
        return (start if since is None else _start_of_time(file, start, size, stamp(since))), size
    finally:
        os.close(file)


def _start_of_last(file: int, size: int, wanted: int) -> int:
    """Where the last so many lines begin; entries that are pieces of one line count as one."""
    start, found = size, 0
    for position, head in _entries_backwards(file, size):
        if start == size or not is_partial(head):
            if found == wanted:
                return start
            found += 1
        start = position
    return 0


def _entries_backwards(file: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Where each entry begins, and its first bytes, from the last to the first."""
    base = end = max(0, size - 1)  # the line break at the very end begins no entry
    while base > 0:
        base = max(0, end - BLOCK)
        block = os.pread(file, end - base, base)
        at = block.rfind(b"\n")
        while at >= 0:
            head = block[at + 1 : at + 1 + HEAD_LENGTH]
            if len(head) < HEAD_LENGTH:
                head = os.pread(file, HEAD_LENGTH, base + at + 1)
            yield base + at + 1, head
            at = block.rfind(b"\n", 0, at)
        end = base
    if size:
        yield 0, os.pread(file, HEAD_LENGTH, 0)


def _start_of_time(file: int, low: int, high: int, since: bytes) -> int:
    """The beginning of some entry before the first one since then, at most a block before it."""
    while high - low > BLOCK:
        middle = (low + high) // 2
        found = _first_entry(file, middle)
        if found is not None and found[1] < since:
            low = found[0]
        else:
            high = middle
    return low


def _first_entry(file: int, position: int) -> tuple[int, bytes] | None:
    """Where the first entry after a position begins, and its time; `None` if there is none for a good while."""
    block = os.pread(file, BLOCK, position)
    at = block.find(b"\n")
    while at >= 0:
        time = time_of(block[at + 1 : at + 1 + HEAD_LENGTH])
        if time is not None:
            return position + at + 1, time
        at = block.find(b"\n", at + 1)
    return None
