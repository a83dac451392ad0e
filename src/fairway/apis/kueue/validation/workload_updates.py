"""What of a Workload may change, and when: most of it is fixed once quota is reserved."""

import msgspec

from fairway.apis.kueue.validation.workloads import (
    GATES_ANNOTATION,
    GATES_PATH,
    is_elastic,
    reserves_quota,
    wrong_workload,
)
from fairway.apis.kueue.workloads import Admission, CheckState, PriorityClassGroup, PriorityClassKind, Workload
from fairway.apis.machinery import problems
from fairway.apis.machinery.immutability import IMMUTABLE, changed, shown
from fairway.apis.machinery.metadata import has_condition
from fairway.apis.machinery.names import split_gates
from fairway.errors import FieldError

_REPLACEMENT_ANNOTATION = "kueue.x-k8s.io/workload-slice-replacement-for"
_RECLAIMABLE = "status.reclaimablePods"


def wrong_workload_update(old: Workload, new: Workload) -> list[FieldError]:
    errors = wrong_workload(new, before=old)
    is_another_spec = old.spec is not new.spec
    before, after = old.status, new.status
    if reserves_quota(old):
        if is_another_spec:
            errors += _changed_pod_sets(old, new)
            errors += _changed_priority_class(old, new)
        if (is_another_spec or before.reclaimable_pods) and reserves_quota(new):
            rule = "queueName is immutable while workload quota reserved"
            errors += changed(old.spec.queue_name, new.spec.queue_name, "spec.queueName", rule)
            errors += _shrunk_reclaimable_pods(old, new)
    if is_another_spec and _is_admitted(old) and _is_admitted(new):
        errors += changed(
            old.spec.maximum_execution_time_seconds,
            new.spec.maximum_execution_time_seconds,
            "spec.maximumExecutionTimeSeconds",
            "maximumExecutionTimeSeconds is immutable while workload quota reserved",
        )
    if before.admission is not after.admission:
        errors += _changed_admission(before.admission, after.admission)
    if before.admission_checks:
        errors += _changed_pod_set_updates(old, new)
    if after.cluster_name is not None:
        errors += _changed_cluster_name(old, new)
    if old.metadata is not new.metadata:
        errors += _added_gates(old, new)
    return errors


def _is_admitted(workload: Workload) -> bool:
    return has_condition(workload.status.conditions, "Admitted")


def _changed_pod_sets(old: Workload, new: Workload) -> list[FieldError]:
    path = "spec.podSets"
    if len(old.spec.pod_sets) != len(new.spec.pod_sets):
        return [problems.invalid(path, shown(new.spec.pod_sets), IMMUTABLE)]
    errors = []
    for position, (before, after) in enumerate(zip(old.spec.pod_sets, new.spec.pod_sets, strict=True)):
        # Elastic jobs give pods back while they run.
        allowed = msgspec.structs.replace(after, count=max(before.count, after.count))
        errors += changed(before, allowed, problems.index(path, position))
    return errors


def _changed_priority_class(old: Workload, new: Workload) -> list[FieldError]:
    before, after = old.spec.priority_class_ref, new.spec.priority_class_ref
    path = "spec.priorityClassRef"
    if before is None or after is None:
        rule = "priorityClassRef is immutable while workload quota reserved"
        return changed(before, after, path, rule)
    rule = "is immutable while workload quota reserved"
    errors = [
        *changed(before.group, after.group, problems.child(path, "group"), f"priorityClassRef.group {rule}"),
        *changed(before.kind, after.kind, problems.child(path, "kind"), f"priorityClassRef.kind {rule}"),
    ]
    if after.group == PriorityClassGroup.POD and after.kind == PriorityClassKind.POD:
        rule = "priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass while workload quota reserved"
        errors += changed(before.name, after.name, problems.child(path, "name"), rule)
    return errors


def _shrunk_reclaimable_pods(old: Workload, new: Workload) -> list[FieldError]:
    before = {one.name: one.count for one in old.status.reclaimable_pods}
    after = {one.name: one.count for one in new.status.reclaimable_pods}
    free = _scaled_down(new)
    errors = []
    for name, count in before.items():
        path = problems.key(_RECLAIMABLE, name)
        if name in free:
            continue
        if name not in after:
            errors.append(problems.required(path, "cannot be removed"))
        elif after[name] < count:
            rule = f"cannot be less than {count}"
            errors.append(problems.invalid(problems.child(path, "count"), after[name], rule))
    return errors


def _scaled_down(workload: Workload) -> set[str]:
    """The pod sets that have become smaller than what was admitted, so that their counts begin anew."""
    if workload.status.admission is None or not is_elastic(workload):
        return set()
    counts = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    return {
        assignment.name
        for assignment in workload.status.admission.pod_set_assignments
        if assignment.count is not None and assignment.count > counts.get(assignment.name, 0)
    }


def _changed_admission(old: Admission | None, new: Admission | None) -> list[FieldError]:
    if old is None or new is None or old == new:
        return []
    if len(old.pod_set_assignments) == len(new.pod_set_assignments):
        # Where the pods go may be decided after the quota is reserved.
        pairs = zip(old.pod_set_assignments, new.pod_set_assignments, strict=True)
        old = msgspec.structs.replace(
            old,
            pod_set_assignments=tuple(
                msgspec.structs.replace(
                    before,
                    topology_assignment=after.topology_assignment,
                    delayed_topology_request=after.delayed_topology_request,
                )
                for before, after in pairs
            ),
        )
    return changed(old, new, "status.admission")


def _changed_pod_set_updates(old: Workload, new: Workload) -> list[FieldError]:
    after = {check.name: check for check in new.status.admission_checks}
    errors = []
    for position, check in enumerate(old.status.admission_checks):
        now = after.get(check.name)
        if now is not None and check.state == CheckState.READY and now.state == CheckState.READY:
            path = problems.child(problems.index("status.admissionChecks", position), "podSetUpdates")
            errors += changed(check.pod_set_updates, now.pod_set_updates, path)
    return errors


def _changed_cluster_name(old: Workload, new: Workload) -> list[FieldError]:
    path, name = "status.clusterName", new.status.cluster_name
    if name is None:
        return []
    if old.status.cluster_name is not None:
        return changed(old.status.cluster_name, name, path, "clusterName is immutable once set")
    if name in old.status.nominated_cluster_names or _REPLACEMENT_ANNOTATION in new.metadata.annotations:
        return []
    rule = "when setting clusterName it must be one of the nominatedClusterNames"
    return [problems.invalid(path, name, rule)]


def _added_gates(old: Workload, new: Workload) -> list[FieldError]:
    before = old.metadata.annotations.get(GATES_ANNOTATION, "")
    after = new.metadata.annotations.get(GATES_ANNOTATION, "")
    if not after:
        return []
    if not before:
        return [problems.forbidden(GATES_PATH, after, "cannot add admission gate after creation")]
    if set(split_gates(after)) <= set(split_gates(before)):
        return []
    return [problems.forbidden(GATES_PATH, after, "can only remove gates, not add new ones")]
