"""Preemption by fair shares: from the queue furthest beyond its share, as long as the preemptor stays below it.

The search walks from the root of the tree down to the child with the highest share, again and again, as shares change
with every victim. A queue that asks for no more than its own quota may take it back from any borrower; otherwise the
strategies compare the preemptor's share, with the workload counted in, to the victim's before or after.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from fairway.admission.clusterqueues import QueueState
from fairway.admission.holders import VictimKey
from fairway.admission.instructions import PreemptionReason
from fairway.admission.preemption.search import Search, Target
from fairway.admission.quota import CohortNode, Leaf, Node
from fairway.admission.records import Record
from fairway.admission.shares import BELOW_ALL, DominantShare, share_of
from fairway.apis.kueue.configuration import PreemptionStrategy
from fairway.apis.kueue.objects import PreemptionPolicy


def find_targets(search: Search, strategies: tuple[PreemptionStrategy, ...]) -> list[Target]:
    """The victims, or none when no fair set makes enough room."""
    candidates = _candidates(search)
    if not candidates:
        return []
    leaf = search.queue.leaf
    leaf.add_all(search.requests)
    targets: list[Target] = []
    retry: list[Record] = []
    fits = _first_pass(search, candidates, strategies[0], targets, retry)
    if not fits and len(strategies) > 1:
        fits = _second_pass(search, retry, targets)
    leaf.remove_all(search.requests)
    needed = search.fill_back(targets, borrowing=True) if fits else targets
    search.restore(needed)
    return needed if fits else []


def _candidates(search: Search) -> list[Record]:
    """Everyone who may be preempted, in order: being evicted, of other queues, lower priority, later, by UID."""
    own = search.queue
    found = [record for record in own.holders.values() if search.allowed(record, own.within)]
    if own.leaf.parent is not None and own.reclaim is not PreemptionPolicy.NEVER:
        for queue in search.tree.queues.values():
            if queue is own or not queue.active or queue.leaf.within_quota(search.contested):
                continue
            found += [record for record in queue.holders.values() if search.allowed(record, own.reclaim)]
    found.sort(key=lambda record: _rank(record, own))
    return found


def _rank(record: Record, own: QueueState) -> tuple[bool, bool, VictimKey]:
    return record.evicted is None, record.queue is own, record.victim_key


def _first_pass(
    search: Search, candidates: list[Record], strategy: PreemptionStrategy, targets: list[Target], retry: list[Record]
) -> bool:
    order = _Ordering(search, candidates)
    leaf = search.queue.leaf
    entitled = not any(leaf.exceeds_quota_with(fr, 0) for fr in search.contested)
    for queue in order:
        if queue is search.queue or entitled:
            own = queue is search.queue
            reason = PreemptionReason.IN_CLUSTER_QUEUE if own else PreemptionReason.RECLAMATION
            if _take(search, order.pop(queue), reason, targets):
                return True
            continue
        mine, theirs, sides = order.shares(queue)
        if math.isinf(mine.value) and not math.isinf(theirs.value):
            retry += order.pop_all(queue)
            continue
        while order.has(queue):
            candidate = order.pop(queue)
            if _passes(strategy, mine, theirs, candidate, sides[1]):
                if _take(search, candidate, PreemptionReason.FAIR_SHARING, targets):
                    return True
                break  # shares have changed: another queue may be further beyond its own now
            retry.append(candidate)
    return False


def _second_pass(search: Search, retry: list[Record], targets: list[Target]) -> bool:
    """Once more over those spared, by the share that their queue had at the start; one try a queue."""
    order = _Ordering(search, retry)
    for queue in order:
        mine, theirs, _ = order.shares(queue)
        candidate = order.pop(queue)
        if mine.rank < theirs.rank and _take(search, candidate, PreemptionReason.FAIR_SHARING, targets):
            return True
        order.drop(queue)
    return False


def _passes(
    strategy: PreemptionStrategy, mine: DominantShare, theirs: DominantShare, candidate: Record, side: Node
) -> bool:
    if strategy is PreemptionStrategy.INITIAL_SHARE:
        return mine.rank < theirs.rank
    queue = candidate.queue
    if queue is None:
        return False
    queue.leaf.remove_all(candidate.usage)
    after = share_of(side)
    queue.leaf.add_all(candidate.usage)
    return mine.rank <= after.rank


def _take(search: Search, candidate: Record, reason: PreemptionReason, targets: list[Target]) -> bool:
    """Take a victim away; whether the workload fits now.

    Its own usage, counted in for the shares, is left out of that.
    """
    search.take_away(candidate)
    targets.append(Target(candidate, reason))
    leaf = search.queue.leaf
    leaf.remove_all(search.requests)
    fits = search.fits(borrowing=True)
    leaf.add_all(search.requests)
    return fits


class _Ordering:
    """Which queue to take from next: down the tree, always into the child with the highest share.

    A node without further victims is pruned; the walk ends when the root is.
    """

    __slots__ = ("_above", "_by_queue", "_pruned", "_search")

    def __init__(self, search: Search, candidates: list[Record]) -> None:
        self._search = search
        self._above = set(search.queue.leaf.path_up())
        self._pruned: set[Node] = set()
        self._by_queue: dict[QueueState, list[Record]] = {}
        for record in reversed(candidates):
            if record.queue is not None:
                self._by_queue.setdefault(record.queue, []).append(record)

    def has(self, queue: QueueState) -> bool:
        return bool(self._by_queue.get(queue))

    def pop(self, queue: QueueState) -> Record:
        return self._by_queue[queue].pop()

    def pop_all(self, queue: QueueState) -> list[Record]:
        return self._by_queue.pop(queue)[::-1]

    def drop(self, queue: QueueState) -> None:
        self._pruned.add(queue.leaf)

    def __iter__(self) -> Iterator[QueueState]:
        own = self._search.queue
        root = self._search.tree.root
        if not isinstance(root, CohortNode):
            while own.leaf not in self._pruned and self.has(own):
                yield own
            return
        while root not in self._pruned:
            queue = self._next(root)
            if queue is not None:
                yield queue

    def shares(self, queue: QueueState) -> tuple[DominantShare, DominantShare, tuple[Node, Node]]:
        """The shares of the two sides, just below the lowest cohort that both queues are in."""
        theirs: Node = queue.leaf
        while theirs.parent is not None and theirs.parent not in self._above:
            theirs = theirs.parent
        mine: Node = self._search.queue.leaf
        while mine.parent is not None and mine.parent is not theirs.parent:
            mine = mine.parent
        return share_of(mine), share_of(theirs), (mine, theirs)

    def _next(self, cohort: CohortNode) -> QueueState | None:
        queue, queue_share = self._highest_queue(cohort)
        child, child_share = self._highest_cohort(cohort)
        if queue is None and child is None:
            self._pruned.add(cohort)
            return None
        if child is not None and child_share.rank >= queue_share.rank:
            return self._next(child)
        return queue

    def _highest_queue(self, cohort: CohortNode) -> tuple[QueueState | None, DominantShare]:
        best, best_share = None, BELOW_ALL
        for leaf in cohort.leaves:
            if leaf in self._pruned:
                continue
            queue = self._search.tree.by_leaf[leaf]
            share = share_of(leaf)
            if not self.has(queue) or not (share.borrowing or self._is_own(leaf)):
                self._pruned.add(leaf)
            elif best is None or share.rank > best_share.rank:
                best, best_share = queue, share
            elif share.rank == best_share.rank and self._first_rank(queue) < self._first_rank(best):
                best = queue
        return best, best_share

    def _highest_cohort(self, cohort: CohortNode) -> tuple[CohortNode | None, DominantShare]:
        best, best_share = None, BELOW_ALL
        for child in cohort.children:
            if child in self._pruned:
                continue
            share = share_of(child)
            if not share.borrowing and child not in self._above:
                self._pruned.add(child)
            elif share.rank >= best_share.rank:
                best, best_share = child, share
        return best, best_share

    def _is_own(self, leaf: Leaf) -> bool:
        return leaf is self._search.queue.leaf

    def _first_rank(self, queue: QueueState) -> tuple[bool, bool, VictimKey]:
        return _rank(self._by_queue[queue][-1], self._search.queue)
