"""Fairway's own policies: what each does when it is set, and that it does nothing when it is not."""

from __future__ import annotations

import pytest

from fairway.admission.config import Config
from fairway.admission.reasons import Explanation, Outcome
from fairway.testing.builders import START, Bench, cluster_queue, moment, workload

# The place in the queue of a resubmitted workload


@pytest.mark.parametrize(
    ("config", "text", "want_first"),
    [
        pytest.param(None, moment(START - 60).isoformat(), "other", id="by default only the creation time counts"),
        pytest.param(
            Config(keep_first_submit_time=True), moment(START - 60).isoformat(), "w", id="the first submit counts"
        ),
        pytest.param(
            Config(keep_first_submit_time=True),
            moment(START + 600).isoformat(),
            "other",
            id="a first submit in the future cannot push it back",
        ),
        pytest.param(Config(keep_first_submit_time=True), "yesterday", "other", id="what is no time is ignored"),
        pytest.param(
            Config(keep_first_submit_time=True), "2020-01-01T00:00:00", "other", id="nor is a time without zone"
        ),
    ],
)
def test_a_resubmitted_workload_keeps_its_place(config: Config | None, text: str, want_first: str) -> None:
    bench = Bench(cluster_queue(cpu=1, strategy="StrictFIFO"), config=config)
    bench.submit(workload("runs", cpu=1), workload("other", cpu=1))
    bench.submit(workload("w", cpu=1, annotations={"fairway.dev/first-submitted-at": text}))
    bench.finish("runs")

    assert bench.admitted() == [want_first]


# A minimum run time


def test_by_default_a_workload_may_be_preempted_at_once() -> None:
    bench = Bench(cluster_queue(cpu=1, within="LowerPriority"))
    bench.submit(workload("w", cpu=1), workload("urgent", cpu=1, priority=1))

    assert bench.evictions() == [("w", "InClusterQueue")]


def test_nobody_is_preempted_before_the_minimum_run_time() -> None:
    bench = Bench(cluster_queue(cpu=1, within="LowerPriority"), config=Config(minimum_run_seconds=100))
    bench.rest()
    admitted_at = bench.now
    bench.submit(workload("w", cpu=1), workload("urgent", cpu=1, priority=1))
    assert bench.evictions() == []
    assert bench.engine.next_wakeup == admitted_at + 100

    bench.advance(90)
    assert bench.evictions() == []
    bench.advance(10)
    assert bench.evictions() == [("w", "InClusterQueue")]


def test_those_who_ran_long_enough_go_instead() -> None:
    bench = Bench(cluster_queue(cpu=2, within="LowerPriority"), config=Config(minimum_run_seconds=100))
    bench.submit(workload("old", cpu=1, priority=1))
    bench.advance(200)
    bench.submit(workload("new", cpu=1), workload("urgent", cpu=1, priority=2))

    assert bench.evictions() == [("old", "InClusterQueue")]


def test_the_minimum_run_time_holds_for_reclaiming_and_fair_sharing_too() -> None:
    from fairway.apis.kueue.configuration import FairSharingPolicy  # noqa: PLC0415 - only here

    for fair in (None, FairSharingPolicy()):
        config = Config(minimum_run_seconds=100, fair_sharing=fair)
        bench = Bench(
            cluster_queue("a", cpu=1, cohort="all", reclaim="Any"),
            cluster_queue("b", cpu=0, cohort="all"),
            config=config,
        )
        bench.submit(workload("borrower", queue="b", cpu=1), workload("owner", queue="a", cpu=1))
        assert bench.evictions() == []
        bench.advance(100)
        assert bench.evictions() == [("borrower", "InCohortReclamation")]


def test_other_evictions_ask_for_no_minimum_run_time() -> None:
    bench = Bench(cluster_queue(cpu=1), config=Config(minimum_run_seconds=100))
    bench.submit(workload("w", cpu=1))
    bench.request_eviction("w", "NodeFailures")

    assert bench.evicting() == ["w"]


# Admission on hold


def test_on_hold_nothing_is_admitted_or_preempted_and_everybody_is_told_why() -> None:
    queue = cluster_queue(cpu=1, within="LowerPriority")
    bench = Bench(queue, config=Config(hold_admission=True))
    bench.submit(workload("w", cpu=1), workload("urgent", cpu=1, priority=1))
    bench.rest()

    why = bench.why("w")
    assert (bench.admitted(), bench.evictions()) == ([], [])
    assert why is not None
    assert why.explanation == Explanation(Outcome.ON_HOLD)
