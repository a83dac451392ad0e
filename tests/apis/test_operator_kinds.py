"""JobSet, Kubeflow's, Spark's and Dask's kinds: kinds that are a recorded schema and a few lines."""

import asyncio
from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.printing import read_time
from fairway.errors import ValidationError
from fairway.server.tables import columns_of
from fairway.testing.stores import local_api

TEMPLATE: Manifest = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}}
SPECS: dict[str, Any] = {
    "jobsets": {"replicatedJobs": [{"name": "workers", "template": {"spec": {"template": TEMPLATE}}}]},
    "pytorchjobs": {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": TEMPLATE}}},
    "tfjobs": {"tfReplicaSpecs": {"Worker": {"replicas": 2, "template": TEMPLATE}}},
    "mpijobs": {"mpiReplicaSpecs": {"Launcher": {"template": TEMPLATE}}},
    "sparkapplications": {
        "type": "Scala",
        "mainApplicationFile": "local:///pi.jar",
        "sparkVersion": "4.0.0",
        "driver": {"cores": 1, "sidecars": TEMPLATE["spec"]["containers"]},
        "executor": {"instances": 2},
    },
    "daskclusters": {
        "worker": {"replicas": 2, "spec": {"containers": TEMPLATE["spec"]["containers"]}},
        "scheduler": {"spec": {"containers": TEMPLATE["spec"]["containers"]}, "service": {}},
    },
}
SPECS["daskjobs"] = {
    "job": {"spec": {"containers": TEMPLATE["spec"]["containers"]}},
    "cluster": {"spec": SPECS["daskclusters"]},
}


def created(kind: str, spec: Any) -> Manifest:
    async def play() -> Manifest:
        async with local_api() as api:
            return await api.create(kind, {"metadata": {"name": "x"}, "spec": spec})

    return asyncio.run(play())


@pytest.mark.parametrize("kind", SPECS)
def test_an_object_is_stored_with_the_defaults_of_its_definition(kind: str) -> None:
    spec = created(kind, SPECS[kind])["spec"]
    if kind == "jobsets":
        assert spec["replicatedJobs"][0]["replicas"] == 1
    assert spec.keys() >= SPECS[kind].keys()


@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [
        ("jobsets", {"replicatedJobs": [{"name": "a"}]}, "spec.replicatedJobs[0].template"),
        ("jobsets", {"startupPolicy": {"startupPolicyOrder": "Random"}}, "spec.startupPolicy.startupPolicyOrder"),
        ("jobsets", {"failurePolicy": {"maxRestarts": "many"}}, "spec.failurePolicy.maxRestarts"),
        ("pytorchjobs", {}, "spec.pytorchReplicaSpecs"),
        ("pytorchjobs", {"pytorchReplicaSpecs": {"Worker": {"replicas": "2"}}}, "Worker].replicas"),
        ("tfjobs", {}, "spec.tfReplicaSpecs"),
        ("mpijobs", {"mpiReplicaSpecs": {}, "slotsPerWorker": "many"}, "spec.slotsPerWorker"),
        ("sparkapplications", {"driver": {"sidecars": [{"image": "a"}]}}, "spec.driver.sidecars[0].name"),
        ("sparkapplications", {"executor": {"instances": 0}}, "spec.executor.instances"),
        ("daskclusters", {"worker": {"spec": {}}}, "spec.worker.spec.containers"),
        ("daskjobs", {"cluster": {}}, "spec.cluster.spec"),
    ],
)
def test_what_the_definition_forbids_is_refused(kind: str, spec: Any, field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        created(kind, spec)
    assert any(error.path.endswith(field) for error in refused.value.errors), refused.value


@pytest.mark.parametrize(
    ("kind", "status", "cells"),
    [
        ("jobsets", {"terminalState": "Completed", "restarts": 1}, ["x", "Completed", "1", None, None]),
        ("pytorchjobs", {"conditions": [{"type": "Created"}, {"type": "Running"}]}, ["x", "Running"]),
    ],
)
def test_columns_are_those_of_the_definition(kind: str, status: Any, cells: list[Any]) -> None:
    async def play() -> list[Any]:
        async with local_api() as api:
            manifest = {"metadata": {"name": "x", "creationTimestamp": "2026-01-01T00:00:00Z"}, "status": status}
            now = read_time("2026-01-01T00:00:05Z")
            assert now is not None
            found = api.kind(kind)
            return [column.value(manifest, now) for column in columns_of(found, found.stored)]

    assert asyncio.run(play()) == [*cells, "5s"]
