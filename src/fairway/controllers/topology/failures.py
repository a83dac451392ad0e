"""Decides what becomes of workloads when a node fails: which of them lost it, and which pods cannot run any more."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from fairway.apis.core.taints import Taint, Toleration
from fairway.apis.kueue.placements import HOSTNAME, decode
from fairway.apis.machinery.conditions import find_in
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.structs import read
from fairway.controllers.topology.ungating import assignments_of, is_gated
from fairway.integrations import conditions

_HARD: Final = frozenset({"NoSchedule", "NoExecute"})
_ENDED: Final = frozenset({"Succeeded", "Failed"})


class NodeVerdict(NamedTuple):
    """Whether a workload lost the node, and pods of it that can never run there."""

    lost: bool
    stranded: tuple[Manifest, ...] = ()


class _Tolerance(Enum):
    NEVER = 0
    FOR_A_WHILE = 1
    ALWAYS = 2


def hosts_of(workload: Manifest) -> set[str]:
    """The nodes that an admitted workload is placed on."""
    if not conditions.is_true(workload, conditions.ADMITTED):
        return set()
    return {
        host
        for one in assignments_of(workload)
        if one.get("topologyAssignment")
        for host in decode(one["topologyAssignment"]).hosts()
    }


def judge(
    workload: Manifest,
    name: str,
    node: Manifest | None,
    pods: Iterable[Manifest],
    flavors: Callable[[str], Manifest | None],
) -> NodeVerdict:
    """What the state of a node means for one workload; `pods` are all its pods."""
    placed = name in hosts_of(workload)
    ready = (find_in(node.get("status") or {}, "Ready") or {}).get("status") if node is not None else None
    if ready is None:
        return NodeVerdict(placed)
    pods = tuple(pods)
    stranded = tuple(pod for pod in pods if is_bound_for(pod, name) and not is_gated(pod))
    if not placed:
        return NodeVerdict(lost=False, stranded=stranded)
    taints = [one for one in ((node or {}).get("spec") or {}).get("taints") or () if one.get("effect") in _HARD]
    if ready == "True":
        tolerance = _tolerance(workload, name, taints, flavors)
        if tolerance is _Tolerance.ALWAYS:
            return NodeVerdict(lost=False)
    if any(_runs_on(pod, name) for pod in pods):
        return NodeVerdict(lost=False, stranded=stranded)
    return NodeVerdict(lost=True, stranded=stranded)


def is_bound_for(pod: Manifest, node: str) -> bool:
    """Whether a pod has no node yet and may have this one only."""
    spec = pod["spec"]
    return (
        not spec.get("nodeName")
        and (spec.get("nodeSelector") or {}).get(HOSTNAME) == node
        and (pod.get("status") or {}).get("phase", "Pending") == "Pending"
    )


def _runs_on(pod: Manifest, node: str) -> bool:
    ended = (pod.get("status") or {}).get("phase") in _ENDED
    return pod["spec"].get("nodeName") == node and not ended and "deletionTimestamp" not in pod["metadata"]


def _tolerance(
    workload: Manifest, node: str, taints: Sequence[Mapping[str, Any]], flavors: Callable[[str], Manifest | None]
) -> _Tolerance:
    """How long the pods on a node tolerate its taints, the least of them."""
    least = _Tolerance.ALWAYS
    for tolerations in _tolerations(workload, node, flavors):
        for one in taints:
            taint = Taint(key=one["key"], value=one.get("value") or "", effect=one["effect"])
            matching = [toleration for toleration in tolerations if toleration.tolerates(taint)]
            if not matching:
                return _Tolerance.NEVER
            if all(toleration.toleration_seconds is not None for toleration in matching):
                least = _Tolerance.FOR_A_WHILE
    return least


def _tolerations(
    workload: Manifest, node: str, flavors: Callable[[str], Manifest | None]
) -> Iterable[list[Toleration]]:
    """What the pods of each pod set on a node tolerate: by themselves, by their flavors, by their checks."""
    templates = {one["name"]: one["template"].get("spec") or {} for one in workload["spec"]["podSets"]}
    for assignment in assignments_of(workload):
        placement = assignment.get("topologyAssignment")
        if not placement or node not in decode(placement).hosts():
            continue
        raw = list(templates.get(assignment["name"], {}).get("tolerations") or ())
        for name in dict.fromkeys((assignment.get("flavors") or {}).values()):
            flavor = flavors(name)
            raw += ((flavor or {}).get("spec") or {}).get("tolerations") or ()
        for check in (workload.get("status") or {}).get("admissionChecks") or ():
            for update in check.get("podSetUpdates") or ():
                if update["name"] == assignment["name"]:
                    raw += update.get("tolerations") or ()
        yield [read(one, Toleration) for one in raw]
