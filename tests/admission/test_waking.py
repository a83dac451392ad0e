"""What lets a parked workload be tried again: everything that may have made room, taken together a batch at a time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fairway.admission import events
from fairway.admission.config import Config
from fairway.apis.kueue.objects import Cohort
from fairway.testing.builders import (
    Bench,
    admission_check,
    cluster_queue,
    cohort,
    flavor,
    local_queue,
    on,
    workload,
)

Change = Callable[[Bench], object]


def parked() -> Bench:
    """`waiting` needs two more than `holder` and `other` leave of the queue's and the cohort's quota together."""
    bench = Bench(
        cohort("all", cpu=1), cluster_queue(cpu=4, cohort="all"), cluster_queue("neighbour", cpu=1, cohort="all")
    )
    bench.submit(workload("holder", cpu=1, count=4), workload("other", queue="neighbour", cpu=1))
    bench.submit(workload("waiting", cpu=3), workload("idle", cpu=9))
    bench.rest()
    assert bench.pending() == ["idle", "waiting"]
    return bench


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda bench: bench.finish("holder"), id="a workload finished"),
        pytest.param(lambda bench: bench.delete("holder"), id="a workload was deleted"),
        pytest.param(lambda bench: bench.set_active("holder", active=False), id="a workload was deactivated"),
        pytest.param(lambda bench: bench.reclaim_pods("holder", main=2), id="pods were reclaimed"),
        pytest.param(
            lambda bench: (bench.request_eviction("holder", "PodsReadyTimeout"), bench.release("holder")),
            id="a workload lost its reservation",
        ),
        pytest.param(
            lambda bench: bench.apply(cluster_queue(cpu=6, cohort="all")), id="the quota of the ClusterQueue was raised"
        ),
        pytest.param(
            lambda bench: bench.apply(cluster_queue("neighbour", cpu=3, cohort="all")),
            id="the quota of another ClusterQueue of the cohort was raised",
        ),
        pytest.param(
            lambda bench: bench.apply(cluster_queue("third", cpu=3, cohort="all")),
            id="a ClusterQueue joined the cohort",
        ),
        pytest.param(lambda bench: bench.apply(cohort("all", cpu=3)), id="the quota of the cohort was raised"),
        pytest.param(
            lambda bench: bench.apply(cohort("above", cpu=2), cohort("all", cpu=1, parent="above")),
            id="the cohort got a parent with quota",
        ),
    ],
)
def test_room_wakes_the_whole_tree_when_the_batch_is_over(change: Change) -> None:
    bench = parked()
    change(bench)
    assert bench.state("waiting") == "pending"

    bench.advance(1.0)

    assert bench.state("waiting") == "admitted"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda bench: bench.apply(local_queue("another", "cq")), id="another LocalQueue came"),
        pytest.param(lambda bench: bench.submit(workload("new", cpu=9)), id="a workload came that fits nowhere"),
        pytest.param(
            lambda bench: bench.send(events.NamespaceChanged(at=bench.now, name="elsewhere", labels={})),
            id="a namespace came",
        ),
        pytest.param(lambda bench: bench.apply(flavor("unused")), id="a flavor came that nobody uses"),
        pytest.param(lambda bench: bench.apply(cluster_queue("apart", cpu=9)), id="a ClusterQueue came elsewhere"),
    ],
)
def test_what_makes_no_room_wakes_nobody(change: Change) -> None:
    bench = parked()
    change(bench)
    said = bench.advance(5.0)

    assert bench.state("waiting") == "pending"
    assert [each for each in said if each.key == "ns/waiting"] == []


def test_finishing_in_one_tree_wakes_nobody_in_another() -> None:
    bench = Bench(cluster_queue("a", cpu=1), cluster_queue("b", cpu=1))
    bench.submit(
        workload("runs", queue="a", cpu=1), workload("waits", queue="b", cpu=1), workload("next", queue="b", cpu=1)
    )
    bench.rest()

    bench.finish("runs")
    said = bench.rest()

    assert said == []


@pytest.mark.parametrize(
    ("priority_class", "want_evicted"),
    [
        pytest.param("batch", [("holder", "InClusterQueue")], id="of a WorkloadPriorityClass"),
        pytest.param("", [], id="but not one that came from elsewhere: as in Kueue, that is no news to those who wait"),
    ],
)
def test_a_lower_priority_wakes_whoever_may_preempt_now(
    priority_class: str, want_evicted: list[tuple[str, str]]
) -> None:
    bench = Bench(cluster_queue(cpu=4, within="LowerPriority"))
    bench.submit(
        workload("holder", cpu=4, priority=5, priority_class=priority_class), workload("waiting", cpu=4, priority=3)
    )
    bench.rest()

    bench.set_priority("holder", 1)
    bench.advance(1.0)

    assert bench.evictions() == want_evicted


def test_changed_flavor_labels_and_taints_wake_its_users() -> None:
    tainted = flavor("spot", taints=["spot=true:NoSchedule"])
    bench = Bench(tainted, cluster_queue("cq", on("spot", cpu=4)))
    bench.submit(workload("waiting", cpu=1))
    bench.rest()
    assert bench.state("waiting") == "pending"

    bench.apply(flavor("spot"))
    bench.advance(1.0)

    assert bench.state("waiting") == "admitted"


def test_a_flavor_that_comes_to_exist_activates_its_users() -> None:
    bench = Bench(flavor("default"))
    bench.send(events.QueueChanged(at=bench.now, queue=cluster_queue("cq", on("late", cpu=4))))
    bench.apply(local_queue("cq", "cq"))
    bench.submit(workload("waiting", cpu=1))
    assert bench.message("waiting") == "ClusterQueue cq is inactive"

    bench.apply(flavor("late"))
    bench.advance(1.0)

    assert bench.state("waiting") == "admitted"

    bench.send(events.FlavorDeleted(at=bench.now, name="late"))
    bench.submit(workload("next", cpu=1))

    assert bench.states() == {"waiting": "admitted", "next": "pending"}


def test_a_check_that_becomes_active_activates_its_users() -> None:
    bench = Bench(cluster_queue(cpu=4, checks=["prov"]))
    bench.submit(workload("waiting", cpu=1))
    assert bench.message("waiting") == "ClusterQueue cq is inactive"

    bench.apply(admission_check("prov", active=False))
    bench.advance(1.0)
    assert bench.message("waiting") == "ClusterQueue cq is inactive"

    bench.apply(admission_check("prov"))
    bench.advance(1.0)
    assert bench.state("waiting") == "reserved"

    bench.send(events.CheckDeleted(at=bench.now, name="prov"))
    bench.submit(workload("next", cpu=1))
    assert bench.message("next") == "ClusterQueue cq is inactive"


def test_a_namespace_that_begins_to_match_wakes_its_workloads() -> None:
    bench = Bench(cluster_queue(cpu=4, namespaces={"team": "ml"}))
    bench.submit(workload("waiting", cpu=1))
    assert bench.message("waiting") == "workload namespace doesn't match ClusterQueue selector"

    bench.send(events.NamespaceChanged(at=bench.now, name="ns", labels={"team": "ml", "stage": "prod"}))
    assert bench.state("waiting") == "pending"
    bench.advance(1.0)

    assert bench.state("waiting") == "admitted"


def test_workloads_of_a_local_queue_that_comes_late_are_queued_at_once() -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("waiting", queue="late", cpu=1))
    assert bench.message("waiting") == "LocalQueue late doesn't exist"

    bench.apply(local_queue("late", "cq"))

    assert bench.state("waiting") == "admitted"


def test_workloads_of_a_cluster_queue_that_comes_late_are_queued_at_once() -> None:
    bench = Bench(local_queue("early", "cq"))
    bench.submit(workload("waiting", queue="early", cpu=1))
    assert bench.message("waiting") == "ClusterQueue cq doesn't exist"

    bench.apply(cluster_queue(cpu=4))

    assert bench.state("waiting") == "admitted"


def test_changes_within_a_batch_are_taken_together() -> None:
    """The second and third finish come within a second of the first: one wake-up for all."""
    bench = Bench(cluster_queue(cpu=3))
    bench.submit(*(workload(f"runs-{number}", cpu=1) for number in range(3)), workload("waiting", cpu=3))
    began = bench.now
    for number in range(3):
        bench.finish(f"runs-{number}")
        assert bench.engine.next_wakeup == began + 1.0
        bench.advance(0.25)
    assert bench.state("waiting") == "pending"

    bench.advance(0.25)

    assert bench.state("waiting") == "admitted"


def test_a_batch_of_no_length_wakes_at_once() -> None:
    bench = Bench(cluster_queue(cpu=3), config=Config(requeue_batch_seconds=0.0))
    bench.submit(workload("runs", cpu=3), workload("waiting", cpu=3))
    bench.finish("runs")
    bench.rest()

    assert bench.state("waiting") == "admitted"
    assert [each.at for each in bench.said if each.key == "ns/waiting"][-1] == bench.now


def test_room_made_at_the_moment_of_a_wake_up_is_seen() -> None:
    """The first finish's wake-up is due when the second comes. Once, `waiting` slept on for one more batch."""
    bench = Bench(cluster_queue("a", cpu=2, cohort="all", reclaim="Any"), cluster_queue("b", cpu=2, cohort="all"))
    bench.submit(workload("one", queue="b", cpu=1), workload("two", queue="b", cpu=1))
    bench.submit(workload("waiting", queue="a", cpu=4))
    bench.rest()
    bench.finish("one")
    bench.now += 1.0
    bench.finish("two")

    assert bench.state("waiting") == "admitted"


@pytest.mark.parametrize("seconds", [0.25, 10.0])
def test_the_length_of_a_batch_is_configured(seconds: float) -> None:
    bench = Bench(cluster_queue(cpu=3), config=Config(requeue_batch_seconds=seconds))
    bench.rest()
    bench.submit(workload("runs", cpu=3), workload("waiting", cpu=3))
    bench.finish("runs")
    due = bench.engine.next_wakeup

    assert due == (bench.now + seconds if seconds else None)

    bench.advance(seconds)

    assert bench.state("waiting") == "admitted"


def test_time_that_jumps_over_a_wakeup_carries_it_out_at_its_time() -> None:
    bench = Bench(cluster_queue(cpu=3))
    bench.submit(workload("runs", cpu=3), workload("waiting", cpu=3))
    bench.finish("runs")
    due = bench.engine.next_wakeup

    said = bench.send(events.TimePassed(at=bench.now + 60.0))

    assert [(each.key, each.at) for each in said] == [("ns/waiting", due)]


def test_an_engine_without_anything_to_do_asks_for_no_wakeup() -> None:
    bench = Bench(cluster_queue(cpu=3))
    bench.rest()
    bench.submit(workload("runs", cpu=3), workload("waiting", cpu=3))

    assert bench.engine.next_wakeup is None


@pytest.mark.parametrize(
    ("objects", "want"),
    [
        pytest.param((cohort("all"),), "admitted", id="with an object, a status that changed lets all be tried again"),
        pytest.param((), "pending", id="without one, an admission wakes nobody"),
    ],
)
def test_a_cohort_with_an_object_follows_the_status_of_its_queues(objects: tuple[Cohort, ...], want: str) -> None:
    """``wants`` could preempt ``old`` since its priority fell, but nothing told it; then ``other`` is admitted.

    Kueue's cohort controller goes through its tree whenever a ClusterQueue's status changes, and so wakes all.
    """
    bench = Bench(
        *objects,
        cluster_queue("a", cpu=4, cohort="all", within="LowerPriority"),
        cluster_queue("b", cpu=1, cohort="all"),
        auto_release=True,
    )
    bench.submit(workload("old", queue="a", cpu=4, priority=9), workload("wants", queue="a", cpu=4, priority=5))
    bench.rest()
    bench.set_priority("old", 0)
    bench.submit(workload("other", queue="b", cpu=1))
    bench.advance(5)

    assert bench.state("wants") == want


def preempting(strategy: str = "BestEffortFIFO") -> Bench:
    """`preemptor` waits for `victim` to stop; `waiting` is parked, and would fit once `small` has finished."""
    bench = Bench(
        cluster_queue(cpu=4, cohort="all", within="LowerPriority", strategy=strategy),
        cluster_queue("neighbour", cpu=1, cohort="all"),
        config=Config(requeue_batch_seconds=0.0),
    )
    bench.submit(workload("victim", cpu=4), workload("small", queue="neighbour", cpu=1))
    bench.submit(workload("waiting", queue="neighbour", cpu=1))
    bench.submit(workload("preemptor", cpu=4, priority=10))
    bench.rest()
    assert bench.evicting() == ["victim"]
    return bench


def never(_bench: Bench) -> None:
    """The victim does not stop."""


@pytest.mark.parametrize(
    "meanwhile",
    [
        pytest.param(never, id="the victim never stops"),
        pytest.param(lambda bench: bench.delete("preemptor"), id="the preemptor is deleted"),
        pytest.param(lambda bench: bench.set_active("preemptor", active=False), id="the preemptor is deactivated"),
        pytest.param(
            lambda bench: bench.submit(workload(f"next-{bench.now}", cpu=4, priority=int(20 + bench.now))),
            id="other preemptors come in turn",
        ),
        pytest.param(lambda bench: bench.finish("small"), id="more room is made again and again"),
        pytest.param(
            lambda bench: bench.apply(cluster_queue(f"new-{bench.now}", cpu=1)),
            id="ClusterQueues are created elsewhere",
        ),
        pytest.param(lambda bench: bench.apply(cohort("all")), id="the cohort is written again and again"),
    ],
)
def test_a_waiting_preemptor_keeps_others_asleep_for_a_second_at_most(meanwhile: Change) -> None:
    bench = preempting()
    bench.finish("small")
    for _ in range(4):
        bench.advance(0.25)
        meanwhile(bench)
    bench.advance(0.01)

    assert bench.state("waiting") == "admitted"


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
def test_a_preemptor_that_can_no_longer_be_admitted_delays_no_other(strategy: str) -> None:
    bench = preempting(strategy)
    bench.apply(cluster_queue(cpu=0, cohort="all", within="LowerPriority", strategy=strategy))
    bench.release("victim")
    bench.advance(5.0)
    assert bench.pending() == ["preemptor", "victim", "waiting"]

    bench.finish("small")

    assert bench.state("waiting") == "admitted"
