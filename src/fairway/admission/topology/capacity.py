"""What there is and what is in use: nodes, topologies, the pods placed by admission and all others.

A tree is built when it is first needed after its flavor, its topology or a node changed. What is placed is kept by
domain, so that it counts whether or not there is a tree now. Flavors whose leaves are hosts may share nodes: for them,
what is placed on a host counts whatever the flavor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from fairway.admission.flavors import Flavor
from fairway.admission.resources import PODS
from fairway.admission.topology.tree import Requests, TopologyTree
from fairway.apis.core.node_views import NodeFacts
from fairway.apis.kueue.placements import Placement

_ANY_FLAVOR = ""


class Occupied(NamedTuple):
    """Pods of one workload in one domain."""

    flavor: str
    domain: str
    pods: int
    per_pod: Requests

    @property
    def amounts(self) -> Iterable[tuple[str, int]]:
        return ((resource, amount * self.pods) for resource, amount in self.per_pod)


def occupied(flavor: str, placement: Placement, per_pod: Requests) -> tuple[Occupied, ...]:
    """What a placement takes. By host, the flavor does not matter."""
    owner = _ANY_FLAVOR if placement.by_host else flavor
    return tuple(
        Occupied(owner, ",".join(domain.values), domain.pods, per_pod) for domain in placement.domains if domain.pods
    )


class Topologies:
    """All topologies of an engine."""

    __slots__ = ("_blocked", "_trees", "_used", "flavors", "levels", "nodes")

    def __init__(self, flavors: Mapping[str, Flavor]) -> None:
        self.flavors = flavors
        self.levels: dict[str, tuple[str, ...]] = {}
        self.nodes: dict[str, NodeFacts] = {}
        self._blocked: dict[str, dict[str, int]] = {}
        self._used: dict[tuple[str, str], dict[str, int]] = {}
        self._trees: dict[str, TopologyTree] = {}

    def knows(self, flavor: Flavor) -> bool:
        """Whether the topology of a flavor exists."""
        return flavor.topology in self.levels

    def tree(self, name: str) -> TopologyTree | None:
        """The tree of a flavor; ``None`` if it has no topology, or that does not exist."""
        tree = self._trees.get(name)
        if tree is None:
            flavor = self.flavors.get(name)
            if flavor is None or not flavor.topology or flavor.topology not in self.levels:
                return None
            tree = self._trees[name] = self._build(flavor, self.levels[flavor.topology])
        return tree

    def _build(self, flavor: Flavor, levels: tuple[str, ...]) -> TopologyTree:
        tree = TopologyTree(
            flavor=flavor.name,
            name=flavor.topology,
            levels=levels,
            nodes=(
                node
                for node in self.nodes.values()
                if all(node.labels.get(key) == value for key, value in flavor.labels.items())
                and all(level in node.labels for level in levels)
            ),
            tolerations=flavor.tolerations,
        )
        for name, amounts in self._blocked.items():
            leaf = tree.leaf_of_node.get(name)
            if leaf is not None:
                tree.block(leaf, amounts.items())
        owner = _ANY_FLAVOR if tree.by_host else flavor.name
        for (of, domain), amounts in self._used.items():
            if of == owner and domain in tree.index:
                tree.occupy(tree.index[domain], amounts.items())
        return tree

    # Changes of objects

    def set_levels(self, topology: str, levels: tuple[str, ...]) -> None:
        self.levels[topology] = levels
        self.outdate()

    def drop_levels(self, topology: str) -> None:
        self.levels.pop(topology, None)
        self.outdate()

    def outdate(self) -> None:
        """A flavor, a topology or a node changed: trees are built anew."""
        self._trees.clear()

    def set_node(self, node: NodeFacts) -> bool:
        """A node that takes pods; whether that is news."""
        if self.nodes.get(node.name) == node:
            return False
        self.nodes[node.name] = node
        self.outdate()
        return True

    def drop_node(self, name: str) -> bool:
        """A node that is gone, not ready or cordoned; whether that is news."""
        if self.nodes.pop(name, None) is None:
            return False
        self.outdate()
        return True

    def block(self, node: str, amounts: Mapping[str, int]) -> bool:
        """What pods outside topologies take on a node, all of them; whether some of it came free."""
        before = self._blocked.get(node, {})
        if amounts:
            self._blocked[node] = dict(amounts)
        else:
            self._blocked.pop(node, None)
        change = [(name, amounts.get(name, 0) - before.get(name, 0)) for name in {**before, **amounts}]
        for tree in self._trees.values():
            leaf = tree.leaf_of_node.get(node)
            if leaf is not None:
                tree.block(leaf, change)
        return any(amount < 0 for _, amount in change)

    # What is placed

    def take(self, placed: Iterable[Occupied]) -> None:
        for one in placed:
            self._add(one, 1)

    def give_back(self, placed: Iterable[Occupied]) -> None:
        for one in placed:
            self._add(one, -1)

    def _add(self, one: Occupied, sign: int) -> None:
        used = self._used.setdefault((one.flavor, one.domain), {})
        for resource, amount in one.amounts:
            used[resource] = used.get(resource, 0) + sign * amount
        if used.get(PODS, 0) <= 0:
            del self._used[one.flavor, one.domain]
        for name, tree in self._trees.items():
            if one.flavor in (name, _ANY_FLAVOR) and tree.by_host == (one.flavor == _ANY_FLAVOR):
                leaf = tree.index.get(one.domain)
                if leaf is not None:
                    tree.occupy(leaf, ((resource, sign * amount) for resource, amount in one.amounts))

    @contextmanager
    def without(self, placed: Iterable[Occupied]) -> Iterator[None]:
        """What if these pods were gone?"""
        placed = tuple(placed)
        self.give_back(placed)
        try:
            yield
        finally:
            self.take(placed)

    def used(self) -> Mapping[tuple[str, str], Mapping[str, int]]:
        """What is placed in each domain, to look at."""
        return self._used
