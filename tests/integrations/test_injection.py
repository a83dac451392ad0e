"""What admission adds to pod templates, and how it goes away again."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.apis.machinery.kind import Manifest
from fairway.integrations.injection import (
    FlavorMissing,
    InjectionConflict,
    PodSetInfo,
    difference,
    infos_of,
    inject,
    injected,
    restore,
)
from fairway.store.patching.merge import merge_patch

FLAVORS: dict[str, Manifest] = {
    "spot": {"spec": {"nodeLabels": {"kind": "spot"}, "tolerations": [{"key": "spot", "operator": "Exists"}]}},
    "a100": {"spec": {"nodeLabels": {"gpu": "a100"}}},
    "plain": {},
}
EVERYWHERE = {"key": "a", "operator": "Exists"}


def admitted(
    flavors: dict[str, str], *, queue: str = "team", checks: tuple[Manifest, ...] = (), **assignment: Any
) -> Manifest:
    return {
        "metadata": {"name": "job-a-12345"},
        "spec": {"queueName": "user", "podSets": [{"name": "main", "count": 3, "template": {}}]},
        "status": {
            "admission": {
                "clusterQueue": queue,
                "podSetAssignments": [{"name": "main", "flavors": flavors, **assignment}],
            },
            "admissionChecks": list(checks),
        },
    }


def update(check: str, **what: Any) -> Manifest:
    return {"name": check, "state": "Ready", "podSetUpdates": [{"name": "other"}, {"name": "main", **what}]}


LABELS: dict[str, Any] = {
    "kueue.x-k8s.io/podset": "main",
    "kueue.x-k8s.io/local-queue-name": "user",
    "kueue.x-k8s.io/cluster-queue-name": "team",
}
ANNOTATIONS: dict[str, Any] = {"kueue.x-k8s.io/workload": "job-a-12345"}


@pytest.mark.parametrize(
    ("workload", "want"),
    [
        pytest.param(
            admitted({"cpu": "spot", "memory": "spot", "gpu": "a100"}, count=2),
            {"count": 2, "node_selector": {"kind": "spot", "gpu": "a100"},
             "tolerations": FLAVORS["spot"]["spec"]["tolerations"]},
            id="each flavor once, with the admitted count",
        ),
        pytest.param(admitted({"cpu": "plain"}), {}, id="the asked count where none is said"),
        pytest.param(admitted({"cpu": "plain"}, queue="a.b"),
                     {"labels": {key: value for key, value in LABELS.items() if value != "team"}},
                     id="no label for a queue whose name is none for a label"),
        pytest.param(
            admitted({"cpu": "spot"}, checks=(update("prov", labels={"a": "b"}, annotations={"c": "d"},
                                                     nodeSelector={"e": "f"}, tolerations=[EVERYWHERE]),)),
            {"labels": LABELS | {"a": "b"}, "annotations": ANNOTATIONS | {"c": "d"},
             "node_selector": {"kind": "spot", "e": "f"},
             "tolerations": [*FLAVORS["spot"]["spec"]["tolerations"], EVERYWHERE]},
            id="what checks ask for",
        ),
        pytest.param(
            admitted({"cpu": "plain"}, topologyAssignment={"levels": ["rack"]}),
            {"annotations": ANNOTATIONS | {"kueue.x-k8s.io/podset-unconstrained-topology": "true"},
             "scheduling_gates": [{"name": "kueue.x-k8s.io/topology"}]},
            id="a place in a topology",
        ),
    ],
)  # fmt: skip
def test_what_a_pod_set_gets(workload: Manifest, want: dict[str, Any]) -> None:
    nothing: dict[str, Any] = {"name": "main", "count": 3, "labels": LABELS, "annotations": ANNOTATIONS}

    assert infos_of(workload, FLAVORS.get) == [PodSetInfo(**(nothing | want))]


def test_checks_that_contradict_each_other() -> None:
    workload = admitted({"cpu": "plain"}, checks=(update("a", labels={"x": "1"}), update("b", labels={"x": "2"})))

    with pytest.raises(InjectionConflict) as conflict:
        infos_of(workload, FLAVORS.get)
    want = "conflict for labels: conflict for key=x, value1=1, value2=2"
    assert str(conflict.value) == f'in admission check "b": invalid admission check PodSetUpdate: {want}'


def test_a_flavor_that_is_gone() -> None:
    with pytest.raises(FlavorMissing, match='"gone" not found'):
        infos_of(admitted({"cpu": "gone"}), FLAVORS.get)


@pytest.mark.parametrize(
    ("template", "what"),
    [
        pytest.param({"metadata": {"annotations": {"a": "2"}}}, "annotations", id="annotations"),
        pytest.param({"metadata": {"labels": {"a": "2"}}}, "labels", id="labels"),
        pytest.param({"spec": {"nodeSelector": {"a": "2"}}}, "nodeSelector", id="node selector"),
    ],
)
def test_a_conflict_leaves_the_template_alone(template: Manifest, what: str) -> None:
    before = copy.deepcopy(template)
    info = PodSetInfo(name="main", count=1, labels={"a": "1"}, annotations={"a": "1"}, node_selector={"a": "1"})

    with pytest.raises(InjectionConflict, match=f"conflict for {what}: conflict for key=a, value1=2, value2=1"):
        inject(template, info)
    assert template == before


def test_tolerations_that_say_the_same_are_added_once() -> None:
    template = {"spec": {"tolerations": [{"key": "a", "value": "b", "effect": "NoSchedule", "tolerationSeconds": 5}]}}
    again = [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}, EVERYWHERE, EVERYWHERE]
    inject(template, PodSetInfo(name="main", count=1, tolerations=again))

    assert template["spec"]["tolerations"][1:] == [EVERYWHERE]


_WORDS = st.dictionaries(st.sampled_from("abc"), st.sampled_from("12"), max_size=3)
_TEMPLATES = st.builds(
    lambda labels, annotations, selector, tolerations: {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {"nodeSelector": selector, "tolerations": tolerations, "containers": [{"name": "main"}]},
    },
    _WORDS,
    _WORDS,
    _WORDS,
    st.lists(st.sampled_from([{"key": "a"}, {"key": "b"}]), max_size=2, unique_by=str),
)


def _plain(template: Manifest) -> Any:
    """Without empty parts, which mean nothing."""
    return {part: {key: value for key, value in held.items() if value} for part, held in template.items()}


@given(template=_TEMPLATES, other=_TEMPLATES)
def test_what_was_injected_can_be_taken_away(template: Manifest, other: Manifest) -> None:
    original = copy.deepcopy(template)
    info = PodSetInfo(
        name="main",
        count=1,
        labels=other["metadata"]["labels"],
        annotations=other["metadata"]["annotations"],
        node_selector=other["spec"]["nodeSelector"],
        tolerations=other["spec"]["tolerations"],
    )
    try:
        inject(template, info)
    except InjectionConflict:
        assert template == original
        with pytest.raises(InjectionConflict):
            injected(original, info)
        return
    untouched = copy.deepcopy(original)
    assert injected(original, info) == template
    assert original == untouched
    assert _plain(merge_patch(original, difference(original, template))) == _plain(template)
    restored = restore(template, original)
    assert _plain(restored) == _plain(original)
    assert _plain(merge_patch(template, difference(template, restored))) == _plain(original)
    assert difference(original, restored) == {}
