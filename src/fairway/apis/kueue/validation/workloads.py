"""Rules about Workload: its pods and priority, and the status that controllers write."""

from typing import Any, Final

from fairway.apis.core.checks import Part
from fairway.apis.kueue.validation.flavors import wrong_tolerations
from fairway.apis.machinery import names, problems
from fairway.apis.machinery.conditions import is_true
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import ZERO, Quantity, amount_of
from fairway.errors import FieldError

GATES_ANNOTATION: Final = "kueue.x-k8s.io/admission-gated-by"
GATES_PATH: Final = f"metadata.annotations[{GATES_ANNOTATION}]"
RESERVED_RESOURCE: Final = "pods"
"""The name under which Kueue itself counts pods against a quota."""

_ELASTIC_ANNOTATION: Final = "kueue.x-k8s.io/elastic-job"
_POD_SETS: Final = "spec.podSets"
_ASSIGNMENTS: Final = "status.admission.podSetAssignments"
_EXACTLY_ONE: Final = "exactly one of the fields in [universal individual] must be set"
_PRIORITY_KINDS: Final = {"scheduling.k8s.io": "PriorityClass", "kueue.x-k8s.io": "WorkloadPriorityClass"}


def part_of(holder: Part, name: str) -> Any:
    """The object in this field; empty if there is none."""
    return holder.get(name) or {}


def annotation(workload: Manifest, name: str) -> str:
    return str(part_of(part_of(workload, "metadata"), "annotations").get(name) or "")


def is_elastic(workload: Manifest) -> bool:
    """Whether the job behind it may change its size while it runs."""
    return annotation(workload, _ELASTIC_ANNOTATION) == "true"


def pod_sets_of(workload: Manifest) -> list[Part]:
    pod_sets: list[Part] = part_of(workload, "spec").get("podSets") or []
    return pod_sets


def wrong_workload(workload: Manifest, before: Manifest | None = None) -> list[FieldError]:
    """Errors in a Workload; what `before`, which was accepted, has just the same is not checked again."""
    errors: list[FieldError] = []
    status: Part = part_of(workload, "status")
    is_same_spec = before is not None and before.get("spec") == workload.get("spec")
    is_same_admission = before is not None and part_of(before, "status").get("admission") == status.get("admission")
    if not is_same_spec:
        for position, pod_set in enumerate(pod_sets_of(workload)):
            errors += _wrong_pod_set(pod_set, problems.index(_POD_SETS, position))
    errors += wrong_annotations(workload)
    errors += _wrong_priority(workload)
    reserves = is_true(workload, "QuotaReserved")
    reserved = before is not None and is_true(before, "QuotaReserved")
    if reserves and not (is_same_admission and is_same_spec and reserved):
        errors += _wrong_admission(workload, before if reserved else None)
    for position, condition in enumerate(status.get("conditions") or ()):
        if names.key_faults(condition["type"]):
            errors += problems.of_schema(*names.wrong_key(condition["type"], f"status.conditions[{position}].type"))
    if not is_same_admission:
        for position, assignment in enumerate(part_of(status, "admission").get("podSetAssignments") or ()):
            if assignment.get("topologyAssignment"):
                path = f"{_ASSIGNMENTS}[{position}].topologyAssignment"
                errors += problems.of_schema(*_wrong_topology(assignment["topologyAssignment"], path))
    if status.get("reclaimablePods"):
        errors += _wrong_reclaimable_pods(workload, before)
    if status.get("admissionChecks"):
        errors += _wrong_check_updates(workload)
    if status.get("clusterName") is not None and status.get("nominatedClusterNames"):
        rule = "clusterName and nominatedClusterNames are mutually exclusive"
        errors += problems.of_schema(problems.invalid("status.clusterName", status["clusterName"], rule))
    return errors


def wrong_annotations(workload: Manifest) -> list[FieldError]:
    """Errors in what its annotations say, and in a spec that does not go with them."""
    errors = []
    variable = sum("minCount" in pod_set for pod_set in pod_sets_of(workload))
    if variable > 1:
        errors.append(problems.invalid(_POD_SETS, variable, "at most one podSet can use minCount"))
    if variable and is_elastic(workload):
        rule = "partial admission and elastic job cannot be used together"
        errors.append(problems.invalid(_POD_SETS, variable, rule))
    gates = annotation(workload, GATES_ANNOTATION)
    return errors + names.wrong_gates(gates, GATES_PATH) if gates else errors


def _wrong_pod_set(pod_set: Part, path: str) -> list[FieldError]:
    template, where = part_of(pod_set, "template"), f"{path}.template"
    metadata = part_of(template, "metadata")
    errors = [
        *names.wrong_labels(metadata.get("labels") or {}, f"{where}.metadata.labels"),
        *names.wrong_annotations(metadata.get("annotations") or {}, f"{where}.metadata.annotations"),
        *wrong_pod_spec(part_of(template, "spec"), f"{where}.spec"),
    ]
    least = pod_set.get("minCount")
    if least is not None and least > pod_set.get("count", 1):
        rule = "minCount should be positive and less or equal to count"
        errors += problems.of_schema(problems.invalid(f"{path}.minCount", least, rule))
    if pod_set.get("topologyRequest"):
        errors += _wrong_topology_request(pod_set["topologyRequest"], f"{path}.topologyRequest")
    return errors


def wrong_pod_spec(spec: Part, path: str) -> list[FieldError]:
    """Errors in a pod spec that keep Kueue from counting what it asks for."""
    errors: list[FieldError] = []
    for field in ("initContainers", "containers"):
        seen: set[str] = set()
        for position, container in enumerate(spec.get(field) or ()):
            name, where = container["name"], f"{path}.{field}[{position}]"
            if name in seen:
                errors.append(problems.duplicate(where, {"name": name}))
            seen.add(name)
            if container.get("resources"):
                errors += _wrong_resources(container["resources"], f"{where}.resources")
    return errors + _wrong_resources(part_of(spec, "resources"), f"{path}.resources")


def _wrong_resources(resources: Part, path: str) -> list[FieldError]:
    errors = []
    for part in ("requests", "limits"):
        for name, text in part_of(resources, part).items():
            if name == RESERVED_RESOURCE:
                rule = "the key is reserved for internal kueue use"
                errors.append(problems.invalid(f"{path}.{part}[{name}]", name, rule))
            if (quantity := Quantity.parse(text)) < ZERO:
                rule = "must be greater than or equal to 0"
                errors.append(problems.invalid(f"{path}.{part}[{name}]", str(quantity), rule))
    return errors


def _wrong_topology_request(request: Part, path: str) -> list[FieldError]:
    where, size = f"{path}.podSetSliceSize", request.get("podSetSliceSize")
    if request.get("podSetSliceRequiredTopology") is None:
        if size is None:
            return []
        rule = "may not be set when podSetSliceRequiredTopology is not specified"
        return [problems.forbidden(where, size, rule)]
    if size is None:
        return [problems.required(where, "must be set when podSetSliceRequiredTopology is specified")]
    return [problems.invalid(where, size, "must be greater than 0")] if size <= 0 else []


def _wrong_priority(workload: Manifest) -> list[FieldError]:
    spec = part_of(workload, "spec")
    ref = spec.get("priorityClassRef")
    if ref is None:
        return []
    errors = []
    kind = _PRIORITY_KINDS[ref["group"]]
    if ref["kind"] != kind:
        rule = f"only the {kind} kind is allowed for the {ref['group']} group"
        errors.append(problems.invalid("spec.priorityClassRef.kind", ref["kind"], rule))
    if spec.get("priority") is None:
        rule = "priority should not be nil when priorityClassRef is set"
        errors.append(problems.invalid("spec.priority", None, rule))
    return problems.of_schema(*errors)


def _wrong_admission(workload: Manifest, reserved_before: Manifest | None) -> list[FieldError]:
    admission = part_of(workload, "status").get("admission")
    if admission is None:
        # One that was already stored like this may be changed, so that it can be repaired.
        if reserved_before is not None and part_of(reserved_before, "status").get("admission") is None:
            return []
        return [problems.required("status.admission", "must be set while the QuotaReserved condition is true")]
    errors = []
    assignments = admission.get("podSetAssignments") or []
    known = {pod_set.get("name", "main") for pod_set in pod_sets_of(workload)}
    if len(assignments) != len(pod_sets_of(workload)):
        rule = "podSetAssignments must have the same number of podSets as the spec"
        errors += problems.of_schema(problems.invalid(_ASSIGNMENTS, len(assignments), rule))
    for position, assignment in enumerate(assignments):
        path, name = problems.index(_ASSIGNMENTS, position), assignment.get("name", "main")
        if name not in known:
            errors.append(problems.not_found(f"{path}.name", name))
        errors += _uneven_usage(assignment, path)
    return errors


def _uneven_usage(assignment: Part, path: str) -> list[FieldError]:
    count = assignment.get("count")
    if not count:
        return []
    return [
        problems.invalid(f"{path}.resourceUsage[{name}]", str(quantity), f"is not a multiple of {count}")
        for name, quantity in part_of(assignment, "resourceUsage").items()
        if amount_of(name, Quantity.parse(quantity)) % count
    ]


def _wrong_topology(topology: Part, path: str) -> list[FieldError]:
    errors = []
    for position, part in enumerate(topology["slices"]):
        where = f"{path}.slices[{position}]"
        if len(part["valuesPerLevel"]) != len(topology["levels"]):
            rule = "valuesPerLevel must have the same length as the number of levels in this TopologyAssignment"
            errors.append(problems.invalid(f"{where}.valuesPerLevel", len(part["valuesPerLevel"]), rule))
        errors += _wrong_slice(part, where)
    return errors


def _wrong_slice(part: Part, path: str) -> list[FieldError]:
    errors = []
    counts = part["podCounts"]
    if ("universal" in counts) == ("individual" in counts):
        errors.append(problems.invalid(f"{path}.podCounts", counts, _EXACTLY_ONE))
    if "individual" in counts and len(counts["individual"]) != part["domainCount"]:
        rule = "podCounts.individual must have length equal to domainCount"
        errors.append(problems.invalid(f"{path}.podCounts.individual", len(counts["individual"]), rule))
    for position, level in enumerate(part["valuesPerLevel"]):
        where = f"{path}.valuesPerLevel[{position}]"
        if ("universal" in level) == ("individual" in level):
            errors.append(problems.invalid(where, level, _EXACTLY_ONE))
        if "individual" in level and len(level["individual"]["roots"]) != part["domainCount"]:
            rule = (
                "valuesPerLevel.individual, if set, must have roots of length equal to domainCount of this "
                "TopologyAssignmentSlice"
            )
            errors.append(problems.invalid(where, len(level["individual"]["roots"]), rule))
    return errors


def _wrong_reclaimable_pods(workload: Manifest, before: Manifest | None) -> list[FieldError]:
    counts = {pod_set.get("name", "main"): pod_set.get("count", 1) for pod_set in pod_sets_of(workload)}
    # A count that a smaller pod set left behind may stay until it is brought down.
    stale = part_of(before, "status").get("reclaimablePods") or () if before and is_elastic(workload) else ()
    errors = []
    for reclaimable in part_of(workload, "status")["reclaimablePods"]:
        name, count = reclaimable["name"], reclaimable["count"]
        path = problems.key("status.reclaimablePods", name)
        if name not in counts:
            errors.append(problems.not_supported(f"{path}.name", name, counts))
        elif count > counts[name] and reclaimable not in stale:
            errors.append(problems.invalid(f"{path}.count", count, f"should be less or equal to {counts[name]}"))
    return errors


def _wrong_check_updates(workload: Manifest) -> list[FieldError]:
    known = sorted(pod_set.get("name", "main") for pod_set in pod_sets_of(workload))
    errors = []
    for i, check in enumerate(part_of(workload, "status")["admissionChecks"]):
        for j, update in enumerate(check.get("podSetUpdates") or ()):
            path = f"status.admissionChecks[{i}].podSetUpdates[{j}]"
            if update["name"] not in known:
                errors.append(problems.not_supported(f"{path}.name", update["name"], known))
            errors += wrong_tolerations(update.get("tolerations") or [], f"{path}.tolerations")
            errors += names.wrong_annotations(update.get("annotations") or {}, f"{path}.annotations")
            errors += names.wrong_labels(update.get("nodeSelector") or {}, f"{path}.nodeSelector")
            errors += names.wrong_labels(update.get("labels") or {}, f"{path}.labels")
    return errors
