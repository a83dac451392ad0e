"""Whether to settle for a flavor that needs borrowing or preemption, or to look at the next."""

from __future__ import annotations

import pytest

from fairway.apis.kueue.objects import ClusterQueue, Workload
from fairway.testing.builders import Bench, Limited, cluster_queue, cohort, flavor, on, pod_set, workload

MAY_STOP = "MayStopSearch"
TRY_NEXT = "TryNextFlavor"


@pytest.mark.parametrize(
    ("when_can_borrow", "second", "want_flavor"),
    [
        pytest.param(MAY_STOP, 4, "first", id="MayStopSearch borrows the first flavor"),
        pytest.param(TRY_NEXT, 4, "second", id="TryNextFlavor takes a later one that needs no borrowing"),
        pytest.param(TRY_NEXT, 1, "first", id="TryNextFlavor borrows when no other will do"),
    ],
)
def test_when_a_flavor_can_be_borrowed(when_can_borrow: str, second: int, want_flavor: str) -> None:
    bench = Bench(
        cluster_queue(
            "cq", on("first", cpu=2), on("second", cpu=second), cohort="all", when_can_borrow=when_can_borrow
        ),
        cluster_queue("lender", on("first", cpu=4), cohort="all"),
    )
    bench.submit(workload("w", cpu=4))

    assert bench.flavors_of("w") == {"cpu": want_flavor}


@pytest.mark.parametrize(
    ("when_can_preempt", "first_priority", "second", "want_flavor", "want_evicted"),
    [
        pytest.param(TRY_NEXT, 0, 4, "second", [], id="TryNextFlavor takes a later one that needs no preemption"),
        pytest.param(MAY_STOP, 0, 4, "first", ["holder"], id="MayStopSearch preempts in the first"),
        pytest.param(TRY_NEXT, 0, 1, "first", ["holder"], id="TryNextFlavor preempts when no other will do"),
        pytest.param(MAY_STOP, 9, 4, "second", [], id="a flavor without candidates is passed over even so"),
    ],
)
def test_when_a_flavor_needs_preemption(
    when_can_preempt: str, first_priority: int, second: int, want_flavor: str, want_evicted: list[str]
) -> None:
    flavors = (on("first", cpu=4), on("second", cpu=second))
    queue = cluster_queue("cq", *flavors, within="LowerPriority", when_can_preempt=when_can_preempt)
    bench = Bench(queue, auto_release=True)
    bench.submit(workload("holder", cpu=4, priority=first_priority), workload("w", cpu=4, priority=5))

    assert bench.flavors_of("w") == {"cpu": want_flavor}
    assert [name for name, _ in bench.evictions()] == want_evicted


@pytest.mark.parametrize(
    ("preference", "want_flavor", "want_evicted"),
    [
        pytest.param(None, "borrowed", [], id="by default borrowing is preferred to preemption"),
        pytest.param("BorrowingOverPreemption", "borrowed", [], id="BorrowingOverPreemption says so"),
        pytest.param("PreemptionOverBorrowing", "own", ["holder"], id="PreemptionOverBorrowing turns it round"),
    ],
)
def test_the_preference_between_borrowing_and_preemption(
    preference: str | None, want_flavor: str, want_evicted: list[str]
) -> None:
    queue = cluster_queue(
        "cq",
        on("own", cpu=4),
        on("borrowed", cpu=0),
        cohort="all",
        within="LowerPriority",
        when_can_borrow=TRY_NEXT,
        when_can_preempt=TRY_NEXT,
        preference=preference,
    )
    bench = Bench(queue, cluster_queue("lender", on("borrowed", cpu=4), cohort="all"), auto_release=True)
    bench.submit(workload("holder", cpu=4), workload("w", cpu=4, priority=1))

    assert bench.flavors_of("w") == {"cpu": want_flavor}
    assert [name for name, _ in bench.evictions()] == want_evicted


def test_reclaiming_is_preferred_to_preempting_ones_own() -> None:
    queue = cluster_queue(
        "cq", on("own", cpu=4), on("lent", cpu=4), cohort="all", within="LowerPriority", reclaim="Any"
    )
    borrower = cluster_queue("borrower", on("lent", cpu=0), cohort="all")
    bench = Bench(queue, borrower, auto_release=True)
    bench.submit(workload("mine", cpu=4), workload("theirs", queue="borrower", cpu=4, priority=9))
    bench.submit(workload("w", cpu=4, priority=1))

    assert bench.flavors_of("w") == {"cpu": "lent"}
    assert bench.evictions() == [("theirs", "InCohortReclamation")]


def test_the_nearer_lender_is_preferred() -> None:
    """Both flavors must be borrowed: the first from the root, the second from the cohort next to the queue."""
    bench = Bench(
        cohort("root", on("far", cpu=4)),
        cohort("team", on("near", cpu=4), parent="root"),
        cluster_queue("cq", on("far", cpu=0), on("near", cpu=0), cohort="team", when_can_borrow=TRY_NEXT),
    )
    bench.submit(workload("w", cpu=4))

    assert bench.flavors_of("w") == {"cpu": "near"}


def test_at_the_same_distance_the_earlier_flavor_wins() -> None:
    lender = cohort("all", on("first", cpu=4), on("second", cpu=4))
    queue = cluster_queue("cq", on("first", cpu=0), on("second", cpu=0), cohort="all", when_can_borrow=TRY_NEXT)
    bench = Bench(lender, queue)
    bench.submit(workload("w", cpu=4))

    assert bench.flavors_of("w") == {"cpu": "first"}


def test_a_borrowing_limit_of_a_flavor_sends_to_the_next() -> None:
    bench = Bench(
        cohort("all", on("first", cpu=9), on("second", cpu=9)),
        cluster_queue("cq", on("first", cpu=Limited(1, borrowing=1)), on("second", cpu=0), cohort="all"),
    )
    bench.submit(workload("w", cpu=3), workload("fits", cpu=2))

    assert (bench.flavors_of("w"), bench.flavors_of("fits")) == ({"cpu": "second"}, {"cpu": "first"})


def contenders(**rules: str) -> tuple[ClusterQueue, ...]:
    flavors = (on("first", cpu=2), on("second", cpu=4))
    return tuple(cluster_queue(name, *flavors, cohort="all", **rules) for name in ("a", "b"))  # type: ignore[arg-type]


def test_who_was_overtaken_goes_on_with_the_next_flavor() -> None:
    """Both count on borrowing the first flavor; the loser does not wait for it but takes the next."""
    bench = Bench(*contenders())
    bench.submit_together(workload("wa", queue="a", cpu=3), workload("wb", queue="b", cpu=3))

    assert (bench.flavors_of("wa"), bench.flavors_of("wb")) == ({"cpu": "first"}, {"cpu": "second"})


def test_who_found_its_victims_taken_goes_on_with_the_next_flavor() -> None:
    """Both would preempt the same borrower; the second to come looks at the next flavor in the next cycle."""
    queues = contenders(reclaim="Any", when_can_preempt=MAY_STOP)
    bench = Bench(*queues, cluster_queue("borrower", on("first", cpu=0), cohort="all"))
    bench.submit(workload("theirs", queue="borrower", cpu=4))
    bench.submit_together(workload("wa", queue="a", cpu=2), workload("wb", queue="b", cpu=2))

    assert bench.evictions() == [("theirs", "InCohortReclamation")]
    assert (bench.state("wa"), bench.flavors_of("wb")) == ("pending", {"cpu": "second"})


def test_a_reclaimed_workload_is_parked_at_its_next_flavors_and_starts_over_when_woken() -> None:
    """World 109 of the recordings `later-fair`, made small.

    In the cycle of its release its preemptor overtakes it. It continues with the second flavor for both pod sets, which
    the workers cannot use. The batch of freed quota makes it start over.
    """
    bench = Bench(
        flavor("first", labels={"tier": "first"}),
        flavor("second", labels={"tier": "second"}),
        cluster_queue("lender", on("first", cpu=4), cohort="all", reclaim="Any"),
        cluster_queue("borrower", on("first", cpu=4), on("second", cpu=4), cohort="all"),
    )
    workers = pod_set("workers", cpu=4, pod={"nodeSelector": {"tier": "first"}})
    bench.submit(workload("reclaimed", pod_set("head", cpu=4), workers, queue="borrower"))
    bench.submit(workload("preemptor", queue="lender", cpu=2))
    assert bench.evictions() == [("reclaimed", "InCohortReclamation")]

    bench.release("reclaimed")

    assert (bench.admitted(), bench.pending()) == (["preemptor"], ["reclaimed"])
    mismatch = "couldn't assign flavors to pod set workers: flavor second doesn't match node affinity"
    assert bench.message("reclaimed") == mismatch

    bench.advance(1.0)

    flavors = {name: bench.flavors_of("reclaimed", name) for name in ("head", "workers")}
    assert flavors == {"head": {"cpu": "second"}, "workers": {"cpu": "first"}}


@pytest.mark.parametrize(
    ("asking", "want_flavors"),
    [
        pytest.param(
            workload("w", cpu=3, memory=1),
            {"cpu": "second", "memory": "second"},
            id="the worst of the resources decides over a flavor",
        ),
        pytest.param(
            workload("w", cpu=1, memory=1),
            {"cpu": "first", "memory": "first"},
            id="when all do, the first flavor is taken",
        ),
    ],
)
def test_a_flavor_must_do_for_all_resources_of_its_group(asking: Workload, want_flavors: dict[str, str]) -> None:
    first, second = on("first", cpu=2, memory=4), on("second", cpu=4, memory=4)
    bench = Bench(cluster_queue("cq", first, second))
    bench.submit(asking)

    assert bench.flavors_of("w") == want_flavors
