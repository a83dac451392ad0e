"""The pods and the status of a RayCluster."""

from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.ray import clusters, nodes, submission
from fairway.ray.commands import WorkerPorts

from .objects import ENDPOINTS, NOW, RAY, deleted, group, ray_cluster, ray_job, ray_pod, ready_cluster

PORTS = {"endpoints": ENDPOINTS}
HEAD = ray_pod("head", "headgroup")


def _plan(cluster: Manifest, *pods: Manifest) -> clusters.ClusterPlan:
    return clusters.decide(cluster, pods, RAY, NOW)


def test_ports_come_first_then_all_pods_at_once() -> None:
    first = _plan(ray_cluster(group(replicas=2)))
    second = _plan(ray_cluster(group(replicas=2), status=PORTS))

    assert (first.needs_ports, first.creates) == (True, False)
    assert (second.create_head, [(one.group["groupName"], one.count) for one in second.create_workers]) == (
        True,
        [("small", 2)],
    )


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ({}, 0),
        ({"replicas": 3}, 3),
        ({"replicas": 1, "minReplicas": 2}, 2),
        ({"replicas": 9, "maxReplicas": 4, "numOfHosts": 2}, 8),
        ({"replicas": 3, "suspend": True}, 0),
    ],
)
def test_a_group_has_its_replicas_within_its_bounds_times_its_hosts(fields: dict[str, Any], count: int) -> None:
    assert clusters.desired_pods(group(**fields)) == count


@pytest.mark.parametrize(
    ("pods", "gone"),
    [
        pytest.param((HEAD, ray_pod("a"), ray_pod("b")), ["b"], id="a worker too many"),
        pytest.param((HEAD, ray_pod("a", phase="Failed")), ["a"], id="a failed worker alone"),
        pytest.param(
            (ray_pod("head", "headgroup", phase="Failed"), ray_pod("a")), ["head", "a"], id="all, with a head"
        ),
        pytest.param((HEAD, ray_pod("a", "old")), ["a"], id="a group that is no longer there"),
        pytest.param((HEAD, deleted(ray_pod("a"))), [], id="none twice"),
    ],
)
def test_is_deleted_before_anything_is_created(pods: tuple[Manifest, ...], gone: list[str]) -> None:
    plan = _plan(ray_cluster(group(replicas=1), status=PORTS), *pods)

    assert [pod["metadata"]["name"] for pod in plan.delete] == gone
    assert not plan.creates


def test_a_head_that_never_was_ready_gets_other_ports() -> None:
    failed = ray_pod("head", "headgroup", phase="Failed")
    was_ready = {"conditions": [{"type": "HeadPodReady", "status": "True", "lastTransitionTime": "x"}]}

    first = _plan(ray_cluster(status=PORTS), failed)
    later = _plan(ray_cluster(status=PORTS | was_ready), failed)

    assert first.status is not None
    assert later.status is not None
    assert first.status["endpoints"] is None
    assert "endpoints" not in later.status


def test_ready_when_head_and_workers_are() -> None:
    cluster = ray_cluster(group(replicas=1), status=PORTS)

    half, whole = _plan(cluster, HEAD, ray_pod("a", ready=False)), _plan(cluster, HEAD, ray_pod("a"))

    assert half.status is not None
    assert "state" not in half.status
    assert whole.status is not None
    assert (whole.status["state"], whole.status["availableWorkerReplicas"]) == ("ready", 1)
    assert (whole.status["desiredCPU"], whole.status["desiredMemory"]) == ("3", "8G")


def test_what_is_written_is_not_written_again() -> None:
    cluster = ray_cluster(group(replicas=1), status=PORTS)
    plan = _plan(cluster, HEAD, ray_pod("a"))
    assert plan.status is not None
    cluster["status"] = {**cluster["status"], **plan.status}

    assert _plan(cluster, HEAD, ray_pod("a")).status is None


def test_suspending_deletes_all_pods_and_then_says_so() -> None:
    cluster = ray_cluster(status={**PORTS, "state": "ready"}, suspend=True)

    during, after = _plan(cluster, HEAD), _plan(cluster)

    assert [pod["metadata"]["name"] for pod in during.delete] == ["head"]
    assert during.status is not None
    assert "state" not in during.status
    assert after.status is not None
    assert (after.status["state"], after.status["endpoints"]) == ("suspended", None)


def test_another_ray_version_is_said_in_a_condition_and_a_warning() -> None:
    plan = _plan(ray_cluster(status=PORTS, rayVersion="2.9.0"))

    ((reason, message),) = plan.warnings
    assert reason == "RayVersionMismatch"
    assert message.startswith("rayVersion is 2.9.0, and this machine has Ray 2.60.0, which is used")
    assert plan.status is not None
    assert [one["message"] for one in plan.status["conditions"] if one["type"] == reason] == [message]


def test_without_ray_nothing_is_created_and_the_condition_says_what_to_install() -> None:
    plan = clusters.decide(ray_cluster(), (), None, NOW)

    assert (plan.needs_ports, plan.creates) == (False, False)
    assert plan.status is not None
    ((condition),) = plan.status["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "RayClusterProvisioned",
        "False",
        "RayNotInstalled",
    )
    assert "pip install 'fairway[ray]'" in condition["message"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"minReplicas": 3, "maxReplicas": 2}, "worker group small has minReplicas 3 greater than maxReplicas 2"),
        ({"maxReplicas": -1}, "worker group small has negative maxReplicas -1"),
        ({"template": {"spec": {"containers": []}}}, "workerGroupSpec should have at least one container"),
        ({"rayStartParams": {"num-cpus": "1"}, "resources": {"CPU": "1"}}, "resource fields should not be set in both"),
    ],
)
def test_an_invalid_cluster_starts_nothing_and_says_why_once(fields: dict[str, Any], said: str) -> None:
    cluster = ray_cluster(group(**fields), status=PORTS)

    plan = _plan(cluster)

    ((reason, message),) = plan.warnings
    assert (reason, plan.creates, plan.needs_ports) == ("InvalidRayClusterSpec", False, False)
    assert said in message
    assert plan.status is not None
    assert plan.status["conditions"][0]["message"] == message
    cluster["status"] = {**cluster["status"], **plan.status}
    assert _plan(cluster) == clusters.ClusterPlan()


def test_the_head_of_a_sidecar_is_not_replaced_once_all_was_ready() -> None:
    job = ray_job("Running", submissionMode="SidecarMode")
    made = submission.new_cluster(job, "train-abcde", RAY)
    ready = [{"type": "RayClusterProvisioned", "status": "True", "lastTransitionTime": "x"}]
    cluster = ray_cluster(status=PORTS)
    cluster["metadata"]["annotations"] = made["metadata"]["annotations"]

    first = _plan(cluster)
    cluster["status"]["conditions"] = ready

    assert first.create_head
    assert not _plan(cluster).creates


def test_the_cluster_of_a_job_has_its_labels() -> None:
    job = ray_job("Initializing")
    job["metadata"]["labels"] = {"team": "vision", "ray.io/originated-from-crd": "mine"}

    labels = submission.new_cluster(job, "train-abcde", RAY)["metadata"]["labels"]

    assert (labels["team"], labels["ray.io/originated-from-crd"]) == ("vision", "RayJob")


def test_a_worker_pod_is_named_labelled_and_started_as_kuberay_does() -> None:
    cluster = ready_cluster()
    ports = nodes.head_ports(cluster)
    assert ports is not None

    pod = nodes.worker_pod(cluster, group("a-group-with-a-long-name" + "x" * 20), WorkerPorts(1, 2, 3, 4), ports, RAY)

    container = pod["spec"]["containers"][0]
    assert len(pod["metadata"]["generateName"]) <= 51
    assert pod["metadata"]["generateName"].endswith("-worker-")
    assert pod["metadata"]["labels"]["ray.io/node-type"] == "worker"
    assert "--address=127.0.0.2:20001" in container["args"][0]
    assert container["args"][0].count("start-ray --address") == 1
    assert pod["spec"]["volumes"] == [{"name": "fairway-ray", "emptyDir": {}}]
    assert {one["name"] for one in container["env"]} >= {"RAY_AUTH_TOKEN", "RAY_ADDRESS", "RAY_NODE_TYPE_NAME"}
    assert nodes.ports_of(pod) == {1, 2, 3, 4}


def test_a_command_of_the_container_runs_before_ray() -> None:
    cluster = ready_cluster()
    cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["args"] = ["echo hello"]
    ports = nodes.head_ports(cluster)
    assert ports is not None

    pod = nodes.head_pod(cluster, ports, RAY)

    assert pod["spec"]["containers"][0]["args"][0].startswith("echo hello && { export PATH='/opt/ray/bin':$PATH")


def test_the_submitter_is_called_after_its_job_and_passes_the_entrypoint_as_words() -> None:
    job = ray_job("Initializing", entrypoint="python -c 'print(1); x'", runtimeEnvYAML="env_vars: {A: b}")

    made = submission.submitter(job, ready_cluster(), RAY)

    (script,) = made["spec"]["template"]["spec"]["containers"][0]["args"]
    assert made["metadata"]["name"] == "train"
    assert made["spec"]["backoffLimit"] == 2
    assert "-- python -c 'print(1); x'" in script
    assert """--runtime-env-json '{"env_vars": {"A": "b"}}'""" in script


def test_a_sidecar_submits_from_the_head() -> None:
    job = ray_job("Initializing", submissionMode="SidecarMode")
    cluster = submission.new_cluster(job, "train-abcde", RAY)
    cluster["metadata"]["uid"] = "0a1b2c3d"
    ports = nodes.head_ports(ready_cluster())
    assert ports is not None

    pod = nodes.head_pod(cluster, ports, RAY)

    environment = {one["name"]: one.get("value") for one in pod["spec"]["containers"][1]["env"]}
    assert pod["spec"]["containers"][1]["name"] == "ray-job-submitter"
    assert environment["RAY_DASHBOARD_ADDRESS"] == "http://127.0.0.2:20002"
    assert environment["RAY_JOB_SUBMISSION_ID"] == "train-11111"
