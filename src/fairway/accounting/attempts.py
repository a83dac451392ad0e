"""One attempt of a job: from when it was admitted to when its quota was free again, as the stored objects say.

Whatever is derived here can be derived again from the same object, so that nothing depends on having seen a change.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

from msgspec import Struct

from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import Quantity, amount_of
from fairway.integrations import conditions, names
from fairway.integrations.webhooks import annotations_of, labels_of
from fairway.integrations.workloads import controller_of
from fairway.managedjobs.pods import JOB
from fairway.managedjobs.states import AttemptOutcome as ManagedOutcome

_LONGEST_MESSAGE: Final = 200
_GENERATED: Final = re.compile(r"(?<=.)-[bcdfghjklmnpqrstvwxz2456789]{5}$|(?<=.)-[0-9]{1,10}$")
"""What `generateName`, a CronJob or the number of a managed job adds to a name."""

_PREEMPTED: Final = "Preempted"


class AttemptEnd(StrEnum):
    """How an attempt ended."""

    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    PREEMPTED = "Preempted"
    EVICTED = "Evicted"
    """By the queue, for another reason than a preemption."""

    CANCELLED = "Cancelled"
    """Cancelled, held or deleted by its user."""

    LOST = "Lost"
    """Its pods or their machine went away."""


class HeldAmount(NamedTuple):
    """How much of a resource an attempt holds in a flavor, as Kueue counts it: CPUs in thousandths, others in units."""

    flavor: str
    resource: str
    amount: int


class AttemptRecord(Struct, frozen=True, kw_only=True, array_like=True):
    """An attempt. Times are seconds since the epoch; fields are only ever added at the end: records are kept."""

    uid: str
    """Of the job if it is a managed one, else of its Workload."""

    task: int
    number: int
    namespace: str
    kind: str
    job: str
    job_name: str
    job_id: int
    workload: str
    user: str
    queue: str
    cluster_queue: str
    team: str
    organization: str
    priority: int
    queued: int
    started: int
    """Zero if it is not known: then this can only end an attempt whose start was seen."""

    ended: int
    """Zero while it runs."""

    outcome: str
    reason: str
    message: str
    pods: int
    held: tuple[HeldAmount, ...]

    @property
    def wait_seconds(self) -> int:
        return max(self.started - self.queued, 0)

    @property
    def flavors(self) -> tuple[str, ...]:
        return tuple(sorted({one.flavor for one in self.held if one.flavor}))


class QuotaPlace(NamedTuple):
    """Where quota was held, as the admission of a Workload says."""

    queue: str = ""
    cluster_queue: str = ""
    pods: int = 0
    held: tuple[HeldAmount, ...] = ()


class OwnerLabels(NamedTuple):
    """Whom a queue belongs to."""

    team: str = ""
    organization: str = ""


NO_OWNER: Final = OwnerLabels()


def of_workload(workload: Manifest, owner_of: Callable[[str], OwnerLabels]) -> AttemptRecord | None:
    """The latest attempt of a job that is not a managed one; `None` if it never began.

    `owner_of` gives the labels of its ClusterQueue.
    """
    status = workload.get("status") or {}
    found = {one["type"]: one for one in status.get("conditions") or ()}
    admitted = found.get(conditions.ADMITTED)
    if admitted is None:
        return None
    runs = admitted["status"] == "True" and bool(status.get("admission"))
    evicted = _if_true(found.get(conditions.EVICTED))
    number = _evictions(status) + (0 if evicted else 1)
    started = seconds(admitted["lastTransitionTime"]) if runs else 0
    ended, outcome, reason, message = _end_of_workload(found, evicted, runs=runs)
    metadata, spec = workload["metadata"], workload["spec"]
    owner = controller_of(workload) or {}
    is_group = annotations_of(workload).get(names.IS_GROUP_WORKLOAD) == "true"
    job = metadata["name"] if is_group else owner.get("name", metadata["name"])
    place = place_of(workload)
    group = owner_of(place.cluster_queue)
    return AttemptRecord(
        uid=metadata["uid"],
        task=0,
        number=max(number, 1),
        namespace=metadata["namespace"],
        kind="PodGroup" if is_group else owner.get("kind", "Workload"),
        job=job,
        job_name=shared_name(job),
        job_id=0,
        workload=metadata["name"],
        user=annotations_of(workload).get(names.USER, ""),
        queue=spec.get("queueName", ""),
        cluster_queue=place.cluster_queue,
        team=group.team,
        organization=group.organization,
        priority=spec.get("priority") or 0,
        queued=_queued(workload, found, started),
        started=started,
        ended=max(ended, started) if ended else 0,
        outcome=outcome,
        reason=reason,
        message=message[:_LONGEST_MESSAGE],
        pods=place.pods,
        held=place.held,
    )


def _end_of_workload(
    found: Mapping[str, Any], evicted: Mapping[str, Any] | None, *, runs: bool
) -> tuple[int, str, str, str]:
    finished = _if_true(found.get(conditions.FINISHED))
    if runs and finished is None:
        return 0, AttemptEnd.RUNNING, "", ""
    if evicted is not None:
        outcome = AttemptEnd.PREEMPTED if evicted["reason"] == _PREEMPTED else AttemptEnd.EVICTED
        released = found.get(conditions.QUOTA_RESERVED, evicted)
        when = released if released["status"] == "False" else finished or evicted
        return seconds(when["lastTransitionTime"]), outcome, evicted["reason"], evicted.get("message", "")
    if finished is not None:
        reason = finished["reason"]
        outcome = _FINISHED.get(reason, AttemptEnd.FAILED)
        told = "" if outcome == AttemptEnd.SUCCEEDED else finished.get("message", "")
        return seconds(finished["lastTransitionTime"]), outcome, "" if reason == outcome else reason, told
    released = found.get(conditions.QUOTA_RESERVED) or found[conditions.ADMITTED]
    return seconds(released["lastTransitionTime"]), AttemptEnd.EVICTED, released["reason"], released.get("message", "")


_FINISHED: Final = {
    "Succeeded": AttemptEnd.SUCCEEDED,
    "Failed": AttemptEnd.FAILED,
    "OwnerNotFound": AttemptEnd.CANCELLED,
}


def of_managed_job(job: Manifest, place: QuotaPlace, group: OwnerLabels = NO_OWNER) -> Iterator[AttemptRecord]:
    """The attempts of a managed job that its status has; `place` is that of its present Workload.

    Attempts on another server are left out: they are accounted there.
    """
    status, spec, metadata = job.get("status") or {}, job["spec"], job["metadata"]
    remote = status.get("infra", "") if status.get("remote") else None
    for attempt in status.get("attempts") or ():
        if remote is not None and attempt.get("infra", "") == remote:
            continue
        started = seconds(attempt.get("startedAt"))
        ended, outcome = seconds(attempt.get("endedAt")), attempt.get("outcome", "")
        yield AttemptRecord(
            uid=metadata["uid"],
            task=attempt.get("task", 0),
            number=attempt.get("attempt", 0),
            namespace=metadata["namespace"],
            kind="ManagedJob",
            job=metadata["name"],
            job_name=spec.get("name") or shared_name(metadata["name"]),
            job_id=spec.get("id", 0),
            workload=status.get("workload", ""),
            user=spec.get("user", ""),
            queue=place.queue,
            cluster_queue=place.cluster_queue,
            team=group.team,
            organization=group.organization,
            priority=attempt.get("priority") or 0,
            queued=seconds(attempt.get("queuedAt")) or started,
            started=started,
            ended=max(ended, started) if ended else 0,
            outcome=_MANAGED.get(outcome, AttemptEnd.FAILED) if ended else AttemptEnd.RUNNING,
            reason=outcome if ended and outcome != _MANAGED.get(outcome) else "",
            message=attempt.get("message", "")[:_LONGEST_MESSAGE],
            pods=place.pods,
            held=place.held,
        )


_MANAGED: Final[Mapping[str, AttemptEnd]] = {
    ManagedOutcome.SUCCEEDED: AttemptEnd.SUCCEEDED,
    ManagedOutcome.PREEMPTED: AttemptEnd.PREEMPTED,
    ManagedOutcome.EVICTED: AttemptEnd.EVICTED,
    ManagedOutcome.NOT_STARTED: AttemptEnd.EVICTED,
    ManagedOutcome.LOST: AttemptEnd.LOST,
    ManagedOutcome.HELD: AttemptEnd.CANCELLED,
    ManagedOutcome.CANCELLED: AttemptEnd.CANCELLED,
}
"""Every other outcome is a failure."""


def shared_name(name: str) -> str:
    """The name that jobs of the same purpose share: without a generated suffix."""
    return _GENERATED.sub("", name)


def place_of(workload: Manifest) -> QuotaPlace:
    """What a Workload holds."""
    admission = (workload.get("status") or {}).get("admission") or {}
    held: dict[tuple[str, str], int] = {}
    pods = 0
    for one in admission.get("podSetAssignments") or ():
        flavors: Mapping[str, str] = one.get("flavors") or {}
        pods += one.get("count") or 0
        for resource, quantity in (one.get("resourceUsage") or {}).items():
            pool = flavors.get(resource, ""), resource
            held[pool] = held.get(pool, 0) + amount_of(resource, Quantity.parse(quantity))
    amounts = tuple(HeldAmount(flavor, resource, amount) for (flavor, resource), amount in sorted(held.items()))
    return QuotaPlace(workload["spec"].get("queueName", ""), admission.get("clusterQueue", ""), pods, amounts)


def is_managed(workload: Manifest) -> bool:
    """Whether a Workload is that of a managed job, whose own status has its attempts."""
    return JOB in labels_of(workload)


def seconds(moment: str | None) -> int:
    """A time of the API as seconds since the epoch; zero for none."""
    if not moment:
        return 0
    return int(datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp())


def _if_true(condition: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return condition if condition is not None and condition["status"] == "True" else None


def _evictions(status: Mapping[str, Any]) -> int:
    counted: Sequence[Mapping[str, Any]] = (status.get("schedulingStats") or {}).get("evictions") or ()
    return sum(one.get("count", 0) for one in counted)


def _queued(workload: Manifest, found: Mapping[str, Any], started: int) -> int:
    """Since when it waited for this attempt: from its creation, or since it was queued again."""
    created = seconds(workload["metadata"]["creationTimestamp"])
    requeued = found.get(conditions.REQUEUED)
    again = seconds(requeued["lastTransitionTime"]) if requeued is not None else 0
    return again if created <= again <= started else created
