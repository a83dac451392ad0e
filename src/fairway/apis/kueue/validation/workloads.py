"""Rules about Workload: what it asks for, and the status that controllers write."""

from fairway.apis.core import pod_requests as pods
from fairway.apis.kueue.validation.tolerations import wrong_tolerations
from fairway.apis.kueue.workloads import (
    PodSet,
    PodSetAssignment,
    PriorityClassGroup,
    PriorityClassKind,
    TopologyAssignment,
    TopologyAssignmentSlice,
    TopologyRequest,
    Workload,
)
from fairway.apis.machinery import names, problems
from fairway.apis.machinery.immutability import shown
from fairway.apis.machinery.metadata import has_condition
from fairway.apis.machinery.quantities import amount_of
from fairway.errors import FieldError

GATES_ANNOTATION = "kueue.x-k8s.io/admission-gated-by"
GATES_PATH = f"metadata.annotations[{GATES_ANNOTATION}]"
_ELASTIC_ANNOTATION = "kueue.x-k8s.io/elastic-job"

_POD_SETS = "spec.podSets"
_ASSIGNMENTS = "status.admission.podSetAssignments"
_EXACTLY_ONE = "exactly one of the fields in [universal individual] must be set"


def reserves_quota(workload: Workload) -> bool:
    return has_condition(workload.status.conditions, "QuotaReserved")


def is_elastic(workload: Workload) -> bool:
    """Whether the job behind it may change its size while it runs."""
    return workload.metadata.annotations.get(_ELASTIC_ANNOTATION) == "true"


def wrong_workload(workload: Workload, before: Workload | None = None) -> list[FieldError]:
    errors: list[FieldError] = []
    # What was accepted before and is the very same now need not be asked again.
    is_same_spec = before is not None and before.spec is workload.spec
    is_same_admission = before is not None and before.status.admission is workload.status.admission
    if not is_same_spec:
        for position, pod_set in enumerate(workload.spec.pod_sets):
            errors += _wrong_pod_set(pod_set, problems.index(_POD_SETS, position))
    errors += _wrong_counts(workload)
    errors += _wrong_priority(workload)
    if reserves_quota(workload) and not (
        is_same_admission and is_same_spec and before is not None and reserves_quota(before)
    ):
        errors += _wrong_admission(workload, before)
    for position, condition in enumerate(workload.status.conditions):
        if names.key_faults(condition.type):
            path = problems.index("status.conditions", position)
            errors += names.wrong_key(condition.type, problems.child(path, "type"))
    if not is_same_admission:
        errors += _wrong_assignments(workload)
    errors += _wrong_reclaimable_pods(workload, before)
    errors += _wrong_check_updates(workload)
    if workload.status.cluster_name is not None and workload.status.nominated_cluster_names:
        rule = "clusterName and nominatedClusterNames are mutually exclusive"
        errors.append(problems.invalid("status.clusterName", workload.status.cluster_name, rule))
    gates = workload.metadata.annotations.get(GATES_ANNOTATION)
    if gates:
        errors += names.wrong_gates(gates, GATES_PATH)
    return errors


def _wrong_pod_set(pod_set: PodSet, path: str) -> list[FieldError]:
    errors = []
    template = problems.child(path, "template")
    metadata = pod_set.template.metadata
    if metadata.labels:
        errors += names.wrong_labels(metadata.labels, problems.child(template, "metadata.labels"))
    if metadata.annotations:
        errors += names.wrong_annotations(metadata.annotations, problems.child(template, "metadata.annotations"))
    errors += pods.validate_pod_spec(pod_set.template.spec, problems.child(template, "spec"))
    if pod_set.min_count is not None and pod_set.min_count > pod_set.count:
        rule = "minCount should be positive and less or equal to count"
        errors.append(problems.invalid(problems.child(path, "minCount"), pod_set.min_count, rule))
    if pod_set.topology_request is not None:
        errors += _wrong_topology_request(pod_set.topology_request, problems.child(path, "topologyRequest"))
    return errors


def _wrong_topology_request(request: TopologyRequest, path: str) -> list[FieldError]:
    where, size = problems.child(path, "podSetSliceSize"), request.pod_set_slice_size
    if request.pod_set_slice_required_topology is None:
        if size is None:
            return []
        rule = "may not be set when podSetSliceRequiredTopology is not specified"
        return [problems.forbidden(where, size, rule)]
    if size is None:
        return [problems.required(where, "must be set when podSetSliceRequiredTopology is specified")]
    return [problems.invalid(where, size, "must be greater than 0")] if size <= 0 else []


def _wrong_counts(workload: Workload) -> list[FieldError]:
    variable = 0
    for pod_set in workload.spec.pod_sets:  # asked on every write; a sum over a generator costs three times as much
        if pod_set.min_count is not None:
            variable += 1
    errors = []
    if variable > 1:
        errors.append(problems.invalid(_POD_SETS, variable, "at most one podSet can use minCount"))
    if variable and is_elastic(workload):
        rule = "partial admission and elastic job cannot be used together"
        errors.append(problems.invalid(_POD_SETS, variable, rule))
    return errors


def _wrong_priority(workload: Workload) -> list[FieldError]:
    ref = workload.spec.priority_class_ref
    if ref is None:
        return []
    errors = []
    path = "spec.priorityClassRef"
    if ref.group == PriorityClassGroup.POD and ref.kind != PriorityClassKind.POD:
        rule = "only the PriorityClass kind is allowed for the scheduling.k8s.io group"
        errors.append(problems.invalid(problems.child(path, "kind"), ref.kind.value, rule))
    if ref.group == PriorityClassGroup.WORKLOAD and ref.kind != PriorityClassKind.WORKLOAD:
        rule = "only the WorkloadPriorityClass kind is allowed for the kueue.x-k8s.io group"
        errors.append(problems.invalid(problems.child(path, "kind"), ref.kind.value, rule))
    if workload.spec.priority is None:
        rule = "priority should not be nil when priorityClassRef is set"
        errors.append(problems.invalid("spec.priority", None, rule))
    return errors


def _wrong_admission(workload: Workload, before: Workload | None) -> list[FieldError]:
    admission = workload.status.admission
    if admission is None:
        # One that was already stored like this may be changed, so that it can be repaired.
        if before is not None and reserves_quota(before) and before.status.admission is None:
            return []
        return [problems.required("status.admission", "must be set while the QuotaReserved condition is true")]
    errors = []
    if len(admission.pod_set_assignments) != len(workload.spec.pod_sets):
        rule = "podSetAssignments must have the same number of podSets as the spec"
        errors.append(problems.invalid(_ASSIGNMENTS, len(admission.pod_set_assignments), rule))
    known = {pod_set.name for pod_set in workload.spec.pod_sets}
    for position, assignment in enumerate(admission.pod_set_assignments):
        path = problems.index(_ASSIGNMENTS, position)
        if assignment.name not in known:
            errors.append(problems.not_found(problems.child(path, "name"), assignment.name))
        errors += _uneven_usage(assignment, path)
    return errors


def _uneven_usage(assignment: PodSetAssignment, path: str) -> list[FieldError]:
    if not assignment.count:
        return []
    usage = problems.child(path, "resourceUsage")
    return [
        problems.invalid(problems.key(usage, name), str(quantity), f"is not a multiple of {assignment.count}")
        for name, quantity in assignment.resource_usage.items()
        if amount_of(name, quantity) % assignment.count
    ]


def _wrong_assignments(workload: Workload) -> list[FieldError]:
    if workload.status.admission is None:
        return []
    errors = []
    for position, assignment in enumerate(workload.status.admission.pod_set_assignments):
        if assignment.topology_assignment is not None:
            path = problems.child(problems.index(_ASSIGNMENTS, position), "topologyAssignment")
            errors += _wrong_topology(assignment.topology_assignment, path)
    return errors


def _wrong_topology(topology: TopologyAssignment, path: str) -> list[FieldError]:
    errors = []
    for position, part in enumerate(topology.slices):
        where = problems.index(problems.child(path, "slices"), position)
        if len(part.values_per_level) != len(topology.levels):
            rule = "valuesPerLevel must have the same length as the number of levels in this TopologyAssignment"
            errors.append(problems.invalid(problems.child(where, "valuesPerLevel"), len(part.values_per_level), rule))
        errors += _wrong_slice(part, where)
    return errors


def _wrong_slice(part: TopologyAssignmentSlice, path: str) -> list[FieldError]:
    errors = []
    counts = problems.child(path, "podCounts")
    if (part.pod_counts.universal is None) == (part.pod_counts.individual is None):
        errors.append(problems.invalid(counts, shown(part.pod_counts), _EXACTLY_ONE))
    if part.pod_counts.individual is not None and len(part.pod_counts.individual) != part.domain_count:
        rule = "podCounts.individual must have length equal to domainCount"
        errors.append(problems.invalid(problems.child(counts, "individual"), len(part.pod_counts.individual), rule))
    for position, level in enumerate(part.values_per_level):
        where = problems.index(problems.child(path, "valuesPerLevel"), position)
        if (level.universal is None) == (level.individual is None):
            errors.append(problems.invalid(where, shown(level), _EXACTLY_ONE))
        if level.individual is not None and len(level.individual.roots) != part.domain_count:
            rule = (
                "valuesPerLevel.individual, if set, must have roots of length equal to domainCount of this "
                "TopologyAssignmentSlice"
            )
            errors.append(problems.invalid(where, len(level.individual.roots), rule))
    return errors


def _wrong_reclaimable_pods(workload: Workload, before: Workload | None) -> list[FieldError]:
    if not workload.status.reclaimable_pods:
        return []
    counts = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    # A count that a smaller pod set left behind may stay until it is brought down.
    stale = before.status.reclaimable_pods if before is not None and is_elastic(workload) else ()
    errors = []
    for reclaimable in workload.status.reclaimable_pods:
        path = problems.key("status.reclaimablePods", reclaimable.name)
        if reclaimable.name not in counts:
            errors.append(problems.not_supported(problems.child(path, "name"), reclaimable.name, counts))
        elif reclaimable.count > counts[reclaimable.name] and reclaimable not in stale:
            rule = f"should be less or equal to {counts[reclaimable.name]}"
            errors.append(problems.invalid(problems.child(path, "count"), reclaimable.count, rule))
    return errors


def _wrong_check_updates(workload: Workload) -> list[FieldError]:
    if not workload.status.admission_checks:
        return []
    known = sorted(pod_set.name for pod_set in workload.spec.pod_sets)
    errors = []
    for i, check in enumerate(workload.status.admission_checks):
        for j, update in enumerate(check.pod_set_updates):
            path = problems.index(problems.child(problems.index("status.admissionChecks", i), "podSetUpdates"), j)
            if update.name not in known:
                errors.append(problems.not_supported(problems.child(path, "name"), update.name, known))
            errors += wrong_tolerations(update.tolerations, problems.child(path, "tolerations"))
            errors += names.wrong_annotations(update.annotations, problems.child(path, "annotations"))
            errors += names.wrong_labels(update.node_selector, problems.child(path, "nodeSelector"))
            errors += names.wrong_labels(update.labels, problems.child(path, "labels"))
    return errors
