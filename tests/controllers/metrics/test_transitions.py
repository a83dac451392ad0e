"""What a change of a Workload is worth counting."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controllers.manifests import admission, condition, workload
from fairway.controllers.metrics import transitions
from fairway.controllers.metrics.series import Histogram, Tally
from fairway.controllers.metrics.transitions import WorkloadView

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)
CREATED = "2026-01-01T00:00:00Z"
PREEMPTED = (
    "Preempted to accommodate a workload (UID: u, JobUID: j) due to prioritization in the ClusterQueue;"
    " preemptor path: /all/team/greedy; preemptee path: /all/cq"
)


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def is_(kind: str, since: float, reason: str = "", message: str = "") -> dict[str, Any]:
    return condition(kind, "True", reason or kind, ago(since), message)


def shown(*conditions: dict[str, Any], **status: Any) -> WorkloadView:
    by_class = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "prod"}
    made = workload(priorityClassRef=by_class, priority=1)
    made["metadata"]["creationTimestamp"] = CREATED
    return WorkloadView({**made, "status": {"conditions": list(conditions), **status}})


HERE = {"admission": admission("cq")}
RESERVED, ADMITTED, READY = is_("QuotaReserved", 30), is_("Admitted", 20), is_("PodsReady", 5, "Started")
QUEUE, LOCAL = ("cq", "prod"), ("user-queue", "default", "prod")


def stats(reason: str, cause: str, count: int) -> dict[str, Any]:
    return {"schedulingStats": {"evictions": [{"reason": reason, "underlyingCause": cause, "count": count}]}}


@pytest.mark.parametrize(
    ("old", "new", "counts", "times"),
    [
        pytest.param(shown(), shown(), {}, {}, id="nothing happened"),
        pytest.param(
            shown(),
            shown(is_("QuotaReserved", 0), **HERE),
            {("quota_reserved_workloads", QUEUE): 1, ("local_queue_quota_reserved_workloads", LOCAL): 1},
            {
                ("quota_reserved_wait_time_seconds", QUEUE): 3600,
                ("local_queue_quota_reserved_wait_time_seconds", LOCAL): 3600,
            },
            id="quota an hour after the creation",
        ),
        pytest.param(
            shown(is_("Requeued", 60)),
            shown(is_("Requeued", 60), is_("QuotaReserved", 0), **HERE),
            {("quota_reserved_workloads", QUEUE): 1, ("local_queue_quota_reserved_workloads", LOCAL): 1},
            {
                ("quota_reserved_wait_time_seconds", QUEUE): 60,
                ("local_queue_quota_reserved_wait_time_seconds", LOCAL): 60,
            },
            id="quota a minute after it was queued again",
        ),
        pytest.param(
            shown(RESERVED, **HERE),
            shown(RESERVED, is_("Admitted", 0), admissionChecks=[{"name": "c", "state": "Ready"}], **HERE),
            {("admitted_workloads", QUEUE): 1, ("local_queue_admitted_workloads", LOCAL): 1},
            {
                ("admission_wait_time_seconds", QUEUE): 3600,
                ("local_queue_admission_wait_time_seconds", LOCAL): 3600,
                ("admission_checks_wait_time_seconds", QUEUE): 30,
                ("local_queue_admission_checks_wait_time_seconds", LOCAL): 30,
            },
            id="admitted when its checks were ready",
        ),
        pytest.param(
            shown(RESERVED, ADMITTED, **HERE),
            shown(RESERVED, ADMITTED, READY, **HERE),
            {},
            {
                ("ready_wait_time_seconds", QUEUE): 3600,
                ("local_queue_ready_wait_time_seconds", LOCAL): 3600,
                ("admitted_until_ready_wait_time_seconds", QUEUE): 15,
                ("local_queue_admitted_until_ready_wait_time_seconds", LOCAL): 15,
            },
            id="pods became ready for the first time",
        ),
        pytest.param(
            shown(RESERVED, ADMITTED, **HERE),
            shown(RESERVED, ADMITTED, is_("PodsReady", 0, "Recovered"), **HERE),
            {},
            {},
            id="pods that recover were ready before",
        ),
        pytest.param(
            shown(RESERVED, ADMITTED, READY, **HERE),
            shown(
                RESERVED,
                ADMITTED,
                READY,
                is_("Evicted", 1, "Preempted", PREEMPTED),
                is_("Preempted", 1, "InCohortReclamation", PREEMPTED),
                **stats("Preempted", "", 1),
                **HERE,
            ),
            {
                ("evicted_workloads", ("cq", "Preempted", "", "prod")): 1,
                ("evicted_workloads_once", ("cq", "Preempted", "", "prod")): 1,
                ("local_queue_evicted_workloads", ("user-queue", "default", "Preempted", "", "prod")): 1,
                ("preempted_workloads", ("greedy", "InCohortReclamation")): 1,
            },
            {("pods_ready_to_evicted_time_seconds", ("cq", "Preempted", "")): 4},
            id="preempted for somebody of another queue",
        ),
        pytest.param(
            shown(RESERVED, ADMITTED, **stats("PodsReadyTimeout", "WaitForStart", 1), **HERE),
            shown(
                RESERVED,
                ADMITTED,
                is_("Evicted", 1, "PodsReadyTimeout"),
                **stats("PodsReadyTimeout", "WaitForStart", 2),
                **HERE,
            ),
            {
                ("evicted_workloads", ("cq", "PodsReadyTimeout", "WaitForStart", "prod")): 1,
                (
                    "local_queue_evicted_workloads",
                    ("user-queue", "default", "PodsReadyTimeout", "WaitForStart", "prod"),
                ): 1,
            },
            {},
            id="evicted for the same cause once more",
        ),
        pytest.param(
            shown(RESERVED, ADMITTED, **HERE),
            shown(RESERVED, ADMITTED, is_("Evicted", 1, "DeactivatedDueToMaximumExecutionTimeExceeded"), **HERE),
            {
                ("evicted_workloads", ("cq", "Deactivated", "MaximumExecutionTimeExceeded", "prod")): 1,
                (
                    "local_queue_evicted_workloads",
                    ("user-queue", "default", "Deactivated", "MaximumExecutionTimeExceeded", "prod"),
                ): 1,
            },
            {},
            id="a deactivation has its cause in the reason",
        ),
        pytest.param(
            shown(), shown(is_("Evicted", 0, "Deactivated")), {}, {}, id="one that held nothing loses nothing"
        ),
        pytest.param(
            shown(RESERVED, is_("Evicted", 7, "Preempted"), **HERE),
            shown(is_("Evicted", 7, "Preempted")),
            {},
            {("workload_eviction_latency_seconds", ("cq", "Preempted")): 7},
            id="quota comes back some time after an eviction",
        ),
        pytest.param(
            shown(RESERVED, ADMITTED, **HERE),
            shown(RESERVED, ADMITTED, is_("Finished", 0, "Succeeded"), **HERE),
            {("finished_workloads", QUEUE): 1, ("local_queue_finished_workloads", LOCAL): 1},
            {},
            id="the end",
        ),
    ],
)
def test_what_is_counted(
    old: WorkloadView,
    new: WorkloadView,
    counts: dict[tuple[str, tuple[str, ...]], int],
    times: dict[tuple[str, tuple[str, ...]], float],
) -> None:
    tally = Tally()
    transitions.count(tally, old.conditions, old.manifest, new, NOW)
    assert {
        (name, labels): value for name, series in tally.counts.items() for labels, value in series.items()
    } == counts
    assert {
        (name, labels): found.total for name, series in tally.times.items() for labels, found in series.items()
    } == times


def test_times_fall_into_the_buckets_that_kueue_has() -> None:
    histogram = Histogram()
    for seconds in (0.2, 1.0, 1.1, 11000.0):
        histogram.observe(seconds)
    found = dict(histogram.cumulative())
    assert list(found)[:5] == ["1.0", "2.5", "5.0", "10.0", "20.0"]
    assert len(found) == 15
    assert (found["1.0"], found["2.5"], found["10240.0"], found["+Inf"]) == (2, 3, 3, 4)
