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
it deletes a pod only as it saw it, so that none is gone at once that has ended since; and the runner leaves a pod that
ended well before it could be told to go for a while.

Pods that the job itself did away with (it was suspended, or wants fewer) count for nothing, whatever they still do:
they are `excused`. Only one that came to a good end before it could be told to stop counts: its work is done, and must
not be done again. So a job that is resumed makes no pod in the place of one that it told to go until that has ended,
whatever its `podReplacementPolicy` says of others. A restart in the middle of that finds them marked for deletion, and
excuses every such pod that had not ended before it was told to go. A failure may be forgiven by this, and a job is
never failed by its own suspension.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from fairway.apis.machinery.kind import Manifest
from fairway.controllers.batchjob import pods as facts
from fairway.controllers.batchjob.policies import Failure, Weight, judged
from fairway.controllers.batchjob.specs import JobSpec


class Streak(Struct, frozen=True):
    """Failures since the last success, which decide how long to wait before the next try."""

    failures: int = 0
    last: datetime | None = None

    def grown(self, successes: Collection[Manifest], failures: Collection[Failure]) -> "Streak":
        """With pods that ended meanwhile. What the machine took is nobody's failure."""
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
        # One that had ended before it was told to go is gone at once, without a mark, and has the right to be counted.
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
    """Whether it was told to go before it ended by itself."""
    told = facts.told_to_go_at(pod)
    if facts.is_done(pod):
        return False
    return told is not None and not (facts.is_ended(pod) and facts.finished_at(pod) < told)


def _worth_keeping(departed: Iterable[Manifest]) -> tuple[Manifest, ...]:
    """The last failure of each index: the next pod of that index goes on counting from it."""
    last: dict[int, Manifest] = {}
    for pod in departed:
        index = facts.index(pod)
        if index is not None and facts.phase(pod) != "Succeeded":
            last[index] = max(last.get(index, pod), pod, key=failure_order)
    return tuple(last.values())


def failure_order(pod: Manifest) -> tuple[int, datetime]:
    """Of two failures of an index, which came later."""
    return facts.index_failures(pod) + facts.index_ignored_failures(pod), facts.finished_at(pod)
