"""Limit ranges and runtime classes, read as an API server and as Kueue read them."""

from typing import Any

import pytest

from fairway.apis.core.podlimits import (
    apply_runtime_class,
    breaches,
    complete_pod,
    completed,
    outside_limits,
    summarized,
)

Part = dict[str, Any]


def container(**resources: Part) -> Part:
    return {"name": "c", "resources": resources} if resources else {"name": "c"}


def item(scope: str = "Container", **bounds: Part) -> Part:
    return {"type": scope, **bounds}


# As Kueue counts


@pytest.mark.parametrize(
    ("limits", "given", "counted"),
    [
        pytest.param([item(defaultRequest={"cpu": "1"})], container(), {"cpu": "1"}, id="the default request"),
        pytest.param([item(default={"cpu": "2"})], container(), {"cpu": "2"}, id="a default limit is requested"),
        pytest.param(
            [item(defaultRequest={"cpu": "1"})],
            container(requests={"cpu": "3"}),
            {"cpu": "3"},
            id="its own request stays",
        ),
        pytest.param(
            [item(defaultRequest={"cpu": "1"})],
            container(limits={"cpu": "3"}),
            {"cpu": "1"},
            id="a default request comes before its own limit",
        ),
        pytest.param(
            [item(defaultRequest={"cpu": "1"}), item(defaultRequest={"cpu": "2", "memory": "1Gi"})],
            container(),
            {"cpu": "1", "memory": "1Gi"},
            id="the first of several defaults",
        ),
        pytest.param([item("Pod", max={"cpu": "1"})], container(), None, id="bounds of pods add nothing"),
    ],
)
def test_a_container_counts_with_the_defaults_of_its_namespace(
    limits: list[Part], given: Part, counted: Part | None
) -> None:
    for field in ("containers", "initContainers"):
        spec = completed({field: [given]}, summarized([limits]), {})
        assert (spec[field][0].get("resources") or {}).get("requests") == counted


def test_a_pod_counts_with_the_overhead_of_its_runtime_class() -> None:
    overheads = {"sandbox": {"cpu": "250m"}}
    spec = {"runtimeClassName": "sandbox", "containers": [container()]}
    assert completed(spec, None, overheads)["overhead"] == {"cpu": "250m"}
    own = {**spec, "overhead": {"cpu": "1"}}
    assert completed(own, None, overheads) is own
    unknown = {"runtimeClassName": "other"}
    assert completed(unknown, None, overheads) is unknown


ABOVE = "requests must not be above the limitRange max"
BELOW = "requests must not be below the limitRange min"


@pytest.mark.parametrize(
    ("limits", "spec", "wrong"),
    [
        pytest.param(
            [item(max={"cpu": "1"})],
            {"containers": [container(requests={"cpu": "2"}, limits={"cpu": "3"})]},
            [f'containers[0]: Invalid value: ["cpu"]: {ABOVE}'],
            id="above",
        ),
        pytest.param(
            [item(min={"cpu": "3"})],
            {"initContainers": [container(requests={"cpu": "2"}, limits={"cpu": "4"})]},
            [f'initContainers[0]: Invalid value: ["cpu"]: {BELOW}'],
            id="below",
        ),
        pytest.param(
            [item("Pod", max={"cpu": "3"})],
            {"containers": [container(requests={"cpu": "2"}), container(requests={"cpu": "2"})]},
            [f'spec: Invalid value: ["cpu"]: {ABOVE}'],
            id="a pod above",
        ),
        pytest.param(
            [item("Pod", min={"cpu": "3"})],
            {"containers": [container(requests={"cpu": "1"})], "resources": {"requests": {"cpu": "2"}}},
            [f'spec: Invalid value: ["cpu"]: {BELOW}'],
            id="what the pod says as a whole counts",
        ),
        pytest.param(
            [item(max={"cpu": "9"}), item(max={"cpu": "1"})],
            {"containers": [container(requests={"cpu": "2"})]},
            [f'containers[0]: Invalid value: ["cpu"]: {ABOVE}'],
            id="the tightest bound of several",
        ),
        pytest.param(
            [item(max={"cpu": "4"}, min={"cpu": "1"})],
            {"containers": [container(requests={"cpu": "2"}, limits={"cpu": "3"})]},
            [],
            id="within",
        ),
        pytest.param(
            [item(max={"memory": "1Gi"})], {"containers": [container(requests={"cpu": "2"})]}, [], id="another resource"
        ),
    ],
)
def test_kueue_admits_nothing_outside_of_the_bounds(limits: list[Part], spec: Part, wrong: list[str]) -> None:
    summary = summarized([[one] for one in limits])
    path = "spec" if any(one["type"] == "Pod" for one in limits) else ""
    assert [str(error) for error in outside_limits(spec, summary, path)] == wrong


# As an API server completes and refuses


def test_a_new_pod_gets_defaults_and_a_note_of_them() -> None:
    pod: Part = {
        "metadata": {"name": "p"},
        "spec": {
            "containers": [container(requests={"cpu": "1"}), {"name": "d"}],
            "initContainers": [{"name": "i"}],
        },
    }
    limits = [item(default={"cpu": "2"}, defaultRequest={"cpu": "500m", "memory": "1Mi"})]
    complete_pod(pod, limits)
    first, second = pod["spec"]["containers"]
    assert first["resources"] == {"requests": {"cpu": "1", "memory": "1Mi"}, "limits": {"cpu": "2"}}
    assert second["resources"] == {"requests": {"cpu": "500m", "memory": "1Mi"}, "limits": {"cpu": "2"}}
    assert pod["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": "LimitRanger plugin set: memory request for container c; cpu limit for container "
        "c; cpu, memory request for container d; cpu limit for container d; cpu, memory request for init container i; "
        "cpu limit for init container i"
    }
    again = {"metadata": {"name": "p"}, "spec": pod["spec"]}
    complete_pod(again, limits)
    assert "annotations" not in again["metadata"]


@pytest.mark.parametrize(
    ("limit", "given", "said"),
    [
        (item(min={"cpu": "1"}), container(), "minimum cpu usage per Container is 1.  No request is specified"),
        (
            item(min={"cpu": "1"}),
            container(requests={"cpu": "500m"}),
            "minimum cpu usage per Container is 1, but request is 500m",
        ),
        (
            item(min={"cpu": "1"}),
            container(requests={"cpu": "1"}, limits={"cpu": "500m"}),
            "minimum cpu usage per Container is 1, but limit is 500m",
        ),
        (
            item(max={"memory": "1Gi"}),
            container(requests={"memory": "1Mi"}),
            "maximum memory usage per Container is 1Gi.  No limit is specified",
        ),
        (
            item("Pod", max={"cpu": "1"}),
            container(limits={"cpu": "2"}),
            "maximum cpu usage per Pod is 1, but limit is 2",
        ),
        (
            item(maxLimitRequestRatio={"cpu": "2"}),
            container(requests={"cpu": "1"}, limits={"cpu": "3"}),
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
        (
            item(maxLimitRequestRatio={"cpu": "2"}),
            container(limits={"cpu": "3"}),
            "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
        ),
    ],
)
def test_an_api_server_says_which_limit_a_pod_breaks(limit: Part, given: Part, said: str) -> None:
    assert breaches({"containers": [given]}, [limit]) == [said]


def test_a_pod_within_the_limits_breaks_none() -> None:
    limits = [item(max={"cpu": "2"}, min={"cpu": "1"}), item("Pod", max={"cpu": "2"})]
    assert breaches({"containers": [container(requests={"cpu": "1"}, limits={"cpu": "2"})]}, limits) == []


SANDBOX: Part = {
    "overhead": {"podFixed": {"cpu": "250m"}},
    "scheduling": {"nodeSelector": {"sandbox": "yes"}, "tolerations": [{"key": "sandbox", "operator": "Exists"}]},
}


@pytest.mark.parametrize(
    ("spec", "found", "refusal"),
    [
        ({}, SANDBOX, ""),
        ({"overhead": {"cpu": "0.25"}}, SANDBOX, ""),
        (
            {"overhead": {"cpu": "1"}},
            SANDBOX,
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            {"overhead": {"cpu": "1"}},
            {},
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            {"nodeSelector": {"sandbox": "no"}},
            SANDBOX,
            "conflict: runtimeClass.scheduling.nodeSelector[sandbox] = yes; pod.spec.nodeSelector[sandbox] = no",
        ),
    ],
)
def test_a_new_pod_gets_what_its_runtime_class_adds(spec: Part, found: Part, refusal: str) -> None:
    made = dict(spec)
    assert apply_runtime_class(made, found) == refusal
    if not refusal:
        assert made["overhead"] == {"cpu": "250m"}
        assert made["nodeSelector"] == {"sandbox": "yes"}
        assert made["tolerations"] == [{"key": "sandbox", "operator": "Exists"}]
