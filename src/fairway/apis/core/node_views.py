"""What counts of a Node: its labels, its taints, and what it has to give."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fairway.apis.core.accelerators import GPU, LABEL, MODELS
from fairway.apis.core.taints import Taint, TaintEffect
from fairway.apis.machinery.conditions import find_in
from fairway.apis.machinery.quantities import Quantity, amount_of

DEFAULT_SCHEDULER: Final = "default-scheduler"
"""The scheduler of pods that name none."""

_KEEPING_AWAY: Final = frozenset({TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE})
_NOT_READY: Final = Taint(key="node.kubernetes.io/not-ready", effect=TaintEffect.NO_SCHEDULE)
_UNREACHABLE: Final = Taint(key="node.kubernetes.io/unreachable", effect=TaintEffect.NO_SCHEDULE)


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A node as placement sees it. Amounts are those of `quantities.amount_of`."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    """Those of its spec that keep pods away."""

    unschedulable: bool
    allocatable: Mapping[str, int]
    condition: tuple[Taint, ...] = ()
    """Taints that it has while it is not ready; they pass."""

    models: Mapping[str, int] = field(default_factory=dict)
    """How many GPUs of each model it has, if there are several models."""

    def views(self) -> tuple["NodeFacts", ...]:
        """The node as a pod sees it that gets GPUs of one model: one for each of several models, else itself."""
        return tuple(
            replace(self, labels={**self.labels, LABEL: model}, allocatable={**self.allocatable, GPU: count}, models={})
            for model, count in self.models.items()
        ) or (self,)


def facts_of(node: Mapping[str, Any]) -> NodeFacts:
    """What counts of this Node."""
    metadata, spec, status = node["metadata"], node.get("spec") or {}, node.get("status") or {}
    ready = (find_in(status, "Ready") or {}).get("status")
    condition = () if ready == "True" else (_UNREACHABLE if ready == "Unknown" else _NOT_READY,)
    return NodeFacts(
        name=metadata["name"],
        labels=metadata.get("labels") or {},
        taints=tuple(
            Taint(key=taint["key"], value=taint.get("value") or "", effect=taint["effect"])
            for taint in spec.get("taints") or ()
            if taint.get("effect") in _KEEPING_AWAY
        ),
        unschedulable=bool(spec.get("unschedulable")),
        allocatable={
            resource: amount_of(resource, Quantity.parse(quantity))
            for resource, quantity in (status.get("allocatable") or {}).items()
        },
        condition=condition,
        models={
            key.removeprefix(MODELS): int(value)
            for key, value in (metadata.get("labels") or {}).items()
            if key.startswith(MODELS) and value.isdecimal()
        },
    )
