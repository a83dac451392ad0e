"""Rules about cluster queues, cohorts and local queues, when they are made and when they change."""

from typing import Any

import pytest

from fairway.apis.kueue.manifests import decode, load

from .samples import Manifest, changed, cluster_queue, cohort, errors_of, group, local_queue, quota, validate_update

FIRST = "spec.resourceGroups[0].flavors[0].resources[0]"
TRY_BOTH = {"whenCanBorrow": "TryNextFlavor", "whenCanPreempt": "TryNextFlavor"}


def checks(*flavors: str) -> Manifest:
    return {"admissionChecks": [{"name": "check", "onFlavors": list(flavors)}]}


def selecting(**expression: Any) -> Manifest:
    return cluster_queue(namespaceSelector={"matchExpressions": [{"key": "k"} | expression]})


@pytest.mark.parametrize(
    ("sample", "want"),
    [
        pytest.param(
            cluster_queue(group(quota(nominal="-1"))),
            f'{FIRST}.nominalQuota: Invalid value: "-1": must be greater than or equal to 0',
            id="a quota is not negative",
        ),
        pytest.param(
            cluster_queue(group(quota(borrowingLimit="-1")), cohortName="c"),
            f'{FIRST}.borrowingLimit: Invalid value: "-1": must be greater than or equal to 0',
            id="nor is what may be borrowed",
        ),
        pytest.param(
            cluster_queue(group(quota(lendingLimit="-1")), cohortName="c"),
            f'{FIRST}.lendingLimit: Invalid value: "-1": must be greater than or equal to 0',
            id="nor is what is lent",
        ),
        pytest.param(
            cluster_queue(group(quota(borrowingLimit="1"))),
            f'{FIRST}.borrowingLimit: Invalid value: "1": must be nil when cohort is empty',
            id="nobody to borrow from",
        ),
        pytest.param(
            cluster_queue(group(quota(lendingLimit="1"))),
            f'{FIRST}.lendingLimit: Invalid value: "1": must be nil when cohort is empty',
            id="nobody to lend to",
        ),
        pytest.param(
            cluster_queue(group(quota(lendingLimit="11")), cohortName="c"),
            f'{FIRST}.lendingLimit: Invalid value: "11": must be less than or equal to the nominalQuota',
            id="nobody lends more than there is",
        ),
        pytest.param(
            changed(cluster_queue(), "spec.resourceGroups.0.coveredResources", ["memory"]),
            f'{FIRST}.name: Invalid value: "cpu": must match the name in coveredResources',
            id="resources in another order",
        ),
        pytest.param(
            changed(cluster_queue(), "spec.resourceGroups.0.coveredResources", ["cpu", "memory"]),
            'spec.resourceGroups[0]: Invalid value: {"coveredResources":["cpu","memory"],"flavors":[{"name":'
            '"default","resources":[{"name":"cpu","nominalQuota":"10"}]}]}: flavors must have the same number of '
            "resources as the coveredResources",
            id="a resource without a quota",
        ),
        pytest.param(
            cluster_queue(group(flavors=("a",)), group(flavors=("b",))),
            'spec.resourceGroups[1].coveredResources[0]: Duplicate value: "cpu"',
            id="a resource in two groups",
        ),
        pytest.param(
            cluster_queue(group(), group(quota("memory"))),
            'spec.resourceGroups[1].flavors[0].name: Duplicate value: "default"',
            id="a flavor in two groups",
        ),
        pytest.param(
            cluster_queue(group(quota("a b"))),
            'spec.resourceGroups[0].coveredResources[0]: Invalid value: "a b": name part must consist',
            id="the name of a resource",
        ),
        pytest.param(
            cluster_queue(*(group(quota(f"r{i}"), flavors=tuple(f"f{i}-{j}" for j in range(52))) for i in range(5))),
            "spec.resourceGroups: Invalid value: 260: total number of flavors across all resourceGroups must be ≤ 256, "
            "got 260",
            id="too many flavors in all",
        ),
        pytest.param(
            cluster_queue(*(group(*(quota(f"r{i}-{j}") for j in range(52)), flavors=(f"f{i}",)) for i in range(5))),
            "spec.resourceGroups: Invalid value: 260: total number of covered resources across all resourceGroups must "
            "be ≤ 256, got 260",
            id="too many resources in all",
        ),
        pytest.param(
            cluster_queue(group(*(quota(f"r{j}") for j in range(27)), flavors=tuple(f"f{j}" for j in range(19)))),
            "spec.resourceGroups[0]: Invalid value: 513: number of flavor-resource combinations in a resourceGroup "
            "must be ≤ 512, got 513",
            id="too many combinations",
        ),
        pytest.param(
            cluster_queue(preemption={"borrowWithinCohort": {"policy": "LowerPriority"}}),
            'spec.preemption: Invalid value: {"borrowWithinCohort":{"policy":"LowerPriority"},'
            '"reclaimWithinCohort":"Never","withinClusterQueue":"Never"}: reclaimWithinCohort=Never and '
            "borrowWithinCohort.Policy!=Never",
            id="who never reclaims does not preempt to borrow",
        ),
        pytest.param(
            cluster_queue(flavorFungibility={"preference": "BorrowingOverPreemption"}),
            'spec.flavorFungibility.preference: Invalid value: "BorrowingOverPreemption": preference can only be set '
            "when both whenCanBorrow and whenCanPreempt are TryNextFlavor",
            id="who stops early has no preference",
        ),
        pytest.param(
            cluster_queue(fairSharing={"weight": "-1"}),
            'spec.fairSharing: Invalid value: "-1": must be greater than or equal to 0',
            id="a negative weight",
        ),
        pytest.param(
            cluster_queue(fairSharing={"weight": "1n"}),
            'spec.fairSharing: Invalid value: "1n": When not 0, weight must be > 10e-9',
            id="a weight that is next to nothing",
        ),
        pytest.param(
            cluster_queue(admissionChecksStrategy=checks("default", "none")),
            'spec.admissionChecksStrategy.admissionChecks[0].onFlavors[1]: Unsupported value: "none": supported '
            'values: "default"',
            id="a check for a flavor that the queue does not have",
        ),
        pytest.param(
            cluster_queue(admissionChecksStrategy={"admissionChecks": []}),
            "spec.admissionChecksStrategy.admissionChecks: Invalid value: 0: "
            "spec.admissionChecksStrategy.admissionChecks in body should have at least 1 items",
            id="a strategy without checks",
        ),
        pytest.param(
            selecting(operator="In"),
            "spec.namespaceSelector.matchExpressions[0].values: Required value: must be specified when `operator` is "
            "'In' or 'NotIn'",
            id="In needs values",
        ),
        pytest.param(
            selecting(operator="Exists", values=["a"]),
            "spec.namespaceSelector.matchExpressions[0].values: Forbidden: may not be specified when `operator` is "
            "'Exists' or 'DoesNotExist'",
            id="Exists has none",
        ),
        pytest.param(
            selecting(operator="Gt", values=["1"]),
            'spec.namespaceSelector.matchExpressions[0].operator: Invalid value: "Gt": not a valid selector operator',
            id="selectors do not compare numbers",
        ),
        pytest.param(
            selecting(operator="In", values=["a b"]),
            'spec.namespaceSelector.matchExpressions[0].values[0]: Invalid value: "a b": a valid label must be',
            id="values of selectors are values of labels",
        ),
        pytest.param(
            selecting(operator="Exists", key="a b"),
            'spec.namespaceSelector.matchExpressions[0].key: Invalid value: "a b": name part must consist',
            id="keys of selectors are keys of labels",
        ),
        pytest.param(
            cluster_queue(namespaceSelector={"matchLabels": {"a": "b c"}}),
            'spec.namespaceSelector.matchLabels: Invalid value: "b c": a valid label must be',
            id="labels of selectors are labels",
        ),
        pytest.param(
            cohort(group(quota(borrowingLimit="1"))),
            f'{FIRST}.borrowingLimit: Invalid value: "1": must be nil when parent is empty',
            id="a root has nobody to borrow from",
        ),
        pytest.param(
            cohort(group(quota(lendingLimit="1"))),
            f'{FIRST}.lendingLimit: Invalid value: "1": must be nil when parent is empty',
            id="a root has nobody to lend to",
        ),
        pytest.param(
            cohort(fairSharing={"weight": "-1"}),
            'spec.fairSharing: Invalid value: "-1": must be greater than or equal to 0',
            id="a cohort of negative weight",
        ),
        pytest.param(
            local_queue(clusterQueue="A"),
            'spec.clusterQueue: Invalid value: "A": spec.clusterQueue in body should match',
            id="the name of a cluster queue",
        ),
    ],
)
def test_creating(sample: Manifest, want: str) -> None:
    errors = errors_of(lambda: load(sample))

    assert len(errors) == 1
    assert str(errors[0]).startswith(want)


@pytest.mark.parametrize(
    "sample",
    [
        pytest.param(cluster_queue(group(quota(nominal=0))), id="a quota of nothing"),
        pytest.param(cluster_queue(fairSharing={"weight": 0}), id="a weight of nothing"),
        pytest.param(cluster_queue(fairSharing={"weight": "2n"}), id="a weight of almost nothing"),
        pytest.param(
            cluster_queue(group(quota(lendingLimit="10", borrowingLimit="0")), cohortName="c"),
            id="limits at their ends",
        ),
        pytest.param(cohort(group(quota(lendingLimit="99")), parentName="p"), id="a cohort passes on what others lend"),
        pytest.param(
            cluster_queue(flavorFungibility=TRY_BOTH | {"preference": "PreemptionOverBorrowing"}), id="a preference"
        ),
        pytest.param(
            cluster_queue(preemption={"reclaimWithinCohort": "Any", "borrowWithinCohort": {"policy": "LowerPriority"}}),
            id="preempting to borrow",
        ),
        pytest.param(cluster_queue(admissionChecksStrategy=checks()), id="a check for all flavors"),
    ],
)
def test_these_are_fine(sample: Manifest) -> None:
    load(sample)


CONCURRENT = {"migration": {"mode": "RetainFirstAdmission"}}


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(
            local_queue(),
            local_queue(clusterQueue="team-b"),
            'spec.clusterQueue: Invalid value: "team-b": field is immutable',
            id="where a local queue points",
        ),
        pytest.param(
            cluster_queue(concurrentAdmissionPolicy=CONCURRENT),
            cluster_queue(),
            "spec.concurrentAdmissionPolicy: Invalid value: null: field is immutable",
            id="whether admissions go on in parallel",
        ),
        pytest.param(
            cluster_queue(),
            cluster_queue(group(quota(nominal="-1"))),
            f'{FIRST}.nominalQuota: Invalid value: "-1": must be greater than or equal to 0',
            id="a queue stays valid",
        ),
        pytest.param(
            cohort(),
            cohort(fairSharing={"weight": "-1"}),
            'spec.fairSharing: Invalid value: "-1": must be greater than or equal to 0',
            id="a cohort stays valid",
        ),
        pytest.param(
            cluster_queue(admissionChecksStrategy=checks("gone")),
            cluster_queue(admissionChecksStrategy=checks("gone", "never-was")),
            'spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]: Unsupported value: "gone": supported '
            'values: "default"',
            id="a check that was wrong may not become more so",
        ),
    ],
)
def test_what_may_not_change(old: Manifest, new: Manifest, want: str) -> None:
    errors = errors_of(lambda: validate_update(decode(old), decode(new)))

    assert str(errors[0]) == want


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(cluster_queue(), cluster_queue(group(quota(nominal="5")), cohortName="c"), id="quota and cohort"),
        pytest.param(
            cluster_queue(admissionChecksStrategy=checks("gone")),
            cluster_queue(admissionChecksStrategy=checks("gone"), cohortName="c"),
            id="what was wrong before the rule may stay",
        ),
        pytest.param(changed(local_queue(), "spec.clusterQueue", ...), local_queue(), id="a queue that points nowhere"),
        pytest.param(local_queue(), local_queue(stopPolicy="Hold"), id="stopping"),
    ],
)
def test_what_may_change(old: Manifest, new: Manifest) -> None:
    validate_update(decode(old), decode(new))
