"""The lines of the table: one scenario on a server of its own, with the client beside it on the same cores."""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

import yaml

from bench.api.servers import fairway, scratch
from bench.scenarios.client import ClientFailed, GoMissing, Result, build, config_file, run
from bench.table import Line

_TITLE: Final = "Kueue's scenario with client-go:"


class Scenario(NamedTuple):
    """What one configuration is to achieve."""

    goal_seconds: float
    timeout_seconds: float
    beside: str = ""
    """What Kueue needs for the same."""


SCENARIOS: Final = {
    "tenth": Scenario(12.0, 120.0),
    "baseline": Scenario(90.0, 600.0, "Kueue 0.19.2 on kube-apiserver: 330 s"),
    "large": Scenario(250.0, 1500.0, "Kueue's CI: 1179 s"),
}


def lines(_scale: int) -> list[Line]:
    """For ``python -m bench``, which plays a tenth of the baseline at any scale."""
    return lines_of("tenth")


def lines_of(name: str, profile: Path | None = None) -> list[Line]:
    """Play the scenario once; one line that says so where it cannot be played or does not end."""
    title = f"{_TITLE} {name}"
    scenario = SCENARIOS[name]
    goal = f"{scenario.goal_seconds:.0f} s"
    try:
        build()
        config = config_file(name)
        with (
            scratch() as directory,
            fairway(directory / "state", "--cpus", "100000", jobs=True) as server,
        ):
            before = server.cpu_seconds
            found = run(server.state / "kubeconfig", config, timeout_seconds=scenario.timeout_seconds, profile=profile)
            server_cpu, memory = server.cpu_seconds - before, server.memory_mb
    except GoMissing as problem:
        return [Line(title, f"skipped: {problem}", goal, None, 0)]
    except ClientFailed as problem:
        return [Line(title, f"failed: {problem}", goal, met=False, memory_mb=0)]
    return table_lines(name, found, server_cpu_seconds=server_cpu, memory_mb=memory)


def table_lines(name: str, found: Result, *, server_cpu_seconds: float, memory_mb: float) -> list[Line]:
    """What was measured; the goal is met if every Workload finished in time."""
    scenario = SCENARIOS[name]
    complete = found.finished == found.workloads > 0
    figure = f"{found.seconds:.1f} s; CPU {server_cpu_seconds:.1f} s"
    figure += "" if complete else f"; {found.finished} FINISHED"
    met = complete and found.seconds <= scenario.goal_seconds
    return [
        Line(f"{_TITLE} {name}, {found.workloads} workloads", figure, f"{scenario.goal_seconds:.0f} s", met, memory_mb),
        *_details(found, scenario),
        *_kueue_limits(name, found),
    ]


def _details(found: Result, scenario: Scenario) -> list[Line]:
    waits = ", ".join(
        f"{name} {one.mean_admission_ms / 1e3:.2f} s (95 %: {one.p95_admission_ms / 1e3:.1f}, "
        f"most: {one.max_admission_ms / 1e3:.1f})"
        for name, one in sorted(found.classes.items())
    )
    usage = ", ".join(f"{one:.0f} %" for one in found.usage_percent.values())
    evictions = sum(one.evictions for one in found.classes.values())
    client = f"CPU {found.cpu_seconds:.1f} s; {found.requests} requests, {found.conflicts} conflicts"
    client += f", {found.connections} connections" + (f", {found.refused} REFUSED" if found.refused else "")
    if found.dropped_events:
        client += f", {found.dropped_events} events not recorded"
    runs = ", ".join(f"{name} {one.mean_run_ms / 1e3:.2f} s" for name, one in sorted(found.classes.items()))
    writes = f"{found.median_write_ms:.1f} ms (95 %: {found.p95_write_ms:.1f})"
    return [
        Line("  from creation to admission", waits, "", None, 0),
        Line("  from admission to the end; a write", f"{runs}; {writes}", "", None, 0),
        Line("  quota in use, evictions", f"{usage}, {evictions}", "", None, 0),
        Line("  client", client, scenario.beside, None, 0),
    ]


def _kueue_limits(name: str, found: Result) -> list[Line]:
    """The limits that Kueue's CI sets itself for its own scenarios, in time, usage and wait of each class."""
    file = config_file(name, "rangespec.yaml")
    if file.name != "rangespec.yaml":
        return []
    limits = yaml.safe_load(file.read_text())
    broken = [] if found.seconds * 1e3 <= int(limits["cmd"]["maxWallMs"]) else ["wall time"]
    broken += [
        f"usage of {one}"
        for one, least in limits["clusterQueueClassesMinUsage"].items()
        if found.usage_percent[one] < float(least)
    ]
    broken += [
        f"wait of {one}"
        for one, most in limits["wlClassesMaxAvgTimeToAdmissionMs"].items()
        if found.classes[one].mean_admission_ms > int(most)
    ]
    return [Line("  limits of Kueue's CI", ", ".join(broken) or "kept", "all kept", not broken, 0)]
