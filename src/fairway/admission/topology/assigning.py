"""Places all pod sets of a workload: flavor by flavor, each after what the others take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fairway.admission.topology.capacity import Occupied, Topologies, occupied
from fairway.admission.topology.counting import LeafRoom
from fairway.admission.topology.placing import Placements, place
from fairway.admission.topology.replacing import moved, replace_node
from fairway.admission.topology.requests import PodSetTopology, TopologyShortfall
from fairway.admission.topology.tree import Requests, TopologyTree
from fairway.apis.kueue.placements import Placement

_Assumed = dict[str, dict[str, int]]
"""What pod sets of the workload at hand take, by domain."""


class TopologyAsk(NamedTuple):
    """One pod set, in the flavor that its nodes are of."""

    flavor: str
    pod_set: PodSetTopology


class NotPlaced(NamedTuple):
    """The first pod set that found no place."""

    pod_set: str
    flavor: str
    why: TopologyShortfall


def place_all(
    topologies: Topologies, asks: Sequence[TopologyAsk], *, empty: bool = False, balance: bool = False
) -> Placements | NotPlaced:
    """Where all pods go, or who finds no place. ``empty``: if nothing else were placed."""
    placements: dict[str, Placement] = {}
    on_hosts: _Assumed = {}
    for flavor in sorted({ask.flavor for ask in asks}):
        tree = topologies.tree(flavor)
        members = [ask.pod_set for ask in asks if ask.flavor == flavor]
        if tree is None:
            return NotPlaced(members[0].name, flavor, TopologyShortfall("no TAS flavor assigned"))
        assumed: _Assumed = on_hosts if tree.by_host else {}
        for group in _groups(members):
            leader, workers = _leader_and_workers(group)
            room = LeafRoom(_by_leaf(tree, assumed), empty=empty)
            found = place(tree, workers, leader, room, balance=balance)
            if isinstance(found, TopologyShortfall):
                return NotPlaced(group[0].name, flavor, found)
            placements.update(found)
            for one in group:
                _assume(tree, assumed, found[one.name], one.per_pod)
    return placements


def replace_failed(
    topologies: Topologies, asks: Sequence[TopologyAsk], existing: Mapping[str, Placement], node: str
) -> Placements | NotPlaced:
    """The placements of pod sets with pods on a failed node, with other nodes instead of it."""
    placements: dict[str, Placement] = {}
    assumed: _Assumed = {}
    for flavor, ask in sorted(asks, key=lambda one: one.flavor):
        tree = topologies.tree(flavor)
        if tree is None:
            return NotPlaced(ask.name, flavor, TopologyShortfall("no TAS flavor assigned"))
        found = replace_node(tree, ask, existing[ask.name], node, LeafRoom(_by_leaf(tree, assumed)))
        if isinstance(found, TopologyShortfall):
            return NotPlaced(ask.name, flavor, found)
        placements[ask.name] = found
        _assume(tree, assumed, moved(existing[ask.name], found), ask.per_pod)
    return placements


def taken_by(asks: Iterable[TopologyAsk], placements: Placements) -> tuple[Occupied, ...]:
    """What the placements of a workload take."""
    return tuple(
        one
        for ask in asks
        if ask.pod_set.name in placements
        for one in occupied(ask.flavor, placements[ask.pod_set.name], ask.pod_set.per_pod)
    )


def still_fit(topologies: Topologies, placed: Iterable[Occupied], flavors: Iterable[str]) -> bool:
    """Whether pods still have room where they were to be placed."""
    total: dict[tuple[str, str], dict[str, int]] = {}
    for one in placed:
        amounts = total.setdefault((one.flavor, one.domain), {})
        for resource, amount in one.amounts:
            amounts[resource] = amounts.get(resource, 0) + amount
    trees = [tree for flavor in flavors if (tree := topologies.tree(flavor)) is not None]
    for (flavor, domain), amounts in total.items():
        homes = [tree for tree in trees if domain in tree.index and flavor in ("", tree.flavor)]
        if not homes:
            return False
        for tree in homes:
            leaf = tree.index[domain]
            if any(amount > tree.amount_left(leaf, resource) for resource, amount in amounts.items()):
                return False
    return True


def _groups(asks: Sequence[PodSetTopology]) -> list[list[PodSetTopology]]:
    """Pod sets that are placed together, in the order of their first."""
    groups: dict[str, list[PodSetTopology]] = {}
    for position, ask in enumerate(asks):
        groups.setdefault(ask.group if ask.group is not None else f"#{position}", []).append(ask)
    return list(groups.values())


def _leader_and_workers(group: list[PodSetTopology]) -> tuple[PodSetTopology | None, PodSetTopology]:
    """Of two pod sets the smaller one leads."""
    if len(group) == 1:
        return None, group[0]
    workers, leader = group[0], group[1]
    return (workers, leader) if leader.pods > workers.pods else (leader, workers)


def _by_leaf(tree: TopologyTree, assumed: _Assumed) -> dict[int, Mapping[str, int]]:
    return {tree.index[domain]: amounts for domain, amounts in assumed.items() if domain in tree.index}


def _assume(tree: TopologyTree, assumed: _Assumed, placement: Placement, per_pod: Requests) -> None:
    for domain in placement.domains:
        amounts = assumed.setdefault(tree.domain_id(domain.values), {})
        for resource, amount in per_pod:
            amounts[resource] = amounts.get(resource, 0) + amount * domain.pods
