"""One line of JSON for every write: who did what, to which object, from where, and how it ended.

Lines go to `audit.log` in the state directory, which only its owner can read; at 20 MB it becomes `audit.log.1` and
so on, and five files are kept. There are no bodies and no tokens in it, and nothing that a client sends can break out
of its line.

A request only puts its entry on a list; a thread turns entries into lines and writes them, a tenth of a second later
at most, and again when the log is closed. Should the disk not keep up or be full, entries are given up rather than
memory, and a line says how many.
"""

import json
import logging
import os
import threading
from collections import deque
from datetime import datetime
from pathlib import Path

import msgspec

FILE_NAME = "audit.log"

_log = logging.getLogger(__name__)

_LONGEST_VALUE = 256
_MOST_PENDING = 100_000
_AT_ONCE = 1000


class AuditEntry(msgspec.Struct, rename="camel", omit_defaults=True, gc=False):
    """One write, or one attempt."""

    time: datetime
    user: str
    verb: str
    group: str
    resource: str
    code: int
    """The HTTP status of the answer."""

    subresource: str = ""
    namespace: str = ""
    name: str = ""
    source: str = ""
    """The address that the request came from."""

    dry_run: bool = False
    resource_version: str = ""
    """Of the object as it was written; empty where nothing was."""

    duration: float = 0.0
    """Seconds from the request's arrival to its answer."""


class AuditLog:
    """The log of one state directory; close it, or the last entries are lost."""

    def __init__(
        self, directory: Path, *, largest_file: int = 20_000_000, files: int = 5, write_every: float = 0.1
    ) -> None:
        self._path = directory / FILE_NAME
        self._largest_file = largest_file
        self._files = files
        self._write_every = write_every
        self._pending: deque[AuditEntry] = deque()
        self._some = threading.Event()
        self._closing = threading.Event()
        self._given_up = 0
        """Entries for which there was no room; counted where entries are recorded, told of where they are written."""
        self._told = 0
        self._failed = 0
        self._file = self._open()
        self._writer = threading.Thread(target=self._write_until_closed, name="audit", daemon=True)
        self._writer.start()

    @property
    def lost(self) -> int:
        """How many entries could not be written, since the start."""
        return self._given_up + self._failed

    def record(self, entry: AuditEntry) -> None:
        """Takes note; returns at once."""
        if len(self._pending) >= _MOST_PENDING:
            self._given_up += 1
            return
        self._pending.append(entry)
        if not self._some.is_set():
            self._some.set()

    def close(self) -> None:
        """Writes what is left and ends the thread; takes as long as the disk does."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._some.set()
        self._writer.join()
        os.close(self._file)

    def _write_until_closed(self) -> None:
        while not self._closing.is_set():
            self._some.wait()
            self._closing.wait(self._write_every)
            self._some.clear()
            self._write_pending()
        self._write_pending()
        os.fsync(self._file)

    def _write_pending(self) -> None:
        while self._pending or self._given_up > self._told:
            entries = [self._pending.popleft() for _ in range(min(len(self._pending), _AT_ONCE))]
            lines = [_line(entry) for entry in entries]
            given_up = self._given_up
            if given_up > self._told:
                lines.append(b'{"lost":%d}\n' % (given_up - self._told))
            try:
                self._append(b"".join(lines))
            except OSError:
                self._failed += len(entries)
                _log.exception("The audit log cannot be written; %d lines are lost", len(entries))
                return
            self._told = given_up

    def _append(self, data: bytes) -> None:
        if os.fstat(self._file).st_size + len(data) > self._largest_file:
            self._rotate()
        while data:
            data = data[os.write(self._file, data) :]

    def _rotate(self) -> None:
        os.fsync(self._file)
        for number in range(self._files - 1, 0, -1):
            older = self._numbered(number - 1)
            if older.exists():
                older.replace(self._numbered(number))
        full, self._file = self._file, self._open()
        os.close(full)

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{FILE_NAME}.{number}") if number else self._path

    def _open(self) -> int:
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        size = os.fstat(file).st_size
        if size and os.pread(file, 1, size - 1) != b"\n":
            os.write(file, b"\n")  # the end of a line that a crash cut short
        return file


def _line(entry: AuditEntry) -> bytes:
    for name in ("user", "verb", "group", "resource", "subresource", "namespace", "name", "source"):
        value = getattr(entry, name)
        if len(value) > _LONGEST_VALUE:
            setattr(entry, name, value[:_LONGEST_VALUE] + "…")
    try:
        line = msgspec.json.encode(entry)
        if line.isascii():
            return line + b"\n"
    except UnicodeEncodeError:  # bytes of a path that are no text
        pass
    return json.dumps(msgspec.to_builtins(entry), separators=(",", ":")).encode() + b"\n"
