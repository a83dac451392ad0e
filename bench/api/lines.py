"""The lines of the table about the API server: what was found, what the goal is, and whether it is met."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

from bench.api import bare, baseline, manifests, scenarios
from bench.api.load import Report, drive, percentile
from bench.api.manifests import Place
from bench.api.servers import Server, fairway, scratch
from bench.api.stuffing import stuff
from bench.api.wire import Target
from bench.table import Line, tell

RUNS = 2
"""The machine is shared with others; the better of these is shown."""


class Sizes(NamedTuple):
    """How much is measured. The goals speak of the whole; a tenth shows that it runs."""

    run_seconds: float
    watchers: int
    calm_events: int
    hurried_events: int
    stored: int
    """Half of it is listed."""

    @classmethod
    def at(cls, scale: int) -> Sizes:
        return cls(1.5 / scale, 1_000 // scale, 20, 100, 100_000 // scale)


class _Subject:
    """A server with its figures, as far as they can be seen: those of another machine's process cannot."""

    def __init__(self, target: Target, server: Server | None = None) -> None:
        self.target = target
        self.places = scenarios.Places(target)
        self._server = server

    @property
    def memory_mb(self) -> float:
        return self._server.memory_mb if self._server else 0.0

    @property
    def cpu_seconds(self) -> float:
        return self._server.cpu_seconds if self._server else 0.0


def for_fairway(scale: int) -> list[Line]:
    """Every line: Fairway on a fresh state directory under load, and on a full one."""
    sizes = Sizes.at(scale)
    with scratch() as directory:
        lines = _surroundings(directory, sizes)
        with fairway(directory / "fresh") as server:
            lines.append(_idle_line(server))
            lines += _under_load(_Subject(server.target, server), sizes)
        return lines + _full_lines(directory / "full", sizes)


def for_another(target: Target, scale: int) -> list[Line]:
    """What can be measured of a server that is already running, in namespaces of our own."""
    sizes = Sizes.at(scale)
    subject = _Subject(target)
    try:
        return _under_load(subject, sizes) + _list_lines(subject, sizes)
    finally:
        subject.places.remove()


def _surroundings(directory: Path, sizes: Sizes) -> list[Line]:
    """What the machine and the generator themselves allow."""
    body = manifests.encoded(manifests.workload(manifests.Place("bench", "6d1f9a3e-5b7c-4222-8333-0a1b2c3d4e5f")))
    ceiling = bare.measure(32, sizes.run_seconds, body)
    return [
        Line("durable write of 4 KB to this disk", f"{_write_seconds(directory) * 1e3:.2f} ms", "", None, 0),
        Line(
            f"load generator against a bare server, {len(body)} bytes",
            f"{ceiling.rate:.0f}/s, {ceiling.cpu_each * 1e6:.0f} us each",
            "",
            None,
            0,
        ),
    ]


def _write_seconds(directory: Path) -> float:
    """The median time of appending and syncing, as a log does it."""
    times = []
    with (directory / "probe").open("wb", buffering=0) as file:
        for _ in range(50):
            begun = time.perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - begun)
    return sorted(times)[len(times) // 2]


def _idle_line(server: Server) -> Line:
    memory = server.memory_mb
    return Line("API server, idle and empty", f"{memory:.0f} MB", "under 80 MB", memory < 80, memory)


def _under_load(subject: _Subject, sizes: Sizes) -> list[Line]:
    return [
        *_loop_lines(subject, sizes, "creates", scenarios.creates, baseline.CREATES),
        *_loop_lines(subject, sizes, "status patches", scenarios.status_patches, baseline.PATCHES),
        *_loop_lines(subject, sizes, "status applies", scenarios.status_applies, baseline.APPLIES),
        *_watch_lines(subject, sizes),
    ]


def _loop_lines(
    subject: _Subject,
    sizes: Sizes,
    what: str,
    prepare: Callable[[Target, scenarios.Places, int], scenarios.Feeds],
    compared: baseline.Baseline,
) -> list[Line]:
    """One line a number of clients, each with the better of the runs, and one on the best of all."""
    lines = []
    found: list[_Run] = []
    for clients, rate in compared.rates.items():
        run = max((_run(subject, sizes, prepare, clients) for _ in range(RUNS)), key=lambda run: run.report.rate)
        report = run.report
        lines.append(
            Line(
                f"{what}, {clients} client{'s' if clients > 1 else ''}",
                f"{report.rate:.0f}/s, {_waits(report.latencies)}",
                f"({report.rate / rate:.1f} x apiserver)",
                None,
                subject.memory_mb,
            )
        )
        found.append(run)
    best = max(found, key=lambda run: run.report.rate)
    seen = f"server {best.cpu_each * 1e6:.0f} us, others {best.others:.0%}, " if best.cpu_each else ""
    tell(what)
    lines.append(
        Line(
            f"  {what} at best",
            f"{best.report.rate:.0f}/s; CPU: {seen}generator {best.report.cpu_each * 1e6:.0f} us",
            f"over {compared.goal}/s" if compared.goal else "",
            best.report.rate >= compared.goal if compared.goal else None,
            0,
        )
    )
    return lines


class _Run(NamedTuple):
    report: Report
    cpu_each: float
    """Seconds of CPU the server used for one answer, connecting included, or 0 where that cannot be seen."""
    others: float
    """The part of all cores that neither server nor generator used: what the figures suffered from."""


def _run(
    subject: _Subject,
    sizes: Sizes,
    prepare: Callable[[Target, scenarios.Places, int], scenarios.Feeds],
    clients: int,
) -> _Run:
    feeds = prepare(subject.target, subject.places, clients)
    begun, before, busy_before = time.monotonic(), subject.cpu_seconds, _busy_seconds()
    report = scenarios.sound(drive(subject.target, feeds, sizes.run_seconds))
    used = subject.cpu_seconds - before
    others = _busy_seconds() - busy_before - used - report.cpu_seconds
    share = max(0.0, others) / (time.monotonic() - begun) / (psutil.cpu_count() or 1)
    return _Run(report, used / max(1, report.answered), share)


def _busy_seconds() -> float:
    """What all cores together have worked since the machine was started."""
    times = psutil.cpu_times()
    return sum(times) - times.idle - times.iowait


def _watch_lines(subject: _Subject, sizes: Sizes) -> list[Line]:
    found = scenarios.watched(
        subject.target,
        subject.places,
        watchers=sizes.watchers,
        calm=sizes.calm_events,
        hurried=sizes.hurried_events,
    )
    tell(f"{sizes.watchers} watchers")
    resumed = f", {found.resumed} streams resumed" if found.resumed else ""
    return [
        Line(
            f"{sizes.watchers} watchers, one writer: none lost",
            f"{found.events_each_second:.0f} events/s{resumed}",
            f"({found.events_each_second / baseline.WATCHED_EVENTS:.1f} x apiserver)",
            None,
            subject.memory_mb,
        ),
        Line("  from sending a create to the last watcher", _waits(found.since_sent), "", None, 0),
        Line("  from its answer to the last watcher", _waits(found.since_answered), "", None, 0),
    ]


def _waits(seconds: Sequence[float]) -> str:
    return f"p50 {percentile(seconds, 50) * 1e3:.1f} p99 {percentile(seconds, 99) * 1e3:.1f} ms"


def _full_lines(state: Path, sizes: Sizes) -> list[Line]:
    """The start on a full state directory, and lists of half of what is in it."""
    with fairway(state) as server:
        places = scenarios.Places(server.target)
        halves = places.fresh(), places.fresh()
        for place in halves:
            scenarios.fill(server.target, place, 1, clients=1)
    for place in halves:
        stuff(server.database, place, sizes.stored // 2)
    tell(f"{sizes.stored} Workloads written")
    starts: list[tuple[float, float]] = []
    lists: list[Line] = []
    while not lists:
        with fairway(state) as server:
            starts.append((server.ready_seconds, server.memory_mb))
            if server.ready_seconds < 3 or len(starts) == RUNS:  # a second start only if the first was too slow
                lists = _lists(_Subject(server.target, server), halves[0], sizes.stored // 2)
    seconds, memory = min(starts)
    start = Line(f"start on {sizes.stored} Workloads", f"{seconds:.2f} s", "under 3 s", seconds < 3, memory)
    return [start, *lists]


def _list_lines(subject: _Subject, sizes: Sizes) -> list[Line]:
    """Lists of a server that can only be filled through its API."""
    place = subject.places.fresh()
    objects = sizes.stored // 2
    scenarios.fill(subject.target, place, objects)
    return _lists(subject, place, objects)


def _lists(subject: _Subject, place: Place, objects: int) -> list[Line]:
    lines = []
    for limit in (0, 500):
        found = min((scenarios.listed(subject.target, place, limit) for _ in range(RUNS)), key=lambda run: run.seconds)
        if found.objects != objects:
            raise AssertionError(f"the list had {found.objects} of {objects} Workloads")
        lines.append(
            Line(
                f"list of {objects} Workloads{f' in pages of {limit}' if limit else ''}",
                f"{found.seconds:.2f} s, {found.mb_each_second:.0f} MB/s",
                "",
                None,
                subject.memory_mb,
            )
        )
        tell(lines[-1].what)
    return lines
