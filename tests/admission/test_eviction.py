"""Losing quota: the two phases of an eviction, deactivation, and decisions that are taken back."""

from __future__ import annotations

import pytest

from fairway.admission import events, wording
from fairway.admission.instructions import Admit, Deactivate, Evict, EvictionReason, Requeue
from fairway.admission.reasons import Outcome
from fairway.testing.builders import Bench, cluster_queue, workload


def running(**rules: str) -> Bench:
    bench = Bench(cluster_queue(cpu=4, within=rules.get("within", "Never")))
    bench.submit(workload("w", cpu=3))
    assert bench.state("w") == "admitted"
    return bench


# Two phases


def test_quota_is_held_until_the_job_has_stopped() -> None:
    bench = running(within="LowerPriority")
    bench.submit(workload("urgent", cpu=2, priority=1))
    assert (bench.evicting(), bench.state("urgent")) == (["w"], "pending")

    bench.submit(workload("small", cpu=1))
    bench.advance(60.0)
    assert bench.states() == {"w": "admitted", "urgent": "pending", "small": "pending"}

    bench.release("w")
    assert (bench.evicting(), bench.state("urgent"), bench.state("w")) == ([], "admitted", "pending")


def test_a_victim_is_told_once() -> None:
    bench = running(within="LowerPriority")
    bench.submit(workload("urgent", cpu=2, priority=1), workload("other", cpu=2, priority=1))
    bench.rest()
    bench.send(events.TimePassed(at=bench.now + 10))

    assert bench.evictions() == [("w", "InClusterQueue")]


def test_a_preempted_workload_keeps_its_place_by_age() -> None:
    bench = running(within="LowerPriority")
    bench.submit(workload("younger", cpu=3), workload("urgent", cpu=2, priority=1))
    bench.release("w")
    why = bench.why("w")

    assert why is not None
    assert (why.position, why.ahead) == (0, ())

    bench.finish("urgent")
    bench.rest()
    assert bench.admitted() == ["w"]


def test_a_victim_that_finishes_first_makes_room_as_well() -> None:
    bench = running(within="LowerPriority")
    bench.submit(workload("urgent", cpu=2, priority=1))
    bench.finish("w")

    assert bench.states() == {"w": "finished", "urgent": "admitted"}


def test_a_victim_that_is_deleted_makes_room_as_well() -> None:
    bench = running(within="LowerPriority")
    bench.submit(workload("urgent", cpu=2, priority=1))
    bench.delete("w")

    assert bench.states() == {"urgent": "admitted"}


def test_a_release_nobody_was_told_about_is_taken_as_it_is() -> None:
    """The quota is gone, for whatever reason: the workload queues again."""
    bench = running()
    bench.release("w")

    assert bench.admissions() == ["w", "w"]


@pytest.mark.parametrize("stage", ["pending", "finished", "unknown"])
def test_a_release_of_who_holds_nothing_changes_nothing(stage: str) -> None:
    bench = running()
    bench.submit(workload("other", cpu=3))
    name = {"pending": "other", "finished": "w", "unknown": "nobody"}[stage]
    if stage == "finished":
        bench.finish("w")
    before = bench.states()
    said = bench.release(name)

    assert (said, bench.states()) == ([], before)


@pytest.mark.parametrize(
    ("reason", "want_admitted_again"),
    [
        pytest.param("NodeFailures", True, id="after failed nodes it queues again at once"),
        pytest.param("PodsReadyTimeout", False, id="after missing pods only after its back-off"),
    ],
)
def test_when_an_evicted_workload_queues_again(reason: str, want_admitted_again: bool) -> None:  # noqa: FBT001 - a table
    bench = running()
    bench.request_eviction("w", reason)
    bench.release("w")
    bench.advance(1.0)

    assert (bench.state("w") == "admitted") is want_admitted_again


def test_an_eviction_that_is_asked_for_twice_is_told_once() -> None:
    bench = running()
    first = bench.request_eviction("w", "NodeFailures", message="node n1 failed")
    second = bench.request_eviction("w", "NodeFailures")

    assert first == [
        Evict(at=bench.now, key="ns/w", reason=EvictionReason.NODE_FAILURES, message="node n1 failed", requeue_at=None)
    ]
    assert wording.eviction(first[0]) == "node n1 failed"  # type: ignore[arg-type]
    assert second == []


def test_events_about_unknown_workloads_change_nothing() -> None:
    bench = running()
    key = "ns/nobody"
    at = bench.now
    said = bench.send(
        events.WorkloadDeleted(at=at, key=key),
        events.WorkloadFinished(at=at, key=key),
        events.QuotaReleased(at=at, key=key),
        events.PriorityChanged(at=at, key=key, priority=1),
        events.ActiveChanged(at=at, key=key, active=False),
        events.PodsReclaimed(at=at, key=key, counts={"main": 1}),
        events.PodsReadyChanged(at=at, key=key, ready=True),
        events.EvictionRequested(at=at, key=key, reason="NodeFailures"),
        events.CheckReported(at=at, key=key, check="c", verdict=events.CheckVerdict(state="Ready")),
        events.WriteFailed(at=at, key=key),
    )

    assert (said, bench.states()) == ([], {"w": "admitted"})


# Deactivation


def test_deactivation_frees_the_quota_at_once() -> None:
    bench = running()
    bench.submit(workload("next", cpu=3))
    said = bench.set_active("w", active=False)
    bench.advance(1.0)

    assert said == [Evict(at=said[0].at, key="ns/w", reason=EvictionReason.DEACTIVATED)]
    assert wording.eviction(said[0]) == "The workload is deactivated"  # type: ignore[arg-type]
    assert bench.state("next") == "admitted"


def test_a_deactivated_workload_is_not_queued() -> None:
    bench = running()
    bench.set_active("w", active=False)
    bench.release("w")
    bench.rest()
    why = bench.why("w")

    assert (bench.state("w"), bench.admissions()) == ("pending", ["w"])
    assert why is not None
    assert (why.explanation.outcome, why.position) == (Outcome.DEACTIVATED, None)


def test_a_reactivated_workload_queues_again() -> None:
    bench = running()
    bench.set_active("w", active=False)
    bench.release("w")
    said = bench.set_active("w", active=True)

    assert [type(each) for each in said] == [Requeue, Admit]
    assert wording.requeue(said[0].reason) == "The workload was reactivated"  # type: ignore[attr-defined]


def test_reactivated_before_its_job_has_stopped_it_counts_until_then_and_queues_after() -> None:
    """Once, such a workload was never queued again: when its job had stopped, nobody remembered the reactivation."""
    bench = running()
    bench.set_active("w", active=False)
    bench.set_active("w", active=True)
    bench.submit(workload("next", cpu=3))
    assert bench.state("next") == "pending"

    said = bench.release("w") + bench.advance(1.0)

    assert [(type(each), each.key) for each in said] == [(Requeue, "ns/w"), (Admit, "ns/w")]
    assert bench.states() == {"w": "admitted", "next": "pending"}


def test_a_waiting_workload_can_be_deactivated_and_reactivated() -> None:
    bench = running()
    bench.submit(workload("waits", cpu=4))
    bench.set_active("waits", active=False)
    bench.finish("w")
    bench.rest()
    assert bench.state("waits") == "pending"

    bench.set_active("waits", active=True)
    assert bench.state("waits") == "admitted"


def test_a_workload_that_comes_inactive_waits_for_its_activation() -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("w", cpu=1, active=False))
    bench.rest()
    assert bench.state("w") == "pending"

    bench.set_active("w", active=True)
    assert bench.state("w") == "admitted"


def test_somebody_else_may_deactivate_with_a_cause() -> None:
    bench = running()
    said = bench.request_eviction(
        "w", "Deactivated", cause="MaximumExecutionTimeExceeded", message="exceeding the maximum execution time"
    )
    deactivate, evict = said

    assert isinstance(deactivate, Deactivate)
    assert wording.deactivation(deactivate) == "exceeding the maximum execution time"
    assert isinstance(evict, Evict)
    assert (evict.reason, evict.cause) == (EvictionReason.DEACTIVATED, "MaximumExecutionTimeExceeded")
    assert wording.eviction(evict) == "The workload is deactivated due to exceeding the maximum execution time"


def test_a_gated_workload_is_not_queued() -> None:
    gate = {"kueue.x-k8s.io/admission-gated-by": "example.com/gate"}
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("w", cpu=1, created=0, annotations=gate))
    assert (bench.state("w"), bench.message("w")) == ("pending", "Admission is gated by: example.com/gate")

    bench.send(events.WorkloadChanged(at=bench.now, workload=workload("w", cpu=1, created=0)))
    assert bench.state("w") == "admitted"


# Writes that failed


def test_an_admission_that_could_not_be_written_is_taken_back() -> None:
    bench = Bench(cluster_queue(cpu=4, strategy="StrictFIFO"))
    bench.submit(workload("w", cpu=3), workload("higher", cpu=3, priority=1))
    bench.fail_write("w")

    assert bench.states() == {"w": "pending", "higher": "admitted"}


def test_an_admission_that_could_not_be_written_is_tried_again() -> None:
    bench = running()
    said = bench.fail_write("w")

    assert [(type(each), each.key) for each in said] == [(Admit, "ns/w")]


def test_an_eviction_that_could_not_be_written_did_not_happen() -> None:
    bench = running()
    bench.request_eviction("w", "NodeFailures")
    said = bench.fail_write("w")

    assert (said, bench.evicting(), bench.state("w")) == ([], [], "admitted")
    assert bench.record("w").evictions == {}


def test_a_preemption_that_could_not_be_written_is_decided_anew() -> None:
    bench = running(within="LowerPriority")
    bench.submit(workload("urgent", cpu=2, priority=1))
    said = bench.fail_write("w")

    assert [(type(each), each.key) for each in said] == [(Evict, "ns/w")]
    assert bench.record("w").evictions == {"Preempted": 1}

    bench.release("w")
    assert bench.state("urgent") == "admitted"


def test_a_failed_write_for_who_holds_nothing_changes_nothing() -> None:
    bench = running()
    bench.submit(workload("waits", cpu=3))

    assert bench.fail_write("waits") == []
    assert bench.states() == {"w": "admitted", "waits": "pending"}


# The end


def test_a_finished_workload_never_comes_back() -> None:
    bench = running()
    bench.finish("w")
    bench.set_active("w", active=False)
    bench.set_active("w", active=True)
    bench.set_priority("w", 9)
    bench.release("w")
    bench.fail_write("w")
    bench.finish("w")
    bench.rest()

    assert (bench.states(), bench.admissions()) == ({"w": "finished"}, ["w"])


def test_a_deleted_workload_is_forgotten_and_its_name_is_free() -> None:
    bench = running()
    bench.delete("w")
    assert (bench.states(), bench.why("w")) == ({}, None)

    bench.submit(workload("w", cpu=4, uid="another"))
    assert bench.state("w") == "admitted"


def test_an_object_of_the_same_name_with_another_uid_is_another_workload() -> None:
    bench = running()
    bench.send(events.WorkloadChanged(at=bench.now, workload=workload("w", cpu=4, created=1, uid="another")))
    bench.rest()

    assert bench.record("w").admission[0].usage == {"cpu": 4000}
    assert bench.admissions() == ["w", "w"]
