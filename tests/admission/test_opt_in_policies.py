"""Fairway's own policies: what each does when it is set, and that it does nothing when it is not."""

from __future__ import annotations

import pytest

from fairway.admission.config import Aging, Config
from fairway.testing.builders import START, Bench, cluster_queue, moment, workload

# Aging: each preemption raises the victim


def preempted_twice(config: Config | None) -> Bench:
    """`w` is preempted by `u0` and `u1`, one after the other."""
    bench = Bench(cluster_queue(cpu=1, within="LowerPriority"), config=config, auto_release=True)
    bench.submit(workload("w", cpu=1))
    for number in range(2):
        bench.submit(workload(f"u{number}", cpu=1, priority=5))
        assert bench.state("w") == "pending"
        bench.finish(f"u{number}")
        bench.rest()
        assert bench.state("w") == "admitted"
    return bench


@pytest.mark.parametrize(
    ("config", "want_priority"),
    [
        pytest.param(None, 0, id="by default a priority stays what it is"),
        pytest.param(Config(aging=Aging(step=2, cap=10)), 4, id="each preemption adds a step"),
        pytest.param(Config(aging=Aging(step=2, cap=3)), 3, id="up to the cap"),
    ],
)
def test_preempted_workloads_age(config: Config | None, want_priority: int) -> None:
    assert preempted_twice(config).record("w").priority == want_priority


@pytest.mark.parametrize(
    ("config", "want_evicted"),
    [
        pytest.param(None, True, id="by default it is preempted again and again"),
        pytest.param(Config(aging=Aging(step=3, cap=10)), False, id="aged enough, it is preempted no more"),
    ],
)
def test_aging_protects(config: Config | None, want_evicted: bool) -> None:  # noqa: FBT001 - a table
    bench = preempted_twice(config)
    bench.submit(workload("urgent", cpu=1, priority=5))

    assert (bench.state("w") == "pending") is want_evicted


def test_an_aged_workload_goes_before_its_equals() -> None:
    orders = []
    for config in (None, Config(aging=Aging(step=1, cap=1))):
        bench = Bench(
            cluster_queue(cpu=1, within="LowerPriority", strategy="StrictFIFO"), config=config, auto_release=True
        )
        bench.submit(workload("w", cpu=1, created=10), workload("urgent", cpu=1, priority=5))
        bench.submit(workload("older", cpu=1, created=1))
        bench.finish("urgent")
        orders.append(bench.admitted())

    assert orders == [["older"], ["w"]]


def test_preemptions_before_a_resubmission_count_as_well() -> None:
    annotations = {"fairway.dev/preemptions-before": "3"}
    priorities = []
    for config in (None, Config(aging=Aging(step=2, cap=100))):
        bench = Bench(cluster_queue(cpu=1), config=config)
        bench.submit(
            workload("w", cpu=1, annotations=annotations),
            workload("odd", cpu=1, annotations={"fairway.dev/preemptions-before": "many"}),
        )
        priorities.append((bench.record("w").priority, bench.record("odd").priority))

    assert priorities == [(0, 0), (6, 0)]


def test_other_evictions_do_not_age() -> None:
    bench = Bench(cluster_queue(cpu=1), config=Config(aging=Aging(step=2, cap=100)), auto_release=True)
    bench.submit(workload("w", cpu=1))
    bench.request_eviction("w", "NodeFailures")
    bench.rest()

    assert bench.record("w").priority == 0


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
    from fairway.admission.config import FairSharing  # noqa: PLC0415 - only here

    for fair in (None, FairSharing()):
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
