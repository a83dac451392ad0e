"""Checks between the reservation of quota and the start: which are needed, and what follows from their verdicts."""

from __future__ import annotations

import pytest

from fairway.admission import wording
from fairway.admission.events import CheckVerdict
from fairway.admission.instructions import Admit, Deactivate, DeactivationCause, Evict, EvictionReason, Start
from fairway.testing.builders import Bench, admission_check, cluster_queue, on, workload


def checked(*names: str) -> Bench:
    bench = Bench(*map(admission_check, names), cluster_queue(cpu=4, checks=names))
    bench.submit(workload("w", cpu=3))
    assert bench.state("w") == "reserved"
    return bench


def test_quota_is_reserved_and_the_start_waits() -> None:
    bench = checked("b", "a")
    (admit,) = (each for each in bench.said if isinstance(each, Admit))

    assert (admit.admitted, admit.pending_checks) == (False, ("a", "b"))
    assert wording.reserved(admit) == "Quota reserved in ClusterQueue cq"

    bench.submit(workload("next", cpu=3))
    assert bench.state("next") == "pending"


def test_it_starts_when_every_check_is_ready() -> None:
    bench = checked("a", "b")
    assert bench.report_check("w", "a", "Ready") == []
    assert bench.report_check("w", "b", "Pending") == []
    said = bench.report_check("w", "b", "Ready")

    assert said == [Start(at=bench.now, key="ns/w", cluster_queue="cq")]
    assert bench.state("w") == "admitted"
    assert bench.report_check("w", "b", "Ready") == []


@pytest.mark.parametrize(
    ("cpu", "want_pending"),
    [
        pytest.param(2, (), id="a flavor without the check starts at once"),
        pytest.param(3, ("prov",), id="a flavor with the check waits for it"),
    ],
)
def test_checks_of_some_flavors_only(cpu: int, want_pending: tuple[str, ...]) -> None:
    queue = cluster_queue("cq", on("owned", cpu=2), on("rented", cpu=4), checks={"prov": ["rented"]})
    bench = Bench(admission_check("prov"), queue)
    bench.submit(workload("w", cpu=cpu))
    (admit,) = (each for each in bench.said if isinstance(each, Admit))

    assert (admit.admitted, admit.pending_checks) == (not want_pending, want_pending)


def test_a_retry_evicts_and_the_quota_is_free_after_the_release() -> None:
    bench = Bench(admission_check("a"), cluster_queue(cpu=4, checks=["a"], strategy="StrictFIFO"))
    bench.submit(workload("w", cpu=3), workload("next", cpu=3))
    said = bench.report_check("w", "a", "Retry", message="no nodes")
    (evict,) = said

    assert isinstance(evict, Evict)
    assert (evict.reason, evict.checks) == (
        EvictionReason.ADMISSION_CHECK,
        {"a": CheckVerdict(state="Retry", message="no nodes")},
    )
    assert wording.eviction(evict) == 'Evicted due to AdmissionCheck in Retry state: "a" (no nodes)'

    assert bench.state("next") == "pending"

    bench.release("w")
    assert bench.state("next") == "reserved"


def test_after_an_eviction_all_checks_begin_anew() -> None:
    bench = checked("a", "b")
    bench.report_check("w", "b", "Ready")
    bench.report_check("w", "a", "Retry")
    bench.release("w")
    assert bench.state("w") == "reserved"

    bench.report_check("w", "a", "Ready")
    assert bench.state("w") == "reserved"
    bench.report_check("w", "b", "Ready")
    assert bench.state("w") == "admitted"


def test_a_retried_workload_goes_behind_its_equals() -> None:
    bench = Bench(admission_check("a"), cluster_queue(cpu=4, checks=["a"], strategy="StrictFIFO"))
    bench.submit(workload("w", cpu=3), workload("peer", cpu=3))
    bench.report_check("w", "a", "Retry")
    bench.release("w")

    assert bench.states() == {"w": "pending", "peer": "reserved"}


def test_a_running_workload_is_evicted_by_a_late_retry() -> None:
    bench = checked("a")
    bench.report_check("w", "a", "Ready")
    bench.report_check("w", "a", "Retry")

    assert bench.evicting() == ["w"]


def test_a_rejection_deactivates() -> None:
    bench = checked("a", "b")
    bench.report_check("w", "b", "Retry")
    bench.release("w")
    at = bench.now
    said = bench.report_check("w", "a", "Rejected", message="too expensive")
    verdicts = {"a": CheckVerdict(state="Rejected", message="too expensive")}

    assert said == [
        Deactivate(at=at, key="ns/w", cause=DeactivationCause.ADMISSION_CHECK, checks=verdicts),
        Evict(at=at, key="ns/w", reason=EvictionReason.DEACTIVATED, cause="AdmissionCheck", checks=verdicts),
    ]
    deactivate, evict = said
    assert isinstance(deactivate, Deactivate)
    assert isinstance(evict, Evict)
    assert wording.deactivation(deactivate) == 'AdmissionCheck in Rejected state: "a" (too expensive)'
    assert wording.eviction(evict) == (
        'The workload is deactivated due to AdmissionCheck in Rejected state: "a" (too expensive)'
    )

    bench.release("w")
    bench.rest()
    assert (bench.state("w"), bench.message("w")) == ("pending", "The workload is deactivated")


def test_several_checks_are_named_together() -> None:
    verdicts = {"b": CheckVerdict(state="Retry", message="two"), "a": CheckVerdict(state="Retry", message="one")}

    assert wording.checks("Retry", verdicts) == 'AdmissionChecks in Retry state: "a" (one); "b" (two)'


def test_a_check_that_is_added_to_the_queue_is_asked_of_those_who_wait_for_others() -> None:
    bench = checked("a")
    bench.apply(admission_check("b"), cluster_queue(cpu=4, checks=["a", "b"]))
    bench.report_check("w", "a", "Ready")
    assert bench.state("w") == "reserved"

    bench.report_check("w", "b", "Ready")
    assert bench.state("w") == "admitted"


def test_a_check_that_is_taken_from_the_queue_is_waited_for_no_more() -> None:
    bench = checked("a", "b")
    bench.report_check("w", "a", "Ready")
    said = bench.apply(cluster_queue(cpu=4, checks=["a"]))

    assert said == [Start(at=bench.now, key="ns/w", cluster_queue="cq")]


def test_reservations_can_be_preempted_as_well() -> None:
    bench = Bench(admission_check("a"), cluster_queue(cpu=4, checks=["a"], within="LowerPriority"))
    bench.submit(workload("w", cpu=4), workload("urgent", cpu=4, priority=1))
    assert bench.evictions() == [("w", "InClusterQueue")]

    bench.release("w")
    assert bench.states() == {"w": "pending", "urgent": "reserved"}
