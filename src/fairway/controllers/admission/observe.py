"""The decision-relevant parts of a stored Workload, and the events for the engine after a change of it.

Only changes by other writers become events. The engine has assumed this controller's own writes long before, and a
state from before a decision must not undo it; so events are differences, never a whole status, unless another writer
changed the decision itself.
"""

from datetime import datetime
from typing import Any, Final

import msgspec

from fairway.admission import events
from fairway.admission.records import Record, Stage
from fairway.apis.kueue.objects import Workload
from fairway.apis.machinery import structs
from fairway.apis.machinery.kind import Manifest

GATED: Final = "AdmissionGated"
ON_HOLD: Final = "OnHold"
GATE_ANNOTATION: Final = "kueue.x-k8s.io/admission-gated-by"

_NOTHING: Final[dict[str, str]] = {}
_METADATA: Final = ("name", "namespace", "uid", "labels", "annotations", "creationTimestamp")
_HOLDING_BACK: Final = ("QuotaReserved", "WaitingForReplacementPods")


class StoredWorkload(msgspec.Struct, frozen=True, gc=False):
    """A Workload as the engine has it."""

    uid: str
    version: str
    generation: int
    annotations: dict[str, str]
    active: bool
    finished: bool
    reserved: bool
    admitted: bool
    evicted: bool
    pods_ready: bool
    held_back: bool
    """Its job keeps it out of its queue: it is on hold, or pods are missing."""
    comes_back: bool
    """Nothing in its conditions keeps it from being queued again."""
    deactivating: bool
    gate_shown: bool
    checks: list[dict[str, Any]] | None
    reclaimable: list[dict[str, Any]] | None
    backing_off: bool
    failed_nodes: list[dict[str, Any]] | None
    """Nodes with its pods that have failed."""

    @property
    def counts(self) -> bool:
        """Whether what is stored takes quota."""
        return self.reserved and self.active and not self.finished


def seen(manifest: Manifest) -> StoredWorkload:
    metadata = manifest["metadata"]
    status: dict[str, Any] = manifest.get("status") or {}
    held_back = gate_shown = False
    comes_back = True
    true: set[str] = set()
    for condition in status.get("conditions") or ():
        kind = condition["type"]
        if condition["status"] == "True":
            true.add(kind)
        elif kind == "QuotaReserved":
            held_back = condition["reason"] == ON_HOLD
            gate_shown = condition["reason"] == GATED
        elif kind == "Requeued":
            comes_back = False
    return StoredWorkload(
        metadata["uid"],
        metadata["resourceVersion"],
        metadata.get("generation", 0),
        metadata.get("annotations") or _NOTHING,
        manifest["spec"].get("active") is not False,
        "Finished" in true,
        "QuotaReserved" in true,
        "Admitted" in true,
        "Evicted" in true,
        "PodsReady" in true,
        held_back or "WaitingForReplacementPods" in true,
        comes_back,
        "DeactivationTarget" in true,
        gate_shown,
        status.get("admissionChecks"),
        status.get("reclaimablePods"),
        "requeueState" in status,
        status.get("unhealthyNodes"),
    )


def arrival(manifest: Manifest, at: float) -> list[events.Event]:
    """A Workload that the engine does not know, in whatever state it is."""
    now = seen(manifest)
    workload = _read(manifest, manifest["spec"], _moved_verdicts(manifest.get("status") or {}, at))
    told: list[events.Event] = [events.WorkloadAdded(at=at, workload=workload)]
    if now.counts and not now.evicted and (now.checks or not now.admitted):
        # Its checks may be ready already, or there are none.
        told.append(
            events.WorkloadChanged(at=at, workload=_without_decisions(manifest, workload.spec, at, checks=True))
        )
    return told


def difference(
    before: StoredWorkload, after: StoredWorkload, manifest: Manifest, record: Record, at: float
) -> list[events.Event]:
    """The changes of other writers."""
    key = record.key
    if after.finished and before.uid == after.uid:
        return [] if before.finished else [events.WorkloadFinished(at=at, key=key)]
    if _is_another_state(before, after) or _is_decided_for_another_spec(before, after, record):
        return [events.WorkloadDeleted(at=at, key=key), *arrival(manifest, at)]
    told: list[events.Event] = []
    # An eviction sets all checks back; what they said before it was written counts no more.
    checks = after.checks != before.checks and not (record.holding and record.evicted is not None)
    if (
        checks
        or before.generation != after.generation
        or before.held_back != after.held_back
        or before.annotations != after.annotations
    ):
        spec = manifest["spec"] if before.generation != after.generation else record.spec
        workload = _without_decisions(manifest, spec, at, checks=checks)
        told.append(events.WorkloadChanged(at=at, workload=workload))
    elif before.reclaimable != after.reclaimable:
        counts = {one["name"]: one["count"] for one in after.reclaimable or ()}
        told.append(events.PodsReclaimed(at=at, key=key, counts=counts))
    if (before.failed_nodes or None) != (after.failed_nodes or None):
        failed = tuple(one["name"] for one in after.failed_nodes or ())
        told.append(events.NodesFailed(at=at, key=key, nodes=failed))
    if before.pods_ready != after.pods_ready:
        told.append(events.PodsReadyChanged(at=at, key=key, ready=after.pods_ready))
    if before.reserved and not after.reserved:
        told.append(events.QuotaReleased(at=at, key=key, requeue=after.comes_back))
    return told


def _is_another_state(before: StoredWorkload, after: StoredWorkload) -> bool:
    """Whether it is another object, or another writer admitted it, evicted it, or undid that."""
    return (
        before.uid != after.uid
        or before.finished
        or (after.reserved and not before.reserved)
        or before.evicted != after.evicted
    )


def _is_decided_for_another_spec(before: StoredWorkload, after: StoredWorkload, record: Record) -> bool:
    """Whether it was given quota for a spec that it has no more, and that was not written yet."""
    return (
        before.generation != after.generation
        and not before.reserved
        and record.stage in (Stage.RESERVED, Stage.ADMITTED)
    )


def _without_decisions(manifest: Manifest, spec: Any, at: float, *, checks: bool) -> Workload:
    """The Workload without what it says of quota and evictions."""
    status = manifest.get("status") or {}
    kept: dict[str, Any] = {
        "conditions": [
            one
            for one in status.get("conditions") or ()
            if one["type"] in _HOLDING_BACK and (one["type"] != "QuotaReserved" or one["status"] == "False")
        ]
    }
    if "reclaimablePods" in status:
        kept["reclaimablePods"] = status["reclaimablePods"]
    if checks and "admissionChecks" in status:
        kept["admissionChecks"] = status["admissionChecks"]
        kept = _moved_verdicts(kept, at)
    return _read(manifest, spec, kept)


def _moved_verdicts(status: dict[str, Any], at: float) -> dict[str, Any]:
    """The status with the waits that checks ask for counted from now; they count them from their verdict."""
    checks = status.get("admissionChecks") or ()
    if not any("requeueAfterSeconds" in check for check in checks):
        return status
    return {**status, "admissionChecks": [_counted_from(at, check) for check in checks]}


def _counted_from(at: float, check: dict[str, Any]) -> dict[str, Any]:
    if not check.get("requeueAfterSeconds"):
        return check
    passed = int(at - datetime.fromisoformat(check["lastTransitionTime"]).timestamp())
    return {**check, "requeueAfterSeconds": max(0, check["requeueAfterSeconds"] - passed)}


def _read(manifest: Manifest, spec: Any, status: dict[str, Any]) -> Workload:
    """As a typed value; parts may be values already."""
    metadata = manifest["metadata"]
    data = {
        "metadata": {name: metadata[name] for name in _METADATA if name in metadata},
        "spec": spec,
        "status": status,
    }
    return structs.read(data, Workload)
