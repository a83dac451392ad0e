"""Waiting before the next try: pods that were not ready in time, and admission checks that ask for a retry later."""

from __future__ import annotations

import msgspec
import pytest

from fairway.admission import events, wording
from fairway.admission.config import Config, PodsReady, RequeueTimestamp
from fairway.admission.instructions import Admit, Deactivate, DeactivationCause, Evict, EvictionReason, Requeue
from fairway.admission.reasons import Outcome
from fairway.apis.kueue.objects import AdmissionCheckState, CheckState, WorkloadStatus
from fairway.testing.builders import START, Bench, admission_check, cluster_queue, moment, workload


def time_out(bench: Bench, name: str = "w") -> Evict:
    """The pods did not become ready: evicted, and its job has stopped at once."""
    said = bench.request_eviction(name, "PodsReadyTimeout", cause="WaitForStart")
    bench.release(name)
    evict = said[-1]
    assert isinstance(evict, Evict)
    return evict


@pytest.mark.parametrize(
    ("rules", "want_delays"),
    [
        pytest.param(PodsReady(), [60, 120, 240, 480], id="the delay doubles each time"),
        pytest.param(PodsReady(backoff_base_seconds=1), [1, 2, 4, 8], id="from the base"),
        pytest.param(PodsReady(backoff_max_seconds=100), [60, 100, 100, 100], id="up to the most"),
        pytest.param(PodsReady(backoff_base_seconds=0), [0, 0, 0, 0], id="a base of nothing does not wait"),
    ],
)
def test_the_delay_before_the_next_try(rules: PodsReady, want_delays: list[int]) -> None:
    bench = Bench(cluster_queue(cpu=4), config=Config(pods_ready=rules))
    bench.submit(workload("w", cpu=1))
    delays = []
    for _ in want_delays:
        evicted_at = bench.now
        evict = time_out(bench)
        assert evict.requeue_at is not None
        delays.append(evict.requeue_at - evicted_at)
        bench.rest()
        assert bench.state("w") == "admitted"

    assert delays == want_delays


def test_nothing_brings_it_back_before_its_time() -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("w", cpu=1), workload("other", cpu=1))
    time_out(bench)
    bench.finish("other")
    bench.apply(cluster_queue(cpu=8))
    said = bench.advance(59.0)
    why = bench.why("w")

    assert (said, bench.state("w")) == ([], "pending")
    assert why is not None
    assert why.explanation.outcome is Outcome.BACKING_OFF
    assert bench.engine.next_wakeup == bench.now + 1.0


def test_when_the_time_has_come_it_is_said_and_tried() -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("w", cpu=1))
    time_out(bench)
    said = bench.advance(60.0)

    assert [type(each) for each in said] == [Requeue, Admit]
    assert wording.requeue(said[0].reason) == "The workload backoff was finished"  # type: ignore[attr-defined]


def test_a_job_that_stops_after_the_delay_is_over_queues_at_once() -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("w", cpu=1))
    bench.request_eviction("w", "PodsReadyTimeout")
    bench.advance(90.0)
    assert bench.state("w") == "admitted"

    said = bench.release("w")

    assert [type(each) for each in said] == [Requeue, Admit]


def test_those_who_back_off_do_not_block_a_strict_queue() -> None:
    bench = Bench(cluster_queue(cpu=4, strategy="StrictFIFO"))
    bench.submit(workload("w", cpu=4, priority=9))
    time_out(bench)
    bench.submit(workload("other", cpu=4))

    assert bench.states() == {"w": "pending", "other": "admitted"}


def test_deleting_one_that_backs_off_leaves_nothing_behind() -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("w", cpu=4))
    time_out(bench)
    bench.delete("w")

    assert [each for each in bench.advance(100.0) if each.key == "ns/w"] == []


@pytest.mark.parametrize(
    ("timestamp", "want_order"),
    [
        pytest.param(RequeueTimestamp.EVICTION, ["other", "w"], id="by default it queues by the time of its eviction"),
        pytest.param(RequeueTimestamp.CREATION, ["w", "other"], id="or by its creation where that is configured"),
    ],
)
def test_its_place_after_the_back_off(timestamp: RequeueTimestamp, want_order: list[str]) -> None:
    rules = PodsReady(backoff_base_seconds=1, requeue_timestamp=timestamp)
    bench = Bench(cluster_queue(cpu=1), config=Config(pods_ready=rules))
    bench.submit(workload("w", cpu=1), workload("other", cpu=1), workload("first", cpu=1, priority=1))
    time_out(bench)
    bench.advance(5.0)
    assert bench.admitted() == ["first"]
    bench.finish("first")
    bench.rest()
    bench.finish(want_order[0])
    bench.rest()

    assert bench.admissions() == ["w", "first", *want_order]


def test_after_too_many_tries_it_is_deactivated() -> None:
    bench = Bench(cluster_queue(cpu=4), config=Config(pods_ready=PodsReady(backoff_limit=1)))
    bench.submit(workload("w", cpu=1))
    time_out(bench)
    bench.rest()
    at = bench.now
    said = bench.request_eviction("w", "PodsReadyTimeout")

    assert said == [
        Deactivate(at=at, key="ns/w", cause=DeactivationCause.REQUEUING_LIMIT),
        Evict(at=at, key="ns/w", reason=EvictionReason.DEACTIVATED, cause="RequeuingLimitExceeded"),
    ]
    assert wording.eviction(said[1]) == (  # type: ignore[arg-type]
        "The workload is deactivated due to exceeding the maximum number of re-queuing retries"
    )

    bench.release("w")
    bench.rest()
    assert (bench.state("w"), bench.message("w")) == ("pending", "The workload is deactivated")


def test_a_reactivated_workload_starts_to_count_anew() -> None:
    bench = Bench(cluster_queue(cpu=4), config=Config(pods_ready=PodsReady(backoff_limit=1)))
    bench.submit(workload("w", cpu=1))
    for _ in range(2):
        bench.rest()
        time_out(bench)
    bench.set_active("w", active=True)
    bench.rest()
    evict = time_out(bench)

    assert (evict.reason, evict.requeue_at) == (EvictionReason.PODS_READY_TIMEOUT, bench.now + 60)


def backing_off_and_inactive() -> Bench:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("w", cpu=3))
    time_out(bench)
    bench.set_active("w", active=False)
    return bench


def test_the_end_of_a_back_off_is_no_news_for_an_inactive_workload() -> None:
    assert backing_off_and_inactive().advance(100) == []


def test_deactivation_ends_the_back_off() -> None:
    """Once, a workload that was activated again still waited for the end of the back-off from before."""
    bench = backing_off_and_inactive()
    bench.set_active("w", active=True)
    bench.advance(2)

    assert bench.state("w") == "admitted"


# Pods that must be ready before others are admitted


def test_nobody_is_admitted_until_all_pods_are_ready() -> None:
    config = Config(pods_ready=PodsReady(block_admission=True))
    bench = Bench(cluster_queue("a", cpu=4), cluster_queue("b", cpu=4), config=config)
    bench.submit(workload("first", queue="a", cpu=1), workload("second", queue="b", cpu=1))
    assert bench.admitted() == ["first"]
    assert bench.message("second") == "waiting for all admitted workloads to be in PodsReady condition"

    bench.set_pods_ready("first")

    assert bench.admitted() == ["first", "second"]


@pytest.mark.parametrize("end", ["finish", "delete"])
def test_an_unready_workload_that_goes_away_blocks_nobody(end: str) -> None:
    """Once, only its own tree was looked at again, and other trees stayed blocked for ever."""
    config = Config(pods_ready=PodsReady(block_admission=True))
    bench = Bench(cluster_queue("a", cpu=4), cluster_queue("b", cpu=4), config=config)
    bench.submit(workload("first", queue="a", cpu=1), workload("second", queue="b", cpu=1))
    getattr(bench, end)("first")
    bench.advance(5.0)

    assert bench.state("second") == "admitted"


def test_only_one_is_admitted_in_a_cycle_where_pods_must_be_ready() -> None:
    config = Config(pods_ready=PodsReady(block_admission=True))
    bench = Bench(cluster_queue("a", cpu=4), cluster_queue("b", cpu=4), config=config)
    bench.submit_together(workload("first", queue="a", cpu=1), workload("second", queue="b", cpu=1))

    assert bench.admitted() == ["first"]


def test_one_that_timed_out_does_not_go_before_the_one_that_it_held_up() -> None:
    """Once, the more urgent of the two came back when its job had stopped, and the other never had its turn."""
    config = Config(pods_ready=PodsReady(block_admission=True, backoff_base_seconds=1))
    bench = Bench(cluster_queue(cpu=4), config=config)
    bench.submit(workload("urgent", cpu=2, priority=100), workload("other", cpu=2))
    bench.request_eviction("urgent", "PodsReadyTimeout", cause="WaitForStart")
    bench.advance(2)
    bench.release("urgent")

    assert bench.admitted() == ["other"]
    assert bench.message("urgent") == "waiting for all admitted workloads to be in PodsReady condition"

    bench.set_pods_ready("other")
    assert bench.admitted() == ["other", "urgent"]


@pytest.mark.parametrize("leaves", ["delete", "deactivate", "less quota"])
def test_a_held_up_workload_that_leaves_or_no_longer_fits_keeps_no_place(leaves: str) -> None:
    config = Config(pods_ready=PodsReady(block_admission=True))
    bench = Bench(cluster_queue(cpu=4), config=config)
    bench.submit(workload("first", cpu=1), workload("held up", cpu=3))
    assert bench.admitted() == ["first"]
    if leaves == "delete":
        bench.delete("held up")
    elif leaves == "deactivate":
        bench.set_active("held up", active=False)
    else:
        bench.apply(cluster_queue(cpu=3))
    bench.submit(workload("last", cpu=1))
    bench.set_pods_ready("first")

    assert bench.admitted() == ["first", "last"]


def test_by_default_nobody_waits_for_pods() -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("first", cpu=1), workload("second", cpu=1))

    assert bench.admitted() == ["first", "second"]


# Admission checks


def retrying(name: str, after_seconds: int | None) -> AdmissionCheckState:
    return AdmissionCheckState(
        name=name,
        state=CheckState.RETRY,
        message="not now",
        last_transition_time=moment(START),
        requeue_after_seconds=after_seconds,
    )


@pytest.mark.parametrize(
    ("delays", "want_delay"),
    [
        pytest.param([30], 30, id="after the delay that the check asks for"),
        pytest.param([30, 90, None], 90, id="after the longest when several ask"),
    ],
)
def test_a_check_may_ask_to_retry_later(delays: list[int | None], want_delay: int) -> None:
    names = [f"check-{number}" for number in range(len(delays))]
    made = workload("w", cpu=1, created=0)
    bench = Bench(*map(admission_check, names), cluster_queue(cpu=4, checks=names))
    bench.submit(made)
    verdicts = tuple(map(retrying, names, delays))
    changed = msgspec.structs.replace(made, status=WorkloadStatus(admission_checks=verdicts))
    said = bench.send(events.WorkloadChanged(at=bench.now, workload=changed))

    assert [(type(each), each.key) for each in said] == [(Evict, "ns/w")]
    assert said[0].requeue_at == bench.now + want_delay  # type: ignore[attr-defined]

    bench.release("w")
    bench.advance(want_delay - 1)
    assert bench.state("w") == "pending"
    bench.advance(1)
    assert bench.state("w") == "reserved"


def test_a_check_may_ask_to_retry_at_once() -> None:
    bench = Bench(admission_check("check"), cluster_queue(cpu=4, checks=["check"]))
    bench.submit(workload("w", cpu=1))
    bench.report_check("w", "check", "Retry")
    said = bench.release("w")

    assert [type(each) for each in said] == [Requeue, Admit]
