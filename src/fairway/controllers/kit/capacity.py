"""What pods ask of a node, what nodes have left, and whether the one fits into the other.

All of it is arithmetic on values; nothing here reads the API or remembers. Amounts are those of `quantities.amount_of`:
thousandths of a core for `cpu`, whole units for everything else. The reasons are those of Kubernetes' scheduler, word
for word, and so is the order in which they are looked for: of several, a node gives only the first kind.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple

import msgspec

from fairway.apis.core.accelerators import GPU, asked_models
from fairway.apis.core.node_views import NodeFacts
from fairway.apis.core.pod_defaults import admit_pod, default_pod
from fairway.apis.core.pod_requests import pod_shape
from fairway.apis.core.taints import Taint, TaintEffect, Toleration
from fairway.apis.kueue.workloads import PodTemplate
from fairway.apis.machinery.selectors import matches_expression

NO_NODES: Final = "no nodes available to schedule pods"

_UNSCHEDULABLE: Final = "node(s) were unschedulable"
_UNTOLERATED: Final = "node(s) had untolerated taint(s)"
_UNSELECTED: Final = "node(s) didn't match Pod's node affinity/selector"
_PORTS_TAKEN: Final = "node(s) didn't have free ports for the requested pod ports"
_TOO_MANY_PODS: Final = "Too many pods"

_PODS: Final = "pods"
_SCORED: Final = ("cpu", "memory")
_EVERY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - compared with, not listened on
_CORDONED: Final = Taint(key="node.kubernetes.io/unschedulable", effect=TaintEffect.NO_SCHEDULE)

_MOST_REMEMBERED: Final = 512
_LARGEST_REMEMBERED: Final = 16 * 1024
"""Specs, and bytes of one."""

_encode = msgspec.json.Encoder().encode

Expression = tuple[str, str, tuple[str, ...]]


class Term(NamedTuple):
    """One alternative of a required node affinity; all of it must hold."""

    labels: tuple[Expression, ...]
    fields: tuple[Expression, ...]

    def matches(self, node: NodeFacts) -> bool:
        """Whether this node matches; an empty term matches none."""
        return bool(self.labels or self.fields) and (
            all(matches_expression(*one, node.labels) for one in self.labels)
            and all(matches_expression(*one, {"metadata.name": node.name}) for one in self.fields)
        )


class HostPort(NamedTuple):
    """A port of the node itself that a pod wants for its own."""

    protocol: str
    port: int
    address: str

    def clashes_with(self, other: "HostPort") -> bool:
        return (self.protocol, self.port) == (other.protocol, other.port) and (
            self.address == other.address or _EVERY_ADDRESS in {self.address, other.address}
        )


@dataclass(frozen=True, slots=True)
class Demand:
    """All that decides where a pod can run. Pods of equal demand fit wherever one of them does, or nowhere."""

    requests: tuple[tuple[str, int], ...]
    """Sorted by resource; only what is more than nothing."""

    node_selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[Term, ...] = ()
    """Alternatives; none at all means that any node will do."""

    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()

    @property
    def models(self) -> frozenset[str]:
        """The GPU models that it asks for; empty if any will do."""
        return asked_models(dict(self.node_selector), (term.labels for term in self.affinity))

    def tolerates(self, taint: Taint) -> bool:
        return any(toleration.tolerates(taint) for toleration in self.tolerations)


Group = tuple[Demand, int]
"""A number of pods that are all alike."""


class Room:
    """A node and what is taken of it."""

    __slots__ = ("gpus", "node", "pods", "ports", "used")

    def __init__(self, node: NodeFacts | None) -> None:
        self.node = node
        """`None` while the node is not known but pods are on it already."""
        self.used: dict[str, int] = {}
        self.pods = 0
        self.ports: Counter[HostPort] = Counter()
        self.gpus: Counter[frozenset[str]] = Counter()
        """How many GPUs are taken by pods that ask for these models, or any."""

    def copy(self) -> "Room":
        other = Room(self.node)
        other.used, other.pods, other.ports = dict(self.used), self.pods, Counter(self.ports)
        other.gpus = Counter(self.gpus)
        return other

    def take(self, demand: Demand, count: int = 1) -> None:
        """Pods of this demand are here from now on, whether they fit or not."""
        self.pods += count
        for resource, amount in demand.requests:
            self.used[resource] = self.used.get(resource, 0) + amount * count
            if resource == GPU:
                self.gpus[demand.models] += amount * count
        for port in demand.host_ports:
            self.ports[port] += count

    def give_back(self, demand: Demand) -> None:
        """A pod of this demand is here no more."""
        self.take(demand, -1)
        for port in demand.host_ports:
            if not self.ports[port]:
                del self.ports[port]

    def why_not(self, demand: Demand) -> list[str]:
        """The reasons why a pod cannot run here; none if it can."""
        node = self.node
        if node is None:
            return [_UNSCHEDULABLE]
        refusal = _refusal(node, demand)
        if refusal is not None:
            return [refusal]
        if self._clashes(demand):
            return [_PORTS_TAKEN]
        reasons = [_TOO_MANY_PODS] if self.pods >= node.allocatable.get(_PODS, 0) else []
        reasons += [
            f"Insufficient {resource}"
            for resource, amount in demand.requests
            if amount > self._free(node, resource, demand)
        ]
        return reasons

    def _free(self, node: NodeFacts, resource: str, demand: Demand) -> int:
        """How much is left for such pods.

        Which GPUs a pod got that asks for several models, or any, is the runner's choice: it may be those that this
        one wants, so all of them count as taken.
        """
        models = demand.models if resource == GPU and node.models else None
        if not models:
            return node.allocatable.get(resource, 0) - self.used.get(resource, 0)
        taken = sum(count for others, count in self.gpus.items() if not others or others & models)
        return sum(node.models.get(model, 0) for model in models) - taken

    def how_many(self, demand: Demand, most: int) -> int:
        """How many more pods of this demand can run here, at most this many."""
        node = self.node
        if node is None or self.why_not(demand):
            return 0
        fitting = min(most, node.allocatable.get(_PODS, 0) - self.pods)
        for resource, amount in demand.requests:
            fitting = min(fitting, self._free(node, resource, demand) // amount)
        return min(fitting, 1) if demand.host_ports else fitting

    def emptiness(self, demand: Demand) -> float:
        """How much of the node is left once the pod is there; the node with the most gets it."""
        if self.node is None:
            return 0.0
        wanted = dict(demand.requests)
        left = 0.0
        for resource in _SCORED:
            has = self.node.allocatable.get(resource, 0)
            if has:
                left += (has - self.used.get(resource, 0) - wanted.get(resource, 0)) / has
        return left

    def _clashes(self, demand: Demand) -> bool:
        return bool(demand.host_ports and self.ports) and any(
            wanted.clashes_with(taken) for wanted in demand.host_ports for taken in self.ports
        )


def demand_of(spec: Mapping[str, Any]) -> Demand:
    """What a pod with this spec asks for; worked out once for pods that are alike."""
    written = _encode(spec)
    return _remembered(written) if len(written) <= _LARGEST_REMEMBERED else worked_out(spec)


def demand_of_new(spec: Mapping[str, Any]) -> Demand:
    """What a pod will ask for that is not made yet: the same, with all that is filled in when it is."""
    written = _encode(spec)
    return (_remembered_new if len(written) <= _LARGEST_REMEMBERED else _completed)(written)


@lru_cache(maxsize=_MOST_REMEMBERED)
def _remembered(written: bytes) -> Demand:
    return worked_out(msgspec.json.decode(written))


def _completed(written: bytes) -> Demand:
    pod = {"spec": msgspec.json.decode(written)}
    default_pod(pod)
    admit_pod(pod)
    return worked_out(pod["spec"])


_remembered_new = lru_cache(maxsize=_MOST_REMEMBERED)(_completed)


def worked_out(spec: Mapping[str, Any]) -> Demand:
    """What `demand_of` remembers."""
    shape = pod_shape(PodTemplate(spec=dict(spec)))
    return Demand(
        requests=tuple(sorted((name, amount) for name, amount in shape.requests.items() if amount)),
        node_selector=tuple(sorted(shape.node_selector.items())),
        affinity=tuple(
            Term(term.expressions, _match_fields(spec, position) if term.has_match_fields else ())
            for position, term in enumerate(shape.affinity_terms)
        ),
        tolerations=shape.tolerations,
        host_ports=_host_ports(spec),
    )


def best_node(rooms: Iterable[Room], demand: Demand) -> str | None:
    """The emptiest node that takes a pod of this demand, if any does."""
    takers = [
        (-room.emptiness(demand), room.node.name)
        for room in rooms
        if room.node is not None and not room.why_not(demand)
    ]
    return min(takers)[1] if takers else None


def explained(rooms: Iterable[Room], demand: Demand) -> str:
    """Why no node takes a pod of this demand, as Kubernetes' scheduler says it."""
    known = [room for room in rooms if room.node is not None]
    if not known:
        return NO_NODES
    reasons = Counter(reason for room in known for reason in room.why_not(demand))
    listed = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
    return f"0/{len(known)} nodes are available: {listed}."


def shortage(rooms: Sequence[Room], groups: Sequence[Group]) -> str | None:
    """Put all these pods on the nodes, the large ones first; `None` if they fit, else why the first that does not."""
    for demand, count in sorted(groups, key=lambda group: _share(rooms, group[0]), reverse=True):
        left = count - put(rooms, demand, count)
        if left:
            return f"{left} of {count} pods do not fit: {explained(rooms, demand)}"
    return None


def put(rooms: Iterable[Room], demand: Demand, count: int) -> int:
    """Put as many of these pods on the nodes as fit, each on the first that takes it; how many those are."""
    left = count
    for room in rooms:
        if not left:
            break
        here = room.how_many(demand, left)
        if here:
            room.take(demand, here)
            left -= here
    return count - left


def _share(rooms: Sequence[Room], demand: Demand) -> float:
    """How large a part of the largest node a pod takes, of the resource that it takes most of."""
    share = 0.0
    for name, amount in demand.requests:
        sizes = [room.node.allocatable.get(name, 0) for room in rooms if room.node is not None]
        share = max(share, amount / max([1, *sizes]))
    return share


def _refusal(node: NodeFacts, demand: Demand) -> str | None:
    """Why the node itself is not for such pods, however empty it is."""
    if node.unschedulable and not demand.tolerates(_CORDONED):
        return _UNSCHEDULABLE
    if not all(demand.tolerates(taint) for taint in (*node.taints, *node.condition)):
        return _UNTOLERATED
    return None if any(_selects(demand, view) for view in node.views()) else _UNSELECTED


def _selects(demand: Demand, node: NodeFacts) -> bool:
    if not all(node.labels.get(key) == value for key, value in demand.node_selector):
        return False
    return not demand.affinity or any(term.matches(node) for term in demand.affinity)


def _match_fields(spec: Mapping[str, Any], position: int) -> tuple[Expression, ...]:
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return tuple(
        (one["key"], one["operator"], tuple(one.get("values") or ()))
        for one in required["nodeSelectorTerms"][position]["matchFields"]
    )


def _host_ports(spec: Mapping[str, Any]) -> tuple[HostPort, ...]:
    return tuple(
        HostPort(port.get("protocol") or "TCP", port["hostPort"], port.get("hostIP") or _EVERY_ADDRESS)
        for container in spec.get("containers") or ()
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )
