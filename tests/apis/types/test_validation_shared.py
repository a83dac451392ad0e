"""Rules that hold for every kind: names, labels, annotations, owners, and the limits of the schema."""

from typing import Any

import pytest

from fairway.apis.kueue.manifests import load

from .samples import (
    TIME,
    Manifest,
    changed,
    cluster_queue,
    cohort,
    condition,
    errors_of,
    flavor,
    full_samples,
    local_queue,
    validate_update,
    workload,
)

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
QUALIFIED = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}


@pytest.mark.parametrize("kind", sorted(full_samples()))
def test_the_full_samples_are_valid(kind: str) -> None:
    load(full_samples()[kind])


@pytest.mark.parametrize("kind", sorted(full_samples()))
def test_an_object_may_be_replaced_by_itself(kind: str) -> None:
    value = load(full_samples()[kind])

    validate_update(value, value)


@pytest.mark.parametrize(
    ("sample", "want"),
    [
        pytest.param(
            changed(cohort(), "metadata.name", ...),
            ["metadata.name: Required value: name or generateName is required"],
            id="an object needs a name",
        ),
        pytest.param(
            changed(cohort(), "metadata.name", "Team_A"),
            [f'metadata.name: Invalid value: "Team_A": {SUBDOMAIN}'],
            id="names are in lower case",
        ),
        pytest.param(
            changed(cohort(), "metadata.name", "x" * 254),
            [f'metadata.name: Invalid value: "{"x" * 254}": must be no more than 253 bytes'],
            id="names are not endless",
        ),
        pytest.param(
            changed(changed(cohort(), "metadata.name", ...), "metadata.generateName", "Team-"),
            [f'metadata.generateName: Invalid value: "Team-": {SUBDOMAIN}'],
            id="nor is the beginning of a name in upper case",
        ),
        pytest.param(
            changed(local_queue(), "metadata.namespace", "a.b"),
            ['metadata.namespace: Invalid value: "a.b": must not contain dots'],
            id="namespaces have no dots",
        ),
        pytest.param(
            changed(local_queue(), "metadata.namespace", "A"),
            [
                (
                    'metadata.namespace: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case '
                    "alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. "
                    "'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
                )
            ],
            id="namespaces are in lower case",
        ),
        pytest.param(
            changed(local_queue(), "metadata.namespace", "x" * 64),
            [f'metadata.namespace: Invalid value: "{"x" * 64}": must be no more than 63 bytes'],
            id="namespaces are short",
        ),
        pytest.param(
            changed(cohort(), "metadata.labels", {"a": "b c"}),
            [f'metadata.labels: Invalid value: "b c": {LABEL_VALUE}'],
            id="labels have no spaces",
        ),
        pytest.param(
            changed(cohort(), "metadata.labels", {"a": "b" * 64}),
            [f'metadata.labels: Invalid value: "{"b" * 64}": must be no more than 63 bytes'],
            id="labels are short",
        ),
        pytest.param(
            changed(cohort(), "metadata.labels", {"-a": ""}),
            [f'metadata.labels: Invalid value: "-a": name part {QUALIFIED}'],
            id="keys of labels begin with a letter or digit",
        ),
        pytest.param(
            changed(cohort(), "metadata.labels", {"/a": "", "A/": ""}),
            [
                'metadata.labels: Invalid value: "/a": prefix part must be non-empty',
                f'metadata.labels: Invalid value: "A/": prefix part {SUBDOMAIN}',
                'metadata.labels: Invalid value: "A/": name part must be non-empty',
                f'metadata.labels: Invalid value: "A/": name part {QUALIFIED}',
            ],
            id="both parts of a key are needed",
        ),
        pytest.param(
            changed(cohort(), "metadata.labels", {"a" * 64: ""}),
            [f'metadata.labels: Invalid value: "{"a" * 64}": name part must be no more than 63 bytes'],
            id="keys of labels are short",
        ),
        pytest.param(
            changed(cohort(), "metadata.labels", {"a/b/c": ""}),
            [
                (
                    f'metadata.labels: Invalid value: "a/b/c": a valid label key {QUALIFIED} with an optional DNS '
                    "subdomain prefix and '/' (e.g. 'example.com/MyName')"
                )
            ],
            id="keys of labels have one slash",
        ),
        pytest.param(
            changed(cohort(), "metadata.annotations", {"a b": ""}),
            [f'metadata.annotations: Invalid value: "a b": name part {QUALIFIED}'],
            id="keys of annotations are like those of labels",
        ),
        pytest.param(
            changed(cohort(), "metadata.annotations", {"a": "x" * 262144}),
            ["metadata.annotations: Too long: may not be more than 262144 bytes"],
            id="annotations together are limited",
        ),
        pytest.param(
            changed(cohort(), "metadata.annotations", {"a": "ü" * 131072}),
            ["metadata.annotations: Too long: may not be more than 262144 bytes"],
            id="by bytes, not by characters",
        ),
        pytest.param(
            changed(cohort(), "metadata.generation", -1),
            ["metadata.generation: Invalid value: -1: must be greater than or equal to 0"],
            id="generations are counted up",
        ),
        pytest.param(
            changed(cohort(), "metadata.finalizers", ["a b"]),
            [f'metadata.finalizers: Invalid value: "a b": name part {QUALIFIED}'],
            id="finalizers are qualified names",
        ),
        pytest.param(
            changed(cohort(), "metadata.finalizers", ["orphan", "foregroundDeletion"]),
            [
                (
                    'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and '
                    "foregroundDeletion cannot be both set"
                )
            ],
            id="dependents are kept or deleted, not both",
        ),
        pytest.param(
            changed(cohort(), "metadata.ownerReferences", [{"apiVersion": "", "kind": "", "name": "", "uid": ""}]),
            [
                "metadata.ownerReferences[0].apiVersion: Required value",
                "metadata.ownerReferences[0].kind: Required value",
                "metadata.ownerReferences[0].name: Required value",
                "metadata.ownerReferences[0].uid: Required value",
            ],
            id="an owner must be named",
        ),
        pytest.param(
            changed(cohort(), "metadata.ownerReferences", [OWNER | {"controller": True}, OWNER | {"controller": True}]),
            [
                (
                    'metadata.ownerReferences: Invalid value: ["Pod/p","Pod/p"]: Only one reference can have '
                    'Controller set to true. Found "true" in references for Pod/p and Pod/p'
                )
            ],
            id="there is one controller",
        ),
    ],
)
def test_metadata(sample: Manifest, want: list[str]) -> None:
    assert [str(error) for error in errors_of(lambda: load(sample))] == want


def test_a_name_that_is_still_to_be_made_up_is_fine() -> None:
    load(changed(changed(cohort(), "metadata.name", ...), "metadata.generateName", "team-"))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        pytest.param("name", "other", id="name"),
        pytest.param("namespace", "other", id="namespace"),
        pytest.param("uid", "other", id="uid"),
        pytest.param("creationTimestamp", "2025-01-01T00:00:00Z", id="creation time"),
        pytest.param("deletionTimestamp", "2025-01-01T00:00:00Z", id="deletion time"),
    ],
)
def test_what_identifies_an_object_cannot_change(field: str, value: str) -> None:
    old = changed(changed(local_queue(), "metadata.uid", "u"), "metadata.creationTimestamp", TIME)
    new = changed(old, f"metadata.{field}", value)
    errors = errors_of(lambda: validate_update(load(old), load(new)))

    assert [str(error) for error in errors] == [f'metadata.{field}: Invalid value: "{value}": field is immutable']


def test_an_object_on_its_way_out_gets_no_more_finalizers() -> None:
    old = changed(local_queue(), "metadata.deletionTimestamp", TIME)
    new = changed(old, "metadata.finalizers", ["a/b"])

    assert [str(error) for error in errors_of(lambda: validate_update(load(old), load(new)))] == [
        (
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new "
            'finalizers []string{"a/b"}'
        )
    ]


def test_generations_do_not_go_back() -> None:
    old, new = (load(changed(cohort(), "metadata.generation", number)) for number in (5, 4))

    assert [str(error) for error in errors_of(lambda: validate_update(old, new))] == [
        "metadata.generation: Invalid value: 4: must not be decremented"
    ]


@pytest.mark.parametrize(
    ("kind", "path", "value", "want"),
    [
        pytest.param(
            "ClusterQueue",
            "spec.cohortName",
            "Not_A_Name",
            'spec.cohortName: Invalid value: "Not_A_Name": spec.cohortName in body should match '
            r"'^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'",
            id="a pattern",
        ),
        pytest.param(
            "ClusterQueue",
            "spec.cohortName",
            "x" * 254,
            "spec.cohortName: Too long: may not be more than 253 bytes",
            id="a length",
        ),
        pytest.param(
            "AdmissionCheck",
            "spec.controllerName",
            "",
            'spec.controllerName: Invalid value: "": spec.controllerName in body should be at least 1 chars long',
            id="a least length",
        ),
        pytest.param(
            "ClusterQueue",
            "spec.resourceGroups",
            [{"coveredResources": [f"r{i}"], "flavors": []} for i in range(17)],
            "spec.resourceGroups: Too many: 17: must have at most 16 items",
            id="a number of items",
        ),
        pytest.param(
            "Topology",
            "spec.levels",
            [],
            "spec.levels: Invalid value: 0: spec.levels in body should have at least 1 items",
            id="a least number of items",
        ),
        pytest.param(
            "Workload",
            "spec.maximumExecutionTimeSeconds",
            0,
            "spec.maximumExecutionTimeSeconds: Invalid value: 0: spec.maximumExecutionTimeSeconds in body should be "
            "greater than or equal to 1",
            id="a minimum",
        ),
        pytest.param(
            "Workload",
            "spec.podSets.0.count",
            -1,
            "spec.podSets[0].count: Invalid value: -1: spec.podSets[0].count in body should be greater than or equal "
            "to 0",
            id="a minimum of zero",
        ),
        pytest.param(
            "ClusterQueue",
            "spec.preemption.reclaimWithinCohort",
            "LowerOrNewerEqualPriority",
            'spec.preemption.reclaimWithinCohort: Unsupported value: "LowerOrNewerEqualPriority": supported values: '
            '"Never", "LowerPriority", "Any"',
            id="a choice that only another field has",
        ),
        pytest.param(
            "ClusterQueue",
            "spec.preemption.withinClusterQueue",
            "Any",
            'spec.preemption.withinClusterQueue: Unsupported value: "Any": supported values: "Never", "LowerPriority", '
            '"LowerOrNewerEqualPriority"',
            id="and the other way round",
        ),
        pytest.param(
            "LocalQueue",
            "status.conditions",
            [condition("Active"), condition("Active")],
            'status.conditions[1]: Duplicate value: {"type":"Active"}',
            id="items that are the same by their key",
        ),
        pytest.param(
            "ProvisioningRequestConfig",
            "spec.managedResources",
            ["cpu", "cpu"],
            'spec.managedResources[1]: Duplicate value: "cpu"',
            id="items that are the same",
        ),
        pytest.param(
            "ProvisioningRequestConfig",
            "spec.parameters",
            {"a": "x" * 256},
            "spec.parameters[a]: Too long: may not be more than 255 bytes",
            id="a value in a map",
        ),
        pytest.param(
            "ProvisioningRequestConfig",
            "spec.parameters",
            {f"k{i}": "v" for i in range(101)},
            "spec.parameters: Too many: 101: must have at most 100 items",
            id="a map",
        ),
        pytest.param(
            "WorkloadPriorityClass",
            "description",
            "x" * 2049,
            "description: Too long: may not be more than 2048 bytes",
            id="a description",
        ),
        pytest.param(
            "AdmissionCheck",
            "spec.parameters.apiGroup",
            "",
            'spec.parameters.apiGroup: Invalid value: "": spec.parameters.apiGroup in body should be at least 1 chars '
            "long",
            id="a group",
        ),
        pytest.param(
            "AdmissionCheck",
            "status.conditions.0.reason",
            "not a reason",
            'status.conditions[0].reason: Invalid value: "not a reason": status.conditions[0].reason in body should '
            "match '^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$'",
            id="the reason of a condition",
        ),
    ],
)
def test_limits_of_the_schema(kind: str, path: str, value: Any, want: str) -> None:
    errors = errors_of(lambda: load(changed(full_samples()[kind], path, value)))

    assert want in [str(error) for error in errors]


def test_a_flavor_of_many_labels_is_refused() -> None:
    errors = errors_of(lambda: load(flavor(nodeLabels={f"l{i}": "v" for i in range(9)})))

    assert [str(error) for error in errors] == ["spec.nodeLabels: Too many: 9: must have at most 8 items"]


def test_names_that_may_be_missing_may_also_be_valid() -> None:
    load(cluster_queue(cohortName="a.b-c"))
    load(workload(spec={"queueName": "q"}))
