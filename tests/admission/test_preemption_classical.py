"""Whom a workload may preempt and in which order, without fair sharing."""

from __future__ import annotations

import pytest

from fairway.admission import wording
from fairway.admission.instructions import Evict, Preemption, PreemptionReason
from fairway.apis.kueue.objects import Workload
from fairway.testing.builders import Bench, Limited, Object, cluster_queue, cohort, on, pod_set, workload

IN_QUEUE = "InClusterQueue"
RECLAIM = "InCohortReclamation"
WHILE_BORROWING = "InCohortReclaimWhileBorrowing"


def evicted_for(bench: Bench, preemptor: Workload) -> dict[str, str]:
    """Submit one more, and see who is evicted for it and by which right."""
    before = len(bench.evictions())
    bench.submit(preemptor)
    return dict(bench.evictions()[before:])


@pytest.mark.parametrize(
    ("within", "priority", "created", "want_evicted"),
    [
        pytest.param("Never", 9, 5, {}, id="Never preempts nobody"),
        pytest.param("LowerPriority", 9, 5, {"holder": IN_QUEUE}, id="LowerPriority preempts lower ones"),
        pytest.param("LowerPriority", 5, 0, {}, id="LowerPriority spares equals, however new"),
        pytest.param("LowerPriority", 4, 0, {}, id="LowerPriority spares higher ones"),
        pytest.param(
            "LowerOrNewerEqualPriority", 9, 5, {"holder": IN_QUEUE}, id="LowerOrNewerEqual preempts lower ones"
        ),
        pytest.param("LowerOrNewerEqualPriority", 5, 0, {"holder": IN_QUEUE}, id="and newer equals"),
        pytest.param("LowerOrNewerEqualPriority", 5, 1, {}, id="but not equals of the same second"),
        pytest.param("LowerOrNewerEqualPriority", 5, 5, {}, id="nor older equals"),
        pytest.param("LowerOrNewerEqualPriority", 4, 0, {}, id="nor higher ones, however new"),
    ],
)
def test_policies_within_the_queue(within: str, priority: int, created: float, want_evicted: dict[str, str]) -> None:
    bench = Bench(cluster_queue(cpu=4, within=within))
    bench.submit(workload("holder", cpu=4, priority=5, created=1))

    assert evicted_for(bench, workload("w", cpu=4, priority=priority, created=created)) == want_evicted


@pytest.mark.parametrize(
    ("reclaim", "priority", "asked", "want_evicted"),
    [
        pytest.param("Never", 9, 4, {}, id="Never reclaims nothing"),
        pytest.param("Any", 0, 4, {"borrower": RECLAIM}, id="Any reclaims from higher ones too"),
        pytest.param("LowerPriority", 9, 4, {"borrower": RECLAIM}, id="LowerPriority reclaims from lower ones"),
        pytest.param("LowerPriority", 5, 4, {}, id="LowerPriority spares equals"),
        pytest.param("Any", 9, 5, {}, id="nothing is reclaimed for more than one's own"),
    ],
)
def test_policies_for_reclaiming_lent_quota(
    reclaim: str, priority: int, asked: int, want_evicted: dict[str, str]
) -> None:
    bench = Bench(cluster_queue(cpu=4, cohort="all", reclaim=reclaim), cluster_queue("other", cpu=4, cohort="all"))
    bench.submit(workload("borrower", queue="other", cpu=8, priority=5))

    assert evicted_for(bench, workload("w", cpu=asked, priority=priority)) == want_evicted


def test_a_queue_within_its_own_quota_is_not_reclaimed_from() -> None:
    bench = Bench(cluster_queue(cpu=4, cohort="all", reclaim="Any"), cluster_queue("other", cpu=4, cohort="all"))
    bench.submit(workload("own", queue="other", cpu=4), workload("mine", cpu=4))

    assert evicted_for(bench, workload("w", cpu=4, priority=9)) == {}


def test_a_borrower_is_brought_down_to_its_own_quota_and_no_further() -> None:
    bench = Bench(cluster_queue(cpu=4, cohort="all", reclaim="Any"), cluster_queue("other", cpu=4, cohort="all"))
    bench.submit(*(workload(f"b{number}", queue="other", cpu=1) for number in range(8)))

    evicted = evicted_for(bench, workload("w", cpu=4))

    assert evicted == dict.fromkeys(["b7", "b6", "b5", "b4"], RECLAIM)
    assert evicted_for(bench, workload("next", cpu=1)) == {}


@pytest.mark.parametrize(
    ("holders", "asked", "want_evicted"),
    [
        pytest.param(
            [workload("low", cpu=2, priority=1), workload("lower", cpu=2)],
            2,
            ["lower"],
            id="the lowest priority goes first",
        ),
        pytest.param(
            [workload("old", cpu=2), workload("new", cpu=2)], 2, ["new"], id="among equals the last admitted goes first"
        ),
        pytest.param(
            [workload("small", cpu=1), workload("large", cpu=3, priority=1)],
            3,
            ["large"],
            id="fill-back spares who turns out not to be needed",
        ),
        pytest.param(
            [workload("one", cpu=1), workload("two", cpu=1, priority=1), workload("three", cpu=2, priority=2)],
            3,
            ["one", "three"],
            id="fill-back spares the highest of those who are not needed",
        ),
        pytest.param(
            [workload("a", cpu=1), workload("b", cpu=1), workload("c", cpu=1), workload("d", cpu=1)],
            2,
            ["c", "d"],
            id="only as many as are needed",
        ),
        pytest.param(
            [workload("low", cpu=2), workload("high", cpu=2, priority=99)],
            4,
            [],
            id="nobody is evicted when all candidates together are not enough",
        ),
    ],
)
def test_victims_are_few_and_the_right_ones(holders: list[Workload], asked: int, want_evicted: list[str]) -> None:
    bench = Bench(cluster_queue(cpu=4, within="LowerPriority"))
    bench.submit(*holders)

    assert sorted(evicted_for(bench, workload("w", cpu=asked, priority=9))) == want_evicted


def test_only_who_uses_what_is_short_is_evicted() -> None:
    bench = Bench(cluster_queue(cpu=4, memory=4, within="LowerPriority"))
    bench.submit(workload("on-memory", memory=2), workload("on-cpu", cpu=3, priority=1))

    assert evicted_for(bench, workload("w", cpu=2, memory=2, priority=9)) == {"on-cpu": IN_QUEUE}


def test_those_being_evicted_are_counted_on_first() -> None:
    """Their room comes anyway: nobody else needs to go."""
    bench = Bench(cluster_queue(cpu=4, within="LowerPriority"))
    bench.submit(workload("stopping", cpu=2, priority=5), workload("low", cpu=2))
    bench.request_eviction("stopping", "NodeFailures")

    assert evicted_for(bench, workload("w", cpu=2, priority=9)) == {}
    assert bench.message("w").endswith("Pending the preemption of 1 workload(s)")

    bench.release("stopping")

    assert bench.admitted() == ["low", "w"]


def test_the_queue_time_of_one_being_evicted_is_that_of_its_eviction() -> None:
    """Evicted for its pods, `old` counts as newer than `w`, so its room is counted on. Once, `mid` had to go too."""
    bench = Bench(cluster_queue(cpu=4, within="LowerOrNewerEqualPriority"))
    bench.submit(workload("old", cpu=2, created=0), workload("mid", cpu=2, created=2))
    bench.request_eviction("old", "PodsReadyTimeout")

    assert evicted_for(bench, workload("w", cpu=2, created=1)) == {}


def test_other_queues_go_before_ones_own() -> None:
    bench = Bench(
        cluster_queue(cpu=4, cohort="all", reclaim="Any", within="LowerPriority"),
        cluster_queue("other", cpu=0, cohort="all"),
    )
    bench.submit(workload("mine", cpu=2), workload("theirs", queue="other", cpu=2, priority=5))

    assert evicted_for(bench, workload("w", cpu=2, priority=9)) == {"theirs": RECLAIM}


def test_ones_own_and_others_together() -> None:
    bench = Bench(
        cluster_queue(cpu=4, cohort="all", reclaim="Any", within="LowerPriority"),
        cluster_queue("other", cpu=0, cohort="all"),
    )
    bench.submit(workload("mine", cpu=2), workload("theirs", queue="other", cpu=2, priority=5))

    assert evicted_for(bench, workload("w", cpu=4, priority=9)) == {"mine": IN_QUEUE, "theirs": RECLAIM}


def test_a_queue_beyond_its_own_may_only_preempt_in_itself() -> None:
    bench = Bench(
        cluster_queue(cpu=2, cohort="all", reclaim="Any", within="LowerPriority"),
        cluster_queue("other", cpu=2, cohort="all"),
        cohort("all", cpu=2),
    )
    bench.submit(workload("large", cpu=2), workload("small", cpu=1), workload("theirs", queue="other", cpu=3))

    assert evicted_for(bench, workload("w", cpu=2, priority=9)) == {"large": IN_QUEUE}


def test_nothing_is_preempted_for_more_than_ones_own_quota() -> None:
    bench = Bench(cluster_queue(cpu=2, cohort="all", reclaim="Any", within="LowerPriority"), cohort("all", cpu=2))
    bench.submit(workload("mine", cpu=4))

    assert evicted_for(bench, workload("w", cpu=3, priority=9)) == {}
    assert bench.message("w").endswith("insufficient unused quota for cpu in flavor default, 3 more needed")


@pytest.mark.parametrize(
    ("borrow_within", "victim_priority", "want_evicted"),
    [
        pytest.param("Never", 0, {}, id="Never takes nothing for borrowing"),
        pytest.param("LowerPriority", 0, {"theirs": WHILE_BORROWING}, id="LowerPriority takes from lower ones"),
        pytest.param("LowerPriority", 9, {}, id="LowerPriority spares equals"),
        pytest.param(3, 3, {"theirs": WHILE_BORROWING}, id="up to the threshold"),
        pytest.param(3, 4, {}, id="not above the threshold"),
        pytest.param(99, 9, {}, id="a high threshold does not let it take from equals"),
    ],
)
def test_preempting_in_order_to_borrow(
    borrow_within: str | int, victim_priority: int, want_evicted: dict[str, str]
) -> None:
    bench = Bench(
        cluster_queue(cpu=1, cohort="all", reclaim="Any", borrow_within=borrow_within),
        cluster_queue("other", cpu=1, cohort="all"),
        cohort("all", cpu=2),
    )
    bench.submit(workload("theirs", queue="other", cpu=4, priority=victim_priority))

    assert evicted_for(bench, workload("w", cpu=2, priority=9)) == want_evicted


def test_the_threshold_only_counts_for_borrowing() -> None:
    bench = Bench(
        cluster_queue(cpu=2, cohort="all", reclaim="Any", borrow_within=3), cluster_queue("other", cpu=2, cohort="all")
    )
    bench.submit(workload("theirs", queue="other", cpu=4, priority=50))

    assert evicted_for(bench, workload("w", cpu=2, priority=9)) == {"theirs": RECLAIM}


def hierarchy() -> list[Object]:
    """Two sides of one root; the left side owns four, shared by two queues."""
    return [
        cohort("root"),
        cohort("left", cpu=4, parent="root"),
        cohort("right", parent="root"),
        cluster_queue("near", cpu=0, cohort="left", reclaim="LowerPriority"),
        cluster_queue("sibling", cpu=0, cohort="left"),
        cluster_queue("far", cpu=0, cohort="right"),
    ]


def test_what_a_subtree_owns_is_reclaimed_from_outside_it() -> None:
    """Within the left side's quota the queue borrows from its cohort, but has the better claim against the right."""
    bench = Bench(*hierarchy())
    bench.submit(workload("outside", queue="far", cpu=4))

    assert evicted_for(bench, workload("w", queue="near", cpu=4, priority=1)) == {"outside": RECLAIM}


def test_siblings_that_borrow_the_same_quota_are_not_reclaimed_from() -> None:
    bench = Bench(*hierarchy())
    bench.submit(workload("beside", queue="sibling", cpu=4))

    assert evicted_for(bench, workload("w", queue="near", cpu=4, priority=1)) == {}


def test_a_side_that_is_within_its_own_is_left_alone() -> None:
    bench = Bench(
        cohort("root"),
        cohort("left", cpu=2, parent="root"),
        cohort("right", cpu=4, parent="root"),
        cluster_queue("near", cpu=0, cohort="left", reclaim="Any"),
        cluster_queue("far", cpu=0, cohort="right"),
        cluster_queue("lender", cpu=0, cohort="left"),
    )
    bench.submit(workload("within", queue="far", cpu=4), workload("mine", queue="lender", cpu=2))

    assert evicted_for(bench, workload("w", queue="near", cpu=2, priority=1)) == {}


def test_a_side_is_reclaimed_from_only_until_it_is_within_its_own() -> None:
    bench = Bench(
        cohort("root"),
        cohort("left", cpu=4, parent="root"),
        cohort("right", cpu=2, parent="root"),
        cluster_queue("near", cpu=0, cohort="left", reclaim="Any"),
        cluster_queue("far", cpu=0, cohort="right"),
    )
    bench.submit(*(workload(f"f{number}", queue="far", cpu=1) for number in range(6)))

    assert sorted(evicted_for(bench, workload("w", queue="near", cpu=4, priority=1))) == ["f2", "f3", "f4", "f5"]
    assert evicted_for(bench, workload("next", queue="near", cpu=1, priority=1)) == {}


def test_two_preemptors_do_not_count_on_the_same_victim() -> None:
    queues = [cluster_queue(name, cpu=2, cohort="all", reclaim="Any") for name in ("a", "b")]
    bench = Bench(*queues, cluster_queue("borrower", cpu=0, cohort="all"))
    bench.submit(workload("theirs", queue="borrower", cpu=4))
    bench.submit_together(workload("wa", queue="a", cpu=2), workload("wb", queue="b", cpu=2))

    assert bench.evictions() == [("theirs", RECLAIM)]
    assert bench.message("wb") == "Workload has overlapping preemption targets with another workload"

    bench.release("theirs")
    bench.rest()

    assert (bench.admitted(), bench.evictions()) == (["wa", "wb"], [("theirs", RECLAIM)])


def test_two_preemptors_with_victims_of_their_own_go_in_one_cycle() -> None:
    queues = [cluster_queue(name, cpu=2, cohort="all", within="LowerPriority") for name in ("a", "b")]
    bench = Bench(*queues)
    bench.submit(workload("va", queue="a", cpu=2), workload("vb", queue="b", cpu=2))
    bench.submit_together(workload("wa", queue="a", cpu=2, priority=1), workload("wb", queue="b", cpu=2, priority=1))

    assert sorted(bench.evictions()) == [("va", IN_QUEUE), ("vb", IN_QUEUE)]


def test_who_needs_no_borrowing_is_served_before_a_higher_priority_that_does() -> None:
    bench = Bench(cluster_queue("a", cpu=2, cohort="all"), cluster_queue("b", cpu=2, cohort="all"))
    bench.submit_together(workload("borrows", queue="a", cpu=3, priority=9), workload("owns", queue="b", cpu=2))

    assert bench.admitted() == ["owns"]


def test_among_those_who_borrow_the_higher_priority_is_served_first() -> None:
    queues = [cluster_queue(name, cpu=0, cohort="all") for name in ("a", "b")]
    bench = Bench(*queues, cohort("all", cpu=2))
    bench.submit_together(workload("low", queue="a", cpu=2), workload("high", queue="b", cpu=2, priority=1))

    assert bench.admitted() == ["high"]


@pytest.mark.parametrize(
    ("strategy", "want_admitted"),
    [
        pytest.param("StrictFIFO", ["holder"], id="a StrictFIFO head keeps it for as long as it is stuck"),
        pytest.param(
            "BestEffortFIFO", ["borrower", "holder"], id="a BestEffortFIFO head only in the cycle it is tried in"
        ),
    ],
)
def test_a_head_without_candidates_keeps_its_room_from_later_heads(strategy: str, want_admitted: list[str]) -> None:
    bench = Bench(cluster_queue("a", cpu=4, cohort="all", strategy=strategy), cluster_queue("b", cpu=0, cohort="all"))
    bench.submit(workload("holder", queue="a", cpu=2))
    bench.submit_together(workload("blocked", queue="a", cpu=4, priority=9), workload("borrower", queue="b", cpu=2))
    bench.rest()

    assert bench.admitted() == want_admitted


def test_a_head_that_could_reclaim_everything_keeps_nothing() -> None:
    strict = cluster_queue("a", cpu=4, cohort="all", reclaim="Any", strategy="StrictFIFO")
    bench = Bench(strict, cluster_queue("b", cpu=0, cohort="all"))
    bench.submit(workload("holder", queue="a", cpu=2))
    bench.submit_together(workload("blocked", queue="a", cpu=4, priority=9), workload("borrower", queue="b", cpu=2))

    assert bench.admitted() == ["borrower", "holder"]


def test_stopped_queues_lend_but_are_not_preempted() -> None:
    """Absent from scheduling, their holders cannot be victims, while their idle quota still counts for the cohort."""
    other = cluster_queue("other", cpu=4, cohort="all")
    bench = Bench(cluster_queue(cpu=4, cohort="all", reclaim="Any"), other)
    bench.submit(workload("borrower", queue="other", cpu=6))
    bench.apply(cluster_queue("other", cpu=4, cohort="all", stop="Hold"))

    assert evicted_for(bench, workload("w", cpu=4)) == {}

    bench.finish("borrower")
    bench.submit(workload("large", cpu=8))

    assert bench.state("large") == "admitted"


def test_an_eviction_says_for_whom_and_by_which_right() -> None:
    bench = Bench(
        cohort("root"),
        cohort("left", cpu=Limited(2), parent="root"),
        cluster_queue("near", cpu=2, cohort="left", reclaim="Any"),
        cluster_queue("far", cpu=0, cohort="root"),
    )
    bench.submit(workload("victim", queue="far", cpu=4))
    said = bench.submit(workload("w", queue="near", cpu=2, uid="u1", labels={"kueue.x-k8s.io/job-uid": "j1"}))
    (eviction,) = (each for each in said if isinstance(each, Evict))

    assert eviction.preemption == Preemption(
        reason=PreemptionReason.RECLAMATION,
        preemptor="ns/w",
        preemptor_uid="u1",
        preemptor_job_uid="j1",
        preemptor_path=("root", "left", "near"),
        path=("root", "far"),
    )
    assert wording.eviction(eviction) == (
        "Preempted to accommodate a workload (UID: u1, JobUID: j1) due to reclamation within the cohort;"
        " preemptor path: /root/left/near; preemptee path: /root/far"
    )


def test_several_pod_sets_on_several_flavors_are_made_room_for_together() -> None:
    bench = Bench(cluster_queue("cq", on("first", cpu=2), on("second", cpu=2), within="LowerPriority"))
    bench.submit(workload("a", cpu=2), workload("b", cpu=2))
    asking = workload("w", pod_set("head", cpu=2), pod_set("workers", cpu=2), priority=1)

    assert evicted_for(bench, asking) == {"a": IN_QUEUE, "b": IN_QUEUE}

    bench.release("a")
    assert bench.state("w") == "pending"
    bench.release("b")
    assert (bench.flavors_of("w", "head"), bench.flavors_of("w", "workers")) == ({"cpu": "first"}, {"cpu": "second"})
