"""Expected starts: what they rest on, their range, and how they are worded."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.admission.config import Config
from fairway.apis.machinery.timestamps import stamp
from fairway.simulate.estimates import Durations, Estimate
from fairway.simulate.forecast import StartForecast, forecast
from fairway.simulate.scenario import PresentWorkload, Scenario, by_key
from fairway.simulate.traces import one_queue
from fairway.simulate.wording import duration, expected, in_words

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("told", "asked", "basis", "middle"),
    [
        pytest.param([], ("train-1", "ana", "q", None), "", 3600, id="nothing is known"),
        pytest.param([], ("train-1", "ana", "q", 600.0), "declared", 600, id="the owner's word"),
        pytest.param([("train-7", "ana", "q", 60.0)] * 3, ("train-1", "ana", "q", None), "name", 60, id="its own name"),
        pytest.param(
            [("train-7", "ana", "q", 60.0)] * 3, ("train-1", "ana", "q", 30.0), "name", 30, id="but no longer"
        ),
        pytest.param([("eval", "ana", "q", 60.0)] * 3, ("train", "ana", "q", None), "user", 60, id="its user"),
        pytest.param([("eval", "ana", "q", 60.0)] * 3, ("train", "ben", "q", None), "queue", 60, id="its queue"),
        pytest.param([("eval", "ana", "q", 60.0)] * 3, ("train", "ben", "p", None), "all", 60, id="anything"),
        pytest.param(
            [("eval", "ana", "q", 60.0)] * 3, ("train", "ben", "p", 90.0), "declared", 90, id="the word first"
        ),
    ],
)
def test_what_an_estimate_rests_on(told: list[Any], asked: tuple[Any, ...], basis: str, middle: float) -> None:
    durations = Durations()
    for one in told:
        durations.add(*one)
    estimate = durations.estimate(*asked)
    assert (estimate.basis, estimate.seconds(0.5)) == (basis, middle)


@given(st.lists(st.floats(0, 1e6), max_size=20), st.floats(0, 1), st.floats(0, 1e6), st.none() | st.floats(0, 1e6))
def test_a_job_never_ran_shorter_than_it_has(
    samples: list[float], draw: float, elapsed: float, most: float | None
) -> None:
    estimate = Estimate(tuple(sorted(samples)), "name", most)
    found = estimate.seconds(draw, elapsed)
    assert found >= elapsed
    assert most is None or found <= max(most, elapsed)


def test_what_is_kept_of_the_past_is_bounded() -> None:
    durations = Durations()
    for number in range(500):
        durations.add("same", "ana", "q", float(number))
    assert durations.estimate("same", "ana", "q").samples == tuple(float(number) for number in range(450, 500))


def workload(name: str, cpu: int, estimate: Estimate, *, ago: float, running: bool = False) -> PresentWorkload:
    """A stored Workload that runs for so long, or waits."""
    since = stamp(datetime.fromtimestamp(NOW - ago, UTC))
    pod = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": str(cpu)}}}]}
    manifest: dict[str, Any] = {
        "metadata": {
            "name": name, "namespace": "default", "uid": name, "resourceVersion": "1", "creationTimestamp": since,
        },
        "spec": {"queueName": "default", "podSets": [{"name": "main", "count": 1, "template": {"spec": pod}}]},
    }  # fmt: skip
    if running:
        assigned = {"name": "main", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": str(cpu)}}
        true = {"status": "True", "reason": "Admitted", "message": "", "lastTransitionTime": since}
        manifest["status"] = {
            "admission": {"clusterQueue": "default", "podSetAssignments": [assigned]},
            "conditions": [{"type": "QuotaReserved", **true}, {"type": "Admitted", **true}],
        }
    return PresentWorkload(manifest, estimate)


def state(*workloads: PresentWorkload) -> Scenario:
    config = Config(requeue_batch_seconds=0.0)
    return Scenario(
        at=NOW, config=config, objects=by_key(one_queue({"cpu": "4"}, ["default"])), workloads=list(workloads)
    )


def test_a_job_starts_when_what_runs_before_it_ends() -> None:
    found = forecast(
        state(
            workload("runs", 4, Estimate((100.0,), "name"), ago=40, running=True),
            workload("next", 4, Estimate((30.0,), "name"), ago=20),
            workload("last", 4, Estimate((30.0,), "name"), ago=10),
        )
    )
    assert found.starts == {
        "default/next": StartForecast(NOW + 60, NOW + 60, NOW + 60, "name"),
        "default/last": StartForecast(NOW + 90, NOW + 90, NOW + 90, "name"),
    }


def test_the_range_comes_from_what_others_took_and_is_the_same_each_time() -> None:
    before = Estimate((100.0, 200.0, 300.0, 400.0), "name")
    of = state(workload("runs", 4, before, ago=150, running=True), workload("next", 4, Estimate(), ago=20))
    found = forecast(of).starts["default/next"]
    assert found == forecast(of).starts["default/next"]
    earliest, at, latest = found.earliest or 0.0, found.at or 0.0, found.latest or 0.0
    assert NOW + 50 <= earliest < at < latest <= NOW + 250


def test_a_start_that_rests_on_nothing_says_so() -> None:
    of = state(
        workload("runs", 4, Estimate(), ago=40, running=True), workload("next", 4, Estimate((1.0,), "name"), ago=1)
    )
    start = forecast(of).starts["default/next"]
    shown = expected(start, datetime.fromtimestamp(NOW, UTC), None)
    assert (shown["known"], shown["at"]) == (False, None)
    assert shown["message"] == "unknown: a job before it has no max_duration, and nothing has ended here yet"


def test_what_never_fits_never_starts() -> None:
    start = forecast(state(workload("large", 5, Estimate((1.0,), "name"), ago=1))).starts["default/large"]
    assert start.at is None
    assert "does not start within 30 days" in expected(start, datetime.fromtimestamp(NOW, UTC), None)["message"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59.6, "1 min"),
     (90, "1 min 30 s"), (700, "12 min"), (3600, "1 h"), (5400, "1 h 30 min"), (9e4, "1 d 1 h")],
)  # fmt: skip
def test_durations_as_people_say_them(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@pytest.mark.parametrize(
    ("start", "words"),
    [
        (StartForecast(60, 120, 300, "name"), "in about 2 min (1 min to 5 min)"),
        (StartForecast(120, 120, 120, "name"), "in about 2 min"),
        (StartForecast(60, 120, None, "name"), "in about 2 min (from 1 min, open-ended)"),
        (StartForecast(-5, -1, 30, "name"), "any moment (0 s to 30 s)"),
    ],
)
def test_a_start_in_words(start: StartForecast, words: str) -> None:
    assert in_words(start, 0.0) == words
