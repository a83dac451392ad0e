"""What to do about a job: its manifest, its pods, what is remembered of it and the time go in, a plan comes out.

Nothing is read or written here. A plan is carried out in the order of its fields, and then the next one is asked for,
until a plan neither makes nor deletes pods. A status is part of a plan only when it is right for the pods as they are,
with one exception: the verdict on a job is written before its pods are deleted for it, because a restart in between
could not tell any more why they were.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from fairway.apis.core.pod_parts import containers_of
from fairway.apis.machinery.copies import copied
from fairway.apis.machinery.kind import Manifest
from fairway.controllers.batchjob import observe as facts
from fairway.controllers.batchjob import statuses
from fairway.controllers.batchjob.ledgers import Count, Failure, Ledger, Settlement, Streak, counted
from fairway.controllers.batchjob.observe import COMPLETION_INDEX, INDEX_FAILURES, INDEX_IGNORED_FAILURES, JobSpec
from fairway.controllers.batchjob.statuses import BatchJobEvent, Status
from fairway.integrations.workloads import owner_reference

FIRST_BACKOFF_SECONDS: Final = 10.0
LONGEST_BACKOFF_SECONDS: Final = 600.0
MOST_AT_ONCE: Final = 500
"""Pods that one plan makes or deletes."""

_RESTING: Final[Mapping[str, Any]] = {"ready": 0, "terminating": 0, "uncountedTerminatedPods": {}, "conditions": []}
_SUSPENDED: Final = {"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": "Job suspended"}
INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
_LONGEST_PREFIX: Final = 58
"""A generated name of 63 characters without its random end."""


class NewPod(Struct, frozen=True):
    """A pod to be made."""

    index: int | None = None
    failures: int | None = None
    """How often its index has failed, where that is counted."""

    ignored_failures: int = 0


class Plan(Struct, frozen=True, kw_only=True):
    create: tuple[NewPod, ...] = ()
    status: Status | None = None
    """The whole status, if it differs from the one that is stored."""

    settlement: Settlement | None = None
    """The update of the ledger once the status is written."""

    notices: tuple[BatchJobEvent, ...] = ()
    """What to tell once the status is written."""

    urgent: bool = False
    """Whether the status must not wait for further changes."""

    delete: tuple[Manifest, ...] = ()
    excuses: bool = False
    """Whether the pods that are deleted count for nothing from now on."""

    again_seconds: float | None = None
    """When to look again although nothing happens."""

    @property
    def is_last(self) -> bool:
        """Whether the pods are as they should be."""
        return not self.create and not self.delete


NOTHING: Final = Plan()


def decide(job: Manifest, pods: Collection[Manifest], ledger: Ledger, now: datetime) -> Plan:
    """What to do now."""
    status: Mapping[str, Any] = job.get("status") or {}
    if statuses.is_over(status):
        return NOTHING
    spec = JobSpec.of(job)
    standing = statuses.standing(status)
    failing = standing is not None and standing.is_failure
    count = counted(spec, status, pods, ledger, failing=failing)
    started = statuses.start_of(spec, status, pods, now)
    verdict = standing or statuses.given(spec, count, started, now)
    if verdict is not None and count.active:
        return _clearing(spec, status, count, verdict, started, now, is_new=standing is None)
    plan = NOTHING
    if verdict is None and "deletionTimestamp" not in job["metadata"]:
        plan = _kept_up(spec, count, now)
        if not plan.is_last:
            return plan
    if verdict is None and statuses.is_complete(spec, count):
        verdict = statuses.COMPLETIONS_REACHED
    if verdict is not None:
        report = statuses.ending(spec, status, count, verdict, started, now)
        return _reported(status, report, count, urgent=True)
    report = statuses.going_on(spec, status, count, started, now)
    told = _reported(status, report, count, urgent=count.fleeting or _is_stopped(spec, status))
    return replace(told, again_seconds=_sooner(plan.again_seconds, statuses.seconds_to_deadline(spec, started, now)))


def is_at_rest(job: Manifest) -> bool:
    """Whether there is certainly nothing to do for a job without pods: it is suspended, has not run before, and its
    status says so. Cheaper to ask than `decide`, which gives `NOTHING` for such a job.
    """
    spec, status = job["spec"], job.get("status") or {}
    conditions: Sequence[Mapping[str, Any]] = status.get("conditions") or ()
    return bool(
        spec.get("suspend")
        and spec.get("completions") != 0
        and spec.get("backoffLimitPerIndex") is None
        and status.keys() == _RESTING.keys()
        and all(status[field] == value for field, value in _RESTING.items() if field != "conditions")
        and len(conditions) == 1
        and _SUSPENDED.items() <= conditions[0].items()
    )


def _clearing(
    spec: JobSpec,
    status: Mapping[str, Any],
    count: Count,
    verdict: statuses.Verdict,
    started: datetime | None,
    now: datetime,
    *,
    is_new: bool,
) -> Plan:
    """The verdict is given while pods run: write it down, then stop them."""
    plan = NOTHING
    if is_new:
        report = statuses.ending(spec, status, count, verdict, started, now)
        plan = _reported(status, report, count, urgent=True)
    return replace(plan, delete=count.active[:MOST_AT_ONCE], excuses=not verdict.is_failure)


def _reported(status: Mapping[str, Any], report: statuses.Report, count: Count, *, urgent: bool) -> Plan:
    if report.status == status:
        return NOTHING
    return Plan(status=report.status, settlement=count.settlement(), notices=report.notices, urgent=urgent)


def _is_stopped(spec: JobSpec, status: Mapping[str, Any]) -> bool:
    """Whether a job that ran is suspended now: its queue waits until it has stopped."""
    return spec.suspended and bool(status.get("active") or status.get("startTime"))


def _kept_up(spec: JobSpec, count: Count, now: datetime) -> Plan:
    """As many pods as the job wants to have now."""
    if spec.suspended:
        return Plan(delete=count.active[:MOST_AT_ONCE], excuses=True) if count.active else NOTHING
    wanted = _wanted_active(spec, count)
    surplus = _surplus(spec, count, len(count.active) - wanted)
    if surplus:
        return Plan(delete=tuple(surplus[:MOST_AT_ONCE]), excuses=True)
    missing = wanted - len(count.active) - len(_awaited(spec, count))
    if missing <= 0:
        return NOTHING
    missing = min(missing, MOST_AT_ONCE)
    if spec.index_backoff_limit is not None:
        return _retried_by_index(spec, count, missing, now)
    wait = _backoff_left(count.streak, now)
    if wait > 0:
        return Plan(again_seconds=wait)
    if spec.indexed:
        return Plan(create=tuple(NewPod(index) for index in _open_indexes(spec, count, missing)))
    return Plan(create=(NewPod(),) * missing)


def _awaited(spec: JobSpec, count: Count) -> tuple[Manifest, ...]:
    """Pods on their way out that must have ended before others take their place."""
    return count.terminating if spec.replaces_only_failed else count.undecided


def _wanted_active(spec: JobSpec, count: Count) -> int:
    if spec.completions is None:
        return len(count.active) if count.succeeded else spec.parallelism
    return max(0, min(spec.completions - count.succeeded, spec.parallelism))


def _surplus(spec: JobSpec, count: Count, excess: int) -> list[Manifest]:
    """Active pods that have to go: those without an index of their own, then those that have come least far."""
    if not spec.indexed:
        return sorted(count.active, key=facts.removal_order)[:excess] if excess > 0 else []
    valid = {index for index in map(facts.index, count.active) if index is not None and spec.has_index(index)}
    if excess <= 0 and len(valid) == len(count.active):
        return []
    gone: list[Manifest] = []
    kept: dict[int, Manifest] = {}
    for pod in sorted(count.active, key=facts.removal_order, reverse=True):
        index = facts.index(pod)
        if index is None or not spec.has_index(index) or index in kept:
            gone.append(pod)
        else:
            kept[index] = pod
    if len(gone) < excess:
        gone += sorted(kept.values(), key=facts.removal_order)[: excess - len(gone)]
    return gone


def _open_indexes(spec: JobSpec, count: Count, most: int) -> list[int]:
    """The first indexes without a pod and without a result."""
    busy = [facts.index(pod) for pod in (*count.active, *_awaited(spec, count))]
    settled = count.done.joined(count.given_up).with_indexes(index for index in busy if index is not None)
    return list(islice(settled.missing(spec.completions or 0), most))


def _retried_by_index(spec: JobSpec, count: Count, missing: int, now: datetime) -> Plan:
    """Each index waits for itself; one that waits holds up no other that could be tried."""
    last = count.last_failures()
    new: list[NewPod] = []
    waits: list[float] = []
    for index in _open_indexes(spec, count, missing):
        failure = last.get(index)
        wait = _index_backoff_left(failure, now)
        if wait > 0:
            waits.append(wait)
        else:
            new.append(_next_try(index, failure))
    return Plan(create=tuple(new), again_seconds=min(waits, default=None))


def _next_try(index: int, failure: Failure | None) -> NewPod:
    if failure is None:
        return NewPod(index, 0)
    failures, ignored = facts.index_failures(failure.pod), facts.index_ignored_failures(failure.pod)
    return NewPod(index, failures + failure.is_charged, ignored + (not failure.is_charged))


def _index_backoff_left(failure: Failure | None, now: datetime) -> float:
    if failure is None or facts.is_lost(failure.pod):
        return 0.0
    failures = facts.index_failures(failure.pod) + facts.index_ignored_failures(failure.pod) + 1
    return _backoff_left(Streak(failures, facts.finished_at(failure.pod)), now)


def _backoff_left(streak: Streak, now: datetime) -> float:
    """How long to wait before the next try."""
    if not streak.failures or streak.last is None:
        return 0.0
    doublings = min(streak.failures - 1, 16)
    wait = min(FIRST_BACKOFF_SECONDS * (1 << doublings), LONGEST_BACKOFF_SECONDS)
    return max(0.0, wait - (now - streak.last).total_seconds())


def _sooner(one: float | None, other: float | None) -> float | None:
    return min((seconds for seconds in (one, other) if seconds is not None), default=None)


def pod_of(job: Manifest, new: NewPod) -> Manifest:
    """A pod to be created; it shares nothing with the job."""
    template, name = job["spec"]["template"], job["metadata"]["name"]
    given = copied(template.get("metadata") or {})
    metadata: dict[str, Any] = {
        "generateName": f"{name}-",
        "namespace": job["metadata"]["namespace"],
        "ownerReferences": [owner_reference(job)],
    }
    metadata |= {field: given[field] for field in ("labels", "annotations", "finalizers") if given.get(field)}
    spec = copied(template["spec"])
    if new.index is not None:
        _give_index(metadata, spec, name, new)
    return {"metadata": metadata, "spec": spec}


def _give_index(metadata: dict[str, Any], spec: dict[str, Any], name: str, new: NewPod) -> None:
    index = str(new.index)
    annotations = metadata.setdefault("annotations", {})
    metadata.setdefault("labels", {})[COMPLETION_INDEX] = annotations[COMPLETION_INDEX] = index
    if new.failures is not None:
        annotations[INDEX_FAILURES] = str(new.failures)
        if new.ignored_failures:
            annotations[INDEX_IGNORED_FAILURES] = str(new.ignored_failures)
    suffix = f"-{index}-"
    metadata["generateName"] = name[: _LONGEST_PREFIX - len(suffix)] + suffix
    spec["hostname"] = f"{name}-{index}"
    variable = {
        "name": INDEX_VARIABLE,
        "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{COMPLETION_INDEX}']"}},
    }
    for container in containers_of(spec):
        variables = container.setdefault("env", [])
        if all(one.get("name") != INDEX_VARIABLE for one in variables):
            variables.append(copied(variable))
