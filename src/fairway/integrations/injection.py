"""Adds the pod set infos of an admission to pod templates, and removes them again.

A pod set gets the node labels and tolerations of its flavors, labels that say where it was admitted, and what admission
checks ask for. A key that is there already with another value is a conflict: such a job can never start.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fairway.apis.machinery.copies import copied
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.names import label_faults
from fairway.errors import FairwayError
from fairway.integrations import names, webhooks
from fairway.integrations.slices import slice_name

_FIELDS: Final = (
    ("metadata", ("labels", "annotations")),
    ("spec", ("nodeSelector", "tolerations", "schedulingGates")),
)
"""All that admission may add to a pod template."""

_QUEUE_KEYS: Final = (
    ("labels", (names.POD_SET, names.LOCAL_QUEUE, names.CLUSTER_QUEUE)),
    ("annotations", (names.WORKLOAD,)),
)
"""What of it says where the pods were admitted."""


_OVERWRITTEN: Final = (names.SLICE_NAME, names.WORKLOAD)
"""What pods of an elastic job may have from an earlier chain of slices."""


class InjectionConflict(FairwayError):
    """The job cannot start as it was admitted, now or ever."""


class FlavorMissing(FairwayError):
    """A flavor that was assigned is not there; it may come back."""


@dataclass(slots=True, kw_only=True)
class PodSetInfo:
    """What the pods of one pod set get, or got before admission."""

    name: str
    count: int
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: list[Manifest] = field(default_factory=list)
    scheduling_gates: list[Manifest] = field(default_factory=list)


def infos_of(workload: Manifest, flavors: Callable[[str], Manifest | None]) -> list[PodSetInfo]:
    """What each pod set of a workload with a reservation gets; `FlavorMissing` if a flavor of it is gone."""
    admission = workload["status"]["admission"]
    assignments = admission.get("podSetAssignments") or ()
    return [
        _info(workload, assignment, pod_set, flavors)
        for assignment, pod_set in zip(assignments, workload["spec"]["podSets"], strict=False)
    ]


def inject(template: Manifest, info: PodSetInfo) -> None:
    """Add to a pod template, in place; `InjectionConflict` leaves it as it was."""
    metadata = template.get("metadata") or {}
    spec = template.get("spec") or {}
    held = PodSetInfo(
        name=info.name,
        count=info.count,
        labels=dict(metadata.get("labels") or {}),
        annotations=dict(metadata.get("annotations") or {}),
        node_selector=dict(spec.get("nodeSelector") or {}),
        tolerations=list(spec.get("tolerations") or ()),
        scheduling_gates=list(spec.get("schedulingGates") or ()),
    )
    merge(held, info)
    template["metadata"], template["spec"] = metadata, spec
    _put(metadata, spec, held)


def injected(template: Manifest, info: PodSetInfo) -> Manifest:
    """A pod template with what admission adds; what admission never touches is shared with the one given."""
    other = {**template, "metadata": dict(template.get("metadata") or {}), "spec": dict(template.get("spec") or {})}
    inject(other, info)
    return other


def restore(template: Manifest, pod_set_template: Manifest) -> Manifest:
    """A copy of a pod template with what admission may add as it is in the workload's template."""
    parts = {part: dict(template.get(part) or {}) for part, _ in _FIELDS}
    for part, fields in _FIELDS:
        before = pod_set_template.get(part) or {}
        for name in fields:
            value = before.get(name)
            if value:
                parts[part][name] = value.copy()
            else:
                parts[part].pop(name, None)
    return {**template, **parts}


def without_queue(template: Manifest) -> Manifest:
    """A pod template without what names a queue, which another admission would contradict."""
    metadata = dict(template.get("metadata") or {})
    for name, keys in _QUEUE_KEYS:
        metadata[name] = {key: value for key, value in (metadata.get(name) or {}).items() if key not in keys}
    return {**template, "metadata": metadata}


def difference(template: Manifest, other: Manifest) -> Manifest:
    """The merge patch that makes of a pod template another that differs by what admission may add."""
    patch: Manifest = {}
    for part, fields in _FIELDS:
        before, after = template.get(part) or {}, other.get(part) or {}
        changes: Manifest = {}
        for name in fields:
            old, new = before.get(name), after.get(name)
            if (old or None) == (new or None):
                continue
            if isinstance(new, dict) and isinstance(old, dict):
                gone: Manifest = {key: None for key in old if key not in new}
                changes[name] = gone | {key: value for key, value in new.items() if old.get(key) != value}
            else:
                changes[name] = copied(new) or None
        if changes:
            patch[part] = changes
    return patch


def merge(into: PodSetInfo, other: PodSetInfo) -> None:
    """Add what another asks for; `InjectionConflict`, with nothing added, if they contradict."""
    stale = _OVERWRITTEN if names.SLICE_NAME in other.annotations else ()
    _check(
        {key: value for key, value in into.annotations.items() if key not in stale}, other.annotations, "annotations"
    )
    _check(into.labels, other.labels, "labels")
    _check(into.node_selector, other.node_selector, "nodeSelector")
    into.annotations.update(other.annotations)
    into.labels.update(other.labels)
    into.node_selector.update(other.node_selector)
    for toleration in other.tolerations:
        if not any(_tolerate_the_same(toleration, known) for known in into.tolerations):
            into.tolerations.append(toleration)
    into.scheduling_gates.extend(gate for gate in other.scheduling_gates if gate not in into.scheduling_gates)


def _info(
    workload: Manifest, assignment: Manifest, pod_set: Manifest, flavors: Callable[[str], Manifest | None]
) -> PodSetInfo:
    name = assignment["name"]
    count = assignment.get("count")
    info = PodSetInfo(name=name, count=pod_set["count"] if count is None else count)
    if assignment.get("topologyAssignment"):
        if not _asks_for_topology(pod_set.get("topologyRequest") or {}):
            info.annotations[names.UNCONSTRAINED_TOPOLOGY] = "true"
        info.scheduling_gates.append({"name": names.TOPOLOGY_GATE})
    for flavor_name in dict.fromkeys((assignment.get("flavors") or {}).values()):
        flavor = flavors(flavor_name)
        if flavor is None:
            raise FlavorMissing(f'resourceflavors.kueue.x-k8s.io "{flavor_name}" not found')
        spec = flavor.get("spec") or {}
        info.node_selector.update(spec.get("nodeLabels") or {})
        info.tolerations.extend(spec.get("tolerations") or ())
    info.annotations[names.WORKLOAD] = workload["metadata"]["name"]
    if webhooks.is_elastic(workload):
        info.annotations[names.SLICE_NAME] = slice_name(workload)
    info.labels[names.POD_SET] = name
    info.labels[names.LOCAL_QUEUE] = workload["spec"].get("queueName", "")
    cluster_queue = workload["status"]["admission"]["clusterQueue"]
    if not label_faults(cluster_queue):
        info.labels[names.CLUSTER_QUEUE] = cluster_queue
    _add_updates(info, workload["status"].get("admissionChecks") or ())
    return info


def _add_updates(info: PodSetInfo, checks: Iterable[Manifest]) -> None:
    for check in checks:
        update = next((one for one in check.get("podSetUpdates") or () if one["name"] == info.name), None)
        if update is None:
            continue
        try:
            merge(info, _from_update(update))
        except InjectionConflict as conflict:
            raise InjectionConflict(f'in admission check "{check["name"]}": {conflict}') from conflict


def _from_update(update: Manifest) -> PodSetInfo:
    return PodSetInfo(
        name=update["name"],
        count=0,
        labels=update.get("labels") or {},
        annotations=update.get("annotations") or {},
        node_selector=update.get("nodeSelector") or {},
        tolerations=update.get("tolerations") or [],
    )


def _asks_for_topology(request: Mapping[str, Any]) -> bool:
    return any(request.get(name) is not None for name in ("required", "preferred", "unconstrained"))


def _check(held: Mapping[str, str], wanted: Mapping[str, str], what: str) -> None:
    for name, value in held.items():
        other = wanted.get(name, value)
        if other != value:
            raise InjectionConflict(
                f"invalid admission check PodSetUpdate: conflict for {what}:"
                f" conflict for key={name}, value1={value}, value2={other}"
            )


def _tolerate_the_same(one: Manifest, other: Manifest) -> bool:
    return (one.get("operator") or "Equal") == (other.get("operator") or "Equal") and all(
        (one.get(name) or "") == (other.get(name) or "") for name in ("key", "effect", "value")
    )


def _put(metadata: Manifest, spec: Manifest, held: PodSetInfo) -> None:
    for place, name, value in (
        (metadata, "labels", held.labels),
        (metadata, "annotations", held.annotations),
        (spec, "nodeSelector", held.node_selector),
        (spec, "tolerations", held.tolerations),
        (spec, "schedulingGates", held.scheduling_gates),
    ):
        if value:
            place[name] = value
