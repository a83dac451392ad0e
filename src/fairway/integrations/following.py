"""Changes that a workload copies from its job, and what its state means for the job.

The same for every kind: pods and groups as well as jobs with a controller of their own. Pure.
"""

from collections.abc import Mapping
from datetime import datetime

from fairway.apis.machinery.kind import Manifest
from fairway.integrations import conditions, names
from fairway.integrations.webhooks import annotations_of, labels_of


def passed_on(annotations: Mapping[str, str]) -> dict[str, str]:
    """What of a job's annotations its workload needs."""
    return {
        key: value
        for key, value in annotations.items()
        if key.startswith(names.PROVISIONING_PREFIX) or key == names.USER or (key == names.ADMISSION_GATED_BY and value)
    }


def gates_of(manifest: Manifest) -> str:
    """The admission gates of a job or a workload; empty if there are none."""
    return annotations_of(manifest).get(names.ADMISSION_GATED_BY, "")


def gates_patch(job: Manifest, workload: Manifest) -> Manifest:
    """The patch that passes the gates of a job on to its workload; empty if they are there."""
    gates = gates_of(job)
    if gates == gates_of(workload):
        return {}
    return {"metadata": {"annotations": {names.ADMISSION_GATED_BY: gates or None}}}


def names_another_class(job: Manifest, workload: Manifest) -> bool:
    """Whether the label of a job names another priority class than its workload has, and the workload follows it."""
    held = workload["spec"].get("priorityClassRef")
    chosen = labels_of(job).get(names.PRIORITY_CLASS, "")
    if held is None:
        return bool(chosen) and not conditions.is_true(workload, conditions.QUOTA_RESERVED)
    return bool(held["kind"] == "WorkloadPriorityClass" and held["name"] != chosen)


def waited_for_checks(workload: Manifest) -> str:
    """What the admission checks of a workload are waiting for, in their own words; empty if they say nothing."""
    return "; ".join(
        f"{check['name']}: {check['message']}"
        for check in (workload.get("status") or {}).get("admissionChecks") or ()
        if check["state"] == "Pending" and check.get("message")
    )


def seconds_to_expiry(workload: Manifest, kept_seconds: float | None, now: datetime) -> float | None:
    """How long a job that the queue itself deactivated is still kept, zero or less if it is not; `None` for ever."""
    evicted = conditions.find(workload, conditions.EVICTED)
    if kept_seconds is None or evicted is None or workload["spec"].get("active", True):
        return None
    if evicted["status"] != "True" or not evicted["reason"].startswith("DeactivatedDueTo"):
        return None
    since = datetime.fromisoformat(evicted["lastTransitionTime"])
    return kept_seconds - (now - since).total_seconds()
