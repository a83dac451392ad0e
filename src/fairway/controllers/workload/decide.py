"""What is due for one Workload: steps in order, each a function of the object, the time and the configuration.

A step returns what to do, or when to look again. The first thing to do is done alone: the change that it brings leads
back here.
"""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from fairway.admission.instructions import DeactivationCause, EvictionReason
from fairway.apis.kueue.configuration import Configuration
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.metadata import IN_USE_FINALIZER
from fairway.integrations.conditions import WAITING_FOR_NODE

JOB_UID: Final = "kueue.x-k8s.io/job-uid"
WAIT_FOR_START: Final = "WaitForStart"
WAIT_FOR_RECOVERY: Final = "WaitForRecovery"
_JUST_ADMITTED: Final = ["QuotaReserved", "Admitted"]
_NOT_STARTED: Final = frozenset({WAIT_FOR_START, "PodsReady"})
"""Why pods are not ready; the second is what older versions said."""

_BACKING_OFF: Final = frozenset({EvictionReason.PODS_READY_TIMEOUT.value, EvictionReason.ADMISSION_CHECK.value})


class LifecycleCase:
    """A Workload at a moment."""

    __slots__ = ("_conditions", "configuration", "now", "workload")

    def __init__(self, workload: Manifest, now: datetime, configuration: Configuration) -> None:
        self.workload = workload
        self.now = now
        self.configuration = configuration
        conditions = (workload.get("status") or {}).get("conditions") or ()
        self._conditions: dict[str, dict[str, Any]] = {one["type"]: one for one in conditions}

    def condition(self, kind: str) -> dict[str, Any] | None:
        return self._conditions.get(kind)

    def is_true(self, kind: str) -> bool:
        found = self._conditions.get(kind)
        return found is not None and found["status"] == "True"

    def seconds_since(self, condition: dict[str, Any]) -> float:
        """How long a condition has been what it is."""
        return (self.now - datetime.fromisoformat(condition["lastTransitionTime"])).total_seconds()

    @property
    def active(self) -> bool:
        return bool(self.workload["spec"].get("active", True))


class Finish(NamedTuple):
    """It ends here, for this reason."""

    reason: str
    message: str


class LetGo(NamedTuple):
    """Nothing depends on it any more: its finalizer can go."""


class Delete(NamedTuple):
    """It was kept long enough."""

    message: str


class RequestEviction(NamedTuple):
    """The engine is to evict it. `warning` is an event about it, reason and message."""

    reason: str
    cause: str
    message: str = ""
    warning: tuple[str, str] | None = None


class EndBackoff(NamedTuple):
    """It need not wait any longer to be queued again."""


class Later(NamedTuple):
    """Nothing to do now; `seconds` says when to look again, if time alone can bring something.

    One that is `final` ends the steps.
    """

    seconds: float | None = None
    final: bool = False


Outcome = Finish | LetGo | Delete | RequestEviction | EndBackoff | Later
NOTHING: Final = Later()
_NOTHING_EVER: Final = Later(final=True)


def decide(case: LifecycleCase) -> Outcome:
    """What is to be done, or when to look again."""
    soonest: float | None = None
    for step in STEPS:
        found = step(case)
        if found is NOTHING:
            continue
        if not isinstance(found, Later):
            return found
        if found.seconds is not None:
            soonest = found.seconds if soonest is None else min(soonest, found.seconds)
        if found.final:
            break
    return NOTHING if soonest is None else Later(soonest)


def at_a_glance(workload: Manifest, now: Callable[[], datetime], configuration: Configuration) -> Later | None:
    """What `decide` finds for those for whom nothing is to be done yet, found out sooner than by asking all steps.

    So it is of nearly all: those that wait, those that have just been admitted, and finished ones that are kept for
    good. `None` of one that has to be looked at.
    """
    metadata = workload["metadata"]
    if not metadata.get("ownerReferences") and (
        "deletionTimestamp" in metadata or (metadata.get("labels") or {}).get(JOB_UID)
    ):
        return None
    conditions: Sequence[dict[str, Any]] = (workload.get("status") or {}).get("conditions") or ()
    admitted = None
    for one in reversed(conditions):  # an end comes last
        if one["status"] == "True":
            if one["type"] == "Finished":
                return NOTHING if configuration.finished_retention_seconds is None else None
            if one["type"] == "Admitted":
                admitted = one
        elif one["type"] == "Requeued":
            return None
    if admitted is None:
        return NOTHING
    spec, rules = workload["spec"], configuration.wait_for_pods_ready
    if "maximumExecutionTimeSeconds" in spec:
        return None
    if rules is None:
        return NOTHING
    if [one["type"] for one in conditions] != _JUST_ADMITTED or not spec.get("active", True):
        return None
    left = rules.timeout_seconds - (now() - datetime.fromisoformat(admitted["lastTransitionTime"])).total_seconds()
    return Later(left) if left > 0 else None


def finish_orphan(case: LifecycleCase) -> Outcome:
    """One that belonged to a job and has no owner any more ends; one that is to be deleted is not held."""
    metadata = case.workload["metadata"]
    if metadata.get("ownerReferences"):
        return NOTHING
    leaving = "deletionTimestamp" in metadata
    if not leaving and not (metadata.get("labels") or {}).get(JOB_UID):
        return NOTHING
    if not leaving and not case.is_true("Finished"):
        return Finish("OwnerNotFound", "The workload's owner no longer exists")
    return LetGo() if IN_USE_FINALIZER in (metadata.get("finalizers") or ()) else NOTHING


def keep_finished(case: LifecycleCase) -> Outcome:
    """A finished one is kept for as long as is configured, and nothing else happens to it."""
    finished = case.condition("Finished")
    if finished is None or finished["status"] != "True":
        return NOTHING
    kept_for = case.configuration.finished_retention_seconds
    if kept_for is None or "deletionTimestamp" in case.workload["metadata"]:
        return _NOTHING_EVER
    left = kept_for - case.seconds_since(finished)
    if left > 0:
        return Later(left, final=True)
    return Delete("Deleted finished workload due to elapsed retention")


def wait_for_pods(case: LifecycleCase) -> Outcome:
    """An admitted one whose pods are not ready in time is evicted."""
    rules, admitted = case.configuration.wait_for_pods_ready, case.condition("Admitted")
    if rules is None or admitted is None or admitted["status"] != "True" or case.is_true("Evicted") or not case.active:
        return NOTHING
    ready = case.condition("PodsReady")
    if ready is not None and ready["status"] == "True":
        return NOTHING
    if ready is None or ready["reason"] in _NOT_STARTED:
        cause, left = WAIT_FOR_START, rules.timeout_seconds - case.seconds_since(admitted)
    elif ready["reason"] == WAIT_FOR_RECOVERY and rules.recovery_timeout_seconds is not None:
        cause, left = WAIT_FOR_RECOVERY, rules.recovery_timeout_seconds - case.seconds_since(ready)
    else:
        return NOTHING
    return Later(left) if left > 0 else RequestEviction(EvictionReason.PODS_READY_TIMEOUT.value, cause)


def wait_for_node(case: LifecycleCase) -> Outcome:
    """An admitted one of which nothing runs because no node has room gives its quota back after a time."""
    limit, waiting = case.configuration.node_timeout_seconds, case.condition(WAITING_FOR_NODE)
    if limit is None or waiting is None or waiting["status"] != "True" or waiting["reason"] != "Unschedulable":
        return NOTHING
    if not case.is_true("Admitted") or case.is_true("Evicted") or not case.active:
        return NOTHING
    left = limit - case.seconds_since(waiting)
    if left > 0:
        return Later(left)
    message = f"No node had room for its pods within {limit:.0f}s: {waiting.get('message', '')}"
    return RequestEviction(
        EvictionReason.PODS_READY_TIMEOUT.value, WAIT_FOR_START, message, warning=("NoNodeInTime", message)
    )


def end_long_run(case: LifecycleCase) -> Outcome:
    """One that has run for longer than it may, all its runs together, is deactivated."""
    longest, admitted = case.workload["spec"].get("maximumExecutionTimeSeconds"), case.condition("Admitted")
    if longest is None or admitted is None or admitted["status"] != "True":
        return NOTHING
    if not case.active or case.is_true("Evicted") or case.is_true("DeactivationTarget"):
        return NOTHING
    before = case.workload["status"].get("accumulatedPastExecutionTimeSeconds") or 0
    left = longest - before - case.seconds_since(admitted)
    if left > 0:
        return Later(left)
    cause = DeactivationCause.MAXIMUM_EXECUTION_TIME.value
    return RequestEviction(
        EvictionReason.DEACTIVATED.value,
        cause,
        "exceeding the maximum execution time",
        warning=(cause, f"The maximum execution time ({longest}s) exceeded"),
    )


def end_backoff(case: LifecycleCase) -> Outcome:
    """One that still holds quota when its back-off is over may be queued as soon as it gives the quota back.

    Of those that have given it back the engine knows when.
    """
    requeued, state = case.condition("Requeued"), (case.workload.get("status") or {}).get("requeueState") or {}
    if requeued is None or requeued["status"] != "False" or requeued["reason"] not in _BACKING_OFF:
        return NOTHING
    if "requeueAt" not in state or not case.is_true("QuotaReserved") or not case.active:
        return NOTHING
    left = (datetime.fromisoformat(state["requeueAt"]) - case.now).total_seconds()
    return Later(left) if left > 0 else EndBackoff()


STEPS: Final[tuple[Callable[[LifecycleCase], Outcome], ...]] = (
    finish_orphan,
    keep_finished,
    end_backoff,
    wait_for_node,
    wait_for_pods,
    end_long_run,
)
