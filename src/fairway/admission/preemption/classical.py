"""Preemption by priority and by place in the cohort tree.

Candidates come in three kinds: those in parts of the tree that use more than their own while the preemptor asks for
no more than its own (*hierarchy*: reclaimed whatever their priority, as far as the policy allows), those elsewhere in
the tree (*priority*), and those in the preemptor's own queue. They are taken one by one until the workload fits; then
everyone who was not needed is spared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fairway.admission.clusterqueues import QueueState
from fairway.admission.holders import Filed
from fairway.admission.instructions import PreemptionReason
from fairway.admission.preemption import flat
from fairway.admission.preemption.search import Search, Target
from fairway.admission.quota import CohortNode, Node
from fairway.admission.records import Record
from fairway.admission.resources import FlavorResource
from fairway.apis.kueue.objects import PreemptionPolicy


class _Source(NamedTuple):
    """A queue that uses more than its own.

    ``between`` are the cohorts from it up to the first that the preemptor is in too.
    """

    queue: QueueState
    between: tuple[CohortNode, ...]


_Sources = dict[QueueState | None, _Source]


_Part = list[Filed]


class _Candidate(NamedTuple):
    """``source`` is ``None`` for the preemptor's own queue."""

    record: Record
    source: _Source | None
    reason: PreemptionReason


def find_targets(search: Search, *, shortcut: bool) -> list[Target]:
    """The victims, or none when no allowed set makes enough room. The shortcut gives the same answer, sooner."""
    return flat.find_targets(search) if shortcut and flat.applies(search) else find_on_tree(search)


def find_on_tree(search: Search) -> list[Target]:
    """The search for any question, step by step on the quota tree."""
    candidates = _Candidates(search)
    for borrowing in _attempts(search, candidates):
        if not borrowing and not candidates.could_stay_within_quota():
            continue
        targets: list[Target] = []
        for candidate in candidates.walk(borrowing=borrowing):
            if not _still_valid(search, candidate):
                continue
            search.take_away(candidate.record)
            targets.append(Target(candidate.record, candidate.reason))
            if search.fits(borrowing=borrowing):
                needed = search.fill_back(targets, borrowing=borrowing)
                search.restore(needed)
                return needed
        search.restore(targets)
    return []


def _attempts(search: Search, candidates: _Candidates) -> tuple[bool, ...]:
    """With or without borrowing, or both in turn.

    Without borrowing more candidates count, but the queue must end within its own quota.
    """
    forbidden = not search.queue.borrowing_preemption
    if not candidates.from_others or (forbidden and not _under_nominal(search)):
        return (True,)
    if forbidden and not candidates.by_hierarchy:
        return (False, True)
    return (True, False)


def _under_nominal(search: Search) -> bool:
    leaf = search.queue.leaf
    return all(leaf.nominal.get(fr, 0) > leaf.usage.get(fr, 0) for fr in search.contested)


def _still_valid(search: Search, candidate: _Candidate) -> bool:
    """Earlier victims may have brought a candidate's queue, or a cohort above it, back within its own quota."""
    source = candidate.source
    if source is None:
        return True
    if source.queue.leaf.within_quota(search.contested):
        return False
    return not source.between or not any(cohort.within_quota(search.contested) for cohort in source.between)


class _Candidates:
    """The candidates in the order they are taken, those already being evicted first.

    Walked lazily: most are never reached.
    """

    __slots__ = ("_hierarchy", "_own", "_priority", "_search", "by_hierarchy", "from_others")

    def __init__(self, search: Search) -> None:
        self._search = search
        self._hierarchy: _Sources = {}
        self._priority: _Sources = {}
        if search.queue.reclaim is not PreemptionPolicy.NEVER:
            _find_sources(search, self._hierarchy, self._priority)
        self._own = list(self._from_own())
        self.by_hierarchy = self._any(self._hierarchy)
        self.from_others = self.by_hierarchy or self._any(self._priority)

    def _any(self, sources: _Sources) -> bool:
        allowed, policy = self._search.allowed, self._search.queue.reclaim
        return any(allowed(record, policy) for source in sources.values() for record in source.queue.victims)

    def could_stay_within_quota(self) -> bool:
        """Whether the queue could take the workload without borrowing if all its own candidates were gone."""
        leaf = self._search.queue.leaf
        freed: dict[FlavorResource, int] = {}
        for candidate in self._own:
            for fr, amount in candidate.record.usage:
                freed[fr] = freed.get(fr, 0) + amount
        return not any(leaf.exceeds_quota_with(fr, amount - freed.get(fr, 0)) for fr, amount in self._search.requests)

    def walk(self, *, borrowing: bool) -> Iterator[_Candidate]:
        """When the workload is to borrow, those whose priority protects them from borrowers are left out."""
        everyone = self._search.tree.victims
        priority = self._priority if not borrowing or self._search.queue.borrowing_preemption else {}
        for evicted, part in ((True, everyone.evicted), (False, everyone.running)):
            if self._hierarchy:
                yield from self._from_others(part, self._hierarchy, PreemptionReason.RECLAMATION)
            if priority and not borrowing:
                yield from self._from_others(part, priority, None)
            elif priority:
                yield from self._from_borrowed(part, priority)
            yield from (candidate for candidate in self._own if (candidate.record.evicted is not None) is evicted)

    def _from_others(self, part: _Part, sources: _Sources, reason: PreemptionReason | None) -> Iterator[_Candidate]:
        search = self._search
        allowed, policy = search.allowed, search.queue.reclaim
        for _, record in part:
            source = sources.get(record.queue)
            if source is not None and allowed(record, policy):
                yield _Candidate(record, source, reason or _reason(search, record))

    def _from_borrowed(self, part: _Part, sources: _Sources) -> Iterator[_Candidate]:
        """Those whom the workload may preempt even if it borrows: of lower priority, and not above the threshold."""
        for candidate in self._from_others(part, sources, None):
            if candidate.reason is PreemptionReason.RECLAIM_WHILE_BORROWING:
                yield candidate

    def _from_own(self) -> Iterator[_Candidate]:
        search = self._search
        policy = search.queue.within
        if policy is PreemptionPolicy.NEVER:
            return
        for record in search.queue.own_victims():
            if search.allowed(record, policy):
                yield _Candidate(record, None, PreemptionReason.IN_CLUSTER_QUEUE)


def _reason(search: Search, record: Record) -> PreemptionReason:
    """The preemption reason within a tree where the position in the tree gives no advantage."""
    queue = search.queue
    protected = record.protection >= search.record.base_priority or (
        queue.borrow_threshold is not None and record.protection > queue.borrow_threshold
    )
    if not queue.borrowing_preemption or protected:
        return PreemptionReason.RECLAMATION
    return PreemptionReason.RECLAIM_WHILE_BORROWING


def _find_sources(search: Search, hierarchy: _Sources, priority: _Sources) -> None:
    """Queues beyond their own quota, on the way from the preemptor's parent to the root.

    Once a subtree's own quota would do for the request, workloads outside it that use that quota are preempted first.
    """
    leaf = search.queue.leaf
    advantage, remaining = _fits_own(leaf, search.requests)
    below: CohortNode | None = None
    for cohort in leaf.path_up():
        _collect(search, cohort, (), below, hierarchy if advantage else priority)
        fits, remaining = _fits_own(cohort, remaining)
        advantage = advantage or fits
        below = cohort


def _fits_own(
    node: Node, requests: Iterable[tuple[FlavorResource, int]]
) -> tuple[bool, list[tuple[FlavorResource, int]]]:
    """Whether the node's own quota has room for the requests, and what of them is left to the node above."""
    fits = True
    remaining = []
    for fr, amount in requests:
        if node.exceeds_quota_with(fr, amount):
            fits = False
        remaining.append((fr, max(0, amount - node.locally_available(fr))))
    return fits, remaining


def _collect(
    search: Search, cohort: CohortNode, between: tuple[CohortNode, ...], skip: CohortNode | None, found: _Sources
) -> None:
    for child in cohort.children:
        if child is not skip and not child.within_quota(search.contested):
            _collect(search, child, (*between, child), skip, found)
    by_leaf = search.tree.by_leaf
    for leaf in cohort.leaves:
        if leaf.within_quota(search.contested) or leaf is search.queue.leaf:
            continue
        queue = by_leaf[leaf]
        if queue.active:
            found[queue] = _Source(queue, between)
