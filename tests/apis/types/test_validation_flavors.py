"""Rules about flavors, topologies and admission checks, when they are made and when they change."""

from typing import Any

import pytest

from fairway.apis.kueue.manifests import load

from .samples import Manifest, changed, errors_of, flavor, full_samples, manifest, validate_update

EFFECTS = "supported taint effect values: 'NoSchedule', 'PreferNoSchedule', 'NoExecute'"


def taint(**fields: Any) -> Manifest:
    return {"key": "spot", "value": "true", "effect": "NoSchedule"} | fields


def topology(*labels: str) -> Manifest:
    return manifest("Topology", "t", spec={"levels": [{"nodeLabel": label} for label in labels]})


@pytest.mark.parametrize(
    ("sample", "want"),
    [
        pytest.param(
            flavor(nodeLabels={"a": "b c"}),
            'spec.nodeLabels: Invalid value: "b c": a valid label must be',
            id="labels of nodes are labels",
        ),
        pytest.param(
            flavor(nodeTaints=[taint(effect="Never")]),
            f'spec.nodeTaints[0].effect: Invalid value: "Never": {EFFECTS}',
            id="an unknown effect",
        ),
        pytest.param(
            flavor(nodeTaints=[taint(key="a b")]),
            'spec.nodeTaints[0].key: Invalid value: "a b": name part must consist',
            id="the key of a taint",
        ),
        pytest.param(
            flavor(nodeTaints=[taint(value="a b")]),
            'spec.nodeTaints[0].value: Invalid value: "a b": a valid label must be',
            id="the value of a taint",
        ),
        pytest.param(
            flavor(nodeTaints=[taint(), taint(value="false")]),
            'spec.nodeTaints[1]: Duplicate value: {"key":"spot","value":"false","effect":"NoSchedule"}: taints '
            "must be unique by key and effect pair",
            id="the same taint twice",
        ),
        pytest.param(
            flavor(nodeTaints=[taint(key=f"k{i}") for i in range(9)]),
            "spec.nodeTaints: Too many: 9: must have at most 8 items",
            id="too many taints",
        ),
        pytest.param(
            flavor(tolerations=[{"key": "a b", "operator": "Exists"}]),
            'spec.tolerations[0].key: Invalid value: "a b": name part must consist',
            id="the key of a toleration",
        ),
        pytest.param(
            flavor(tolerations=[{"operator": "Equal", "value": "x"}]),
            'spec.tolerations[0]: Invalid value: {"operator":"Equal","value":"x"}: operator must be Exists when '
            "'key' is empty, which means 'match all values and all keys'",
            id="all keys have no common value",
        ),
        pytest.param(
            flavor(tolerations=[{"key": "a", "tolerationSeconds": 5, "effect": "NoSchedule"}]),
            'spec.tolerations[0]: Invalid value: {"key":"a","tolerationSeconds":5,"effect":"NoSchedule"}: effect '
            "must be 'NoExecute' when 'tolerationSeconds' is set",
            id="only running pods have time left",
        ),
        pytest.param(
            flavor(tolerations=[{"key": "a", "operator": "Gt", "value": "5"}]),
            'spec.tolerations[0]: Invalid value: {"key":"a","operator":"Gt","value":"5"}: supported toleration '
            "values: 'Equal'(default), 'Exists'",
            id="flavors do not compare numbers",
        ),
        pytest.param(
            flavor(tolerations=[{"key": "a", "operator": "Exists", "value": "5"}]),
            'spec.tolerations[0]: Invalid value: {"key":"a","operator":"Exists","value":"5"}: a value must be '
            "empty when 'operator' is 'Exists'",
            id="Exists has no value",
        ),
        pytest.param(
            flavor(tolerations=[{"key": "a", "effect": "x"}]),
            f'spec.tolerations[0]: Invalid value: {{"key":"a","effect":"x"}}: {EFFECTS}',
            id="an unknown effect of a toleration",
        ),
        pytest.param(
            flavor(tolerations=[{"operator": "Exists"}] * 9),
            "spec.tolerations: Too many: 9: must have at most 8 items",
            id="too many tolerations",
        ),
        pytest.param(
            flavor(topologyName="racks"),
            'spec: Invalid value: {"topologyName":"racks"}: at least one nodeLabel is required when topology is set',
            id="a topology needs to know its nodes",
        ),
        pytest.param(topology("a", "a"), 'spec.levels: Invalid value: ["a","a"]: must be unique', id="a level twice"),
        pytest.param(
            topology("kubernetes.io/hostname", "rack"),
            'spec.levels: Invalid value: ["kubernetes.io/hostname","rack"]: the kubernetes.io/hostname label can only '
            "be used at the lowest level of topology",
            id="hosts contain nothing",
        ),
        pytest.param(
            topology(*(f"l{i}" for i in range(17))),
            "spec.levels: Too many: 17: must have at most 16 items",
            id="too many levels",
        ),
        pytest.param(
            topology("a b"), 'spec.levels[0].nodeLabel: Invalid value: "a b": spec.levels[0]', id="a level is a label"
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
        pytest.param(flavor(), id="a flavor without anything"),
        pytest.param(flavor(nodeTaints=[taint(), taint(effect="NoExecute")]), id="two effects of one key"),
        pytest.param(flavor(tolerations=[{"key": "a", "value": ""}]), id="an empty value"),
        pytest.param(topology("rack", "kubernetes.io/hostname"), id="hosts at the bottom"),
    ],
)
def test_these_are_fine(sample: Manifest) -> None:
    load(sample)


PLACED = flavor(nodeLabels={"a": "b"}, topologyName="racks", tolerations=[{"operator": "Exists"}])


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(
            PLACED,
            changed(PLACED, "spec.nodeLabels", {"a": "c"}),
            'spec.nodeLabels: Invalid value: {"a":"c"}: nodeLabels are immutable when topologyName is set',
            id="labels of a placed flavor",
        ),
        pytest.param(
            PLACED,
            changed(PLACED, "spec.tolerations", []),
            "spec.tolerations: Invalid value: null: tolerations are immutable when topologyName is set",
            id="tolerations of a placed flavor",
        ),
        pytest.param(
            PLACED,
            changed(PLACED, "spec.topologyName", "rows"),
            'spec.topologyName: Invalid value: "rows": topologyName is immutable when topologyName is set',
            id="the topology of a placed flavor",
        ),
        pytest.param(
            topology("a", "b"),
            topology("a"),
            'spec.levels: Invalid value: [{"nodeLabel":"a"}]: field is immutable',
            id="the levels of a topology",
        ),
        pytest.param(
            full_samples()["AdmissionCheck"],
            changed(full_samples()["AdmissionCheck"], "spec.controllerName", "x/y"),
            'spec.controllerName: Invalid value: "x/y": field is immutable',
            id="who answers a check",
        ),
    ],
)
def test_what_may_not_change(old: Manifest, new: Manifest, want: str) -> None:
    assert [str(error) for error in errors_of(lambda: validate_update(load(old), load(new)))] == [want]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(flavor(nodeLabels={"a": "b"}), PLACED, id="a flavor may be placed"),
        pytest.param(PLACED, changed(PLACED, "spec.nodeTaints", [taint()]), id="taints of a placed flavor"),
        pytest.param(
            full_samples()["AdmissionCheck"],
            changed(full_samples()["AdmissionCheck"], "spec.parameters", ...),
            id="the parameters of a check",
        ),
        pytest.param(
            manifest("WorkloadPriorityClass", "p", value=1),
            manifest("WorkloadPriorityClass", "p", value=2),
            id="the value of a priority",
        ),
    ],
)
def test_what_may_change(old: Manifest, new: Manifest) -> None:
    validate_update(load(old), load(new))
