"""Pods as they are made from a job."""

import asyncio
import copy
from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.controllers.batchjob.decide import NewPod, pod_of
from fairway.testing.stores import local_api

from .things import indexed, job

INDEX = "batch.kubernetes.io/job-completion-index"
VARIABLE = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}},
}


def named(manifest: Manifest, name: str) -> Manifest:
    return {**manifest, "metadata": {**manifest["metadata"], "name": name}}


def test_a_pod_is_the_jobs_own() -> None:
    pod = pod_of(job(), NewPod())

    assert pod["metadata"] == {
        "generateName": "job-",
        "namespace": "default",
        "labels": {
            "batch.kubernetes.io/job-name": "job",
            "job-name": "job",
            "batch.kubernetes.io/controller-uid": "job-uid",
            "controller-uid": "job-uid",
        },
        "ownerReferences": [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": "job",
                "uid": "job-uid",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    assert [container["name"] for container in pod["spec"]["containers"]] == ["main"]


def test_a_pod_shares_nothing_with_the_job() -> None:
    manifest = job()
    manifest["spec"]["template"]["metadata"]["annotations"] = {"a": "b"}
    before = copy.deepcopy(manifest)

    pod = pod_of(manifest, NewPod(0, 0))
    pod["metadata"]["annotations"]["a"] = "c"
    pod["spec"]["containers"][0]["image"] = "other"

    assert manifest == before


def test_an_index_is_on_the_pod_and_in_its_containers() -> None:
    manifest = indexed()
    spec = manifest["spec"]["template"]["spec"]
    spec["initContainers"] = [{"name": "first", "image": "job"}]

    pod = pod_of(manifest, NewPod(2))

    assert pod["metadata"]["generateName"] == "job-2-"
    assert (pod["metadata"]["labels"][INDEX], pod["metadata"]["annotations"]) == ("2", {INDEX: "2"})
    assert pod["spec"]["hostname"] == "job-2"
    assert [pod["spec"][field][0]["env"] for field in ("initContainers", "containers")] == [[VARIABLE], [VARIABLE]]


def test_a_variable_of_that_name_stays_as_it_is() -> None:
    manifest = indexed()
    own = [{"name": "JOB_COMPLETION_INDEX", "value": "mine"}]
    manifest["spec"]["template"]["spec"]["containers"][0]["env"] = own

    assert pod_of(manifest, NewPod(2))["spec"]["containers"][0]["env"] == own


@pytest.mark.parametrize(
    ("new", "want"),
    [
        pytest.param(NewPod(1), {}, id="not counted"),
        pytest.param(NewPod(1, 0), {"batch.kubernetes.io/job-index-failure-count": "0"}, id="none so far"),
        pytest.param(
            NewPod(1, 2, 3),
            {
                "batch.kubernetes.io/job-index-failure-count": "2",
                "batch.kubernetes.io/job-index-ignored-failure-count": "3",
            },
            id="some, and some that do not count",
        ),
    ],
)
def test_how_often_an_index_failed_is_noted(new: NewPod, want: dict[str, Any]) -> None:
    assert pod_of(indexed(), new)["metadata"]["annotations"] == {INDEX: "1", **want}


def test_a_long_name_leaves_room_for_the_index() -> None:
    pod = pod_of(named(indexed(), "j" * 60), NewPod(17))

    assert pod["metadata"]["generateName"] == "j" * 54 + "-17-"


CONTAINER = {"name": "main", "image": "job"}
SPECS = [
    {},
    {"containers": [{**CONTAINER, "resources": {"limits": {"cpu": "2", "nvidia.com/gpu": "1"}}}]},
    {"tolerations": [{"operator": "Exists"}], "nodeSelector": {"disk": "ssd"}, "priorityClassName": "high"},
    {"hostNetwork": True, "containers": [{**CONTAINER, "ports": [{"containerPort": 80}]}]},
    {
        "initContainers": [{"name": "first", "image": "job:1", "restartPolicy": "Always"}],
        "volumes": [{"name": "v", "configMap": {"name": "c"}}, {"name": "w"}],
        "containers": [
            {
                **CONTAINER,
                "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                "volumeMounts": [{"name": "v", "mountPath": "/x"}],
                "readinessProbe": {"httpGet": {"port": 80}},
            }
        ],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}],
    },
]


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("new", [NewPod(), NewPod(1, 2, 3)])
def test_a_pod_need_not_be_held_against_the_schema_again(spec: dict[str, Any], new: NewPod) -> None:
    """Its template was, with the job; so it comes out the same."""

    async def play() -> None:
        async with local_api() as api:
            template = {
                "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
                "spec": {"restartPolicy": "Never", "containers": [CONTAINER], **copy.deepcopy(spec)},
            }
            made_from = await api.create("jobs", {"metadata": {"name": "job"}, "spec": {"template": template}})
            made = [
                await api.create("pods", named(pod_of(made_from, new), name), trusted=trusted, tracked=False)
                for name, trusted in (("short", True), ("long", False))
            ]
            for pod in made:
                for field in ("name", "uid", "resourceVersion"):
                    del pod["metadata"][field]
            assert made[0] == made[1]

    asyncio.run(play())
