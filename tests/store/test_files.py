"""The file: how it is opened, which files are refused, upgrades in place, and copies."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from fairway.errors import StorageFailed
from fairway.store.log import Batch, Row, UnusableFileError
from fairway.store.sqlite import SCHEMA_VERSION, SqliteLog, back_up
from fairway.store.store import Store

APPLICATION = 0x46574159


def row(revision: int) -> Row:
    data = json.dumps({"metadata": {"name": f"boat-{revision}"}, "load": "x" * 2000}).encode()
    return Row(revision, "boats", "harbour", f"boat-{revision}", deleted=False, data=data)


def written(path: Path, count: int = 200) -> Path:
    """A log's file with something in it, closed properly."""
    log = SqliteLog(path)
    log.append(Batch([row(revision) for revision in range(1, count + 1)]))
    log.close()
    return path


def answered(path: Path, query: str) -> object:
    with closing(sqlite3.connect(path)) as db:
        (value,) = db.execute(query).fetchone()
        return value


def version_one(path: Path, count: int = 50) -> Path:
    """A file as the first version left it: the revisions, and nothing that says how far they once went."""
    with closing(sqlite3.connect(path)) as db:
        db.executescript(
            f"""
            PRAGMA application_id = {APPLICATION};
            PRAGMA user_version = 1;
            CREATE TABLE revisions (revision INTEGER PRIMARY KEY, resource TEXT NOT NULL, namespace TEXT NOT NULL,
                name TEXT NOT NULL, deleted INTEGER NOT NULL, data BLOB NOT NULL);
            PRAGMA journal_mode = WAL;
            """
        )
        db.executemany("INSERT INTO revisions VALUES (?, ?, ?, ?, ?, ?)", [row(one) for one in range(1, count + 1)])
        db.commit()
    return path


def test_a_new_file_is_its_owners_alone_and_survives_the_loss_of_power(tmp_path: Path) -> None:
    path = tmp_path / "fairway.db"
    log = SqliteLog(path)
    log.append(Batch([row(1)]))
    try:
        assert {one.stat().st_mode & 0o777 for one in tmp_path.iterdir()} == {0o600}
        assert log._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        assert log._db.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL: every commit reaches the disk
    finally:
        log.close()
    assert answered(path, "PRAGMA application_id") == APPLICATION
    assert answered(path, "PRAGMA user_version") == SCHEMA_VERSION


def test_an_empty_file_is_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "fairway.db").touch()

    assert answered(written(tmp_path / "fairway.db"), "SELECT count(*) FROM revisions") == 200


@pytest.mark.parametrize("name", ["with space.db", "100%.db", "what?.db", "a#b.db", "ünïcode.db", "a;b'c.db"])
def test_a_file_may_be_called_anything(tmp_path: Path, name: str) -> None:
    written(tmp_path / name)
    back_up(tmp_path / name, tmp_path / f"copy of {name}")

    assert [one.name for one in tmp_path.glob("copy*")] == [f"copy of {name}"]
    log = SqliteLog(tmp_path / f"copy of {name}")
    assert log.last() == 200
    log.close()


def with_bytes(at: int, new: bytes) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + new + data[at + len(new) :]


@pytest.mark.parametrize(
    ("spoil", "want"),
    [
        pytest.param(
            with_bytes(60, (99).to_bytes(4, "big")),
            f"was written by a newer Fairway \\(schema 99, this one knows {SCHEMA_VERSION}\\); upgrade Fairway",
            id="a newer schema",
        ),
        pytest.param(
            with_bytes(68, (99).to_bytes(4, "big")), "is a database of another program", id="another program's database"
        ),
        pytest.param(lambda _: b"dear diary\n" * 500, "file is not a database", id="a text"),
        pytest.param(lambda _: b"dear", "file is not a database", id="a short text"),
        pytest.param(lambda data: data[: len(data) // 2], "malformed.*restore a backup", id="half a file"),
        pytest.param(with_bytes(0, bytes(4096)), "not a database.*restore a backup", id="no header"),
        pytest.param(with_bytes(8192, b"\xff" * 8192), "malformed.*restore a backup", id="a damaged first table"),
        pytest.param(with_bytes(16384, b"\xff" * 8192), "malformed.*restore a backup", id="a damaged second table"),
        pytest.param(
            lambda data: data.replace(b'{"metadata": {"name": "boat-7"}', b'\0"metadata": {"name": "boat-7"}'),
            "revision 7 \\(boats harbour/boat-7\\) is damaged.*restore a backup",
            id="a damaged object",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_and_left_as_it_is(
    tmp_path: Path, spoil: Callable[[bytes], bytes], want: str
) -> None:
    path = written(tmp_path / "fairway.db")
    spoiled = spoil(path.read_bytes())
    path.write_bytes(spoiled)

    with pytest.raises(UnusableFileError, match=want):
        open_and_read(path)
    assert path.read_bytes() == spoiled
    assert [one.name for one in tmp_path.iterdir()] == ["fairway.db"]


def open_and_read(path: Path) -> None:
    log = SqliteLog(path)
    try:
        Store(log)
    finally:
        log.close()


def test_another_programs_database_is_not_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "fairway.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE notes (text TEXT)")
    before = path.read_bytes()

    with pytest.raises(UnusableFileError, match="another program; give `--state` another directory"):
        SqliteLog(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("place", "want"),
    [
        pytest.param("missing/fairway.db", "No such file or directory", id="no directory"),
        pytest.param(".", "unable to open database file", id="a directory"),
    ],
)
def test_a_place_for_no_file_is_refused(tmp_path: Path, place: str, want: str) -> None:
    with pytest.raises(UnusableFileError, match=want):
        SqliteLog(tmp_path / place)


def test_a_file_of_the_first_version_is_upgraded_in_place(tmp_path: Path) -> None:
    path = version_one(tmp_path / "fairway.db")
    log = SqliteLog(path)
    assert list(log.rows()) == [row(revision) for revision in range(1, 51)]
    assert (log.floor(), log.last()) == (0, 50)
    log.append(Batch([row(51)], [51, 50], 51))
    log.close()

    assert answered(path, "PRAGMA user_version") == SCHEMA_VERSION
    log = SqliteLog(path)
    assert (log.floor(), log.last(), len(list(log.rows()))) == (51, 51, 49)
    log.close()


def test_an_upgrade_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = version_one(tmp_path / "fairway.db")
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE facts (name TEXT)")  # where the upgrade wants to put its own

    with pytest.raises(UnusableFileError, match="table facts already exists"):
        SqliteLog(path)
    assert answered(path, "PRAGMA user_version") == 1
    assert answered(path, "SELECT count(*) FROM revisions") == 50

    with closing(sqlite3.connect(path)) as db:
        db.execute("DROP TABLE facts")
    log = SqliteLog(path)
    assert log.last() == 50
    log.close()


def test_a_batch_that_breaks_in_the_middle_leaves_nothing(tmp_path: Path) -> None:
    log = SqliteLog(written(tmp_path / "fairway.db", count=100))
    rows = [row(revision) for revision in range(101, 300)]
    taken = row(7)._replace(name="another")
    for batch in (
        Batch([*rows, taken]),  # in the last of several statements
        Batch([row(101), taken]),  # in one statement
        Batch([*rows, taken], [1, 2, 3], 50),
    ):
        with pytest.raises(StorageFailed, match="nothing was written"):
            log.append(batch)
        assert (log.last(), log.floor(), len(list(log.rows()))) == (100, 0, 100)
    log.append(Batch([row(101)]))
    assert log.last() == 101
    log.close()


LIVE = """
import sys
from pathlib import Path
from fairway.store.log import Batch
from fairway.store.sqlite import SqliteLog
sys.path.insert(0, sys.argv[2])
from store.test_files import row
log = SqliteLog(Path(sys.argv[1]))
last = log.last()
for revision in range(last + 1, last + 10_000_000, 3):
    dropped = [revision - 600, revision - 599] if revision > 3000 else []
    log.append(Batch([row(revision), row(revision + 1), row(revision + 2)], dropped, revision - 599 if dropped else 0))
    print(revision + 2, flush=True)
"""


def test_a_copy_of_a_live_log_is_one_moment_of_it(tmp_path: Path) -> None:
    """The writer never pauses: a copy that started again after each of its commits would never end."""
    path = written(tmp_path / "fairway.db", count=5000)
    command = [sys.executable, "-c", LIVE, str(path), str(Path(__file__).parent.parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:  # noqa: S603 - this interpreter
        try:
            assert writer.stdout is not None
            for number in range(4):
                acknowledged = int(writer.stdout.readline())
                back_up(path, tmp_path / f"copy-{number}.db")
                check_copy(tmp_path / f"copy-{number}.db", acknowledged)
        finally:
            writer.kill()


def check_copy(copy: Path, acknowledged: int) -> None:
    assert copy.stat().st_mode & 0o777 == 0o600
    assert answered(copy, "PRAGMA integrity_check") == "ok"
    log = SqliteLog(copy)
    revisions = [one.revision for one in log.rows()]
    last, floor = log.last(), log.floor()
    log.close()
    assert last >= acknowledged
    assert (last - 5000) % 3 == 0  # whole batches
    assert revisions[-1] == last
    kept = [one for one in revisions if one > floor]
    assert kept == list(range(floor + 1, last + 1))  # and every one up to there


def test_a_copy_does_not_overwrite(tmp_path: Path) -> None:
    path = written(tmp_path / "fairway.db")
    (tmp_path / "copy.db").write_text("precious")

    with pytest.raises(StorageFailed, match=r"copy\.db exists already; choose another name"):
        back_up(path, tmp_path / "copy.db")
    assert (tmp_path / "copy.db").read_text() == "precious"


@pytest.mark.parametrize(
    ("source", "target", "want"),
    [
        pytest.param("missing.db", "copy.db", "there is no state to copy: .*missing.db does not exist", id="no source"),
        pytest.param("fairway.db", "missing/copy.db", "copy.db cannot be written: No such file", id="no place"),
        pytest.param("diary.txt", "copy.db", "the copy to .*copy.db failed and was removed: file is not", id="no log"),
    ],
)
def test_a_copy_that_cannot_be_made_says_why_and_leaves_nothing(
    tmp_path: Path, source: str, target: str, want: str
) -> None:
    written(tmp_path / "fairway.db")
    (tmp_path / "diary.txt").write_text("dear diary\n" * 100)

    with pytest.raises(StorageFailed, match=want):
        back_up(tmp_path / source, tmp_path / target)
    assert not (tmp_path / target).exists()
