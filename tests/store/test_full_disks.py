"""Disks that are full and files that cannot be written: a clear answer, nothing half done, and back to work after.

The failures are real: SQLite's own limit on pages, the operating system's limit on a file's size, files without the
permission to write. Only root needs telling to be nobody.
"""

import asyncio
import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from fairway.errors import StorageFailed
from fairway.store.log import Batch
from fairway.store.sqlite import SqliteLog, UnusableFileError
from fairway.store.store import History, Store
from fairway.testing.stores import local_api, log_on_a_file

from .harbour import BOATS, CREWS, boat, load_of, put, remove, running, there, told

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
    told = subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-c", GROW, str(path)], check=True, capture_output=True, text=True
    )
    import json

    answer = json.loads(told.stdout)
    assert f"{path} could not be written to (disk I/O error); nothing was written." in answer["message"]
    assert 0 < len(answer["kept"]) < 100

    async def again() -> None:
        async with running(log_on_a_file(path)) as store:
            assert set(there(store)) == {*map(str, answer["kept"]), "after"}

    asyncio.run(again())
    assert is_sound(path)
