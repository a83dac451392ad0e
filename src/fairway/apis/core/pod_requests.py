"""What a pod asks for: its effective request as Kubernetes computes it, and where it agrees to run.

Everything here reads a pod spec that its schema accepted; one that is not a pod spec at all raises `ValidationError`.
Kueue reports `requests_exceeding_limits` only when it admits. The types are a view of the spec: the fields that decide
where a pod may run and how much it takes, and no others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from fairway.apis.core.pod_parts import add_amounts, needed_together
from fairway.apis.core.taints import Toleration
from fairway.apis.kueue.workloads import PodTemplate
from fairway.apis.machinery import problems
from fairway.apis.machinery.quantities import ZERO, Quantity, amount_of
from fairway.apis.machinery.structs import Value, read
from fairway.errors import FieldError

_ALWAYS: Final = "Always"
_POD_LEVEL_RESOURCES: Final = frozenset({"cpu", "memory"})
_HUGE_PAGES_PREFIX: Final = "hugepages-"


class ResourceRequirements(Value, frozen=True, kw_only=True):
    requests: dict[str, Quantity] = msgspec.field(default_factory=dict)
    limits: dict[str, Quantity] = msgspec.field(default_factory=dict)

    def requests_or_limits(self) -> Mapping[str, Quantity]:
        """The requests, and the limit of what is only limited."""
        return {**self.limits, **self.requests} if self.limits else self.requests


class Container(Value, frozen=True, kw_only=True):
    resources: ResourceRequirements = ResourceRequirements()
    restart_policy: str = ""


class NodeSelectorRequirement(Value, frozen=True, kw_only=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Value, frozen=True, kw_only=True):
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Value, frozen=True, kw_only=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class NodeAffinity(Value, frozen=True, kw_only=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None


class Affinity(Value, frozen=True, kw_only=True):
    node_affinity: NodeAffinity | None = None


class PodSpec(Value, frozen=True, kw_only=True):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements | None = None
    overhead: dict[str, Quantity] = msgspec.field(default_factory=dict)
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()


@dataclass(frozen=True, slots=True)
class AffinityTerm:
    """One of several alternatives; all its expressions must hold."""

    expressions: tuple[tuple[str, str, tuple[str, ...]], ...]
    """Label, operator, values: what `selectors.matches_expression` takes."""

    has_match_fields: bool
    """Whether it also names nodes themselves, which no flavor can answer."""


@dataclass(frozen=True, slots=True)
class PodShape:
    """All that admission looks at in a pod."""

    requests: dict[str, int]
    """What one pod takes, in the units of `quantities.amount_of`, never negative."""

    tolerations: tuple[Toleration, ...]
    node_selector: dict[str, str]
    affinity_terms: tuple[AffinityTerm, ...]
    """The required node affinity; empty if there is none."""


def pod_requests(spec: Mapping[str, Any]) -> dict[str, Quantity]:
    """The resources that the pod takes from start to end, its overhead included."""
    return _requests(read(spec, PodSpec))


def pod_shape(template: PodTemplate) -> PodShape:
    """What admission looks at in the pods of this template."""
    pod = read(template.spec, PodSpec)
    return PodShape(
        requests={name: max(0, amount_of(name, quantity)) for name, quantity in _requests(pod).items()},
        tolerations=pod.tolerations,
        node_selector=pod.node_selector,
        affinity_terms=_affinity_terms(pod),
    )


def requests_exceeding_limits(spec: Mapping[str, Any], path: str = "") -> list[FieldError]:
    """The containers that request more than their own limit; such pods can be queued but never created."""
    pod = read(spec, PodSpec)
    parts: list[tuple[str, ResourceRequirements]] = []
    for name, containers in (("initContainers", pod.init_containers), ("containers", pod.containers)):
        parts += [
            (problems.index(problems.child(path, name), position), container.resources)
            for position, container in enumerate(containers)
        ]
    if pod.resources is not None:
        parts.append((problems.child(path, "resources"), pod.resources))
    errors = []
    for where, resources in parts:
        exceeding = sorted(
            name
            for name, limit in resources.limits.items()
            if amount_of(name, resources.requests.get(name, ZERO)) > amount_of(name, limit)
        )
        if exceeding:
            errors.append(problems.invalid(where, exceeding, "requests must not exceed its limits"))
    return errors


def _requests(pod: PodSpec) -> dict[str, Quantity]:
    total = needed_together(
        (one.resources.requests_or_limits() for one in pod.containers),
        ((one.resources.requests_or_limits(), one.restart_policy == _ALWAYS) for one in pod.init_containers),
    )
    if pod.resources is not None:
        total |= {
            name: quantity
            for name, quantity in pod.resources.requests_or_limits().items()
            if name in _POD_LEVEL_RESOURCES or name.startswith(_HUGE_PAGES_PREFIX)
        }
    add_amounts(total, pod.overhead)
    return total


def _affinity_terms(pod: PodSpec) -> tuple[AffinityTerm, ...]:
    node_affinity = pod.affinity.node_affinity if pod.affinity else None
    required = node_affinity.required_during_scheduling_ignored_during_execution if node_affinity else None
    if required is None:
        return ()
    return tuple(
        AffinityTerm(
            expressions=tuple((one.key, one.operator, one.values) for one in term.match_expressions),
            has_match_fields=bool(term.match_fields),
        )
        for term in required.node_selector_terms
    )
