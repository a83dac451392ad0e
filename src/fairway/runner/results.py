"""Retention of the working directories of managed jobs: by age, by number and by size.

A directory is measured once, when its pod is gone and nothing changes it any more; the result is noted beside the pod's
logs (`.results`), and so is why the directory was removed.
"""

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from fairway.settings import RESULTS_NOTE

_DAY_SECONDS: Final = 86_400.0


class Kept(NamedTuple):
    """The working directory of a pod that is gone."""

    work: Path
    logs: Path
    owner: str
    """The UID of the job."""

    part: str
    """Task, rank and attempt."""

    @property
    def uid(self) -> str:
        return self.work.name

    @property
    def place(self) -> tuple[str, str]:
        """The same for all attempts of one node of one task."""
        return self.owner, self.part.rpartition(" ")[0]


class Note(Struct, frozen=True, kw_only=True):
    """What is known of it."""

    bytes: int
    at: float
    """When it was measured, which is soon after its pod was gone."""

    removed: str = ""


class Measured(NamedTuple):
    kept: Kept
    note: Note


class Retention(Struct, frozen=True, kw_only=True):
    """How much is kept; what is older goes first."""

    max_age_days: float = 30.0
    max_attempts: int = 3
    """Of each node of each task: the last ones."""

    max_count: int = 10_000
    max_bytes: int = 20 << 30

    def exceeding(self, measured: Iterable[Measured], now: float) -> Iterator[tuple[Kept, str]]:
        """What is to go, and why."""
        newest_first = sorted(measured, key=lambda one: (one.note.at, _attempt(one.kept)), reverse=True)
        attempts: dict[tuple[str, str], int] = {}
        count, size = 0, 0
        for kept, note in newest_first:
            place = kept.place
            attempts[place] = attempts.get(place, 0) + 1
            if attempts[place] > self.max_attempts:
                yield kept, f"only the files of the last {self.max_attempts} attempts are kept"
            elif note.at < now - self.max_age_days * _DAY_SECONDS:
                yield kept, f"files are kept for {self.max_age_days:g} days"
            elif count >= self.max_count:
                yield kept, f"the files of {self.max_count} newer attempts are kept"
            elif size + note.bytes > self.max_bytes:
                yield kept, f"{self.max_bytes} bytes of newer files are kept in all"
            else:
                count, size = count + 1, size + note.bytes


def _attempt(kept: Kept) -> int:
    last = kept.part.rpartition(" ")[2]
    return int(last) if last.isdecimal() else 0


# On the disk; for a thread


def measure(kept: Iterable[Kept], now: float) -> list[Measured]:
    """The size of each; walked once and then known."""
    found = []
    for one in kept:
        note = _read(one)
        if note is None:
            note = Note(bytes=_size(one.work), at=now)
            with suppress(OSError):  # then it is measured again
                _write(one, note)
        found.append(Measured(one, note))
    return found


def retire(path: Path, kept: Kept, why: str, remove: Callable[[Path], None]) -> None:
    """Remove a directory, and leave a note that says why it is gone."""
    note = _read(kept) or Note(bytes=0, at=0.0)
    remove(path)
    with suppress(OSError):
        _write(kept, msgspec.structs.replace(note, removed=f"the files of this attempt were removed: {why}"))


def _read(kept: Kept) -> Note | None:
    try:
        return msgspec.json.decode((kept.logs / RESULTS_NOTE).read_bytes(), type=Note)
    except (OSError, msgspec.MsgspecError):
        return None


def _write(kept: Kept, note: Note) -> None:
    new = kept.logs / f"{RESULTS_NOTE}.new"
    new.write_bytes(msgspec.json.encode(note))
    new.chmod(0o600)
    new.replace(kept.logs / RESULTS_NOTE)


def _size(directory: Path) -> int:
    """What the files of a directory take on the disk."""
    total = 0
    for place, _, names in os.walk(directory):
        for name in names:
            with suppress(OSError):
                found = os.lstat(f"{place}/{name}")
                if stat.S_ISREG(found.st_mode):
                    total += found.st_blocks * 512
    return total
