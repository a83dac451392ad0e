"""The order of the heads of queues in a cycle.

Classically: by the least borrowing, then by priority, then by age. With fair sharing a tournament is
held before each pick, as every pick changes the shares: in each cohort the child with the lowest share, its workload
counted in, wins.

Priority earned by aging counts here as well, except while a preemptor waits for its victims: then
base priorities count, so that no victim comes back before its preemptor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Protocol, TypeVar

from fairway.admission.clusterqueues import QueueState
from fairway.admission.forest import CohortTree
from fairway.admission.quota import CohortNode, Leaf, Node, having
from fairway.admission.records import OrderKey, Record
from fairway.admission.resources import Amounts, FlavorResource
from fairway.admission.shares import DominantShare, share_of


class Contender(Protocol):
    """A head with the flavors it would take."""

    @property
    def record(self) -> Record: ...
    @property
    def queue(self) -> QueueState: ...
    @property
    def level(self) -> int: ...
    @property
    def usage(self) -> Amounts: ...


C = TypeVar("C", bound="Contender")


_KeyOf = Callable[[Record], OrderKey]
_by_priority: _KeyOf = attrgetter("order_key")
_by_base_priority: _KeyOf = attrgetter("base_order_key")


def _key_of(contenders: list[C]) -> _KeyOf:
    if any(contender.queue.pending.preemptor is contender.record for contender in contenders):
        return _by_base_priority
    return _by_priority


def classical(contenders: list[C]) -> Iterator[C]:
    key_of = _key_of(contenders)
    return iter(sorted(contenders, key=lambda contender: (contender.level, key_of(contender.record))))


def by_fair_share(tree: CohortTree, contenders: list[C]) -> Iterator[C]:
    """Picks are made one at a time, on the usage as it is when the next one is asked for."""
    left = {contender.queue.leaf: contender for contender in contenders}
    key_of = _key_of(contenders)
    while left:
        if isinstance(tree.root, CohortNode):
            winner = _winner(tree.root, left, _shares(left), key_of)
            if winner is None:
                return
        else:
            winner = next(iter(left.values()))
        del left[winner.queue.leaf]
        yield winner


_Shares = dict[tuple[Node, Leaf], DominantShare]


def _shares(left: dict[Leaf, C]) -> _Shares:
    """For every contender, the share of its queue and of each cohort above it, as if it were admitted; by the cohort
    over that node.
    """
    shares: _Shares = {}
    for leaf, contender in left.items():
        with having(leaf, contender.usage):
            node: Node = leaf
            for cohort in leaf.path_up():
                shares[cohort, leaf] = share_of(node)
                node = cohort
    return shares


def _winner(cohort: CohortNode, left: dict[Leaf, C], shares: _Shares, key_of: _KeyOf) -> C | None:
    contenders = [winner for child in cohort.children if (winner := _winner(child, left, shares, key_of)) is not None]
    contenders += [left[leaf] for leaf in cohort.leaves if leaf in left]

    def rank(contender: C) -> tuple[bool, tuple[bool, float], OrderKey]:
        share = shares[cohort, contender.queue.leaf]
        return _borrows_on(share, contender.usage), share.rank, key_of(contender.record)

    return min(contenders, key=rank, default=None)


def _borrows_on(share: DominantShare, usage: Amounts) -> bool:
    """Whether it is on what the workload asks for that its side of the tree borrows."""
    requested: set[FlavorResource] = {fr for fr, amount in usage if amount > 0}
    return any(fr in requested for fr in share.borrowed)
