"""How a job ends and what its status says, in the words and the form of Kubernetes: a counter that is zero is left out,
except two.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from fairway.apis.machinery.conditions import find_in, is_true_in
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.printing import read_time
from fairway.apis.machinery.timestamps import stamp
from fairway.controllers.batchjob import observe as facts
from fairway.controllers.batchjob.ledgers import Count, Weight, success_message
from fairway.controllers.batchjob.observe import JobSpec

SUCCESS: Final = "SuccessCriteriaMet"
FAILURE: Final = "FailureTarget"
COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
_ENDS: Final = frozenset({COMPLETE, FAILED})

Status = dict[str, Any]


class Verdict(Struct, frozen=True):
    """A job is going to end. It has ended once its last pod has."""

    condition: str
    """`SUCCESS` or `FAILURE`."""

    reason: str
    message: str

    @property
    def is_failure(self) -> bool:
        return self.condition == FAILURE

    @property
    def end(self) -> str:
        """The condition of the job once it is over."""
        return FAILED if self.is_failure else COMPLETE


COMPLETIONS_REACHED: Final = Verdict(SUCCESS, "CompletionsReached", "Reached expected number of succeeded pods")
_BACKOFF_LIMIT: Final = Verdict(FAILURE, "BackoffLimitExceeded", "Job has reached the specified backoff limit")
_DEADLINE: Final = Verdict(FAILURE, "DeadlineExceeded", "Job was active longer than specified deadline")
_TOO_MANY_INDEXES: Final = Verdict(
    FAILURE, "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
)
_FAILED_INDEXES: Final = Verdict(FAILURE, "FailedIndexes", "Job has failed indexes")


def is_over(status: Mapping[str, Any]) -> bool:
    for condition in status.get("conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in _ENDS:
            return True
    return False


def standing(status: Mapping[str, Any]) -> Verdict | None:
    """The verdict that was given before."""
    for kind in (SUCCESS, FAILURE):
        found = find_in(status, kind)
        if found is not None and found.get("status") == "True":
            return Verdict(kind, found.get("reason") or "", found.get("message") or "")
    return None


def given(spec: JobSpec, count: Count, started: datetime | None, now: datetime) -> Verdict | None:
    """The verdict that is to be given now, other than that all completions are reached."""
    for failure in count.all_failures:
        if failure.weight is Weight.FAILS_JOB:
            return Verdict(FAILURE, "PodFailurePolicy", failure.message)
    if count.charged > spec.backoff_limit or _restarted_too_often(spec, count):
        return _BACKOFF_LIMIT
    left = seconds_to_deadline(spec, started, now)
    if left is not None and left <= 0:
        return _DEADLINE
    if spec.index_backoff_limit is not None and count.given_up.intervals:
        if spec.max_failed_indexes is not None and len(count.given_up) > spec.max_failed_indexes:
            return _TOO_MANY_INDEXES
        if len(count.given_up) + len(count.done) >= (spec.completions or 0):
            return _FAILED_INDEXES
    if spec.indexed and spec.success_rules:
        message = success_message(spec, count.done)
        if message is not None:
            return Verdict(SUCCESS, "SuccessPolicy", message)
    return None


def is_complete(spec: JobSpec, count: Count) -> bool:
    """Whether enough pods succeeded and none runs any more."""
    if count.active:
        return False
    return count.succeeded > 0 if spec.completions is None else count.succeeded >= spec.completions


def seconds_to_deadline(spec: JobSpec, started: datetime | None, now: datetime) -> float | None:
    if spec.deadline_seconds is None or started is None or spec.suspended:
        return None
    return spec.deadline_seconds - (now - started).total_seconds()


def _restarted_too_often(spec: JobSpec, count: Count) -> bool:
    if not spec.restarts_in_place:
        return False
    restarts = sum(facts.restarts(pod) for pod in (*count.active, *count.terminating))
    return restarts > 0 if spec.backoff_limit == 0 else restarts >= spec.backoff_limit


class BatchJobEvent(Struct, frozen=True):
    """An event about the job, to emit once the status is written."""

    reason: str
    message: str
    warning: bool = False


class Report(Struct, frozen=True):
    """A status and its events."""

    status: Status
    notices: tuple[BatchJobEvent, ...]


def start_of(spec: JobSpec, status: Mapping[str, Any], pods: Iterable[Manifest], now: datetime) -> datetime | None:
    """Since when the job runs: since it was resumed last, or since its first pod, however late that is written down."""
    if spec.suspended:
        return None
    if is_true_in(status, "Suspended"):
        return now
    started = read_time(status.get("startTime"))
    if started is not None:
        return started
    return min([facts.created_at(pod) for pod in pods] + [now])


def going_on(spec: JobSpec, status: Mapping[str, Any], count: Count, started: datetime | None, now: datetime) -> Report:
    """Of a job that has not ended."""
    written, now_text = _counters(spec, status, count), stamp(now)
    notices = []
    if spec.suspended:
        written.pop("startTime", None)
        if _set(written, "Suspended", ("True", "JobSuspended", "Job suspended"), now_text):
            notices.append(BatchJobEvent("Suspended", "Job suspended"))
    else:
        notices += _resumed(written, started, now_text)
    return Report(written, tuple(notices))


def ending(
    spec: JobSpec,
    status: Mapping[str, Any],
    count: Count,
    verdict: Verdict,
    started: datetime | None,
    now: datetime,
) -> Report:
    """Of a job that has its verdict, and is over when no pod of it is left."""
    written, now_text = _counters(spec, status, count), stamp(now)
    notices = [] if spec.suspended else _resumed(written, started, now_text)
    _set(written, verdict.condition, ("True", verdict.reason, verdict.message), now_text)
    if count.active or count.terminating:
        return Report(written, tuple(notices))
    _set(written, verdict.end, ("True", verdict.reason, verdict.message), now_text)
    if "startTime" not in written and not (spec.suspended and spec.completions == 0):
        written["startTime"] = now_text
    if verdict.is_failure:
        notices.append(BatchJobEvent(verdict.reason, verdict.message, warning=True))
    else:
        # A clock that was set back must not make a job end before it began.
        written["completionTime"] = max(now_text, str(written.get("startTime", "")))
        if spec.completions is not None and count.succeeded > spec.completions:
            too_many = "Too many succeeded pods running after completion count reached"
            notices.append(BatchJobEvent("TooManySucceededPods", too_many, warning=True))
        notices.append(BatchJobEvent("Completed", "Job completed"))
    return Report(written, tuple(notices))


def patch(before: Mapping[str, Any], after: Status) -> Status:
    """What to send to get from one status to the other."""
    gone = {field: None for field in before if field not in after}
    return gone | {field: value for field, value in after.items() if before.get(field) != value}


def finished_at(status: Mapping[str, Any]) -> datetime | None:
    """When the job was over, if it is."""
    for kind in (COMPLETE, FAILED):
        found = find_in(status, kind)
        if found is not None and found.get("status") == "True":
            return read_time(found.get("lastTransitionTime"))
    return None


def _counters(spec: JobSpec, status: Mapping[str, Any], count: Count) -> Status:
    written = dict(status)
    written["ready"] = count.ready
    written["terminating"] = len(count.terminating)
    written.setdefault("uncountedTerminatedPods", {})
    fields: dict[str, Any] = {"active": len(count.active), "succeeded": count.succeeded, "failed": count.failed}
    if spec.indexed:
        fields["completedIndexes"] = str(count.done)
    for field, value in fields.items():
        if value:
            written[field] = value
        else:
            written.pop(field, None)
    if spec.index_backoff_limit is not None:
        written["failedIndexes"] = str(count.given_up)
    return written


def _resumed(written: Status, started: datetime | None, now_text: str) -> list[BatchJobEvent]:
    """Note since when it runs, and that it does so again if it was suspended."""
    if started is not None:
        written["startTime"] = stamp(started)
    if find_in(written, "Suspended") is None:
        return []
    changed = _set(written, "Suspended", ("False", "JobResumed", "Job resumed"), now_text)
    return [BatchJobEvent("Resumed", "Job resumed")] if changed else []


def _set(written: Status, kind: str, wanted: tuple[str, str, str], now_text: str) -> bool:
    """Set a condition; whether it is new or says something else than before."""
    found = find_in(written, kind)
    if found is not None and (found.get("status"), found.get("reason") or "", found.get("message") or "") == wanted:
        return False
    status, reason, message = wanted
    condition = {
        "type": kind,
        "status": status,
        "lastProbeTime": now_text,
        "lastTransitionTime": now_text,
        "reason": reason,
        "message": message,
    }
    conditions = list(written.get("conditions") or ())
    if found is None:
        conditions.append(condition)
    else:
        conditions = [condition if one.get("type") == kind else one for one in conditions]
    written["conditions"] = conditions
    return True
