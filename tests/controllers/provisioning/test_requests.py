"""The requests and templates that are made for a workload."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.apis.kueue.manifests import decode
from fairway.apis.kueue.objects import ProvisioningRequestConfig, ProvisioningRequestConfigSpec
from fairway.apis.machinery.kind import Manifest
from fairway.controllers.provisioning import decide
from fairway.integrations.injection import InjectionConflict

from .things import CLASS, config, pod_set, reserved, workload

GPU = {"nvidia.com/gpu": "1"}


def spec_of(**spec: Any) -> ProvisioningRequestConfigSpec:
    manifest = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ProvisioningRequestConfig", **config(**spec)}
    decoded = decode(manifest)
    assert isinstance(decoded, ProvisioningRequestConfig)
    return decoded.spec


def stored(*pod_sets: Manifest, counts: dict[str, int] | None = None, **metadata: Any) -> Manifest:
    """A workload with quota as the API shows it."""
    made = reserved(workload("wl", *pod_sets), counts=counts)
    made["metadata"] = {**made["metadata"], "uid": "1", **metadata}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", **made}


@pytest.mark.parametrize(
    ("name", "want"),
    [
        pytest.param("wl-prov-1", 1, id="the first attempt"),
        pytest.param("wl-prov-12", 12, id="a later attempt"),
        pytest.param("wl-prov-x", None, id="no number"),
        pytest.param("wl-other-1", None, id="another check"),
        pytest.param("other-prov-1", None, id="another workload"),
        pytest.param("wl-prov-more-1", None, id="a check whose name begins with this one"),
    ],
)
def test_the_attempt_is_read_from_the_name(name: str, want: int | None) -> None:
    assert decide.attempt_of(name, "wl", "prov") == want


@given(st.text("abc-", min_size=1, max_size=260), st.text("abc-", min_size=1, max_size=60), st.integers(1, 99))
def test_every_name_fits_and_leads_back_to_its_attempt(name: str, check: str, attempt: int) -> None:
    made = decide.request_name(name, check, attempt)

    assert len(made) <= 253
    assert decide.attempt_of(made, name, check) == attempt
    assert len(decide.template_name(made, "main")) <= 253


@pytest.mark.parametrize(
    ("pod_sets", "counts", "spec", "want"),
    [
        pytest.param([pod_set("a", 2)], None, {}, {"a": 2}, id="all pods if no resource is named"),
        pytest.param(
            [pod_set("a"), pod_set("b", 3, GPU)],
            None,
            {"managedResources": ["nvidia.com/gpu"]},
            {"b": 3},
            id="only pods that use a managed resource",
        ),
        pytest.param([pod_set("a")], None, {"managedResources": ["nvidia.com/gpu"]}, {}, id="no pod uses it"),
        pytest.param([pod_set("a", 4)], {"a": 2}, {}, {"a": 2}, id="as many as were admitted"),
        pytest.param([pod_set("a", 4)], {"a": 0}, {}, {}, id="none was admitted"),
        pytest.param([pod_set("a", 0), pod_set("b")], None, {}, {"b": 1}, id="a pod set without pods"),
        pytest.param([pod_set("a"), pod_set("b")], None, {}, {"a": 1, "b": 1}, id="equal pod sets stay apart"),
        pytest.param(
            [pod_set("a"), pod_set("b", 2), pod_set("c", 1, GPU)],
            None,
            {"podSetMergePolicy": "IdenticalPodTemplates"},
            {"a": 3, "c": 1},
            id="equal templates are merged",
        ),
        pytest.param(
            [pod_set("a", 1, hostname="x"), pod_set("b", 2, hostname="y")],
            None,
            {"podSetMergePolicy": "IdenticalPodTemplates"},
            {"a": 1, "b": 2},
            id="templates that differ are not merged",
        ),
        pytest.param(
            [pod_set("a", 1, {"cpu": "1"}, hostname="x"), pod_set("b", 2, {"cpu": "1000m"}, hostname="y")],
            None,
            {"podSetMergePolicy": "IdenticalWorkloadSchedulingRequirements"},
            {"a": 3},
            id="what does not matter to scheduling may differ",
        ),
        pytest.param(
            [pod_set("a"), pod_set("b", nodeSelector={"zone": "a"})],
            None,
            {"podSetMergePolicy": "IdenticalWorkloadSchedulingRequirements"},
            {"a": 1, "b": 1},
            id="what matters to scheduling may not",
        ),
    ],
)
def test_a_request_asks_for_the_pods_that_need_asking(
    pod_sets: list[Manifest], counts: dict[str, int] | None, spec: dict[str, Any], want: dict[str, int]
) -> None:
    asks = decide.asks_of(stored(*pod_sets, counts=counts), spec_of(**spec))

    assert {ask.name: ask.count for ask in asks} == want


def test_a_limit_counts_as_use_of_a_resource() -> None:
    limited = pod_set("a")
    limited["template"]["spec"]["initContainers"] = [{"name": "init", "resources": {"limits": GPU}}]

    assert decide.asks_of(stored(limited), spec_of(managedResources=["nvidia.com/gpu"])) != []


def test_a_workload_that_is_admitted_in_part_is_an_error() -> None:
    broken = stored(pod_set("a"))
    broken["status"]["admission"]["podSetAssignments"] = []

    with pytest.raises(decide.InconsistentAdmission):
        decide.asks_of(broken, spec_of())


def test_a_request_carries_parameters_of_the_configuration_and_of_the_workload() -> None:
    annotations = {"provreq.kueue.x-k8s.io/ValidUntilSeconds": "0", "provreq.kueue.x-k8s.io/b": "mine", "other": "x"}
    made = stored(pod_set(count=3), annotations=annotations)
    spec = spec_of(parameters={"a": "1", "b": "theirs"})

    request = decide.new_request(made, "wl-prov-1", spec, decide.asks_of(made, spec))

    assert request["spec"] == {
        "provisioningClassName": CLASS,
        "parameters": {"a": "1", "b": "mine", "ValidUntilSeconds": "0"},
        "podSets": [{"podTemplateRef": {"name": "ppt-wl-prov-1-main"}, "count": 3}],
    }
    assert request["metadata"]["labels"] == {"kueue.x-k8s.io/managed": "true"}
    assert request["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "name": "wl",
            "uid": "1",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    assert decide.is_as_configured(request, spec_of(parameters={"a": "1"}))
    assert not decide.is_as_configured(request, spec)
    assert not decide.is_as_configured(request, spec_of(parameters={"c": "1"}))
    assert not decide.is_as_configured(request, spec_of(provisioningClassName="other"))


FLAVOR = {
    "spec": {"nodeLabels": {"type": "spot"}, "tolerations": [{"key": "spot", "operator": "Exists"}]},
}


def test_a_template_has_what_its_flavor_asks_for_and_requests_for_all_limits() -> None:
    pods = pod_set(nodeSelector={"zone": "a"})
    pods["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}, "limits": {"cpu": "2", **GPU}}
    made = stored(pods)

    template = decide.new_template(made, "ppt", decide.asks_of(made, spec_of())[0], made, {"flavor": FLAVOR}.get)

    spec = template["template"]["spec"]
    assert spec["nodeSelector"] == {"zone": "a", "type": "spot"}
    assert spec["tolerations"] == [{"key": "spot", "operator": "Exists"}]
    assert spec["containers"][0]["resources"]["requests"] == {"cpu": "1", **GPU}
    assert "labels" not in template["template"]["metadata"]
    assert pods["template"]["spec"]["nodeSelector"] == {"zone": "a"}


def test_a_template_that_contradicts_its_flavor_is_an_error() -> None:
    made = stored(pod_set(nodeSelector={"type": "on-demand"}))

    with pytest.raises(InjectionConflict, match="conflict for key=type"):
        decide.new_template(made, "ppt", decide.asks_of(made, spec_of())[0], made, {"flavor": FLAVOR}.get)
