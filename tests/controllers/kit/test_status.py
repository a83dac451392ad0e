"""Changes of a status: evicting, releasing and finishing a Workload, the same for all controllers."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.timestamps import stamp
from fairway.controllers.kit.status import WorkloadStatusChange
from fairway.integrations import conditions
from fairway.store.patching.merge import merge_patch

NOW = datetime(2026, 1, 2, 3, 4, 5, 600_000, tzinfo=UTC)
ADMITTED_FOR = 90


def condition(kind: str, status: str = "True", reason: str = "Test", message: str = "as told") -> dict[str, Any]:
    since = stamp(NOW - timedelta(seconds=ADMITTED_FOR))
    return {"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": since}


def workload(*held: dict[str, Any], **status: Any) -> Manifest:
    return {"metadata": {"name": "w", "generation": 3}, "status": {"conditions": list(held), **status}}


def admitted(*more: dict[str, Any], **status: Any) -> Manifest:
    return workload(condition("QuotaReserved"), condition("Admitted"), *more, admission={}, **status)


def written(change: WorkloadStatusChange) -> Manifest:
    """The object as the API has it after the patch."""
    found = change.patch
    return change.manifest if found is None else merge_patch(change.manifest, found)


@pytest.mark.parametrize(
    ("reason", "single_pod", "requeued"),
    [
        pytest.param("Preempted", False, "True", id="a preempted workload is queued again at once"),
        pytest.param("NodeFailures", False, "True", id="so is one whose node failed"),
        pytest.param("Preempted", True, "False", id="that of a single pod goes with its pod"),
        pytest.param("PodsReadyTimeout", False, "False", id="one whose pods never came waits for its back-off"),
        pytest.param("Deactivated", False, "False", id="a deactivated one waits to be activated"),
    ],
)
def test_release(reason: str, single_pod: bool, requeued: str) -> None:  # noqa: FBT001 - a column of the table
    change = WorkloadStatusChange(admitted(condition("Evicted", reason=reason), condition("PodsReady")), NOW)
    change.release(single_pod=single_pod)
    after = written(change)
    told = {one["type"]: (one["status"], one["reason"], one["message"]) for one in conditions.of(after)}
    assert told["Requeued"] == (requeued, reason, "as told")
    assert told["QuotaReserved"] == ("False", "Pending", "as told")
    assert told["Admitted"] == ("False", "NoReservation", "The workload has no reservation")
    assert told["PodsReady"] == ("False", "WaitForStart", "Not all pods are ready or succeeded")
    assert "admission" not in after["status"]
    assert after["status"]["accumulatedPastExecutionTimeSeconds"] == ADMITTED_FOR


def test_only_an_evicted_workload_is_released() -> None:
    with pytest.raises(ValueError, match="only an evicted workload"):
        WorkloadStatusChange(admitted(), NOW).release()


def test_a_workload_that_was_not_admitted_spent_no_time() -> None:
    change = WorkloadStatusChange(workload(condition("QuotaReserved"), admission={}), NOW)
    change.unreserve("OnHold", "Job is on hold")
    assert "accumulatedPastExecutionTimeSeconds" not in written(change)["status"]


def test_checks_that_are_not_ready_are_named_as_the_reason() -> None:
    change = WorkloadStatusChange(admitted(admissionChecks=[{"name": "c", "state": "Pending"}]), NOW)
    change.unreserve("Pending", "why")
    assert (conditions.find(written(change), "Admitted") or {})["reason"] == "NoReservationUnsatisfiedChecks"


def test_an_eviction_keeps_the_quota_and_resets_the_checks() -> None:
    checks = [
        {"name": "a", "state": "Ready"},
        {"name": "b", "state": "Retry", "retryCount": 1},
        {"name": "c", "state": "Rejected", "retryCount": 1},
    ]
    change = WorkloadStatusChange(admitted(admissionChecks=checks, clusterName="far"), NOW)
    assert change.evict("AdmissionCheck", "one said retry") == "AdmissionCheck"
    after = written(change)
    assert conditions.is_true(after, "Evicted")
    assert conditions.is_true(after, "Admitted")
    assert "clusterName" not in after["status"]
    assert [(one["state"], one.get("retryCount", 0)) for one in after["status"]["admissionChecks"]] == [
        ("Pending", 0),
        ("Pending", 2),
        ("Pending", 1),
    ]
    counted = [{"reason": "AdmissionCheck", "underlyingCause": "", "count": 1}]
    assert after["status"]["schedulingStats"] == {"evictions": counted}


def test_a_back_off_is_only_ever_moved_later_and_timeouts_are_counted() -> None:
    later, sooner = stamp(NOW + timedelta(hours=1)), stamp(NOW + timedelta(minutes=1))
    change = WorkloadStatusChange(admitted(requeueState={"requeueAt": later, "count": 4}), NOW)
    change.evict("PodsReadyTimeout", "late", requeue_at=sooner)
    assert written(change)["status"]["requeueState"] == {"requeueAt": later, "count": 5}


def test_a_deactivation_says_its_cause_and_ends_the_back_off() -> None:
    change = WorkloadStatusChange(admitted(condition("DeactivationTarget"), requeueState={"count": 4}), NOW)
    assert change.evict("Deactivated", "given up", "RequeuingLimitExceeded") == "DeactivatedDueToRequeuingLimitExceeded"
    after = written(change)
    assert "requeueState" not in after["status"]
    assert conditions.find(after, "DeactivationTarget") is None


MOVES = st.sampled_from(["evict", "release", "unreserve", "finish", "nothing"])


@given(st.lists(MOVES, max_size=6), st.booleans())
def test_what_is_stored_after_a_patch_is_what_the_change_says_and_needs_no_other(moves: list[str], ready: bool) -> None:  # noqa: FBT001
    before = admitted(*([condition("PodsReady")] if ready else []), admissionChecks=[{"name": "c", "state": "Ready"}])

    def make(change: WorkloadStatusChange) -> WorkloadStatusChange:
        for move in moves:
            if move == "evict":
                change.evict("Preempted", "room is needed", preempted="InClusterQueue")
            elif move == "release" and change.is_true("Evicted"):
                change.release()
            elif move == "unreserve":
                change.unreserve("Pending", "why")
            elif move == "finish":
                change.finish("Succeeded", "done")
        return change

    change = make(WorkloadStatusChange(before, NOW))
    after = written(change)
    for field in ("admission", "admissionChecks", "schedulingStats", "accumulatedPastExecutionTimeSeconds"):
        assert after["status"].get(field) == change.get(field)
    assert all(conditions.find(after, kind) == change.find(kind) for kind in ("Evicted", "Admitted", "QuotaReserved"))
    assert WorkloadStatusChange(after, NOW).patch is None
    if "evict" not in moves:  # which counts
        assert make(WorkloadStatusChange(after, NOW)).patch is None
