"""The schema data: what is there, how it is resolved, and the facts that patching and validation rest on."""

import re
from importlib import resources
from typing import Any

import pytest

from fairway.apis.machinery.schemas import definitions
from fairway.apis.machinery.schemas.definitions import UnknownDefinition, definition, names
from fairway.apis.machinery.schemas.schema import Schema

CORE = "io.k8s.api.core.v1."
KUEUE = "io.x-k8s.kueue."


def at(name: str, path: str) -> Schema:
    """The schema of a field, where `[]` is any element of a list and `{}` any value of a map."""
    schema = definition(name)
    for step in path.split("."):
        found = schema.items if step == "[]" else schema.values if step == "{}" else schema.properties[step]
        assert found is not None, f"{name} has no {path}"
        schema = found
    return schema


@pytest.mark.parametrize(
    "name",
    [
        *(f"{CORE}{kind}" for kind in ("Namespace", "Node", "Pod", "Event", "ConfigMap", "Secret", "ServiceAccount")),
        f"{CORE}Binding",
        f"{CORE}PodTemplate",
        "io.k8s.api.batch.v1.Job",
        "io.k8s.api.scheduling.v1.PriorityClass",
        "io.k8s.api.coordination.v1.Lease",
        "io.k8s.api.authentication.v1.SelfSubjectReview",
        "io.k8s.api.authorization.v1.SelfSubjectAccessReview",
        "io.k8s.api.authorization.v1.SelfSubjectRulesReview",
        "io.k8s.api.authorization.v1.SubjectAccessReview",
        *(
            f"{KUEUE}{version}.{kind}"
            for version in ("v1beta1", "v1beta2")
            for kind in ("AdmissionCheck", "ClusterQueue", "Cohort", "LocalQueue", "ProvisioningRequestConfig")
        ),
        *(
            f"{KUEUE}{version}.{kind}"
            for version in ("v1beta1", "v1beta2")
            for kind in ("ResourceFlavor", "Topology", "Workload", "WorkloadPriorityClass")
        ),
        "io.x-k8s.autoscaling.v1.ProvisioningRequest",
        "io.ray.v1.RayJob",
        "io.ray.v1.RayCluster",
        "dev.fairway.v1alpha1.ManagedJob",
    ],
)
def test_a_served_kind_has_a_schema(name: str) -> None:
    schema = definition(name)

    assert (schema.type, schema.name) == ("object", name)
    assert schema.properties["metadata"].name == "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def test_every_definition_resolves() -> None:
    for name in names():
        assert definition(name) is definition(name)
        assert definition(name).name == name


def test_an_unknown_name_is_refused() -> None:
    for name in ("io.k8s.api.core.v1.Nothing", "com.example.Thing", ""):
        with pytest.raises(UnknownDefinition):
            definition(name)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        pytest.param(f"{KUEUE}v1beta2.Workload", "spec.podSets.[].template", id="Workload"),
        pytest.param(f"{KUEUE}v1beta1.Workload", "spec.podSets.[].template", id="Workload v1beta1"),
        pytest.param("io.ray.v1.RayCluster", "spec.headGroupSpec.template", id="the head of a RayCluster"),
        pytest.param("io.ray.v1.RayCluster", "spec.workerGroupSpecs.[].template", id="the workers of a RayCluster"),
        pytest.param("io.ray.v1.RayJob", "spec.submitterPodTemplate", id="the submitter of a RayJob"),
        pytest.param("io.k8s.api.batch.v1.Job", "spec.template", id="Job"),
    ],
)
def test_pod_templates_are_one_definition_everywhere(name: str, path: str) -> None:
    assert at(name, path) is definition(f"{CORE}PodTemplateSpec")


@pytest.mark.parametrize(
    ("name", "path", "want"),
    [
        pytest.param(
            f"{CORE}PodSpec",
            "containers",
            {
                "type": "array",
                "list_type": "map",
                "list_keys": ("name",),
                "merge_key": "name",
                "merge_strategy": "merge",
            },
            id="containers merge by name",
        ),
        pytest.param(
            f"{CORE}PodSpec", "volumes", {"merge_strategy": "merge,retainKeys"}, id="volumes keep the keys of the patch"
        ),
        pytest.param(
            f"{CORE}PodSpec", "tolerations", {"list_type": "atomic", "merge_key": ""}, id="tolerations are atomic"
        ),
        pytest.param(
            f"{CORE}Container",
            "ports",
            {"list_keys": ("containerPort", "protocol"), "merge_key": "containerPort"},
            id="ports have two keys",
        ),
        pytest.param(f"{CORE}ContainerPort", "protocol", {"default": "TCP"}, id="a port is TCP"),
        pytest.param(f"{CORE}ContainerPort", "containerPort", {"default": None}, id="a needed number has no default"),
        pytest.param(f"{CORE}ContainerStatus", "imageID", {"default": ""}, id="status is filled with zero values"),
        pytest.param(f"{CORE}ResourceRequirements", "limits.{}", {"type": "", "format": "quantity"}, id="quantities"),
        pytest.param(f"{CORE}Secret", "data.{}", {"type": "string", "format": "byte"}, id="secrets are base64"),
        pytest.param(f"{CORE}Event", "eventTime", {"format": "micro-time"}, id="times in microseconds"),
        pytest.param(f"{CORE}Pod", "metadata.creationTimestamp", {"format": "date-time"}, id="times in seconds"),
        pytest.param(f"{CORE}Pod", "metadata.finalizers", {"list_type": "set"}, id="finalizers are a set"),
        pytest.param(f"{CORE}Pod", "metadata.managedFields.[].fieldsV1", {"open": True}, id="owned fields are free"),
        pytest.param(
            f"{KUEUE}v1beta2.ClusterQueue",
            "spec.resourceGroups.[].flavors.[].resources.[].nominalQuota",
            {"type": "", "format": "int-or-string"},
            id="a custom kind's quantity is a number or a string",
        ),
        pytest.param(
            f"{KUEUE}v1beta2.Workload",
            "spec.podSets",
            {"list_keys": ("name",), "limits": {"minItems": 1, "maxItems": 18}},
            id="limits of lists",
        ),
        pytest.param(f"{KUEUE}v1beta2.Workload", "spec.podSets.[].count", {"default": 1}, id="a custom kind's default"),
        pytest.param(
            f"{KUEUE}v1beta2.ClusterQueue",
            "spec.queueingStrategy",
            {"enum": ("StrictFIFO", "BestEffortFIFO"), "default": "BestEffortFIFO"},
            id="choices",
        ),
        pytest.param(f"{KUEUE}v1beta2.ClusterQueue", "spec.namespaceSelector", {"atomic": True}, id="atomic objects"),
        pytest.param(
            "io.ray.v1.RayCluster", "status.lastUpdateTime", {"nullable": True}, id="a field that may be null"
        ),
        pytest.param("dev.fairway.v1alpha1.ManagedJob", "spec.tasks.[]", {"open": True}, id="open objects"),
    ],
)
def test_the_facts_of_a_field(name: str, path: str, want: dict[str, Any]) -> None:
    schema = at(name, path)

    assert {fact: getattr(schema, fact) for fact in want} == want


def test_a_definition_may_contain_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """No kind does today; a tree of them would otherwise be read for ever."""
    tree = {"dev.fairway.Tree": {"properties": {"label": "string", "children": {"items": "#dev.fairway.Tree"}}}}
    monkeypatch.setattr(definitions, "_data", lambda _file: tree)
    monkeypatch.setattr(definitions, "_resolved", {})

    schema = definition("dev.fairway.Tree")

    assert schema.properties["children"].items is schema


def test_what_a_reference_adds_does_not_change_the_definition() -> None:
    involved = at(f"{CORE}Event", "involvedObject")

    assert involved.default == {}
    assert definition(f"{CORE}ObjectReference").default is None
    assert involved.properties is definition(f"{CORE}ObjectReference").properties


def test_the_data_is_small_and_holds_no_sentences() -> None:
    files = resources.files("fairway.apis.machinery.schemas").joinpath("data").iterdir()
    texts = [file.read_text(encoding="utf-8") for file in files if file.name.endswith(".json")]

    assert len(texts) >= 5
    assert sum(map(len, texts)) < 300_000
    assert [text for text in texts if re.search(r"\w \w", text)] == []


def test_a_schema_is_shown_by_its_name() -> None:
    assert repr(definition(f"{CORE}Pod")) == "<Schema io.k8s.api.core.v1.Pod>"
    assert repr(at(f"{CORE}PodSpec", "nodeName")) == "<Schema string>"
