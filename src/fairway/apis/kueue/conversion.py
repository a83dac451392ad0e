"""Manifests of `v1beta1` to `v1beta2` and back; plain data in, plain data out, the input untouched.

Kueue 0.19 stores `v1beta2` and converts on request, losing the same as here: fields that exist only in one version have
no place in the other. Manifests have passed the schema of their version; parts of one (an applied configuration) may
lack fields that are required. A part without a counterpart is left out of the result; `without_likeness` reports it, by
its old path.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from fairway.apis.kueue import placements
from fairway.apis.kueue.workloads import PriorityClassGroup, PriorityClassKind
from fairway.apis.machinery import problems
from fairway.errors import FieldError

STORED: Final = "v1beta2"
_EVERY: Final = "*"

Data: TypeAlias = Mapping[str, Any]
_Path: TypeAlias = tuple[str, ...]

_RENAMED: Final[Mapping[tuple[str, str], tuple[tuple[_Path, str, str], ...]]] = {
    ("ClusterQueue", "v1beta1"): ((("spec",), "cohort", "cohortName"),),
    ("LocalQueue", "v1beta1"): ((("status",), "flavorUsage", "flavorsUsage"),),
    ("Workload", "v1beta1"): (
        (("status",), "accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds"),
    ),
}
"""Per kind and old version: the object that holds the field, its old name, its new one."""

CONVERTED: Final = frozenset(kind for kind, _ in _RENAMED)
"""The kinds whose versions differ by more than fields that only one of them has."""

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

_SOURCES: Final = {
    "kueue.x-k8s.io/workloadpriorityclass": (PriorityClassGroup.WORKLOAD.value, PriorityClassKind.WORKLOAD.value),
    "scheduling.k8s.io/priorityclass": (PriorityClassGroup.POD.value, PriorityClassKind.POD.value),
}

_TOPOLOGY_ASSIGNMENT: Final = ("status", "admission", "podSetAssignments", _EVERY, "topologyAssignment")


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


def without_likeness(kind: str, data: Data) -> list[FieldError]:
    """The parts of an older manifest, or of a piece of one, that have no likeness in `v1beta2` and would be dropped."""
    if kind != "Workload":
        return []
    errors = _wrong_priority_class(data.get("spec") or {})
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


def _wrong_priority_class(spec: Data) -> list[FieldError]:
    errors = []
    name, source = spec.get("priorityClassName"), spec.get("priorityClassSource")
    if source and source not in _SOURCES:
        errors.append(problems.not_supported("spec.priorityClassSource", source, (*_SOURCES, "")))
    if name is not None and not source and spec.get("priority") is None:
        # Such a name refers to nothing and is dropped, so this is the last place to see it.
        errors.append(problems.invalid("spec", name, "priority should not be nil when priorityClassName is set"))
    return errors


def _wrong_topology(data: Data, path: str) -> list[FieldError]:
    errors = [problems.required(f"{path}.{name}") for name in ("levels", "domains") if data.get(name) is None]
    levels = data.get("levels") or ()
    for position, domain in enumerate(data.get("domains") or ()):
        where = f"{path}.domains[{position}]"
        errors += [problems.required(f"{where}.{name}") for name in ("values", "count") if domain.get(name) is None]
        values = domain.get("values")
        if values is not None and len(values) != len(levels):
            rule = f"must have one value for each of the {len(levels)} levels"
            errors.append(problems.invalid(f"{where}.values", values, rule))
    return errors


def _topology_to_stored(data: dict[str, Any]) -> dict[str, Any] | None:
    if _wrong_topology(data, ""):
        return None
    domains = tuple(placements.DomainPods(tuple(one["values"]), one["count"]) for one in data["domains"])
    return placements.encode(placements.Placement(tuple(data["levels"]), domains))


def _topology_from_stored(data: dict[str, Any]) -> dict[str, Any]:
    domains = placements.decode(data).domains
    return {"levels": data["levels"], "domains": [{"values": list(one.values), "count": one.pods} for one in domains]}
