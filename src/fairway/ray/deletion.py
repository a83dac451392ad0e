"""What is deleted after the end of a RayJob, and when."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from fairway.apis.machinery.kind import Manifest
from fairway.ray import submission

NONE: Final = "DeleteNone"
WORKERS: Final = "DeleteWorkers"
CLUSTER: Final = "DeleteCluster"
SELF: Final = "DeleteSelf"
_IMPACT: Final = (NONE, WORKERS, CLUSTER, SELF)
_OF_RULES: Final = ("jobStatus", "jobDeploymentStatus")


def impact(policy: str) -> int:
    """How much a policy deletes: what each deletes contains what those before it delete."""
    return _IMPACT.index(policy)


def due(job: Manifest, cluster: Manifest | None, now: datetime) -> tuple[str, float | None]:
    """The policy to be carried out now, which contains all others that are due, and in how many seconds the next is."""
    found: list[str] = []
    waits: list[float] = []
    end = job["status"].get("endTime")
    ended = datetime.fromisoformat(end) if end else now
    for seconds, policy in _policies(job):
        left = (ended + timedelta(seconds=seconds) - now).total_seconds()
        if left > 0:
            waits.append(left)
        elif not _is_done(policy, cluster):
            found.append(policy)
    return max(found, key=impact, default=NONE), min(waits, default=None)


def _policies(job: Manifest) -> list[tuple[float, str]]:
    """After how many seconds which policy applies."""
    spec, status = job["spec"], job["status"]
    strategy, ttl = spec.get("deletionStrategy"), spec.get("ttlSecondsAfterFinished") or 0
    if submission.selected_cluster(job):
        return []
    if not strategy:
        return [(ttl, CLUSTER)] if spec.get("shutdownAfterJobFinishes") else []
    if rules := strategy.get("deletionRules"):
        return [(rule["condition"].get("ttlSeconds") or 0, rule["policy"]) for rule in rules if _matches(rule, status)]
    side = {"SUCCEEDED": "onSuccess", "FAILED": "onFailure"}.get(status.get("jobStatus") or "", "")
    policy = (strategy.get(side) or {}).get("policy")
    return [(ttl, policy)] if policy else []


def _matches(rule: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    return all(status.get(field) == rule["condition"].get(field, status.get(field)) for field in _OF_RULES)


def _is_done(policy: str, cluster: Manifest | None) -> bool:
    if policy in {NONE, SELF}:
        return policy == NONE
    if cluster is None or "deletionTimestamp" in cluster["metadata"]:
        return True
    return policy == WORKERS and all(group.get("suspend") for group in cluster["spec"].get("workerGroupSpecs") or ())
