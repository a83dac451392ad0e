"""What of a Workload may change, and when: most of it is fixed once quota is reserved."""

from typing import Final

from fairway.apis.core.checks import Part
from fairway.apis.kueue.validation.workloads import (
    GATES_ANNOTATION,
    GATES_PATH,
    annotation,
    is_elastic,
    part_of,
    pod_sets_of,
    wrong_workload,
)
from fairway.apis.machinery import problems
from fairway.apis.machinery.conditions import is_true
from fairway.apis.machinery.immutability import IMMUTABLE, changed
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.names import split_gates
from fairway.apis.machinery.quantities import Quantity
from fairway.errors import FieldError

_REPLACEMENT_ANNOTATION: Final = "kueue.x-k8s.io/workload-slice-replacement-for"
_RECLAIMABLE: Final = "status.reclaimablePods"
_LATE: Final = ("topologyAssignment", "delayedTopologyRequest")
"""Where the pods go may be decided after the quota is reserved."""


def wrong_workload_update(old: Manifest, new: Manifest) -> list[FieldError]:
    errors = wrong_workload(new, before=old)
    before, after = part_of(old, "status"), part_of(new, "status")
    spec, old_spec = part_of(new, "spec"), part_of(old, "spec")
    is_another_spec = old_spec is not spec and old_spec != spec
    if is_true(old, "QuotaReserved"):
        if is_another_spec:
            errors += _changed_pod_sets(old, new)
            class_changes = _changed_priority_class(old_spec.get("priorityClassRef"), spec.get("priorityClassRef"))
            errors += problems.of_schema(*class_changes)
        if (is_another_spec or before.get("reclaimablePods")) and is_true(new, "QuotaReserved"):
            rule = "queueName is immutable while workload quota reserved"
            errors += problems.of_schema(
                *changed(old_spec.get("queueName"), spec.get("queueName"), "spec.queueName", rule)
            )
            errors += _shrunk_reclaimable_pods(old, new)
    if is_another_spec and is_true(old, "Admitted") and is_true(new, "Admitted"):
        field = "maximumExecutionTimeSeconds"
        rule = f"{field} is immutable while workload quota reserved"
        errors += problems.of_schema(*changed(old_spec.get(field), spec.get(field), f"spec.{field}", rule))
    errors += _changed_admission(before.get("admission"), after.get("admission"))
    if before.get("admissionChecks"):
        errors += _changed_pod_set_updates(before, after)
    if after.get("clusterName") is not None:
        errors += _changed_cluster_name(before, new)
    return errors + _added_gates(annotation(old, GATES_ANNOTATION), annotation(new, GATES_ANNOTATION))


def _changed_pod_sets(old: Manifest, new: Manifest) -> list[FieldError]:
    path, before, after = "spec.podSets", pod_sets_of(old), pod_sets_of(new)
    if len(before) != len(after):
        return [problems.invalid(path, after, IMMUTABLE)]
    errors = []
    for position, (ours, theirs) in enumerate(zip(before, after, strict=True)):
        # Elastic jobs give pods back while they run.
        allowed = {**theirs, "count": max(ours.get("count", 1), theirs.get("count", 1))}
        errors += changed({"count": 1, **ours}, allowed, problems.index(path, position))
    return errors


def _changed_priority_class(before: Part | None, after: Part | None) -> list[FieldError]:
    path, rule = "spec.priorityClassRef", "is immutable while workload quota reserved"
    if before is None or after is None:
        return changed(before, after, path, f"priorityClassRef {rule}")
    errors = [
        error
        for field in ("group", "kind")
        for error in changed(before[field], after[field], f"{path}.{field}", f"priorityClassRef.{field} {rule}")
    ]
    if (after["group"], after["kind"]) == ("scheduling.k8s.io", "PriorityClass"):
        rule = "priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass while workload quota reserved"
        errors += changed(before["name"], after["name"], f"{path}.name", rule)
    return errors


def _shrunk_reclaimable_pods(old: Manifest, new: Manifest) -> list[FieldError]:
    after = {one["name"]: one["count"] for one in part_of(new, "status").get("reclaimablePods") or ()}
    free = _scaled_down(new)
    errors = []
    for one in part_of(old, "status").get("reclaimablePods") or ():
        name, count = one["name"], one["count"]
        path = problems.key(_RECLAIMABLE, name)
        if name in free:
            continue
        if name not in after:
            errors.append(problems.required(path, "cannot be removed"))
        elif after[name] < count:
            errors.append(problems.invalid(f"{path}.count", after[name], f"cannot be less than {count}"))
    return errors


def _scaled_down(workload: Manifest) -> set[str]:
    """The pod sets that have become smaller than what was admitted, so that their counts begin anew."""
    if not is_elastic(workload):
        return set()
    counts = {pod_set.get("name", "main"): pod_set.get("count", 1) for pod_set in pod_sets_of(workload)}
    assignments = part_of(part_of(workload, "status"), "admission").get("podSetAssignments") or ()
    return {one["name"] for one in assignments if (one.get("count") or 0) > counts.get(one["name"], 0)}


def _changed_admission(old: Part | None, new: Part | None) -> list[FieldError]:
    if old is None or new is None or old == new:
        return []
    before, after = old.get("podSetAssignments") or [], new.get("podSetAssignments") or []
    if len(before) == len(after):
        pairs = zip(before, after, strict=True)
        old = {**old, "podSetAssignments": [_with_late_parts(ours, theirs) for ours, theirs in pairs]}
    return changed(old, new, "status.admission")


def _with_late_parts(before: Part, after: Part) -> Part:
    """An assignment with what may still change as it is afterwards: its late parts, and the spelling of quantities."""
    late = {name: after.get(name) for name in _LATE}
    if _usage(before) == _usage(after):
        late["resourceUsage"] = after.get("resourceUsage")
    return {**before, **late}


def _usage(assignment: Part) -> dict[str, Quantity]:
    return {name: Quantity.parse(amount) for name, amount in part_of(assignment, "resourceUsage").items()}


def _changed_pod_set_updates(old: Part, new: Part) -> list[FieldError]:
    after = {check["name"]: check for check in new.get("admissionChecks") or ()}
    errors = []
    for position, check in enumerate(old["admissionChecks"]):
        now = after.get(check["name"], {})
        if check["state"] == now.get("state") == "Ready":
            path = f"status.admissionChecks[{position}].podSetUpdates"
            errors += changed(check.get("podSetUpdates"), now.get("podSetUpdates"), path)
    return errors


def _changed_cluster_name(before: Part, new: Manifest) -> list[FieldError]:
    path, name = "status.clusterName", part_of(new, "status")["clusterName"]
    if before.get("clusterName") is not None:
        return problems.of_schema(*changed(before["clusterName"], name, path, "clusterName is immutable once set"))
    if name in (before.get("nominatedClusterNames") or ()) or annotation(new, _REPLACEMENT_ANNOTATION):
        return []
    rule = "when setting clusterName it must be one of the nominatedClusterNames"
    return [problems.invalid(path, name, rule)]


def _added_gates(before: str, after: str) -> list[FieldError]:
    if not after or before == after:
        return []
    if not before:
        return [problems.forbidden(GATES_PATH, after, "cannot add admission gate after creation")]
    if set(split_gates(after)) <= set(split_gates(before)):
        return []
    return [problems.forbidden(GATES_PATH, after, "can only remove gates, not add new ones")]
