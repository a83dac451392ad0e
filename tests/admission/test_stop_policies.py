"""Hold and HoldAndDrain, on ClusterQueues and on LocalQueues, and what happens when they run again."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from fairway.admission import wording
from fairway.admission.instructions import Admit, Evict, EvictionReason, Requeue, RequeueReason, Unreserve
from fairway.admission.reasons import Explanation, Outcome
from fairway.apis.kueue.objects import ClusterQueue, LocalQueue
from fairway.testing.builders import (
    START,
    Bench,
    admission_check,
    cluster_queue,
    flavor,
    local_queue,
    moment,
    workload,
)

Stop = Callable[[str], ClusterQueue | LocalQueue]


def stop_cluster_queue(policy: str) -> ClusterQueue:
    return cluster_queue(cpu=4, stop=policy)


def stop_local_queue(policy: str) -> LocalQueue:
    return local_queue("cq", "cq", stop=policy)


BOTH = pytest.mark.parametrize(
    ("stop", "want_reason", "want_message"),
    [
        pytest.param(stop_cluster_queue, "ClusterQueueStopped", "ClusterQueue cq is inactive", id="ClusterQueue"),
        pytest.param(stop_local_queue, "LocalQueueStopped", "LocalQueue cq is inactive", id="LocalQueue"),
    ],
)


@BOTH
@pytest.mark.parametrize("policy", ["Hold", "HoldAndDrain"])
def test_a_stopped_queue_admits_nobody(stop: Stop, want_reason: str, want_message: str, policy: str) -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.apply(stop(policy))
    bench.submit(workload("w", cpu=1))
    bench.rest()
    assert (bench.state("w"), bench.message("w")) == ("pending", want_message)

    bench.apply(stop("None"))
    assert bench.state("w") == "admitted"


@BOTH
def test_hold_lets_those_run_who_run(stop: Stop, want_reason: str, want_message: str) -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("w", cpu=1))
    bench.apply(stop("Hold"))

    assert (bench.state("w"), bench.evictions()) == ("admitted", [])


@BOTH
def test_drain_evicts_those_who_run(stop: Stop, want_reason: str, want_message: str) -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("w", cpu=1))
    said = bench.apply(stop("HoldAndDrain"))

    assert said == [Evict(at=bench.now, key="ns/w", reason=EvictionReason(want_reason))]
    assert wording.eviction(said[0]) == f"The {want_reason.removesuffix('Stopped')} is stopped"  # type: ignore[arg-type]

    bench.release("w")
    bench.rest()
    assert (bench.state("w"), bench.message("w")) == ("pending", want_message)


@BOTH
def test_those_drained_come_back_when_it_runs_again(stop: Stop, want_reason: str, want_message: str) -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("w", cpu=1))
    bench.apply(stop("HoldAndDrain"))
    bench.release("w")
    said = bench.apply(stop("None"))
    restarted = RequeueReason(want_reason.replace("Stopped", "Restarted"))

    assert said[0] == Requeue(at=bench.now, key="ns/w", reason=restarted)
    assert wording.requeue(restarted) == f"The {want_reason.removesuffix('Stopped')} was restarted after being stopped"
    assert [type(each) for each in said] == [Requeue, Admit]


@BOTH
def test_who_stops_only_after_the_restart_comes_back_too(stop: Stop, want_reason: str, want_message: str) -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("w", cpu=1))
    bench.apply(stop("HoldAndDrain"), stop("None"))
    assert bench.evicting() == ["w"]

    said = bench.release("w")

    assert [type(each) for each in said] == [Requeue, Admit]


@BOTH
@pytest.mark.parametrize("policy", ["Hold", "HoldAndDrain"])
def test_reservations_that_did_not_start_are_taken_back(
    stop: Stop, want_reason: str, want_message: str, policy: str
) -> None:
    bench = Bench(admission_check("check"), cluster_queue(cpu=4, checks=["check"]))
    bench.submit(workload("w", cpu=1))
    stopped = cluster_queue(cpu=4, checks=["check"], stop=policy) if stop is stop_cluster_queue else stop(policy)
    said = bench.apply(stopped)
    outcome = Outcome.QUEUE_INACTIVE if stop is stop_cluster_queue else Outcome.LOCAL_QUEUE_INACTIVE

    assert said == [Unreserve(at=bench.now, key="ns/w", explanation=Explanation(outcome, "cq"))]
    assert (bench.state("w"), bench.message("w")) == ("pending", want_message)

    running = cluster_queue(cpu=4, checks=["check"]) if stop is stop_cluster_queue else stop("None")
    bench.apply(running)
    assert bench.state("w") == "reserved"


def test_draining_twice_evicts_once() -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("w", cpu=1))
    bench.apply(
        stop_cluster_queue("HoldAndDrain"), stop_local_queue("HoldAndDrain"), stop_cluster_queue("HoldAndDrain")
    )

    assert bench.evictions() == [("w", "ClusterQueueStopped")]


def test_a_stopped_local_queue_stops_no_other() -> None:
    bench = Bench(cluster_queue(cpu=4), local_queue("other", "cq"))
    bench.submit(workload("mine", cpu=1), workload("theirs", queue="other", cpu=1))
    bench.apply(stop_local_queue("HoldAndDrain"))
    bench.submit(workload("more", queue="other", cpu=1))

    assert bench.evictions() == [("mine", "LocalQueueStopped")]
    assert bench.state("more") == "admitted"


def test_the_room_of_a_drained_queue_goes_to_its_cohort() -> None:
    bench = Bench(cluster_queue("a", cpu=4, cohort="all"), cluster_queue("b", cpu=4, cohort="all"), auto_release=True)
    bench.submit(workload("w", queue="a", cpu=4), workload("large", queue="b", cpu=8))
    bench.apply(cluster_queue("a", cpu=4, cohort="all", stop="HoldAndDrain"))
    bench.advance(1.0)

    assert bench.states() == {"w": "pending", "large": "admitted"}


def test_what_a_held_queue_uses_still_counts() -> None:
    bench = Bench(cluster_queue("a", cpu=4, cohort="all"), cluster_queue("b", cpu=4, cohort="all"))
    bench.submit(workload("w", queue="a", cpu=6))
    bench.apply(cluster_queue("a", cpu=4, cohort="all", stop="Hold"))
    bench.submit(workload("large", queue="b", cpu=4), workload("small", queue="b", cpu=2))

    assert bench.states() == {"w": "admitted", "large": "pending", "small": "admitted"}


def test_a_cluster_queue_that_is_being_deleted_admits_nobody() -> None:
    """Once, an event about one of its flavors made such a queue active again."""
    queue = cluster_queue(cpu=4)
    metadata = msgspec.structs.replace(queue.metadata, deletion_timestamp=moment(START))
    bench = Bench(queue, msgspec.structs.replace(queue, metadata=metadata))
    bench.submit(workload("w", cpu=1))
    bench.apply(flavor("default", labels={"zone": "a"}))
    bench.rest()

    assert (bench.state("w"), bench.message("w")) == ("pending", "ClusterQueue cq is inactive")


def test_order_is_kept_over_a_stop() -> None:
    bench = Bench(cluster_queue(cpu=4, strategy="StrictFIFO"))
    bench.apply(cluster_queue(cpu=4, strategy="StrictFIFO", stop="Hold"))
    bench.submit(workload("first", cpu=4), workload("second", cpu=4), workload("third", cpu=4, priority=1))
    bench.apply(cluster_queue(cpu=4, strategy="StrictFIFO"))
    for name in ("third", "first"):
        bench.finish(name)

    assert bench.admissions() == ["third", "first", "second"]


def test_a_cluster_queue_that_is_being_deleted_takes_back_what_is_only_reserved() -> None:
    bench = Bench(admission_check("check"), cluster_queue(cpu=4, checks=["check"]))
    bench.submit(workload("admitted", cpu=1), workload("reserved", cpu=1))
    bench.report_check("admitted", "check", "Ready")
    queue = cluster_queue(cpu=4, checks=["check"])
    leaving = msgspec.structs.replace(queue.metadata, deletion_timestamp=moment(START))

    said = bench.apply(msgspec.structs.replace(queue, metadata=leaving))

    assert [one.key for one in said if isinstance(one, Unreserve)] == ["ns/reserved"]
    assert (bench.state("admitted"), bench.state("reserved")) == ("admitted", "pending")
    assert bench.message("reserved") == "ClusterQueue cq is inactive"
