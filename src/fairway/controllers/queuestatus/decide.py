"""The statuses of queues, made from the decider's figures: values in, values out."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from fairway.admission import wording
from fairway.admission.figures import Activity, ClusterQueueFigures, FlavorAmounts, Holdings, LocalQueueFigures
from fairway.admission.shares import DominantShare, weighted_share
from fairway.apis.machinery.conditions import is_true_in
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import format_amount
from fairway.apis.machinery.timestamps import stamp
from fairway.integrations.conditions import with_condition

Status = dict[str, Any]

ACTIVE: Final = "Active"

_READY: Final = wording.QueueReadiness(active=True, reason="Ready", message="Can submit new workloads to localQueue")
_STOPPED: Final = wording.QueueReadiness(active=False, reason="Stopped", message="LocalQueue is stopped")
_NO_SUCH_QUEUE: Final = wording.QueueReadiness(
    active=False, reason="ClusterQueueDoesNotExist", message="Can't submit new workloads to clusterQueue"
)
_INACTIVE_QUEUE: Final = wording.QueueReadiness(
    active=False, reason="ClusterQueueIsInactive", message="Can't submit new workloads to clusterQueue"
)


def of_cluster_queue(
    cluster_queue: Manifest, figures: ClusterQueueFigures, *, fair_sharing: bool, now: datetime
) -> Status:
    return {
        **_held(figures.holdings, with_borrowed=True),
        "pendingWorkloads": figures.pending,
        "conditions": _conditions(cluster_queue, wording.readiness(figures.activity), now),
        "fairSharing": _share(figures.share) if fair_sharing else None,
    }


def of_local_queue(
    local_queue: Manifest,
    figures: LocalQueueFigures,
    activity: Activity | None,
    *,
    by_recent_usage: bool,
    now: datetime,
) -> Status:
    """`activity` is that of the ClusterQueue where it leads to, `None` if there is no such queue."""
    return {
        **_held(figures.holdings, with_borrowed=False),
        "pendingWorkloads": figures.pending,
        "conditions": _conditions(local_queue, _local_readiness(local_queue, activity), now),
        "fairSharing": _recent_usage(figures) if by_recent_usage else None,
    }


def of_cohort(share: DominantShare | None, *, fair_sharing: bool) -> Status:
    """`share` is `None` while the cohort is empty."""
    if not fair_sharing:
        return {"fairSharing": None}
    return {"fairSharing": _share(share) if share is not None else {"weightedShare": 0}}


def is_active(status: Mapping[str, Any]) -> bool:
    return is_true_in(status, ACTIVE)


def changes(old: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch that makes the old values the wanted ones; empty if they are. `None` wants a value away."""
    patch: dict[str, Any] = {}
    for name, value in wanted.items():
        before = old.get(name)
        if before == value:
            continue
        if isinstance(value, dict) and isinstance(before, dict):
            patch[name] = changes(before, {**dict.fromkeys(before), **value})
        else:
            patch[name] = value
    return patch


def _held(holdings: Holdings, *, with_borrowed: bool) -> Status:
    """Without flavors, as without a ClusterQueue, there are no lists: Kueue leaves empty ones out."""
    return {
        "flavorsReservation": list(_flavors(holdings.reservation, with_borrowed=with_borrowed)) or None,
        "flavorsUsage": list(_flavors(holdings.usage, with_borrowed=with_borrowed)) or None,
        "reservingWorkloads": holdings.reserving,
        "admittedWorkloads": holdings.admitted,
    }


def _flavors(found: Iterable[FlavorAmounts], *, with_borrowed: bool) -> Iterable[Status]:
    for flavor in found:
        resources = []
        for amount in flavor.amounts:
            resource = {"name": amount.resource, "total": format_amount(amount.resource, amount.total)}
            if with_borrowed:
                resource["borrowed"] = format_amount(amount.resource, amount.borrowed)
            resources.append(resource)
        yield {"name": flavor.flavor, "resources": resources}


def _conditions(queue: Manifest, readiness: wording.QueueReadiness, now: datetime) -> list[Status]:
    return with_condition(
        (queue.get("status") or {}).get("conditions") or (),
        ACTIVE,
        "True" if readiness.active else "False",
        readiness.reason,
        readiness.message,
        stamp(now),
        queue["metadata"].get("generation"),
    )


def _local_readiness(local_queue: Manifest, activity: Activity | None) -> wording.QueueReadiness:
    if (local_queue.get("spec") or {}).get("stopPolicy", "None") != "None":
        return _STOPPED
    if activity is None:
        return _NO_SUCH_QUEUE
    return _READY if wording.readiness(activity).active else _INACTIVE_QUEUE


def _share(share: DominantShare) -> Status:
    return {"weightedShare": weighted_share(share)}


def _recent_usage(figures: LocalQueueFigures) -> Status:
    """What admission fair sharing remembers of a LocalQueue; shown once it was worked out for the first time."""
    if figures.sampled_at is None:
        return {"weightedShare": 0}
    consumed = {resource: format_amount(resource, int(amount)) for resource, amount in figures.consumed.items()}
    return {
        "weightedShare": 0,
        "admissionFairSharingStatus": {
            "consumedResources": consumed,
            "lastUpdate": stamp(datetime.fromtimestamp(figures.sampled_at, UTC)),
        },
    }
