"""Changes under way: priorities, specs, LocalQueues that move or go, namespaces, and echoes of what was decided."""

from __future__ import annotations

import msgspec
import pytest

from fairway.admission import events
from fairway.admission.instructions import Explain, Unreserve
from fairway.admission.reasons import Outcome
from fairway.apis.kueue.objects import ReclaimablePod, Workload, WorkloadStatus
from fairway.testing.builders import Bench, admission_check, cluster_queue, local_queue, workload

from .stored import condition

# Priorities


def test_a_raised_priority_moves_a_waiting_workload_forward() -> None:
    bench = Bench(cluster_queue(cpu=1, strategy="StrictFIFO"))
    bench.submit(workload("runs", cpu=1), workload("first", cpu=1), workload("second", cpu=1))
    bench.set_priority("second", 1)
    bench.finish("runs")

    assert bench.admitted() == ["second"]


def test_a_raised_priority_lets_it_preempt_at_once() -> None:
    bench = Bench(cluster_queue(cpu=1, within="LowerPriority"))
    bench.submit(workload("runs", cpu=1), workload("waits", cpu=1))
    bench.set_priority("waits", 1)

    assert bench.evictions() == [("runs", "InClusterQueue")]


def test_a_lowered_priority_of_a_holder_makes_it_a_victim() -> None:
    bench = Bench(cluster_queue(cpu=1, within="LowerPriority"))
    bench.submit(workload("runs", cpu=1, priority=5))
    bench.set_priority("runs", 1)
    bench.submit(workload("urgent", cpu=1, priority=3))

    assert bench.evictions() == [("runs", "InClusterQueue")]


def test_a_raised_priority_of_a_holder_protects_it() -> None:
    bench = Bench(cluster_queue(cpu=2, within="LowerPriority"))
    bench.submit(workload("a", cpu=1), workload("b", cpu=1, priority=1))
    bench.set_priority("a", 7)
    bench.submit(workload("urgent", cpu=1, priority=5))

    assert bench.evictions() == [("b", "InClusterQueue")]


def test_a_priority_changed_in_the_object_counts_as_well() -> None:
    bench = Bench(cluster_queue(cpu=1, within="LowerPriority"))
    bench.submit(workload("runs", cpu=1), workload("waits", cpu=1, created=5))
    bench.send(events.WorkloadChanged(at=bench.now, workload=workload("waits", cpu=1, created=5, priority=1)))

    assert bench.evictions() == [("runs", "InClusterQueue")]


# The workload's own object


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(workload("w", cpu=1, created=5), id="it asks for less"),
        pytest.param(workload("w", cpu=4, queue="other", created=5), id="it names another LocalQueue"),
        pytest.param(
            msgspec.structs.replace(
                workload("w", cpu=1, count=4, created=5),
                status=WorkloadStatus(reclaimable_pods=(ReclaimablePod(name="main", count=3),)),
            ),
            id="most of its pods are done",
        ),
    ],
)
def test_a_waiting_workload_that_changed_is_tried_anew(changed: Workload) -> None:
    bench = Bench(cluster_queue(cpu=4), cluster_queue("other", cpu=4))
    bench.submit(workload("runs", cpu=3), workload("w", cpu=1, count=4, created=5))
    assert bench.state("w") == "pending"

    bench.send(events.WorkloadChanged(at=bench.now, workload=changed))

    assert bench.state("w") == "admitted"


def test_an_echo_of_a_waiting_workload_does_not_wake_it() -> None:
    made = workload("w", cpu=4, created=5)
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("runs", cpu=3), made)
    said = bench.send(*(events.WorkloadChanged(at=bench.now, workload=made) for _ in range(3)))

    assert (said, bench.engine.next_wakeup) == ([], None)


def test_the_finished_condition_ends_it() -> None:
    made = workload("w", cpu=4, created=5)
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(made, workload("next", cpu=4))
    finished = msgspec.structs.replace(made, status=WorkloadStatus(conditions=(condition("Finished", "Succeeded"),)))
    bench.send(events.WorkloadChanged(at=bench.now, workload=finished))
    bench.rest()

    assert bench.states() == {"w": "finished", "next": "admitted"}


def test_a_workload_that_comes_twice_is_one() -> None:
    made = workload("w", cpu=4, created=5)
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(made, made)

    assert bench.admissions() == ["w"]


def test_a_deactivated_object_gives_up_its_quota() -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("w", cpu=4, created=5), workload("next", cpu=4))
    bench.send(events.WorkloadChanged(at=bench.now, workload=workload("w", cpu=4, created=5, active=False)))
    bench.advance(1.0)

    assert bench.states() == {"w": "admitted", "next": "admitted"}
    assert bench.evictions() == [("w", "Deactivated")]
    assert bench.engine.overused() == []


# LocalQueues


def test_a_local_queue_that_moves_takes_those_who_wait_along() -> None:
    bench = Bench(cluster_queue("a", cpu=1), cluster_queue("b", cpu=1), local_queue("team", "a"))
    bench.submit(workload("runs", queue="team", cpu=1), workload("waits", queue="team", cpu=1))
    bench.apply(local_queue("team", "b"))
    why = {name: bench.record(name).queue.name for name in ("runs", "waits")}  # type: ignore[union-attr]

    assert (bench.admitted(), why) == (["runs", "waits"], {"runs": "a", "waits": "b"})


def test_who_runs_queues_in_the_new_place_after_an_eviction() -> None:
    bench = Bench(cluster_queue("a", cpu=1), cluster_queue("b", cpu=1), local_queue("team", "a"))
    bench.submit(workload("w", queue="team", cpu=1))
    bench.apply(local_queue("team", "b"))
    bench.request_eviction("w", "NodeFailures")
    bench.release("w")
    bench.submit(workload("other", queue="a", cpu=1))

    assert bench.admissions() == ["w", "w", "other"]


def test_a_deleted_local_queue_leaves_its_workloads_waiting() -> None:
    bench = Bench(cluster_queue(cpu=1), local_queue("team", "cq"))
    bench.submit(workload("runs", queue="team", cpu=1), workload("waits", queue="team", cpu=1))
    said = bench.send(events.LocalQueueDeleted(at=bench.now, namespace="ns", name="team"))

    assert [(type(each), each.key) for each in said] == [(Explain, "ns/waits")]
    assert bench.message("waits") == "LocalQueue team doesn't exist"
    bench.finish("runs")
    bench.rest()
    assert bench.state("waits") == "pending"

    bench.apply(local_queue("team", "cq"))
    assert bench.state("waits") == "admitted"


def test_a_deleted_local_queue_takes_back_reservations() -> None:
    bench = Bench(admission_check("check"), cluster_queue(cpu=1, checks=["check"]), local_queue("team", "cq"))
    bench.submit(workload("w", queue="team", cpu=1))
    said = bench.send(events.LocalQueueDeleted(at=bench.now, namespace="ns", name="team"))

    assert [type(each) for each in said] == [Unreserve]
    assert bench.state("w") == "pending"


def test_local_queues_of_the_same_name_in_other_namespaces_are_others() -> None:
    bench = Bench(cluster_queue("a", cpu=1), cluster_queue("b", cpu=0), local_queue("team", "a"))
    bench.send(events.NamespaceChanged(at=bench.now, name="elsewhere", labels={}))
    bench.apply(local_queue("team", "b", namespace="elsewhere"))
    bench.submit(workload("here", queue="team", cpu=1), workload("there", queue="team", namespace="elsewhere", cpu=1))

    assert bench.states() == {"here": "admitted", "elsewhere/there": "pending"}


def test_a_deleted_cluster_queue_leaves_its_workloads_waiting() -> None:
    bench = Bench(cluster_queue(cpu=1))
    bench.submit(workload("large", cpu=9), workload("huge", cpu=10))
    bench.send(events.QueueDeleted(at=bench.now, name="cq"))
    assert bench.message("large") == "ClusterQueue cq doesn't exist"

    bench.apply(cluster_queue(cpu=9))
    assert bench.admitted() == ["large"]


# Namespaces


@pytest.mark.parametrize(
    ("strategy", "want_admitted"),
    [
        pytest.param("StrictFIFO", ["elsewhere/other"], id="not even in a StrictFIFO queue does it block others"),
        pytest.param("BestEffortFIFO", ["elsewhere/other"], id="nor in a BestEffortFIFO queue"),
    ],
)
def test_a_namespace_that_is_not_selected(strategy: str, want_admitted: list[str]) -> None:
    bench = Bench(cluster_queue(cpu=4, namespaces={"team": "ml"}, strategy=strategy))
    bench.send(events.NamespaceChanged(at=bench.now, name="elsewhere", labels={"team": "ml"}))
    bench.apply(local_queue("cq", "cq", namespace="elsewhere"))
    bench.submit(workload("w", cpu=1), workload("other", namespace="elsewhere", cpu=1))
    why = bench.why("w")

    assert bench.admitted() == want_admitted
    assert why is not None
    assert why.explanation.outcome is Outcome.NAMESPACE_MISMATCH


def test_a_namespace_that_does_not_exist() -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.apply(local_queue("cq", "cq", namespace="late"))
    bench.submit(workload("w", namespace="late", cpu=1))
    assert bench.message("late/w") == 'workload namespace "late" does not exist'

    bench.send(events.NamespaceChanged(at=bench.now, name="late", labels={}))
    bench.advance(1.0)
    assert bench.state("late/w") == "admitted"


def test_a_selector_that_is_changed_lets_them_in() -> None:
    bench = Bench(cluster_queue(cpu=4, namespaces={"team": "ml"}))
    bench.submit(workload("w", cpu=1))
    bench.apply(cluster_queue(cpu=4))
    bench.advance(1.0)

    assert bench.state("w") == "admitted"


def test_a_namespace_that_stops_to_match_keeps_those_who_run() -> None:
    bench = Bench(cluster_queue(cpu=4, namespaces={"team": "ml"}))
    bench.send(events.NamespaceChanged(at=bench.now, name="ns", labels={"team": "ml"}))
    bench.submit(workload("runs", cpu=1))
    bench.send(events.NamespaceChanged(at=bench.now, name="ns", labels={}))
    bench.submit(workload("late", cpu=1))

    assert bench.states() == {"runs": "admitted", "late": "pending"}
