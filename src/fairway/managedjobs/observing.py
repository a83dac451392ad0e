"""Parses manifests into the observed state."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from fairway.admission.records import EARNED_PRIORITY, annotation_number
from fairway.apis.machinery.conditions import find_in
from fairway.apis.machinery.kind import Manifest
from fairway.integrations import conditions
from fairway.managedjobs.observation import (
    DEFAULT_CAP,
    DEFAULT_STEP,
    ManagedJobSpec,
    ObservedPod,
    ObservedWorkload,
    PodState,
)
from fairway.managedjobs.pods import ATTEMPT, RANK, TASK
from fairway.managedjobs.tasks.task import Task

FINALIZER: Final = "fairway.dev/attempt"
"""Keeps a pod from going before it is written down how it ended."""

STOPPED: Final = "Stopped"
"""The reason of a pod that was stopped before it ended."""

_LONGEST_MESSAGE: Final = 1024
"""Programs may leave more than that behind, and a job remembers many attempts."""

WAITS_FOR_NODE: Final = "waits for a node: "
"""How the message of a job begins whose pods fit nowhere now."""

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


def pod_of(manifest: Manifest) -> ObservedPod:
    metadata, status = manifest["metadata"], manifest.get("status") or {}
    labels = metadata.get("labels") or {}
    state, failed = _state(manifest, status)
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
        message=conditions.shortened(_message(status, state, failed), _LONGEST_MESSAGE),
        ended_at=_ended_at(status),
    )


def _state(pod: Manifest, status: dict[str, Any]) -> tuple[PodState, tuple[str, dict[str, Any]] | None]:
    """How far it has come; and of a pod that failed by itself the container and how that ended."""
    phase = status.get("phase")
    if phase == "Succeeded":
        return (PodState.STOPPED if status.get("reason") == STOPPED else PodState.SUCCEEDED), None
    if phase == "Failed":
        if conditions.is_true(pod, "DisruptionTarget"):
            return PodState.LOST, None
        if status.get("reason") == STOPPED:
            return PodState.STOPPED, None
        failed = _failed_container(status)
        return (PodState.LOST, None) if failed is None else (PodState.FAILED, failed)
    if phase == "Running":
        return PodState.RUNNING, None
    metadata = pod["metadata"]
    # The runner sets the grace period to 0 when no process is left; a pod that never started gets no other end.
    told = "deletionTimestamp" in metadata and not metadata.get("deletionGracePeriodSeconds")
    return (PodState.STOPPED if told and not _runs(status) else PodState.STARTING), None


def _failed_container(status: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """The first that ended badly, in the order in which containers run."""
    for one in _containers(status):
        terminated = (one.get("state") or {}).get("terminated")
        if terminated and terminated.get("exitCode"):
            return one["name"], terminated
    return None


def _runs(status: dict[str, Any]) -> bool:
    return any("running" in (one.get("state") or {}) for one in _containers(status))


def _containers(status: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _message(status: dict[str, Any], state: PodState, failed: tuple[str, dict[str, Any]] | None) -> str:
    """Why it failed or was lost, or what keeps it from starting."""
    if failed is not None:
        said = failed[1].get("message") or ("out of memory" if failed[1].get("reason") == "OOMKilled" else "")
        return str(said or status.get("message") or "")
    if state is PodState.LOST:
        if (lost := find_in(status, "DisruptionTarget")) is not None:
            return str(lost.get("message") or "")
        return str(status.get("message") or status.get("reason") or "")
    if state is not PodState.STARTING:
        return ""
    for one in _containers(status):
        waiting = (one.get("state") or {}).get("waiting") or {}
        if waiting.get("message"):
            return f"{waiting.get('reason', 'waiting')}: {waiting['message']}"
    placed = find_in(status, "PodScheduled") or {}
    if placed.get("status") == "False" and placed.get("message"):
        is_unschedulable = placed.get("reason") == "Unschedulable"
        return f"{WAITS_FOR_NODE}{placed['message']}" if is_unschedulable else str(placed["message"])
    return ""


def _ended_at(status: dict[str, Any]) -> datetime | None:
    ends = [((one.get("state") or {}).get("terminated") or {}).get("finishedAt") for one in _containers(status)]
    return max((datetime.fromisoformat(end) for end in ends if end), default=None)


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() else -1
