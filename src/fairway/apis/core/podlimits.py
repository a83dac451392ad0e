"""What LimitRanges and RuntimeClasses make of a pod.

Two readers with different rules: an API server, which completes and refuses pods when they are created
(`complete_pod`, `breaches`), and Kueue, which completes a copy of a pod set's template to count it, and does not
admit what no LimitRange would let through (`completed`, `outside_limits`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from fairway.apis.core.pod_parts import is_sidecar, needed_together
from fairway.apis.core.pod_requests import pod_requests
from fairway.apis.machinery import problems
from fairway.apis.machinery.quantities import Quantity, amount_of
from fairway.errors import FieldError

Part = dict[str, Any]
Quantities = Mapping[str, Quantity]

ANNOTATION: Final = "kubernetes.io/limit-ranger"
_ABOVE: Final = "requests must not be above the limitRange max"
_BELOW: Final = "requests must not be below the limitRange min"
_POD_LEVEL: Final = ("cpu", "memory")
_HUGE_PAGES: Final = "hugepages-"


class LimitBounds(NamedTuple):
    """What all LimitRanges of a namespace together say of containers, or of whole pods."""

    most: Quantities
    least: Quantities
    limits: Mapping[str, Any]
    """Defaults, as they are written."""

    requests: Mapping[str, Any]


class NamespaceLimits(NamedTuple):
    containers: LimitBounds | None
    pods: LimitBounds | None


def summarized(ranges: Iterable[Sequence[Part]]) -> NamespaceLimits:
    """The `spec.limits` of several LimitRanges as one: the tightest bounds, and of each default the first."""
    items = [item for limits in ranges for item in limits]
    return NamespaceLimits(_bounds(items, "Container"), _bounds(items, "Pod"))


def _bounds(items: Iterable[Part], scope: str) -> LimitBounds | None:
    chosen = [item for item in items if item.get("type") == scope]
    if not chosen:
        return None
    limits: Part = {}
    requests: Part = {}
    for item in reversed(chosen):
        limits |= item.get("default") or {}
        requests |= item.get("defaultRequest") or {}
    return LimitBounds(_extreme(chosen, "max", min), _extreme(chosen, "min", max), limits, requests)


def _extreme(items: Iterable[Part], field: str, choose: Callable[[Quantity, Quantity], Quantity]) -> Quantities:
    found: dict[str, Quantity] = {}
    for item in items:
        for resource, amount in _quantities(item.get(field)).items():
            found[resource] = choose(found[resource], amount) if resource in found else amount
    return found


def _quantities(amounts: Mapping[str, Any] | None) -> dict[str, Quantity]:
    return {resource: Quantity.parse(amount) for resource, amount in (amounts or {}).items()}


# As Kueue counts


def completed(
    spec: Mapping[str, Any], limits: NamespaceLimits | None, overheads: Mapping[str, Mapping[str, Any]]
) -> Mapping[str, Any]:
    """A pod spec with what its runtime class and its namespace add to it; the same one if they add nothing."""
    changed: Part = {}
    overhead = overheads.get(spec.get("runtimeClassName") or "")
    if overhead and not spec.get("overhead"):
        changed["overhead"] = overhead
    if limits is not None and limits.containers is not None:
        for field in ("initContainers", "containers"):
            if spec.get(field):
                changed[field] = [_with_defaults(one, limits.containers) for one in spec[field]]
    if limits is not None and limits.pods is not None and spec.get("resources") is not None:
        changed |= _with_defaults({"resources": spec["resources"]}, limits.pods)
    return {**spec, **changed} if changed else spec


def _with_defaults(holder: Mapping[str, Any], bounds: LimitBounds) -> Part:
    """A container, or a pod, with the defaults for what it does not say."""
    resources = holder.get("resources") or {}
    limits = {**bounds.limits, **(resources.get("limits") or {})}
    requests = {**limits, **bounds.requests, **(resources.get("requests") or {})}
    return {**holder, "resources": {**resources, "limits": limits, "requests": requests}}


def outside_limits(spec: Mapping[str, Any], limits: NamespaceLimits, path: str = "") -> list[FieldError]:
    """Where a completed pod spec asks for more or less than the namespace allows."""
    errors: list[FieldError] = []
    if limits.containers is not None:
        for field in ("initContainers", "containers"):
            for position, container in enumerate(spec.get(field) or ()):
                resources = container.get("resources") or {}
                asked, limited = _quantities(resources.get("requests")), _quantities(resources.get("limits"))
                both = asked.keys() & limited.keys()
                most = {**asked, **limited, **{name: max(asked[name], limited[name]) for name in both}}
                least = {**asked, **limited, **{name: min(asked[name], limited[name]) for name in both}}
                where = problems.index(problems.child(path, field), position)
                errors += _beyond(most, least, limits.containers, where)
    if limits.pods is not None:
        total = pod_requests(spec)
        errors += _beyond(total, total, limits.pods, path)
    return errors


def _beyond(most: Quantities, least: Quantities, bounds: LimitBounds, where: str) -> Iterator[FieldError]:
    above = _greater(most, bounds.most)
    if above:
        yield problems.invalid(where, above, _ABOVE)
    below = _greater(bounds.least, least)
    if below:
        yield problems.invalid(where, below, _BELOW)


def _greater(amounts: Quantities, others: Quantities) -> list[str]:
    both = amounts.keys() & others.keys()
    return sorted(name for name in both if amount_of(name, amounts[name]) > amount_of(name, others[name]))


# As an API server completes and refuses


def complete_pod(pod: Part, limits: Sequence[Part]) -> None:
    """Give a new pod the defaults of one LimitRange, in place, with a note of what was set."""
    default_limits: Part = {}
    default_requests: Part = {}
    for item in limits:
        if item.get("type") == "Container":
            default_limits |= item.get("default") or {}
            default_requests |= item.get("defaultRequest") or {}
    if not default_limits and not default_requests:
        return
    spec, notes = pod["spec"], []
    for field, title in (("containers", "container"), ("initContainers", "init container")):
        for container in spec.get(field) or ():
            resources = container.get("resources") or {}
            for kind, defaults in (("requests", default_requests), ("limits", default_limits)):
                given = resources.get(kind) or {}
                added = sorted(defaults.keys() - given.keys())
                if added:
                    resources[kind] = {**given, **{name: defaults[name] for name in added}}
                    notes.append(f"{', '.join(added)} {kind[:-1]} for {title} {container.get('name', '')}")
            if resources:
                container["resources"] = resources
    if notes:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[ANNOTATION] = f"LimitRanger plugin set: {'; '.join(notes)}"


def breaches(spec: Mapping[str, Any], limits: Sequence[Part]) -> list[str]:
    """What one LimitRange has against a pod, in an API server's words."""
    found: list[str] = []
    for item in limits:
        scope = item.get("type") or ""
        if scope == "Container":
            for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
                resources = container.get("resources") or {}
                found += _against(item, _quantities(resources.get("requests")), _quantities(resources.get("limits")))
        elif scope == "Pod":
            found += _against(item, _of_pod(spec, "requests"), _of_pod(spec, "limits"))
    return found


def _of_pod(spec: Mapping[str, Any], field: str) -> dict[str, Quantity]:
    """The requests or the limits of a pod's containers together, or what the pod as a whole says."""

    def said(container: Mapping[str, Any]) -> dict[str, Quantity]:
        return _quantities((container.get("resources") or {}).get(field))

    total = needed_together(
        map(said, spec.get("containers") or ()),
        ((said(one), is_sidecar(one)) for one in spec.get("initContainers") or ()),
    )
    whole = _quantities((spec.get("resources") or {}).get(field))
    return total | {name: one for name, one in whole.items() if name in _POD_LEVEL or name.startswith(_HUGE_PAGES)}


def _against(item: Part, requests: Quantities, limits: Quantities) -> Iterator[str]:
    scope = item["type"]
    for name, enforced in _sorted(item.get("min")):
        start = f"minimum {name} usage per {scope} is {enforced}"
        if name not in requests:
            yield f"{start}.  No request is specified"
        elif requests[name] < enforced:
            yield f"{start}, but request is {requests[name]}"
        elif name in limits and limits[name] < enforced:
            yield f"{start}, but limit is {limits[name]}"
    for name, enforced in _sorted(item.get("max")):
        start = f"maximum {name} usage per {scope} is {enforced}"
        if name not in limits:
            yield f"{start}.  No limit is specified"
        elif limits[name] > enforced:
            yield f"{start}, but limit is {limits[name]}"
        elif name in requests and requests[name] > enforced:
            yield f"{start}, but request is {requests[name]}"
    for name, enforced in _sorted(item.get("maxLimitRequestRatio")):
        start = f"{name} max limit to request ratio per {scope} is {enforced}"
        if name not in requests or not requests[name].nanos:
            yield f"{start}, but no request is specified or request is 0"
        elif name not in limits or not limits[name].nanos:
            yield f"{start}, but no limit is specified or limit is 0"
        elif limits[name].nanos * 10**9 > enforced.nanos * requests[name].nanos:
            yield f"{start}, but provided ratio is {limits[name].nanos / requests[name].nanos:f}"


def _sorted(amounts: Mapping[str, Any] | None) -> list[tuple[str, Quantity]]:
    return sorted(_quantities(amounts).items())


def apply_runtime_class(spec: Part, found: Mapping[str, Any] | None) -> str:
    """Give a new pod what its runtime class adds, in place; or why the pod is refused, in an API server's words.

    `found` is the class that the pod names; without one there is no overhead either.
    """
    overhead = _quantities(((found or {}).get("overhead") or {}).get("podFixed"))
    given = _quantities(spec.get("overhead"))
    if not overhead and given:
        return "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    if overhead and given and overhead != given:
        return "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
    if overhead:
        spec["overhead"] = {name: str(amount) for name, amount in overhead.items()}
    scheduling = (found or {}).get("scheduling") or {}
    selector = spec.get("nodeSelector") or {}
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if selector.get(key, value) != value:
            return (
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value};"
                f" pod.spec.nodeSelector[{key}] = {selector[key]}"
            )
        spec["nodeSelector"] = selector = {**selector, key: value}
    tolerations = spec.get("tolerations") or []
    more = [one for one in scheduling.get("tolerations") or () if one not in tolerations]
    if more:
        spec["tolerations"] = [*tolerations, *more]
    return ""
