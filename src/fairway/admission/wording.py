"""Sentences, as Kueue words them: conditions and events read the same on a laptop and on a cluster.

The only place where reasons become Kueue's text (other sentences are in `advice`). Nothing here looks at
state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fairway.admission.events import CheckVerdict
from fairway.admission.figures import Activity
from fairway.admission.instructions import (
    Admit,
    Deactivate,
    DeactivationCause,
    Evict,
    EvictionReason,
    Preemption,
    PreemptionReason,
    RequeueReason,
)
from fairway.admission.reasons import Code, Explanation, Outcome, PodSetReasons, Reason
from fairway.apis.machinery.quantities import format_amount

_PREEMPTION = {
    PreemptionReason.IN_CLUSTER_QUEUE: "prioritization in the ClusterQueue",
    PreemptionReason.RECLAMATION: "reclamation within the cohort",
    PreemptionReason.FAIR_SHARING: "Fair Sharing within the cohort",
    PreemptionReason.RECLAIM_WHILE_BORROWING: "reclamation within the cohort while borrowing",
}

_REQUEUE = {
    RequeueReason.BACKOFF_FINISHED: "The workload backoff was finished",
    RequeueReason.REACTIVATED: "The workload was reactivated",
    RequeueReason.CLUSTER_QUEUE_RESTARTED: "The ClusterQueue was restarted after being stopped",
    RequeueReason.LOCAL_QUEUE_RESTARTED: "The LocalQueue was restarted after being stopped",
}

_DEACTIVATED = "The workload is deactivated"

_PLAIN = {
    Outcome.OVERLAPPING_TARGETS: "Workload has overlapping preemption targets with another workload",
    Outcome.NO_LONGER_FITS: "Workload no longer fits after processing another workload",
    Outcome.WAITING_FOR_PODS_READY: "waiting for all admitted workloads to be in PodsReady condition",
    Outcome.FAILED_CHECKS: "The workload has failed admission checks",
    Outcome.NAMESPACE_MISMATCH: "workload namespace doesn't match ClusterQueue selector",
    Outcome.DEACTIVATED: _DEACTIVATED,
    Outcome.NOT_TRIED: "Workload is pending evaluation in the scheduling queue",
    Outcome.ON_HOLD: "admission is on hold",
}

_ABOUT = {
    Outcome.NAMESPACE_MISSING: 'workload namespace "{}" does not exist',
    Outcome.REQUESTS_EXCEED_LIMITS: "resources validation failed: {}",
    Outcome.OUTSIDE_LIMIT_RANGE: "resources didn't satisfy LimitRange constraints: {}",
    Outcome.QUEUE_INACTIVE: "ClusterQueue {} is inactive",
    Outcome.QUEUE_MISSING: "ClusterQueue {} doesn't exist",
    Outcome.LOCAL_QUEUE_INACTIVE: "LocalQueue {} is inactive",
    Outcome.LOCAL_QUEUE_MISSING: "LocalQueue {} doesn't exist",
    Outcome.GATED: "Admission is gated by: {}",
    Outcome.SCHEDULER_MISSING: 'no scheduler "{}" places pods here',
    Outcome.BACKING_OFF: "Waiting to be requeued after: {}",
}


def waiting(explanation: Explanation) -> str:
    """The message of a workload that has no quota."""
    plain = _PLAIN.get(explanation.outcome)
    if plain is not None:
        return plain
    about = _ABOUT.get(explanation.outcome)
    if about is not None:
        return about.format(explanation.subject)
    message = "; ".join(_pod_set(pod_set) for pod_set in explanation.pod_sets)
    if explanation.outcome is Outcome.PENDING_PREEMPTION:
        message += f". Pending the preemption of {explanation.victims} workload(s)"
    return message


def _pod_set(pod_set: PodSetReasons) -> str:
    return f"couldn't assign flavors to pod set {pod_set.name}: {', '.join(sorted(map(obstacle, pod_set.reasons)))}"


def obstacle(reason: Reason) -> str:
    """One reason against one flavor."""
    resource, flavor = reason.resource, reason.flavor
    match reason.code:
        case Code.RESOURCE_NOT_COVERED:
            return f"resource {resource} unavailable in ClusterQueue"
        case Code.FLAVOR_NOT_FOUND:
            return f"flavor {flavor} not found"
        case Code.TOPOLOGY_UNSUPPORTED:
            return f'Flavor "{flavor}" {reason.detail}'
        case Code.UNTOLERATED_TAINT:
            return f"untolerated taint {reason.detail} in flavor {flavor}"
        case Code.AFFINITY_MISMATCH:
            return f"flavor {flavor} doesn't match node affinity"
        case Code.OTHER_SLICE_FLAVOR:
            return f"could not assign {flavor} flavor since the original workload is assigned: {reason.detail}"
        case Code.NO_NODE | Code.GANG_TOO_LARGE:
            return _no_node(reason)
        case Code.EXCEEDS_MAXIMUM:
            assumed, requested, capacity = (
                format_amount(resource, amount) for amount in (reason.assumed, reason.requested, reason.capacity)
            )
            return (
                f"insufficient quota for {resource} in flavor {flavor},"
                f" previously considered podsets requests ({assumed})"
                f" + current podset request ({requested}) > maximum capacity ({capacity})"
            )
        case Code.TOPOLOGY_FULL | Code.TOPOLOGY_TOO_SMALL:
            return reason.detail
        case Code.INSUFFICIENT_UNUSED:
            missing = format_amount(resource, reason.missing)
            return f"insufficient unused quota for {resource} in flavor {flavor}, {missing} more needed"


def _no_node(reason: Reason) -> str:
    resource, flavor = reason.resource, reason.flavor
    if reason.code is Code.NO_NODE and not resource:
        return f"no node for flavor {flavor}: {reason.detail}"
    requested, most = format_amount(resource, reason.requested), format_amount(resource, reason.capacity)
    if reason.code is Code.NO_NODE:
        return f"no node for flavor {flavor}: a pod requests {resource} {requested}, the largest node has {most}"
    return (
        f"no nodes for flavor {flavor}: the pods need {resource or 'pods'} {requested} together, the nodes have {most}"
    )


def preemption(why: Preemption) -> str:
    return (
        f"Preempted to accommodate a workload (UID: {why.preemptor_uid or 'UNKNOWN'},"
        f" JobUID: {why.preemptor_job_uid or 'UNKNOWN'}) due to {_PREEMPTION[why.reason]};"
        f" preemptor path: /{'/'.join(why.preemptor_path)}; preemptee path: /{'/'.join(why.path)}"
    )


def eviction(instruction: Evict) -> str:
    """The message of a workload that is being evicted."""
    if instruction.preemption is not None:
        return preemption(instruction.preemption)
    match instruction.reason:
        case EvictionReason.CLUSTER_QUEUE_STOPPED:
            return "The ClusterQueue is stopped"
        case EvictionReason.LOCAL_QUEUE_STOPPED:
            return "The LocalQueue is stopped"
        case EvictionReason.PODS_READY_TIMEOUT:
            return instruction.message or f"Exceeded the PodsReady timeout {instruction.key}"
        case EvictionReason.ADMISSION_CHECK:
            return f"Evicted due to {checks('Retry', instruction.checks)}"
        case EvictionReason.DEACTIVATED if instruction.cause:
            return f"{_DEACTIVATED} due to {instruction.message or _cause(instruction.cause, instruction.checks)}"
        case EvictionReason.DEACTIVATED:
            return _DEACTIVATED
        case _:
            return instruction.message


def deactivation(instruction: Deactivate) -> str:
    return instruction.message or _cause(instruction.cause, instruction.checks)


def _cause(cause: str, rejected: Mapping[str, CheckVerdict]) -> str:
    if cause == DeactivationCause.REQUEUING_LIMIT:
        return "exceeding the maximum number of re-queuing retries"
    if cause == DeactivationCause.MAXIMUM_EXECUTION_TIME:
        return "exceeding the maximum execution time"
    return checks("Rejected", rejected)


def checks(state: str, found: Mapping[str, CheckVerdict]) -> str:
    plural = "s" if len(found) > 1 else ""
    parts = "; ".join(
        f'"{name}" ({check.message})' if check.message else f'"{name}"' for name, check in sorted(found.items())
    )
    return f"AdmissionCheck{plural} in {state} state: {parts}"


class QueueReadiness(NamedTuple):
    """Whether a ClusterQueue admits, as its condition ``Active`` says it."""

    active: bool
    reason: str
    message: str


def readiness(activity: Activity) -> QueueReadiness:
    if activity.terminating:
        return QueueReadiness(
            active=False, reason="Terminating", message="Can't admit new workloads; clusterQueue is terminating"
        )
    found = [("Stopped", "is stopped")] if activity.stopped else []
    found += [
        (reason, f"references {what}(s): {','.join(names)}")
        for reason, what, names in (
            ("FlavorNotFound", "missing ResourceFlavor", activity.missing_flavors),
            ("AdmissionCheckNotFound", "missing AdmissionCheck", activity.missing_checks),
            ("AdmissionCheckInactive", "inactive AdmissionCheck", activity.inactive_checks),
        )
        if names
    ]
    found += [
        ("TopologyNotFound", f'there is no Topology "{topology}" for TAS flavor "{flavor}"')
        for flavor, topology in activity.missing_topologies
    ]
    if not found:
        return QueueReadiness(active=True, reason="Ready", message="Can admit new workloads")
    message = f"Can't admit new workloads: {', '.join(text for _, text in found)}."
    return QueueReadiness(active=False, reason=found[0][0], message=message)


def requeue(reason: RequeueReason) -> str:
    return _REQUEUE[reason]


def reserved(instruction: Admit) -> str:
    return f"Quota reserved in ClusterQueue {instruction.cluster_queue}"
