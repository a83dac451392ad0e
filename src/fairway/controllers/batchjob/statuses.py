"""The status of a job, in the form in which Kubernetes writes it: a counter that is zero is left out, except two."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.printing import read_time
from fairway.apis.machinery.timestamps import stamp
from fairway.controllers.batchjob import pods as facts
from fairway.controllers.batchjob import verdicts
from fairway.controllers.batchjob.counts import Count
from fairway.controllers.batchjob.specs import JobSpec
from fairway.controllers.batchjob.verdicts import Verdict

Status = dict[str, Any]


class Notice(Struct, frozen=True):
    """An event about the job, to be told once the status says so too."""

    reason: str
    message: str
    warning: bool = False


class Report(Struct, frozen=True):
    """A status and what is to be told with it."""

    status: Status
    notices: tuple[Notice, ...]


def start_of(spec: JobSpec, status: Mapping[str, Any], pods: Iterable[Manifest], now: datetime) -> datetime | None:
    """Since when the job runs: since it was resumed last, or since its first pod, however late that is written down."""
    if spec.suspended:
        return None
    if verdicts.holds(status, "Suspended"):
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
            notices.append(Notice("Suspended", "Job suspended"))
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
        notices.append(Notice(verdict.reason, verdict.message, warning=True))
    else:
        # A clock that was set back must not make a job end before it began.
        written["completionTime"] = max(now_text, str(written.get("startTime", "")))
        if spec.completions is not None and count.succeeded > spec.completions:
            too_many = "Too many succeeded pods running after completion count reached"
            notices.append(Notice("TooManySucceededPods", too_many, warning=True))
        notices.append(Notice("Completed", "Job completed"))
    return Report(written, tuple(notices))


def patch(before: Mapping[str, Any], after: Status) -> Status:
    """What to send to get from one status to the other."""
    gone = {field: None for field in before if field not in after}
    return gone | {field: value for field, value in after.items() if before.get(field) != value}


def finished_at(status: Mapping[str, Any]) -> datetime | None:
    """When the job was over, if it is."""
    for kind in (verdicts.COMPLETE, verdicts.FAILED):
        found = verdicts.find(status, kind)
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


def _resumed(written: Status, started: datetime | None, now_text: str) -> list[Notice]:
    """Note since when it runs, and that it does so again if it was suspended."""
    if started is not None:
        written["startTime"] = stamp(started)
    if verdicts.find(written, "Suspended") is None:
        return []
    changed = _set(written, "Suspended", ("False", "JobResumed", "Job resumed"), now_text)
    return [Notice("Resumed", "Job resumed")] if changed else []


def _set(written: Status, kind: str, wanted: tuple[str, str, str], now_text: str) -> bool:
    """Set a condition; whether it is new or says something else than before."""
    found = verdicts.find(written, kind)
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
