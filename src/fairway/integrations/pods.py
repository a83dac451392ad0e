"""Plain pods as jobs: which pods are queued, how they start, stop and end.

A pod waits behind a scheduling gate. It cannot be stopped and started again: an evicted pod is deleted, and
its owner creates another. Groups of pods are in `pod_groups`.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from fairway.apis.machinery.kind import Manifest
from fairway.integrations import conditions, following, injection, names
from fairway.integrations.equivalence import is_equivalent
from fairway.integrations.priorities import Priority
from fairway.integrations.topology import topology_request
from fairway.integrations.webhooks import annotations_of, labels_of, maximum_seconds, queue_name
from fairway.integrations.workloads import MAIN, new_workload, owner_reference, pod_set, workload_name

FRAMEWORK: Final = "pod"
MANAGED: Final = "kueue.x-k8s.io/managed"
"""The label of pods that the queue looks after, and the finalizer that keeps them until it has seen their end."""

GATE: Final = "kueue.x-k8s.io/admission"
SUSPENDING_PARENT: Final = "kueue.x-k8s.io/pod-suspending-parent"
GROUP: Final = "kueue.x-k8s.io/pod-group-name"
"""The group that a pod belongs to: an annotation or, where there is none, a label."""

POD_INDEX: Final = "kueue.x-k8s.io/pod-group-pod-index"
"""The label with the number of a pod in its group."""

INDEX_LABEL: Final = "kueue.x-k8s.io/pod-group-pod-index-label"
"""The annotation with the name of another label that has this number."""

TERMINATION_TARGET: Final = "TerminationTarget"
NOT_ADMITTED: Final = "NotAdmitted"
WORKLOAD_DELETED: Final = "WorkloadDeleted"
WORKLOAD_EVICTED: Final = "WorkloadEvicted"
NO_MATCHING_WORKLOAD: Final = "NoMatchingWorkload"

OWN_GATES: Final = (GATE, names.ELASTIC_GATE, names.TOPOLOGY_GATE)
_GATES: Final = frozenset({GATE, names.TOPOLOGY_GATE})


class JobOutcome(NamedTuple):
    """How a job ended."""

    succeeded: bool
    message: str


def is_managed(pod: Manifest) -> bool:
    return labels_of(pod).get(MANAGED) == "true"


def group_name(pod: Manifest) -> str:
    """The group of a pod, empty for one that stands alone."""
    return annotations_of(pod).get(GROUP) or labels_of(pod).get(GROUP, "")


def phase(pod: Manifest) -> str:
    return (pod.get("status") or {}).get("phase") or ""


def is_terminated(pod: Manifest) -> bool:
    return phase(pod) in {"Succeeded", "Failed"}


def gates_of(pod: Manifest) -> set[str]:
    return {gate["name"] for gate in pod["spec"].get("schedulingGates") or ()}


def is_gated(pod: Manifest) -> bool:
    return GATE in gates_of(pod)


def is_suspended(pod: Manifest) -> bool:
    """Whether the pod uses nothing: it waits behind its gate, or is over."""
    return is_terminated(pod) or is_gated(pod)


def is_deleting(pod: Manifest) -> bool:
    return "deletionTimestamp" in pod["metadata"]


def is_ready(pod: Manifest) -> bool:
    return conditions.is_true(pod, "Ready")


def is_held(pod: Manifest) -> bool:
    """Whether the pod cannot go before the queue lets it."""
    return MANAGED in (pod["metadata"].get("finalizers") or ())


def outcome(pod: Manifest) -> JobOutcome | None:
    """How the pod ended, `None` while it has not."""
    if not is_terminated(pod):
        return None
    return JobOutcome(phase(pod) == "Succeeded", pod["status"].get("message") or "")


def name_of_workload(pod: Manifest) -> str:
    """The name of the workload of a pod that stands alone."""
    metadata = pod["metadata"]
    return workload_name("Pod", "", metadata["name"], metadata["uid"])


def workload_of(pod: Manifest) -> str:
    """The name of the workload that a pod was started for."""
    return annotations_of(pod).get(names.WORKLOAD) or group_name(pod) or name_of_workload(pod)


def pod_set_of(pod: Manifest, name: str = MAIN, count: int = 1) -> Manifest:
    """A pod set of pods like this one."""
    request = topology_request({"metadata": pod["metadata"]}, POD_INDEX)
    return pod_set(name, {"spec": pod["spec"]}, count, topology_request=request)


def composed(pod: Manifest, priority: Priority, copied_labels: Iterable[str]) -> Manifest:
    """The workload of a pod that stands alone."""
    metadata = pod["metadata"]
    kept = {key: labels_of(pod)[key] for key in copied_labels if key in labels_of(pod)}
    return new_workload(
        name_of_workload(pod),
        metadata["namespace"],
        [owner_reference(pod)],
        [pod_set_of(pod)],
        queue_name(pod),
        priority,
        labels={**kept, names.JOB_UID: metadata["uid"]},
        annotations=following.passed_on(annotations_of(pod)),
        maximum_execution_seconds=maximum_seconds(pod),
    )


def matches(pod: Manifest, workload: Manifest, flavors: Callable[[str], Manifest | None]) -> bool:
    """Whether a workload still describes the pod that it was made for."""
    as_it_is = {"template": {"spec": pod["spec"]}, "count": 1}
    return is_equivalent(pod, [as_it_is], workload, flavors, suspended=is_suspended(pod))


def start_patch(pod: Manifest, info: injection.PodSetInfo) -> Manifest:
    """The patch that opens the gate, with all that admission adds; `InjectionConflict` if that cannot be."""
    metadata, spec = pod["metadata"], pod["spec"]
    template: Manifest = {
        "metadata": {field: metadata[field] for field in ("labels", "annotations") if metadata.get(field)},
        "spec": {field: spec[field] for field in ("nodeSelector", "tolerations", "schedulingGates") if spec.get(field)},
    }
    injection.inject(template, info)
    opened = {GATE} if any(gate["name"] == names.TOPOLOGY_GATE for gate in info.scheduling_gates) else _GATES
    gates = [gate for gate in template["spec"].get("schedulingGates") or () if gate["name"] not in opened]
    template["spec"]["schedulingGates"] = gates or None
    return template


def stop_patch(pod: Manifest, reason: str, message: str, now_text: str) -> Manifest | None:
    """The strategic patch of the status that says why the pod is about to be deleted; `None` if it says so already."""
    known = conditions.find(pod, TERMINATION_TARGET)
    if known is not None and known["status"] == "True" and known.get("reason") == reason:
        return None
    target: dict[str, Any] = {
        "type": TERMINATION_TARGET,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": now_text,
    }
    return {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": [target]}}
