"""Decides which gated pods go to which domain of their placement: by rank where pods have one, else as they come."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from fairway.apis.kueue.placements import Placement, decode
from fairway.apis.machinery.kind import Manifest
from fairway.integrations import conditions, names

_ENDED: Final = frozenset({"Succeeded", "Failed"})


class Ungating(NamedTuple):
    """A pod that may be scheduled, and the labels of the nodes that it may run on."""

    pod: Manifest
    selector: dict[str, str]


def is_placed(workload: Manifest) -> bool:
    """Whether a workload is admitted with a place in a topology."""
    return conditions.is_true(workload, conditions.ADMITTED) and any(
        one.get("topologyAssignment") for one in assignments_of(workload)
    )


def assignments_of(workload: Manifest) -> Sequence[Manifest]:
    admission = (workload.get("status") or {}).get("admission") or {}
    found: Sequence[Manifest] = admission.get("podSetAssignments") or ()
    return found


def is_gated(pod: Manifest) -> bool:
    return any(gate["name"] == names.TOPOLOGY_GATE for gate in pod["spec"].get("schedulingGates") or ())


def decide(workload: Manifest, pods: Iterable[Manifest]) -> list[Ungating]:
    """The pods of an admitted workload whose gate can be opened."""
    if not is_placed(workload):
        return []
    requests = {one["name"]: one.get("topologyRequest") or {} for one in workload["spec"]["podSets"]}
    failed = {one["name"] for one in (workload.get("status") or {}).get("unhealthyNodes") or ()}
    offsets = _offsets(workload, requests)
    by_set: dict[str, list[Manifest]] = {}
    for pod in sorted(pods, key=lambda one: (one["metadata"].get("creationTimestamp", ""), one["metadata"]["name"])):
        if (pod.get("status") or {}).get("phase") not in _ENDED:
            by_set.setdefault((pod["metadata"].get("labels") or {}).get(names.POD_SET, ""), []).append(pod)
    found = []
    for assignment in assignments_of(workload):
        members = by_set.get(assignment["name"], [])
        if assignment.get("topologyAssignment") and any(map(is_gated, members)):
            placement = decode(assignment["topologyAssignment"])
            offset = offsets.get(assignment["name"], 0) + _own_offset(members)
            count = assignment.get("count") or placement.pods
            places = _by_rank(members, placement, requests.get(assignment["name"], {}), offset, count)
            if places is None:
                places = _greedy(members, placement)
            found += [
                Ungating(pod, dict(zip(placement.levels, values, strict=True)))
                for pod, values in places
                if not (placement.by_host and values[-1] in failed)
            ]
    return found


def _offsets(workload: Manifest, requests: Mapping[str, Manifest]) -> dict[str, int]:
    """The first rank of each pod set: of two placed together, the larger one counts on from the smaller."""
    groups: dict[str, list[Manifest]] = {}
    for assignment in assignments_of(workload):
        group = requests.get(assignment["name"], {}).get("podSetGroupName")
        if group is not None:
            groups.setdefault(group, []).append(assignment)
    offsets = {}
    for members in groups.values():
        if len(members) > 1:
            smaller, larger = sorted(members[:2], key=lambda one: one.get("count") or 0)
            offsets[larger["name"]] = smaller.get("count") or 0
    return offsets


def _own_offset(pods: Sequence[Manifest]) -> int:
    text = (pods[0]["metadata"].get("annotations") or {}).get(names.POD_INDEX_OFFSET, "") if pods else ""
    return int(text) if text.isascii() and text.isdigit() else 0


_Places = list[tuple[Manifest, tuple[str, ...]]]


def _by_rank(
    pods: Sequence[Manifest], placement: Placement, request: Manifest, offset: int, count: int
) -> _Places | None:
    """Each pod at the domain of its rank; `None` if ranks are missing, double, or contradict a pod that runs."""
    if request.get("podIndexLabel") is None:
        return None
    domains = [domain.values for domain in placement.domains for _ in range(domain.pods)]
    ranked: dict[int, Manifest] = {}
    for pod in pods:
        rank = _rank(pod["metadata"].get("labels") or {}, request, offset, count)
        if rank is None or rank in ranked or rank >= len(domains):
            return None
        if not is_gated(pod) and _domain_of(pod, placement) != domains[rank]:
            return None
        ranked[rank] = pod
    return [(pod, domains[rank]) for rank, pod in ranked.items() if is_gated(pod)]


def _rank(labels: Mapping[str, str], request: Manifest, offset: int, count: int) -> int | None:
    index = _number(labels.get(request["podIndexLabel"]))
    if index is None or index >= count + offset:
        return None
    if request.get("subGroupIndexLabel") is None:
        rank = index - offset
    else:
        jobs, job = request.get("subGroupCount") or 0, _number(labels.get(request["subGroupIndexLabel"]))
        if jobs <= 0 or job is None or job >= jobs or index >= count // jobs:
            return None
        rank = index + job * (count // jobs) - offset
    return rank if 0 <= rank < count else None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def _greedy(pods: Sequence[Manifest], placement: Placement) -> _Places:
    """Gated pods, as they come, into domains with fewer pods than they are to have."""
    gated = [pod for pod in pods if is_gated(pod)]
    running: dict[tuple[str, ...], int] = {}
    for pod in pods:
        if not is_gated(pod):
            domain = _domain_of(pod, placement)
            running[domain] = running.get(domain, 0) + 1
    places: _Places = []
    for domain_pods in placement.domains:
        missing = max(0, domain_pods.pods - running.get(domain_pods.values, 0))
        places += [(pod, domain_pods.values) for pod in gated[len(places) : len(places) + missing]]
    return places


def _domain_of(pod: Manifest, placement: Placement) -> tuple[str, ...]:
    selector: Mapping[str, Any] = pod["spec"].get("nodeSelector") or {}
    return tuple(selector.get(level, "") for level in placement.levels)
