"""What a job asks for, and what its pods say: which run, how and when they ended, whose they are, and their index.

Sets of completion indexes are kept as intervals, for a job may have a hundred thousand of them, and written as
Kubernetes writes them: `1,3-5,7`, and two neighbours as `1,2`.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any, Final

from msgspec import Struct

from fairway.apis.core.pod_parts import statuses_of
from fairway.apis.machinery.keys import Key
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.printing import read_time
from fairway.integrations import conditions
from fairway.integrations.workloads import controller_of

Interval = tuple[int, int]
"""The first and the last index of a run."""

OURS: Final = "kubernetes.io/job-controller"
"""What `spec.managedBy` says of jobs that are served here; so does saying nothing."""

COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
"""The annotation, and the label, that says which index a pod works on."""

INDEX_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
"""How often its index had failed when this pod was made."""

INDEX_IGNORED_FAILURES: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
"""The same, of failures that the limit of an index does not count."""

LOST: Final = "TerminationByKubelet"
"""The reason of a pod's `DisruptionTarget` condition when the machine, or the supervisor of its processes, died."""

STOPPED: Final = "Stopped"
"""The reason of a pod that was stopped before it ended, and exited with 0."""

_MOST_FAILURES: Final = 2**31 - 1
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


class Indexes(Struct, frozen=True):
    """Indexes in order, neighbours joined."""

    intervals: tuple[Interval, ...] = ()

    @classmethod
    def read(cls, text: str | None, completions: int) -> "Indexes":
        """The set that a text names, without what a job of so many completions does not have and what is no index."""
        found: list[Interval] = []
        for part in (text or "").split(",") if text else ():
            first, _, last = part.partition("-")
            if first.isdigit() and (last or first).isdigit() and int(first) < completions:
                found.append((int(first), min(int(last or first), completions - 1)))
        return cls(_joined(found))

    def __str__(self) -> str:
        return ",".join(
            str(first) if first == last else f"{first}{',' if last == first + 1 else '-'}{last}"
            for first, last in self.intervals
        )

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.intervals)

    def __contains__(self, index: int) -> bool:
        at = bisect_left(self.intervals, index, key=lambda interval: interval[1])
        return at < len(self.intervals) and self.intervals[at][0] <= index

    def with_indexes(self, indexes: Iterable[int]) -> "Indexes":
        """These and those."""
        more = [(index, index) for index in indexes]
        return Indexes(_joined([*self.intervals, *more])) if more else self

    def joined(self, other: "Indexes") -> "Indexes":
        return Indexes(_joined([*self.intervals, *other.intervals]))

    def shared_with(self, other: "Indexes") -> int:
        """How many indexes are in both."""
        return len(self) + len(other) - len(self.joined(other))

    def missing(self, completions: int) -> Iterator[int]:
        """The indexes of a job that are not in here, in order."""
        candidate = 0
        for first, last in self.intervals:
            yield from range(candidate, min(first, completions))
            candidate = last + 1
        yield from range(candidate, completions)


def _joined(intervals: list[Interval]) -> tuple[Interval, ...]:
    joined: list[Interval] = []
    for first, last in sorted(intervals):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return tuple(joined)


class JobSpec(Struct, frozen=True, kw_only=True):
    """The wishes of a job; the defaults have been filled in when it was created."""

    parallelism: int
    completions: int | None
    """`None`: one success is enough, and the pods that run beside it are waited for."""

    indexed: bool
    suspended: bool
    backoff_limit: int
    index_backoff_limit: int | None
    """With it, each index has its own count of failures and its own back-off."""

    max_failed_indexes: int | None
    deadline_seconds: int | None
    restarts_in_place: bool
    """Failed containers are started again in their pod, and their restarts count as failures."""

    replaces_only_failed: bool
    """A stopped pod is replaced once it has ended, not before."""

    failure_rules: tuple[dict[str, Any], ...]
    success_rules: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, job: Manifest) -> "JobSpec":
        spec = job["spec"]
        failure_policy = spec.get("podFailurePolicy")
        return cls(
            parallelism=1 if spec.get("parallelism") is None else spec["parallelism"],
            completions=spec.get("completions"),
            indexed=spec.get("completionMode") == "Indexed",
            suspended=bool(spec.get("suspend")),
            backoff_limit=6 if spec.get("backoffLimit") is None else spec["backoffLimit"],
            index_backoff_limit=spec.get("backoffLimitPerIndex"),
            max_failed_indexes=spec.get("maxFailedIndexes"),
            deadline_seconds=spec.get("activeDeadlineSeconds"),
            restarts_in_place=spec["template"]["spec"].get("restartPolicy") == "OnFailure",
            replaces_only_failed=spec.get("podReplacementPolicy") == "Failed" or failure_policy is not None,
            failure_rules=tuple((failure_policy or {}).get("rules") or ()),
            success_rules=tuple((spec.get("successPolicy") or {}).get("rules") or ()),
        )

    def read_indexes(self, text: str | None) -> Indexes:
        return Indexes.read(text, self.completions or 0)

    def has_index(self, index: int | None) -> bool:
        """Whether this is an index of the job; without indexes, every pod is as good as another."""
        return not self.indexed or (index is not None and index < (self.completions or 0))


def is_ours(job: Manifest) -> bool:
    """Whether this controller creates its pods."""
    return job["spec"].get("managedBy") in (None, OURS)


def ttl_seconds(job: Manifest) -> int | None:
    """How long it is kept once it is over."""
    ttl = job["spec"].get("ttlSecondsAfterFinished")
    return None if ttl is None else int(ttl)


def phase(pod: Manifest) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def uid(pod: Manifest) -> str:
    return str(pod["metadata"]["uid"])


def is_ended(pod: Manifest) -> bool:
    return phase(pod) in _ENDED


def is_deleted(pod: Manifest) -> bool:
    """Whether it is being deleted."""
    return "deletionTimestamp" in pod["metadata"]


def is_active(pod: Manifest) -> bool:
    return not is_ended(pod) and not is_deleted(pod)


def is_terminating(pod: Manifest) -> bool:
    """Whether it is being deleted and has not ended yet."""
    return is_deleted(pod) and not is_ended(pod)


def is_done(pod: Manifest) -> bool:
    """Whether it succeeded by itself, and not after it was stopped."""
    return phase(pod) == "Succeeded" and (pod.get("status") or {}).get("reason") != STOPPED


def is_ready(pod: Manifest) -> bool:
    found = conditions.find(pod, "Ready")
    return found is not None and found.get("status") == "True"


def is_lost(pod: Manifest) -> bool:
    """Whether it ended because the machine, or the supervisor of its processes, did."""
    found = conditions.find(pod, "DisruptionTarget")
    return found is not None and found.get("status") == "True" and found.get("reason") == LOST


def owner(pod: Manifest) -> dict[str, Any] | None:
    """The reference to the job that a pod belongs to; nothing if it has another controller, or none."""
    found = controller_of(pod)
    is_job = found is not None and found["kind"] == "Job" and found["apiVersion"].partition("/")[0] == "batch"
    return found if is_job else None


def owner_key(pod: Manifest) -> Key | None:
    """Namespace and name of the job that a pod belongs to."""
    reference = owner(pod)
    return None if reference is None else (pod["metadata"].get("namespace", ""), reference["name"])


def owner_uid(pod: Manifest) -> str | None:
    """The job that a pod belongs to."""
    reference = owner(pod)
    return None if reference is None else str(reference["uid"])


def orphan_of(pod: Manifest) -> str | None:
    """The namespace of a pod without a controller."""
    return None if controller_of(pod) is not None else pod["metadata"].get("namespace", "")


def index(pod: Manifest) -> int | None:
    """The completion index, if it has a proper one."""
    text = str((pod["metadata"].get("annotations") or {}).get(COMPLETION_INDEX, ""))
    return int(text) if text.isascii() and text.isdigit() else None


def index_failures(pod: Manifest) -> int:
    return _count(pod, INDEX_FAILURES)


def index_ignored_failures(pod: Manifest) -> int:
    return _count(pod, INDEX_IGNORED_FAILURES)


def restarts(pod: Manifest) -> int:
    """How often its containers were started again."""
    return sum(int(one.get("restartCount") or 0) for one in statuses_of(pod))


def deletion_time(pod: Manifest) -> datetime | None:
    """When it was deleted."""
    ends = read_time(pod["metadata"].get("deletionTimestamp"))
    if ends is None:
        return None
    return ends - timedelta(seconds=pod["metadata"].get("deletionGracePeriodSeconds") or 0)


def finished_at(pod: Manifest) -> datetime:
    """When it ended, as well as one can tell: by its containers, else by what is known of the pod itself."""
    ends = [
        read_time(((one.get("state") or {}).get("terminated") or {}).get("finishedAt"))
        for one in (pod.get("status") or {}).get("containerStatuses") or ()
    ]
    known = [end for end in ends if end is not None]
    if known and len(known) == len(ends):
        return max(known)
    ready = conditions.find(pod, "Ready")
    unready_since = read_time(ready.get("lastTransitionTime")) if ready and ready.get("status") == "False" else None
    return unready_since or deletion_time(pod) or created_at(pod)


def created_at(pod: Manifest) -> datetime:
    created = read_time(pod["metadata"].get("creationTimestamp"))
    if created is None:
        raise ValueError(f"pod {pod['metadata'].get('name')} has no creationTimestamp")
    return created


def removal_order(pod: Manifest) -> tuple[Any, ...]:
    """Pods that have come least far first: without a node, not running, not ready, ready or there for less time."""
    ready = conditions.find(pod, "Ready")
    is_up = ready is not None and ready.get("status") == "True"
    up_since = read_time(ready.get("lastTransitionTime")) if ready is not None and is_up else None
    return (
        bool((pod.get("spec") or {}).get("nodeName")),
        _PHASES.get(phase(pod), 2),
        is_up,
        -up_since.timestamp() if up_since is not None else 0.0,
        -restarts(pod),
        -created_at(pod).timestamp(),
        pod["metadata"]["name"],
    )


def _count(pod: Manifest, annotation: str) -> int:
    text = str((pod["metadata"].get("annotations") or {}).get(annotation, ""))
    return int(text) if text.isascii() and text.isdigit() and int(text) <= _MOST_FAILURES else 0
