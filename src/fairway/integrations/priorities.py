"""The priority of a workload, from its priority class.

A class of the queue (`WorkloadPriorityClass`, by label) comes first, then the class that the job or its pods name, then
the default class of the cluster, then zero.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from fairway.apis.machinery.kind import Manifest
from fairway.errors import FairwayError
from fairway.integrations import names

SYSTEM_CLASSES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""The classes that every cluster has, whether or not there is an object for them."""


class MissingPriorityClass(FairwayError):
    """A class is named that does not exist: no workload until it does."""

    def __init__(self, resource: str, name: str) -> None:
        self.resource = resource
        self.name = name
        super().__init__(f'{resource} "{name}" not found')


class Priority(NamedTuple):
    value: int
    class_ref: dict[str, str] | None
    """`{group, kind, name}` of the class that said so, as `spec.priorityClassRef` has it."""


class Classes(Protocol):
    """The classes of one sort, such as the cache of their kind."""

    def get(self, namespace: str, name: str) -> Manifest | None: ...

    def items(self) -> Iterable[Manifest]: ...


def resolve(
    labels: Mapping[str, str],
    templates: Iterable[Mapping[str, Any]],
    workload_classes: Classes,
    priority_classes: Classes,
    *,
    own_class: str | None = None,
) -> Priority:
    """The priority of a job with these labels and pod templates; `own_class` is the class that a job kind with a field
    for it names, `None` for kinds without.
    """
    chosen = labels.get(names.PRIORITY_CLASS, "")
    if chosen:
        found = workload_classes.get("", chosen)
        if found is None:
            raise MissingPriorityClass("workloadpriorityclasses.kueue.x-k8s.io", chosen)
        return Priority(found["value"], _reference("kueue.x-k8s.io", "WorkloadPriorityClass", chosen))
    name = _named_by(templates) if own_class is None else own_class
    if not name:
        return _default(priority_classes)
    value = value_of(name, priority_classes)
    if value is None:
        raise MissingPriorityClass("priorityclasses.scheduling.k8s.io", name)
    return Priority(value, _reference("scheduling.k8s.io", "PriorityClass", name))


def value_of(name: str, priority_classes: Classes) -> int | None:
    """The value of a PriorityClass, `None` if there is no such class."""
    found = priority_classes.get("", name)
    if found is None:
        return SYSTEM_CLASSES.get(name)
    value: int = found["value"]
    return value


def default_class(priority_classes: Classes) -> Manifest | None:
    """The class of pods that name none; the lowest where several claim it."""
    return min(
        (one for one in priority_classes.items() if one.get("globalDefault")),
        key=lambda one: int(one["value"]),
        default=None,
    )


def _default(priority_classes: Classes) -> Priority:
    found = default_class(priority_classes)
    if found is None:
        return Priority(0, None)
    return Priority(found["value"], _reference("scheduling.k8s.io", "PriorityClass", found["metadata"]["name"]))


def _named_by(templates: Iterable[Mapping[str, Any]]) -> str:
    for template in templates:
        name: str = (template.get("spec") or {}).get("priorityClassName") or ""
        if name:
            return name
    return ""


def _reference(group: str, kind: str, name: str) -> dict[str, str]:
    return {"group": group, "kind": kind, "name": name}
