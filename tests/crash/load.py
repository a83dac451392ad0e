"""Clients that write as fast as they are answered, and remember exactly what they were promised.

Every object carries the digest of its content. Every author has objects of its own, so that it knows of each what was
acknowledged last and, when the server dies, which one write is in doubt.
"""

import hashlib
import http.client
import json
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from fairway.testing.servers import Server

CONFIGS: Final = "/api/v1/namespaces/default/configmaps"
PATIENCE_SECONDS: Final = 30.0
LOST: Final = (OSError, http.client.HTTPException)
"""What a client meets when its server dies."""


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def digest_of(manifest: dict[str, Any]) -> str:
    """An object's digest, after a look at whether it is whole."""
    data = manifest["data"]
    assert digest(data["text"]) == data["digest"], f"half a write: {manifest['metadata']}"
    return str(data["digest"])


@dataclass(frozen=True)
class State:
    """An object at a revision."""

    revision: int
    digest: str
    """Empty once it is deleted."""


@dataclass
class Ledger:
    """One object, as its author knows it."""

    known: State = State(0, "")
    """What was acknowledged last."""

    doubt: str | None = None
    """The digest of a write that was sent and never answered; empty for a deletion."""

    def check(self, found: State | None) -> None:
        """Whether what is there is what was acknowledged, or the one write in doubt."""
        if found is None:
            assert not self.known.digest or self.doubt == "", f"lost: {self.known}"
        elif found.digest == self.known.digest and found.revision == self.known.revision:
            return
        else:
            assert self.doubt is not None, f"{found} is nobody's; {self.known} was acknowledged"
            assert found.digest == self.doubt, f"{found} was never sent; {self.known} was acknowledged"
            assert found.revision > self.known.revision

    def resolve(self, found: State | None) -> None:
        """The doubt is over."""
        if found is not None:
            self.known = found
        elif self.known.digest:
            self.known = State(self.known.revision, "")
        self.doubt = None


@dataclass
class Promises:
    """All that was acknowledged, in the order of its arrival."""

    log: list[tuple[int, str, str]] = field(default_factory=list)
    """Revision, name, digest; the digest is empty for a deletion."""

    wrong: list[str] = field(default_factory=list)
    """Answers that should not have been given."""

    _more: threading.Condition = field(default_factory=threading.Condition)

    def add(self, revision: int, name: str, content: str) -> None:
        with self._more:
            self.log.append((revision, name, content))
            self._more.notify_all()

    def wait_for(self, count: int) -> None:
        """Until there are so many."""
        with self._more:
            assert self._more.wait_for(lambda: len(self.log) >= count or self.wrong, PATIENCE_SECONDS), "no progress"
        assert self.wrong == []

    @property
    def last_revision(self) -> int:
        return max((revision for revision, _, _ in self.log), default=0)

    def states(self, revision: int) -> dict[str, str]:
        """What there must be at a revision, if nothing is in doubt: digests by name."""
        state: dict[str, str] = {}
        for _, name, content in sorted(one for one in self.log if one[0] <= revision):
            if content:
                state[name] = content
            else:
                del state[name]
        return state


class Connection:
    """A client's line to a server; every call but the first saves the greeting."""

    def __init__(self, server: Server) -> None:
        self._http = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=PATIENCE_SECONDS)
        self._headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}

    def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        self._http.request(method, path, None if body is None else json.dumps(body), self._headers)
        response = self._http.getresponse()
        return response.status, json.loads(response.read())

    def close(self) -> None:
        self._http.close()


class Author:
    """Creates, changes and deletes its own objects until the server is gone or it is told to stop."""

    def __init__(self, name: str, promises: Promises) -> None:
        self.ledgers = {f"{name}-{number}": Ledger() for number in range(8)}
        self._promises = promises
        self._random = random.Random(name)  # noqa: S311 - the same load every time
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, server: Server) -> None:
        self._stopped.clear()
        self._thread = threading.Thread(target=self._run, args=(Connection(server),))
        self._thread.start()

    def stop(self) -> None:
        """Finish the write under way, if the server still answers, and end."""
        self._stopped.set()
        self.join()

    def join(self) -> None:
        assert self._thread is not None
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()

    def _run(self, connection: Connection) -> None:
        try:
            while not self._stopped.is_set():
                name = self._random.choice(list(self.ledgers))
                if not self._write(connection, name, self.ledgers[name]):
                    return
        except LOST:
            return
        finally:
            connection.close()

    def _write(self, connection: Connection, name: str, ledger: Ledger) -> bool:
        text = self._random.randbytes(self._random.choice([10, 500, 5000])).hex()
        metadata = {"name": name, "resourceVersion": str(ledger.known.revision)}
        manifest = {"metadata": metadata, "data": {"text": text, "digest": digest(text)}}
        if not ledger.known.digest:
            ledger.doubt = digest(text)
            del metadata["resourceVersion"]
            code, body = connection.call("POST", CONFIGS, manifest)
        elif self._random.random() < 0.2:
            ledger.doubt = ""
            code, body = connection.call("DELETE", f"{CONFIGS}/{name}")
        else:
            ledger.doubt = digest(text)
            code, body = connection.call("PUT", f"{CONFIGS}/{name}", manifest)
        if code not in {200, 201}:
            self._promises.wrong.append(f"{code}: {body}")
            return False
        # The answer to a deletion is a Status without a revision; the watchers tell when it was.
        revision = int(body["metadata"].get("resourceVersion") or ledger.known.revision)
        ledger.known, ledger.doubt = State(revision, ledger.doubt), None
        self._promises.add(revision, name, ledger.known.digest)
        return True


class Follower:
    """Watches all objects; when the server dies it goes on, with the next one, from where it was."""

    def __init__(self) -> None:
        self.events: list[tuple[int, str, str, str]] = []
        """Revision, type, name, digest."""

        self.wrong: list[str] = []
        self._since = 0
        self._more = threading.Condition()
        self._thread: threading.Thread | None = None

    def start(self, server: Server, since: int) -> None:
        """Go on; `since` counts only the first time."""
        self._since = self._since or since
        self._thread = threading.Thread(target=self._run, args=(server,))
        self._thread.start()

    def join(self) -> None:
        assert self._thread is not None
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive()

    def wait_for(self, revision: int) -> None:
        """Until it has seen a revision."""
        with self._more:
            assert self._more.wait_for(lambda: self._since >= revision or self.wrong, PATIENCE_SECONDS), "no events"
        assert self.wrong == []

    def _run(self, server: Server) -> None:
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=PATIENCE_SECONDS)
        path = f"{CONFIGS}?watch=1&resourceVersion={self._since}"
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {server.token}"})
            response = connection.getresponse()
            while line := response.readline():
                if not line.endswith(b"\n"):
                    return  # the server died in the middle of it
                self._note(json.loads(line))
        except LOST:
            return
        finally:
            connection.close()

    def _note(self, event: dict[str, Any]) -> None:
        if event["type"] == "ERROR":
            self.wrong.append(str(event))
            return
        metadata = event["object"]["metadata"]
        revision = int(metadata["resourceVersion"])
        with self._more:
            if revision <= self._since:
                self.wrong.append(f"{event['type']} at {revision} after {self._since}")
            self.events.append((revision, event["type"], metadata["name"], digest_of(event["object"])))
            self._since = revision
            self._more.notify_all()

    def state(self) -> dict[str, tuple[int, str]]:
        """What it believes to be there, by name; whoever appears twice or vanishes unseen is an error."""
        state: dict[str, tuple[int, str]] = {}
        for revision, kind, name, content in self.events:
            assert (name in state) == (kind != "ADDED"), f"{kind} {name} at {revision}"
            if kind == "DELETED":
                del state[name]
            else:
                state[name] = (revision, content)
        return state


def found(server: Server) -> tuple[int, dict[str, State]]:
    """The revision of the server, and every object in it, each whole."""
    body = server.call("GET", CONFIGS).body
    states = {
        item["metadata"]["name"]: State(int(item["metadata"]["resourceVersion"]), digest_of(item))
        for item in body["items"]
    }
    return int(body["metadata"]["resourceVersion"]), states


def check(server: Server, authors: Sequence[Author], promises: Promises) -> int:
    """Whether every promise is kept; the doubts are over then. The revision of the server."""
    revision, states = found(server)
    ledgers = {name: ledger for author in authors for name, ledger in author.ledgers.items()}
    assert states.keys() <= ledgers.keys()
    assert revision >= promises.last_revision, "revisions went back"
    for name, ledger in ledgers.items():
        ledger.check(states.get(name))
        ledger.resolve(states.get(name))
    return revision
