"""What manifests of pods, workloads and jobs mean to the state machine."""

from datetime import UTC, datetime
from typing import Any

import pytest

from fairway.managedjobs import asking, observing
from fairway.managedjobs.observation import NodeState, PodState, StartObstacle
from fairway.managedjobs.status import ManagedJobStatus
from fairway.managedjobs.tasks.parse import stored_tasks

WHEN = "2026-01-01T00:00:00Z"


def a_pod(phase: str = "Pending", metadata: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    labels = {"fairway.dev/task": "0", "fairway.dev/attempt": "2", "fairway.dev/rank": "1"}
    return {
        "metadata": {"name": "p", "uid": "u", "labels": labels, **(metadata or {})},
        "spec": {},
        "status": {"phase": phase, **status},
    }


def ended(exit_code: int, name: str = "run", **more: Any) -> list[dict[str, Any]]:
    return [{"name": name, "state": {"terminated": {"exitCode": exit_code, "finishedAt": WHEN, **more}}}]


def told(grace: int) -> dict[str, Any]:
    return {"deletionTimestamp": WHEN, "deletionGracePeriodSeconds": grace}


LOST = [{"type": "DisruptionTarget", "status": "True", "message": "power cut"}]


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(a_pod(), PodState.STARTING, id="has not begun"),
        pytest.param(a_pod("Running"), PodState.RUNNING, id="runs"),
        pytest.param(
            a_pod("Running", told(0)), PodState.RUNNING, id="deleted by force, and nobody knows that it ended"
        ),
        pytest.param(a_pod("Succeeded"), PodState.SUCCEEDED, id="is done"),
        pytest.param(a_pod("Succeeded", told(30)), PodState.SUCCEEDED, id="was done before it was told"),
        pytest.param(a_pod("Succeeded", reason="Stopped"), PodState.STOPPED, id="ended well when it was told"),
        pytest.param(a_pod("Failed", containerStatuses=ended(3)), PodState.FAILED, id="failed"),
        pytest.param(
            a_pod("Failed", containerStatuses=ended(143), reason="Stopped"), PodState.STOPPED, id="ended when told"
        ),
        pytest.param(a_pod("Failed", conditions=LOST, containerStatuses=ended(137)), PodState.LOST, id="lost"),
        pytest.param(a_pod("Failed", reason="OutOfcpu"), PodState.LOST, id="its machine would not have it"),
        pytest.param(
            a_pod("Failed", containerStatuses=ended(128, reason="StartError", message="shim task: context canceled")),
            PodState.LOST,
            id="the kubelet was restarted while it started the container",
        ),
        pytest.param(
            a_pod("Failed", containerStatuses=ended(128, reason="StartError", message="exec: no such file")),
            PodState.FAILED,
            id="its command is wrong",
        ),
        pytest.param(a_pod("Pending", told(0)), PodState.STOPPED, id="deleted before it began"),
        pytest.param(a_pod("Pending", told(30)), PodState.STARTING, id="being deleted"),
        pytest.param(
            a_pod("Pending", told(0), initContainerStatuses=[{"name": "setup", "state": {"running": {}}}]),
            PodState.STARTING,
            id="deleted while it is set up",
        ),
    ],
)
def test_how_far_a_pod_has_come(pod: dict[str, Any], want: PodState) -> None:
    assert observing.pod_of(pod).state is want


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({"containerStatuses": ended(3)}, ("run", 3, ""), id="the task"),
        pytest.param({"initContainerStatuses": ended(4, "setup")}, ("setup", 4, ""), id="its setup"),
        pytest.param(
            {"containerStatuses": ended(137, reason="OOMKilled")}, ("run", 137, "out of memory"), id="out of memory"
        ),
        pytest.param(
            {"containerStatuses": ended(128, message="no such file")}, ("run", 128, "no such file"), id="said"
        ),
        pytest.param(
            {"containerStatuses": ended(1, message="x" * 5000)}, ("run", 1, f"{'x' * 1020} ..."), id="said at length"
        ),
    ],
)
def test_what_failed(status: dict[str, Any], want: tuple[str, int, str]) -> None:
    pod = observing.pod_of(a_pod("Failed", **status))
    assert (pod.container, pod.exit_code, pod.message) == want
    assert pod.ended_at == datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("pod", "want"),
    [
        pytest.param(a_pod("Failed", conditions=LOST), "power cut", id="lost"),
        pytest.param(
            a_pod(
                conditions=[{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "full"}]
            ),
            "waits for a node: full",
            id="no node",
        ),
        pytest.param(
            a_pod(containerStatuses=[{"name": "run", "state": {"waiting": {"reason": "Bad", "message": "no secret"}}}]),
            "Bad: no secret",
            id="cannot start",
        ),
        pytest.param(a_pod("Running"), "", id="all is well"),
    ],
)
def test_what_is_said_of_a_pod(pod: dict[str, Any], want: str) -> None:
    assert observing.pod_of(pod).message == want


def test_a_pod_without_our_labels_belongs_to_no_attempt() -> None:
    pod = observing.pod_of({"metadata": {"name": "p", "uid": "u"}, "spec": {}})
    assert (pod.task, pod.attempt) == (-1, -1)


# Queues and priorities


class Classes(dict[str, int]):
    def get(self, _namespace: str, name: str) -> Any:  # type: ignore[override]
        return {"metadata": {"name": name}, "value": self[name]} if name in self else None

    def items(self) -> Any:
        return []


def manifest(task: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    metadata = {"name": "train-1", "uid": "u", "namespace": "default", "creationTimestamp": WHEN}
    return {"metadata": metadata, "spec": {"tasks": [{"run": "true", **(task or {})}], **spec}}


def labelled(key: str, value: str) -> dict[str, Any]:
    return {"resources": {"labels": {f"kueue.x-k8s.io/{key}": value}}}


CONFIGURED = {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "c", "kueue.x-k8s.io/priority-class": "low"}}}


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(manifest(labelled("queue-name", "b"), queue="a"), "a", id="what the job says"),
        pytest.param(manifest(labelled("queue-name", "b"), podConfig=CONFIGURED), "b", id="what the task says"),
        pytest.param(manifest(podConfig=CONFIGURED), "c", id="what is configured"),
        pytest.param(manifest(), "default", id="the default queue"),
    ],
)
def test_the_queue_of_a_job(given: dict[str, Any], want: str) -> None:
    job = observing.job_of(given, stored_tasks(given))
    assert asking.queue_of(given, job, ManagedJobStatus(), lambda name: name == "default") == want


def test_without_a_default_queue_there_is_none() -> None:
    given = manifest()
    assert not asking.queue_of(given, observing.job_of(given, stored_tasks(given)), ManagedJobStatus(), lambda _: False)


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(manifest(), (0, ""), id="nothing is said"),
        pytest.param(manifest({"resources": {"priority": 7}}), (7, ""), id="what the task says"),
        pytest.param(manifest({"resources": {"priority": 7}}, priority=3), (3, ""), id="what the job says"),
        pytest.param(manifest(labelled("priority-class", "high")), (100, "high"), id="a class by label"),
        pytest.param(manifest(priorityClass="low", podConfig=CONFIGURED), (1, "low"), id="a class of the job"),
        pytest.param(manifest(priorityClass="low", priority=9), (9, "low"), id="a number counts before its class"),
        pytest.param(manifest(priorityClass="gone"), (None, "gone"), id="a class that does not exist"),
    ],
)
def test_the_priority_of_a_job(given: dict[str, Any], want: tuple[int | None, str]) -> None:
    job = observing.job_of(given, stored_tasks(given))
    base = asking.base_priority(given, job, ManagedJobStatus(), Classes(low=1, high=100), Classes())
    assert (base.value, base.class_name) == want
    assert asking.may_name_class(given, base.class_name) or not base.class_name


# Pods of kubelets

DELETED = {"deletionTimestamp": "2026-01-01T00:00:40Z", "deletionGracePeriodSeconds": 30}
"""At 00:00:10, with 30 s to end."""


def on_kubelet(exit_code: int, at: str, **more: Any) -> list[dict[str, Any]]:
    return ended(exit_code, containerID="containerd://1", **{"finishedAt": f"2026-01-01T00:00:{at}Z", **more})


def disrupted(reason: str, message: str = "") -> list[dict[str, Any]]:
    return [{"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}]


@pytest.mark.parametrize(
    ("pod", "state", "message"),
    [
        pytest.param(
            a_pod("Succeeded", DELETED, containerStatuses=on_kubelet(0, "12")),
            PodState.STOPPED, "", id="saved its state and exited with 0 when it was told to end",
        ),
        pytest.param(
            a_pod("Failed", DELETED, containerStatuses=on_kubelet(143, "10")),
            PodState.STOPPED, "", id="ended in the second in which it was told",
        ),
        pytest.param(
            a_pod("Succeeded", DELETED, containerStatuses=on_kubelet(0, "09")),
            PodState.SUCCEEDED, "", id="had succeeded before",
        ),
        pytest.param(
            a_pod("Failed", DELETED, containerStatuses=on_kubelet(1, "09")), PodState.FAILED, "", id="had failed before"
        ),
        pytest.param(
            a_pod("Succeeded", DELETED, conditions=disrupted("EvictionByEvictionAPI"),
                  containerStatuses=on_kubelet(0, "12")),
            PodState.LOST, "evicted from node its node, which is drained", id="drained",
        ),
        pytest.param(
            a_pod("Failed", DELETED, conditions=disrupted("PreemptionByScheduler", "for p2"),
                  containerStatuses=on_kubelet(143, "12")),
            PodState.LOST, "preempted on node its node by a pod of higher priority (for p2)", id="by kube-scheduler",
        ),
        pytest.param(
            a_pod("Failed", DELETED, conditions=disrupted("DeletionByPodGC")),
            PodState.LOST, "node its node no longer exists", id="collected after its node was deleted",
        ),
        pytest.param(
            a_pod("Running", DELETED, conditions=disrupted("DeletionByTaintManager")),
            PodState.RUNNING, "node its node is unreachable or was tainted",
            id="on an unreachable node, where it may still run",
        ),
        pytest.param(
            a_pod("Failed", containerStatuses=on_kubelet(137, "12", reason="OOMKilled")),
            PodState.FAILED, "out of memory", id="out of memory",
        ),
        pytest.param(
            a_pod("Failed", reason="Evicted", message="The node was low on resource: memory."),
            PodState.LOST, "Evicted: The node was low on resource: memory.", id="evicted by an old kubelet",
        ),
        pytest.param(
            a_pod("Failed", containerStatuses=on_kubelet(1, "12", message="fairway: nodes missing: w1 after 1800 s\n")),
            PodState.LOST, "fairway: nodes missing: w1 after 1800 s", id="the other nodes did not come",
        ),
    ],
)  # fmt: skip
def test_how_a_pod_of_a_kubelet_ended(pod: dict[str, Any], state: PodState, message: str) -> None:
    seen = observing.pod_of(pod)
    assert (seen.state, seen.message) == (state, message)


def test_a_failed_setup_is_told_by_the_termination_message() -> None:
    pod = a_pod("Failed", containerStatuses=on_kubelet(7, "12", message="fairway: setup failed\n"))
    seen = observing.pod_of(pod)
    assert (seen.container, seen.exit_code, seen.message) == ("setup", 7, "")


def test_a_pod_is_over_when_its_node_was_deleted_and_not_while_it_is_unreachable() -> None:
    pod = a_pod("Running", DELETED)
    assert observing.pod_of(pod, NodeState(name="n1", trouble="node n1 is unreachable")).is_over is False
    gone = observing.pod_of(pod, NodeState(name="n1", gone=True))
    assert (gone.state, gone.message) == (PodState.LOST, "node n1 no longer exists")


@pytest.mark.parametrize(
    ("reason", "obstacle"),
    [
        ("ErrImagePull", StartObstacle.IMAGE),
        ("ImagePullBackOff", StartObstacle.IMAGE),
        ("InvalidImageName", StartObstacle.HOPELESS),
        ("ContainerCreating", StartObstacle.NONE),
    ],
)
def test_what_keeps_a_container_from_starting(reason: str, obstacle: StartObstacle) -> None:
    waiting = [{"name": "run", "state": {"waiting": {"reason": reason, "message": "so"}}}]
    assert observing.pod_of(a_pod(containerStatuses=waiting)).obstacle is obstacle


def test_a_pod_that_kueue_gates_says_what_to_do() -> None:
    pod = {**a_pod(), "spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}}
    assert "fairway cluster doctor --fix" in observing.pod_of(pod).message
