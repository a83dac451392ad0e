"""What a pod asks for: the table of Kubernetes' own rules, limits that stand in for requests, and what is refused."""

from typing import Any

import pytest

from fairway.apis.core.pod_requests import (
    AffinityTerm,
    PodShape,
    pod_requests,
    pod_shape,
    requests_exceeding_limits,
)
from fairway.apis.kueue.objects import PodTemplate, Toleration
from fairway.apis.kueue.validation.workloads import wrong_pod_spec
from fairway.errors import ValidationError

from .samples import Manifest, container, full_pod_spec, pod_spec


def requesting(name: str = "c", **requests: Any) -> Manifest:
    return container(name, requests=requests)


def sidecar(name: str, **requests: Any) -> Manifest:
    return requesting(name, **requests) | {"restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, {}, id="a pod without a spec asks for nothing"),
        pytest.param({"containers": []}, {}, id="nor does one without containers"),
        pytest.param(
            pod_spec(requesting("a", cpu="1", memory="1Gi"), requesting("b", cpu="500m")),
            {"cpu": "1500m", "memory": "1Gi"},
            id="containers add up",
        ),
        pytest.param(
            pod_spec(requesting(cpu="1"), initContainers=[requesting("i", cpu="3", memory="1Gi")]),
            {"cpu": "3", "memory": "1Gi"},
            id="an init container counts if it needs more than all containers",
        ),
        pytest.param(
            pod_spec(requesting(cpu="4"), initContainers=[requesting("i", cpu="3"), requesting("j", cpu="2")]),
            {"cpu": "4"},
            id="init containers run one after the other",
        ),
        pytest.param(
            pod_spec(requesting(cpu="1"), initContainers=[sidecar("s", cpu="2")]),
            {"cpu": "3"},
            id="a sidecar runs beside the containers",
        ),
        pytest.param(
            pod_spec(requesting(cpu="1"), initContainers=[sidecar("s", cpu="2"), requesting("i", cpu="5")]),
            {"cpu": "7"},
            id="a later init container runs beside the sidecars before it",
        ),
        pytest.param(
            pod_spec(requesting(cpu="1"), initContainers=[requesting("i", cpu="5"), sidecar("s", cpu="2")]),
            {"cpu": "5"},
            id="an earlier one does not",
        ),
        pytest.param(
            pod_spec(
                requesting(cpu="1"),
                initContainers=[sidecar("s", cpu="1"), sidecar("t", cpu="1"), requesting("i", cpu="2")],
            ),
            {"cpu": "4"},
            id="sidecars add up",
        ),
        pytest.param(
            pod_spec(requesting(cpu="1"), overhead={"cpu": "250m", "memory": "64Mi"}),
            {"cpu": "1250m", "memory": "64Mi"},
            id="overhead comes on top",
        ),
        pytest.param(
            pod_spec(container(limits={"cpu": "2", "nvidia.com/gpu": 1}, requests={"cpu": "1"})),
            {"cpu": "1", "nvidia.com/gpu": "1"},
            id="a limit stands in for a missing request",
        ),
        pytest.param(
            pod_spec(requesting(cpu="1", memory="1Gi", gpu="1"), resources={"requests": {"cpu": "4", "gpu": "9"}}),
            {"cpu": "4", "memory": "1Gi", "gpu": "1"},
            id="resources of the pod replace those of containers, where Kubernetes knows them",
        ),
        pytest.param(
            pod_spec(
                requesting(cpu="1"),
                resources={"limits": {"cpu": "3", "hugepages-2Mi": "4Mi"}},
                overhead={"cpu": "1"},
            ),
            {"cpu": "4", "hugepages-2Mi": "4Mi"},
            id="limits of the pod stand in too, and overhead comes on top",
        ),
        pytest.param(
            pod_spec({"name": "c", "resources": None}, initContainers=None, overhead=None, tolerations=None),
            {},
            id="null is the same as nothing",
        ),
        pytest.param(full_pod_spec(), {"cpu": "2100m", "memory": "1088Mi", "nvidia.com/gpu": "1"}, id="all together"),
    ],
)
def test_effective_request(spec: Manifest, want: dict[str, str]) -> None:
    assert {name: str(quantity) for name, quantity in pod_requests(spec).items()} == want


def test_the_shape_is_all_that_admission_looks_at() -> None:
    shape = pod_shape(PodTemplate(spec=full_pod_spec()))

    assert shape == PodShape(
        requests={"cpu": 2100, "memory": 1088 * 2**20, "nvidia.com/gpu": 1},
        tolerations=(Toleration(key="spot", operator="Exists"),),
        node_selector={"disk": "ssd"},
        affinity_terms=(
            AffinityTerm(expressions=(("zone", "In", ("a", "b")),), has_match_fields=False),
            AffinityTerm(expressions=(), has_match_fields=True),
        ),
    )


def test_requests_below_zero_count_as_nothing() -> None:
    assert pod_shape(PodTemplate(spec=pod_spec(requesting(cpu="-1")))).requests == {"cpu": 0}


def test_a_plain_pod_has_no_wishes() -> None:
    shape = pod_shape(PodTemplate(spec=pod_spec(affinity={"podAffinity": {}})))

    assert (shape.tolerations, shape.node_selector, shape.affinity_terms) == ((), {}, ())


def test_what_is_no_pod_spec_cannot_be_counted() -> None:
    with pytest.raises(ValidationError, match=r'PodSpec "" is invalid: containers\[0\]: .*Expected `object`'):
        pod_requests({"containers": [5]})


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param(
            pod_spec(requesting(cpu="-1")),
            's.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0',
            id="a negative request",
        ),
        pytest.param(
            pod_spec(initContainers=[container("i", limits={"memory": "-1Gi"})]),
            's.initContainers[0].resources.limits[memory]: Invalid value: "-1Gi": must be greater than or equal to 0',
            id="a negative limit",
        ),
        pytest.param(
            pod_spec(requesting(pods="1")),
            's.containers[0].resources.requests[pods]: Invalid value: "pods": '
            "the key is reserved for internal kueue use",
            id="the reserved name",
        ),
        pytest.param(
            pod_spec(resources={"limits": {"pods": 1}}),
            's.resources.limits[pods]: Invalid value: "pods": the key is reserved for internal kueue use',
            id="the reserved name for the whole pod",
        ),
        pytest.param(
            pod_spec(container("c"), container("c")),
            's.containers[1]: Duplicate value: {"name":"c"}',
            id="two containers of one name",
        ),
    ],
)
def test_what_is_wrong_with_a_pod_spec(spec: Manifest, want: str) -> None:
    assert [str(error) for error in wrong_pod_spec(spec, "s")] == [want]


def test_a_good_pod_spec_has_nothing_wrong() -> None:
    assert wrong_pod_spec(full_pod_spec(), "s") == []


def test_requests_above_limits_are_found_but_not_refused() -> None:
    greedy = container("c", requests={"cpu": "2", "memory": "2Gi", "gpu": 1}, limits={"cpu": "1", "memory": "1Gi"})
    spec = pod_spec(
        container(requests={"cpu": "1"}, limits={"cpu": "1"}),
        greedy,
        initContainers=[greedy],
        resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1500m"}},
    )

    assert [str(error) for error in requests_exceeding_limits(spec, "t.spec")] == [
        't.spec.initContainers[0]: Invalid value: ["cpu","memory"]: requests must not exceed its limits',
        't.spec.containers[1]: Invalid value: ["cpu","memory"]: requests must not exceed its limits',
        't.spec.resources: Invalid value: ["cpu"]: requests must not exceed its limits',
    ]
    assert requests_exceeding_limits(full_pod_spec()) == []
