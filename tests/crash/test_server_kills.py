"""The server is killed again and again while clients write: what it had acknowledged is there when it comes back.

FAIRWAY_KILLS=200 pytest tests/crash    # for longer than the test suite has time
"""

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tarfile
from contextlib import closing
from pathlib import Path

import pytest

from fairway.store.sqlite import SqliteLog
from fairway.store.store import Store
from fairway.testing.servers import DidNotStart, Server

from .load import CONFIGS, Author, Follower, Promises, State, check, digest, digest_of, found

KILLS = int(os.environ.get("FAIRWAY_KILLS", "10"))
AUTHORS = 6


def assert_sound(state: Path, workshop: Path) -> None:
    """Look at a copy of what the dead server left behind; a look at the files themselves would tidy them up."""
    workshop.mkdir()
    for file in state.glob("fairway.db*"):
        shutil.copy(file, workshop / file.name)
    with closing(sqlite3.connect(workshop / "fairway.db")) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    shutil.rmtree(workshop)


def test_whatever_was_acknowledged_survives_every_kill(tmp_path: Path) -> None:
    chance = random.Random(4)  # noqa: S311 - the same moments every time, as far as counts make them
    server = Server(tmp_path / "state", "--insecure")
    promises, follower = Promises(), Follower()
    authors = [Author(f"author-{number}", promises) for number in range(AUTHORS)]
    highest = 0
    try:
        for _ in range(KILLS):
            server.start()
            revision = check(server, authors, promises)
            assert revision >= highest, "revisions went back"
            follower.start(server, revision)
            for author in authors:
                author.start(server)
            promises.wait_for(len(promises.log) + chance.randint(20, 300))
            server.kill()
            for author in authors:
                author.join()
            follower.join()
            assert (promises.wrong, follower.wrong) == ([], [])
            assert_sound(server.state, tmp_path / "workshop")
            highest = max(revision, promises.last_revision)
        server.start()
        revision = check(server, authors, promises)
        check_new_revisions(server, max(revision, highest))
        follower.start(server, 0)
        check_follower(server, follower, promises)
    finally:
        server.kill()
        follower.join()


def check_new_revisions(server: Server, highest: int) -> None:
    """New writes get revisions that nobody has seen before."""
    new = {"metadata": {"name": "new"}, "data": {"text": "new", "digest": digest("new")}}
    assert int(server.call("POST", CONFIGS, new).body["metadata"]["resourceVersion"]) > highest


def check_follower(server: Server, follower: Follower, promises: Promises) -> None:
    """Through all the crashes it saw everything once, and believes in what is there."""
    revision, states = found(server)
    follower.wait_for(revision)
    assert follower.state() == {name: (state.revision, state.digest) for name, state in states.items()}
    seen = {(name, content): at for at, kind, name, content in follower.events if kind != "DELETED"}
    for at, name, content in promises.log:
        if content:
            assert seen[name, content] == at, f"{name} at {at} was acknowledged, and never seen"


def test_a_copy_made_under_load_is_one_moment_of_the_server(tmp_path: Path) -> None:
    promises = Promises()
    authors = [Author(f"author-{number}", promises) for number in range(AUTHORS)]
    follower = Follower()
    with Server(tmp_path / "state", "--insecure") as server:
        follower.start(server, check(server, authors, promises))
        for author in authors:
            author.start(server)
        copies = []
        for number in range(3):
            promises.wait_for(len(promises.log) + 100)
            acknowledged = promises.last_revision
            back_up_from_elsewhere(server.state, tmp_path / f"copy-{number}.tar")
            copies.append((database_of(tmp_path / f"copy-{number}.tar"), acknowledged))
        for author in authors:
            author.stop()
        follower.wait_for(found(server)[0])
        server.kill()
        follower.join()
    assert promises.wrong == []
    for copy, acknowledged in copies:
        check_copy(copy, acknowledged, follower)


def back_up_from_elsewhere(state: Path, target: Path) -> None:
    subprocess.run(  # noqa: S603 - this interpreter
        [sys.executable, "-m", "fairway.cli.main", "backup", str(target), "--state", str(state)], check=True,
        capture_output=True,
    )  # fmt: skip


def database_of(backup: Path) -> Path:
    """The database in a backup, unpacked beside it."""
    with tarfile.open(backup) as archive:
        archive.extract("fairway.db", backup.with_suffix(""), filter="data")
    return backup.with_suffix("") / "fairway.db"


def check_copy(copy: Path, acknowledged: int, follower: Follower) -> None:
    """It holds what there was at its own revision, neither more nor less, and all that was acknowledged before."""
    log = SqliteLog(copy)
    try:
        store = Store(log)
    finally:
        log.close()
    assert store.revision >= acknowledged
    states: dict[str, State] = {}
    for revision, kind, name, content in follower.events:
        if revision <= store.revision:
            states.pop(name, None)
            if kind != "DELETED":
                states[name] = State(revision, content)
    entries = store.collection("configmaps").entries
    copied = {key[1]: State(entry.revision, digest_of(json.loads(entry.data))) for key, entry in entries.items()}
    assert copied == states


@pytest.mark.parametrize(
    ("spoil", "want"),
    [
        pytest.param("PRAGMA user_version = 99", "was written by a newer Fairway (schema 99", id="a newer schema"),
        pytest.param("PRAGMA application_id = 7", "is a database of another program", id="another program's"),
        pytest.param("", "file is not a database", id="no database"),
    ],
)
def test_a_server_that_cannot_use_the_file_says_so_and_leaves_it(tmp_path: Path, spoil: str, want: str) -> None:
    database = tmp_path / "state" / "fairway.db"
    database.parent.mkdir(mode=0o700)
    SqliteLog(database).close()
    if spoil:
        with closing(sqlite3.connect(database)) as db:
            db.execute(spoil)
    else:
        database.write_text("dear diary\n" * 100)
    before = database.read_bytes()

    with pytest.raises(DidNotStart) as refusal:
        Server(tmp_path / "state", "--insecure").start()
    assert f"error: {database}" in str(refusal.value)
    assert want in str(refusal.value)
    assert "Traceback" not in str(refusal.value)
    assert database.read_bytes() == before
