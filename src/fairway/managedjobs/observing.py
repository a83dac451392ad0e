"""Parses manifests into the observed state."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final

from fairway.admission.port import AdmittedBy
from fairway.admission.records import EARNED_PRIORITY, annotation_number
from fairway.apis.core.accelerators import LABEL as ACCELERATOR
from fairway.apis.machinery.conditions import find_in
from fairway.apis.machinery.kind import Manifest
from fairway.integrations import conditions
from fairway.integrations.pods import GATE
from fairway.managedjobs.clusterscripts import SETUP_FAILED
from fairway.managedjobs.containers import SETUP
from fairway.managedjobs.observation import (
    DEFAULT_CAP,
    DEFAULT_STEP,
    KNOWN,
    ManagedJobSpec,
    NodeState,
    ObservedPod,
    ObservedWorkload,
    PodState,
    StartObstacle,
)
from fairway.managedjobs.pods import ATTEMPT, RANK, TASK
from fairway.managedjobs.scripts import NOT_TOGETHER
from fairway.managedjobs.status import ManagedJobStatus
from fairway.managedjobs.tasks.task import Task

FINALIZER: Final = "fairway.dev/attempt"
"""Keeps a pod from going before it is written down how it ended."""

STOPPED: Final = "Stopped"
"""The reason of a pod that was stopped before it ended."""

_LONGEST_MESSAGE: Final = 1024
"""Programs may leave more than that behind, and a job remembers many attempts."""

WAITS_FOR_NODE: Final = "waits for a node: "
"""How the message of a job begins whose pods fit nowhere now."""

_OWN: Final = "fairway://"
"""How ids of containers begin that our own runner started."""

_INTERRUPTED: Final = ("context canceled", "context deadline exceeded")
"""What a container runtime says of a start that was not completed in time; a wrong command reads otherwise."""

_IMAGE: Final = frozenset({"ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "RegistryUnavailable"})
_HOPELESS_IMAGE: Final = frozenset({"InvalidImageName"})
_DISRUPTIONS: Final = {
    "EvictionByEvictionAPI": "evicted from node {node}, which is drained",
    "DeletionByTaintManager": "node {node} is unreachable or was tainted",
    "DeletionByPodGC": "node {node} no longer exists",
    "PreemptionByScheduler": "preempted on node {node} by a pod of higher priority",
    "TerminationByKubelet": "ended by the kubelet of node {node}",
}
"""By the reasons of the condition DisruptionTarget."""

_GATED: Final = "Kueue queues its pod a second time; `fairway cluster doctor --fix` mends Kueue's configuration"
"""Kueue takes pods of an owner that it does not know for its own, where a LocalQueue `default` exists."""

WORKLOAD_CLASS: Final = "WorkloadPriorityClass"


def job_of(manifest: Manifest, tasks: tuple[Task, ...], unreadable: str = "") -> ManagedJobSpec:
    metadata, spec = manifest["metadata"], manifest["spec"]
    aging = spec.get("aging") or {}
    return ManagedJobSpec(
        name=metadata["name"],
        uid=metadata["uid"],
        created_at=datetime.fromisoformat(metadata["creationTimestamp"]),
        generation=metadata.get("generation", 1),
        tasks=tasks,
        unreadable=unreadable,
        recover=spec.get("recover", True),
        hold=spec.get("hold", False),
        cancel=spec.get("cancel", False),
        retry=spec.get("retry", 0),
        aging_step=aging.get("step", DEFAULT_STEP),
        aging_cap=aging.get("cap", DEFAULT_CAP),
        provision_timeout_seconds=spec.get("provisionTimeoutSeconds"),
    )


def without_queue(job: ManagedJobSpec, life: ManagedJobStatus, way: AdmittedBy) -> ObservedWorkload | None:
    """In place of a Workload where jobs need no admission: there is always room, unless the job is held.

    An attempt that began so continues when queues are installed meanwhile; the next one needs a Workload.
    """
    if way is not AdmittedBy.NONE and (life.workload or life.live_attempt is None):
        return None
    return ObservedWorkload(
        name=life.workload, reserved=True, admitted=True, active=not job.hold, finished=life.is_final
    )


def workload_of(manifest: Manifest, evicted_by: str = "") -> ObservedWorkload:
    """As it is; `evicted_by` says for whom it had to stop in better words than its condition has."""
    spec, metadata = manifest["spec"], manifest["metadata"]
    evicted = conditions.find(manifest, conditions.EVICTED)
    if evicted is not None and evicted["status"] != "True":
        evicted = None
    class_ref = spec.get("priorityClassRef") or {}
    return ObservedWorkload(
        name=metadata["name"],
        reserved=conditions.is_true(manifest, conditions.QUOTA_RESERVED),
        admitted=conditions.is_true(manifest, conditions.ADMITTED),
        evicted="" if evicted is None else evicted["reason"],
        message="" if evicted is None else evicted_by or evicted.get("message", ""),
        finished=conditions.is_true(manifest, conditions.FINISHED),
        deleting="deletionTimestamp" in metadata,
        active=spec.get("active") is not False,
        priority=spec.get("priority") or 0,
        earned=annotation_number(metadata.get("annotations") or {}, EARNED_PRIORITY),
        priority_class=class_ref["name"] if class_ref.get("kind") == WORKLOAD_CLASS else "",
    )


def pod_of(manifest: Manifest, node: NodeState = KNOWN) -> ObservedPod:
    """A pod as it is; `node` is what is known of the node that it is on."""
    metadata, status = manifest["metadata"], manifest.get("status") or {}
    labels = metadata.get("labels") or {}
    state, failed = _state(manifest, status)
    message = _message(manifest, status, state, failed)
    if node.gone and state in {PodState.STARTING, PodState.RUNNING}:
        state, message = PodState.LOST, f"node {node.name} no longer exists"
    return ObservedPod(
        name=metadata["name"],
        uid=metadata["uid"],
        task=_number(labels.get(TASK)),
        attempt=_number(labels.get(ATTEMPT)),
        rank=_number(labels.get(RANK)),
        state=state,
        deleting="deletionTimestamp" in metadata,
        kept=FINALIZER in (metadata.get("finalizers") or ()),
        exit_code=None if failed is None else failed[1].get("exitCode"),
        container="" if failed is None else failed[0],
        message=conditions.shortened(message, _LONGEST_MESSAGE),
        ended_at=_ended_at(status),
        node_trouble=node.trouble,
        obstacle=_obstacle(status, state),
    )


def _state(pod: Manifest, status: dict[str, Any]) -> tuple[PodState, tuple[str, dict[str, Any]] | None]:
    """How far it has come; and of a pod that failed by itself the container and how that ended."""
    phase = status.get("phase")
    if phase in {"Succeeded", "Failed"}:
        stopped = status.get("reason") == STOPPED or _ended_after_deletion(pod, status)
        if conditions.is_true(pod, "DisruptionTarget") and (stopped or phase == "Failed"):
            return PodState.LOST, None
        if stopped:
            return PodState.STOPPED, None
        if phase == "Succeeded":
            return PodState.SUCCEEDED, None
        failed = _failed_container(status)
        if failed is None or str(failed[1].get("message") or "").startswith(NOT_TOGETHER) or _never_began(failed[1]):
            return PodState.LOST, None
        return PodState.FAILED, failed
    if phase == "Running":
        return PodState.RUNNING, None
    metadata = pod["metadata"]
    # The runner sets the grace period to 0 when no process is left; a pod that never started gets no other end.
    told = "deletionTimestamp" in metadata and not metadata.get("deletionGracePeriodSeconds")
    return (PodState.STOPPED if told and not _runs(status) else PodState.STARTING), None


def _ended_after_deletion(pod: Manifest, status: dict[str, Any]) -> bool:
    """Whether a kubelet's pod ended after its deletion was requested: a program that saves its state on SIGTERM and
    exits with 0 has not succeeded. Our own runner says so itself, and knows it better than by whole seconds.
    """
    metadata = pod["metadata"]
    ends = [one for one in _terminations(status) if not str(one.get("containerID", _OWN)).startswith(_OWN)]
    finished = max((datetime.fromisoformat(one["finishedAt"]) for one in ends if one.get("finishedAt")), default=None)
    if "deletionTimestamp" not in metadata or finished is None:
        return False
    grace = timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
    return finished >= datetime.fromisoformat(metadata["deletionTimestamp"]) - grace


def _failed_container(status: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """The first that ended badly, in the order in which containers run."""
    for one in _containers(status):
        terminated = (one.get("state") or {}).get("terminated")
        if terminated and terminated.get("exitCode"):
            in_setup = str(terminated.get("message") or "").startswith(SETUP_FAILED)
            return (SETUP if in_setup else one["name"]), terminated
    return None


def _never_began(terminated: dict[str, Any]) -> bool:
    """Whether the kubelet ended or gave up while the container was being started: nothing of the task has run."""
    said = str(terminated.get("message") or "")
    return terminated.get("reason") == "StartError" and any(words in said for words in _INTERRUPTED)


def _terminations(status: dict[str, Any]) -> list[dict[str, Any]]:
    return [found for one in _containers(status) if (found := (one.get("state") or {}).get("terminated"))]


def _runs(status: dict[str, Any]) -> bool:
    return any("running" in (one.get("state") or {}) for one in _containers(status))


def _containers(status: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _message(pod: Manifest, status: dict[str, Any], state: PodState, failed: tuple[str, dict[str, Any]] | None) -> str:
    """Why it failed or was lost, or what keeps it from starting."""
    if failed is not None:
        said = str(failed[1].get("message") or "")
        if said.startswith(SETUP_FAILED):
            return ""
        return said or ("out of memory" if failed[1].get("reason") == "OOMKilled" else str(status.get("message") or ""))
    if state is PodState.LOST:
        return _loss(pod, status)
    if "deletionTimestamp" in pod["metadata"] and conditions.is_true(pod, "DisruptionTarget"):
        return _loss(pod, status)
    if state is not PodState.STARTING:
        return ""
    for one in _containers(status):
        waiting = (one.get("state") or {}).get("waiting") or {}
        if waiting.get("message"):
            return f"{waiting.get('reason', 'waiting')}: {waiting['message']}"
    if any(one.get("name") == GATE for one in (pod.get("spec") or {}).get("schedulingGates") or ()):
        return _GATED
    placed = find_in(status, "PodScheduled") or {}
    if placed.get("status") == "False" and placed.get("message"):
        is_unschedulable = placed.get("reason") == "Unschedulable"
        return f"{WAITS_FOR_NODE}{placed['message']}" if is_unschedulable else str(placed["message"])
    return ""


def _loss(pod: Manifest, status: dict[str, Any]) -> str:
    """Why a pod was lost, by who took it away."""
    for one in _terminations(status):
        if str(one.get("message") or "").startswith(NOT_TOGETHER) or _never_began(one):
            return str(one["message"]).strip()
    disruption = find_in(status, "DisruptionTarget")
    if disruption is None:
        return ": ".join(str(status[name]) for name in ("reason", "message") if status.get(name))
    node = (pod.get("spec") or {}).get("nodeName") or "its node"
    said = _DISRUPTIONS.get(str(disruption.get("reason")), "").format(node=node)
    told = str(disruption.get("message") or "")
    return f"{said} ({told})" if said and told else said or told


def _obstacle(status: dict[str, Any], state: PodState) -> StartObstacle:
    """What keeps a pod from starting, by its kind."""
    if state is not PodState.STARTING:
        return StartObstacle.NONE
    reasons = {((one.get("state") or {}).get("waiting") or {}).get("reason") for one in _containers(status)}
    if reasons & _HOPELESS_IMAGE:
        return StartObstacle.HOPELESS
    if reasons & _IMAGE:
        return StartObstacle.IMAGE
    placed = find_in(status, "PodScheduled") or {}
    if placed.get("status") == "False" and placed.get("reason") == "Unschedulable":
        return StartObstacle.UNSCHEDULABLE
    return StartObstacle.NONE


def _ended_at(status: dict[str, Any]) -> datetime | None:
    ends = [one.get("finishedAt") for one in _terminations(status)]
    return max((datetime.fromisoformat(end) for end in ends if end), default=None)


def asked_models(pod: Manifest) -> frozenset[str]:
    """The models of GPUs that a pod of ours asks for by its node affinity."""
    affinity = ((pod.get("spec") or {}).get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return frozenset(
        value
        for term in required.get("nodeSelectorTerms") or ()
        for one in term.get("matchExpressions") or ()
        if one["key"] == ACCELERATOR and one["operator"] == "In"
        for value in one.get("values") or ()
    )


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() else -1
