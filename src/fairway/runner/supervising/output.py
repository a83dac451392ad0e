"""Copies the output of processes from pipes into log files in the format of `docs/use/logs.md`.

Nothing that a process does with its output holds up another one, and nothing that is wrong with a log file holds up a
process: what cannot be written is dropped, and `supervisor.log` says so once. Memory is bounded by one piece of a line
for each stream.
"""

import os
import time
from contextlib import suppress
from pathlib import Path

from fairway.runner.supervising.loop import READABLE, Loop, note
from fairway.runtime.logformat import LONGEST_PIECE, Stream, encode, head

STREAMS: tuple[Stream, Stream] = ("stdout", "stderr")
_AT_ONCE = 64 * 1024
_AT_THE_END = 16 * 1024 * 1024
"""Bytes that are still taken from a process that has ended: more than a pipe holds, if no process keeps writing."""


_MOST_OPEN_LOGS = 48


class OpenLogs:
    """The log files that are open: a bounded number; the one that was opened first is closed for the next."""

    def __init__(self, most: int = _MOST_OPEN_LOGS) -> None:
        self._most = most
        self._logs: dict[LogFile, None] = {}

    def opened(self, log: "LogFile") -> None:
        self._logs[log] = None
        if len(self._logs) > self._most:
            next(iter(self._logs)).close()

    def closed(self, log: "LogFile") -> None:
        self._logs.pop(log, None)


class LogFile:
    """The log of one process; the file is made when there is something to write.

    A file that would grow beyond the limit becomes `<name>.1`, in place of an earlier one, and a new one begins.
    """

    __slots__ = ("_file", "_last", "_limit", "_open_logs", "_path", "_size", "_warned")

    def __init__(self, path: str, limit_bytes: int, open_logs: OpenLogs) -> None:
        self._path = path
        self._limit = limit_bytes
        self._open_logs = open_logs
        self._file: int | None = None
        self._size = 0
        self._last = 0
        self._warned = False

    def now(self) -> int:
        """The time for the next entry, which is never before the one of the last."""
        self._last = max(self._last, time.time_ns())
        return self._last

    def write(self, entries: bytes) -> None:
        try:
            if self._file is None:
                self._open()
            if self._size and self._size + len(entries) > self._limit:
                self.close()
                os.replace(self._path, f"{self._path}.1")  # noqa: PTH105 - no Path for a log that stays empty
                self._open()
            self._write(entries)
        except OSError as error:
            if not self._warned:
                note(f"output is lost: {error}")
                self._warned = True

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
            self._open_logs.closed(self)

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._file = os.open(self._path, flags, 0o600)
        except FileNotFoundError:
            Path(self._path).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.open(self._path, flags, 0o600)
        self._size = os.fstat(self._file).st_size
        self._open_logs.opened(self)

    def _write(self, entries: bytes) -> None:
        if self._file is None:
            return
        written = os.write(self._file, entries)
        while written < len(entries):
            written += os.write(self._file, entries[written:])
        self._size += len(entries)


class Pipe:
    """One stream of one process, on its way into the log."""

    __slots__ = ("_file", "_log", "_loop", "_rest", "_stream")

    def __init__(self, loop: Loop, log: LogFile, stream: Stream, file: int) -> None:
        """`file` is the end to read from; it is closed here, also if this fails."""
        self._loop = loop
        self._log = log
        self._stream = stream
        self._file: int | None = file
        self._rest = b""
        try:
            os.set_blocking(file, False)
            loop.watch(file, READABLE, self._read)
        except OSError:
            os.close(file)
            raise

    def finish(self) -> None:
        """Take what is left; the process has ended, so the last line is as long as it will ever be."""
        taken = 0
        while taken < _AT_THE_END and (read := self._read()):
            taken += read
        if self._rest:
            self._log.write(encode(self._log.now(), self._stream, self._rest, partial=True))
            self._rest = b""
        self._close()

    def _read(self) -> int:
        """Read at most one chunk; returns its size."""
        if self._file is None:
            return 0
        try:
            data = os.read(self._file, _AT_ONCE)
        except BlockingIOError:
            return 0
        if data:
            self._take(data)
        else:
            self._close()
        return len(data)

    def _take(self, data: bytes) -> None:
        *lines, rest = (self._rest + data).split(b"\n")
        entries = b""
        if lines:
            now = self._log.now()
            if max(map(len, lines)) > LONGEST_PIECE:
                entries = b"".join(self._in_pieces(now, line) for line in lines)
            else:
                begin = head(now, self._stream)
                entries = begin + (b"\n" + begin).join(lines) + b"\n"
        while len(rest) > LONGEST_PIECE:
            entries += encode(self._log.now(), self._stream, rest[:LONGEST_PIECE], partial=True)
            rest = rest[LONGEST_PIECE:]
        self._rest = rest
        if entries:
            self._log.write(entries)

    def _in_pieces(self, now: int, line: bytes) -> bytes:
        pieces = [line[at : at + LONGEST_PIECE] for at in range(0, len(line), LONGEST_PIECE)] or [b""]
        last = pieces.pop()
        return b"".join(encode(now, self._stream, piece, partial=True) for piece in pieces) + encode(
            now, self._stream, last
        )

    def _close(self) -> None:
        if self._file is not None:
            self._loop.unwatch(self._file)
            with suppress(OSError):
                os.close(self._file)
            self._file = None
