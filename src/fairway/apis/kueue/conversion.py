"""Manifests of older API versions to `v1beta2` and back; plain data in, plain data out, the input untouched.

Kueue 0.11 wrote `v1beta1` (and `v1alpha1` for Cohort and Topology); 0.19 stores `v1beta2` and converts on request,
losing the same as here: fields that exist only in one version have no place in the other. A part that is malformed is
left out of the result; `wrong_in_old_version` reports it, by its old path.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any, Final, TypeAlias

from fairway.apis.kueue.workloads import PriorityClassGroup, PriorityClassKind
from fairway.apis.machinery import problems, shapes
from fairway.apis.machinery.structs import Int32, Value, limits
from fairway.errors import FieldError

STORED: Final = "v1beta2"
_ALPHA: Final = "v1alpha1"
_EVERY: Final = "*"

Data: TypeAlias = Mapping[str, Any]
_Path: TypeAlias = tuple[str, ...]

_RENAMED: Final[Mapping[tuple[str, str], tuple[tuple[_Path, str, str], ...]]] = {
    ("ClusterQueue", "v1beta1"): ((("spec",), "cohort", "cohortName"),),
    ("Cohort", _ALPHA): ((("spec",), "parent", "parentName"),),
    ("LocalQueue", "v1beta1"): ((("status",), "flavorUsage", "flavorsUsage"),),
    ("Workload", "v1beta1"): (
        (("status",), "accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds"),
    ),
}
"""Per kind and old version: the object that holds the field, its old name, its new one."""

_ONLY_OLD: Final[Mapping[str, tuple[_Path, ...]]] = {
    "AdmissionCheck": (("spec", "retryDelayMinutes"),),
    "ClusterQueue": (
        ("status", "pendingWorkloadsStatus"),
        ("status", "fairSharing", "admissionFairSharingStatus"),
    ),
    "Cohort": (("status", "fairSharing", "admissionFairSharingStatus"),),
    "LocalQueue": (("status", "flavors"),),
}

_ONLY_NEW: Final[Mapping[str, tuple[_Path, ...]]] = {
    "ClusterQueue": (("spec", "concurrentAdmissionPolicy"),),
    "Workload": (
        ("spec", "preemptionGates"),
        ("status", "preemptionGates"),
        ("spec", "podSets", _EVERY, "topologyRequest", "podsetSliceRequiredTopologyConstraints"),
    ),
}

_NEW_NAMES: Final[Mapping[str, tuple[_Path, ...]]] = {
    "Workload": (("spec", "priorityClassRef"),),
}
"""What only `v1beta2` has, but what has another form in `v1beta1`."""

_SOURCES: Final = {
    "kueue.x-k8s.io/workloadpriorityclass": (PriorityClassGroup.WORKLOAD.value, PriorityClassKind.WORKLOAD.value),
    "scheduling.k8s.io/priorityclass": (PriorityClassGroup.POD.value, PriorityClassKind.POD.value),
}

_TOPOLOGY_ASSIGNMENT: Final = ("status", "admission", "podSetAssignments", _EVERY, "topologyAssignment")


class _OldDomain(Value, frozen=True, kw_only=True):
    values: Annotated[tuple[str, ...], limits(min_items=1)]
    count: Int32


class _OldTopologyAssignment(Value, frozen=True, kw_only=True):
    levels: tuple[str, ...]
    domains: tuple[_OldDomain, ...]


def to_stored(kind: str, version: str, data: Data) -> dict[str, Any]:
    """The object as `v1beta2`, given as `version`."""
    converted = dict(data)
    for path in _ONLY_OLD.get(kind, ()):
        converted = _without(converted, path)
    for parent, old, new in _RENAMED.get((kind, version), ()):
        converted = _edited(converted, parent, partial(_renamed, old=old, new=new))
    if kind == "ClusterQueue":
        converted = _edited(converted, ("spec",), _checks_to_strategy)
        converted = _edited(converted, ("spec", "flavorFungibility"), _fungibility_to_stored)
    elif kind == "Workload":
        converted = _edited(converted, ("spec",), _priority_class_to_stored)
        converted = _edited(converted, _TOPOLOGY_ASSIGNMENT, _topology_to_stored)
    return converted


def from_stored(kind: str, version: str, data: Data) -> dict[str, Any]:
    """The object as `version`, given as `v1beta2`."""
    converted = dict(data)
    for path in _ONLY_NEW.get(kind, ()):
        converted = _without(converted, path)
    for parent, old, new in _RENAMED.get((kind, version), ()):
        converted = _edited(converted, parent, partial(_renamed, old=new, new=old))
    if kind == "Workload":
        converted = _edited(converted, ("spec",), _priority_class_from_stored)
        converted = _edited(converted, _TOPOLOGY_ASSIGNMENT, _topology_from_stored)
    return converted


def wrong_in_old_version(kind: str, version: str, data: Data) -> list[FieldError]:
    """What is wrong with an older manifest that its conversion would hide: newer fields, parts without a likeness."""
    renamed = _RENAMED.get((kind, version), ())
    errors: list[FieldError] = []
    for path in (*_ONLY_NEW.get(kind, ()), *_NEW_NAMES.get(kind, ())):
        errors += [problems.unknown(where, value, _since_message(path[-1])) for where, value in _found(data, path)]
    for parent, old, new in renamed:
        errors += [
            problems.unknown(where, value, f'{version} calls it "{old}"')
            for where, value in _found(data, (*parent, new))
        ]
    if kind == "Workload":
        errors += [
            problems.required(problems.child(where, name))
            for where, admission in _found(data, ("status", "admission"))
            for name in ("clusterQueue", "podSetAssignments")
            if isinstance(admission, Mapping) and admission.get(name) is None
        ]
    return errors + without_likeness(kind, data)


def without_likeness(kind: str, data: Data) -> list[FieldError]:
    """The parts of an older manifest, or of a piece of one, that have no likeness in `v1beta2` and would be dropped."""
    if kind != "Workload":
        return []
    errors = _wrong_priority_class(data)
    for where, value in _found(data, _TOPOLOGY_ASSIGNMENT):
        errors += _wrong_topology(value, where)
    return errors


def old_path(kind: str, version: str, path: str) -> str:
    """How the older version calls a field of `v1beta2`."""
    renamed = [
        (problems.child("", *parent, new), problems.child("", *parent, old))
        for parent, old, new in _RENAMED.get((kind, version), ())
    ]
    if kind == "Workload" and version != STORED:
        renamed += [
            ("spec.priorityClassRef.name", "spec.priorityClassName"),
            ("spec.priorityClassRef", "spec.priorityClassSource"),
        ]
    for new, old in renamed:
        if path == new or path.startswith((f"{new}.", f"{new}[")):
            return old + path[len(new) :]
    return path


def _since_message(name: str) -> str:
    return f'"{name}" came with {STORED}; write the manifest in that version'


# Editing along a path: copies what it changes and leaves alone what does not have the expected form.


def _edited(data: Any, path: _Path, edit: Callable[[dict[str, Any]], Any]) -> Any:
    if not path:
        return edit(dict(data)) if isinstance(data, Mapping) else data
    step, rest = path[0], path[1:]
    if step == _EVERY:
        return [_edited(item, rest, edit) for item in data] if isinstance(data, list | tuple) else data
    if not isinstance(data, Mapping) or data.get(step) is None:
        return data
    changed = dict(data)
    changed[step] = _edited(data[step], rest, edit)
    if changed[step] is None:
        del changed[step]
    return changed


def _without(data: Any, path: _Path) -> Any:
    return _edited(data, path[:-1], lambda part: {name: value for name, value in part.items() if name != path[-1]})


def _found(data: Any, path: _Path, where: str = "") -> list[tuple[str, Any]]:
    if not path:
        return [(where, data)]
    if path[0] == _EVERY:
        items = enumerate(data) if isinstance(data, list | tuple) else ()
        return [one for i, item in items for one in _found(item, path[1:], problems.index(where, i))]
    if not isinstance(data, Mapping) or data.get(path[0]) is None:
        return []
    return _found(data[path[0]], path[1:], problems.child(where, path[0]))


def _renamed(part: dict[str, Any], *, old: str, new: str) -> dict[str, Any]:
    if old in part:
        part[new] = part.pop(old)
    return part


# ClusterQueue


def _checks_to_strategy(spec: dict[str, Any]) -> dict[str, Any]:
    checks = spec.pop("admissionChecks", None)
    if checks:
        rules = [{"name": check} for check in checks] if isinstance(checks, list | tuple) else checks
        spec["admissionChecksStrategy"] = {"admissionChecks": rules}
    return spec


def _fungibility_to_stored(fungibility: dict[str, Any]) -> dict[str, Any]:
    for name, old in (("whenCanBorrow", "Borrow"), ("whenCanPreempt", "Preempt")):
        if fungibility.get(name) == old:
            fungibility[name] = "MayStopSearch"
    return fungibility


# Workload


def _priority_class_to_stored(spec: dict[str, Any]) -> dict[str, Any]:
    name, source = spec.pop("priorityClassName", None), spec.pop("priorityClassSource", None)
    if isinstance(source, str) and source in _SOURCES:
        group, kind = _SOURCES[source]
        spec["priorityClassRef"] = {"group": group, "kind": kind, "name": "" if name is None else name}
    return spec


def _priority_class_from_stored(spec: dict[str, Any]) -> dict[str, Any]:
    ref = spec.pop("priorityClassRef", None)
    if ref is not None:
        spec["priorityClassName"] = ref["name"]
        spec["priorityClassSource"] = next(source for source, (group, _) in _SOURCES.items() if group == ref["group"])
    return spec


def _wrong_priority_class(data: Data) -> list[FieldError]:
    errors = []
    sources = _found(data, ("spec", "priorityClassSource"))
    for where, source in sources:
        if not isinstance(source, str):
            errors.append(problems.wrong_type(where, source, "must be a string"))
        elif source and source not in _SOURCES:
            errors.append(problems.not_supported(where, source, (*_SOURCES, "")))
    for where, name in _found(data, ("spec", "priorityClassName")):
        if not isinstance(name, str):
            errors.append(problems.wrong_type(where, name, "must be a string"))
        elif not any(source for _, source in sources) and not _found(data, ("spec", "priority")):
            # Such a name refers to nothing and is dropped, so this is the last place to see it.
            errors.append(problems.invalid("spec", name, "priority should not be nil when priorityClassName is set"))
    return errors


def _wrong_topology(data: Any, path: str) -> list[FieldError]:
    assignment, errors = shapes.read(data, _OldTopologyAssignment, path)
    if assignment is not None:
        errors += [
            problems.invalid(
                problems.child(problems.index(problems.child(path, "domains"), i), "values"),
                list(domain.values),
                f"must have one value for each of the {len(assignment.levels)} levels",
            )
            for i, domain in enumerate(assignment.domains)
            if len(domain.values) != len(assignment.levels)
        ]
    return errors


def _topology_to_stored(data: dict[str, Any]) -> dict[str, Any] | None:
    if _wrong_topology(data, ""):
        return None
    levels, domains = list(data["levels"]), list(data["domains"])
    if not domains:
        return {"levels": levels, "slices": []}
    counts = [domain["count"] for domain in domains]
    values = [_values(list(level)) for level in zip(*(domain["values"] for domain in domains), strict=True)]
    pods = {"universal": counts[0]} if len(set(counts)) == 1 else {"individual": counts}
    return {
        "levels": levels,
        "slices": [{"domainCount": len(domains), "valuesPerLevel": values, "podCounts": pods}],
    }


def _values(level: list[str]) -> dict[str, Any]:
    return {"universal": level[0]} if len(set(level)) == 1 else {"individual": {"roots": level}}


def _topology_from_stored(data: dict[str, Any]) -> dict[str, Any]:
    domains = []
    for part in data["slices"]:
        size = part["domainCount"]
        levels = [_listed(level, size) for level in part["valuesPerLevel"]]
        pods = part["podCounts"]
        counts = [pods["universal"]] * size if "universal" in pods else pods.get("individual", [])
        domains += [{"values": list(values), "count": count} for *values, count in zip(*levels, counts, strict=False)]
    return {"levels": data["levels"], "domains": domains}


def _listed(level: Mapping[str, Any], size: int) -> list[str]:
    if "universal" in level:
        return [level["universal"]] * size
    individual = level.get("individual", {})
    prefix, suffix = individual.get("prefix", ""), individual.get("suffix", "")
    return [f"{prefix}{root}{suffix}" for root in individual.get("roots", [])]
