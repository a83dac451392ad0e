"""Rules of the core kinds that no recording shows: sizes, references to what is not looked up, what stays untouched."""

import copy
from base64 import b64encode
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apis.core import replay
from fairway.apis.batch.indexes import IndexesFault, read_indexes
from fairway.apis.core.pod_defaults import pull_policy
from fairway.apis.core.pod_specs import found_wrong, wrong_pod_spec
from fairway.apis.core.resources import qos_class
from fairway.apis.machinery import metadata_rules as metadata
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.schemas.schema import Schema
from fairway.apis.machinery.schemas.walk import inspect

MEBIBYTE = 1024 * 1024


def object_of(kind: str, **fields: Any) -> Manifest:
    record = replay.KINDS[kind]
    own = {"name": "a", "namespace": "n", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    manifest = {"apiVersion": record.api_version("v1"), "kind": kind, "metadata": own, **fields}
    record.rules.default(manifest)
    record.rules.prepare_create(manifest)
    return manifest


def causes(kind: str, manifest: Manifest) -> set[tuple[str, str]]:
    return {(error.rule, error.path) for error in replay.KINDS[kind].rules.validate(manifest)}


def pod(**spec: Any) -> Manifest:
    return object_of("Pod", spec={"containers": [{"name": "main", "image": "a:1"}], **spec})


@pytest.mark.parametrize(
    ("kind", "data", "refused"),
    [
        ("ConfigMap", {"data": {"a": "x" * MEBIBYTE}}, set()),
        ("ConfigMap", {"data": {"a": "x" * MEBIBYTE, "b": "y"}}, {("FieldValueTooLong", "")}),
        ("ConfigMap", {"binaryData": {"a": b64encode(b"x" * MEBIBYTE).decode()}}, set()),
        ("ConfigMap", {"binaryData": {"a": b64encode(b"x" * (MEBIBYTE + 1)).decode()}}, {("FieldValueTooLong", "")}),
        ("Secret", {"data": {"a": b64encode(b"x" * MEBIBYTE).decode()}}, set()),
        ("Secret", {"stringData": {"a": "x" * (MEBIBYTE + 1)}}, {("FieldValueTooLong", "data")}),
    ],
)
def test_a_mebibyte_fits_into_a_config_map_or_a_secret_and_no_more(
    kind: str, data: dict[str, Any], refused: set[tuple[str, str]]
) -> None:
    assert causes(kind, object_of(kind, **data)) == refused


def test_a_named_priority_class_is_left_for_others_to_look_up() -> None:
    spec = pod(priorityClassName="important")["spec"]
    assert "priority" not in spec
    assert "preemptionPolicy" not in spec


def test_a_job_with_the_labels_of_its_template_written_out_gets_no_more_of_them() -> None:
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"restartPolicy": "Never"}}
    job = object_of("Job", spec={"template": copy.deepcopy(template)})
    assert job["metadata"]["labels"].keys() == job["spec"]["template"]["metadata"]["labels"].keys()
    said: Manifest = {"metadata": {"name": "a", "uid": "u", "labels": {"app": "x"}}, "spec": {"template": template}}
    replay.KINDS["Job"].rules.default(said)
    replay.KINDS["Job"].rules.prepare_create(said)
    assert said["metadata"]["labels"] == {"app": "x"}


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("busybox", "Always"),
        ("busybox:latest", "Always"),
        ("example.com:5000/team/busybox", "Always"),
        ("busybox:1.36", "IfNotPresent"),
        ("busybox@sha256:" + "0" * 64, "IfNotPresent"),
        ("busybox:latest@sha256:" + "0" * 64, "Always"),
        ("Upper/Case", "IfNotPresent"),
        ("", "IfNotPresent"),
    ],
)
def test_what_can_change_under_its_name_is_always_pulled(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


@pytest.mark.parametrize(
    ("resources", "shown"),
    [
        ([{}], "BestEffort"),
        ([{"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}], "BestEffort"),
        ([{"requests": {"cpu": "0"}}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        ([{"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1", "memory": "1"}}], "Guaranteed"),
        ([{"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1000m", "memory": "1"}}], "Guaranteed"),
        ([{"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "2", "memory": "1"}}], "Burstable"),
        ([{"requests": {"cpu": "1", "memory": "1"}, "limits": {"cpu": "1", "memory": "1"}}, {}], "Burstable"),
    ],
)
def test_the_class_of_service_follows_from_cpu_and_memory(resources: list[dict[str, Any]], shown: str) -> None:
    assert qos_class({"containers": [{"resources": one} for one in resources]}) == shown


@pytest.mark.parametrize(
    ("text", "intervals"),
    [("", []), ("0", [(0, 0)]), ("0,2-4", [(0, 0), (2, 4)])],
)
def test_indexes_are_read_as_intervals(text: str, intervals: list[tuple[int, int]]) -> None:
    assert read_indexes(text, 5) == intervals


@pytest.mark.parametrize("text", ["5", "1-5", "a", "1-", "-1", "1-2-3", "2,1", "1,1", "3-2", "2-2", "\u0661"])
def test_what_is_no_set_of_indexes_is_refused(text: str) -> None:
    with pytest.raises(IndexesFault):
        read_indexes(text, 5)


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({}, set()),
        ({"name": "b"}, {"metadata.name"}),
        ({"uid": "v"}, {"metadata.uid"}),
        ({"uid": None}, set()),
        ({"creationTimestamp": "2026-01-02T00:00:00Z"}, {"metadata.creationTimestamp"}),
        ({"generation": 1}, {"metadata.generation"}),
        ({"generation": 3}, set()),
        ({"finalizers": ["example.com/b"]}, {"metadata.finalizers"}),
        ({"finalizers": []}, set()),
    ],
)
def test_identity_stays_and_who_is_being_deleted_takes_no_more_finalizers(
    changes: dict[str, Any], fields: set[str]
) -> None:
    old = {
        "name": "a",
        "uid": "u",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "deletionTimestamp": "2026-01-01T00:00:01Z",
        "generation": 2,
        "finalizers": ["example.com/a"],
    }
    errors = metadata.wrong_metadata_update({"metadata": old}, {"metadata": {**old, **changes}})
    assert {error.path for error in errors} == fields


@pytest.mark.parametrize(
    ("kind", "fields", "selected"),
    [
        ("Pod", {"spec": {"nodeName": "n1", "hostNetwork": True}}, {"spec.nodeName": "n1", "spec.hostNetwork": "true"}),
        ("Pod", {"spec": {}}, {"spec.nodeName": "", "spec.hostNetwork": "false", "status.phase": "Pending"}),
        ("Job", {"spec": {}}, {"status.successful": "0"}),
        ("Node", {"spec": {"unschedulable": True}}, {"spec.unschedulable": "true"}),
        ("Namespace", {}, {"status.phase": "Active"}),
        ("Secret", {}, {"type": "Opaque"}),
        (
            "Event",
            {"involvedObject": {"kind": "Pod", "name": "web"}, "reportingComponent": "runner", "type": "Normal"},
            {"involvedObject.kind": "Pod", "involvedObject.uid": "", "source": "runner", "type": "Normal"},
        ),
        ("Event", {"source": {"component": "old"}, "reportingComponent": "new"}, {"source": "old"}),
    ],
)
def test_field_selectors_see_text(kind: str, fields: dict[str, Any], selected: dict[str, str]) -> None:
    manifest = object_of(kind, **fields)
    values = {path: value(manifest) for path, value in replay.KINDS[kind].selectable.items()}
    assert selected.items() <= values.items()


STEPS = [step for _, step in replay.steps() if step.verb != "create"]


def test_an_update_leaves_the_old_object_as_it_was() -> None:
    for step in STEPS:
        before = copy.deepcopy(step.before)
        new = {**step.before, "status": step.sent.get("status"), "metadata": dict(step.before["metadata"])}
        rules = step.kind.rules
        rules.default(new)
        rules.prepare_update(step.before, new)
        rules.validate_update(step.before, new)
        assert step.before == before


TEXTS = (
    "",
    "a",
    "A!",
    "Always",
    "Never",
    "In",
    "Indexed",
    "10.0.0.1",
    "..",
    "/a/../b",
    "1Gi",
    "nvidia.com/gpu",
    "x" * 300,
)
NUMBERS = (0, 1, -1, 80, 70_000, 2**31 - 1)


def invented(schema: Schema, chance: Random, depth: int = 0) -> Any:
    """Something of the schema's shape, with values that rules have an opinion about."""
    if schema.type == "object":
        if schema.values is not None:
            return {
                chance.choice(TEXTS): invented(schema.values, chance, depth + 1) for _ in range(chance.randint(0, 2))
            }
        share = max(0.15, 0.9 - 0.12 * depth)
        return {
            name: invented(part, chance, depth + 1)
            for name, part in schema.properties.items()
            if name in schema.required or chance.random() < share * min(1, 8 / len(schema.properties))
        }
    if schema.type == "array":
        return [invented(schema.items or Schema(), chance, depth + 1) for _ in range(chance.randint(0, 2))]
    if schema.type == "boolean":
        return chance.random() < 0.5
    if schema.type in ("integer", "number"):
        return chance.choice(NUMBERS)
    if schema.format == "int-or-string":
        return chance.choice([*NUMBERS, *TEXTS])
    if schema.format in ("date-time", "micro-time"):
        return chance.choice(["2026-01-01T00:00:00Z", "2020-01-01T00:00:00Z"])
    if schema.format == "quantity":
        return chance.choice(["1", "500m", "1Gi", "-1", "0"])
    if schema.format == "byte":
        return "AAEC"
    return chance.choice([*schema.enum, *TEXTS])


@settings(max_examples=150, deadline=None)
@given(kind=st.sampled_from(sorted(replay.KINDS)), chance=st.randoms(use_true_random=False))
def test_whatever_has_the_right_shape_is_answered_and_shown(kind: str, chance: Random) -> None:
    record = replay.KINDS[kind]
    schema = record.schemas["v1"]()
    made = []
    for _ in range(2):
        manifest = invented(schema, chance)
        inspect(schema, manifest)
        manifest["metadata"] = {**manifest.get("metadata", {}), "name": "a", "namespace": "n", "uid": "u"}
        record.rules.default(manifest)
        made.append(manifest)
    old, new = made
    record.rules.prepare_create(old)
    record.rules.validate(old)
    record.rules.prepare_update(old, new)
    record.rules.validate_update(old, new)
    again = copy.deepcopy(new)
    record.rules.default(again)
    assert again == new
    for column in record.columns["v1"]:
        column.value(new, replay.NOW)
    assert all(isinstance(value(new), str) for value in record.selectable.values())


@pytest.mark.parametrize(
    "spec",
    [
        pod()["spec"],
        pod(hostNetwork=True, containers=[{"name": "a", "image": "a", "ports": [{"containerPort": 80}]}])["spec"],
        pod(restartPolicy="Sometimes")["spec"],
        pod(containers=[{"name": "a", "image": "a", "args": ["x" * 20_000]}])["spec"],
        pod(containers=[{"name": "A", "image": "a", "args": ["x" * 20_000]}])["spec"],
        pod(containers=[{"name": "a", "image": "a", "args": ["\ud800"]}])["spec"],
        pod(nodeSelector={"a": "b"}, tolerations=[{"operator": "Sometimes"}])["spec"],
    ],
)
@pytest.mark.parametrize("is_pod", [True, False])
def test_a_pod_spec_that_was_judged_before_is_judged_the_same(*, spec: dict[str, Any], is_pod: bool) -> None:
    judged = [found_wrong(spec, path, is_pod=is_pod) for path in ("spec", "template.spec")]

    for _ in range(3):
        assert [wrong_pod_spec(spec, path, is_pod=is_pod) for path in ("spec", "template.spec")] == judged
        wrong_pod_spec(spec, "spec", is_pod=not is_pod)  # as the other it may well be right


def test_however_many_pod_specs_were_judged_a_wrong_one_is_wrong() -> None:
    for number in range(600):  # more than are remembered
        assert not wrong_pod_spec(pod(hostname=f"h{number}")["spec"], "spec", is_pod=True)
        assert wrong_pod_spec(pod(hostname=f"h_{number}")["spec"], "spec", is_pod=True)
