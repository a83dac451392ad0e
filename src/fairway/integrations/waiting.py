"""Why a Workload waits, as its conditions say: an item of `waitingjobs` without its position in the queue."""

from collections.abc import Callable
from typing import Final

from fairway.admission.reasons import Outcome
from fairway.apis.machinery.kind import Manifest
from fairway.integrations import checks, conditions, names
from fairway.integrations.webhooks import annotations_of
from fairway.integrations.workloads import controller_of

WAITS_FOR_NODE: Final = "WaitingForNode"
"""The outcome of one that was admitted and whose pods fit on no node now."""

WAITS_FOR_CHECKS: Final = "WaitingForChecks"
"""The outcome of one that has its quota and whose admission checks are not all ready."""

_NO_FLAVOR: Final = "couldn't assign flavors to pod set"
_IN_USE_BY_OTHERS: Final = "insufficient unused quota"
_ROOM_ON_A_NODE: Final = (
    "starts when a node has room: `fairway get pods -A -o wide` shows what is on the nodes; if nothing of it runs in "
    "time, its quota is released and it is retried after a backoff"
)
_OUTCOMES: Final = {
    "Pending": Outcome.NO_FIT,
    "Waiting": Outcome.WAITING_FOR_PODS_READY,
    "AdmissionGated": Outcome.GATED,
}


def item_without_quota(workload: Manifest, cluster_queue: str) -> Manifest:
    """The item of a Workload that waits for quota."""
    outcome, message = _why(workload)
    return _item(workload, cluster_queue, outcome, message, can_ever_run=can_ever_fit(workload) is not False)


def _item(workload: Manifest, cluster_queue: str, outcome: str, message: str, *, can_ever_run: bool = True) -> Manifest:
    """An item of `waitingjobs` without its positions."""
    metadata, spec = workload["metadata"], workload["spec"]
    return {
        "metadata": {field: metadata[field] for field in ("name", "namespace", "creationTimestamp")},
        "owner": owner_of(workload),
        "clusterQueue": cluster_queue,
        "localQueue": spec.get("queueName", ""),
        "position": None,
        "localPosition": None,
        "priority": spec.get("priority") or 0,
        "outcome": str(outcome),
        "message": message,
        "canEverRun": can_ever_run,
    }


def item_with_quota(workload: Manifest) -> Manifest | None:
    """The item of a Workload that has its quota and waits for an admission check or a node; `None` if it does not."""
    if checks.waits_for_checks(workload):
        outcome, message = WAITS_FOR_CHECKS, checks.message(workload)
    else:
        condition = conditions.find(workload, conditions.WAITING_FOR_NODE)
        if condition is None or condition["status"] != "True":
            return None
        partly = "part of it waits" if condition["reason"] == "PartlyUnschedulable" else "waits"
        outcome, message = WAITS_FOR_NODE, f"has its quota and {partly} for a node: {condition['message']}"
    cluster_queue = ((workload.get("status") or {}).get("admission") or {}).get("clusterQueue") or ""
    return _item(workload, cluster_queue, outcome, message)


def hints_with_quota(item: Manifest, workload: Manifest, check: Callable[[str], Manifest | None]) -> list[str]:
    """What would let a Workload with quota start; `check` gives an AdmissionCheck by its name."""
    if item["outcome"] == WAITS_FOR_CHECKS:
        return checks.hints(workload, check)
    return [_ROOM_ON_A_NODE]


def owner_of(workload: Manifest | None) -> Manifest | None:
    """The job that a Workload is of."""
    if workload is None:
        return None
    owner = controller_of(workload) or next(iter(workload["metadata"].get("ownerReferences") or ()), None)
    return None if owner is None else {"kind": owner["kind"], "name": owner["name"]}


def over_limit(workload: Manifest | None) -> str:
    """Which limit of its user or organization keeps a Workload out of the queue; empty if none does."""
    return annotations_of(workload).get(names.OVER_LIMIT, "") if workload is not None else ""


def can_ever_fit(workload: Manifest) -> bool | None:
    """What the message of its last try says: whether some flavor lacks only quota that others use."""
    reserved = conditions.find(workload, conditions.QUOTA_RESERVED)
    if reserved is None or reserved["status"] == "True" or reserved["reason"] != "Pending":
        return None
    _, *pod_sets = reserved.get("message", "").split(_NO_FLAVOR)
    return all(_IN_USE_BY_OTHERS in pod_set for pod_set in pod_sets)


def _why(workload: Manifest) -> tuple[Outcome, str]:
    """Outcome and sentence of a Workload without quota."""
    evicted, reserved = (conditions.find(workload, kind) for kind in (conditions.EVICTED, conditions.QUOTA_RESERVED))
    requeued = conditions.find(workload, conditions.REQUEUED)
    if not workload["spec"].get("active", True):
        said = f": {evicted['message']}" if evicted is not None and evicted["status"] == "True" else ""
        return Outcome.DEACTIVATED, f"The workload is deactivated{said}"
    at = ((workload.get("status") or {}).get("requeueState") or {}).get("requeueAt")
    if at and requeued is not None and requeued["status"] == "False":
        return Outcome.BACKING_OFF, over_limit(workload) or f"Waiting to be requeued after: {at}"
    if reserved is not None and reserved["status"] == "False" and reserved.get("message"):
        return _OUTCOMES.get(reserved["reason"], Outcome.NOT_TRIED), reserved["message"]
    return Outcome.NOT_TRIED, "Workload is pending evaluation in the scheduling queue"
