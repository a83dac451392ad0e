"""The columns of Kueue's and KubeRay's kinds, exactly: their guides show them, and people's scripts cut them."""

import json

import pytest

from .hand import Hand
from .kubectl import Kubectl
from .manifests import (
    KUEUE,
    admitted_status,
    cluster_queue,
    condition,
    flavor,
    local_queue,
    named,
    ray_job,
    workload,
)


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_cluster_queues(kubectl: Kubectl, hand: Hand, version: str) -> None:
    name = kubectl.namespace
    hand.make(cluster_queue(name, cohortName="all"))
    hand.server.call(
        "PATCH",
        f"/apis/{KUEUE}/v1beta2/clusterqueues/{name}/status",
        {"status": {"pendingWorkloads": 2, "admittedWorkloads": 1}},
        content_type="application/merge-patch+json",
    )
    resource = f"clusterqueues.{version}.{KUEUE}/{name}"

    assert kubectl.table(f"get {resource}") == [["NAME", "COHORT", "PENDING WORKLOADS"], [name, "all", "2"]]
    assert kubectl.table(f"get {resource} -o wide") == [
        ["NAME", "COHORT", "STRATEGY", "PENDING WORKLOADS", "ADMITTED WORKLOADS"],
        [name, "all", "BestEffortFIFO", "2", "1"],
    ]


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_local_queues(kubectl: Kubectl, hand: Hand, version: str) -> None:
    hand.make(local_queue("mine", "shared"))
    hand.change(local_queue("mine", "shared"), {"status": {"pendingWorkloads": 3, "admittedWorkloads": 4}}, "status")

    assert kubectl.table(f"get localqueues.{version}.{KUEUE}") == [
        ["NAME", "CLUSTERQUEUE", "PENDING WORKLOADS", "ADMITTED WORKLOADS"],
        ["mine", "shared", "3", "4"],
    ]


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_workloads(kubectl: Kubectl, hand: Hand, version: str) -> None:
    hand.make(workload("a-waits"), workload("b-runs"), workload("c-done"))
    hand.change(workload("b-runs"), {"status": admitted_status("shared")}, "status")
    done = admitted_status("shared")
    done["conditions"].append(condition("Finished", reason="Succeeded", message="done"))
    hand.change(workload("c-done"), {"status": done}, "status")

    head, *rows = kubectl.table(f"get workloads.{version}.{KUEUE}")

    assert head == ["NAME", "QUEUE", "RESERVED IN", "ADMITTED", "FINISHED", "AGE"]
    assert [row[:5] for row in rows] == [
        ["a-waits", "queue", "", "", ""],
        ["b-runs", "queue", "shared", "True", ""],
        ["c-done", "queue", "shared", "True", "True"],
    ]
    assert kubectl("get workloads -o name --field-selector status.admission.clusterQueue=shared").split() == [
        "workload.kueue.x-k8s.io/b-runs",
        "workload.kueue.x-k8s.io/c-done",
    ]


def test_priority_classes(kubectl: Kubectl, hand: Hand) -> None:
    name = kubectl.namespace
    hand.make(named("WorkloadPriorityClass", name, version=f"{KUEUE}/v1beta2", value=1000, description="first"))

    assert kubectl.table(f"get workloadpriorityclass {name}") == [["NAME", "VALUE"], [name, "1000"]]


@pytest.mark.parametrize("short", ["rf", "flavors", "resourceflavors.v1beta1.kueue.x-k8s.io"])
def test_flavors_have_no_columns_of_their_own(kubectl: Kubectl, hand: Hand, short: str) -> None:
    hand.make(flavor(kubectl.namespace))

    assert kubectl.table(f"get {short} {kubectl.namespace}")[0] == ["NAME", "AGE"]


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        pytest.param("Cohort", {}, id="cohorts"),
        pytest.param("AdmissionCheck", {"controllerName": "example.com/checks"}, id="admission checks"),
        pytest.param("ProvisioningRequestConfig", {"provisioningClassName": "check-capacity"}, id="provisioning"),
        pytest.param("Topology", {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]}, id="topologies"),
    ],
)
def test_nor_have_the_other_kinds(kubectl: Kubectl, kind: str, spec: dict[str, object]) -> None:
    name = kubectl.namespace
    kubectl("create -f -", given=named(kind, name, version=f"{KUEUE}/v1beta2", spec=spec))

    head, row = kubectl.table(f"get {kind.lower()} {name}")

    assert (head, row[0]) == (["NAME", "AGE"], name)


def test_ray_jobs(kubectl: Kubectl, hand: Hand) -> None:
    hand.make(ray_job(name="train"))
    status = {
        "jobStatus": "RUNNING",
        "jobDeploymentStatus": "Running",
        "rayClusterName": "train-abcde",
        "startTime": "2026-11-16T08:30:00Z",
    }
    hand.change(ray_job(name="train"), {"status": status}, "status")

    head, row = kubectl.table("get rayjobs")

    assert head == ["NAME", "JOB STATUS", "DEPLOYMENT STATUS", "RAY CLUSTER NAME", "START TIME", "END TIME", "AGE"]
    assert row[:6] == ["train", "RUNNING", "Running", "train-abcde", "2026-11-16T08:30:00Z", ""]


def test_ray_clusters(kubectl: Kubectl, hand: Hand) -> None:
    cluster = named("RayCluster", "ray", version="ray.io/v1", spec=ray_job()["spec"]["rayClusterSpec"])
    hand.make(cluster)
    status = {
        "desiredWorkerReplicas": 2,
        "availableWorkerReplicas": 1,
        "desiredCPU": "3",
        "desiredMemory": "6Gi",
        "desiredGPU": "0",
        "desiredTPU": "0",
        "state": "ready",
        "head": {"podIP": "10.0.0.1", "serviceIP": "10.0.0.2"},
    }
    hand.change(cluster, {"status": status}, "status")

    head, row = kubectl.table("get rayclusters")
    assert head == ["NAME", "DESIRED WORKERS", "AVAILABLE WORKERS", "CPUS", "MEMORY", "GPUS", "STATUS", "AGE"]
    assert row[:7] == ["ray", "2", "1", "3", "6Gi", "0", "ready"]
    wide = dict(zip(*kubectl.table("get rayclusters -o wide"), strict=True))
    assert (wide["TPUS"], wide["HEAD POD IP"], wide["HEAD SERVICE IP"]) == ("0", "10.0.0.1", "10.0.0.2")


def test_who_waits_in_a_queue(kubectl: Kubectl, hand: Hand) -> None:
    name = kubectl.namespace
    hand.make(cluster_queue(name), local_queue("queue", name), workload("second"), workload("first", priority=5))
    path = f"/apis/visibility.{KUEUE}/v1beta2/clusterqueues/{name}/pendingworkloads"

    waiting = json.loads(kubectl(f"get --raw {path}"))["items"]

    assert [one["metadata"]["name"] for one in waiting] == ["first", "second"]
    assert [one["positionInClusterQueue"] for one in waiting] == [0, 1]
