"""How good expected starts are: a trace is replayed, and at moments of it the future is forecast from its past alone.

At each moment the forecaster knows what ran and waited then, how long the jobs took that had ended, and how good its
earlier forecasts were; what came later is held out. Its forecasts are compared with the starts of the replay.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from math import inf
from statistics import median
from typing import Final

from msgspec import Struct

from fairway.simulate.accuracy import Accuracy
from fairway.simulate.estimates import Durations
from fairway.simulate.forecast import StartForecast, start_range
from fairway.simulate.jobs import TraceJob
from fairway.simulate.player import JobRun, Player
from fairway.simulate.scenario import PreparedScenario, Scenario

MOMENTS: Final = 40
RUNS: Final = 9
_FROM, _TO = 0.05, 0.95
"""The part of the trace's time in which forecasts are made."""

_COUNTED_FROM: Final = 0.3
"""Forecasts before this part of it are only learnt from."""


class ReplayedForecasts(Struct, rename="camel"):
    """Forecast against replayed starts, in seconds."""

    compared: int
    median_seconds: float
    p90_seconds: float
    in_range: float
    """Which part of the starts was in the range that was given."""

    median_range_seconds: float
    """How wide the ranges were."""

    median_wait_seconds: float
    """How long these jobs still waited: what the errors are to be seen against."""

    naive_seconds: float
    """The median error if every job were expected to wait as long as the median job before it."""


class _Forecast(Struct):
    """A forecast, when it was made, and what the naive rule says."""

    at: float
    start: StartForecast
    naive: float


def replay(scenario: Scenario, *, moments: int = MOMENTS, runs: int = RUNS, seed: int = 0) -> ReplayedForecasts | None:
    """The errors of forecasts at moments of a trace; `None` if no job waited at any of them."""
    jobs = {job.key: job for job in scenario.jobs}
    player, accuracy = PreparedScenario.of(scenario).player(), Accuracy()
    last = max((job.submitted for job in scenario.jobs), default=scenario.at)
    forecasts: dict[str, _Forecast] = {}
    """The first of each job."""

    def started(run: JobRun) -> None:
        accuracy.started(run.key, player.now)

    for number in range(moments):
        part = _FROM + (_TO - _FROM) * number / max(1, moments - 1)
        at = scenario.at + (last - scenario.at) * part
        player.run(at, started)
        played = futures(player, jobs, at, [seed + number * runs + run for run in range(runs)])
        given = accuracy.given({key: start_range(found, "name") for key, found in played.items()}, at)
        waits = [run.started - run.submitted for run in player.runs.values() if run.started is not None]
        usual = median(waits) if waits else 0.0
        for key, start in given.items():
            if key not in forecasts:
                naive = max(at, player.runs[key].submitted + usual)
                forecasts[key] = _Forecast(at if part >= _COUNTED_FROM else -inf, start, naive)
    player.run()
    return _summed(player, [(key, one) for key, one in forecasts.items() if one.at > -inf])


def _summed(real: Player, forecasts: list[tuple[str, _Forecast]]) -> ReplayedForecasts | None:
    found = [
        (one, actual, one.start.at, one.start.earliest, one.start.latest)
        for key, one in forecasts
        if (actual := real.runs[key].started) is not None
    ]
    compared = [(one, actual, at, low, high) for one, actual, at, low, high in found if at and low and high]
    if not compared:
        return None
    errors = sorted(abs(at - actual) for _, actual, at, _, _ in compared)
    return ReplayedForecasts(
        len(errors),
        round(median(errors), 1),
        round(errors[int(0.9 * (len(errors) - 1))], 1),
        round(sum(low - 1 <= actual <= high + 1 for _, actual, _, low, high in compared) / len(compared), 3),
        round(median(high - low for _, _, _, low, high in compared), 1),
        round(median(actual - one.at for one, actual, _, _, _ in compared), 1),
        round(median(abs(one.naive - actual) for one, actual, _, _, _ in compared), 1),
    )


def futures(real: Player, jobs: dict[str, TraceJob], at: float, seeds: list[int]) -> dict[str, list[float]]:
    """When those who wait at a moment start, in futures that are drawn."""
    durations = _learnt(real, jobs)
    starts: dict[str, list[float]] = {run.key: [] for run in real.runs.values() if run.started is None}
    for seed in seeds if starts else ():
        draw = random.Random(seed).random  # noqa: S311 - a repeatable draw is wanted

        def seconds(run: JobRun, elapsed: float, draw: Callable[[], float] = draw) -> float:
            job = jobs[run.key]
            return durations.estimate(job.name, job.user, job.queue, job.declared).seconds(draw(), elapsed)

        future = real.branch()
        future.redraw(at, seconds)
        future.run()
        for key, found in starts.items():
            found.append(inf if (start := future.runs[key].started) is None else start)
    return starts


def _learnt(real: Player, jobs: dict[str, TraceJob]) -> Durations:
    """How long the jobs took that have ended."""
    durations = Durations()
    for run in sorted((run for run in real.runs.values() if run.ended is not None), key=lambda one: one.ended or 0.0):
        job = jobs[run.key]
        durations.add(job.name, job.user, job.queue, run.seconds)
    return durations
