"""The revision log in one SQLite file.

One table, a row's id is its revision, nothing is ever updated in place. There is no second index: rows that history no
longer needs are dropped by their ids, which the store knows. Opened with a write-ahead log and full synchronisation: a
commit that has returned survives the loss of power.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from fairway.errors import StorageFailed
from fairway.store.log import Batch, Row, UnusableFileError

SCHEMA_VERSION: Final = 2
_APPLICATION_ID: Final = 0x46574159
"""Marks the file as Fairway's ("FWAY"), so that another program's database is not taken for one."""

_CHECKPOINT_PAGES: Final = 8000
"""About 32 MB of log before it is folded into the file: fewer, larger folds keep the slowest commits fast."""


_AT_ONCE: Final = 64
"""Rows to one statement."""

_DROPPED_AT_ONCE: Final = 500
"""Revisions to one statement that drops them: well below the least that SQLite allows."""


def _create_log(db: sqlite3.Connection) -> None:
    db.execute(
        "CREATE TABLE revisions (revision INTEGER PRIMARY KEY, resource TEXT NOT NULL, namespace TEXT NOT NULL, "
        "name TEXT NOT NULL, deleted INTEGER NOT NULL, data BLOB NOT NULL)"
    )


def _add_facts(db: sqlite3.Connection) -> None:
    db.execute("CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID")
    db.execute("INSERT INTO facts VALUES ('floor', 0), ('last', (SELECT coalesce(max(revision), 0) FROM revisions))")


_MIGRATIONS: Final[tuple[Callable[[sqlite3.Connection], None], ...]] = (_create_log, _add_facts)
"""Step n leads from schema version n to n + 1. Steps are never changed once released, only added."""


class SqliteLog:
    """Keeps the contract of `log.Log` in one file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._db = _opened(path)
        except (sqlite3.Error, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            raise UnusableFileError(
                f"{path}: {reason}. If the disk is full or the file is not yours to write, put that right and start "
                "again; otherwise move the file aside and restore a backup."
            ) from error

    def rows(self) -> Iterator[Row]:
        query = "SELECT revision, resource, namespace, name, deleted, data FROM revisions ORDER BY revision"
        with self._reading():
            yield from map(Row._make, self._db.execute(query))

    def floor(self) -> int:
        with self._reading():
            return self._fact("floor")

    def last(self) -> int:
        with self._reading():
            (newest,) = self._db.execute("SELECT coalesce(max(revision), 0) FROM revisions").fetchone()
            return max(int(newest), self._fact("last"))

    def append(self, batch: Batch) -> None:
        try:
            self._commit(batch)
        except sqlite3.Error as error:
            if self._is_there(batch):
                return  # the commit went through, only its answer was lost
            raise StorageFailed(_explained(error, self.path)) from error

    def backup(self, target: Path) -> None:
        back_up(self.path, target)

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise UnusableFileError(
                f"{self.path}: {error}. Move the file aside and restore a backup (`fairway backup` makes them)."
            ) from error

    def _fact(self, name: str) -> int:
        (value,) = self._db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return int(value)

    def _commit(self, batch: Batch) -> None:
        rows = batch.rows
        if rows and len(rows) <= _AT_ONCE and not batch.dropped and not batch.floor:
            self._insert(rows)  # a statement by itself is a transaction by itself
            return
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            for start in range(0, len(rows), _AT_ONCE):
                self._insert(rows[start : start + _AT_ONCE])
            if batch.dropped:
                self._drop(batch.dropped)
                # The newest row may be among them, and its revision must not be given out again.
                last = rows[-1].revision if rows else max(batch.dropped)
                db.execute("UPDATE facts SET value = max(value, ?) WHERE name = 'last'", (last,))
            if batch.floor:
                db.execute("UPDATE facts SET value = max(value, ?) WHERE name = 'floor'", (batch.floor,))
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def _insert(self, rows: Sequence[Row]) -> None:
        """Insert rows by one statement: Python's interpreter lock is let go of and waited for once, not once a row."""
        self._db.execute(_insertion(len(rows)), list(chain.from_iterable(rows)))

    def _drop(self, revisions: Sequence[int]) -> None:
        """Delete rows by as few statements as possible, for the same reason, and by one text, so that it is kept."""
        for start in range(0, len(revisions), _DROPPED_AT_ONCE):
            some = list(revisions[start : start + _DROPPED_AT_ONCE])
            some += some[:1] * (_DROPPED_AT_ONCE - len(some))
            self._db.execute(_DELETION, some)

    def _is_there(self, batch: Batch) -> bool:
        if not batch.rows or self._db.in_transaction:
            return False
        query = "SELECT revision, resource, namespace, name, deleted, data FROM revisions WHERE revision = ?"
        try:
            found = self._db.execute(query, (batch.rows[-1].revision,)).fetchone()
        except sqlite3.Error:
            return False
        return bool(found == batch.rows[-1])


_DELETION: Final = f"DELETE FROM revisions WHERE revision IN ({', '.join('?' * _DROPPED_AT_ONCE)})"  # noqa: S608


@cache
def _insertion(rows: int) -> str:
    return "INSERT INTO revisions VALUES " + ", ".join(["(?, ?, ?, ?, ?, ?)"] * rows)  # noqa: S608 - placeholders only


def back_up(source: Path, target: Path) -> None:
    """Copy a log's file, whether or not a server has it open."""
    if not source.is_file():
        raise StorageFailed(f"there is no state to copy: {source} does not exist")
    try:
        db = sqlite3.connect(f"file:{quote(str(source.absolute()))}?mode=ro", uri=True, timeout=30.0)
    except sqlite3.Error as error:
        raise StorageFailed(f"{source} cannot be read: {error}") from error
    try:
        _copy(db, target)
    finally:
        db.close()


def check(path: Path) -> None:
    """Raise `StorageFailed` unless a log's file is sound: its structure, and every object in it."""
    try:
        db = sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)
        try:
            faults = [row[0] for row in db.execute("PRAGMA integrity_check(5)")]
            if faults != ["ok"]:
                raise StorageFailed(f"the database is damaged: {'; '.join(faults)}")
            for revision, resource, name, deleted, data in db.execute(
                "SELECT revision, resource, name, deleted, data FROM revisions"
            ):
                if not _is_object(data, empty=bool(deleted)):
                    raise StorageFailed(
                        f"the database is damaged: revision {revision} of {resource} {name!r} is not JSON"
                    )
        finally:
            db.close()
    except sqlite3.Error as error:
        raise StorageFailed(f"the database is damaged: {error}") from error


def _is_object(data: bytes, *, empty: bool) -> bool:
    try:
        return isinstance(msgspec.json.decode(data), dict)
    except msgspec.MsgspecError:
        return empty and not data


def _copy(db: sqlite3.Connection, target: Path) -> None:
    try:
        target.touch(mode=0o600, exist_ok=False)
    except FileExistsError:
        raise StorageFailed(f"{target} exists already; choose another name, or remove it first") from None
    except OSError as error:
        raise StorageFailed(f"{target} cannot be written: {error.strerror}") from error
    try:
        copy = sqlite3.connect(target)
        try:
            db.backup(copy)  # in one step: a step after another write would start from the beginning
        finally:
            copy.close()
    except sqlite3.Error as error:
        target.unlink(missing_ok=True)
        raise StorageFailed(f"the copy to {target} failed and was removed: {error}") from error


def _opened(path: Path) -> sqlite3.Connection:
    path.touch(mode=0o600)
    db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5.0)
    try:
        _upgrade(db, path)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        # Pages that are free are not written once more only to be blank, as some builds of SQLite would by default.
        db.execute("PRAGMA secure_delete = FAST")
        db.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        db.execute("PRAGMA journal_size_limit = 67108864")
    except BaseException:
        db.close()
        raise
    return db


def _upgrade(db: sqlite3.Connection, path: Path) -> None:
    """Bring the file to this version's schema, all steps in one transaction."""
    (version,) = db.execute("PRAGMA user_version").fetchone()
    (application,) = db.execute("PRAGMA application_id").fetchone()
    if version > SCHEMA_VERSION:
        raise UnusableFileError(
            f"{path} was written by a newer Fairway (schema {version}, this one knows {SCHEMA_VERSION}); "
            "upgrade Fairway, or restore a backup made before the upgrade"
        )
    is_empty = db.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    if application != _APPLICATION_ID and not (is_empty and version == 0):
        raise UnusableFileError(f"{path} is a database of another program; give `--state` another directory")
    if version == SCHEMA_VERSION:
        return
    db.execute("PRAGMA page_size = 8192")
    db.execute("BEGIN IMMEDIATE")
    try:
        for step in _MIGRATIONS[version:]:
            step(db)
        db.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _explained(error: sqlite3.Error, path: Path) -> str:
    text = str(error)
    if "full" in text:
        return f"the disk that holds {path} is full; nothing was written. Free some space and try again."
    if "readonly" in text:
        return (
            f"{path} cannot be written to (read-only file or disk); nothing was written. Make it writable, try again."
        )
    return f"{path} could not be written to ({text}); nothing was written. Try again; check the disk if it persists."
