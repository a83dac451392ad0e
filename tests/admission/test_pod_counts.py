"""Fewer pods than asked for: partial admission, reclaimable pods, and the quota of the resource `pods`."""

from __future__ import annotations

import pytest

from fairway.testing.builders import Bench, cluster_queue, on, pod_set, workload

# Partial admission


@pytest.mark.parametrize(
    ("free", "min_count", "want_count"),
    [
        pytest.param(9, 1, 5, id="all of them where there is room"),
        pytest.param(3, 1, 3, id="as many as fit"),
        pytest.param(1, 1, 1, id="down to the least"),
        pytest.param(2, 3, None, id="not fewer than the least"),
        pytest.param(4, None, None, id="all or nothing where no least is given"),
    ],
)
def test_as_many_pods_as_fit(free: int, min_count: int | None, want_count: int | None) -> None:
    bench = Bench(cluster_queue(cpu=free))
    bench.submit(workload("w", cpu=1, count=5, min_count=min_count))

    assert bench.counts_of("w").get("main") == want_count
    assert bench.state("w") == ("pending" if want_count is None else "admitted")


def test_a_reduced_workload_uses_only_what_its_pods_need() -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("w", cpu="1500m", count=4, min_count=1), workload("rest", cpu=1))
    (assigned,) = bench.record("w").admission

    assert (assigned.count, assigned.usage) == (2, {"cpu": 3000})
    assert bench.state("rest") == "admitted"


def test_only_the_pod_set_with_a_least_count_shrinks() -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("w", pod_set("head", cpu=2), pod_set("workers", cpu=1, count=5, min_count=1)))

    assert bench.counts_of("w") == {"head": 1, "workers": 2}


def test_a_full_preemption_is_preferred_to_fewer_pods() -> None:
    bench = Bench(cluster_queue(cpu=4, within="LowerPriority"), auto_release=True)
    bench.submit(workload("low", cpu=2), workload("w", cpu=1, count=4, min_count=1, priority=1))

    assert (bench.counts_of("w"), bench.pending()) == ({"main": 4}, ["low"])


def test_fewer_pods_may_preempt_where_all_pods_may_not() -> None:
    """Five pods never fit; with four, evicting `low` is enough."""
    bench = Bench(cluster_queue(cpu=4, within="LowerPriority"), auto_release=True)
    bench.submit(workload("low", cpu=2), workload("w", cpu=1, count=5, min_count=3, priority=1))

    assert (bench.counts_of("w"), bench.pending()) == ({"main": 4}, ["low"])


def test_the_next_flavor_is_tried_before_pods_are_given_up() -> None:
    bench = Bench(cluster_queue("cq", on("small", cpu=2), on("large", cpu=4)))
    bench.submit(workload("w", cpu=1, count=4, min_count=1))

    assert (bench.counts_of("w"), bench.flavors_of("w")) == ({"main": 4}, {"cpu": "large"})


def test_after_an_eviction_all_pods_are_asked_for_again() -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("other", cpu=2), workload("w", cpu=1, count=4, min_count=1))
    assert bench.counts_of("w") == {"main": 2}

    bench.finish("other")
    bench.request_eviction("w", "NodeFailures")
    bench.release("w")
    bench.rest()

    assert bench.counts_of("w") == {"main": 4}


# Reclaimable pods


def test_reclaimed_pods_free_their_quota() -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("w", cpu=1, count=4), workload("next", cpu=2))
    bench.reclaim_pods("w", main=1)
    bench.rest()
    assert bench.state("next") == "pending"

    bench.reclaim_pods("w", main=2)
    bench.rest()
    assert bench.states() == {"w": "admitted", "next": "admitted"}


def test_all_pods_reclaimed_leave_nothing_in_use() -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("w", cpu=1, count=4), workload("next", cpu=4))
    bench.reclaim_pods("w", main=4)
    bench.rest()

    assert bench.states() == {"w": "admitted", "next": "admitted"}


def test_reclaimed_pods_of_one_pod_set_leave_the_others() -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("w", pod_set("head", cpu=2), pod_set("workers", cpu=1, count=2)), workload("next", cpu=2))
    bench.reclaim_pods("w", workers=2)
    bench.rest()

    assert bench.state("next") == "admitted"


def test_a_pending_workload_asks_only_for_the_pods_it_still_needs() -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("other", cpu=2), workload("w", cpu=1, count=3))
    bench.reclaim_pods("w", main=1)

    assert (bench.state("w"), bench.counts_of("w")) == ("admitted", {"main": 2})


def test_who_was_reduced_frees_quota_only_when_fewer_are_left_than_it_got() -> None:
    bench = Bench(cluster_queue(cpu=2))
    bench.submit(workload("w", cpu=1, count=4, min_count=2), workload("next", cpu=1))
    bench.reclaim_pods("w", main=2)
    bench.rest()
    assert bench.state("next") == "pending"

    bench.reclaim_pods("w", main=3)
    bench.rest()
    assert bench.state("next") == "admitted"


def test_more_reclaimed_pods_than_there_are_count_as_all_of_them() -> None:
    """Once, the usage became negative, and others were given more than there is."""
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("w", cpu=1, count=2))
    bench.reclaim_pods("w", main=3)
    bench.submit(workload("v", cpu=4), workload("u", cpu=1))

    assert bench.admitted() == ["v", "w"]


def test_pod_sets_without_pods() -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("w", pod_set("main", count=0, cpu=1), pod_set("other", cpu=1)))
    bench.reclaim_pods("w", main=1)

    assert bench.counts_of("w") == {"main": 0, "other": 1}


# Pods as a resource


def test_a_quota_of_pods_counts_pods() -> None:
    bench = Bench(cluster_queue(cpu=100, pods=3))
    bench.submit(workload("two", cpu=1, count=2), workload("more", cpu=1, count=2))
    assert "insufficient unused quota for pods in flavor default, 1 more needed" in bench.message("more")

    bench.submit(workload("one", cpu=1))
    assert bench.admitted() == ["one", "two"]
    assert bench.record("two").admission[0].usage == {"cpu": 2000, "pods": 2}


def test_without_a_quota_of_pods_they_are_not_counted() -> None:
    bench = Bench(cluster_queue(cpu=100))
    bench.submit(workload("w", cpu="1m", count=5000))

    assert bench.record("w").admission[0].usage == {"cpu": 5000}


def test_pods_may_be_preempted_for() -> None:
    bench = Bench(cluster_queue(cpu=100, pods=3, within="LowerPriority"), auto_release=True)
    bench.submit(workload("low", cpu=1, count=2), workload("w", cpu=1, count=3, priority=1))

    assert (bench.admitted(), bench.evictions()) == (["w"], [("low", "InClusterQueue")])


def test_fewer_pods_are_admitted_for_a_quota_of_pods() -> None:
    bench = Bench(cluster_queue(cpu=100, pods=3))
    bench.submit(workload("w", cpu=1, count=5, min_count=1))

    assert bench.counts_of("w") == {"main": 3}
