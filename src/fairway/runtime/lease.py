"""An exclusive hold on a directory, by one process of this machine at a time.

The hold is a lock of the operating system (`flock`) on the file `lock` in the directory, so it ends with the process
that has it, however that process ends. The file also names the process; that is a message for people and for
`holder`, never the hold itself: a name left behind by a process that was killed means nothing.
"""

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from fairway.errors import FairwayError

LOCK_NAME = "lock"

_SECONDS_TO_TRY = 0.05
"""Longer than any look by `holder`, which shares the lock for a moment."""

_SECONDS_TO_NAME_ITSELF = 1.0
"""A holder writes its name right after it has the lock; readers wait at most this long for it."""

_PAUSE = 0.005


class AlreadyRunning(FairwayError):
    """Another process has the hold."""

    def __init__(self, directory: Path, pid: int | None) -> None:
        self.directory = directory
        self.pid = pid
        super().__init__(directory, pid)

    def __str__(self) -> str:
        who = "another process" if self.pid is None else f"process {self.pid}"
        return f"{self.directory} is in use by {who}, which is still running; end it first or choose another directory"


class Hold:
    """The hold that this process has, until `release`, the end of a `with` block or the end of the process."""

    def __init__(self, directory: Path, lock: int) -> None:
        self.directory = directory
        self._lock: int | None = lock

    @classmethod
    def acquire(cls, directory: Path) -> Self:
        """Takes the hold on an existing directory, or raises `AlreadyRunning` with the pid of its holder."""
        until = time.monotonic() + _SECONDS_TO_TRY
        while True:
            lock = _lock(directory, fcntl.LOCK_EX)
            if lock is not None:
                _write_pid(lock, os.getpid())
                return cls(directory, lock)
            if time.monotonic() >= until:
                raise AlreadyRunning(directory, _named_in(directory / LOCK_NAME))
            time.sleep(_PAUSE)

    def release(self) -> None:
        if self._lock is not None:
            os.ftruncate(self._lock, 0)
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


def holder(directory: Path) -> int | None:
    """The pid of the living process that holds the lock, or `None`. Changes nothing."""
    if not (directory / LOCK_NAME).exists():
        return None
    lock = _lock(directory, fcntl.LOCK_SH)
    if lock is None:
        return _named_in(directory / LOCK_NAME)
    os.close(lock)
    return None


def _lock(directory: Path, kind: int) -> int | None:
    """The locked file, or `None` if another process has locked it."""
    path = directory / LOCK_NAME
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
            same = _is_still_there(file, path)
        except BlockingIOError:
            os.close(file)
            return None
        except BaseException:
            os.close(file)
            raise
        if same:
            return file
        os.close(file)


def _is_still_there(file: int, path: Path) -> bool:
    """Whether the path still leads to the open file, which may have been deleted between opening and locking."""
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False


def _write_pid(file: int, pid: int) -> None:
    os.ftruncate(file, 0)
    os.pwrite(file, f"{pid}\n".encode(), 0)


def _named_in(path: Path) -> int | None:
    """The pid that the present holder wrote; `None` if it cannot be seen from here, as from another container."""
    until = time.monotonic() + _SECONDS_TO_NAME_ITSELF
    while time.monotonic() < until:
        try:
            text = path.read_text(encoding="ascii", errors="replace").strip()
        except FileNotFoundError:
            return None
        if text.isascii() and text.isdigit() and _lives(int(text)):
            return int(text)
        time.sleep(_PAUSE)
    return None


def _lives(pid: int) -> bool:
    """Whether there is such a process: a dead one was the holder before, and the present one has not yet signed."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return pid > 0
