"""``python -m bench``: one table with what engine, API server and jobs cost, what the goal is, and whether it is met.

The engine's times are CPU seconds of one core, in virtual time and without I/O; each line runs in a process of its own,
so that its memory is its own, too. The API server is a process under load over HTTP, its times are those of the clock
(``bench.api``); our client meets a real kube-apiserver where one is built (``bench.kubeapi``). Jobs that really run are
in ``bench.jobs``, what people type in ``bench.managed``, the load of a whole cluster in ``bench.scenarios``. The
machine's speed varies, so the first line gives the time of a fixed loop.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable
from typing import NamedTuple

from bench import jobs, kubeapi, managed, page, parked, scenario, starts, topology, victims, waits
from bench.api.lines import for_fairway
from bench.api.wire import Refused
from bench.scenarios import lines as scenarios
from bench.table import Host, Line, isolated, show, tell
from fairway.admission.config import Config


class Cost(NamedTuple):
    seconds: float
    workloads: int

    @property
    def each(self) -> float:
        return self.seconds / self.workloads


def play_scenario(cohorts: int, queues: int, batch_seconds: float) -> Cost:
    """From the first arrival to the last finish. The arrivals are made before, and kept out of the collector's way."""
    simulation = scenario.prepare(cohorts, queues, Config(requeue_batch_seconds=batch_seconds))
    gc.collect()
    gc.freeze()
    begun = time.process_time()
    result = scenario.play(simulation)
    seconds = time.process_time() - begun
    if result.finished != result.workloads or simulation.engine.violations() or simulation.engine.overused():
        raise AssertionError(f"the scenario went wrong: {result}")
    return Cost(seconds, result.workloads)


def calibrate() -> float:
    begun = time.process_time()
    total = 0
    for number in range(5_000_000):
        total += number & 7
    return time.process_time() - begun


def _scenario_lines(scale: int) -> list[Line]:
    size = (max(1, 10 // scale // 10), 100 // (1 if scale == 1 else 10), 1.0)
    tenths = [isolated(play_scenario, *size) for _ in range(3)]
    tenth, memory = sorted(tenths)[1]
    whole, large = isolated(play_scenario, max(1, 10 // scale), 100, 1.0)
    prompt, prompt_memory = isolated(play_scenario, max(1, 10 // scale), 100, 0.01)
    ratio = whole.each / tenth.each
    return [
        Line(f"{tenth.workloads} workloads", f"{tenth.seconds:.2f} s", "", None, memory),
        Line(
            f"{whole.workloads} workloads, 1000 ClusterQueues",
            f"{whole.seconds:.2f} s, {whole.each * 1e6:.0f} us each",
            "under 17 s",
            whole.seconds < 17,
            large,
        ),
        Line("  cost of each against a tenth of it", f"{ratio:.2f} x", "at most 1.5 x", ratio <= 1.5, 0),
        Line("  the same, requeued within 10 ms", f"{prompt.seconds:.2f} s", "", None, prompt_memory),
    ]


def _parked_lines(scale: int) -> list[Line]:
    lines = []
    waiting = 100_000 // scale
    for cohorts, queues, where in ((1, 1, "one ClusterQueue"), (100, 10, "100 x 10"), (10, 100, "10 x 100")):
        found, memory = isolated(parked.measure, max(1, cohorts // scale), queues, waiting, 9)
        cycle = found.seconds / found.cycles
        lines.append(
            Line(
                f"one change, {found.waiting} parked in {where}",
                f"{cycle * 1e3:.2f} ms a cycle, {found.seconds * 1e3:.1f} ms in all {found.cycles}",
                "cycle under 2 ms",
                cycle < 0.002,
                memory,
            )
        )
    return lines


def _victim_lines(scale: int) -> list[Line]:
    lines = []
    for wanted in (10, 5_000 // scale, 10_000 // scale):
        for shortcuts in (True, False):
            found, memory = isolated(_victims, wanted, shortcuts)
            how = "" if shortcuts else ", step by step"
            lines.append(
                Line(
                    f"search among {found.running}, {found.evicted} victims{how}",
                    f"{found.seconds * 1e3:.1f} ms",
                    "under 50 ms" if shortcuts else "",
                    found.seconds < 0.050 if shortcuts else None,
                    memory,
                )
            )
    return lines


def _victims(wanted: int, shortcuts: bool) -> victims.Victims:  # noqa: FBT001 - called by position across processes
    return victims.measure(wanted, shortcuts=shortcuts, rounds=5)


def _topology_lines(scale: int) -> list[Line]:
    found, memory = isolated(topology.measure, 10, 10, max(1, 10 // scale), 30)
    measured = f"{found.place_seconds * 1e3:.1f} ms, {found.admit_seconds * 1e3:.1f} ms with its admission"
    what = f"a placement of 40 pods, {found.nodes} nodes in three levels"
    return [Line(what, measured, "under 5 ms", found.place_seconds < 0.005, memory)]


def _told(part: Callable[[int], list[Line]], scale: int) -> list[Line]:
    """The lines of one part; one that a slow machine did not bring to its end is told of, and is no reason to stop."""
    try:
        return part(scale)
    except (TimeoutError, ConnectionError, Refused) as problem:
        return [Line(f"{part.__module__}", f"did not come to its end: {problem}", "", met=False, memory_mb=0)]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description="Measure engine, API server and running jobs; print one table."
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the size, to see that it runs")
    scale = 10 if parser.parse_args().quick else 1
    host = Host()
    speed = calibrate()
    lines = [Line("a fixed loop, for comparison", f"{speed * 1e3:.0f} ms", "", None, 0)]
    for part in (
        _scenario_lines,
        _parked_lines,
        _victim_lines,
        _topology_lines,
        for_fairway,
        kubeapi.lines,
        jobs.lines,
        managed.lines,
        waits.lines,
        starts.lines,
        page.lines,
        scenarios.lines,
    ):
        lines += _told(part, scale)
        tell(lines[-1].what)
    lines.append(host.line())
    show(lines, judged=scale == 1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
