"""Kueue's rules on manifests: what they refuse beside the schema, and that nothing is checked twice."""

import copy

import msgspec
import pytest

from apis.types import samples
from apis.types.samples import Manifest
from fairway.apis.core.pod_requests import PodSpec
from fairway.apis.kueue.objects import KINDS as TYPES
from fairway.apis.kueue.records import KINDS
from fairway.apis.machinery.kind import Kind
from fairway.apis.machinery.schemas.schema import Schema
from fairway.apis.machinery.schemas.walk import inspect
from fairway.errors import FieldError

BY_KIND: dict[str, Kind] = {kind.kind: kind for kind in KINDS}
WORKLOAD = BY_KIND["Workload"].rules
GATES = "metadata.annotations[kueue.x-k8s.io/admission-gated-by]"


def paths(errors: list[FieldError]) -> list[str]:
    return [error.path for error in errors]


@pytest.mark.parametrize("name", sorted(BY_KIND))
def test_a_full_object_passes_the_schema_and_the_rules_as_it_is(name: str) -> None:
    kind, manifest = BY_KIND[name], samples.full_samples()[name]
    findings = inspect(kind.schemas[kind.stored](), manifest)
    assert (findings.errors, findings.unknown) == ([], [])
    assert kind.rules.validate(manifest) == []
    assert kind.rules.validate_update(copy.deepcopy(manifest), manifest) == []


@pytest.mark.parametrize(
    ("manifest", "want"),
    [
        pytest.param(
            samples.workload(samples.pod_set(minCount=3)),
            "spec.podSets[0].minCount",
            id="a pod set that wants more than it has",
        ),
        pytest.param(samples.workload(metadata={"labels": {"-": "x"}}), "metadata.labels", id="a label with a bad key"),
        pytest.param(samples.cluster_queue(cohortName="Not A Name"), "spec.cohortName", id="a cohort with a bad name"),
        pytest.param(
            samples.cluster_queue(samples.group(samples.quota(borrowingLimit="1"))),
            "spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit",
            id="borrowing without a cohort",
        ),
        pytest.param(samples.flavor(topologyName="t"), "spec", id="a topology without node labels"),
        pytest.param(
            samples.manifest("LocalQueue", "UPPER", namespace="ns", spec={"clusterQueue": "c"}),
            "metadata.name",
            id="a bad name",
        ),
        pytest.param(samples.local_queue(clusterQueue=5), "spec.clusterQueue", id="a field of the wrong type"),
        pytest.param(samples.manifest("WorkloadPriorityClass", "high"), "value", id="a field that is missing"),
    ],
)
def test_an_object_is_refused_by_the_schema_or_by_the_rules(manifest: Manifest, want: str) -> None:
    kind = BY_KIND[manifest["kind"]]
    errors = inspect(kind.schemas[kind.stored](), manifest).errors or kind.rules.validate(manifest)
    assert paths(errors) == [want]


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(samples.workload(), samples.workload(samples.pod_set(count=2)), [], id="a pending one may grow"),
        pytest.param(
            samples.admitted(),
            samples.admitted(samples.pod_set(count=5)),
            ["spec.podSets[0]", "status.admission"],
            id="an admitted one may not grow",
        ),
        pytest.param(
            samples.admitted(spec={"queueName": "a"}),
            samples.admitted(spec={"queueName": "b"}),
            ["spec.queueName"],
            id="an admitted one may not move",
        ),
        pytest.param(
            samples.admitted(),
            samples.admitted(metadata={"labels": {"a": "b"}}),
            [],
            id="an admitted one may be labelled",
        ),
        pytest.param(
            samples.workload(),
            samples.workload(status={"conditions": [samples.condition("QuotaReserved")]}),
            ["status.admission"],
            id="quota without an admission",
        ),
        pytest.param(
            samples.workload(),
            samples.workload(status={"reclaimablePods": [{"name": "other", "count": 1}]}),
            ["status.reclaimablePods[other].name"],
            id="pods given back that it does not have",
        ),
        pytest.param(
            samples.workload(),
            samples.workload(status={"conditions": [samples.condition("Admitted", reason="not one word")]}),
            ["status.conditions[0].reason"],
            id="a status beyond the limits",
        ),
        pytest.param(
            samples.local_queue(clusterQueue="a"),
            samples.local_queue(clusterQueue="b"),
            ["spec.clusterQueue"],
            id="a queue may not move",
        ),
        pytest.param(
            samples.workload(metadata={"uid": "1"}),
            samples.workload(metadata={"uid": "2"}),
            ["metadata.uid"],
            id="an identity may not change",
        ),
    ],
)
def test_a_change_is_judged_by_the_schema_and_the_rules(old: Manifest, new: Manifest, want: list[str]) -> None:
    kind = BY_KIND[old["kind"]]
    errors = inspect(kind.schemas[kind.stored](), new).errors or kind.rules.validate_update(old, new)
    assert paths(errors) == want


@pytest.mark.parametrize(
    ("annotations", "pod_set", "want"),
    [
        pytest.param({"kueue.x-k8s.io/admission-gated-by": "no domain"}, {}, [GATES], id="a gate without a domain"),
        pytest.param(
            {"kueue.x-k8s.io/elastic-job": "true"}, {"minCount": 1}, ["spec.podSets"], id="elastic and partial"
        ),
        pytest.param({"kueue.x-k8s.io/elastic-job": "true"}, {}, [], id="elastic alone"),
    ],
)
def test_annotations_are_checked_beside_a_spec_that_was_accepted_before(
    annotations: dict[str, str], pod_set: Manifest, want: list[str]
) -> None:
    """The spec of another workload is not checked again, but what the annotations say of it is."""
    manifest = samples.workload(samples.pod_set(**pod_set), metadata={"annotations": annotations})
    stored = manifest | {"spec": msgspec.Raw(msgspec.json.encode(manifest["spec"]))}
    assert WORKLOAD.validate_metadata is not None
    assert paths(WORKLOAD.validate_metadata(stored)) == paths(WORKLOAD.validate(manifest)) == want


def test_a_spec_that_was_accepted_before_the_rule_came_may_stay_while_the_status_changes() -> None:
    """Kueue's controllers go on with workloads that were stored under laxer rules."""
    old = samples.workload(samples.pod_set(minCount=3))
    new = copy.deepcopy(old) | {"status": {"conditions": [samples.condition("PodsReady")]}}
    assert WORKLOAD.validate_update(old, new) == []
    new["spec"]["active"] = False
    assert paths(WORKLOAD.validate_update(old, new)) == ["spec.podSets[0].minCount"]


def test_a_stored_object_that_cannot_be_read_is_reported_and_not_raised() -> None:
    old, new = samples.local_queue(clusterQueue=5), samples.local_queue()
    assert paths(BY_KIND["LocalQueue"].rules.validate_update(old, new)) == ["spec.clusterQueue"]


def test_nulls_are_taken_for_what_is_not_set_beside_a_spec_that_stays() -> None:
    old = samples.workload()
    new = copy.deepcopy(old) | {"status": {"admission": None, "conditions": None}}
    assert WORKLOAD.validate_update(old, new) == []


@pytest.mark.parametrize("name", ["ClusterQueue", "ResourceFlavor"])
def test_no_finalizer_is_added_where_no_controller_would_take_it_away(name: str) -> None:
    rules, manifest = BY_KIND[name].rules, {"metadata": {"name": "x", "finalizers": ["example.com/mine"]}}
    rules.default(manifest)
    rules.prepare_create(manifest)
    assert manifest["metadata"]["finalizers"] == ["example.com/mine"]


def test_a_finalizer_that_is_taken_away_stays_away() -> None:
    """An update adds no finalizer; otherwise no queue could be deleted."""
    rules, manifest = BY_KIND["ClusterQueue"].rules, samples.cluster_queue()
    before = copy.deepcopy(manifest)
    rules.default(manifest)
    rules.prepare_update(before, manifest)
    assert manifest == before


def test_other_kinds_get_no_finalizer() -> None:
    manifest = samples.workload()
    before = copy.deepcopy(manifest)
    WORKLOAD.prepare_create(manifest)
    assert manifest == before


@pytest.mark.parametrize("name", sorted(TYPES))
def test_the_schema_and_the_type_of_a_kind_know_the_same_fields(name: str) -> None:
    """Else a field would pass the schema and be refused by the rules, or be dropped before they see it."""
    differences: list[str] = []
    kind = BY_KIND[name]
    schema = kind.schemas[kind.stored]()
    _compare(schema, msgspec.inspect.type_info(TYPES[name]), name, differences)
    if name == "Workload":
        template = schema.properties["spec"].properties["podSets"].items
        assert template is not None
        pod_spec = template.properties["template"].properties["spec"]
        assert set(PodSpec.__struct_encode_fields__) <= pod_spec.properties.keys()
    assert differences == [f"{name} apiVersion", f"{name} kind"]


def _compare(schema: Schema, node: msgspec.inspect.Type, path: str, differences: list[str]) -> None:
    while isinstance(node, msgspec.inspect.Metadata):
        node = node.type
    if isinstance(node, msgspec.inspect.UnionType):
        node = next(one for one in node.types if not isinstance(one, msgspec.inspect.NoneType))
        _compare(schema, node, path, differences)
    elif isinstance(node, msgspec.inspect.StructType) and schema.properties:
        fields = {one.encode_name: one.type for one in node.fields}
        differences += [f"{path} {name}" for name in sorted(fields.keys() ^ schema.properties.keys())]
        for name in fields.keys() & schema.properties.keys():
            _compare(schema.properties[name], fields[name], f"{path}.{name}", differences)
    elif isinstance(node, msgspec.inspect.VarTupleType) and schema.items is not None:
        _compare(schema.items, node.item_type, f"{path}[]", differences)
    elif isinstance(node, msgspec.inspect.DictType) and schema.values is not None:
        _compare(schema.values, node.value_type, f"{path}[*]", differences)
