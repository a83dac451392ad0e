"""Rules that a job brings along: what a failed pod means for it, and how much success is enough."""

from enum import StrEnum
from typing import Any

from msgspec import Struct

from fairway.apis.machinery.kind import Manifest
from fairway.controllers.batchjob import pods
from fairway.controllers.batchjob.indexes import Indexes
from fairway.controllers.batchjob.specs import JobSpec
from fairway.integrations.workloads import namespaced_name


class Weight(StrEnum):
    """What a failed pod counts for."""

    COUNTED = "Counted"
    """In the job's status and towards its limits."""

    FORGIVEN = "Forgiven"
    """In the status only: the machine took it, not its own fault."""

    IGNORED = "Ignored"
    """Not at all: a rule of the job says so."""

    FAILS_INDEX = "FailsIndex"
    FAILS_JOB = "FailsJob"


class Failure(Struct, frozen=True):
    """A failed pod and what it counts for."""

    pod: Manifest
    weight: Weight
    message: str = ""
    """Why the job fails, where it does."""

    @property
    def is_charged(self) -> bool:
        """Whether it counts towards the limits."""
        return self.weight not in (Weight.FORGIVEN, Weight.IGNORED)


def judged(spec: JobSpec, pod: Manifest) -> Failure:
    """What a failed pod means; the first rule that matches decides."""
    for position, rule in enumerate(spec.failure_rules):
        fact = _matching_fact(rule, pod)
        if fact is None:
            continue
        match rule.get("action"):
            case "Ignore":
                return Failure(pod, Weight.IGNORED)
            case "FailIndex":
                return Failure(pod, Weight.FAILS_INDEX)
            case "Count":
                return Failure(pod, Weight.COUNTED)
            case "FailJob":
                return Failure(pod, Weight.FAILS_JOB, f"{fact} matching FailJob rule at index {position}")
    return Failure(pod, Weight.FORGIVEN if pods.is_lost(pod) else Weight.COUNTED)


def success_message(spec: JobSpec, succeeded: Indexes) -> str | None:
    """Which rule is met by the indexes that succeeded, in Kubernetes' words; nothing if none is."""
    if not succeeded.intervals:
        return None
    for position, rule in enumerate(spec.success_rules):
        count = rule.get("succeededCount")
        if rule.get("succeededIndexes") is not None:
            wanted = spec.read_indexes(rule["succeededIndexes"])
            reached = wanted.shared_with(succeeded)
            met = bool(wanted.intervals) and (reached == len(wanted) or (count is not None and reached >= count))
        else:
            met = count is not None and len(succeeded) >= count
        if met:
            return f"Matched rules at index {position}"
    return None


def _matching_fact(rule: dict[str, Any], pod: Manifest) -> str | None:
    """What about the pod matches, as the message of a failed job begins."""
    name = namespaced_name(pod)
    if rule.get("onExitCodes") is not None:
        ended = _matching_container(rule["onExitCodes"], pod)
        if ended is None:
            return None
        return f"Container {ended[0]} for pod {name} failed with exit code {ended[1]}"
    for condition in pods.conditions(pod):
        for pattern in rule.get("onPodConditions") or ():
            if (condition.get("type"), condition.get("status")) == (pattern.get("type"), pattern.get("status")):
                return f"Pod {name} has condition {condition['type']}"
    return None


def _matching_container(requirement: dict[str, Any], pod: Manifest) -> tuple[str, int] | None:
    status = pod.get("status") or {}
    name, values = requirement.get("containerName"), requirement.get("values") or ()
    wanted = requirement.get("operator") == "In"
    for one in [*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())]:
        terminated = (one.get("state") or {}).get("terminated")
        if terminated is None or (name is not None and name != one.get("name")):
            continue
        code = terminated.get("exitCode") or 0
        if code != 0 and (code in values) == wanted:
            return str(one.get("name")), code
    return None
