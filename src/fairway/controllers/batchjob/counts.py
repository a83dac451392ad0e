"""The pods of a job, counted: who runs, who is on the way out, and who has ended and is not in the status yet."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from fairway.apis.machinery.kind import Manifest
from fairway.controllers.batchjob import pods as facts
from fairway.controllers.batchjob.indexes import Indexes
from fairway.controllers.batchjob.ledgers import Ledger, Settlement, Streak, failure_order
from fairway.controllers.batchjob.policies import Failure, Weight, judged
from fairway.controllers.batchjob.specs import JobSpec


class Count(Struct, frozen=True, kw_only=True):
    """How far a job has come. What the status says is in it already."""

    active: tuple[Manifest, ...]
    ready: int
    terminating: tuple[Manifest, ...]
    undecided: tuple[Manifest, ...]
    """Those of them that the job itself told to go: one may have done its work before it could be told."""

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
        """What the ledger is told once a status with this count is written."""
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
    """Count. While the job is failing, whoever was told to go has failed with it."""
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
