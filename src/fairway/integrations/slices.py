"""Slices: the workloads of an elastic job, whose number of pods changes while it runs.

A job that grows gets a second workload, which names the first one and takes its place once the difference is admitted;
a job that shrinks gives quota back in place. Its pods are gated, and as many are let go as the admitted slice has.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from fairway.apis.machinery.kind import Manifest
from fairway.integrations import conditions, names, webhooks
from fairway.integrations.workloads import namespaced_name

REPLACED: Final = "WorkloadSliceReplaced"
REPLACED_BY_NEW: Final = "Replaced to accommodate a new workload slice"
_OUT_OF_SYNC: Final = ("OutOfSync", "The workload slice is out of sync with its parent job")
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_GATE: Final = {"name": names.ELASTIC_GATE}


def replaced_message(uid: str, job_uid: str) -> str:
    """What a slice says that ended because another of its job was admitted."""
    return f"Replaced to accommodate a workload (UID: {uid}, JobUID: {job_uid}) due to workload slice aggregation"


def gate_template(template: Manifest) -> None:
    """Hold the pods of an elastic job back until a slice has quota for them; in place."""
    gates = template.setdefault("spec", {}).get("schedulingGates") or []
    if _GATE not in gates:
        template["spec"]["schedulingGates"] = [*gates, dict(_GATE)]


def annotations_of_new(name: str, others: Sequence[Manifest]) -> dict[str, str]:
    """What a new slice says of itself, and of the one whose place it is to take."""
    said = {names.ELASTIC: "true", names.SLICE_NAME: name}
    if others:
        old = others[-1]
        said[names.SLICE_NAME] = slice_name(old)
        said[names.REPLACEMENT_FOR] = namespaced_name(old)
    return said


def slice_name(workload: Manifest) -> str:
    """The name that all slices of a job share: that of the first."""
    return webhooks.annotations_of(workload).get(names.SLICE_NAME) or str(workload["metadata"]["name"])


def chain_of(manifest: Manifest) -> tuple[str, str] | None:
    """The slices that a slice or a pod belongs to: their namespace and the name that they share."""
    name = webhooks.annotations_of(manifest).get(names.SLICE_NAME)
    return (manifest["metadata"]["namespace"], name) if name else None


class SliceEnd(NamedTuple):
    """A slice that is no longer needed, and why."""

    workload: Manifest
    reason: str
    message: str


class LiveSlices(NamedTuple):
    """The slices of a job that count: `selected` stands for the job; `retained` has its quota meanwhile."""

    selected: Manifest | None
    retained: Manifest | None
    ended: tuple[SliceEnd, ...]


def sorted_out(workloads: Sequence[Manifest]) -> LiveSlices:
    """Which of the unfinished workloads of a job, the oldest first, still count.

    One has the quota, and at most one more waits to take its place.
    """
    if len(workloads) <= 1:
        only = workloads[0] if workloads else None
        return LiveSlices(only, only if only is not None and _reserved(only) else None, ())
    replacements: dict[str, Manifest] = {}
    for one in workloads:
        replaces = webhooks.annotations_of(one).get(names.REPLACEMENT_FOR, "")
        known = replacements.get(replaces)
        if replaces and not _evicted(one) and (known is None or (not _reserved(known) and _reserved(one))):
            replacements[replaces] = one
    retained = newest = None
    for one in workloads:
        if _evicted(one):
            continue
        newest = one
        replacement = replacements.get(namespaced_name(one))
        if _reserved(one) and (replacement is None or not _reserved(replacement)):
            retained = one
    waiting = None if retained is None else replacements.get(namespaced_name(retained))
    selected = waiting or retained or newest
    ended = tuple(
        SliceEnd(one, REPLACED, REPLACED_BY_NEW)
        if namespaced_name(one) in replacements
        else SliceEnd(one, *_OUT_OF_SYNC)
        for one in workloads
        if one is not selected and one is not retained
    )
    return LiveSlices(selected, retained, ended)


def counts_of(pod_sets: Iterable[Manifest]) -> dict[str, int]:
    return {one["name"]: one["count"] for one in pod_sets}


def resized(workload: Manifest, counts: Mapping[str, int]) -> list[Manifest] | None:
    """The pod sets of a slice that may follow its job in place; `None` if only a new slice may have these sizes.

    One without quota takes any size, one with quota a smaller one.
    """
    held = counts_of(workload["spec"]["podSets"])
    if _reserved(workload) and any(count > held[name] for name, count in counts.items()):
        return None
    return [{**one, "count": counts[one["name"]]} for one in workload["spec"]["podSets"]]


def active_slice(workloads: Sequence[Manifest]) -> Manifest | None:
    """The slice that says how many pods may run: the newest with quota, if it is admitted."""
    for one in reversed(workloads):
        if _reserved(one) and not _evicted(one):
            return one if conditions.is_true(one, conditions.ADMITTED) else None
    return None


def released_pods(active: Manifest, pods: Iterable[Manifest]) -> list[Manifest]:
    """The gated pods to let go: no more than the slice has, with those that go already."""
    room = counts_of(active["spec"]["podSets"])
    gated: dict[str, list[Manifest]] = {}
    for pod in pods:
        if (pod.get("status") or {}).get("phase") in _ENDED:
            continue
        pod_set = webhooks.labels_of(pod).get(names.POD_SET, "")
        if is_gated(pod):
            gated.setdefault(pod_set, []).append(pod)
        else:
            room[pod_set] = room.get(pod_set, 0) - 1
    chosen: list[Manifest] = []
    for pod_set, waiting in gated.items():
        waiting.sort(key=lambda pod: str(pod["metadata"]["name"]))
        chosen += waiting[: max(0, room.get(pod_set, 0))]
    return chosen


def is_gated(pod: Manifest) -> bool:
    return _GATE in (pod["spec"].get("schedulingGates") or ())


def opened(pod: Manifest) -> Manifest:
    """The patch that lets a pod go."""
    gates = [gate for gate in pod["spec"].get("schedulingGates") or () if gate != _GATE]
    return {"spec": {"schedulingGates": gates or None}}


def _reserved(workload: Manifest) -> bool:
    return conditions.is_true(workload, conditions.QUOTA_RESERVED)


def _evicted(workload: Manifest) -> bool:
    return conditions.is_true(workload, conditions.EVICTED)
