"""The protocol of a revision log: an append-only list of rows, durable when `append` returns.

Two logs keep it: `sqlite.py` on a file, `memory.py` for tests and simulations. Neither knows what an object is, which
row is the newest of its key, or who is watching; `store.py` does.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from fairway.errors import FairwayError


class UnusableFileError(FairwayError):
    """What is there is not a log that this version can read; it is left as it is."""


class Row(NamedTuple):
    """One revision of one object."""

    revision: int
    resource: str
    namespace: str
    name: str
    deleted: bool
    data: bytes


class Batch(NamedTuple):
    """What is committed together, or not at all."""

    rows: Sequence[Row]
    dropped: Sequence[int] = ()
    """Revisions that no reader can request any more."""

    floor: int = 0
    """History up to here may be incomplete; 0 leaves the floor where it is."""


class Log(Protocol):
    """Where revisions are kept. Methods block: the store calls them from its writer thread."""

    def rows(self) -> Iterator[Row]:
        """All rows, in the order of their revisions."""

    def floor(self) -> int:
        """The highest revision up to which history may be incomplete."""

    def last(self) -> int:
        """The highest revision that was ever committed, even if its row is dropped by now."""

    def append(self, batch: Batch) -> None:
        """Make a batch durable; `StorageFailed` if it is not, and then nothing of it is there."""

    def backup(self, target: Path) -> None:
        """Write a consistent copy of everything committed to a new file."""

    def close(self) -> None:
        """Let go of the file; nothing may be called afterwards."""
