"""When waiting jobs will start: the future played many times, with run times drawn anew each time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from math import inf
from typing import Final

from msgspec import Struct

from fairway.simulate.estimates import BASES
from fairway.simulate.player import JobRun, Player
from fairway.simulate.scenario import PreparedScenario, Scenario

HORIZON_SECONDS: Final = 30 * 86400.0
LEAST_RUNS: Final = 5
MOST_RUNS: Final = 25
LOW, HIGH = 0.1, 0.9
"""The range leaves out so many of the earliest and of the latest starts."""

_STRENGTH: Final = {basis: place for place, basis in enumerate(BASES)}


class StartForecast(Struct, frozen=True, gc=False):
    """When one job starts, in seconds since the epoch; `None` is later than was played."""

    earliest: float | None
    at: float | None
    latest: float | None
    basis: str
    """The weakest estimate that it rests on; empty if that is nothing."""


class ForecastResult(Struct):
    """The starts of everyone who waits, by key."""

    starts: dict[str, StartForecast]
    runs: int


def forecast(
    scenario: Scenario, *, seed: int = 0, enough: Callable[[int], bool] = lambda runs: runs >= MOST_RUNS
) -> ForecastResult:
    """Play until it is `enough`: asked with the number of runs, from the `LEAST_RUNS` on."""
    prepared = PreparedScenario.of(scenario)
    bases: dict[str, str] = {}
    starts: dict[str, list[float]] = {}
    runs = 0
    while runs < LEAST_RUNS or (runs < MOST_RUNS and not enough(runs)):
        draw = random.Random(seed + runs).random  # noqa: S311 - a repeatable draw is wanted
        player = prepared.player(draw)
        weakest = _Weakest(scenario, player) if not runs else None
        player.run(scenario.at + HORIZON_SECONDS, None if weakest is None else weakest.started)
        if weakest is not None:
            bases = weakest.bases
        for key, run in player.runs.items():
            if not run.running:
                starts.setdefault(key, []).append(inf if run.started is None else run.started)
        runs += 1
    return ForecastResult({key: start_range(found, bases.get(key, "")) for key, found in starts.items()}, runs)


def start_range(starts: Iterable[float], basis: str) -> StartForecast:
    """The middle and the range of the starts that were played."""
    ordered = sorted(starts)

    def part(share: float) -> float | None:
        found = ordered[min(len(ordered) - 1, int(share * len(ordered)))]
        return None if found == inf else found

    return StartForecast(part(LOW), part(0.5), part(HIGH), basis)


class _Weakest:
    """The weakest estimate among the jobs of a tree of cohorts that ran before a job started."""

    def __init__(self, scenario: Scenario, player: Player) -> None:
        self.bases: dict[str, str] = {}
        self._roots = cohort_roots(scenario)
        self._trees: dict[str, str] = {}
        self._own = {
            f"{one.manifest['metadata']['namespace']}/{one.manifest['metadata']['name']}": one.estimate.basis
            for one in scenario.workloads
        }
        for run in player.runs.values():
            if run.attempt:
                self.started(run)

    def started(self, run: JobRun) -> None:
        tree = self._roots.get(run.cluster_queue, run.cluster_queue)
        so_far = self._trees.get(tree, BASES[0])
        self.bases.setdefault(run.key, so_far)
        own = self._own.get(run.key, BASES[0])
        self._trees[tree] = max(so_far, own, key=_STRENGTH.__getitem__)


def cohort_roots(scenario: Scenario) -> dict[str, str]:
    """The root cohort of each ClusterQueue that has one, by name."""
    parents = {
        one["metadata"]["name"]: (one.get("spec") or {}).get("parentName") or "" for one in scenario.of_kind("Cohort")
    }
    roots: dict[str, str] = {}
    for queue in scenario.of_kind("ClusterQueue"):
        cohort, seen = (queue.get("spec") or {}).get("cohortName") or "", set[str]()
        while cohort and parents.get(cohort) and cohort not in seen:
            seen.add(cohort)
            cohort = parents[cohort]
        if cohort:
            roots[queue["metadata"]["name"]] = f"cohort {cohort}"
    return roots
