"""Preemption by priority and by place in the cohort tree.

Candidates come in three kinds: those in parts of the tree that use more than their own while the preemptor asks for no more than its own
(*hierarchy*: reclaimed whatever their priority, as far as the policy allows), those elsewhere in the tree (*priority*), and those in the
preemptor's own queue. They are taken one by one until the workload fits; then everyone not needed is spared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from typing import NamedTuple

from fairway.admission.clusterqueues import QueueState
from fairway.admission.instructions import PreemptionReason
from fairway.admission.preemption.search import Search, Target
from fairway.admission.quota import Cohort, Node
from fairway.admission.records import Record
from fairway.admission.resources import FlavorResource
from fairway.model.objects import PreemptionPolicy


class _Source(NamedTuple):
    """A queue that uses more than its own. ``meeting`` is the lowest cohort that it shares with the preemptor."""

    queue: QueueState
    meeting: Cohort
    by_hierarchy: bool


class _Candidate(NamedTuple):
    record: Record
    source: _Source | None
    reason: PreemptionReason
    may_borrow: bool


def find_targets(search: Search) -> list[Target]:
    """The victims, or none when no allowed set makes enough room."""
    candidates = _Candidates(search)
    for borrowing in _attempts(search, candidates):
        targets: list[Target] = []
        for candidate in candidates:
            if not _still_valid(search, candidate, borrowing=borrowing):
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
    """With or without borrowing, or both in turn. Without, more candidates count, but the queue must stay within its own."""
    forbidden = not search.queue.borrowing_preemption
    if not candidates.from_others or (forbidden and not _under_nominal(search)):
        return (True,)
    if forbidden and not candidates.by_hierarchy:
        return (False, True)
    return (True, False)


def _under_nominal(search: Search) -> bool:
    leaf = search.queue.leaf
    return all(leaf.nominal.get(fr, 0) > leaf.usage.get(fr, 0) for fr in search.contested)


def _still_valid(search: Search, candidate: _Candidate, *, borrowing: bool) -> bool:
    """Earlier victims may have brought a candidate's queue, or a cohort above it, back within its own quota."""
    source = candidate.source
    if source is None:
        return True
    if borrowing and not candidate.may_borrow:
        return False
    if source.queue.leaf.within_quota(search.contested):
        return False
    for cohort in source.queue.leaf.path_up():
        if cohort is source.meeting:
            return True
        if cohort.within_quota(search.contested):
            return False
    return True


class _Candidates:
    """The candidates in the order they are taken; those already being evicted first. Walked lazily, as most are never reached."""

    __slots__ = ("_hierarchy", "_priority", "_search", "by_hierarchy", "from_others")

    def __init__(self, search: Search) -> None:
        self._search = search
        sources = _sources(search) if search.queue.reclaim is not PreemptionPolicy.NEVER else []
        self._hierarchy = [source for source in sources if source.by_hierarchy]
        self._priority = [source for source in sources if not source.by_hierarchy]
        self.by_hierarchy = self._any(self._hierarchy)
        self.from_others = self.by_hierarchy or self._any(self._priority)

    def _any(self, sources: list[_Source]) -> bool:
        search = self._search
        return any(
            search.allowed(record, search.queue.reclaim)
            for source in sources
            for part in source.queue.victim_lists()
            for record in part
        )

    def __iter__(self) -> Iterator[_Candidate]:
        for part in (_evicted, _running):
            yield from self._from_others(self._hierarchy, part)
            yield from self._from_others(self._priority, part)
            yield from self._from_own(part)

    def _from_others(self, sources: list[_Source], part: _Part) -> Iterator[_Candidate]:
        if len(sources) == 1:
            return self._from_one(sources[0], part)
        return merge(*(self._from_one(source, part) for source in sources), key=_victim_order)

    def _from_one(self, source: _Source, part: _Part) -> Iterator[_Candidate]:
        search = self._search
        for record in part(source.queue):
            if search.allowed(record, search.queue.reclaim):
                yield _classified(search, source, record)

    def _from_own(self, part: _Part) -> Iterator[_Candidate]:
        search = self._search
        policy = search.queue.within
        if policy is PreemptionPolicy.NEVER:
            return
        by_priority = search.queue.pending.usage_of is None
        for record in part(search.queue):
            if by_priority and record.priority > search.record.priority:
                return
            if search.allowed(record, policy):
                yield _Candidate(record, None, PreemptionReason.IN_CLUSTER_QUEUE, may_borrow=True)


_Part = Callable[[QueueState], Iterable[Record]]


def _evicted(queue: QueueState) -> Iterable[Record]:
    return queue.victim_lists().evicted


def _running(queue: QueueState) -> Iterable[Record]:
    return queue.victim_lists().running


def _victim_order(candidate: _Candidate) -> tuple[int, float, str]:
    return candidate.record.victim_key


def _classified(search: Search, source: _Source, record: Record) -> _Candidate:
    if source.by_hierarchy:
        return _Candidate(record, source, PreemptionReason.RECLAMATION, may_borrow=True)
    queue = search.queue
    above = record.priority >= search.record.priority or (
        queue.borrow_threshold is not None and record.priority > queue.borrow_threshold
    )
    if not queue.borrowing_preemption or above:
        return _Candidate(record, source, PreemptionReason.RECLAMATION, may_borrow=False)
    return _Candidate(record, source, PreemptionReason.RECLAIM_WHILE_BORROWING, may_borrow=True)


def _sources(search: Search) -> list[_Source]:
    """Queues beyond their own quota, on the way from the preemptor's parent to the root.

    Once a subtree's own quota would do for the request, whoever uses that quota from outside it has the weaker claim.
    """
    leaf = search.queue.leaf
    found: list[_Source] = []
    advantage, remaining = _fits_own(leaf, search.requests)
    below: Cohort | None = None
    for cohort in leaf.path_up():
        _collect(search, cohort, cohort, below, advantage, found)
        fits, remaining = _fits_own(cohort, remaining)
        advantage = advantage or fits
        below = cohort
    return found


def _fits_own(node: Node, requests: Iterable[tuple[FlavorResource, int]]) -> tuple[bool, list[tuple[FlavorResource, int]]]:
    """Whether the node's own quota has room for the requests, and what of them is left for the node above to provide."""
    fits = True
    remaining = []
    for fr, amount in requests:
        if node.exceeds_quota_with(fr, amount):
            fits = False
        remaining.append((fr, max(0, amount - node.locally_available(fr))))
    return fits, remaining


def _collect(
    search: Search,
    cohort: Cohort,
    meeting: Cohort,
    skip: Cohort | None,
    advantage: bool,  # noqa: FBT001 - positional in a recursion over the tree
    found: list[_Source],
) -> None:
    for child in cohort.children:
        if child is not skip and not child.within_quota(search.contested):
            _collect(search, child, meeting, skip, advantage, found)
    by_leaf = search.tree.by_leaf
    for leaf in cohort.leaves:
        if leaf is search.queue.leaf or leaf.within_quota(search.contested):
            continue
        queue = by_leaf[leaf]
        if queue.active:
            found.append(_Source(queue, meeting, advantage))
