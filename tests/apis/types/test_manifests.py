"""Reading and writing manifests: shapes, unknown fields, versions, round trips, defaults."""

import datetime as dt
import json
from typing import Any

import msgspec
import pytest

from fairway.apis.kueue.manifests import decode, encode, load, load_as
from fairway.apis.kueue.objects import (
    KINDS,
    ClusterQueue,
    ClusterQueueSpec,
    Condition,
    Metadata,
    PodTemplate,
    PreemptionPolicy,
    ProvisioningRequestConfig,
    QueueingStrategy,
    StopPolicy,
    Workload,
)
from fairway.apis.machinery.quantities import Quantity
from fairway.errors import ValidationError

from .samples import (
    TIME,
    V1BETA2,
    Manifest,
    changed,
    cluster_queue,
    cohort,
    condition,
    errors_of,
    flavor,
    full_samples,
    group,
    local_queue,
    manifest,
    quota,
    workload,
)

KIND_NAMES = sorted(KINDS)


def test_there_is_a_full_sample_of_every_kind() -> None:
    assert sorted(full_samples()) == KIND_NAMES


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_nothing_is_lost_from_a_full_manifest(kind: str) -> None:
    sample = full_samples()[kind]

    assert encode(decode(sample)) == sample
    assert decode(encode(decode(sample))) == decode(sample)


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_what_is_written_is_plain_json(kind: str) -> None:
    written = encode(decode(full_samples()[kind]))

    assert json.loads(json.dumps(written)) == written


@pytest.mark.parametrize("kind", KIND_NAMES)
def test_the_input_stays_as_it_was(kind: str) -> None:
    sample = full_samples()[kind]
    load(sample)
    encode(load(sample), "v1beta1")

    assert sample == full_samples()[kind]


def test_the_values_are_typed() -> None:
    queue = decode(full_samples()["ClusterQueue"])
    assert isinstance(queue, ClusterQueue)
    quotas = queue.spec.resource_groups[0].flavors[0].resources
    assert quotas[0].lending_limit == Quantity.parse("2.5")
    assert quotas[1].borrowing_limit is None
    assert queue.spec.preemption.within_cluster_queue is PreemptionPolicy.LOWER_OR_NEWER_EQUAL_PRIORITY
    assert queue.status.conditions[0].last_transition_time == dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    assert not queue.status.conditions[0].is_true

    work = decode(full_samples()["Workload"])
    assert isinstance(work, Workload)
    assert work.key == "ns/job-sample"
    assert work.spec.pod_sets[0].template.spec["restartPolicy"] == "Never"
    with pytest.raises(AttributeError):
        work.spec = work.spec  # type: ignore[misc]  # the point of the test


def test_defaults_of_the_schema_are_there_at_once_and_written_out() -> None:
    queue = decode(manifest("ClusterQueue", "q"))
    assert isinstance(queue, ClusterQueue)

    assert queue.spec == ClusterQueueSpec()
    assert queue.spec.queueing_strategy is QueueingStrategy.BEST_EFFORT_FIFO
    assert queue.spec.stop_policy is StopPolicy.NONE
    assert queue.spec.namespace_selector is None
    assert encode(decode(changed(manifest("ClusterQueue", "q"), "spec", {})))["spec"] == {
        "queueingStrategy": "BestEffortFIFO",
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
        "preemption": {
            "reclaimWithinCohort": "Never",
            "borrowWithinCohort": {"policy": "Never"},
            "withinClusterQueue": "Never",
        },
        "stopPolicy": "None",
    }


def test_defaults_inside_lists_and_parts() -> None:
    work = decode(workload({"template": {}}))
    assert isinstance(work, Workload)
    assert (work.spec.pod_sets[0].name, work.spec.pod_sets[0].count, work.spec.active) == ("main", 1, True)

    weighted = decode(cluster_queue(fairSharing={}))
    assert isinstance(weighted, ClusterQueue)
    assert weighted.spec.fair_sharing is not None
    assert weighted.spec.fair_sharing.weight == Quantity.parse("1")

    config = decode(manifest("ProvisioningRequestConfig", "c", spec={"provisioningClassName": "x"}))
    assert isinstance(config, ProvisioningRequestConfig)
    assert encode(config)["spec"]["retryStrategy"] == {
        "backoffLimitCount": 3,
        "backoffBaseSeconds": 60,
        "backoffMaxSeconds": 1800,
    }


def test_counters_of_a_status_are_written_even_when_zero() -> None:
    written = encode(decode(manifest("LocalQueue", "q", namespace="ns", status={})))

    assert written["status"] == {"pendingWorkloads": 0, "reservingWorkloads": 0, "admittedWorkloads": 0}


@pytest.mark.parametrize(
    ("sample", "finalizers", "namespace"),
    [
        pytest.param(cluster_queue(), ("kueue.x-k8s.io/resource-in-use",), "", id="a queue is kept while in use"),
        pytest.param(flavor(), ("kueue.x-k8s.io/resource-in-use",), "", id="so is a flavor"),
        pytest.param(cohort(), (), "", id="a cohort is not"),
        pytest.param(local_queue(), (), "ns", id="a namespace stays"),
        pytest.param(manifest("LocalQueue", "q"), (), "default", id="a missing one is the default one"),
        pytest.param(
            manifest("Cohort", "c", namespace="ns"), (), "", id="a kind of the whole cluster is in no namespace"
        ),
        pytest.param(
            manifest("ClusterQueue", "q", metadata={"finalizers": ["kueue.x-k8s.io/resource-in-use", "a/b"]}),
            ("kueue.x-k8s.io/resource-in-use", "a/b"),
            "",
            id="a finalizer is not added twice",
        ),
    ],
)
def test_defaulting(sample: Manifest, finalizers: tuple[str, ...], namespace: str) -> None:
    value = load(sample)

    assert value.metadata.finalizers == finalizers
    assert value.namespace == namespace
    assert load(encode(value)) == value


@pytest.mark.parametrize(
    ("sample", "want"),
    [
        pytest.param(
            changed(cluster_queue(), "spec.cohrotName", "x"),
            "spec.cohrotName: Unknown field",
            id="a misspelt field",
        ),
        pytest.param(changed(cluster_queue(), "zzz", 1), "zzz: Unknown field", id="a field like no other"),
        pytest.param(
            changed(cluster_queue(), "spec.resourceGroups.0.flavors.0.resources.0.NominalQuota", "1"),
            "spec.resourceGroups[0].flavors[0].resources[0].NominalQuota: Unknown field",
            id="wrong case",
        ),
        pytest.param(
            changed(cluster_queue(), "metadata.label", {}),
            "metadata.label: Unknown field",
            id="in the metadata",
        ),
        pytest.param(
            changed(cluster_queue(), "spec.resourceGroups.0.flavors.0.resources.0.nominalQuota", ...),
            "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: Required value",
            id="a missing quota",
        ),
        pytest.param(
            changed(cluster_queue(), "spec.resourceGroups", {}),
            "spec.resourceGroups: Invalid value: {}: must be of type array",
            id="an object for an array",
        ),
        pytest.param(
            changed(cluster_queue(), "spec", "x"),
            'spec: Invalid value: "x": must be of type object',
            id="text",
        ),
        pytest.param(
            changed(cluster_queue(), "spec.resourceGroups.0.coveredResources.0", 5),
            "spec.resourceGroups[0].coveredResources[0]: Invalid value: 5: must be of type string",
            id="a number for text",
        ),
        pytest.param(
            changed(cluster_queue(), "spec.resourceGroups.0.coveredResources.0", None),
            "spec.resourceGroups[0].coveredResources[0]: Invalid value: null: must be of type string",
            id="null in a list",
        ),
        pytest.param(
            changed(cluster_queue(), "spec.queueingStrategy", "FIFO"),
            'spec.queueingStrategy: Unsupported value: "FIFO": supported values: "StrictFIFO", "BestEffortFIFO"',
            id="an unknown choice",
        ),
        pytest.param(
            changed(cluster_queue(), "spec.queueingStrategy", ["StrictFIFO"]),
            'spec.queueingStrategy: Invalid value: ["StrictFIFO"]: must be of type string',
            id="a list of choices",
        ),
        pytest.param(
            changed(cluster_queue(), "spec.cohortName", ""),
            'spec.cohortName: Invalid value: "": spec.cohortName in body should match '
            r"'^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'",
            id="an empty reference",
        ),
        pytest.param(
            changed(cluster_queue(), "metadata.labels", {"a": 1}),
            "metadata.labels[a]: Invalid value: 1: must be of type string",
            id="a label that is a number",
        ),
        pytest.param(
            changed(cluster_queue(), "metadata.labels", {1: "a"}),
            'metadata.labels: Invalid value: "1": keys must be strings: put this one in quotes',
            id="a label whose key is a number",
        ),
        pytest.param(
            changed(workload(), "spec.active", "yes"),
            'spec.active: Invalid value: "yes": must be of type boolean',
            id="text for a boolean",
        ),
        pytest.param(
            changed(workload(), "spec.podSets.0.count", "3"),
            'spec.podSets[0].count: Invalid value: "3": must be of type integer',
            id="text for a number",
        ),
        pytest.param(
            changed(workload(), "spec.podSets.0.count", 1.5),
            "spec.podSets[0].count: Invalid value: 1.5: must be of type integer",
            id="a fraction for a number",
        ),
        pytest.param(
            changed(workload(), "spec.podSets.0.count", value=True),
            "spec.podSets[0].count: Invalid value: true: must be of type integer",
            id="a boolean for a number",
        ),
        pytest.param(
            changed(workload(), "spec.priority", 2**31),
            "spec.priority: Invalid value: 2147483648: must be between -2147483648 and 2147483647",
            id="a number of more than 32 bits",
        ),
        pytest.param(
            changed(workload(), "spec.podSets.0.template", ...),
            "spec.podSets[0].template: Required value",
            id="pods without a template",
        ),
        pytest.param(
            changed(workload(), "metadata.creationTimestamp", "yesterday"),
            'metadata.creationTimestamp: Invalid value: "yesterday": must be a time as RFC 3339 writes it, such as '
            "2026-01-31T12:00:00Z",
            id="text for a time",
        ),
        pytest.param(
            changed(workload(), "metadata.creationTimestamp", "2026-01-02T03:04:05"),
            'metadata.creationTimestamp: Invalid value: "2026-01-02T03:04:05": must be a time as RFC 3339 writes it, '
            "such as 2026-01-31T12:00:00Z",
            id="a time without a zone",
        ),
        pytest.param(
            changed(workload(), "metadata.creationTimestamp", 5),
            "metadata.creationTimestamp: Invalid value: 5: must be of type string",
            id="a number for a time",
        ),
        pytest.param(
            changed(workload(), "metadata.creationTimestamp", "0001-01-01T00:00:00+12:00"),
            'metadata.creationTimestamp: Invalid value: "0001-01-01T00:00:00+12:00": must be a time as RFC 3339 writes '
            "it, such as 2026-01-31T12:00:00Z",
            id="a time before all times",
        ),
        pytest.param(
            cluster_queue(group(quota(nominal="lots"))),
            'spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: Invalid value: "lots": '
            "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota in body should match "
            r"'^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|"
            r"(\.[0-9]+))))?$'",
            id="text for a quantity",
        ),
        pytest.param(
            changed(cluster_queue(), "spec.resourceGroups.0.flavors.0.resources.0.nominalQuota", [1]),
            "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: Invalid value: [1]: must be of type "
            "integer or string",
            id="a list for a quantity",
        ),
        pytest.param(manifest("WorkloadPriorityClass", "p"), "value: Required value", id="a priority without a value"),
    ],
)
def test_what_does_not_have_the_shape_is_refused_with_path_value_and_expectation(sample: Manifest, want: str) -> None:
    assert [str(error) for error in errors_of(lambda: decode(sample))] == [want]


def test_a_quantity_with_an_exponent_beyond_use_is_refused() -> None:
    sample = cluster_queue(group(quota(nominal="1e9999999")))
    assert [error.path for error in errors_of(lambda: decode(sample))] == [
        "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota"
    ]


def test_what_goes_on_and_on_is_refused() -> None:
    inner: list[Any] = []
    for _ in range(5000):
        inner = [inner]
    sample = workload()
    sample["spec"]["podSets"][0]["template"]["spec"]["volumes"] = inner

    assert [error.message for error in errors_of(lambda: decode(sample))] == ["nested too deeply"]


def test_all_mistakes_are_reported_at_once() -> None:
    sample = changed(cluster_queue(), "spec.stopPolicy", "Stop")
    sample = changed(sample, "spec.cohort", "x")
    sample = changed(sample, "spec.resourceGroups.0.flavors.0.resources.0.nominalQuota", None)
    errors = errors_of(lambda: decode(sample))

    assert [(error.path, error.rule) for error in errors] == [
        ("spec.resourceGroups[0].flavors[0].resources[0].nominalQuota", "FieldValueRequired"),
        ("spec.stopPolicy", "FieldValueNotSupported"),
        ("spec.cohort", "FieldUnknown"),
    ]


@pytest.mark.parametrize(
    ("path", "value", "want"),
    [
        pytest.param("metadata.creationTimestamp", None, None, id="null is the same as absent"),
        pytest.param("metadata.labels", {"a": None}, {"a": ""}, id="in a map it is the zero value"),
        pytest.param("status", None, None, id="also for a whole part"),
        pytest.param("spec.podSets.0.count", 3.0, 3, id="a whole number may be written with a point"),
        pytest.param(
            "metadata.creationTimestamp", "2026-01-02T04:04:05.999+01:00", TIME, id="times become UTC seconds"
        ),
    ],
)
def test_what_kubernetes_takes_although_it_is_not_exact(path: str, value: Any, want: Any) -> None:
    plain = encode(decode(workload()))
    written = encode(decode(changed(workload(), path, value)))

    assert written == (plain if want is None else changed(plain, path, want))


def test_quantities_are_written_in_canonical_form() -> None:
    written = encode(decode(cluster_queue(group(quota(nominal="1024Mi"), quota("memory", 1000)))))

    quotas = written["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
    assert [one["nominalQuota"] for one in quotas] == ["1Gi", "1k"]


@pytest.mark.parametrize(
    ("sample", "want"),
    [
        pytest.param(
            {"apiVersion": "v1", "kind": "Pod"},
            'Pod "" is invalid: apiVersion: Unsupported value: "v1": supported values: "kueue.x-k8s.io/v1beta2", '
            '"kueue.x-k8s.io/v1beta1"',
            id="another group",
        ),
        pytest.param(
            {"apiVersion": "kueue.x-k8s.io/v1", "kind": "ClusterQueue", "metadata": {"name": "q"}},
            'ClusterQueue "q" is invalid: apiVersion: Unsupported value: "kueue.x-k8s.io/v1": supported values: '
            '"kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1"',
            id="another version",
        ),
        pytest.param(
            {"apiVersion": V1BETA2, "kind": "Queue", "metadata": []},
            'Queue "" is invalid: kind: Unsupported value: "Queue": supported values: "AdmissionCheck", '
            '"ClusterQueue", "Cohort", "LocalQueue", "ProvisioningRequestConfig", "ResourceFlavor", "Topology", '
            '"Workload", "WorkloadPriorityClass"',
            id="another kind",
        ),
        pytest.param(
            {"kind": 3},
            'Object "" is invalid: [apiVersion: Required value, kind: Invalid value: 3: must be a string]',
            id="neither",
        ),
        pytest.param(
            [], 'Object "" is invalid: Invalid value: []: a manifest must be an object', id="not an object at all"
        ),
    ],
)
def test_what_is_not_served_is_refused_by_naming_what_is(sample: Any, want: str) -> None:
    with pytest.raises(ValidationError) as caught:
        decode(sample)

    assert str(caught.value) == want


def test_only_served_versions_are_written() -> None:
    with pytest.raises(ValueError, match="the versions are v1beta2, v1beta1"):
        encode(decode(cluster_queue()), "v1alpha1")


def test_load_refuses_with_every_broken_rule() -> None:
    sample = cluster_queue(group(quota(nominal="-1", borrowingLimit="-2")))

    with pytest.raises(ValidationError) as caught:
        load(sample)
    assert str(caught.value) == (
        'ClusterQueue "team-a" is invalid: ['
        'spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: Invalid value: "-1": '
        "must be greater than or equal to 0, "
        'spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit: Invalid value: "-2": '
        "must be nil when cohort is empty, "
        'spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit: Invalid value: "-2": '
        "must be greater than or equal to 0]"
    )


def test_times_need_a_zone_and_lose_fractions_also_in_code() -> None:
    fields = msgspec.structs.asdict(msgspec.convert(condition("Active"), Condition)) | {
        "last_transition_time": dt.datetime(2026, 1, 2, 3, 4, 5, 999, tzinfo=dt.UTC)
    }

    assert Condition(**fields).last_transition_time.isoformat() == "2026-01-02T03:04:05+00:00"
    with pytest.raises(ValueError, match="has no time zone"):
        Condition(**(fields | {"last_transition_time": dt.datetime(2026, 1, 2)}))  # noqa: DTZ001  the point


def test_metadata_can_be_changed_by_making_another_object() -> None:
    queue = decode(cluster_queue()).with_metadata(uid="u")

    assert (queue.metadata.uid, queue.name, queue.key) == ("u", "team-a", "team-a")


def test_a_pod_template_stays_plain() -> None:
    spec = {"containers": [{"name": "c", "env": [{"name": "A", "value": None}]}], "nodeSelector": {"a": "b"}}
    work = decode(workload({"template": {"spec": spec}}))
    assert isinstance(work, Workload)

    want = {"containers": [{"name": "c", "env": [{"name": "A"}]}], "nodeSelector": {"a": "b"}}
    assert encode(work)["spec"]["podSets"][0]["template"]["spec"] == work.spec.pod_sets[0].template.spec
    assert work.spec.pod_sets[0].template == PodTemplate(metadata=Metadata(), spec=want)


def test_loading_as_another_kind_is_refused() -> None:
    with pytest.raises(ValidationError) as refused:
        load_as(ClusterQueue, {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Cohort", "metadata": {"name": "a"}})

    assert (
        str(refused.value)
        == 'Cohort "a" is invalid: kind: Unsupported value: "Cohort": supported values: "ClusterQueue"'
    )
