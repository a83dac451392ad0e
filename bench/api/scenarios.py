"""What is measured, the same for every server: creates, status patches, watchers, lists.

Each function puts one kind of load on a server and returns what it found; the table is made in ``lines``.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote

from bench.api import manifests
from bench.api.load import Report, drive
from bench.api.watching import Crowd
from bench.api.wire import Session, Target

OWN = 16
"""How many Workloads each client patches in turn."""

Feeds = list[Iterator[bytes]]
"""The requests of each client."""


class Watched(NamedTuple):
    """What watchers cost and how long they wait."""

    events_each_second: float
    latencies: list[float]
    """From the writer's answer to the last watcher having the event, one event at a time; ascending, never below 0."""
    resumed: int

    def percentile(self, percent: float) -> float:
        return self.latencies[min(len(self.latencies) - 1, int(len(self.latencies) * percent / 100))]


class Listed(NamedTuple):
    """What it took to read a long list."""

    objects: int
    seconds: float
    size: int

    @property
    def mb_each_second(self) -> float:
        return self.size / 1e6 / self.seconds


class Namespaces:
    """Fresh namespaces, so that no run meets the objects of another; they are removed at the end."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._prefix = f"bench-{int(time.time()):x}"
        self._made: list[str] = []

    def fresh(self) -> str:
        name = f"{self._prefix}-{len(self._made)}"
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        with Session(self._target) as session:
            session.ask("POST", "/api/v1/namespaces", manifests.encoded(body))
        self._made.append(name)
        return name

    def remove(self) -> None:
        with Session(self._target) as session:
            for name in self._made:
                session.ask("DELETE", manifests.namespace_path(name))
                session.ask("DELETE", f"/api/v1/namespaces/{name}")


def creates(target: Target, namespaces: Namespaces, clients: int) -> Feeds:
    """Each client creates one Workload after the other."""
    namespace = namespaces.fresh()
    numbers = itertools.count()
    return [manifests.creates(target, namespace, numbers) for _ in range(clients)]


def status_patches(target: Target, namespaces: Namespaces, clients: int) -> Feeds:
    """Each client writes the status of its own Workloads in turn, each time with something new in it."""
    namespace, owned = _owned(target, namespaces, clients)
    return [manifests.status_patches(target, namespace, numbers) for numbers in owned]


def status_applies(target: Target, namespaces: Namespaces, clients: int) -> Feeds:
    """The same by server-side apply."""
    namespace, owned = _owned(target, namespaces, clients)
    return [manifests.status_applies(target, namespace, numbers) for numbers in owned]


def _owned(target: Target, namespaces: Namespaces, clients: int) -> tuple[str, list[range]]:
    """A namespace with some Workloads for each client."""
    namespace = namespaces.fresh()
    fill(target, namespace, clients * OWN, clients=8)
    return namespace, [range(client * OWN, (client + 1) * OWN) for client in range(clients)]


def sound(report: Report) -> Report:
    """The report, if nothing was refused: figures with errors among them say nothing."""
    if report.errors:
        raise AssertionError(f"the server refused some requests, by status: {report.errors}")
    return report


def fill(target: Target, namespace: str, objects: int, *, clients: int = 32) -> Report:
    """Create this many Workloads, by many clients at once."""
    numbers = iter(range(objects))
    report = sound(drive(target, [manifests.creates(target, namespace, numbers) for _ in range(clients)]))
    if report.answered != objects:
        raise AssertionError(f"{report.answered} of {objects} Workloads were created: {report.statuses}")
    return report


def watched(target: Target, namespaces: Namespaces, *, watchers: int, calm: int, hurried: int) -> Watched:
    """First one event at a time, each waited for by all; then as fast as the writer is answered."""
    namespace = namespaces.fresh()
    path = manifests.namespace_path(namespace)
    bodies = manifests.workload_bodies(namespace)
    answered: list[float] = []
    with Session(target) as writer:
        revision = writer.revision(path)
        with Crowd(target, namespace, revision, watchers, calm + hurried) as crowd:
            for number in range(calm):
                writer.ask("POST", path, next(bodies))
                answered.append(time.monotonic())
                crowd.wait_for(number)
            begun = time.monotonic()
            for _ in range(hurried):
                writer.ask("POST", path, next(bodies))
            seen = crowd.sightings()
    latencies = [max(0.0, last - answer) for last, answer in zip(seen.last_seen, answered, strict=False)]
    return Watched(watchers * hurried / (seen.last_seen[-1] - begun), sorted(latencies), seen.resumed)


def listed(target: Target, namespace: str, limit: int = 0) -> Listed:
    """The whole list, in one answer or in pages. What is read is counted, not decoded."""
    path = manifests.namespace_path(namespace)
    objects = size = 0
    more = ""
    with Session(target) as session:
        begun = time.monotonic()
        while True:
            content = session.ask("GET", f"{path}?limit={limit}&continue={quote(more)}" if limit else path)
            objects += content.count(b'"active":true')
            size += len(content)
            more = _continuation(content) if limit else ""
            if not more:
                break
        seconds = time.monotonic() - begun
    return Listed(objects, seconds, size)


def _continuation(page: bytes) -> str:
    """The token for the next page. It stands in the list's metadata, before the items or after them."""
    start = page.find(b'"continue":"')
    if start < 0:
        return ""
    start += len(b'"continue":"')
    return page[start : page.index(b'"', start)].decode()
