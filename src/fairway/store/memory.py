"""A revision log that lives as long as its process: for tests, simulations and dry runs."""

from collections.abc import Iterator
from pathlib import Path

from fairway.errors import StorageFailed
from fairway.store.log import Batch, Row


class MemoryLog:
    """Keeps the contract of `log.Log` without a file; a second store may be opened on it after the first is closed."""

    def __init__(self) -> None:
        self._rows: dict[int, Row] = {}
        self._floor = 0
        self._last = 0

    def rows(self) -> Iterator[Row]:
        yield from list(self._rows.values())

    def floor(self) -> int:
        return self._floor

    def last(self) -> int:
        return self._last

    def append(self, batch: Batch) -> None:
        for row in batch.rows:
            self._rows[row.revision] = row
            self._last = row.revision
        for revision in batch.dropped:
            self._rows.pop(revision, None)
        self._floor = max(self._floor, batch.floor)

    def backup(self, target: Path) -> None:
        raise StorageFailed(f"there is no file to copy to {target}: this store lives in memory only")

    def close(self) -> None:
        """Nothing to let go of."""
