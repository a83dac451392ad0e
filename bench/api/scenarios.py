"""What is measured, the same for every server: creates, status patches, watchers, lists.

Each function puts one kind of load on a server and returns what it found; the table is made in ``lines``.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import quote

from bench.api import manifests
from bench.api.load import Report, drive
from bench.api.manifests import Place
from bench.api.watching import Crowd
from bench.api.wire import Refused, Session, Target

OWN = 16
"""How many Workloads each client patches in turn."""

Feeds = list[Iterator[bytes]]
"""The requests of each client."""


class Watched(NamedTuple):
    """What watchers cost and how long they wait."""

    events_each_second: float
    since_sent: list[float]
    """From sending the create to the last watcher having its event, one event at a time; ascending."""
    since_answered: list[float]
    """The same from the create's answer; 0 where all watchers were faster than the answer."""
    resumed: int


class Listed(NamedTuple):
    """What it took to read a long list."""

    objects: int
    seconds: float
    size: int

    @property
    def mb_each_second(self) -> float:
        return self.size / 1e6 / self.seconds


class Places:
    """Fresh namespaces, so that no run meets the objects of another; they are removed at the end."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._prefix = f"bench-{int(time.time()):x}"
        self._made: list[Place] = []

    def fresh(self) -> Place:
        name = f"{self._prefix}-{len(self._made)}"
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        with Session(self._target) as session:
            session.ask("POST", "/api/v1/namespaces", manifests.encoded(namespace))
            job = session.ask("POST", f"/apis/batch/v1/namespaces/{name}/jobs", manifests.encoded(manifests.job()))
        place = Place(name, json.loads(job)["metadata"]["uid"])
        self._made.append(place)
        return place

    def remove(self) -> None:
        with Session(self._target) as session:
            for place in self._made:
                session.ask("DELETE", place.path)
                session.ask("DELETE", f"/apis/batch/v1/namespaces/{place.namespace}/jobs/{manifests.JOB}")
                session.ask("DELETE", f"/api/v1/namespaces/{place.namespace}")


def creates(target: Target, places: Places, clients: int) -> Feeds:
    """Each client creates one Workload after the other."""
    place = places.fresh()
    numbers = itertools.count()
    return [manifests.creates(target, place, numbers) for _ in range(clients)]


def status_patches(target: Target, places: Places, clients: int) -> Feeds:
    """Each client writes the status of its own Workloads in turn, each time with something new in it."""
    place, owned = _owned(target, places, clients)
    return [manifests.status_patches(target, place, numbers) for numbers in owned]


def status_applies(target: Target, places: Places, clients: int) -> Feeds:
    """The same by server-side apply."""
    place, owned = _owned(target, places, clients)
    return [manifests.status_applies(target, place, numbers) for numbers in owned]


def _owned(target: Target, places: Places, clients: int) -> tuple[Place, list[range]]:
    """A namespace with some Workloads for each client."""
    place = places.fresh()
    fill(target, place, clients * OWN, clients=8)
    return place, [range(client * OWN, (client + 1) * OWN) for client in range(clients)]


def sound(report: Report) -> Report:
    """The report, if nothing was refused: figures with errors among them say nothing."""
    if report.errors:
        why = report.refusal[-500:].decode(errors="replace")
        raise Refused(f"some requests failed, by status: {report.errors} of {report.answered} answered; {why}")
    return report


def fill(target: Target, place: Place, objects: int, *, clients: int = 32) -> Report:
    """Create this many Workloads, by many clients at once."""
    numbers = iter(range(objects))
    report = sound(drive(target, [manifests.creates(target, place, numbers) for _ in range(clients)]))
    if report.answered != objects:
        raise AssertionError(f"{report.answered} of {objects} Workloads were created: {report.statuses}")
    return report


def watched(target: Target, places: Places, *, watchers: int, calm: int, hurried: int) -> Watched:
    """First one event at a time, each waited for by all; then as fast as the writer is answered."""
    place = places.fresh()
    path = place.path
    bodies = manifests.workload_bodies(place)
    sent: list[float] = []
    answered: list[float] = []
    with Session(target) as writer:
        revision = writer.revision(path)
        with Crowd(target, path, revision, watchers, calm + hurried) as crowd:
            for number in range(calm):
                sent.append(time.monotonic())
                writer.ask("POST", path, next(bodies))
                answered.append(time.monotonic())
                crowd.wait_for(number)
            begun = time.monotonic()
            for _ in range(hurried):
                writer.ask("POST", path, next(bodies))
            seen = crowd.sightings()
    return Watched(
        watchers * hurried / (seen.last_seen[-1] - begun),
        _waits(sent, seen.last_seen),
        _waits(answered, seen.last_seen),
        seen.resumed,
    )


def _waits(begun: Sequence[float], ended: Sequence[float]) -> list[float]:
    return sorted(max(0.0, end - begin) for begin, end in zip(begun, ended, strict=False))


def listed(target: Target, place: Place, limit: int = 0) -> Listed:
    """The whole list, in one answer or in pages. What is read is counted, not decoded."""
    path = place.path
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
