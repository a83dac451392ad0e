"""The quota tree: ClusterQueues are leaves, cohorts are inner nodes, usage bubbles up past what a node keeps for
itself.

Every node has, for each flavor-resource, its own quota, the *subtree* quota (its own and what its children lend it),
the part of that which it never lends (*guaranteed*, from the lending limit), and its usage. A cohort's usage is the
sum of what its children use beyond their guaranteed part.

Usage is changed in place. A what-if is a change that is undone: :meth:`Node.add` and :meth:`Node.remove` are exact
inverses, and :func:`without` and :func:`having` wrap them so that the state is restored whatever happens inside.

Amounts here are plain integers; quotas of ``UNLIMITED`` saturate while the tree is compiled and dominate every
comparison after.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from fairway.admission.resources import Amounts, FlavorResource
from fairway.apis.machinery.quantities import UNLIMITED


class Quota(NamedTuple):
    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


def saturating_add(a: int, b: int) -> int:
    return UNLIMITED if a >= UNLIMITED or b >= UNLIMITED else min(a + b, UNLIMITED)


def saturating_subtract(a: int, b: int) -> int:
    if a >= UNLIMITED:
        return 0 if b >= UNLIMITED else UNLIMITED
    return -UNLIMITED - 1 if b >= UNLIMITED else a - b


class Node:
    """One place in the tree.

    ``potential`` and ``lendable`` depend on quotas alone, so they are computed once a compilation.
    """

    __slots__ = (
        "borrowing",
        "guaranteed",
        "lendable",
        "name",
        "nominal",
        "parent",
        "potential",
        "quotas",
        "subtree",
        "usage",
        "weight",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.parent: CohortNode | None = None
        self.weight = 1.0
        self.quotas: dict[FlavorResource, Quota] = {}
        self.nominal: dict[FlavorResource, int] = {}
        self.borrowing: dict[FlavorResource, int] = {}
        self.subtree: dict[FlavorResource, int] = {}
        self.guaranteed: dict[FlavorResource, int] = {}
        self.potential: dict[FlavorResource, int] = {}
        self.lendable: dict[str, int] = {}
        self.usage: dict[FlavorResource, int] = {}

    def set_quotas(self, quotas: Mapping[FlavorResource, Quota]) -> None:
        self.quotas = dict(quotas)
        self.nominal = {fr: quota.nominal for fr, quota in quotas.items()}
        self.borrowing = {
            fr: quota.borrowing_limit for fr, quota in quotas.items() if quota.borrowing_limit is not None
        }

    def path_up(self) -> Iterator[CohortNode]:
        """The cohorts above this node, nearest first."""
        above = self.parent
        while above is not None:
            yield above
            above = above.parent

    # What is left, what there could be

    def available(self, fr: FlavorResource) -> int:
        """How much more may be used here now. Negative when more is in use than there is (a quota was lowered)."""
        parent = self.parent
        used = self.usage.get(fr, 0)
        if parent is None:
            return self.subtree.get(fr, 0) - used
        is_flat = parent.parent is None  # as most trees are: what available() says of a root, without the call
        above = parent.subtree.get(fr, 0) - parent.usage.get(fr, 0) if is_flat else parent.available(fr)
        guaranteed = self.guaranteed.get(fr, 0)
        limit = self.borrowing.get(fr)
        if limit is not None:
            cap = self.subtree.get(fr, 0) - guaranteed + limit
            if used > guaranteed:
                cap -= used - guaranteed
            above = min(above, cap)
        return above + guaranteed - used if guaranteed > used else above

    def locally_available(self, fr: FlavorResource) -> int:
        """The guaranteed part that is not in use: seen here, never by the parent."""
        return max(0, self.guaranteed.get(fr, 0) - self.usage.get(fr, 0))

    def exceeds_quota_with(self, fr: FlavorResource, amount: int) -> bool:
        """Whether this node would use more than its subtree's own quota: whether it would borrow."""
        return self.subtree.get(fr, 0) < self.usage.get(fr, 0) + amount

    def within_quota(self, frs: Iterable[FlavorResource]) -> bool:
        subtree, usage = self.subtree, self.usage
        for fr in frs:  # noqa: SIM110 - the hottest loop of a search; a generator doubles its cost
            if usage.get(fr, 0) > subtree.get(fr, 0):
                return False
        return True

    def lowest_fitting_height(self, fr: FlavorResource, amount: int) -> tuple[int, bool]:
        """How far up the tree the quota for ``amount`` comes from, and whether some of the tree lies above that.

        0 means from this ClusterQueue itself; otherwise the height of the lowest cohort whose own quota suffices (the
        whole tree's height when none does).
        """
        parent = self.parent
        if parent is None:
            return 0, False
        if self.nominal.get(fr, 0) >= self.usage.get(fr, 0) + amount:
            return 0, True
        remaining = amount - self.locally_available(fr)
        cohort: CohortNode = parent
        while True:
            if not cohort.exceeds_quota_with(fr, remaining):
                return cohort.height, cohort.parent is not None
            if cohort.parent is None:
                return cohort.height, False
            remaining -= cohort.locally_available(fr)
            cohort = cohort.parent

    # Changing usage

    def add(self, fr: FlavorResource, amount: int) -> None:
        used = self.usage.get(fr, 0)
        self.usage[fr] = used + amount
        parent = self.parent
        if parent is not None:
            guaranteed = self.guaranteed.get(fr, 0)
            if guaranteed > used:
                amount -= guaranteed - used
            if amount > 0:
                parent.add(fr, amount)

    def remove(self, fr: FlavorResource, amount: int) -> None:
        used = self.usage.get(fr, 0)
        self.usage[fr] = used - amount
        parent = self.parent
        if parent is not None:
            stored_above = used - self.guaranteed.get(fr, 0)
            if stored_above > 0:
                parent.remove(fr, min(amount, stored_above))

    def add_all(self, amounts: Amounts) -> None:
        for fr, amount in amounts:
            self.add(fr, amount)

    def remove_all(self, amounts: Amounts) -> None:
        for fr, amount in amounts:
            self.remove(fr, amount)

    # Compilation

    def _compile_guaranteed(self) -> None:
        self.guaranteed = {
            fr: kept
            for fr, quota in self.quotas.items()
            if quota.lending_limit is not None
            and (kept := max(0, saturating_subtract(self.subtree.get(fr, 0), quota.lending_limit)))
        }

    def _compile_potential(self, frs: Iterable[FlavorResource]) -> None:
        parent = self.parent
        if parent is None:
            self.potential = dict(self.subtree)
        else:
            self.potential = {}
            for fr in frs:
                most = saturating_add(self.guaranteed.get(fr, 0), parent.potential.get(fr, 0))
                limit = self.borrowing.get(fr)
                if limit is not None:
                    most = min(most, saturating_add(self.subtree.get(fr, 0), limit))
                self.potential[fr] = most
        self.lendable = {}
        for fr, most in self.potential.items():
            self.lendable[fr.resource] = saturating_add(self.lendable.get(fr.resource, 0), most)


class Leaf(Node):
    """The node of a ClusterQueue."""

    __slots__ = ()


class CohortNode(Node):
    """An inner node. ``height`` is the longest way down to a ClusterQueue that takes part in scheduling."""

    __slots__ = ("children", "height", "leaves")

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.children: list[CohortNode] = []
        self.leaves: list[Leaf] = []
        self.height = 1

    def compile(self) -> None:
        """Sum up quotas and usage of the whole tree below this root."""
        self._accumulate()
        self._spread(tuple(self.subtree))

    def _accumulate(self) -> None:
        self.subtree = dict(self.nominal)
        self.usage = {}
        for child in self.children:
            child._accumulate()  # noqa: SLF001 - the same class, one level down
            self._take_from(child)
        for leaf in self.leaves:
            compile_leaf(leaf)
            self._take_from(leaf)
        self._compile_guaranteed()

    def _take_from(self, child: Node) -> None:
        for fr, quota in child.subtree.items():
            lent = saturating_subtract(quota, child.guaranteed.get(fr, 0))
            self.subtree[fr] = saturating_add(self.subtree.get(fr, 0), lent)
        for fr, used in child.usage.items():
            beyond = used - child.guaranteed.get(fr, 0)
            self.usage[fr] = self.usage.get(fr, 0) + max(0, beyond)

    def _spread(self, frs: tuple[FlavorResource, ...]) -> None:
        self._compile_potential(frs)
        for child in self.children:
            child._spread(frs)  # noqa: SLF001 - the same class, one level down
        for leaf in self.leaves:
            leaf._compile_potential(frs)  # noqa: SLF001 - the base class' own step


def compile_leaf(leaf: Leaf) -> None:
    leaf.subtree = dict(leaf.nominal)
    leaf._compile_guaranteed()  # noqa: SLF001 - the tree compiles its nodes


def compile_alone(leaf: Leaf) -> None:
    """Compile a ClusterQueue that is in no cohort."""
    compile_leaf(leaf)
    leaf._compile_potential(tuple(leaf.subtree))  # noqa: SLF001 - the tree compiles its nodes


@contextmanager
def without(held: Iterable[tuple[Node, Amounts]]) -> Iterator[None]:
    """What if these holders were gone?"""
    held = tuple(held)
    for node, amounts in held:
        node.remove_all(amounts)
    try:
        yield
    finally:
        for node, amounts in reversed(held):
            node.add_all(amounts)


@contextmanager
def having(node: Node, amounts: Amounts) -> Iterator[None]:
    """What if this were used as well?"""
    node.add_all(amounts)
    try:
        yield
    finally:
        node.remove_all(amounts)
