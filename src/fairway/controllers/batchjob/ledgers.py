"""What the job controller remembers of a job from one decision to the next, and how it remembers after a restart.

A pod that has ended is counted once: in `status.succeeded` or `status.failed`. Kubernetes holds every pod with a
finalizer until it is counted, which costs a write a pod. Here a pod is held by nothing. Instead:

- While the controller runs, the ledger of a job names the pods that its status includes (`counted`). A pod that goes
  away before it was counted stays in the ledger with its last state (`departed`), and its count is written at once.
  The ledger moves only when a status was written, so a write that failed counts nothing.
- After a restart the ledger is opened from what is stored. A status that says three succeeded, beside five pods that
  did, has counted the three that ended first. Indexes name themselves, and need no ledger to be counted once.

So nothing is ever counted twice. A count can be missed in one case: a counted pod was deleted by hand, or an uncounted
one vanished, and the process died in the few milliseconds before the next status was written. Then a failure is
forgiven, or one completion of a job without indexes is run once more. The controller itself does not bring that about:
its deletions have preconditions, so that a pod that has ended since is counted first; and the runner keeps a pod that
succeeded before it was stopped for a minute.

Pods that the job itself did away with (it was suspended, or wants fewer) count for nothing, whatever they still do:
they are `excused`. Only one that succeeded before it was stopped counts: its work is done, and must
not be done again. So a job that is resumed creates no replacement of a stopped pod until that has ended,
whatever its `podReplacementPolicy` says of others. A restart in the middle of that finds them marked for deletion, and
excuses every such pod that had not ended before its deletion. A failure may be forgiven by this, and a job is
never failed by its own suspension.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from fairway.apis.machinery.kind import Manifest
from fairway.controllers.batchjob import observe
from fairway.controllers.batchjob import observe as facts
from fairway.controllers.batchjob.observe import Indexes, JobSpec
from fairway.integrations import conditions
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
    return Failure(pod, Weight.FORGIVEN if observe.is_lost(pod) else Weight.COUNTED)


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
    for condition in conditions.of(pod):
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


class Streak(Struct, frozen=True):
    """Failures since the last success, which decide how long to wait before the next try."""

    failures: int = 0
    last: datetime | None = None

    def grown(self, successes: Collection[Manifest], failures: Collection[Failure]) -> "Streak":
        """With pods that ended meanwhile. Pods lost with the machine are not failures."""
        ends = sorted(facts.finished_at(one.pod) for one in failures if one.weight is not Weight.FORGIVEN)
        if not ends:
            return Streak() if successes else self
        if not successes:
            return Streak(self.failures + len(ends), ends[-1])
        last_success = max(facts.finished_at(pod) for pod in successes)
        since = [end for end in ends if end > last_success]
        return Streak(len(since), since[-1]) if since else Streak()


class Settlement(Struct, frozen=True, kw_only=True):
    """What becomes true of a ledger once a status is written."""

    counted: frozenset[str]
    forgiven: int
    streak: Streak


class Ledger(Struct, frozen=True, kw_only=True):
    counted: frozenset[str] = frozenset()
    """The UIDs of pods that the status includes."""

    excused: frozenset[str] = frozenset()
    """The UIDs of pods that count for nothing."""

    departed: tuple[Manifest, ...] = ()
    """Pods that are gone and still matter, as they last were: not counted yet, or the last failure of an index."""

    forgiven: int = 0
    """How many of the failures in the status do not count towards the limits."""

    streak: Streak = Streak()

    def excusing(self, uids: Iterable[str]) -> "Ledger":
        return replace(self, excused=self.excused.union(uids))

    def without(self, pod: Manifest) -> "Ledger":
        """A pod is gone."""
        uid = facts.uid(pod)
        # A pod that had ended before its deletion disappears at once, without a mark, and must be counted.
        is_stopped = facts.is_deleted(pod) or not facts.is_ended(pod)
        if uid in self.excused and is_stopped and not facts.is_done(pod):
            return replace(self, excused=self.excused - {uid})
        if uid in self.counted and facts.index(pod) is None:
            return replace(self, counted=self.counted - {uid})
        return replace(self, departed=(*self.departed, pod))

    def settled(self, settlement: Settlement) -> "Ledger":
        """A status was written."""
        counted = self.counted | settlement.counted
        departed = _worth_keeping(pod for pod in self.departed if facts.uid(pod) in counted)
        dropped = {facts.uid(pod) for pod in self.departed if facts.uid(pod) in counted and pod not in departed}
        uncounted = tuple(pod for pod in self.departed if facts.uid(pod) not in counted)
        return replace(
            self,
            counted=frozenset(counted - dropped),
            departed=(*departed, *uncounted),
            forgiven=self.forgiven + settlement.forgiven,
            streak=settlement.streak,
        )


NOTHING_YET: Final = Ledger()
"""What `opened` gives for a job without pods."""


def opened(spec: JobSpec, status: Mapping[str, Any], pods: Iterable[Manifest], *, failing: bool) -> Ledger:
    """The ledger of a job that is seen for the first time, with pods that may be older than this process."""
    pods = sorted((pod for pod in pods if spec.has_index(facts.index(pod))), key=_by_end)
    excused = frozenset(facts.uid(pod) for pod in pods if not failing and _was_stopped(pod))
    left = [pod for pod in pods if facts.uid(pod) not in excused]
    succeeded = [pod for pod in left if facts.phase(pod) == "Succeeded"]
    if spec.indexed:
        done = spec.read_indexes(status.get("completedIndexes"))
        succeeded = [pod for pod in succeeded if (facts.index(pod) or 0) in done]
    else:
        succeeded = succeeded[: status.get("succeeded") or 0]
    failed = [judged(spec, pod) for pod in left if facts.phase(pod) == "Failed"]
    failed = [failure for failure in failed if failure.weight is not Weight.IGNORED][: status.get("failed") or 0]
    return Ledger(
        counted=frozenset(facts.uid(pod) for pod in [*succeeded, *(failure.pod for failure in failed)]),
        excused=excused,
        forgiven=sum(failure.weight is Weight.FORGIVEN for failure in failed),
        streak=Streak().grown(succeeded, failed),
    )


def _by_end(pod: Manifest) -> tuple[datetime, str]:
    return facts.finished_at(pod), facts.uid(pod)


def _was_stopped(pod: Manifest) -> bool:
    """Whether it was stopped before it ended."""
    told = facts.deletion_time(pod)
    if facts.is_done(pod):
        return False
    return told is not None and not (facts.is_ended(pod) and facts.finished_at(pod) < told)


def _worth_keeping(departed: Iterable[Manifest]) -> tuple[Manifest, ...]:
    """The last failure of each index: the next pod of that index continues its count."""
    last: dict[int, Manifest] = {}
    for pod in departed:
        index = facts.index(pod)
        if index is not None and facts.phase(pod) != "Succeeded":
            last[index] = max(last.get(index, pod), pod, key=failure_order)
    return tuple(last.values())


def failure_order(pod: Manifest) -> tuple[int, datetime]:
    """Of two failures of an index, which came later."""
    return facts.index_failures(pod) + facts.index_ignored_failures(pod), facts.finished_at(pod)


class Count(Struct, frozen=True, kw_only=True):
    """How far a job has come. What the status says is in it already."""

    active: tuple[Manifest, ...]
    ready: int
    terminating: tuple[Manifest, ...]
    undecided: tuple[Manifest, ...]
    """Those of them that the job itself deleted: one may have succeeded before it was stopped."""

    successes: tuple[Manifest, ...]
    """Pods that succeeded and are not in the status yet."""

    failures: tuple[Failure, ...]
    """Pods that failed and are not in the status yet."""

    all_failures: tuple[Failure, ...]
    """With those that are in it, where rules or indexes ask for them."""

    succeeded: int
    failed: int
    charged: int
    """How many of the failures count towards the limit of the job."""

    done: Indexes
    given_up: Indexes
    """Indexes that succeeded, and that have failed for good."""

    streak: Streak
    fleeting: bool
    """Whether a pod that is not in the status yet is gone or about to go."""

    def settlement(self) -> Settlement:
        """The update of the ledger once a status with this count is written."""
        uids = [facts.uid(pod) for pod in self.successes] + [facts.uid(one.pod) for one in self.failures]
        forgiven = sum(one.weight is Weight.FORGIVEN for one in self.failures)
        return Settlement(counted=frozenset(uids), forgiven=forgiven, streak=self.streak)

    def last_failures(self) -> dict[int, Failure]:
        """The latest failure of each index that is to be tried again."""
        running = {facts.index(pod) for pod in self.active}
        last: dict[int, Failure] = {}
        for failure in self.all_failures:
            index = facts.index(failure.pod)
            if index is None or index in running or index in self.done or index in self.given_up:
                continue
            if index not in last or failure_order(failure.pod) >= failure_order(last[index].pod):
                last[index] = failure
        return last


def counted(
    spec: JobSpec, status: Mapping[str, Any], pods: Iterable[Manifest], ledger: Ledger, *, failing: bool
) -> Count:
    """Count. While the job is failing, stopped pods have failed with it."""
    active: list[Manifest] = []
    terminating: list[Manifest] = []
    successes: list[Manifest] = []
    failed: list[Manifest] = []
    for pod in pods:
        if facts.is_active(pod):
            active.append(pod)
            continue
        stopping = facts.is_terminating(pod)
        if stopping:
            terminating.append(pod)
        is_excused = facts.is_deleted(pod) and facts.uid(pod) in ledger.excused and not facts.is_done(pod)
        if is_excused or not spec.has_index(facts.index(pod)):
            continue
        if facts.phase(pod) == "Succeeded":
            successes.append(pod)
        elif not stopping or failing or not spec.replaces_only_failed:
            failed.append(pod)
    for pod in ledger.departed:
        if spec.has_index(facts.index(pod)):
            (successes if facts.phase(pod) == "Succeeded" else failed).append(pod)
    return _added_up(spec, status, ledger, active, terminating, successes, failed)


def _added_up(
    spec: JobSpec,
    status: Mapping[str, Any],
    ledger: Ledger,
    active: list[Manifest],
    terminating: list[Manifest],
    succeeded: list[Manifest],
    failed: list[Manifest],
) -> Count:
    new_successes = [pod for pod in succeeded if facts.uid(pod) not in ledger.counted]
    new_failures = [judged(spec, pod) for pod in failed if facts.uid(pod) not in ledger.counted]
    if spec.failure_rules or spec.index_backoff_limit is not None:
        all_failures = [judged(spec, pod) for pod in failed]
    else:
        all_failures = []
    done, given_up = _indexes(spec, status, new_successes, all_failures)
    failed_before = status.get("failed") or 0
    return Count(
        active=tuple(active),
        ready=sum(facts.is_ready(pod) for pod in active),
        terminating=tuple(terminating),
        undecided=tuple(pod for pod in terminating if facts.uid(pod) in ledger.excused),
        successes=tuple(new_successes),
        failures=tuple(new_failures),
        all_failures=tuple(all_failures),
        succeeded=len(done) if spec.indexed else (status.get("succeeded") or 0) + len(new_successes),
        failed=failed_before + sum(failure.weight is not Weight.IGNORED for failure in new_failures),
        charged=failed_before - ledger.forgiven + sum(failure.is_charged for failure in new_failures),
        done=done,
        given_up=given_up,
        streak=ledger.streak.grown(new_successes, new_failures),
        fleeting=_is_fleeting(ledger, [*new_successes, *(failure.pod for failure in new_failures)]),
    )


def _indexes(
    spec: JobSpec, status: Mapping[str, Any], successes: list[Manifest], failures: list[Failure]
) -> tuple[Indexes, Indexes]:
    """The indexes that succeeded and those that failed for good; whichever came first, none is both."""
    if not spec.indexed:
        return Indexes(), Indexes()
    given_up = spec.read_indexes(status.get("failedIndexes"))
    new = [index for index in map(facts.index, successes) if index is not None and index not in given_up]
    done = spec.read_indexes(status.get("completedIndexes")).with_indexes(new)
    if spec.index_backoff_limit is not None:
        fatal = [facts.index(one.pod) for one in failures if _is_fatal(one, spec.index_backoff_limit)]
        given_up = given_up.with_indexes(index for index in fatal if index is not None and index not in done)
    return done, given_up


def _is_fatal(failure: Failure, limit: int) -> bool:
    """Whether its index is not tried again."""
    if failure.weight is Weight.FAILS_INDEX:
        return True
    return failure.is_charged and facts.index_failures(failure.pod) >= limit


def _is_fleeting(ledger: Ledger, uncounted: list[Manifest]) -> bool:
    if not uncounted:
        return False
    departed = {facts.uid(pod) for pod in ledger.departed}
    return any(facts.is_deleted(pod) or facts.uid(pod) in departed for pod in uncounted)
