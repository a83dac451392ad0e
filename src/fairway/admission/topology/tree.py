"""The nodes of one flavor as a tree of topology domains, and what is free in its leaves.

Amounts are kept in columns, one list a resource with an entry for each leaf, because a placement asks for the same few
resources of all leaves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from fairway.admission.resources import PODS
from fairway.admission.shapes import Shape
from fairway.apis.core.node_views import NodeFacts
from fairway.apis.core.taints import Taint, Toleration
from fairway.apis.kueue.placements import HOSTNAME
from fairway.apis.machinery.selectors import matches_expression

Requests = tuple[tuple[str, int], ...]
"""What one pod takes, the pod itself included."""

Columns = dict[str, list[int]]

_MOST_KEPT: Final = 512


class Domain:
    """One domain of one level; ``rank`` is its place in the order of values, ``leaf`` its column index in the leaves.

    The rest is scratch space of the placement at hand. First the counts say what fits: ``pods`` and whole ``slices``,
    the same beside a leader (``pods_led``, ``slices_led``), and whether a leader fits. Going down they become what is
    assigned.
    """

    __slots__ = (
        "children",
        "leaders",
        "leaf",
        "parent",
        "pods",
        "pods_led",
        "rank",
        "slices",
        "slices_led",
        "values",
    )

    def __init__(self, values: tuple[str, ...], parent: Domain | None) -> None:
        self.values = values
        self.parent = parent
        self.children: list[Domain] = []
        self.rank = 0
        self.leaf = -1
        self.pods = self.slices = self.pods_led = self.slices_led = self.leaders = 0

    def __repr__(self) -> str:
        return f"<{'/'.join(self.values)}: {self.pods} pods>"

    def copy(self, parent: Domain | None = None) -> Domain:
        """The subtree again, with scratch space of its own."""
        other = Domain(self.values, parent)
        other.rank, other.leaf = self.rank, self.leaf
        other.pods, other.slices, other.leaders = self.pods, self.slices, self.leaders
        other.pods_led, other.slices_led = self.pods_led, self.slices_led
        other.children = [child.copy(other) for child in self.children]
        return other


class Matching:
    """The leaves that pods of one shape may run on, and why they may not run on the others."""

    __slots__ = ("affinity", "leaves", "selector", "taints")

    def __init__(self) -> None:
        self.leaves: list[int] = []
        self.selector = 0
        self.affinity = 0
        self.taints: dict[str, int] = {}


class TopologyTree:
    """Domains by level, from the widest to the leaves; each level in the order of its domains' values.

    ``free`` is what the leaves have without the pods outside topologies, ``left`` that without all that is placed.
    """

    __slots__ = (
        "_matching",
        "_nodes",
        "by_host",
        "flavor",
        "free",
        "index",
        "leaf_of_node",
        "left",
        "levels",
        "name",
        "tiers",
        "tolerations",
    )

    def __init__(
        self,
        *,
        flavor: str,
        name: str,
        levels: tuple[str, ...],
        nodes: Iterable[NodeFacts],
        tolerations: tuple[Toleration, ...] = (),
    ) -> None:
        self.flavor = flavor
        self.name = name
        self.levels = levels
        self.by_host = levels[-1] == HOSTNAME
        self.tolerations = tolerations
        self._matching: dict[Shape, Matching] = {}
        self._nodes: list[NodeFacts] = []
        self.leaf_of_node: dict[str, int] = {}
        self.tiers: tuple[list[Domain], ...] = tuple([] for _ in levels)
        self.index: dict[str, int] = {}
        by_leaf = self._grow(nodes)
        self.free = _columns(by_leaf)
        self.left = {resource: list(column) for resource, column in self.free.items()}

    def _grow(self, nodes: Iterable[NodeFacts]) -> list[list[NodeFacts]]:
        """Build the tree; the nodes of each leaf."""
        members: dict[tuple[str, ...], list[NodeFacts]] = {}
        seen: dict[str, tuple[str, ...]] = {}
        for node in sorted(nodes, key=lambda one: one.name):
            values = tuple(node.labels[level] for level in self.levels)
            if self.by_host:
                values = seen.setdefault(values[-1], values)  # a host is in one place
            members.setdefault(values, []).append(node)
        domains: dict[tuple[str, ...], Domain] = {}
        for values in sorted(members):
            parent: Domain | None = None
            for depth in range(1, len(values) + 1):
                domain = domains.get(values[:depth])
                if domain is None:
                    domain = domains[values[:depth]] = Domain(values[:depth], parent)
                    domain.rank = len(self.tiers[depth - 1])
                    self.tiers[depth - 1].append(domain)
                    if parent is not None:
                        parent.children.append(domain)
                parent = domain
        by_leaf = []
        for position, leaf in enumerate(self.tiers[-1]):
            leaf.leaf = position
            self.index[self.domain_id(leaf.values)] = position
            nodes_here = members[leaf.values]
            by_leaf.append(nodes_here)
            self._nodes.append(nodes_here[0])
            self.leaf_of_node.update((node.name, position) for node in nodes_here)
        return by_leaf

    def domain_id(self, values: tuple[str, ...]) -> str:
        """What identifies a leaf: its host, or all its values."""
        return values[-1] if self.by_host else ",".join(values)

    @property
    def leaves(self) -> list[Domain]:
        return self.tiers[-1]

    def level_index(self, level: str) -> int | None:
        return self.levels.index(level) if level in self.levels else None

    # What is in use

    def occupy(self, leaf: int, amounts: Iterable[tuple[str, int]]) -> None:
        """Take from what is left; negative amounts give back."""
        left = self.left
        for resource, amount in amounts:
            self._column(left, resource)[leaf] -= amount

    def block(self, leaf: int, amounts: Iterable[tuple[str, int]]) -> None:
        """Take for pods outside topologies, which preemption does not remove."""
        for resource, amount in amounts:
            self._column(self.free, resource)[leaf] -= amount
            self._column(self.left, resource)[leaf] -= amount

    def amount_left(self, leaf: int, resource: str) -> int:
        column = self.left.get(resource)
        return column[leaf] if column is not None else 0

    def _column(self, columns: Columns, resource: str) -> list[int]:
        column = columns.get(resource)
        if column is None:
            column = columns[resource] = [0] * len(self.leaves)
        return column

    # Who may run where

    def matching(self, shape: Shape) -> Matching:
        """The leaves whose node pods of this shape tolerate and select; all, where a leaf is more than a node."""
        known = self._matching.get(shape)
        if known is None:
            if len(self._matching) >= _MOST_KEPT:
                self._matching.clear()
            known = self._matching[shape] = self._match(shape)
        return known

    def _match(self, shape: Shape) -> Matching:
        found = Matching()
        if not self.by_host:
            found.leaves = list(range(len(self.leaves)))
            return found
        tolerations = (*shape.tolerations, *self.tolerations)
        for position, node in enumerate(self._nodes):
            taint = next(
                (one for one in node.taints if not any(toleration.tolerates(one) for toleration in tolerations)), None
            )
            if taint is not None:
                name = _taint_name(taint)
                found.taints[name] = found.taints.get(name, 0) + 1
            elif not all(node.labels.get(key) == value for key, value in shape.node_selector.items()):
                found.selector += 1
            elif not _accepted_by_affinity(shape, node.labels):
                found.affinity += 1
            else:
                found.leaves.append(position)
        return found


def _accepted_by_affinity(shape: Shape, labels: Mapping[str, str]) -> bool:
    return not shape.affinity or any(
        bool(term.expressions)
        and all(matches_expression(key, operator, values, labels) for key, operator, values in term.expressions)
        for term in shape.affinity
    )


def _taint_name(taint: Taint) -> str:
    """Kubernetes' short form of a taint."""
    if not taint.value:
        return f"{taint.key}:{taint.effect}"
    return f"{taint.key}={taint.value}:{taint.effect}"


def _columns(by_leaf: list[list[NodeFacts]]) -> Columns:
    columns: Columns = {PODS: [0] * len(by_leaf)}
    for position, nodes in enumerate(by_leaf):
        for node in nodes:
            for resource, amount in node.allocatable.items():
                column = columns.get(resource)
                if column is None:
                    column = columns[resource] = [0] * len(by_leaf)
                column[position] += amount
    return columns
