"""How a job ends: why, and in which words. The order of the questions and the words are those of Kubernetes."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct

from fairway.controllers.batchjob import pods as facts
from fairway.controllers.batchjob.counts import Count
from fairway.controllers.batchjob.policies import Weight, success_message
from fairway.controllers.batchjob.specs import JobSpec

SUCCESS: Final = "SuccessCriteriaMet"
FAILURE: Final = "FailureTarget"
COMPLETE: Final = "Complete"
FAILED: Final = "Failed"
_ENDS: Final = frozenset({COMPLETE, FAILED})


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
        found = find(status, kind)
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


def find(status: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    """The condition of this type, the first if there are several; shared, so not to be changed."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == kind:
            found: Mapping[str, Any] = condition
            return found
    return None


def holds(status: Mapping[str, Any], kind: str) -> bool:
    found = find(status, kind)
    return found is not None and found.get("status") == "True"


def _restarted_too_often(spec: JobSpec, count: Count) -> bool:
    if not spec.restarts_in_place:
        return False
    restarts = sum(facts.restarts(pod) for pod in (*count.active, *count.terminating))
    return restarts > 0 if spec.backoff_limit == 0 else restarts >= spec.backoff_limit
