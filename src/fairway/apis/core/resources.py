"""Requests and limits of containers and pods: canonical form, defaults, rules, and the class of service they make."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from fairway.apis.core.pod_parts import containers_of, is_sidecar, needed_together
from fairway.apis.machinery import names, problems
from fairway.apis.machinery.quantities import ZERO, Format, Quantity
from fairway.errors import FieldError

_MILLI: Final = 10**6
"""Nano-units in the finest amount that a resource list keeps."""

_SERVED: Final = ("cpu", "memory")
_CONTAINER_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_HUGE_PAGES: Final = "hugepages-"
_POD_RESOURCES: Final = frozenset({"cpu", "memory"})


@lru_cache(maxsize=16384)
def canonical_text(quantity: str | int | float) -> str:  # noqa: PYI041  what a manifest may hold, spelt out
    """The quantity as an API server gives it back from a resource list; what cannot be read stays as it is."""
    try:
        parsed = Quantity.parse(quantity)
    except ValueError:
        return str(quantity)
    rest = parsed.nanos % _MILLI
    return str(Quantity(parsed.nanos + _MILLI - rest, Format.DECIMAL_SI) if rest else parsed)


def canonical(lists: dict[str, Any]) -> None:
    """Write every quantity of these resource lists (`limits`, `requests`, `capacity` …) in canonical form, in place."""
    for name, amounts in lists.items():
        if amounts and name != "claims":
            for resource, quantity in amounts.items():
                amounts[resource] = canonical_text(quantity)


def requests_from_limits(container: dict[str, Any]) -> None:
    """Who limits a resource and does not say how much it needs needs that much."""
    resources = container.get("resources")
    limits = resources.get("limits") if resources else None
    if resources is None or not limits:
        return
    requests = resources.get("requests")
    if requests is None:
        resources["requests"] = dict(limits)
        return
    for resource, quantity in limits.items():
        requests.setdefault(resource, quantity)


def defaulted_pod_resources(spec: dict[str, Any]) -> None:
    """The requests of a pod that limits itself as a whole: those of its containers, else its limits."""
    resources = spec["resources"]
    limits = resources.get("limits")
    if not limits:
        return
    requests = resources.get("requests") or {}
    for resource, total in _container_requests(spec).items():
        if resource in _POD_RESOURCES:
            requests.setdefault(resource, str(total))
    for resource, quantity in limits.items():
        if resource in _POD_RESOURCES or resource.startswith(_HUGE_PAGES):
            requests.setdefault(resource, quantity)
    if requests:
        resources["requests"] = requests


def qos_class(spec: Mapping[str, Any]) -> str:
    """`Guaranteed` if all cpu and memory is limited to what is requested, `BestEffort` if nothing is asked for."""
    asked: dict[str, Quantity] = {}
    limited: dict[str, Quantity] = {}
    guaranteed = True
    whole = spec.get("resources")
    for resources in [whole] if whole else (one.get("resources") or {} for one in containers_of(spec)):
        found = 0
        for name in _SERVED:
            request, limit = _amount(resources, "requests", name), _amount(resources, "limits", name)
            if request > ZERO:
                asked[name] = asked.get(name, ZERO) + request
            if limit > ZERO:
                found += 1
                limited[name] = limited.get(name, ZERO) + limit
        guaranteed = guaranteed and found == len(_SERVED)
    if not asked and not limited:
        return "BestEffort"
    return "Guaranteed" if guaranteed and asked == limited else "Burstable"


def wrong_resources(
    resources: Mapping[str, Any] | None, path: str, claims: frozenset[str], *, whole_pod: bool = False
) -> list[FieldError]:
    """What is wrong with the requests and limits of a container, or of a pod as a whole."""
    if not resources:
        return []
    errors: list[FieldError] = []
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for field, amounts in (("limits", limits), ("requests", requests)):
        for resource, quantity in amounts.items():
            errors += _wrong_amount(resource, quantity, f"{path}.{field}[{resource}]", whole_pod=whole_pod)
    for resource, quantity in requests.items():
        errors += _wrong_request(resource, quantity, limits.get(resource), path)
    named = limits.keys() | requests.keys()
    if any(resource.startswith(_HUGE_PAGES) for resource in named) and named.isdisjoint(_SERVED):
        errors.append(problems.forbidden(path, None, "HugePages require cpu or memory"))
    if resources.get("claims"):
        errors += _wrong_claims(resources["claims"], f"{path}.claims", claims)
    return errors


def wrong_quantity(resource: str, quantity: object, path: str) -> list[FieldError]:
    """What is wrong with one amount of a resource: unreadable, negative, or a fraction of what cannot be divided."""
    parsed, errors = _read(quantity, path)
    if parsed is None:
        return errors
    if parsed < ZERO:
        return [problems.invalid(path, quantity, "must be greater than or equal to 0")]
    if is_extended(resource) and parsed.milli() % 1000:
        return [problems.invalid(path, quantity, "must be an integer")]
    return []


def is_extended(resource: str) -> bool:
    """A resource of some vendor, such as `nvidia.com/gpu`: counted in whole ones and never overcommitted."""
    return "/" in resource and "kubernetes.io/" not in resource and not resource.startswith("requests.")


def _overcommitted(resource: str) -> bool:
    return not is_extended(resource) and not resource.startswith(_HUGE_PAGES)


def _read(quantity: object, path: str) -> tuple[Quantity | None, list[FieldError]]:
    try:
        return Quantity.parse(quantity), []  # type: ignore[arg-type]  # it says itself what it does not take
    except ValueError as fault:
        return None, [problems.invalid(path, quantity, str(fault))]


def _wrong_amount(resource: str, quantity: object, path: str, *, whole_pod: bool) -> list[FieldError]:
    errors = wrong_resource_name(resource, path, whole_pod=whole_pod)
    errors += wrong_quantity(resource, quantity, path)
    if resource.startswith(_HUGE_PAGES) and not _whole_pages(resource, quantity):
        errors.append(problems.invalid(path, quantity, f"{quantity} is not positive integer multiple of {resource}"))
    return errors


def wrong_resource_name(resource: str, path: str, *, whole_pod: bool = False) -> list[FieldError]:
    """What is wrong with the name of a resource that a container, or a whole pod, asks for."""
    errors = [problems.invalid(path, resource, fault) for fault in names.key_faults(resource)]
    if errors:
        return errors
    standard = resource in _CONTAINER_RESOURCES or resource.startswith(_HUGE_PAGES)
    if whole_pod:
        if resource in _POD_RESOURCES or resource.startswith(_HUGE_PAGES):
            return []
        if standard or "/" in resource:
            return [problems.not_supported(path, resource, sorted(_POD_RESOURCES))]
    if standard:
        return []
    if "/" not in resource:
        return [problems.invalid(path, resource, "must be a standard resource type or fully qualified")]
    if "kubernetes.io/" not in resource and not is_extended(resource):
        return [problems.invalid(path, resource, "doesn't follow extended resource name standard")]
    return []


def _wrong_request(resource: str, request: object, limit: object, path: str) -> list[FieldError]:
    overcommitted = _overcommitted(resource)
    if limit is None:
        if overcommitted:
            return []
        return [problems.required(f"{path}.limits", "Limit must be set for non overcommitable resources")]
    asked, _ = _read(request, path)
    most, _ = _read(limit, path)
    if asked is None or most is None:
        return []
    if asked != most and not overcommitted:
        return [problems.invalid(f"{path}.requests", request, f"must be equal to {resource} limit of {limit}")]
    if asked > most:
        rule = f"must be less than or equal to {resource} limit of {limit}"
        return [problems.invalid(f"{path}.requests", request, rule)]
    return []


def _whole_pages(resource: str, quantity: object) -> bool:
    size, _ = _read(resource.removeprefix(_HUGE_PAGES), "")
    amount, _ = _read(quantity, "")
    if size is None or amount is None or size <= ZERO:
        return False
    return amount > ZERO and amount.nanos % size.nanos == 0


def _wrong_claims(claims: list[dict[str, Any]], path: str, known: frozenset[str]) -> list[FieldError]:
    errors = []
    seen = set()
    for position, claim in enumerate(claims):
        where = problems.index(path, position)
        name, request = claim.get("name") or "", claim.get("request") or ""
        if not name:
            errors.append(problems.required(where))
            continue
        if (name, request) in seen or (name, "") in seen:
            errors.append(problems.duplicate(where, name))
        seen.add((name, request))
        if request:
            errors += [problems.invalid(f"{where}.request", request, fault) for fault in names.label_faults(request)]
        if name not in known:
            errors.append(problems.not_found(where, name))
    return errors


def _container_requests(spec: Mapping[str, Any]) -> dict[str, Quantity]:
    """What the containers need together."""
    return needed_together(
        map(_requests, spec.get("containers") or ()),
        ((_requests(one), is_sidecar(one)) for one in spec.get("initContainers") or ()),
    )


def _requests(container: Mapping[str, Any]) -> dict[str, Quantity]:
    resources = container.get("resources") or {}
    return {resource: _amount(resources, "requests", resource) for resource in resources.get("requests") or ()}


def _amount(resources: Mapping[str, Any], field: str, resource: str) -> Quantity:
    quantity = (resources.get(field) or {}).get(resource)
    if quantity is None:
        return ZERO
    parsed, _ = _read(quantity, "")
    return ZERO if parsed is None else parsed
