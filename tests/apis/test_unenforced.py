"""Settings that are not applied are warned of, each by its field; settings that are harmless are not."""

from typing import Any

import pytest

from fairway.apis.core.unenforced import job_warnings, managed_job_warnings, pod_warnings


def fields(spec: dict[str, Any]) -> list[str]:
    return [warning.partition(": is not applied")[0] for warning in pod_warnings({"spec": spec})]


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({"containers": [{"name": "a"}]}, [], id="nothing said"),
        pytest.param({"securityContext": {}, "hostNetwork": True}, [], id="what is so anyway"),
        pytest.param({"securityContext": {"runAsNonRoot": True}}, [], id="runAsNonRoot is honoured"),
        pytest.param(
            {"securityContext": {"runAsUser": 0, "runAsGroup": 5, "fsGroup": 7, "seccompProfile": {"type": "x"}}},
            ["runAsUser", "fsGroup", "runAsGroup", "seccompProfile"],
            id="of the pod",
        ),
        pytest.param(
            {"runtimeClassName": "gvisor", "hostUsers": False}, ["runtimeClassName", "hostUsers"], id="of its sandbox"
        ),
    ],
)
def test_of_a_pod(spec: dict[str, Any], want: list[str]) -> None:
    assert {field.rpartition(".")[2] for field in fields(spec)} == set(want)


def test_of_its_containers() -> None:
    context = {
        "privileged": True,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], "add": []},
    }
    spec = {
        "initContainers": [{"name": "i", "volumeMounts": [{"name": "v"}, {"name": "w", "readOnly": True}]}],
        "containers": [{"name": "a"}, {"name": "b", "securityContext": context}],
    }
    assert fields(spec) == [
        "spec.initContainers[0].volumeMounts[1].readOnly",
        "spec.containers[1].securityContext.readOnlyRootFilesystem",
        "spec.containers[1].securityContext.allowPrivilegeEscalation",
        "spec.containers[1].securityContext.privileged",
        "spec.containers[1].securityContext.capabilities.drop",
    ]


def test_of_a_template() -> None:
    spec = {"template": {"spec": {"containers": [{"securityContext": {"runAsUser": 1000}}]}}}
    [warning] = job_warnings({"spec": spec})
    assert warning.startswith("spec.template.spec.containers[0].securityContext.runAsUser: is not applied: pods are ")


def test_of_the_pods_of_a_managed_job() -> None:
    part = {"spec": {"securityContext": {"runAsUser": 5}}}
    task = {"run": "true", "config": {"kubernetes": {"pod_config": part}}}

    found = managed_job_warnings({"spec": {"podConfig": part, "tasks": [{"run": "true"}, task]}})

    assert [warning.partition(": is not applied")[0] for warning in found] == [
        "spec.podConfig.spec.securityContext.runAsUser",
        "spec.tasks[1].config.kubernetes.pod_config.spec.securityContext.runAsUser",
    ]


@pytest.mark.parametrize("part", [5, [], {"spec": 5}, {"spec": {"containers": 5}}, {"spec": {"containers": [5]}}])
def test_parts_of_pods_that_are_none_are_not_its_concern(part: Any) -> None:
    assert managed_job_warnings({"spec": {"podConfig": part, "tasks": [5, {"config": part}]}}) == ()
