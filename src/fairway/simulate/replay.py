"""How good expected starts are: a trace is replayed, and at moments of it the future is forecast from its past alone.

At each moment the forecaster knows what ran and waited then, and how long the jobs took that had ended; what came
later is held out. Its forecasts are compared with the starts of the replay.
"""

from __future__ import annotations

import random
from math import inf
from statistics import median
from typing import Final

from msgspec import Struct

from fairway.simulate.estimates import Durations, Estimate
from fairway.simulate.forecast import HIGH, LOW
from fairway.simulate.jobs import TraceJob
from fairway.simulate.player import JobRun, Player
from fairway.simulate.scenario import PreparedScenario, Scenario

MOMENTS: Final = 8
RUNS: Final = 9
_FROM, _TO = 0.3, 0.95
"""The part of the trace's time in which forecasts are made: before, there is hardly a past to learn from."""


class ReplayedForecasts(Struct, rename="camel"):
    """Forecast against replayed starts, in seconds."""

    compared: int
    median_seconds: float
    p90_seconds: float
    in_range: float
    """Which part of the starts was in the range that was given."""

    median_wait_seconds: float
    """How long these jobs still waited: what the errors are to be seen against."""

    naive_seconds: float
    """The median error of who says of everyone that they wait as long as the median before them."""


def replay(scenario: Scenario, *, moments: int = MOMENTS, runs: int = RUNS, seed: int = 0) -> ReplayedForecasts | None:
    """The errors of forecasts at moments of a trace; `None` if no job waited at any of them."""
    prepared = PreparedScenario.of(scenario)
    jobs = {job.key: job for job in scenario.jobs}
    real = prepared.player()
    real.run()
    last = max((job.submitted for job in scenario.jobs), default=scenario.at)
    errors: list[tuple[float, bool, float]] = []
    naive: list[float] = []
    for number in range(moments):
        at = scenario.at + (last - scenario.at) * (_FROM + (_TO - _FROM) * number / max(1, moments - 1))
        durations = _learnt(real, jobs, at)
        starts: dict[str, list[float]] = {}
        for run in range(runs):
            for key, start in _futures(prepared, jobs, durations, at, seed + run).items():
                starts.setdefault(key, []).append(start)
        waits = [one.started - one.submitted for one in real.runs.values() if one.started and one.started < at]
        usual = median(waits) if waits else 0.0
        for key, found in starts.items():
            actual = real.runs[key].started
            if actual is not None:
                errors.append(_error(sorted(found), actual, at))
                naive.append(abs(max(at, real.runs[key].submitted + usual) - actual))
    if not errors:
        return None
    ordered = sorted(error for error, _, _ in errors)
    return ReplayedForecasts(
        len(errors),
        round(median(ordered), 1),
        round(ordered[int(0.9 * (len(ordered) - 1))], 1),
        round(sum(within for _, within, _ in errors) / len(errors), 3),
        round(median(wait for _, _, wait in errors), 1),
        round(median(naive), 1),
    )


def _learnt(real: Player, jobs: dict[str, TraceJob], at: float) -> Durations:
    """How long the jobs took that had ended then."""
    durations = Durations()
    ended = [run for run in real.runs.values() if run.ended is not None and run.ended <= at]
    for run in sorted(ended, key=lambda one: one.ended or 0.0):
        job = jobs[run.key]
        durations.add(job.name, job.user, job.queue, run.seconds)
    return durations


def _futures(
    prepared: PreparedScenario, jobs: dict[str, TraceJob], durations: Durations, at: float, seed: int
) -> dict[str, float]:
    """When those who wait at a moment start, in one future that is drawn."""
    draw = random.Random(seed).random  # noqa: S311 - a repeatable draw is wanted
    player = prepared.player()
    player.run(at)
    player.now = max(player.now, at)

    def seconds(run: JobRun, elapsed: float) -> float:
        return _estimate(durations, jobs[run.key]).seconds(draw(), elapsed)

    waiting = [run.key for run in player.runs.values() if run.started is None]
    player.redraw(seconds)
    player.run()
    return {key: inf if (start := player.runs[key].started) is None else start for key in waiting}


def _estimate(durations: Durations, job: TraceJob) -> Estimate:
    return durations.estimate(job.name, job.user, job.queue, job.declared)


def _error(ordered: list[float], actual: float, at: float) -> tuple[float, bool, float]:
    low, middle, high = (ordered[min(len(ordered) - 1, int(part * len(ordered)))] for part in (LOW, 0.5, HIGH))
    return abs(middle - actual), low - 1 <= actual <= high + 1, actual - at
