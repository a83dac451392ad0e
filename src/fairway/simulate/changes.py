"""Changes of a scenario: quota, priorities, nodes, policies, jobs. A wrong one is an error that names its field."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from fairway.apis.kueue.configuration import FairSharingPolicy
from fairway.apis.kueue.manifests import encode, load
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import Quantity
from fairway.errors import FieldError, ValidationError
from fairway.simulate.jobs import NAMESPACE, TraceJob
from fairway.simulate.scenario import KINDS, PresentWorkload, Scenario
from fairway.simulate.traces import namespace_object

_MOST_JOBS: Final = 10_000
_MOST_NODES: Final = 1_000
_POLICIES: Final = {
    "within_cluster_queue": ("preemption", "withinClusterQueue"),
    "reclaim_within_cohort": ("preemption", "reclaimWithinCohort"),
    "borrow_within_cohort": ("preemption", "borrowWithinCohort", "policy"),
    "queueing_strategy": ("queueingStrategy",),
    "stop_policy": ("stopPolicy",),
    "fair_sharing_weight": ("fairSharing", "weight"),
    "cohort": ("cohortName",),
}


class _Strict(Struct, rename="camel", forbid_unknown_fields=True, kw_only=True):
    """Fields as in the API; others are refused."""


class QuotaChange(_Strict):
    """Another quota of a ClusterQueue: an amount, or one to add (`+4`) or take away (`-2`)."""

    cluster_queue: str
    resource: str
    nominal: str | int | float | UnsetType = UNSET
    flavor: str = ""
    borrowing_limit: str | int | float | UnsetType | None = UNSET
    lending_limit: str | int | float | UnsetType | None = UNSET


class PriorityChange(_Strict):
    """Another priority of a job."""

    name: str
    priority: int
    namespace: str = NAMESPACE


class NodeChange(_Strict):
    """Nodes more, and their resources as quota more."""

    resources: dict[str, str | int | float]
    count: int = 1
    cluster_queue: str = ""
    flavor: str = ""
    labels: dict[str, str] = {}


class NewJob(_Strict):
    """Jobs that are submitted."""

    requests: dict[str, str | int | float]
    name: str = "new"
    namespace: str = NAMESPACE
    queue: str = "default"
    pods: int = 1
    count: int = 1
    priority: int = 0
    duration_seconds: float = 3600.0
    after_seconds: float = 0.0
    user: str = ""


class CancelledJob(_Strict):
    """A job that is cancelled."""

    name: str
    namespace: str = NAMESPACE


class PolicyChange(_Strict):
    """Another policy: of a ClusterQueue, or fair sharing of the whole server."""

    cluster_queue: str = ""
    within_cluster_queue: str = ""
    reclaim_within_cohort: str = ""
    borrow_within_cohort: str = ""
    queueing_strategy: str = ""
    stop_policy: str = ""
    fair_sharing_weight: str | int | float = ""
    cohort: str = ""
    fair_sharing: bool | None = None


class ScenarioChange(_Strict):
    """One change: exactly one field is set."""

    quota: QuotaChange | None = None
    priority: PriorityChange | None = None
    node: NodeChange | None = None
    job: NewJob | None = None
    cancel: CancelledJob | None = None
    policy: PolicyChange | None = None
    apply: dict[str, Any] | None = None


def read_changes(raw: Any) -> list[ScenarioChange]:
    """The changes of a request."""
    changes = []
    for number, each in enumerate(raw or ()):
        path = f"spec.changes[{number}]"
        try:
            change = msgspec.convert(each, ScenarioChange)
        except msgspec.ValidationError as problem:
            raise _invalid(path, each, str(problem)) from None
        given = [name for name in ScenarioChange.__struct_fields__ if getattr(change, name) is not None]
        if len(given) != 1:
            raise _invalid(path, given, f"exactly one of {', '.join(ScenarioChange.__struct_fields__)} is expected")
        changes.append(change)
    return changes


def changed(scenario: Scenario, changes: list[ScenarioChange]) -> Scenario:
    """The scenario with all changes; the given one stays as it is."""
    new = scenario.copy()
    for number, change in enumerate(changes):
        for kind, apply in _CHANGES.items():
            part = getattr(change, kind)
            if part is not None:
                apply(new, part, f"spec.changes[{number}].{kind}")
    return new


def _invalid(path: str, value: object, message: str) -> ValidationError:
    return ValidationError("Simulation", "", [FieldError(path, value, "FieldValueInvalid", message)])


def _found(scenario: Scenario, kind: str, name: str, path: str, namespace: str = "") -> Manifest:
    found = scenario.objects.get((kind, namespace, name))
    if found is None:
        known = sorted(of for key, where, of in scenario.objects if (key, where) == (kind, namespace))
        there = f"there are {', '.join(known[:10])}" if known else "there is none"
        raise _invalid(path, name, f"there is no {kind} of this name; {there}")
    return found


def _quantity(value: str | float, path: str) -> Quantity:
    try:
        return Quantity.parse(str(value).removeprefix("+") if isinstance(value, str) else value)
    except ValueError as problem:
        raise _invalid(path, value, str(problem)) from None


def _stored(manifest: Manifest, path: str) -> Manifest:
    """An object as it would be stored, checked by the rules of its kind."""
    status = manifest.get("status")
    try:
        stored = encode(load({name: part for name, part in manifest.items() if name != "status"}))
    except ValidationError as problem:
        raise _invalid(path, manifest.get("kind"), "; ".join(map(str, problem.errors))) from None
    return stored if status is None else {**stored, "status": status}


def _plain(manifest: Manifest) -> Manifest:
    """A copy without what only stored objects have."""
    metadata = manifest["metadata"]
    kept = {name: metadata[name] for name in ("name", "namespace", "labels") if name in metadata}
    return {**copy.deepcopy({"spec": manifest.get("spec") or {}}), "apiVersion": manifest["apiVersion"],
            "kind": manifest["kind"], "metadata": kept}  # fmt: skip


# Each kind of change


def _set_quota(scenario: Scenario, change: QuotaChange, path: str) -> None:
    queue = _plain(_found(scenario, "ClusterQueue", change.cluster_queue, f"{path}.clusterQueue"))
    quota = _quota_of(queue, change.flavor, change.resource, path)
    if not isinstance(change.nominal, UnsetType):
        quota["nominalQuota"] = str(_changed_amount(quota.get("nominalQuota", 0), change.nominal, f"{path}.nominal"))
    for field, value in (("borrowingLimit", change.borrowing_limit), ("lendingLimit", change.lending_limit)):
        if value is None:
            quota.pop(field, None)
        elif not isinstance(value, UnsetType):
            quota[field] = str(_quantity(value, f"{path}.{field}"))
    scenario.put(_stored(queue, path))


def _changed_amount(now: Any, wanted: str | float, path: str) -> Quantity:
    amount = _quantity(wanted, path)
    if isinstance(wanted, str) and wanted[:1] in {"+", "-"}:
        amount = Quantity.parse(now) + amount
    if amount.nanos < 0:
        raise _invalid(path, wanted, f"leaves less than nothing: the quota is {now}")
    return amount


def _quota_of(queue: Manifest, flavor: str, resource: str, path: str) -> dict[str, Any]:
    """The entry of a flavor and resource, to be changed in place."""
    flavors = [one for group in queue["spec"].get("resourceGroups") or () for one in group["flavors"]]
    having = [
        (one["name"], entry)
        for one in flavors
        for entry in one["resources"]
        if entry["name"] == resource and flavor in {"", one["name"]}
    ]
    if not having:
        known = sorted({f"{one['name']}/{entry['name']}" for one in flavors for entry in one["resources"]})
        raise _invalid(f"{path}.resource", resource, f"the ClusterQueue has quota of {', '.join(known) or 'nothing'}")
    if len(having) > 1:
        names = ", ".join(name for name, _ in having)
        raise _invalid(f"{path}.flavor", flavor, f"several flavors have it: {names}; name one")
    entry: dict[str, Any] = having[0][1]
    return entry


def _set_priority(scenario: Scenario, change: PriorityChange, path: str) -> None:
    place, workload = _workload(scenario, change.namespace, change.name, f"{path}.name")
    spec = {**workload.manifest["spec"], "priority": change.priority}
    manifest = {**workload.manifest, "spec": spec}
    scenario.workloads[place] = msgspec.structs.replace(workload, manifest=manifest)


def _cancel(scenario: Scenario, change: CancelledJob, path: str) -> None:
    place, _ = _workload(scenario, change.namespace, change.name, f"{path}.name")
    del scenario.workloads[place]


def _workload(scenario: Scenario, namespace: str, name: str, path: str) -> tuple[int, PresentWorkload]:
    for place, workload in enumerate(scenario.workloads):
        metadata = workload.manifest["metadata"]
        called = {metadata["name"], (workload.owner or {}).get("name")}
        if metadata["namespace"] == namespace and name in called:
            return place, workload
    raise _invalid(path, name, f"no job of this name waits or runs in namespace {namespace}")


def _add_nodes(scenario: Scenario, change: NodeChange, path: str) -> None:
    if not 1 <= change.count <= _MOST_NODES:
        raise _invalid(f"{path}.count", change.count, f"from 1 to {_MOST_NODES}")
    queues = (
        [change.cluster_queue]
        if change.cluster_queue
        else [one["metadata"]["name"] for one in scenario.of_kind("ClusterQueue")]
    )
    if len(queues) != 1:
        raise _invalid(
            f"{path}.clusterQueue", "", f"name the one that gets the quota: {', '.join(sorted(queues)[:10])}"
        )
    amounts = {name: _quantity(value, f"{path}.resources[{name}]") for name, value in change.resources.items()}
    queue = _plain(_found(scenario, "ClusterQueue", queues[0], f"{path}.clusterQueue"))
    for name, amount in amounts.items():
        quota = _quota_of(queue, change.flavor, name, path)
        quota["nominalQuota"] = str(Quantity.parse(quota["nominalQuota"]) + amount * change.count)
    scenario.put(_stored(queue, path))
    for number in range(change.count):
        scenario.put(_node(f"simulated-{len(scenario.objects)}-{number}", amounts, change.labels))


def _node(name: str, amounts: dict[str, Quantity], labels: dict[str, str]) -> Manifest:
    resources = {resource: str(amount) for resource, amount in amounts.items()} | {"pods": "1000"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "spec": {},
        "status": {"allocatable": resources, "capacity": resources},
    }


def _add_jobs(scenario: Scenario, change: NewJob, path: str) -> None:
    if not 1 <= change.count <= _MOST_JOBS:
        raise _invalid(f"{path}.count", change.count, f"from 1 to {_MOST_JOBS}")
    if change.pods < 1:
        raise _invalid(f"{path}.pods", change.pods, "at least 1")
    if change.duration_seconds < 0 or change.after_seconds < 0:
        raise _invalid(f"{path}.durationSeconds", change.duration_seconds, "times are not negative")
    _found(scenario, "LocalQueue", change.queue, f"{path}.queue", change.namespace)
    requests = tuple(
        (name, str(_quantity(value, f"{path}.requests[{name}]"))) for name, value in change.requests.items()
    )
    taken = {job.key for job in scenario.jobs}
    taken |= {
        f"{one.manifest['metadata']['namespace']}/{one.manifest['metadata']['name']}" for one in scenario.workloads
    }
    names = _free_names(change.name, change.namespace, taken)
    scenario.jobs += [
        TraceJob(
            name=next(names),
            namespace=change.namespace,
            queue=change.queue,
            user=change.user,
            priority=change.priority,
            submitted=scenario.at + change.after_seconds,
            seconds=change.duration_seconds,
            requests=requests,
            pods=change.pods,
        )
        for _ in range(change.count)
    ]


def _free_names(name: str, namespace: str, taken: set[str]) -> Iterator[str]:
    number = 0
    while True:
        candidate = f"{name}-{number}" if number else name
        number += 1
        if f"{namespace}/{candidate}" not in taken:
            taken.add(f"{namespace}/{candidate}")
            yield candidate


def _set_policy(scenario: Scenario, change: PolicyChange, path: str) -> None:
    if change.fair_sharing is not None:
        policy = FairSharingPolicy() if change.fair_sharing else None
        scenario.config = msgspec.structs.replace(scenario.config, fair_sharing=policy)
    values = {field: getattr(change, field) for field in _POLICIES if getattr(change, field) != ""}
    if not values:
        if change.fair_sharing is None:
            raise _invalid(path, "", "it changes nothing; set a policy, or fairSharing")
        return
    queue = _plain(_found(scenario, "ClusterQueue", change.cluster_queue, f"{path}.clusterQueue"))
    for field, value in values.items():
        *parents, last = _POLICIES[field]
        part = queue["spec"]
        for parent in parents:
            part = part.setdefault(parent, {})
        part[last] = str(value)
    scenario.put(_stored(queue, path))


def _apply(scenario: Scenario, manifest: Manifest, path: str) -> None:
    kind = manifest.get("kind")
    if kind not in KINDS:
        raise _invalid(f"{path}.kind", kind, f"one of {', '.join(KINDS)}")
    metadata = manifest.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name"):
        raise _invalid(f"{path}.metadata.name", None, "an object has a name")
    if kind == "Node":
        scenario.put(manifest)
        return
    if kind == "Namespace":
        labels = metadata.get("labels") or {}
        scenario.put(namespace_object(metadata["name"]) | {"metadata": {"name": metadata["name"], "labels": labels}})
        return
    scenario.put(_stored(manifest, path))


_CHANGES: Final[dict[str, Callable[[Scenario, Any, str], None]]] = {
    "quota": _set_quota,
    "priority": _set_priority,
    "node": _add_nodes,
    "job": _add_jobs,
    "cancel": _cancel,
    "policy": _set_policy,
    "apply": _apply,
}
