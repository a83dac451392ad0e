"""A process that dies right before one of its statements: an upgrade, a first start, a batch is whole or not there.

The process forks, and each child kills itself one statement later than the one before, until one gets to the end.
"""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from fairway.store.log import Batch, Row
from fairway.store.sqlite import SCHEMA_VERSION, SqliteLog

DIE_EVERYWHERE = """
import os, shutil, signal, sqlite3, sys
from pathlib import Path
from fairway.store import sqlite
from fairway.store.log import Batch, Row

template, target, work = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
connect = sqlite3.connect

def row(revision):
    return Row(revision, "boats", "harbour", f"boat-{revision}", False, b"x" * 1000)

def run(statements):
    '''Do the work, and die before a statement.'''
    def count(_statement):
        nonlocal statements
        statements -= 1
        if statements == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    def watched(*arguments, **options):
        db = connect(*arguments, **options)
        if work == "open":
            db.set_trace_callback(count)
        return db
    sqlite.sqlite3.connect = watched
    log = sqlite.SqliteLog(target)
    if work == "append":
        log._db.set_trace_callback(count)
        log.append(Batch([row(revision) for revision in range(1201, 1401)], list(range(1, 1101)), 1100))
    os._exit(0)

for statements in range(1, 100):
    target.unlink(missing_ok=True)
    for left in target.parent.glob(target.name + "-*"):
        left.unlink()
    if template.exists():
        shutil.copy(template, target)
    child = os.fork()
    if child == 0:
        run(statements)
    _, status = os.waitpid(child, 0)
    print("killed" if os.WIFSIGNALED(status) else "done", flush=True)
    if not os.WIFSIGNALED(status):
        break
    assert sys.stdin.readline() == "next\\n"
"""


def row(revision: int) -> Row:
    return Row(revision, "boats", "harbour", f"boat-{revision}", deleted=False, data=b"x" * 1000)


def deaths(template: Path, target: Path, work: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(  # noqa: S603 - this interpreter
        [sys.executable, "-c", DIE_EVERYWHERE, str(template), str(target), work],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def contents(path: Path) -> tuple[int, int, list[int]]:
    """Floor, last revision, and the revisions that are there, after a look at whether the file is sound."""
    log = SqliteLog(path)
    try:
        rows = list(log.rows())
        assert rows == [row(one.revision) for one in rows]
        return log.floor(), log.last(), [one.revision for one in rows]
    finally:
        log.close()


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return int(db.execute("PRAGMA user_version").fetchone()[0])


def first_version(path: Path) -> None:
    with closing(sqlite3.connect(path)) as db:
        db.executescript(
            """
            PRAGMA application_id = 0x46574159;
            PRAGMA user_version = 1;
            CREATE TABLE revisions (revision INTEGER PRIMARY KEY, resource TEXT NOT NULL, namespace TEXT NOT NULL,
                name TEXT NOT NULL, deleted INTEGER NOT NULL, data BLOB NOT NULL);
            PRAGMA journal_mode = WAL;
            """
        )
        db.executemany("INSERT INTO revisions VALUES (?, ?, ?, ?, ?, ?)", [row(one) for one in range(1, 101)])
        db.commit()


@pytest.mark.parametrize("start", ["an upgrade", "a first start"])
def test_a_file_opens_wherever_its_opening_was_cut_off(tmp_path: Path, start: str) -> None:
    template, target = tmp_path / "template.db", tmp_path / "fairway.db"
    if start == "an upgrade":
        first_version(template)
    want = (0, 100, list(range(1, 101))) if start == "an upgrade" else (0, 0, [])
    versions = []
    with deaths(template, target, "open") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        while process.stdout.readline() == "killed\n":
            versions.append(version(target))
            assert contents(target) == want
            process.stdin.write("next\n")
            process.stdin.flush()
        process.stdin.close()
    assert process.returncode == 0
    assert len(versions) >= 10
    assert set(versions) == {1 if start == "an upgrade" else 0, SCHEMA_VERSION}  # never one of its steps alone
    assert versions == sorted(versions)


def test_a_batch_is_whole_or_not_there_wherever_it_was_cut_off(tmp_path: Path) -> None:
    template, target = tmp_path / "template.db", tmp_path / "fairway.db"
    log = SqliteLog(template)
    log.append(Batch([row(revision) for revision in range(1, 1201)]))
    log.close()
    before, after = (0, 1200, list(range(1, 1201))), (1100, 1400, list(range(1101, 1401)))
    outcomes = []
    with deaths(template, target, "append") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        while process.stdout.readline() == "killed\n":
            outcomes.append(contents(target))
            assert version(target) == SCHEMA_VERSION
            process.stdin.write("next\n")
            process.stdin.flush()
        process.stdin.close()
    assert process.returncode == 0
    assert len(outcomes) > 10
    assert [one for one in outcomes if one != before] == []
    assert contents(target) == after
