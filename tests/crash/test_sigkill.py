"""A server that is killed again and again while many write: what was acknowledged is there, and nothing by halves.

Each writer knows, for each of its objects, the last state that was acknowledged and the change, if any, whose answer
never came. After every crash each object must be in one of these two states.
"""

import hashlib
import http.client
import json
import random
import sqlite3
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fairway.testing.servers import Server

CRASHES = 10
WRITERS = 4
BASE = "/api/v1/namespaces/default/configmaps"
GONE: Any = None


def filled(name: str, number: int) -> dict[str, str]:
    """Content that tells by itself whether it is whole."""
    text = f"{name} {number} " * (number * 37 % 200 + 1)
    return {"text": text, "sum": hashlib.sha256(text.encode()).hexdigest()}


def is_whole(data: dict[str, str]) -> bool:
    return hashlib.sha256(data["text"].encode()).hexdigest() == data["sum"]


@dataclass
class Writer:
    """One client, with all that it knows of its objects."""

    name: str
    known: dict[str, tuple[int, dict[str, str]] | None] = field(default_factory=dict)
    """The acknowledged revision and content of each object; `GONE` if its deletion was acknowledged."""

    unanswered: dict[str, dict[str, str] | None] = field(default_factory=dict)
    """What an object would be if the last request, whose answer never came, was carried out."""

    highest: int = 0
    answered: int = 0
    went_back: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    _number: int = 0

    def write_until_it_breaks(self, server: Server) -> None:
        """Create, update and delete, one after the other, until the connection ends."""
        place = urlsplit(server.url)
        line = http.client.HTTPSConnection(place.hostname or "", place.port, context=server.tls(), timeout=30)
        headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
        try:
            while True:
                self._number += 1
                self._write(line, headers)
        except (OSError, http.client.HTTPException):
            return
        finally:
            line.close()

    def _write(self, line: http.client.HTTPSConnection, headers: dict[str, str]) -> None:
        living = [name for name, state in self.known.items() if state is not GONE and name not in self.unanswered]
        choice = self._number % 4
        if choice in {0, 1} or not living:
            name = f"{self.name}-{self._number}"
            content = filled(name, self._number)
            self._ask(line, headers, "POST", BASE, name, content)
        elif choice == 2:
            name = living[self._number % len(living)]
            content = filled(name, self._number)
            self._ask(line, headers, "PUT", f"{BASE}/{name}", name, content)
        else:
            name = living[self._number % len(living)]
            self._ask(line, headers, "DELETE", f"{BASE}/{name}", name, GONE)

    def _ask(
        self,
        line: http.client.HTTPSConnection,
        headers: dict[str, str],
        method: str,
        path: str,
        name: str,
        content: dict[str, str] | None,
    ) -> None:
        body = json.dumps({"metadata": {"name": name}, "data": content}) if content is not GONE else None
        self.unanswered[name] = content
        line.request(method, path, body, headers)
        answer = line.getresponse()
        told = json.loads(answer.read())
        del self.unanswered[name]
        if answer.status not in {200, 201}:
            self.refused.append(f"{method} {path}: {told}")
            return
        self.answered += 1
        if content is None:
            self.known[name] = GONE
            return
        revision = int(told["metadata"]["resourceVersion"])
        if revision <= self.highest:
            self.went_back.append(f"{name}: {revision} after {self.highest}")
        self.highest = revision
        self.known[name] = (revision, content)


def under_load(server: Server, writers: list[Writer], seconds: float) -> None:
    """Let everybody write for a while, then kill the server under them."""
    threads = [threading.Thread(target=one.write_until_it_breaks, args=(server,)) for one in writers]
    for thread in threads:
        thread.start()
    time.sleep(seconds)  # how far they get is up to chance, and meant to be
    server.kill()
    for thread in threads:
        thread.join()


def stored(server: Server) -> dict[str, tuple[int, dict[str, str]]]:
    answer = server.call("GET", BASE)
    assert answer.code == 200
    return {
        item["metadata"]["name"]: (int(item["metadata"]["resourceVersion"]), item["data"])
        for item in answer.body["items"]
    }


def compare(writer: Writer, there: dict[str, tuple[int, dict[str, str]]]) -> None:
    """Hold what a writer was told against what is there; what turned out of the unanswered is known from now on."""
    for name in {*writer.known, *writer.unanswered}:
        found = there.get(name)
        acknowledged = writer.known.get(name, GONE)
        if found == acknowledged:
            writer.known[name] = found
            continue
        assert name in writer.unanswered, f"{name} was acknowledged as {acknowledged}, but is {found}"
        meant = writer.unanswered[name]
        assert (found[1] if found else GONE) == meant, f"{name} is neither what it was nor what it was to become"
        writer.known[name] = found
    writer.unanswered.clear()


def test_what_was_acknowledged_survives_one_crash_after_the_other(tmp_path: Path) -> None:
    chance = random.Random(20261116)  # noqa: S311 - the same moments every time
    writers = [Writer(f"w{number}") for number in range(WRITERS)]
    server = Server(tmp_path / "state").start()
    try:
        for crash in range(CRASHES):
            under_load(server, writers, 0.2 + 0.5 * chance.random())
            server.start()
            there = stored(server)
            assert all(is_whole(content) for _, content in there.values())
            for writer in writers:
                compare(writer, there)
                assert (writer.went_back, writer.refused) == ([], [])
            highest = max(writer.highest for writer in writers)
            fresh = server.call("POST", BASE, {"metadata": {"name": f"after-{crash}"}, "data": filled("after", crash)})
            assert int(fresh.body["metadata"]["resourceVersion"]) > highest
            follow(server, highest)
            for writer in writers:
                writer.highest = int(fresh.body["metadata"]["resourceVersion"])
        assert sum(writer.answered for writer in writers) > 20 * CRASHES
    finally:
        server.kill()
    with sqlite3.connect(tmp_path / "state" / "fairway.db") as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    db.close()


def follow(server: Server, since: int) -> None:
    """A watch that was cut off goes on where it was: after the last revision it saw, in order, nothing twice."""
    place = urlsplit(server.url)
    line = http.client.HTTPSConnection(place.hostname or "", place.port, context=server.tls(), timeout=30)
    line.request(
        "GET",
        f"{BASE}?watch=true&resourceVersion={since}&timeoutSeconds=1",
        headers={"Authorization": f"Bearer {server.token}"},
    )
    answer = line.getresponse()
    revisions = [
        int(json.loads(event)["object"]["metadata"]["resourceVersion"]) for event in answer.read().splitlines()
    ]
    line.close()
    assert answer.status == 200
    assert revisions
    assert revisions == sorted(set(revisions))
    assert revisions[0] > since
