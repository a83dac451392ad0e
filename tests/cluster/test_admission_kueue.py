"""Managed jobs admitted and preempted by the real Kueue, on a kubelet.

The API server of the cluster cannot reach a process of the test, so there are no webhooks here, and jobs come with the
number and the user that the webhook would give them.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path

import pytest
from tools.cluster.lifecycle import RunningCluster

from .controllers import Controller, Kubectl, define, eventually, listed, managed_job, namespace

NUMBERS = count(1)


@pytest.fixture
def k(cluster: RunningCluster, kubectl: Callable[[Path], Kubectl]) -> Kubectl:
    return kubectl(cluster.kubeconfig)


@pytest.fixture
def queue(k: Kubectl, unique: str) -> Iterator[str]:
    """A namespace with the LocalQueue `team`, which has one CPU, and a class `NAME-high`."""
    resources = [{"name": "cpu", "nominalQuota": 1}, {"name": "memory", "nominalQuota": "64Gi"}]
    group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": unique, "resources": resources}]}
    version = {"apiVersion": "kueue.x-k8s.io/v1beta2"}
    spec = {
        "namespaceSelector": {},
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "resourceGroups": [group],
    }
    wide = [
        {**version, "kind": "ResourceFlavor", "metadata": {"name": unique}},
        {**version, "kind": "ClusterQueue", "metadata": {"name": unique}, "spec": spec},
        {**version, "kind": "WorkloadPriorityClass", "metadata": {"name": f"{unique}-high"}, "value": 1000},
    ]
    local = {"metadata": {"name": "team", "namespace": unique}, "spec": {"clusterQueue": unique}}
    define(k, "kueue")
    items = [namespace(unique), *wide, {**version, "kind": "LocalQueue", **local}]
    k("apply", "-f", "-", given=json.dumps(listed(items)))
    try:
        yield unique
    finally:
        k("delete", "mj", "--all", "-n", unique, "--ignore-not-found")
        k("delete", "namespace", unique, "--wait=false")
        k("delete", "-f", "-", "--wait=false", given=json.dumps(listed(wide)))


@pytest.fixture
def running(cluster: RunningCluster, tmp_path: Path, queue: str) -> Iterator[Controller]:
    found = Controller(cluster.kubeconfig, tmp_path / "state", "kueue").lead()
    try:
        yield found
    finally:
        found.stop()


def launch(k: Kubectl, name: str, place: str, run: str, user: str = "ann", **spec: object) -> None:
    job = managed_job(name, place, run, queue="team", id=next(NUMBERS), user=user, **spec)
    k("create", "-f", "-", given=job)


def field(k: Kubectl, name: str, place: str, path: str) -> str:
    return k("get", "mj", name, "-n", place, "-o", f"jsonpath={{.status.{path}}}")


def test_a_job_preempted_by_kueue_comes_back_and_finishes(running: Controller, k: Kubectl, queue: str) -> None:
    launch(k, "victim", queue, "sleep 8")
    eventually(lambda: field(k, "victim", queue, "phase"), "RUNNING")
    launch(k, "urgent", queue, "sleep 3", "ben", priorityClass=f"{queue}-high")
    eventually(lambda: field(k, "victim", queue, "phase"), "RECOVERING")
    assert "urgent" in field(k, "victim", queue, "message")
    for name in ("urgent", "victim"):
        eventually(partial(field, k, name, queue, "phase"), "SUCCEEDED")
    assert (field(k, "victim", queue, "recoveries"), field(k, "victim", queue, "preemptions")) == ("1", "1")
    workloads = json.loads(k("get", "workloads", "-n", queue, "-o", "json"))["items"]
    for workload in workloads:
        conditions = {one["type"]: one["status"] for one in workload["status"]["conditions"]}
        assert conditions["Finished"] == "True"
    assert sorted(one["spec"]["priority"] for one in workloads) == [10, 1000], "earned while it had quota"


def test_a_killed_controller_goes_on_where_it_was(
    running: Controller, cluster: RunningCluster, k: Kubectl, queue: str
) -> None:
    launch(k, "long", queue, "sleep 12")
    eventually(lambda: field(k, "long", queue, "phase"), "RUNNING")
    running.kill()
    launch(k, "next", queue, "true")
    again = Controller(cluster.kubeconfig, running.state, "kueue").lead()
    try:
        for name in ("long", "next"):
            eventually(partial(field, k, name, queue, "phase"), "SUCCEEDED")
        assert field(k, "long", queue, "attempt") == "1", "what ran was not touched"
    finally:
        again.stop()
