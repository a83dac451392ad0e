"""What KubeRay's operator refuses of RayJobs and RayClusters beyond their definitions, and in its words."""

import json
import shlex
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

from fairway.apis.machinery.kind import Manifest
from fairway.integrations.ray_job import IN_HEAD, submission_mode
from fairway.ray import deletion, submission

_OF_RESOURCES: Final = ("num-cpus", "num-gpus", "memory", "resources")


def wrong_job(job: Manifest) -> str:
    """What is wrong with a RayJob; empty if nothing."""
    spec = job["spec"]
    cluster = spec.get("rayClusterSpec")
    message = _wrong_fields(job) or _wrong_mode(job) or _wrong_deletion(spec) or _wrong_texts(spec)
    message = message or ("" if cluster is None else wrong_cluster(cluster))
    return f"The RayJob spec is invalid: {message}" if message else ""


def wrong_cluster(spec: Mapping[str, Any]) -> str:
    """What is wrong with the spec of a RayCluster; empty if nothing."""
    if not spec["headGroupSpec"]["template"]["spec"].get("containers"):
        return "headGroupSpec should have at least one container"
    if message := _wrong_resources("Head", spec["headGroupSpec"]):
        return message
    for group in spec.get("workerGroupSpecs") or ():
        name, least, most = group["groupName"], group.get("minReplicas"), group.get("maxReplicas")
        if not group["template"]["spec"].get("containers"):
            return "workerGroupSpec should have at least one container"
        for field, count in (("minReplicas", least), ("maxReplicas", most)):
            if count is not None and count < 0:
                return f"worker group {name} has negative {field} {count}"
        if least is not None and most is not None and least > most:
            return f"worker group {name} has minReplicas {least} greater than maxReplicas {most}"
        if message := _wrong_resources(name, group):
            return message
    return ""


def _wrong_resources(name: str, group: Mapping[str, Any]) -> str:
    parameters = group.get("rayStartParams") or {}
    if group.get("resources") and any(parameters.get(one) for one in _OF_RESOURCES):
        return (
            f"resource fields should not be set in both rayStartParams and Resources for {name} group; "
            "please use only one"
        )
    return ""


def _wrong_fields(job: Manifest) -> str:
    spec = job["spec"]
    shutdown, selected = spec.get("shutdownAfterJobFinishes"), bool(spec.get("clusterSelector"))
    suspended, ttl = spec.get("suspend"), spec.get("ttlSecondsAfterFinished") or 0
    no_shutdown = "a RayJob with shutdownAfterJobFinishes set to false"
    for holds, message in (
        (suspended and not shutdown, f"{no_shutdown} is not allowed to be suspended"),
        (ttl < 0, "TTLSecondsAfterFinished must be a non-negative integer"),
        (ttl > 0 and not shutdown, f"{no_shutdown} cannot have TTLSecondsAfterFinished"),
        (suspended and selected, "the ClusterSelector mode doesn't support the suspend operation"),
        (not selected and not spec.get("rayClusterSpec"), "one of RayClusterSpec or ClusterSelector must be set"),
        (selected and not submission.selected_cluster(job), "cluster name in ClusterSelector should not be empty"),
    ):
        if holds:
            return message
    for field in ("activeDeadlineSeconds", "preRunningDeadlineSeconds"):
        if spec.get(field) is not None and spec[field] <= 0:
            return f"{field} must be a positive integer"
    return "backoffLimit must be a positive integer" if (spec.get("backoffLimit") or 0) < 0 else ""


def _wrong_mode(job: Manifest) -> str:
    spec, mode = job["spec"], submission_mode(job)
    selected, retries = bool(spec.get("clusterSelector")), spec.get("backoffLimit")
    by_user, in_head = mode == submission.BY_USER, mode == IN_HEAD
    cluster = spec.get("rayClusterSpec")
    restart = None if cluster is None else cluster["headGroupSpec"]["template"]["spec"].get("restartPolicy")
    for holds, message in (
        (mode not in submission.MODES, f"submissionMode {mode} is none of {', '.join(submission.MODES)}"),
        (in_head and selected, "ClusterSelector is not supported in SidecarMode"),
        (selected and retries, "BackoffLimit is incompatible with ClusterSelector mode"),
        (by_user and retries, "BackoffLimit is incompatible with InteractiveMode"),
        (in_head and spec.get("submitterPodTemplate"), "SidecarMode doesn't support SubmitterPodTemplate"),
        (in_head and spec.get("submitterConfig"), "SidecarMode doesn't support SubmitterConfig"),
        (
            in_head and restart not in {None, "Never"},
            "restartPolicy for head Pod should be Never or unset when using SidecarMode",
        ),
        (not by_user and not spec.get("entrypoint"), "entrypoint must be set"),
    ):
        if holds:
            return message
    return ""


def _wrong_texts(spec: Mapping[str, Any]) -> str:
    """Texts that have to be parsed; KubeRay finds out about the last two only when it submits."""
    try:
        submission.runtime_environment(spec)
    except ValueError as error:
        return str(error)
    try:
        shlex.split(spec.get("entrypoint") or "")
    except ValueError as error:
        return f"entrypoint is not a command line: {error}"
    try:
        resources = json.loads(spec.get("entrypointResources") or "{}")
    except ValueError as error:
        return f"entrypointResources is not JSON: {error}"
    return "" if isinstance(resources, dict) else "entrypointResources must be a JSON object"


def _wrong_deletion(spec: Mapping[str, Any]) -> str:
    """That rules exclude `onSuccess` and `onFailure`, and need one condition each, is part of the definition."""
    strategy = spec.get("deletionStrategy") or {}
    rules, shutdown = strategy.get("deletionRules") or (), spec.get("shutdownAfterJobFinishes")
    if rules and shutdown:
        return "spec.shutdownAfterJobFinishes and spec.deletionStrategy.deletionRules are mutually exclusive"
    old = [(side, strategy[side].get("policy")) for side in ("onSuccess", "onFailure") if side in strategy]
    for side, policy in old:
        if policy is None:
            return f"the policy of deletionStrategy.{side} must be set"
        if shutdown and policy == deletion.NONE:
            return "shutdownAfterJobFinshes is set to 'true' while deletion policy is 'DeleteNone'"
    autoscaled = (spec.get("rayClusterSpec") or {}).get("enableInTreeAutoscaling")
    for where, policy in (*old, *((f"deletionRules[{number}]", rule["policy"]) for number, rule in enumerate(rules))):
        if spec.get("clusterSelector") and policy in {deletion.CLUSTER, deletion.WORKERS}:
            return f"{where}: {policy} is not supported when ClusterSelector is set"
        if autoscaled and policy == deletion.WORKERS:
            return f"{where}: DeleteWorkers is not supported with autoscaling enabled"
    return _wrong_rules(rules)


def _wrong_rules(rules: Any) -> str:
    seconds: dict[tuple[str, str], dict[str, int]] = {}
    for number, rule in enumerate(rules):
        condition, policy = rule["condition"], rule["policy"]
        kind = "jobStatus" if condition.get("jobStatus") is not None else "jobDeploymentStatus"
        of_state = seconds.setdefault((kind, condition[kind]), {})
        if policy in of_state:
            return f"deletionRules[{number}]: duplicate rule for {policy} and {kind} '{condition[kind]}'"
        of_state[policy] = condition.get("ttlSeconds") or 0
    for (kind, state), of_state in seconds.items():
        ordered = sorted(of_state, key=deletion.impact)
        for less, more in pairwise(ordered):
            if less != deletion.NONE and of_state[more] < of_state[less]:
                return f"for {kind} '{state}': {more} TTL ({of_state[more]}) must be >= {less} TTL ({of_state[less]})"
    return ""
