"""A new engine that is told what the API holds goes on where the old one stopped."""

from __future__ import annotations

import msgspec
import pytest

from fairway.admission.config import Config, PodsReady
from fairway.admission.events import QueueDeleted
from fairway.admission.instructions import Admit, Evict, Requeue, RequeueReason
from fairway.apis.kueue.objects import Admission, PodSetAssignment, RequeueState, Workload, WorkloadStatus
from fairway.apis.machinery.quantities import Quantity
from fairway.testing.builders import (
    START,
    Bench,
    Object,
    admission_check,
    cluster_queue,
    cohort,
    moment,
    on,
    workload,
)

from .stored import Stored, condition


def restarted(bench: Bench, *objects: Object, config: Config | None = None) -> Bench:
    """A new bench at the same time, with the same queues and, in one batch, the workloads as the API holds them."""
    after = Bench(*objects, config=config)
    after.now = bench.now
    after.rest()
    after.submit_together(*Stored.after(bench).workloads.values())
    return after


def outcome(bench: Bench) -> dict[str, tuple[object, ...]]:
    return {
        record.name: (record.stage.name, record.admission, dict(record.evictions), record.evicted, record.priority)
        for record in bench.engine.records()
        if record.stage.name != "FINISHED"
    }


QUEUES: list[Object] = [
    cluster_queue("a", on("f0", cpu=4), on("f1", cpu=2), cohort="all", within="LowerPriority", reclaim="Any"),
    cluster_queue("b", on("f0", cpu=4), on("f1", cpu=2), cohort="all", within="LowerPriority", strategy="StrictFIFO"),
    cohort("all", on("f0", cpu=1)),
]


def lived() -> Bench:
    """Some run, some wait, some are being evicted, some have been, one has finished, one is deactivated."""
    bench = Bench(*QUEUES)
    bench.submit(workload("a1", queue="a", cpu=3), workload("a2", queue="a", cpu=2), workload("b1", queue="b", cpu=4))
    bench.submit(workload("b2", queue="b", cpu=2), workload("a3", queue="a", cpu=3, priority=2))
    bench.release("a1")
    bench.submit(workload("b3", queue="b", cpu=4, priority=1), workload("a4", queue="a", cpu=1))
    bench.set_active("a4", active=False)
    bench.finish("a2")
    return bench


def test_nothing_is_decided_differently_after_a_restart() -> None:
    before = lived()
    after = restarted(before, *QUEUES)
    assert outcome(after) == outcome(before) | {"a4": outcome(after)["a4"]}

    for bench in (before, after):
        bench.rest()
        bench.release("b1")
        bench.rest()
        bench.submit(workload("late", queue="a", cpu=2, priority=5))
        bench.finish("a3")
        bench.rest()

    assert {name: found[:2] for name, found in outcome(after).items()} == {
        name: found[:2] for name, found in outcome(before).items()
    }


def test_a_restart_touches_nobody_who_runs() -> None:
    before = Bench(cluster_queue(cpu=4))
    before.submit(*(workload(f"w{number}", cpu=1) for number in range(6)))
    after = restarted(before, cluster_queue(cpu=4))
    said = after.rest()

    assert after.admitted() == before.admitted()
    assert [each for each in (*said, *after.said) if isinstance(each, Admit | Evict)] == []


def test_the_order_in_which_workloads_come_does_not_matter() -> None:
    before = lived()
    stored = list(Stored.after(before).workloads.values())
    benches = []
    for order in (stored, stored[::-1]):
        bench = Bench(*QUEUES)
        bench.now = before.now
        bench.submit_together(*order)
        bench.rest()
        benches.append(bench)

    assert outcome(benches[0]) == outcome(benches[1])


def test_an_eviction_under_way_is_not_ordered_again() -> None:
    queue = cluster_queue(cpu=4, within="LowerPriority")
    before = Bench(queue)
    before.submit(workload("victim", cpu=4), workload("urgent", cpu=4, priority=1))
    after = restarted(before, queue)
    after.rest()
    assert (after.evictions(), after.evicting()) == ([], ["victim"])
    assert after.message("urgent").endswith("Pending the preemption of 1 workload(s)")

    after.release("victim")
    assert after.admitted() == ["urgent"]


def test_reservations_go_on_waiting_for_their_checks() -> None:
    objects: list[Object] = [admission_check("check"), cluster_queue(cpu=4, checks=["check"])]
    before = Bench(*objects)
    before.submit(workload("w", cpu=4))
    after = restarted(before, *objects)
    assert after.state("w") == "reserved"

    after.report_check("w", "check", "Ready")
    assert after.state("w") == "admitted"


def test_a_back_off_goes_on() -> None:
    before = Bench(cluster_queue(cpu=4))
    before.submit(workload("w", cpu=4))
    before.request_eviction("w", "PodsReadyTimeout")
    before.release("w")
    before.advance(20.0)
    after = restarted(before, cluster_queue(cpu=4))
    after.advance(39.0)
    assert after.state("w") == "pending"

    said = after.advance(1.0)
    assert [type(each) for each in said] == [Requeue, Admit]


def test_the_number_of_retries_goes_on() -> None:
    config = Config(pods_ready=PodsReady(backoff_limit=2))
    status = WorkloadStatus(requeue_state=RequeueState(count=2))
    bench = Bench(cluster_queue(cpu=4), config=config)
    bench.submit(msgspec.structs.replace(workload("w", cpu=1), status=status))
    said = bench.request_eviction("w", "PodsReadyTimeout")

    assert [type(each).__name__ for each in said] == ["Deactivate", "Evict"]


def held_back(reason: str, requeue_state: RequeueState | None = None) -> Workload:
    conditions = (
        condition("Evicted", reason),
        condition("QuotaReserved", "Pending", true=False),
        condition("Requeued", reason, true=False),
    )
    status = WorkloadStatus(conditions=conditions, requeue_state=requeue_state)
    return msgspec.structs.replace(workload("w", cpu=1, created=0), status=status)


@pytest.mark.parametrize(
    ("stored", "want_requeued"),
    [
        pytest.param(
            held_back("PodsReadyTimeout", RequeueState(count=1, requeue_at=moment(START - 10))),
            "BackoffFinished",
            id="its back-off ended while the engine was down",
        ),
        pytest.param(held_back("PodsReadyTimeout"), "BackoffFinished", id="it had no back-off"),
        pytest.param(held_back("AdmissionCheck"), "BackoffFinished", id="a check asked for a retry at once"),
        pytest.param(held_back("ClusterQueueStopped"), "ClusterQueueRestarted", id="its ClusterQueue runs again"),
        pytest.param(held_back("LocalQueueStopped"), "LocalQueueRestarted", id="its LocalQueue runs again"),
        pytest.param(held_back("Deactivated"), "Reactivated", id="it was activated again"),
    ],
)
def test_what_kept_a_workload_out_may_be_over_by_now(stored: Workload, want_requeued: str) -> None:
    """Once, such workloads waited for ever after a restart: what held them back was remembered, its end never seen."""
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(stored)
    bench.rest()

    assert bench.state("w") == "admitted"
    assert [each.reason for each in bench.said if isinstance(each, Requeue)] == [RequeueReason(want_requeued)]


def admitted_by_hand(name: str, cpu: int) -> Workload:
    got = PodSetAssignment(count=1, flavors={"cpu": "default"}, resource_usage={"cpu": Quantity.parse(cpu)})
    status = WorkloadStatus(
        conditions=(condition("QuotaReserved", "QuotaReserved"), condition("Admitted", "Admitted")),
        admission=Admission(cluster_queue="cq", pod_set_assignments=(got,)),
    )
    return msgspec.structs.replace(workload(name, cpu=cpu, created=0), status=status)


def test_workloads_may_be_known_before_their_queue() -> None:
    """Once, a ClusterQueue that came after its admitted workloads did not count them, and quota was given out twice."""
    bench = Bench()
    bench.submit(admitted_by_hand("w", 3))
    bench.apply(cluster_queue(cpu=4))
    bench.submit(workload("v", cpu=3))

    assert bench.states() == {"w": "admitted", "v": "pending"}


def test_a_deleted_queue_that_comes_back_counts_its_workloads_again() -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("w", cpu=3))
    bench.send(QueueDeleted(at=bench.now, name="cq"))
    bench.apply(cluster_queue(cpu=4))
    bench.submit(workload("v", cpu=3))

    assert bench.states() == {"w": "admitted", "v": "pending"}


def test_a_restart_within_a_circle_of_cohorts_keeps_count() -> None:
    """Once, walking up a circle of cohorts never ended."""
    bench = Bench(cluster_queue(cpu=4, cohort="x"), cohort("x", parent="y"), cohort("y", parent="x"))
    bench.submit(admitted_by_hand("w", 3))
    assert bench.state("w") == "admitted"

    bench.apply(cohort("x"))
    bench.submit(workload("v", cpu=3))
    assert bench.states() == {"w": "admitted", "v": "pending"}


def test_finished_workloads_are_known_and_hold_nothing() -> None:
    status = WorkloadStatus(
        conditions=(condition("Finished", "Succeeded"), condition("QuotaReserved", "QuotaReserved"))
    )
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(msgspec.structs.replace(workload("w", cpu=4), status=status), workload("v", cpu=4))

    assert bench.states() == {"w": "finished", "v": "admitted"}


def test_more_than_there_is_may_be_in_use_after_a_restart() -> None:
    """What others admitted, or what a quota allowed before it was lowered, runs on; nothing more is admitted."""
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(admitted_by_hand("w", 3), admitted_by_hand("x", 3), workload("v", cpu=1))

    assert bench.states() == {"w": "admitted", "x": "admitted", "v": "pending"}
    assert bench.engine.overused() == ["cq uses 6000 of default/cpu, 2000 more than it may"]
