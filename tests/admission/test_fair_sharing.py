"""Fair sharing: who is served first by share, and who is taken from."""

from __future__ import annotations

import math

import pytest

from fairway.admission.config import Config
from fairway.admission.quota import CohortNode, Leaf, Quota
from fairway.admission.resources import FlavorResources
from fairway.admission.shares import DominantShare, share_of, weighted_share
from fairway.apis.kueue.configuration import FairSharingPolicy, PreemptionStrategy
from fairway.apis.kueue.objects import ClusterQueue
from fairway.testing.builders import Bench, cluster_queue, cohort, workload

FAIR = Config(fair_sharing=FairSharingPolicy())
FINAL = PreemptionStrategy.FINAL_SHARE
INITIAL = PreemptionStrategy.INITIAL_SHARE

FAIRLY = "InCohortFairSharing"
RECLAIM = "InCohortReclamation"


def team(
    name: str,
    cpu: int = 0,
    *,
    weight: float | None = None,
    cohort: str = "all",
    reclaim: str = "Any",
    within: str = "Never",
) -> ClusterQueue:
    return cluster_queue(name, cpu=cpu, cohort=cohort, weight=weight, reclaim=reclaim, within=within)


def run(bench: Bench, queue: str, *names: str, cpu: int = 1, priority: int = 0) -> None:
    bench.submit(*(workload(name, queue=queue, cpu=cpu, priority=priority) for name in names))


# Shares


@pytest.mark.parametrize(
    ("used", "weight", "want_value", "want_shown"),
    [
        pytest.param({"cpu": 4}, 1.0, 0.0, 0, id="within its own quota a share is nothing"),
        pytest.param({"cpu": 7}, 1.0, 300.0, 300, id="what it borrows, in thousandths of all there is to lend"),
        pytest.param({"cpu": 7}, 2.0, 150.0, 150, id="half for twice the weight"),
        pytest.param({"cpu": 5}, 3.0, 100 / 3, 34, id="shown rounded up"),
        pytest.param({"cpu": 5, "gpu": 2}, 1.0, 400.0, 400, id="the most contended resource counts"),
        pytest.param({"cpu": 5}, 0.0, math.inf, 2**63 - 1, id="without weight any borrowing is boundless"),
        pytest.param({"cpu": 4}, 0.0, 0.0, 0, id="without weight and without borrowing it is nothing"),
    ],
)
def test_the_share_of_a_queue(used: dict[str, int], weight: float, want_value: float, want_shown: int) -> None:
    frs = FlavorResources()
    cpu, gpu = frs.get("f", "cpu"), frs.get("f", "gpu")
    queue, root = Leaf("queue"), CohortNode("root")
    queue.weight = weight
    queue.set_quotas({cpu: Quota(4), gpu: Quota(0)})
    root.set_quotas({cpu: Quota(6), gpu: Quota(5)})
    queue.parent = root
    root.leaves.append(queue)
    root.compile()
    for name, amount in used.items():
        queue.add(frs.get("f", name), amount)

    share = share_of(queue)

    assert (share.value, weighted_share(share)) == (want_value, want_shown)


def test_boundless_shares_are_compared_by_what_is_borrowed() -> None:
    some, more = DominantShare(100.0, 0.0, ()), DominantShare(200.0, 0.0, ())
    huge = DominantShare(1e9, 1.0, ())

    assert huge.rank < some.rank < more.rank


# Who is served first


def test_the_lower_share_is_served_first() -> None:
    """Each has borrowed before, b more than a; one place is left."""
    bench = Bench(team("a", reclaim="Never"), team("b", reclaim="Never"), cohort("all", cpu=4), config=FAIR)
    run(bench, "a", "a1")
    run(bench, "b", "b1", "b2")
    bench.submit_together(workload("wb", queue="b", cpu=1, priority=9), workload("wa", queue="a", cpu=1))

    assert bench.admitted() == ["a1", "b1", "b2", "wa"]


def test_more_weight_makes_a_share_smaller() -> None:
    queues = (team("a", reclaim="Never"), team("b", reclaim="Never", weight=4))
    bench = Bench(*queues, cohort("all", cpu=4), config=FAIR)
    run(bench, "a", "a1")
    run(bench, "b", "b1", "b2")
    bench.submit_together(workload("wb", queue="b", cpu=1), workload("wa", queue="a", cpu=1, priority=9))

    assert bench.admitted() == ["a1", "b1", "b2", "wb"]


def test_a_queue_without_weight_is_served_last() -> None:
    bench = Bench(team("a", weight=0, reclaim="Never"), team("b", reclaim="Never"), cohort("all", cpu=3), config=FAIR)
    run(bench, "b", "b1", "b2")
    bench.submit_together(workload("wa", queue="a", cpu=1, priority=9), workload("wb", queue="b", cpu=1))

    assert bench.admitted() == ["b1", "b2", "wb"]


def test_who_does_not_borrow_is_served_first() -> None:
    """Of what they ask for, b borrows nothing, though it has borrowed something else and so has the larger share."""
    bench = Bench(
        cluster_queue("a", cpu=0, memory=0, cohort="all"),
        cluster_queue("b", cpu=1, memory=0, cohort="all"),
        cohort("all", cpu=0, memory=10),
        config=FAIR,
    )
    bench.submit(workload("b1", queue="b", memory=9))
    bench.submit_together(workload("wa", queue="a", cpu=1, priority=9), workload("wb", queue="b", cpu=1))

    assert bench.admitted() == ["b1", "wb"]


@pytest.mark.parametrize(
    ("priority", "created", "want_admitted"),
    [
        pytest.param(1, 5, ["wb"], id="between equal shares the higher priority decides"),
        pytest.param(0, 5, ["wa"], id="between equal priorities the older is served first"),
        pytest.param(0, -5, ["wb"], id="whichever queue it is in"),
    ],
)
def test_equal_shares(priority: int, created: float, want_admitted: list[str]) -> None:
    bench = Bench(team("a", reclaim="Never"), team("b", reclaim="Never"), cohort("all", cpu=1), config=FAIR)
    other = workload("wb", queue="b", cpu=1, priority=priority, created=created)
    bench.submit_together(workload("wa", queue="a", cpu=1, created=0), other)

    assert bench.admitted() == want_admitted


def test_shares_are_compared_again_after_every_pick() -> None:
    """Six places, both start with nothing: they take turns instead of one taking all."""
    bench = Bench(team("a", reclaim="Never"), team("b", reclaim="Never"), cohort("all", cpu=6), config=FAIR)
    bench.submit_together(
        *(workload(f"{queue}{number}", queue=queue, cpu=1) for queue in ("a", "b") for number in range(6))
    )

    assert bench.admitted() == ["a0", "a1", "a2", "b0", "b1", "b2"]


def test_cohorts_compete_as_one() -> None:
    """The two queues on the left together get as much as the one on the right."""
    bench = Bench(
        cohort("root", cpu=4),
        cohort("left", parent="root"),
        cohort("right", parent="root"),
        team("l1", cohort="left", reclaim="Never"),
        team("l2", cohort="left", reclaim="Never"),
        team("r1", cohort="right", reclaim="Never"),
        config=FAIR,
    )
    bench.submit_together(
        *(workload(f"{queue}-{number}", queue=queue, cpu=1) for queue in ("l1", "l2", "r1") for number in range(4))
    )

    assert sorted(name[:2] for name in bench.admitted()) == ["l1", "l2", "r1", "r1"]


# Who is taken from


def test_a_queue_with_nothing_takes_from_the_one_with_most() -> None:
    bench = Bench(team("a"), team("b"), team("c"), cohort("all", cpu=6), config=FAIR)
    run(bench, "a", "a1", "a2")
    run(bench, "b", "b1", "b2", "b3", "b4")
    run(bench, "c", "c1")

    assert bench.evictions() == [("b4", FAIRLY)]


def test_it_stops_when_shares_are_equal() -> None:
    bench = Bench(team("a"), team("b"), cohort("all", cpu=4), config=FAIR, auto_release=True)
    run(bench, "b", "b1", "b2", "b3", "b4")
    run(bench, "a", "a1", "a2", "a3")

    assert bench.evictions() == [("b4", FAIRLY), ("b3", FAIRLY)]
    assert bench.admitted() == ["a1", "a2", "b1", "b2"]


def test_the_same_events_without_fair_sharing_take_nothing() -> None:
    bench = Bench(team("a"), team("b"), cohort("all", cpu=4), auto_release=True)
    run(bench, "b", "b1", "b2", "b3", "b4")
    run(bench, "a", "a1", "a2", "a3")

    assert bench.evictions() == []


def test_ones_own_quota_is_taken_back_from_any_borrower_unconditionally() -> None:
    """Even from a queue whose share, with its weight, is far below: the preemptor stays within nominal."""
    bench = Bench(team("a", cpu=2), team("b", cpu=2, weight=1000), config=FAIR)
    run(bench, "b", "b1", "b2", "b3", "b4", priority=9)
    run(bench, "a", "a1", cpu=2)

    assert sorted(bench.evictions()) == [("b3", RECLAIM), ("b4", RECLAIM)]


@pytest.mark.parametrize(
    ("strategies", "want_evicted"),
    [
        pytest.param((FINAL,), [], id="FinalShare: the victim would end with less than the preemptor"),
        pytest.param((INITIAL,), [("large", FAIRLY)], id="InitialShare: the preemptor has less than the victim had"),
        pytest.param((FINAL, INITIAL), [("large", FAIRLY)], id="both: the second strategy takes what the first spared"),
    ],
)
def test_strategies(strategies: tuple[PreemptionStrategy, ...], want_evicted: list[tuple[str, str]]) -> None:
    """b holds everything with one workload; a asks for half. Without it b has nothing, so a would end with more."""
    config = Config(fair_sharing=FairSharingPolicy(strategies=strategies))
    bench = Bench(team("a"), team("b"), cohort("all", cpu=4), config=config)
    run(bench, "b", "large", cpu=4)
    run(bench, "a", "w", cpu=2)

    assert bench.evictions() == want_evicted


@pytest.mark.parametrize("strategies", [(FINAL,), (INITIAL,), (FINAL, INITIAL)])
def test_no_strategy_lets_a_queue_take_from_one_with_less(strategies: tuple[PreemptionStrategy, ...]) -> None:
    bench = Bench(
        team("a"), team("b"), cohort("all", cpu=4), config=Config(fair_sharing=FairSharingPolicy(strategies=strategies))
    )
    run(bench, "a", "a1", "a2", "a3")
    run(bench, "b", "b1")
    run(bench, "a", "more", priority=9)

    assert bench.evictions() == []


def test_priorities_still_count_within_the_own_queue() -> None:
    bench = Bench(team("a", within="LowerPriority"), team("b"), cohort("all", cpu=4), config=FAIR)
    run(bench, "a", "a1", "a2")
    run(bench, "b", "b1", "b2")
    run(bench, "a", "urgent", priority=9)

    assert bench.evictions() == [("a2", "InClusterQueue")]


@pytest.mark.parametrize(
    ("reclaim", "priority", "want_evicted"),
    [
        pytest.param("Never", 9, [], id="Never takes from no other queue"),
        pytest.param("LowerPriority", 1, [("b4", FAIRLY)], id="LowerPriority takes from lower ones"),
        pytest.param("LowerPriority", 0, [], id="LowerPriority spares equals"),
        pytest.param("Any", -1, [("b4", FAIRLY)], id="Any takes from higher ones too"),
    ],
)
def test_policies_hold_under_fair_sharing(reclaim: str, priority: int, want_evicted: list[tuple[str, str]]) -> None:
    bench = Bench(team("a", reclaim=reclaim), team("b"), cohort("all", cpu=4), config=FAIR)
    run(bench, "b", "b1", "b2", "b3", "b4")
    run(bench, "a", "w", priority=priority)

    assert bench.evictions() == want_evicted


def test_a_queue_without_weight_gives_everything_it_borrowed() -> None:
    bench = Bench(team("a"), team("b", weight=0), cohort("all", cpu=4), config=FAIR, auto_release=True)
    run(bench, "b", "b1", "b2", "b3", "b4")
    run(bench, "a", "a1", "a2", "a3", "a4")

    assert bench.admitted() == ["a1", "a2", "a3", "a4"]


def test_a_queue_without_weight_takes_from_nobody_who_has_some() -> None:
    bench = Bench(team("a", weight=0), team("b"), cohort("all", cpu=4), config=FAIR)
    run(bench, "b", "b1", "b2", "b3", "b4")
    run(bench, "a", "a1")

    assert bench.evictions() == []


def test_a_queue_within_its_own_is_never_taken_from() -> None:
    bench = Bench(team("a"), team("b", cpu=4), config=FAIR)
    run(bench, "b", "b1", "b2", "b3", "b4")
    run(bench, "a", "a1", priority=9)

    assert bench.evictions() == []


def test_the_heavier_side_of_the_tree_is_taken_from() -> None:
    bench = Bench(
        cohort("root", cpu=6),
        cohort("left", parent="root"),
        cohort("right", parent="root"),
        team("l1", cohort="left"),
        team("l2", cohort="left"),
        team("r1", cohort="right"),
        team("r2", cohort="right"),
        config=FAIR,
        auto_release=True,
    )
    run(bench, "l1", "l1-a", "l1-b", "l1-c")
    run(bench, "r1", "r1-a", "r1-b", "r1-c")
    run(bench, "l2", "l2-a")

    assert bench.evictions() == [("l1-c", FAIRLY)]


def test_fair_preemption_spares_who_is_not_needed() -> None:
    bench = Bench(team("a", cpu=4), team("b"), config=FAIR)
    run(bench, "b", "large", cpu=3)
    run(bench, "b", "small", cpu=1)
    run(bench, "a", "w", cpu=3)

    assert bench.evictions() == [("large", RECLAIM)]
