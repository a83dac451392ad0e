"""Disks that are full and files that cannot be written: a clear answer, nothing half done, and back to work after.

The failures are real: SQLite's own limit on pages, its refusal to write, the system's limit on a file's size, and files
that may not be written (where the tests run as root, by a process that has become nobody).
"""

import asyncio
import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fairway.errors import StorageFailed
from fairway.store.log import Batch, Row
from fairway.store.sqlite import SqliteLog
from fairway.store.store import History
from fairway.testing.stores import local_api, log_on_a_file

from .harbour import BOATS, boat, put, remove, running, there, told

LARGE = "x" * 100_000


def is_sound(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as db:
        return bool(db.execute("PRAGMA integrity_check").fetchone() == ("ok",))


def fill(log: SqliteLog) -> Callable[[], None]:
    """No page more than there are; the way back."""
    (pages,) = log._db.execute("PRAGMA page_count").fetchone()
    log._db.execute(f"PRAGMA max_page_count = {pages}")

    def make_room() -> None:
        log._db.execute("PRAGMA max_page_count = 1073741823")

    return make_room


def lock_up(log: SqliteLog) -> Callable[[], None]:
    """Nothing may be written; the way back."""
    log._db.execute("PRAGMA query_only = ON")

    def unlock() -> None:
        log._db.execute("PRAGMA query_only = OFF")

    return unlock


@pytest.mark.parametrize(
    ("break_it", "want_message"),
    [
        pytest.param(fill, "the disk that holds .*fairway.db is full; nothing was written. Free some space", id="full"),
        pytest.param(lock_up, "fairway.db cannot be written to \\(read-only .*Make it writable", id="read-only"),
    ],
)
def test_every_staged_write_fails_clearly_and_later_ones_succeed(
    tmp_path: Path, break_it: Callable[[SqliteLog], Callable[[], None]], want_message: str
) -> None:
    path = tmp_path / "fairway.db"

    async def story() -> None:
        log = SqliteLog(path)
        async with running(lambda: log) as store:
            await put(store, "arc", 1)
            watch = store.watch(BOATS, store.revision)
            repair = break_it(log)
            failed = [put(store, "arc", LARGE), put(store, "bark", LARGE), remove(store, "arc"), put(store, "c", 1)]
            for outcome in await asyncio.gather(*failed, return_exceptions=True):
                assert isinstance(outcome, StorageFailed)
                assert outcome.code == 500
                with pytest.raises(StorageFailed, match=want_message):
                    raise outcome
            assert there(store) == {"arc": 1}
            assert store.head(BOATS, boat("bark")) is None
            assert watch.ready() == []

            repair()
            await put(store, "bark", LARGE)
            assert told(watch.ready()) == [("ADDED", "bark", LARGE, store.revision)]

    async def again() -> None:
        async with running(log_on_a_file(path)) as store:
            assert there(store) == {"arc": 1, "bark": LARGE}

    asyncio.run(story())
    assert is_sound(path)
    asyncio.run(again())


def test_a_full_disk_keeps_forgetting_in_step_with_what_is_there(tmp_path: Path) -> None:
    """History is dropped in the same commits that fail here, some with many rows, some with few."""
    path = tmp_path / "fairway.db"
    history = History(changes=5)

    async def story() -> dict[str, object]:
        log = SqliteLog(path)
        async with running(lambda: log, history) as store:
            for round_ in range(6):
                make_room = fill(log)
                for number in range(8):
                    name = f"boat-{number % 3}"
                    known = store.get(BOATS, boat(name)) is not None
                    work = remove(store, name) if known and number % 4 == 3 else put(store, name, LARGE + str(number))
                    await asyncio.gather(work, return_exceptions=True)
                make_room()
                await asyncio.gather(*(put(store, f"boat-{number % 3}", round_) for number in range(100)))
                await remove(store, f"boat-{round_ % 3}")
            return there(store)

    async def again() -> dict[str, object]:
        async with running(log_on_a_file(path), history) as store:
            return there(store)

    expected = asyncio.run(story())
    assert asyncio.run(again()) == expected
    assert is_sound(path)


def test_a_create_on_a_full_disk_is_refused_and_can_be_tried_again(tmp_path: Path) -> None:
    async def story() -> None:
        log = SqliteLog(tmp_path / "fairway.db")
        async with local_api(lambda: log) as api:
            make_room = fill(log)
            manifest = {"metadata": {"name": "big"}, "data": {"a": LARGE}}
            with pytest.raises(StorageFailed, match="is full"):
                await api.create("configmaps", {**manifest, "metadata": {"name": "big"}})
            assert api.get("configmaps", "big") is None
            make_room()
            await api.create("configmaps", manifest)
            assert api.names("configmaps") == {"big"}

    asyncio.run(story())


GROW = """
import asyncio, json, resource, sys
from pathlib import Path
from fairway.errors import StorageFailed
from fairway.store.entries import ADDED, Change, Entry
from fairway.store.sqlite import SqliteLog
from fairway.store.store import Store

async def grow() -> None:
    store = Store(SqliteLog(Path(sys.argv[1])))
    await store.start()
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))
    kept = []
    for number in range(100):
        data = json.dumps({"metadata": {"name": str(number)}, "load": "x" * 50_000}).encode()
        entry = Entry("boats", ("harbour", str(number)), store.next_revision, data)
        try:
            await store.stage([Change(ADDED, entry, None)])
        except StorageFailed as error:
            message = str(error)
            break
        kept.append(number)
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    entry = Entry("boats", ("harbour", "after"), store.next_revision, b'{"metadata": {}, "load": 1}')
    await store.stage([Change(ADDED, entry, None)])
    await store.close()
    print(json.dumps({"kept": kept, "message": message}))

asyncio.run(grow())
"""


def test_a_file_that_may_not_grow_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "fairway.db"
    ended = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", GROW, str(path)], check=True, capture_output=True, text=True
    )
    answer = json.loads(ended.stdout)
    assert f"{path} could not be written to (disk I/O error); nothing was written." in answer["message"]
    assert 0 < len(answer["kept"]) < 100

    async def again() -> None:
        async with running(log_on_a_file(path)) as store:
            assert set(there(store)) == {*map(str, answer["kept"]), "after"}

    asyncio.run(again())
    assert is_sound(path)


WRITE_AS_NOBODY = """
import os, sys
from pathlib import Path
from fairway.errors import FairwayError
from fairway.store.log import Batch, Row
from fairway.store.sqlite import SqliteLog

if os.getuid() == 0:
    os.setuid(65534)
try:
    log = SqliteLog(Path(sys.argv[1]))
    log.append(Batch([Row(log.last() + 1, "boats", "harbour", "late", False, b"{}")]))
except FairwayError as error:
    print(type(error).__name__, error)
"""


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """A directory that everybody can reach, unlike pytest's own."""
    with TemporaryDirectory() as name:
        directory = Path(name)
        directory.chmod(0o755)
        yield directory


@pytest.mark.parametrize(
    ("mode", "directory_mode", "want"),
    [
        pytest.param(0o444, 0o555, "UnusableFileError .*fairway.db: ", id="neither the file nor its directory"),
        pytest.param(0o666, 0o555, "UnusableFileError .*fairway.db: ", id="not the directory"),
        pytest.param(0o600, 0o755, "UnusableFileError .*fairway.db: Permission denied", id="somebody else's file"),
    ],
)
def test_a_file_that_may_not_be_written_is_refused_and_left_as_it_is(
    open_directory: Path, mode: int, directory_mode: int, want: str
) -> None:
    path = open_directory / "fairway.db"
    log = SqliteLog(path)
    log.append(Batch([Row(1, "boats", "harbour", "arc", deleted=False, data=b"{}")]))
    log.close()
    before = path.read_bytes()
    path.chmod(mode)
    open_directory.chmod(directory_mode)
    try:
        ended = subprocess.run(  # noqa: S603 - this interpreter
            [sys.executable, "-c", WRITE_AS_NOBODY, str(path)], check=True, capture_output=True, text=True
        )
    finally:
        open_directory.chmod(0o755)
    assert re.match(want, ended.stdout)
    assert path.read_bytes() == before
    assert is_sound(path)
