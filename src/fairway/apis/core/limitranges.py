"""Limit ranges: defaults and bounds for the containers and pods of a namespace."""

from typing import Any, Final

from fairway.apis.core.resources import canonical, is_extended, wrong_quantity, wrong_resource_name
from fairway.apis.machinery import metadata_rules as metadata
from fairway.apis.machinery import names, problems
from fairway.apis.machinery.kind import Column, Kind, Manifest, Rules
from fairway.apis.machinery.quantities import Quantity
from fairway.apis.machinery.schemas.definitions import definition
from fairway.errors import FieldError

_LISTS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_TYPES: Final = ("Container", "PersistentVolumeClaim", "Pod")
_ONE: Final = Quantity.parse(1)
_HUGE_PAGES: Final = "hugepages-"


def _items(manifest: Manifest) -> list[dict[str, Any]]:
    return (manifest.get("spec") or {}).get("limits") or []


def _default(manifest: Manifest) -> None:
    """A container's limit is at most the maximum, and its request is its limit, else the minimum."""
    for item in _items(manifest):
        canonical({field: item.get(field) for field in _LISTS})
        if item.get("type") != "Container":
            continue
        limits = {**(item.get("max") or {}), **(item.get("default") or {})}
        requests = {**(item.get("min") or {}), **limits, **(item.get("defaultRequest") or {})}
        if limits:
            item["default"] = limits
        if requests:
            item["defaultRequest"] = requests


def _validate(manifest: Manifest) -> list[FieldError]:
    errors = metadata.wrong_metadata(manifest)
    seen = set()
    for position, item in enumerate(_items(manifest)):
        path = f"spec.limits[{position}]"
        scope = item.get("type") or ""
        errors += [problems.invalid(f"{path}.type", scope, fault) for fault in names.key_faults(scope)]
        if scope not in _TYPES and "/" not in scope:
            errors.append(problems.invalid(f"{path}.type", scope, "must be a standard limit type or fully qualified"))
        if scope in seen:
            errors.append(problems.duplicate(f"{path}.type", scope))
        seen.add(scope)
        unreadable = _wrong_lists(item, path)
        errors += unreadable or [*_wrong_scope(item, path), *_wrong_bounds(item, path)]
    return errors


def _wrong_lists(item: dict[str, Any], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in _LISTS:
        for resource, quantity in (item.get(field) or {}).items():
            where = f"{path}.{field}[{resource}]"
            if item.get("type") in ("Container", "Pod"):
                errors += wrong_resource_name(resource, where)
            else:
                errors += [problems.invalid(where, resource, fault) for fault in names.key_faults(resource)]
            errors += wrong_quantity(resource, quantity, where)
    return errors


def _wrong_scope(item: dict[str, Any], path: str) -> list[FieldError]:
    if item.get("type") == "Pod":
        rule = "may not be specified when `type` is 'Pod'"
        fields = ("default", "defaultRequest")
        return [problems.forbidden(f"{path}.{field}", item[field], rule) for field in fields if item.get(field)]
    if item.get("type") == "PersistentVolumeClaim" and not (
        "storage" in (item.get("min") or {}) or "storage" in (item.get("max") or {})
    ):
        rule = "either minimum or maximum storage value is required, but neither was provided"
        return [problems.required(f"{path}.limits", rule)]
    return []


def _wrong_bounds(item: dict[str, Any], path: str) -> list[FieldError]:
    """Bounds and defaults that contradict each other."""
    errors: list[FieldError] = []

    def unordered(low: str, high: str, field: str, value: str, rule: str) -> None:
        for name in sorted(lists[low].keys() & lists[high].keys()):
            lower, higher = lists[low][name], lists[high][name]
            if lower > higher:
                text = rule.format(lower, higher)
                errors.append(problems.invalid(f"{path}.{field}[{name}]", str(lists[value][name]), text))

    lists = {
        field: {name: Quantity.parse(amount) for name, amount in (item.get(field) or {}).items()} for field in _LISTS
    }
    unordered("min", "max", "min", "min", "min value {} is greater than max value {}")
    unordered(
        "min", "defaultRequest", "defaultRequest", "defaultRequest",
        "min value {} is greater than default request value {}",
    )  # fmt: skip
    unordered(
        "defaultRequest", "max", "defaultRequest", "defaultRequest",
        "default request value {} is greater than max value {}",
    )  # fmt: skip
    unordered(
        "defaultRequest", "default", "defaultRequest", "defaultRequest",
        "default request value {} is greater than default limit value {}",
    )  # fmt: skip
    unordered("min", "default", "default", "min", "min value {} is greater than default value {}")
    unordered("default", "max", "default", "max", "default value {} is greater than max value {}")
    return [*errors, *_wrong_ratios(lists, path), *_overcommitted(lists, path)]


def _wrong_ratios(lists: dict[str, dict[str, Quantity]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, ratio in sorted(lists["maxLimitRequestRatio"].items()):
        where = f"{path}.maxLimitRequestRatio[{name}]"
        if ratio < _ONE:
            errors.append(problems.invalid(where, str(ratio), f"ratio {ratio} is less than 1"))
        least, most = lists["min"].get(name), lists["max"].get(name)
        if least is not None and most is not None and least.nanos:
            bound = most.nanos / least.nanos
            if ratio.nanos / 10**9 > bound:
                errors.append(problems.invalid(where, str(ratio), f"ratio {ratio} is greater than max/min = {bound:f}"))
    return errors


def _overcommitted(lists: dict[str, dict[str, Quantity]], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name in sorted(lists["default"].keys() & lists["defaultRequest"].keys()):
        limit, request = lists["default"][name], lists["defaultRequest"][name]
        if limit != request and (is_extended(name) or name.startswith(_HUGE_PAGES)):
            rule = f"default value {limit} must equal to defaultRequest value {request} in {name}"
            errors.append(problems.invalid(f"{path}.defaultRequest[{name}]", str(request), rule))
    return errors


def _validate_update(old: Manifest, new: Manifest) -> list[FieldError]:
    return [*metadata.wrong_metadata_update(old, new), *_validate(new)]


LIMIT_RANGE: Final = Kind(
    group="",
    kind="LimitRange",
    plural="limitranges",
    versions=("v1",),
    stored="v1",
    short_names=("limits",),
    generation=False,
    builtin=True,
    schemas={"v1": lambda: definition("io.k8s.api.core.v1.LimitRange")},
    columns={
        "v1": (
            Column(
                name="Created At",
                type="date",
                value=lambda manifest, _now: manifest["metadata"].get("creationTimestamp", ""),
                description="When it was created.",
            ),
        )
    },
    rules=Rules(default=_default, validate=_validate, validate_update=_validate_update),
)
