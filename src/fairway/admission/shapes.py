"""A pod template, compiled to its admission-relevant fields.

Templates repeat (a thousand jobs, one shape), so the compiled shapes used last are kept by the template's content.
``Shape.key`` is the same for shapes that Kueue treats as equivalent: same requests and ports of every container, same
selectors, affinity and tolerations.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from hashlib import blake2b
from typing import Any, Final

import msgspec

from fairway.admission.config import Resources
from fairway.admission.resources import in_order
from fairway.apis.core.node_views import DEFAULT_SCHEDULER
from fairway.apis.core.pod_requests import AffinityTerm, pod_requests, pod_shape, requests_exceeding_limits
from fairway.apis.kueue.objects import PodTemplate, Toleration
from fairway.apis.machinery.quantities import Quantity, amount_of
from fairway.errors import FieldError

MOST_KEPT: Final = 4096
"""Of compiled shapes and demands: those in use stay with their workloads, and another one is compiled again."""

_EQUIVALENCE_FIELDS = (
    "nodeSelector",
    "affinity",
    "tolerations",
    "runtimeClassName",
    "priority",
    "topologySpreadConstraints",
    "overhead",
    "resourceClaims",
)


class Shape:
    """One kind of pod. ``requests`` is per pod, as quota counts it and in the order resources are tried; ``asks`` is
    what a node must have for it.
    """

    __slots__ = (
        "affinity",
        "asks",
        "key",
        "node_selector",
        "requests",
        "scheduler",
        "tolerations",
        "violations",
    )

    def __init__(
        self,
        *,
        key: bytes,
        requests: tuple[tuple[str, int], ...],
        asks: Mapping[str, int],
        scheduler: str,
        tolerations: tuple[Toleration, ...],
        node_selector: Mapping[str, str],
        affinity: tuple[AffinityTerm, ...],
        violations: tuple[FieldError, ...],
    ) -> None:
        self.key = key
        self.requests = requests
        self.asks = asks
        self.scheduler = scheduler
        self.tolerations = tolerations
        self.node_selector = node_selector
        self.affinity = affinity
        self.violations = violations

    def replace(self, *, node_selector: Mapping[str, str], tolerations: tuple[Toleration, ...]) -> Shape:
        """The same pods, for fewer nodes or more."""
        return Shape(
            key=self.key,
            requests=self.requests,
            asks=self.asks,
            scheduler=self.scheduler,
            tolerations=tolerations,
            node_selector=node_selector,
            affinity=self.affinity,
            violations=self.violations,
        )


class Shapes:
    """Compiles templates; remembers the last ones."""

    __slots__ = ("_by_content", "_resources")

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._by_content: dict[bytes, Shape] = {}

    def of(self, template: PodTemplate) -> Shape:
        content = msgspec.json.encode(template.spec)
        shape = self._by_content.get(content)
        if shape is None:
            if len(self._by_content) >= MOST_KEPT:
                del self._by_content[next(iter(self._by_content))]
            shape = self._by_content[content] = self._compile(template)
        return shape

    def _compile(self, template: PodTemplate) -> Shape:
        seen = pod_shape(template)
        requests = {
            resource: max(0, amount_of(resource, quantity))
            for resource, quantity in counted_requests(pod_requests(template.spec), self._resources).items()
        }
        equivalence = msgspec.json.encode(_equivalence(template.spec), order="deterministic")
        return Shape(
            key=blake2b(equivalence, digest_size=16).digest(),
            requests=in_order(requests),
            asks=seen.requests,
            scheduler=template.spec.get("schedulerName") or DEFAULT_SCHEDULER,
            tolerations=seen.tolerations,
            node_selector=seen.node_selector,
            affinity=seen.affinity_terms,
            violations=tuple(requests_exceeding_limits(template.spec)),
        )


def _equivalence(spec: Mapping[str, Any]) -> dict[str, Any]:
    shape: dict[str, Any] = {field: spec.get(field) for field in _EQUIVALENCE_FIELDS}
    for containers in ("initContainers", "containers"):
        shape[containers] = [
            ((container.get("resources") or {}).get("requests"), container.get("ports"))
            for container in spec.get(containers) or ()
        ]
    if spec.get("resources") is not None:
        shape["resources"] = spec["resources"].get("requests")
    return shape


def counted_requests(requests: Mapping[str, Quantity], resources: Resources) -> dict[str, Quantity]:
    """A pod's request as quota counts it: excluded resources left out, transformed ones counted as their outputs."""
    kept = {name: amount for name, amount in requests.items() if not name.startswith(resources.excluded_prefixes)}
    if not any(name in resources.transformations for name in kept):
        return kept
    retained: dict[str, Quantity] = {}
    generated: dict[str, Quantity] = {}
    for name, amount in kept.items():
        transformation = resources.transformations.get(name)
        if transformation is None:
            retained[name] = amount
            continue
        base = amount
        if transformation.multiply_by in kept:
            base = _product(amount, kept[transformation.multiply_by])
        for output, factor in transformation.outputs.items():
            made = _product(base, factor)
            generated[output] = generated[output] + made if output in generated else made
        if not transformation.replace:
            retained[name] = amount
    for name, amount in generated.items():
        positive = max(amount, Quantity.parse(0))
        retained[name] = retained[name] + positive if name in retained else positive
    return retained


def _product(a: Quantity, b: Quantity) -> Quantity:
    exact = Fraction(a.nanos * b.nanos, 10**9)
    rounded = -((-exact.numerator) // exact.denominator) if exact > 0 else exact.numerator // exact.denominator
    return Quantity(rounded, a.format)
