"""Expected starts against what then happened: errors, ranges that keep their word, and a replay that holds out."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.simulate.accuracy import Accuracy
from fairway.simulate.forecast import StartForecast
from fairway.simulate.jobs import TraceJob
from fairway.simulate.playing import trace_scenario
from fairway.simulate.replay import futures, replay
from fairway.simulate.scenario import PreparedScenario, Scenario
from fairway.simulate.traces import JobTrace, one_queue

NOW = 1_000_000.0
HOUR = 3600.0


def played(wait: float, spread: float = 0.05) -> StartForecast:
    """A start in so many seconds, with a range that is too narrow for most of what follows."""
    return StartForecast(NOW + wait * (1 - spread), NOW + wait, NOW + wait * (1 + spread), "name")


def learnt(off: Callable[[random.Random], float], count: int = 400) -> Accuracy:
    """After so many starts that came at `off` times the expected wait."""
    draw, accuracy = random.Random(7), Accuracy()  # noqa: S311 - a draw that can be repeated
    for number in range(count):
        wait = draw.uniform(300, 3 * HOUR)
        accuracy.given({f"job-{number}": played(wait)}, NOW)
        accuracy.started(f"job-{number}", NOW + wait * off(draw))
    return accuracy


@pytest.mark.parametrize(
    "off",
    [
        pytest.param(lambda draw: draw.lognormvariate(0, 0.5), id="far off on both sides"),
        pytest.param(lambda draw: draw.lognormvariate(0.7, 0.2), id="nearly always later"),
        pytest.param(lambda draw: draw.lognormvariate(-0.7, 0.2), id="nearly always earlier"),
        pytest.param(lambda draw: draw.uniform(0.98, 1.02), id="better than the range says"),
    ],
)
def test_four_of_five_starts_are_within_the_ranges_given(off: Callable[[random.Random], float]) -> None:
    accuracy, draw, within = learnt(off), random.Random(8), 0  # noqa: S311 - a draw that can be repeated
    for number in range(500):
        wait = draw.uniform(300, 3 * HOUR)
        found = accuracy.given({f"new-{number}": played(wait)}, NOW)[f"new-{number}"]
        at = NOW + wait * off(draw)
        assert found.earliest is not None
        assert found.latest is not None
        within += found.earliest <= at <= found.latest
    assert 0.72 <= within / 500 <= 0.98


def test_ranges_stay_as_they_are_played_while_little_is_known() -> None:
    accuracy = learnt(lambda _: 3.0, count=4)
    assert accuracy.figures() is None
    assert accuracy.given({"a": played(HOUR)}, NOW)["a"] == played(HOUR)


def test_the_errors_are_those_of_the_first_forecast_of_each_job() -> None:
    accuracy = Accuracy()
    for number in range(5):
        accuracy.given({f"job-{number}": played(100)}, NOW)
        accuracy.given({f"job-{number}": played(900)}, NOW)
        accuracy.started(f"job-{number}", NOW + 100 + 10 * number)
    accuracy.given({"rests-on-nothing": StartForecast(NOW, NOW, NOW, "")}, NOW)
    accuracy.started("rests-on-nothing", NOW + 1e6)
    accuracy.started("never-seen", NOW)
    assert accuracy.figures() == {"compared": 5, "medianSeconds": 20.0, "p90Seconds": 30.0, "inRange": 0.2}


def test_jobs_that_wait_beyond_their_range_count_before_they_start() -> None:
    """Otherwise only what started soon would be learnt from."""
    accuracy = learnt(lambda draw: draw.uniform(0.97, 1.03))
    overdue = {f"late-{number}": played(HOUR) for number in range(200)}
    accuracy.given(overdue, NOW)
    later = {**overdue, "new": StartForecast(NOW + 4 * HOUR, NOW + 5 * HOUR, NOW + 6 * HOUR, "name")}
    found = accuracy.given(later, NOW + 3 * HOUR)["new"]
    assert (found.latest or 0.0) > NOW + 9 * HOUR


@given(st.floats(0, 1e6), st.floats(0, 1), st.lists(st.floats(0, 1e6), min_size=20, max_size=40))
def test_a_range_contains_its_start_and_does_not_begin_in_the_past(
    wait: float, spread: float, starts: list[float]
) -> None:
    accuracy = Accuracy()
    for number, start in enumerate(starts):
        accuracy.given({str(number): played(1000)}, NOW)
        accuracy.started(str(number), NOW + start)
    found = accuracy.given({"new": played(wait, spread)}, NOW)["new"]
    assert found.at is not None
    assert found.earliest is not None
    assert found.latest is not None
    assert NOW <= found.earliest <= found.at <= found.latest


# On a trace


def crowded(later: float = 1.0, from_number: int = 200) -> Scenario:
    """Two hundred jobs of one CPU, one a minute, ten minutes each, on eight; the last run `later` times as long."""
    draw = random.Random(3)  # noqa: S311 - a draw that can be repeated
    jobs = [
        TraceJob(
            name=f"job-{number}",
            queue="default",
            user="ana",
            submitted=60.0 * number,
            seconds=round(draw.uniform(300, 900) * (later if number >= from_number else 1.0)),
            requests=(("cpu", "1"),),
        )
        for number in range(200)
    ]
    return trace_scenario(JobTrace(jobs=jobs, objects=one_queue({"cpu": "8"}, ["default"])))[0]


def test_a_replay_measures_the_forecasts() -> None:
    found = replay(crowded(), moments=20)
    assert found is not None
    assert found.compared > 40
    assert found.median_seconds < found.naive_seconds
    assert found.in_range >= 0.6


def test_what_comes_later_is_held_out() -> None:
    """Jobs that run and wait at a moment run ten times as long, and the forecasts of that moment are the same."""
    at = 6000.0

    def forecast(of: Scenario) -> dict[str, list[float]]:
        player = PreparedScenario.of(of).player()
        player.run(at)
        return futures(player, {job.key: job for job in of.jobs}, at, [1, 2, 3])

    whole = PreparedScenario.of(crowded()).player()
    whole.run()
    over = max(int(run.key.rpartition("-")[2]) for run in whole.runs.values() if (run.ended or 0.0) <= at)
    found = forecast(crowded())
    assert len(found) > 5
    assert forecast(crowded(later=10.0, from_number=over + 1)) == found


def test_a_branch_leaves_the_player_as_it_was() -> None:
    prepared = PreparedScenario.of(crowded())
    whole, player = prepared.player(), prepared.player()
    whole.run()
    player.run(6000.0)
    branch = player.branch()
    branch.redraw(6000.0, lambda _run, elapsed: elapsed + 1.0)
    branch.run()
    assert all(run.ended is not None for run in branch.runs.values())
    assert len(branch.runs) < 200, "no job arrives any more"
    assert not branch.engine.violations()
    player.run()
    assert player.runs == whole.runs
