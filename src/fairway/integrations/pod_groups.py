"""Pod groups: pods that are admitted together, all or none.

Every pod names the group and how many pods it has. Pods that ask for the same are of one role, and a role is a pod set
of the group's workload. A pod that failed is not the end: the group waits for another in its place.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from fairway.apis.machinery.kind import Manifest
from fairway.errors import FairwayError
from fairway.integrations import conditions, following, names, pods
from fairway.integrations.pods import GROUP, POD_INDEX, JobOutcome, is_deleting, is_gated, is_held, is_terminated, phase
from fairway.integrations.priorities import Priority
from fairway.integrations.role_hash import role_hash
from fairway.integrations.webhooks import annotations_of, go_int, labels_of, maximum_seconds, queue_name, unreadable
from fairway.integrations.workloads import namespaced_name, new_workload, owner_reference

TOTAL_COUNT: Final = "kueue.x-k8s.io/pod-group-total-count"
FAST_ADMISSION: Final = "kueue.x-k8s.io/pod-group-fast-admission"
SERVING: Final = "kueue.x-k8s.io/pod-group-serving"
ROLE_HASH: Final = "kueue.x-k8s.io/role-hash"
RETRIABLE: Final = "kueue.x-k8s.io/retriable-in-group"
WAITING: Final = "WaitingForReplacementPods"
MOST_ROLES: Final = 18


class Uncomposable(FairwayError):
    """The pods of a group do not make a workload, as they are now."""


class Stock(NamedTuple):
    """The pods of a group held against its workload."""

    kept: list[Manifest]
    """Those that count: they run, ran or will run, or failed and have not been replaced."""

    excess: list[Manifest]
    """Those that are one too many of their role."""

    replaced: list[Manifest]
    """Those that are over or on their way out and have been replaced."""

    absent: int
    """How many pods are missing."""


def in_order(members: Iterable[Manifest]) -> list[Manifest]:
    """The oldest first; the first of them speaks for the group."""
    return sorted(members, key=_age)


def total_count(pod: Manifest) -> int:
    """How many pods the group of this pod has; `Uncomposable` if it does not say."""
    if not pods.group_name(pod):
        raise Uncomposable(f"pod doesn't have a '{GROUP}' annotation/label")
    text = annotations_of(pod).get(TOTAL_COUNT)
    if text is None:
        raise Uncomposable(f"failed to extract '{TOTAL_COUNT}' annotation")
    count = _whole_number(text)
    if count < 1:
        raise Uncomposable(
            f"incorrect annotation value '{TOTAL_COUNT}={text}': group total count should be greater than zero"
        )
    return count


def role(pod: Manifest) -> str:
    return annotations_of(pod).get(ROLE_HASH) or role_hash(pod["spec"])


def is_fast(pod: Manifest) -> bool:
    """Whether the group is admitted as soon as its first pod is there."""
    return annotations_of(pod).get(FAST_ADMISSION) == "true"


def is_serving(pod: Manifest) -> bool:
    """Whether the group serves, so that it never finishes and gives no quota back."""
    return annotations_of(pod).get(SERVING) == "true"


def is_unretriable(pod: Manifest) -> bool:
    return annotations_of(pod).get(RETRIABLE) == "false"


def is_suspended(members: Iterable[Manifest]) -> bool:
    return any(pods.is_suspended(pod) for pod in members)


def counts(pod: Manifest) -> bool:
    """Whether a pod can run, runs or has succeeded. One that is deleted before it has a node never runs."""
    if is_deleting(pod) and not pod["spec"].get("nodeName"):
        return False
    return phase(pod) != "Failed"


def uncounted(members: Iterable[Manifest]) -> list[Manifest]:
    return [pod for pod in members if not counts(pod)]


def uses_quota_for(members: Iterable[Manifest], now: datetime) -> float | None:
    """How many seconds pods of the group may still run; `None` if none does.

    A pod that is being deleted and does not end in time counts no longer: its node may be lost.
    """
    longest: float | None = None
    for pod in members:
        if phase(pod) != "Running":
            continue
        left = _seconds_left(pod, now)
        if left >= 0:
            longest = left if longest is None else max(longest, left)
    return longest


def stock(members: Sequence[Manifest], pod_sets: Iterable[Manifest], *, evicted: bool, now: datetime) -> Stock:
    """Who of the group counts, who is too many, who has been replaced.

    Once the group is evicted, pods on their way out count as gone, so that others can take their place.
    """
    active: dict[str, list[Manifest]] = {}
    inactive: dict[str, list[Manifest]] = {}
    for pod in members:
        going = counts(pod) and not (evicted and is_deleting(pod) and not is_terminated(pod))
        (active if going else inactive).setdefault(role(pod), []).append(pod)
    fast = bool(members) and is_fast(members[0])
    result, absent = Stock([], [], [], 0), 0
    for pod_set in pod_sets:
        name, count = pod_set["name"], pod_set["count"]
        running = sorted(active.get(name, ()), key=_worth)
        over = sorted(inactive.get(name, ()), key=lambda pod: _recency(pod, now))
        waiting = len(over) - max(0, min(len(over), len(over) + len(running) - count))
        result.kept.extend(running[:count] + over[:waiting])
        result.excess.extend(running[count:])
        result.replaced.extend(over[waiting:])
        absent += _absent(count, len(running), fast=fast)
    return result._replace(absent=absent)


def outcome(members: Sequence[Manifest]) -> JobOutcome | None:
    """How the group ended, `None` while it has not."""
    if not members or is_serving(members[0]):
        return None
    total = total_count(members[0])
    succeeded = sum(phase(pod) == "Succeeded" for pod in members)
    given_up = all(is_terminated(pod) for pod in members) and any(is_unretriable(pod) for pod in members)
    if succeeded != total and not given_up:
        return None
    return JobOutcome(succeeded=True, message=f"Pods succeeded: {succeeded}/{total}.")


def all_ready(members: Sequence[Manifest]) -> bool:
    return len(members) >= total_count(members[0]) and all(pods.is_ready(pod) for pod in members)


def reclaimable(members: Sequence[Manifest], workload: Manifest) -> list[dict[str, Any]]:
    """The pods that need no quota any more, by pod set, for `status.reclaimablePods`; it never becomes less."""
    before = {one["name"]: one["count"] for one in (workload.get("status") or {}).get("reclaimablePods") or ()}
    if is_serving(members[0]):
        return _as_reclaimable(before)
    succeeded: dict[str, int] = {}
    for pod in members:
        if phase(pod) == "Succeeded":
            name = role(pod)
            succeeded[name] = succeeded.get(name, 0) + 1
    sizes = {pod_set["name"]: pod_set["count"] for pod_set in workload["spec"]["podSets"]}
    found = {name: min(count, sizes.get(name, count)) for name, count in succeeded.items()}
    return _as_reclaimable({**before, **{name: max(count, before.get(name, 0)) for name, count in found.items()}})


def waiting_condition(workload: Manifest, absent: int) -> tuple[str, str, str] | None:
    """What the condition of the workload about missing pods should be (status, reason, message), if it is not."""
    known = conditions.find(workload, WAITING)
    if absent == 0:
        if known is None or known["status"] == "False":
            return None
        return "False", "PodsReady", "No pods need replacement"
    evicted = conditions.find(workload, conditions.EVICTED)
    if evicted is not None and evicted["status"] == "True":
        wanted = ("True", evicted["reason"], evicted["message"])
    elif known is not None and known["status"] == "True":
        return None
    else:
        wanted = ("True", "PodsFailed", "Some Failed pods need replacement")
    if known is not None and (known["status"], known["reason"], known["message"]) == wanted:
        return None
    return wanted


def chosen(members: Sequence[Manifest]) -> tuple[list[Manifest], list[Manifest]]:
    """The pods that a workload is made of, and those that are too many; `Uncomposable` if they do not fit together."""
    first = members[0]
    total = total_count(first)
    _check_index(first, total)
    active = [pod for pod in members if counts(pod)]
    if not is_fast(first) and len(active) < total:
        raise Uncomposable(f"'{pods.group_name(first)}' group has fewer runnable pods than expected")
    for pod in members:
        if phase(pod) != "Failed":
            _check_alike(first, pod, total)
    active.sort(key=_worth)
    return active[:total], active[total:]


def composed(members: Sequence[Manifest], priority: Priority, copied_labels: Iterable[str]) -> Manifest:
    """The workload of a group of these pods."""
    first = members[0]
    metadata = first["metadata"]
    return new_workload(
        pods.group_name(first),
        metadata["namespace"],
        [owner_reference(pod, controller=False) for pod in members],
        pod_sets(members),
        queue_name(first),
        priority,
        labels=_common_labels(members, copied_labels),
        annotations={**following.passed_on(annotations_of(first)), names.IS_GROUP_WORKLOAD: "true"},
        maximum_execution_seconds=maximum_seconds(first),
    )


def pod_sets(members: Sequence[Manifest]) -> list[Manifest]:
    """One pod set a role, by name; of a group that is admitted fast the role of its first pod stands for all."""
    if is_fast(members[0]):
        for pod in members:
            if counts(pod):
                return [pods.pod_set_of(pod, role(pod), total_count(members[0]))]
        raise Uncomposable("failed to find a runnable pod in the group")
    examples: dict[str, Manifest] = {}
    numbers: dict[str, int] = {}
    for pod in members:
        if counts(pod):
            name = role(pod)
            examples.setdefault(name, pod)
            numbers[name] = numbers.get(name, 0) + 1
    if len(numbers) > MOST_ROLES:
        raise Uncomposable(f"pod group can't include more than {MOST_ROLES} roles")
    return [pods.pod_set_of(examples[name], name, numbers[name]) for name in sorted(numbers)]


def missing_owners(workload: Manifest, members: Iterable[Manifest]) -> list[dict[str, Any]]:
    """The references to pods that a workload should be owned by and is not."""
    known = {owner["uid"] for owner in workload["metadata"].get("ownerReferences") or ()}
    return [owner_reference(pod, controller=False) for pod in members if pod["metadata"]["uid"] not in known]


def _age(pod: Manifest) -> tuple[str, str]:
    metadata = pod["metadata"]
    return metadata["creationTimestamp"], metadata["name"]


def _worth(pod: Manifest) -> tuple[bool, bool, str, str]:
    """Of pods that could run those with the finalizer, then those that started, then the oldest are kept."""
    return (not is_held(pod), is_gated(pod), *_age(pod))


def _recency(pod: Manifest, now: datetime) -> tuple[bool, float, str, str]:
    """Of pods that are over those that ended last are kept."""
    return (not is_held(pod), -_last_active(pod, now).timestamp(), *_age(pod))


def _last_active(pod: Manifest, now: datetime) -> datetime:
    moments = [now]
    ready = conditions.find(pod, "ContainersReady")
    if ready is not None and ready["status"] == "False" and ready.get("reason") == "Failed":
        moments.append(datetime.fromisoformat(ready["lastTransitionTime"]))
    if is_deleting(pod):
        moments.append(datetime.fromisoformat(pod["metadata"]["deletionTimestamp"]))
    return min(moments)


def _seconds_left(pod: Manifest, now: datetime) -> float:
    """The rest of a running pod's grace period, negative if it should have ended."""
    metadata = pod["metadata"]
    grace = metadata.get("deletionGracePeriodSeconds")
    if not is_deleting(pod) or grace is None:
        return float("inf")
    end = datetime.fromisoformat(metadata["deletionTimestamp"]) + timedelta(seconds=grace)
    return (end - now).total_seconds()


def _absent(count: int, active: int, *, fast: bool) -> int:
    if fast:
        return 1 if count > 0 and active == 0 else 0
    return max(0, count - active)


def _as_reclaimable(numbers: dict[str, int]) -> list[dict[str, Any]]:
    return [{"name": name, "count": count} for name, count in numbers.items()]


def _common_labels(members: Iterable[Manifest], keys: Iterable[str]) -> dict[str, str]:
    result: dict[str, str] = {}
    wanted = tuple(keys)
    for pod in members:
        found = labels_of(pod)
        for key in wanted:
            if key in found and result.setdefault(key, found[key]) != found[key]:
                raise Uncomposable("constructing workload: pods have different label values")
    return result


def _check_alike(first: Manifest, pod: Manifest, total: int) -> None:
    one, other = first["metadata"]["name"], pod["metadata"]["name"]
    queue, its_queue = queue_name(first), queue_name(pod)
    if its_queue != queue:
        raise Uncomposable(f"pods '{one}' and '{other}' has different queue names: {queue}!={its_queue}")
    text = annotations_of(pod).get(TOTAL_COUNT, "")
    try:
        count = _whole_number(text)
    except Uncomposable as problem:
        raise Uncomposable(f"failed to extract '{TOTAL_COUNT}' annotation from the pod '{other}': {problem}") from None
    if count != total:
        raise Uncomposable(f"pods '{one}' and '{other}' has different '{TOTAL_COUNT}' values: {total}!={count}")


def _check_index(pod: Manifest, total: int) -> None:
    text = labels_of(pod).get(POD_INDEX)
    if text is None:
        return
    place = namespaced_name(pod)
    wrong = f'incorrect label value "{text}" for Pod "{place}":'
    if not (text.isascii() and text.isdigit()):
        raise Uncomposable(f"{wrong} invalid unsigned integer: {unreadable('ParseUint', text)}")
    if int(text) >= total:
        raise Uncomposable(f"{wrong} validation error: value should be less than {total}")


def _whole_number(text: str) -> int:
    number = go_int(text)
    if number is None:
        raise Uncomposable(unreadable("Atoi", text))
    return number
