"""What a pod asks for: its effective request as Kubernetes computes it, and where it agrees to run.

Everything here reads a raw pod spec. A spec that is not one at all raises `ValidationError`; whether its contents make
sense is asked with `validate_pod_spec`, and `requests_exceeding_limits` for what Kueue reports only when it admits.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fairway.apis.core import pod_views as podspecs
from fairway.apis.core.pod_views import Container, PodSpec, ResourceRequirements
from fairway.apis.core.taints import Toleration
from fairway.apis.kueue.workloads import PodTemplate
from fairway.apis.machinery import problems, shapes
from fairway.apis.machinery.quantities import ZERO, Quantity, amount_of
from fairway.errors import FieldError, ValidationError

RESERVED_RESOURCE: Final = "pods"
"""The name under which Kueue itself counts pods against a quota."""

_POD_LEVEL_RESOURCES: Final = frozenset({"cpu", "memory"})
_HUGE_PAGES_PREFIX: Final = "hugepages-"


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
    return _requests(_read(spec))


def pod_shape(template: PodTemplate) -> PodShape:
    """What admission looks at in the pods of this template."""
    pod = _read(template.spec)
    return PodShape(
        requests={name: max(0, amount_of(name, quantity)) for name, quantity in _requests(pod).items()},
        tolerations=pod.tolerations,
        node_selector=pod.node_selector,
        affinity_terms=_affinity_terms(pod),
    )


def validate_pod_spec(spec: object, path: str) -> list[FieldError]:
    """What is wrong with the parts of a pod spec that are read here."""
    pod, errors = shapes.read(spec, PodSpec, path)
    if pod is None:
        return errors
    for name, containers in (("initContainers", pod.init_containers), ("containers", pod.containers)):
        seen: set[str] = set()
        for position, container in enumerate(containers):
            if container.name in seen:
                where = problems.index(problems.child(path, name), position)
                errors.append(problems.duplicate(where, {"name": container.name}))
            seen.add(container.name)
            if not _are_acceptable(container.resources):
                where = problems.index(problems.child(path, name), position)
                errors += _wrong_resources(container.resources, problems.child(where, "resources"))
    if pod.resources is not None:
        errors += _wrong_resources(pod.resources, problems.child(path, "resources"))
    return errors


def requests_exceeding_limits(spec: Mapping[str, Any], path: str = "") -> list[FieldError]:
    """The containers that request more than their own limit; such pods can be queued but never created."""
    pod = _read(spec)
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


def _read(spec: object) -> PodSpec:
    # A template without a spec stands for pods that ask for nothing.
    pod, errors = shapes.read(spec or {"containers": []}, PodSpec)
    if pod is None:
        raise ValidationError("PodSpec", "", errors)
    return pod


def _requests(pod: PodSpec) -> dict[str, Quantity]:
    total: dict[str, Quantity] = {}
    for container in pod.containers:
        _add(total, container.resources.requests_or_limits())
    if pod.init_containers:
        _raise_to(total, _starting(pod.init_containers, total))
    if pod.resources is not None:
        total |= {
            name: quantity
            for name, quantity in pod.resources.requests_or_limits().items()
            if name in _POD_LEVEL_RESOURCES or name.startswith(_HUGE_PAGES_PREFIX)
        }
    _add(total, pod.overhead)
    return total


def _starting(init_containers: tuple[Container, ...], running: dict[str, Quantity]) -> dict[str, Quantity]:
    """The most that is in use at once while the pod starts; adds to `running` the sidecars, which go on running."""
    peak: dict[str, Quantity] = {}
    sidecars: dict[str, Quantity] = {}
    for container in init_containers:
        requests = container.resources.requests_or_limits()
        if container.restart_policy == podspecs.ALWAYS:
            _add(running, requests)
            _add(sidecars, requests)
            _raise_to(peak, sidecars)
        else:
            together = dict(requests)
            _add(together, sidecars)
            _raise_to(peak, together)
    return peak


def _add(total: dict[str, Quantity], more: Mapping[str, Quantity]) -> None:
    for name, quantity in more.items():
        total[name] = total[name] + quantity if name in total else quantity


def _raise_to(total: dict[str, Quantity], least: Mapping[str, Quantity]) -> None:
    for name, quantity in least.items():
        if name not in total or total[name] < quantity:
            total[name] = quantity


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


def _are_acceptable(resources: ResourceRequirements) -> bool:
    """What nearly all are, found out without spelling their paths."""
    return all(
        name != RESERVED_RESOURCE and quantity.nanos >= 0
        for quantities in (resources.requests, resources.limits)
        for name, quantity in quantities.items()
    )


def _wrong_resources(resources: ResourceRequirements, path: str) -> list[FieldError]:
    errors = []
    for part, quantities in (("requests", resources.requests), ("limits", resources.limits)):
        for name, quantity in quantities.items():
            where = problems.key(problems.child(path, part), name)
            if name == RESERVED_RESOURCE:
                errors.append(problems.invalid(where, name, "the key is reserved for internal kueue use"))
            if quantity < ZERO:
                errors.append(problems.invalid(where, str(quantity), "must be greater than or equal to 0"))
    return errors
