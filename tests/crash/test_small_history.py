"""A writer that forgets all the time, killed again and again: neither what was forgotten nor what was deleted is back.

The process runs the verbs on a store that remembers very little, so that almost every commit also drops rows. It says
what was acknowledged on its standard output, which outlives it.
"""

import hashlib
import json
import os
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from fairway.store.sqlite import SqliteLog
from fairway.store.store import Store

KILLS = int(os.environ.get("FAIRWAY_KILLS", "10"))

WRITER = """
import asyncio, hashlib, os, random, sys
from datetime import UTC, datetime
from pathlib import Path
from fairway.errors import ApiError
from fairway.apis.registry import default_registry
from fairway.store.gc import NamespaceKeeper
from fairway.store.verbs import Objects
from fairway.store.verbs.reading import decoded
from fairway.store.sqlite import SqliteLog
from fairway.store.store import History, Store

chance = random.Random(sys.argv[2])

async def write(objects, kind, name):
    entry = objects.store.get("configmaps", ("default", name))
    text = chance.randbytes(chance.choice([10, 3000])).hex()
    manifest = {"metadata": {"name": name}, "data": {"text": text, "digest": hashlib.sha256(text.encode()).hexdigest()}}
    if entry is None:
        written = await objects.create(kind, "v1", "default", manifest)
    elif chance.random() < 0.4:
        written = await objects.delete(kind, ("default", name))
    else:
        written = await objects.update(kind, "v1", ("default", name), manifest)
    digest = "" if written.removed else manifest["data"]["digest"]
    os.write(1, f"{written.entry.revision} {name} {digest}\\n".encode())

async def main():
    store = Store(SqliteLog(Path(sys.argv[1])), History(changes=20))
    await store.start()
    objects = Objects(store, default_registry(), lambda: datetime.now(UTC))
    await NamespaceKeeper(objects).make_defaults()
    kind = objects.registry.by_kind("", "ConfigMap")
    os.write(1, b"ready\\n")
    async def author(number):
        while True:
            await write(objects, kind, f"c-{number}-{chance.randrange(3)}")
    await asyncio.gather(*(author(number) for number in range(12)))

asyncio.run(main())
"""


@dataclass
class Known:
    """What was acknowledged of all objects, through all lives of the writer."""

    states: dict[str, tuple[int, str]] = field(default_factory=dict)
    """Revision and digest by name, the newest; no digest once it is deleted."""

    highest: int = 0

    def note(self, line: str) -> None:
        revision, name, digest = line.split(" ")
        assert int(revision) > self.states.get(name, (0, ""))[0], "revisions went back"
        self.states[name] = (int(revision), digest)
        self.highest = max(self.highest, int(revision))


def one_life(path: Path, seed: int, acknowledgements: int, known: Known) -> None:
    """Start the writer, take what it says, kill it after so many lines, take what it had said by then."""
    command = [sys.executable, "-c", WRITER, str(path), str(seed)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:  # noqa: S603 - this interpreter
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        lines = [writer.stdout.readline() for _ in range(acknowledgements)]
        writer.kill()
        lines += writer.stdout.readlines()
    for line in lines:
        if line.endswith("\n"):
            known.note(line.rstrip("\n"))


def check(path: Path, known: Known) -> None:
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    log = SqliteLog(path)
    store = Store(log)
    floor, rows = log.floor(), [row.revision for row in log.rows()]
    log.close()
    assert store.revision >= known.highest, "revisions went back"
    assert floor > 0
    assert sum(revision <= floor for revision in rows) <= 36 + 4  # one row for what lives, none for what is gone
    found = {}
    for key, entry in store.collection("configmaps").entries.items():
        data = json.loads(entry.data)["data"]
        assert hashlib.sha256(data["text"].encode()).hexdigest() == data["digest"], "half a write"
        found[key[1]] = (entry.revision, data["digest"])
    later = {change.entry.name: change.revision for change in store.watch("configmaps", floor).ready()}
    for name, (revision, digest) in known.states.items():
        if later.get(name, 0) > revision:
            continue  # written once more, without an answer
        assert found.get(name) == ((revision, digest) if digest else None), f"{name} was acknowledged at {revision}"
    unknown = {name: state for name, state in found.items() if state[0] != later.get(name) and name not in known.states}
    assert unknown == {}
    known.states = {**dict.fromkeys(known.states, (store.revision, "")), **found}
    known.highest = store.revision


def test_what_was_acknowledged_survives_although_most_of_the_past_is_forgotten(tmp_path: Path) -> None:
    chance, known = random.Random(7), Known()  # noqa: S311 - the same load every time
    for life in range(KILLS):
        one_life(tmp_path / "fairway.db", life, chance.randint(100, 1500), known)
        check(tmp_path / "fairway.db", known)
