"""A log file that rotates although it is the standard output of the process.

A server in the background has `server.log` as its standard output and error: so even the last words
of a crashing interpreter are in it. Once the file is too large, the process renames it and puts a new file under the
same descriptors; nothing that is written meanwhile is lost. A few old files are kept.
"""

import logging
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

MOST_BYTES: Final = 10 << 20
MOST_OLD_FILES: Final = 3
_LOOK_EVERY_BYTES: Final = 64 << 10


class RotatingOutput(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes records to standard error; where that is the log file, keeps the file from growing without end."""

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES, most_old_files: int = MOST_OLD_FILES) -> None:
        super().__init__(sys.stderr)
        self._path = path
        self._most_bytes = most_bytes
        self._most_old_files = most_old_files
        self._until_look = 0

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        self._until_look -= len(str(record.msg)) + 100
        if self._until_look <= 0:
            self._until_look = min(_LOOK_EVERY_BYTES, self._most_bytes // 4)
            with suppress(OSError):  # no room, or not ours to rename: the next look may do better
                self._rotate_if_large()

    def _rotate_if_large(self) -> None:
        written = os.fstat(2)
        if written.st_size < self._most_bytes or not self._is_log(written):
            return
        for number in range(self._most_old_files - 1, 0, -1):
            with suppress(FileNotFoundError):
                self._old(number).replace(self._old(number + 1))
        self._path.replace(self._old(1))
        new = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            for descriptor in (1, 2):
                if _same(os.fstat(descriptor), written):
                    os.dup2(new, descriptor, inheritable=True)
        finally:
            os.close(new)

    def _is_log(self, written: os.stat_result) -> bool:
        try:
            return _same(self._path.stat(), written)
        except FileNotFoundError:
            return False

    def _old(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


def _same(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
