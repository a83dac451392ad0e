"""Rules about ClusterQueue, Cohort and LocalQueue."""

from fairway.apis.kueue.queues import (
    BorrowWithinCohortPolicy,
    ClusterQueue,
    ClusterQueueSpec,
    Cohort,
    FairSharing,
    FlavorFungibilityPolicy,
    FlavorQuotas,
    LocalQueue,
    PreemptionPolicy,
    ResourceGroup,
    ResourceQuota,
)
from fairway.apis.machinery import names, problems
from fairway.apis.machinery.immutability import changed, shown
from fairway.apis.machinery.quantities import ZERO, Quantity
from fairway.apis.machinery.selectors import DOES_NOT_EXIST, EXISTS, IN, NOT_IN, LabelSelector
from fairway.errors import FieldError

_GROUPS = "spec.resourceGroups"
_CHECKS = "spec.admissionChecksStrategy.admissionChecks"
_MOST_FLAVORS = 256
_MOST_RESOURCES = 256
_MOST_COMBINATIONS = 512
_LEAST_WEIGHT = Quantity.parse("1n")
_NOT_NEGATIVE = "must be greater than or equal to 0"


def wrong_cluster_queue(queue: ClusterQueue) -> list[FieldError]:
    return [*_wrong_cluster_queue_spec(queue.spec), *_wrong_check_flavors(queue, before=None)]


def wrong_cluster_queue_update(old: ClusterQueue, new: ClusterQueue) -> list[FieldError]:
    return [
        *_wrong_cluster_queue_spec(new.spec),
        *_wrong_check_flavors(new, before=old),
        *changed(
            old.spec.concurrent_admission_policy,
            new.spec.concurrent_admission_policy,
            "spec.concurrentAdmissionPolicy",
        ),
    ]


def wrong_cohort(cohort: Cohort) -> list[FieldError]:
    has_parent = bool(cohort.spec.parent_name)
    return [
        *_wrong_fair_sharing(cohort.spec.fair_sharing),
        *_wrong_groups(
            cohort.spec.resource_groups, missing_parent="" if has_parent else "parent", lends_within_quota=False
        ),
    ]


def wrong_local_queue_update(old: LocalQueue, new: LocalQueue) -> list[FieldError]:
    if not old.spec.cluster_queue or not new.spec.cluster_queue:
        return []
    return changed(old.spec.cluster_queue, new.spec.cluster_queue, "spec.clusterQueue")


def _wrong_cluster_queue_spec(spec: ClusterQueueSpec) -> list[FieldError]:
    missing_parent = "" if spec.cohort_name else "cohort"
    return [
        *_wrong_groups(spec.resource_groups, missing_parent=missing_parent, lends_within_quota=True),
        *_too_many_quotas(spec.resource_groups),
        *_wrong_selector(spec.namespace_selector, "spec.namespaceSelector"),
        *_wrong_policies(spec),
        *_wrong_fair_sharing(spec.fair_sharing),
    ]


def _wrong_policies(spec: ClusterQueueSpec) -> list[FieldError]:
    errors = []
    preemption = spec.preemption
    if (
        preemption.reclaim_within_cohort == PreemptionPolicy.NEVER
        and preemption.borrow_within_cohort.policy != BorrowWithinCohortPolicy.NEVER
    ):
        rule = "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never"
        errors.append(problems.invalid("spec.preemption", shown(preemption), rule))
    fungibility = spec.flavor_fungibility
    searches_on = FlavorFungibilityPolicy.TRY_NEXT_FLAVOR
    if fungibility.preference is not None and not (
        fungibility.when_can_borrow == searches_on and fungibility.when_can_preempt == searches_on
    ):
        rule = "preference can only be set when both whenCanBorrow and whenCanPreempt are TryNextFlavor"
        errors.append(problems.invalid("spec.flavorFungibility.preference", fungibility.preference.value, rule))
    return errors


def _wrong_fair_sharing(sharing: FairSharing | None) -> list[FieldError]:
    if sharing is None:
        return []
    weight, path = sharing.weight, "spec.fairSharing"
    if weight < ZERO:
        return [problems.invalid(path, str(weight), _NOT_NEGATIVE)]
    if ZERO < weight <= _LEAST_WEIGHT:
        return [problems.invalid(path, str(weight), "When not 0, weight must be > 10e-9")]
    return []


def _wrong_groups(
    groups: tuple[ResourceGroup, ...], *, missing_parent: str, lends_within_quota: bool
) -> list[FieldError]:
    errors: list[FieldError] = []
    resources: set[str] = set()
    flavors: set[str] = set()
    for position, group in enumerate(groups):
        path = problems.index(_GROUPS, position)
        if any(len(flavor.resources) != len(group.covered_resources) for flavor in group.flavors):
            rule = "flavors must have the same number of resources as the coveredResources"
            errors.append(problems.invalid(path, shown(group), rule))
        for i, resource in enumerate(group.covered_resources):
            where = problems.index(problems.child(path, "coveredResources"), i)
            errors += names.wrong_key(resource, where)
            if resource in resources:
                errors.append(problems.duplicate(where, resource))
            resources.add(resource)
        for i, flavor in enumerate(group.flavors):
            where = problems.index(problems.child(path, "flavors"), i)
            errors += _wrong_flavor(flavor, group, where, missing_parent=missing_parent, within=lends_within_quota)
            if flavor.name in flavors:
                errors.append(problems.duplicate(problems.child(where, "name"), flavor.name))
            flavors.add(flavor.name)
    return errors


def _wrong_flavor(
    flavor: FlavorQuotas, group: ResourceGroup, path: str, *, missing_parent: str, within: bool
) -> list[FieldError]:
    errors = []
    pairs = zip(flavor.resources, group.covered_resources, strict=False)
    for position, (quota, covered) in enumerate(pairs):
        where = problems.index(problems.child(path, "resources"), position)
        if quota.name != covered:
            rule = "must match the name in coveredResources"
            errors.append(problems.invalid(problems.child(where, "name"), quota.name, rule))
        errors += _wrong_quota(quota, where, missing_parent=missing_parent, lends_within_quota=within)
    return errors


def _wrong_quota(quota: ResourceQuota, path: str, *, missing_parent: str, lends_within_quota: bool) -> list[FieldError]:
    errors = []
    if quota.nominal_quota < ZERO:
        errors.append(problems.invalid(problems.child(path, "nominalQuota"), str(quota.nominal_quota), _NOT_NEGATIVE))
    for field, limit in (("borrowingLimit", quota.borrowing_limit), ("lendingLimit", quota.lending_limit)):
        if limit is None:
            continue
        where = problems.child(path, field)
        if missing_parent:
            errors.append(problems.invalid(where, str(limit), f"must be nil when {missing_parent} is empty"))
        if limit < ZERO:
            errors.append(problems.invalid(where, str(limit), _NOT_NEGATIVE))
    if lends_within_quota and quota.lending_limit is not None and quota.lending_limit > quota.nominal_quota:
        rule = "must be less than or equal to the nominalQuota"
        errors.append(problems.invalid(problems.child(path, "lendingLimit"), str(quota.lending_limit), rule))
    return errors


def _too_many_quotas(groups: tuple[ResourceGroup, ...]) -> list[FieldError]:
    errors = []
    flavors = sum(len(group.flavors) for group in groups)
    if flavors > _MOST_FLAVORS:
        rule = f"total number of flavors across all resourceGroups must be ≤ {_MOST_FLAVORS}, got {flavors}"
        errors.append(problems.invalid(_GROUPS, flavors, rule))
    resources = sum(len(group.covered_resources) for group in groups)
    if resources > _MOST_RESOURCES:
        rule = (
            f"total number of covered resources across all resourceGroups must be ≤ {_MOST_RESOURCES}, got {resources}"
        )
        errors.append(problems.invalid(_GROUPS, resources, rule))
    for position, group in enumerate(groups):
        combinations = sum(len(flavor.resources) for flavor in group.flavors)
        if combinations > _MOST_COMBINATIONS:
            rule = f"number of flavor-resource combinations in a resourceGroup must be ≤ {_MOST_COMBINATIONS}"
            where = problems.index(_GROUPS, position)
            errors.append(problems.invalid(where, combinations, f"{rule}, got {combinations}"))
    return errors


def _wrong_selector(selector: LabelSelector | None, path: str) -> list[FieldError]:
    if selector is None:
        return []
    errors = names.wrong_labels(selector.match_labels, problems.child(path, "matchLabels"))
    for position, one in enumerate(selector.match_expressions):
        where = problems.index(problems.child(path, "matchExpressions"), position)
        if one.operator in {IN, NOT_IN}:
            if not one.values:
                rule = "must be specified when `operator` is 'In' or 'NotIn'"
                errors.append(problems.required(problems.child(where, "values"), rule))
        elif one.operator in {EXISTS, DOES_NOT_EXIST}:
            if one.values:
                rule = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                errors.append(problems.forbidden(problems.child(where, "values"), list(one.values), rule))
        else:
            rule = "not a valid selector operator"
            errors.append(problems.invalid(problems.child(where, "operator"), one.operator, rule))
        errors += names.wrong_key(one.key, problems.child(where, "key"))
        for i, value in enumerate(one.values):
            place = problems.index(problems.child(where, "values"), i)
            errors += [problems.invalid(place, value, fault) for fault in names.value_faults(value)]
    return errors


def _wrong_check_flavors(queue: ClusterQueue, *, before: ClusterQueue | None) -> list[FieldError]:
    strategy = queue.spec.admission_checks_strategy
    if strategy is None:
        return []
    flavors = _flavors(queue)
    untouched = _check_flavors(before) if before is not None and _flavors(before) == flavors else {}
    errors = []
    for position, check in enumerate(strategy.admission_checks):
        # Kueue took such queues before it had this rule, so what was already wrong may stay until it is changed.
        if untouched.get(check.name) == set(check.on_flavors):
            continue
        path = problems.child(problems.index(_CHECKS, position), "onFlavors")
        errors += [
            problems.not_supported(problems.index(path, i), flavor, sorted(flavors))
            for i, flavor in enumerate(check.on_flavors)
            if flavor not in flavors
        ]
    return errors


def _flavors(queue: ClusterQueue) -> set[str]:
    return {flavor.name for group in queue.spec.resource_groups for flavor in group.flavors}


def _check_flavors(queue: ClusterQueue) -> dict[str, set[str]]:
    strategy = queue.spec.admission_checks_strategy
    return {check.name: set(check.on_flavors) for check in strategy.admission_checks} if strategy else {}
