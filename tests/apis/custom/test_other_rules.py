"""The rules of RayJob, RayCluster, ProvisioningRequest and ManagedJob."""

import copy
from typing import Any

import pytest

from fairway.apis.autoscaling import records as autoscaling
from fairway.apis.fairway import records as fairway
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.apis.ray import records as ray

KINDS: dict[str, Kind] = {kind.kind: kind for module in (autoscaling, fairway, ray) for kind in module.KINDS}

TASKS = [{"run": "true"}]


def manifest(kind: str, name: str = "x", **spec: Any) -> Manifest:
    record = KINDS[kind]
    return {
        "apiVersion": record.api_version(record.stored),
        "kind": kind,
        "metadata": {"name": name, "namespace": "ns"},
        "spec": spec,
    }


def errors_of(one: Manifest) -> list[tuple[str, str]]:
    return [(error.path, error.message) for error in KINDS[one["kind"]].rules.validate(one)]


GOOD = [
    pytest.param(manifest("RayJob", "a" * 47, entrypoint="python x.py"), id="a job with the longest name"),
    pytest.param(manifest("RayJob"), id="a job without an entry point, which KubeRay takes"),
    pytest.param(manifest("RayJob", managedBy="kueue.x-k8s.io/multikueue"), id="a job of another manager"),
    pytest.param(manifest("RayJob", deletionStrategy={"onSuccess": {}, "onFailure": {}}), id="both old policies"),
    pytest.param(
        manifest("RayJob", deletionStrategy={"deletionRules": [{"condition": {"jobStatus": "FAILED"}}]}),
        id="a rule about the end of a job",
    ),
    pytest.param(manifest("RayCluster", "a" * 53), id="a cluster with the longest name"),
    pytest.param(
        manifest("RayCluster", workerGroupSpecs=[{"groupName": "a"}, {"groupName": "b"}]), id="two groups of workers"
    ),
    pytest.param(manifest("ManagedJob", "train-1", tasks=TASKS), id="a managed job"),
    pytest.param(manifest("ProvisioningRequest", "a.b"), id="a request whose name has dots"),
]


@pytest.mark.parametrize("one", GOOD)
def test_a_good_object_is_accepted_as_new_and_as_unchanged(one: Manifest) -> None:
    assert errors_of(one) == []
    assert KINDS[one["kind"]].rules.validate_update(one, copy.deepcopy(one)) == []


BAD = [
    pytest.param(manifest("RayJob", "a" * 48), "metadata.name", "no more than 47", id="a job's name is too long"),
    pytest.param(manifest("RayCluster", "a" * 54), "metadata.name", "no more than 53", id="a cluster's is too long"),
    pytest.param(manifest("RayCluster", "1a"), "metadata.name", "DNS-1035", id="a name begins with a digit"),
    pytest.param(manifest("RayJob", "a.b"), "metadata.name", "DNS-1035", id="a name has a dot"),
    pytest.param(
        manifest("ManagedJob", "a.b", tasks=TASKS), "metadata.name", "dots", id="a managed job's name has a dot"
    ),
    pytest.param(manifest("ManagedJob", tasks=[]), "spec.tasks", "at least one", id="a managed job without a task"),
    pytest.param(manifest("RayJob", managedBy="me"), "spec.managedBy", "must be either", id="an unknown manager"),
    pytest.param(
        manifest("RayJob", rayClusterSpec={"managedBy": "me"}),
        "spec.rayClusterSpec.managedBy",
        "must be either",
        id="an unknown manager of the job's cluster",
    ),
    pytest.param(
        manifest("RayCluster", workerGroupSpecs=[{"groupName": "a"}, {"groupName": "a"}]),
        "spec.workerGroupSpecs[1]",
        "must be unique",
        id="two groups of one name",
    ),
    pytest.param(
        manifest("RayJob", deletionStrategy={"onSuccess": {}}),
        "spec.deletionStrategy",
        "both onSuccess and onFailure",
        id="half a policy",
    ),
    pytest.param(
        manifest(
            "RayJob",
            deletionStrategy={"onSuccess": {}, "deletionRules": [{"condition": {"jobStatus": "FAILED"}}]},
        ),
        "spec.deletionStrategy",
        "cannot be used together with onSuccess",
        id="an old policy beside rules",
    ),
    pytest.param(
        manifest("RayJob", deletionStrategy={"deletionRules": [{"condition": {}}]}),
        "spec.deletionStrategy.deletionRules[0].condition",
        "exactly one of",
        id="a rule about nothing",
    ),
]


@pytest.mark.parametrize(("one", "want_path", "want_message"), BAD)
def test_a_bad_object_is_refused_with_the_place_and_the_rule(one: Manifest, want_path: str, want_message: str) -> None:
    ((path, message),) = errors_of(one)
    assert path == want_path
    assert want_message in message


CHANGES = [
    pytest.param(
        manifest("ProvisioningRequest", provisioningClassName="a"),
        {"provisioningClassName": "b"},
        ["spec.provisioningClassName"],
        id="the class of a request is fixed",
    ),
    pytest.param(
        manifest("ProvisioningRequest", podSets=[{"count": 1}]),
        {"podSets": [{"count": 2}]},
        ["spec.podSets"],
        id="the pods of a request are fixed",
    ),
    pytest.param(
        manifest("ProvisioningRequest"), {"parameters": {"a": "b"}}, [], id="parameters may come when there were none"
    ),
    pytest.param(
        manifest("RayJob", managedBy="ray.io/kuberay-operator"),
        {"managedBy": "kueue.x-k8s.io/multikueue"},
        ["spec.managedBy"],
        id="the manager of a job is fixed",
    ),
    pytest.param(
        manifest("RayJob", rayClusterSpec={"managedBy": "ray.io/kuberay-operator"}),
        {"rayClusterSpec": {"managedBy": "kueue.x-k8s.io/multikueue"}},
        ["spec.rayClusterSpec.managedBy"],
        id="and so is that of its cluster",
    ),
    pytest.param(
        manifest("RayCluster", managedBy="ray.io/kuberay-operator"),
        {"managedBy": "kueue.x-k8s.io/multikueue"},
        ["spec.managedBy"],
        id="the manager of a cluster is fixed",
    ),
    pytest.param(manifest("RayJob", suspend=True), {"suspend": False}, [], id="a job may be resumed"),
    pytest.param(
        manifest("ManagedJob", tasks=TASKS, priority=1),
        {"priority": 2, "priorityClass": "high", "hold": True, "retry": 1},
        [],
        id="a managed job may change its priority, be held and tried again",
    ),
    pytest.param(
        manifest("ManagedJob", tasks=TASKS, queue="a", user="ann"),
        {"queue": "b", "user": "bob", "tasks": []},
        ["spec.tasks", "spec.queue", "spec.tasks", "spec.user"],
        id="what runs, where and for whom is fixed",
    ),
    pytest.param(
        manifest("ManagedJob", tasks=TASKS, cancel=True),
        {"cancel": False},
        ["spec.cancel"],
        id="what was cancelled stays so",
    ),
    pytest.param(
        manifest("ManagedJob", tasks=TASKS, cancel=True),
        {"cancel": False, "retry": 1},
        [],
        id="unless it is tried again",
    ),
    pytest.param(
        manifest("ManagedJob", tasks=TASKS, retry=2), {"retry": 1}, ["spec.retry"], id="tries are never taken back"
    ),
]


@pytest.mark.parametrize(("old", "spec", "want_paths"), CHANGES)
def test_a_change_is_refused_where_a_field_is_fixed(old: Manifest, spec: dict[str, Any], want_paths: list[str]) -> None:
    new = copy.deepcopy(old)
    new["spec"] |= spec
    assert [error.path for error in KINDS[old["kind"]].rules.validate_update(old, new)] == want_paths


def test_both_versions_of_a_request_say_the_same() -> None:
    rules, one = KINDS["ProvisioningRequest"].rules, manifest("ProvisioningRequest", provisioningClassName="a")
    older = rules.convert(one, "v1beta1")
    assert older == one | {"apiVersion": "autoscaling.x-k8s.io/v1beta1"}
    assert rules.convert(older, "v1") == one
