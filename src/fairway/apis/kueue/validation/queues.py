"""Rules about ClusterQueue, Cohort and LocalQueue."""

from collections.abc import Callable
from typing import Any, Final

from fairway.apis.core.checks import Part, wrong_label_selector
from fairway.apis.machinery import names, problems
from fairway.apis.machinery.immutability import changed
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import ZERO, Quantity
from fairway.errors import FieldError

_GROUPS: Final = "spec.resourceGroups"
_CHECKS: Final = "spec.admissionChecksStrategy.admissionChecks"
_MOST_FLAVORS: Final = 256
_MOST_RESOURCES: Final = 256
_MOST_COMBINATIONS: Final = 512
_LEAST_WEIGHT: Final = Quantity.parse("1n")
_NOT_NEGATIVE: Final = "must be greater than or equal to 0"


def wrong_cluster_queue(queue: Manifest, before: Manifest | None = None) -> list[FieldError]:
    spec = _spec(queue)
    groups = spec.get("resourceGroups") or []
    errors = [
        *_wrong_groups(groups, missing_parent="" if spec.get("cohortName") else "cohort", lends_within_quota=True),
        *_too_many_quotas(groups),
        *wrong_label_selector(spec.get("namespaceSelector"), "spec.namespaceSelector"),
        *_wrong_policies(spec),
        *_wrong_fair_sharing(spec),
        *_wrong_check_flavors(spec, before),
    ]
    if before is not None:
        field = "concurrentAdmissionPolicy"
        errors += changed(_spec(before).get(field), spec.get(field), f"spec.{field}")
    return errors


def wrong_cohort(cohort: Manifest, _before: Manifest | None = None) -> list[FieldError]:
    spec = _spec(cohort)
    missing = "" if spec.get("parentName") else "parent"
    groups = _wrong_groups(spec.get("resourceGroups") or [], missing_parent=missing, lends_within_quota=False)
    return _wrong_fair_sharing(spec) + groups


def wrong_local_queue(queue: Manifest, before: Manifest | None = None) -> list[FieldError]:
    old, new = _spec(before or {}).get("clusterQueue"), _spec(queue).get("clusterQueue")
    return problems.of_schema(*changed(old, new, "spec.clusterQueue")) if old and new else []


def _spec(manifest: Manifest) -> Part:
    return manifest.get("spec") or {}


def _wrong_policies(spec: Part) -> list[FieldError]:
    errors = []
    preemption: Part = spec.get("preemption") or {}
    borrowing = (preemption.get("borrowWithinCohort") or {}).get("policy") or "Never"
    if (preemption.get("reclaimWithinCohort") or "Never") == "Never" and borrowing != "Never":
        rule = "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never"
        errors += problems.of_schema(problems.invalid("spec.preemption", preemption, rule))
    fungibility: Part = spec.get("flavorFungibility") or {}
    preference = fungibility.get("preference")
    if preference and not (fungibility.get("whenCanBorrow") == fungibility.get("whenCanPreempt") == "TryNextFlavor"):
        rule = "preference can only be set when both whenCanBorrow and whenCanPreempt are TryNextFlavor"
        errors += problems.of_schema(problems.invalid("spec.flavorFungibility.preference", preference, rule))
    return errors


def _wrong_fair_sharing(spec: Part) -> list[FieldError]:
    sharing: Part = spec.get("fairSharing") or {}
    weight, path = Quantity.parse(sharing.get("weight", 1)), "spec.fairSharing"
    if weight < ZERO:
        return [problems.invalid(path, str(weight), _NOT_NEGATIVE)]
    if ZERO < weight <= _LEAST_WEIGHT:
        return [problems.invalid(path, str(weight), "When not 0, weight must be > 10e-9")]
    return []


def _wrong_groups(groups: list[Part], *, missing_parent: str, lends_within_quota: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    resources: set[str] = set()
    flavors: set[str] = set()
    for position, group in enumerate(groups):
        path = problems.index(_GROUPS, position)
        covered = group["coveredResources"]
        if any(len(flavor["resources"]) != len(covered) for flavor in group["flavors"]):
            rule = "flavors must have the same number of resources as the coveredResources"
            errors += problems.of_schema(problems.invalid(path, group, rule))
        for i, resource in enumerate(covered):
            where = f"{path}.coveredResources[{i}]"
            errors += names.wrong_key(resource, where)
            if resource in resources:
                errors.append(problems.duplicate(where, resource))
            resources.add(resource)
        for i, flavor in enumerate(group["flavors"]):
            where = f"{path}.flavors[{i}]"
            for j, (quota, name) in enumerate(zip(flavor["resources"], covered, strict=False)):
                at = f"{where}.resources[{j}]"
                if quota["name"] != name:
                    rule = "must match the name in coveredResources"
                    errors.append(problems.invalid(f"{at}.name", quota["name"], rule))
                errors += _wrong_quota(quota, at, missing_parent=missing_parent, lends_within_quota=lends_within_quota)
            if flavor["name"] in flavors:
                errors.append(problems.duplicate(f"{where}.name", flavor["name"]))
            flavors.add(flavor["name"])
    return errors


def _wrong_quota(quota: Part, path: str, *, missing_parent: str, lends_within_quota: bool) -> list[FieldError]:
    errors = []
    nominal = Quantity.parse(quota["nominalQuota"])
    if nominal < ZERO:
        errors.append(problems.invalid(f"{path}.nominalQuota", str(nominal), _NOT_NEGATIVE))
    for field in ("borrowingLimit", "lendingLimit"):
        if quota.get(field) is None:
            continue
        limit, where = Quantity.parse(quota[field]), f"{path}.{field}"
        if missing_parent:
            wrong = problems.invalid(where, str(limit), f"must be nil when {missing_parent} is empty")
            by_schema = field == "borrowingLimit" and missing_parent == "cohort"
            errors += problems.of_schema(wrong) if by_schema else [wrong]
        if limit < ZERO:
            errors.append(problems.invalid(where, str(limit), _NOT_NEGATIVE))
        if field == "lendingLimit" and lends_within_quota and limit > nominal:
            errors.append(problems.invalid(where, str(limit), "must be less than or equal to the nominalQuota"))
    return errors


def _too_many_quotas(groups: list[Part]) -> list[FieldError]:
    errors = []
    totals: tuple[tuple[str, int, Callable[[Part], Any]], ...] = (
        ("flavors", _MOST_FLAVORS, lambda group: group["flavors"]),
        ("covered resources", _MOST_RESOURCES, lambda group: group["coveredResources"]),
    )
    for what, most, listed in totals:
        count = sum(len(listed(group)) for group in groups)
        if count > most:
            rule = f"total number of {what} across all resourceGroups must be ≤ {most}, got {count}"
            errors.append(problems.invalid(_GROUPS, count, rule))
    for position, group in enumerate(groups):
        combinations = sum(len(flavor["resources"]) for flavor in group["flavors"])
        if combinations > _MOST_COMBINATIONS:
            rule = f"number of flavor-resource combinations in a resourceGroup must be ≤ {_MOST_COMBINATIONS}"
            where = problems.index(_GROUPS, position)
            errors.append(problems.invalid(where, combinations, f"{rule}, got {combinations}"))
    return errors


def _wrong_check_flavors(spec: Part, before: Manifest | None) -> list[FieldError]:
    flavors = _flavors(spec)
    old = _spec(before or {})
    # Kueue took such queues before it had this rule, so what was already wrong may stay until it is changed.
    untouched = {check["name"]: set(check.get("onFlavors") or ()) for check in _checks(old)}
    if _flavors(old) != flavors:
        untouched = {}
    return [
        problems.not_supported(f"{_CHECKS}[{position}].onFlavors[{i}]", flavor, sorted(flavors))
        for position, check in enumerate(_checks(spec))
        if untouched.get(check["name"]) != set(check.get("onFlavors") or ())
        for i, flavor in enumerate(check.get("onFlavors") or ())
        if flavor not in flavors
    ]


def _flavors(spec: Part) -> set[str]:
    return {flavor["name"] for group in spec.get("resourceGroups") or () for flavor in group["flavors"]}


def _checks(spec: Part) -> list[Part]:
    return (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or []
