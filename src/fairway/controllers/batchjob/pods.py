"""What a job reads off a pod: whether it runs, how and when it ended, which index it has, and whose it is."""

from datetime import datetime, timedelta
from typing import Any, Final

from fairway.apis.machinery.keys import Key
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.printing import read_time
from fairway.integrations.workloads import controller_of

COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
"""The annotation, and the label, that says which index a pod works on."""

INDEX_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
"""How often its index had failed when this pod was made."""

INDEX_IGNORED_FAILURES: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
"""The same, of failures that the limit of an index does not count."""

LOST: Final = "TerminationByKubelet"
"""The reason of a pod's `DisruptionTarget` condition when the machine, or the supervisor of its processes, died."""

STOPPED: Final = "Stopped"
"""The reason of a pod that was told to end before it had, and then ended well."""

_MOST_FAILURES: Final = 2**31 - 1
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


def phase(pod: Manifest) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


def uid(pod: Manifest) -> str:
    return str(pod["metadata"]["uid"])


def is_ended(pod: Manifest) -> bool:
    return phase(pod) in _ENDED


def is_deleted(pod: Manifest) -> bool:
    """Whether it was told to go."""
    return "deletionTimestamp" in pod["metadata"]


def is_active(pod: Manifest) -> bool:
    return not is_ended(pod) and not is_deleted(pod)


def is_terminating(pod: Manifest) -> bool:
    """Whether it was told to go and has not ended yet."""
    return is_deleted(pod) and not is_ended(pod)


def is_done(pod: Manifest) -> bool:
    """Whether it succeeded by itself, and not because it was told to go and ended well."""
    return phase(pod) == "Succeeded" and (pod.get("status") or {}).get("reason") != STOPPED


def is_ready(pod: Manifest) -> bool:
    found = condition(pod, "Ready")
    return found is not None and found.get("status") == "True"


def is_lost(pod: Manifest) -> bool:
    """Whether it ended because the machine, or the supervisor of its processes, did."""
    found = condition(pod, "DisruptionTarget")
    return found is not None and found.get("status") == "True" and found.get("reason") == LOST


def condition(pod: Manifest, kind: str) -> dict[str, Any] | None:
    for one in conditions(pod):
        if one.get("type") == kind:
            return one
    return None


def conditions(pod: Manifest) -> list[dict[str, Any]]:
    return (pod.get("status") or {}).get("conditions") or []


def owner(pod: Manifest) -> dict[str, Any] | None:
    """The reference to the job that a pod belongs to; nothing if somebody else controls it, or nobody."""
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
    status = pod.get("status") or {}
    statuses = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return sum(int(one.get("restartCount") or 0) for one in statuses)


def told_to_go_at(pod: Manifest) -> datetime | None:
    """When somebody deleted it."""
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
    ready = condition(pod, "Ready")
    unready_since = read_time(ready.get("lastTransitionTime")) if ready and ready.get("status") == "False" else None
    return unready_since or told_to_go_at(pod) or created_at(pod)


def created_at(pod: Manifest) -> datetime:
    created = read_time(pod["metadata"].get("creationTimestamp"))
    if created is None:
        raise ValueError(f"pod {pod['metadata'].get('name')} has no creationTimestamp")
    return created


def removal_order(pod: Manifest) -> tuple[Any, ...]:
    """Whoever has come least far goes first: without a node, not running, not ready, ready or there for less time."""
    ready = condition(pod, "Ready")
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
