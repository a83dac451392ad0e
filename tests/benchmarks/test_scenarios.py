"""The lines of Kueue's scenarios in the table: what is skipped, failed or incomplete must not look like a figure."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from bench.scenarios import lines
from bench.scenarios.client import ClientFailed, Result, WorkloadClass

FOUND = Result(
    seconds=9.5,
    generation_seconds=6.0,
    workloads=1500,
    finished=1500,
    classes={"small": WorkloadClass(1050, 800, 1900, 2500, 12, 210), "large": WorkloadClass(150, 40, 90, 120, 0, 1010)},
    usage_percent={"cq": 61.5},
    dropped_events=0,
    connections=3,
    requests=6000,
    conflicts=4,
    refused=0,
    median_write_ms=3.0,
    p95_write_ms=9.0,
    cpu_seconds=4.0,
)


def test_without_go_one_line_says_so_and_no_goal_is_missed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)

    [line] = lines.lines(1)

    assert line.figure == "skipped: Go is not installed; put go 1.26 on the PATH or set GO"
    assert line.met is None


def test_a_client_that_fails_misses_the_goal(monkeypatch: pytest.MonkeyPatch) -> None:
    def build() -> Path:
        raise ClientFailed("go build ended with exit code 1, see above")

    monkeypatch.setattr(lines, "build", build)

    [line] = lines.lines(1)

    assert (line.figure, line.met) == ("failed: go build ended with exit code 1, see above", False)


@pytest.mark.parametrize(
    ("found", "figure", "met"),
    [
        pytest.param(FOUND, "9.5 s; CPU 6.2 s", True, id="all finished in time"),
        pytest.param(msgspec.structs.replace(FOUND, seconds=12.4), "12.4 s; CPU 6.2 s", False, id="too late"),
        pytest.param(
            msgspec.structs.replace(FOUND, finished=1499), "9.5 s; CPU 6.2 s; 1499 FINISHED", False, id="one is left"
        ),
        pytest.param(
            msgspec.structs.replace(FOUND, workloads=0, finished=0), "9.5 s; CPU 6.2 s; 0 FINISHED", False, id="nothing"
        ),
    ],
)
def test_the_goal_is_met_when_every_workload_finished_in_time(found: Result, figure: str, met: bool) -> None:  # noqa: FBT001
    first, waits, *_ = lines.table_lines("tenth", found, server_cpu_seconds=6.2, memory_mb=120.0)

    assert (first.figure, first.met, first.memory_mb) == (figure, met, 120.0)
    assert waits.figure == "large 0.04 s (95 %: 0.1, most: 0.1), small 0.80 s (95 %: 1.9, most: 2.5)"


def test_the_limits_of_kueue_are_checked_for_its_own_scenarios(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ranges = tmp_path / "rangespec.yaml"
    ranges.write_text(
        "cmd: {maxWallMs: 9_000}\nclusterQueueClassesMinUsage: {cq: 61.6}\n"
        "wlClassesMaxAvgTimeToAdmissionMs: {large: 40, small: 799}\n"
    )
    monkeypatch.setattr(lines, "config_file", lambda *_: ranges)

    *_, last = lines.table_lines("baseline", FOUND, server_cpu_seconds=6.2, memory_mb=120.0)

    assert (last.figure, last.met) == ("wall time, usage of cq, wait of small", False)
