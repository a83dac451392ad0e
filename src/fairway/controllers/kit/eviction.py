"""The second half of an eviction: the job has stopped, so its quota goes back.

The first half, `Evicted=True`, is written by whoever evicts. Until the job's pods are gone the workload keeps its
quota.
"""

from datetime import datetime
from typing import Any, Final

from fairway.apis.machinery.kind import Manifest
from fairway.controllers.kit.readiness import WAITING
from fairway.integrations import conditions

_COMES_BACK_AT_ONCE: Final = frozenset({"Preempted", "NodeFailures"})


def release_patch(workload: Manifest, now_text: str, *, single_pod: bool) -> Manifest:
    """The patch of the status of an evicted workload whose job has stopped; to be sent locked.

    `single_pod` says that the workload is that of one pod: it goes with the pod, so it is not queued again.
    """
    evicted = conditions.find(workload, conditions.EVICTED)
    if evicted is None:
        raise ValueError("only an evicted workload is released")
    generation = workload["metadata"].get("generation")
    reason, message = evicted["reason"], evicted["message"]
    again = reason in _COMES_BACK_AT_ONCE and not single_pod
    found = conditions.with_condition(
        conditions.of(workload),
        conditions.REQUEUED,
        "True" if again else "False",
        reason,
        message,
        now_text,
        generation,
    )
    found = conditions.with_condition(
        found, conditions.QUOTA_RESERVED, "False", "Pending", message, now_text, generation
    )
    return {"status": {"admission": None, **_no_longer_admitted(workload, found, now_text)}}


def unreserved_patch(workload: Manifest, now_text: str, reason: str, message: str) -> Manifest:
    """The patch of the status of a workload that loses its quota without being evicted; to be sent locked."""
    found = conditions.with_condition(
        conditions.of(workload),
        conditions.QUOTA_RESERVED,
        "False",
        reason,
        message,
        now_text,
        workload["metadata"].get("generation"),
    )
    return {"status": {"admission": None, **_no_longer_admitted(workload, found, now_text)}}


def _no_longer_admitted(workload: Manifest, found: list[dict[str, Any]], now_text: str) -> Manifest:
    """The conditions without admission, and the time that it was admitted added to that of before.

    Pods that are not to run are not ready: where that is followed, it is said in the same write.
    """
    generation = workload["metadata"].get("generation")
    if conditions.find(workload, conditions.PODS_READY) is not None:
        found = conditions.with_condition(found, conditions.PODS_READY, *WAITING, now_text, generation)
    admitted = conditions.find(workload, conditions.ADMITTED)
    if admitted is None or admitted["status"] != "True":
        return {"conditions": found}
    checks = workload["status"].get("admissionChecks") or ()
    if all(check["state"] == "Ready" for check in checks):
        reason, message = "NoReservation", "The workload has no reservation"
    else:
        reason = "NoReservationUnsatisfiedChecks"
        message = "The workload has no reservation and not all checks ready"
    found = conditions.with_condition(found, conditions.ADMITTED, "False", reason, message, now_text, generation)
    spent = int((_moment(now_text) - _moment(admitted["lastTransitionTime"])).total_seconds())
    before = workload["status"].get("accumulatedPastExecutionTimeSeconds") or 0
    return {"conditions": found, "accumulatedPastExecutionTimeSeconds": before + spent}


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
