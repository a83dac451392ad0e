"""Shortcut of the classical search: one flavor-resource is short, in one cohort of ClusterQueues.

There, whom other queues would lose (everyone taken in order until the queue is back within its own quota) does not
depend on the head. So it is computed once for all heads of a cycle, and each search is sums over that list instead
of steps on the tree. The answers are those of :mod:`~fairway.admission.preemption.classical`; a property test holds
the two together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from fairway.admission.clusterqueues import QueueState
from fairway.admission.forest import CohortTree, Loss
from fairway.admission.holders import Filed
from fairway.admission.instructions import PreemptionReason
from fairway.admission.preemption.search import Search, Target
from fairway.admission.quota import CohortNode
from fairway.admission.records import Record
from fairway.admission.resources import FlavorResource
from fairway.apis.kueue.objects import PreemptionPolicy


def applies(search: Search) -> bool:
    """Whether the question is one that can be answered by sums."""
    tree = search.tree
    return (
        len(search.requests) == 1
        and search.placement is None
        and len(search.contested) == 1
        and search.requests[0][0] in search.contested
        and search.minimum_run <= 0
        and not search.queue.borrowing_preemption
        and isinstance(tree.root, CohortNode)
        and not tree.root.children
        and search.requests[0][0] not in tree.guaranteed
    )


def find_targets(search: Search) -> list[Target]:
    """The victims, or none when no allowed set makes enough room."""
    fr, amount = search.requests[0]
    leaf = search.queue.leaf
    own_evicted, own_running = _own(search, fr)
    evicted, running = _others(search, fr)
    used, nominal = leaf.usage.get(fr, 0), leaf.nominal.get(fr, 0)
    entitled = used + amount <= nominal
    if used >= nominal or not _any(evicted, running, search.queue):
        attempts: tuple[bool, ...] = (True,)
    else:
        attempts = (True, False) if entitled else (False, True)
    for borrowing in attempts:
        if not borrowing and used - sum(part for part, _ in chain(own_evicted, own_running)) + amount > nominal:
            continue
        order: Iterable[Loss] = chain(own_evicted, own_running)
        if entitled or not borrowing:
            order = chain(evicted, own_evicted, running, own_running)
        found = _take_in_order(search, order, fr, amount, borrowing=borrowing)
        if found:
            return found
    return []


def _any(evicted: Iterable[Loss], running: Iterable[Loss], own: QueueState) -> bool:
    return any(record.queue is not own for _, record in chain(evicted, running))


def _take_in_order(
    search: Search, order: Iterable[Loss], fr: FlavorResource, amount: int, *, borrowing: bool
) -> list[Target]:
    """Take victims until there is room, then drop those that are not needed, the last ones first."""
    queue = search.queue
    leaf = queue.leaf
    nominal, limit = leaf.nominal.get(fr, 0), leaf.borrowing.get(fr)
    most = nominal if not borrowing else nominal + limit if limit is not None else None
    used = leaf.usage.get(fr, 0) + amount
    root = search.tree.root
    left = root.subtree.get(fr, 0) - root.usage.get(fr, 0) - amount
    taken: list[Loss] = []
    for loss in order:
        part, record = loss
        taken.append(loss)
        left += part
        if record.queue is queue:
            used -= part
        if left >= 0 and (most is None or used <= most):
            break
    else:
        return []
    needed = [taken.pop()[1]]
    for part, record in reversed(taken):
        mine = record.queue is queue
        if left < part or (mine and most is not None and used + part > most):
            needed.append(record)
            continue
        left -= part
        if mine:
            used += part
    return [Target(record, _reason(record, queue)) for record in needed]


def _reason(record: Record, queue: QueueState) -> PreemptionReason:
    return PreemptionReason.IN_CLUSTER_QUEUE if record.queue is queue else PreemptionReason.RECLAMATION


def _own(search: Search, fr: FlavorResource) -> tuple[list[Loss], list[Loss]]:
    queue, policy = search.queue, search.queue.within
    evicted: list[Loss] = []
    running: list[Loss] = []
    if policy is not PreemptionPolicy.NEVER:
        by_priority = queue.pending.usage_of is None
        safe = search.record.base_priority + (policy is not PreemptionPolicy.LOWER_PRIORITY)
        for record in queue.own_victims():
            if search.allowed(record, policy):
                (running if record.evicted is None else evicted).append((_amount(record, fr), record))
            elif by_priority and record.evicted is None and record.protection >= safe:
                break
    return evicted, running


def _others(search: Search, fr: FlavorResource) -> tuple[Iterable[Loss], Iterable[Loss]]:
    """What the other queues of the cohort would lose: the same for every head, but for its own queue."""
    own, policy = search.queue, search.queue.reclaim
    if policy is PreemptionPolicy.NEVER:
        return (), ()
    below = None if policy is PreemptionPolicy.ANY else search.record.base_priority
    tree = search.tree
    losses = tree.losses.get((fr, below))
    if losses is None:
        losses = tree.losses[fr, below] = Losses(tree, fr, below)
    if own.leaf.usage.get(fr, 0) <= own.leaf.nominal.get(fr, 0):
        return losses.evicted, losses
    return _Without(losses.evicted, own), _Without(losses, own)


class Losses:
    """The victims in queues beyond their quota, in the order they are taken. Computed lazily.

    ``evicted`` are those being evicted already; iterating gives those that run.
    """

    __slots__ = ("_beyond", "_fr", "_rest", "_taken", "evicted")

    def __init__(self, tree: CohortTree, fr: FlavorResource, below: int | None) -> None:
        self._fr = fr
        self._beyond: dict[QueueState | None, int] = {}
        for queue in tree.queues.values():
            beyond = queue.leaf.usage.get(fr, 0) - queue.leaf.nominal.get(fr, 0)
            if beyond > 0 and queue.active:
                self._beyond[queue] = beyond
        self.evicted = list(self._lost(tree.victims.evicted, below))
        self._taken: list[Loss] = []
        self._rest = self._lost(tree.victims.running, below)

    def _lost(self, filed: list[Filed], below: int | None) -> Iterator[Loss]:
        beyond, fr = self._beyond, self._fr
        for _, record in filed:
            if below is not None and record.protection >= below:
                return
            left = beyond.get(record.queue, 0)
            if left > 0:
                amount = _amount(record, fr)
                if amount:
                    beyond[record.queue] = left - amount
                    yield amount, record

    def __iter__(self) -> Iterator[Loss]:
        yield from self._taken
        for loss in self._rest:
            self._taken.append(loss)
            yield loss


class _Without:
    """Losses of all queues but one."""

    __slots__ = ("_losses", "_own")

    def __init__(self, losses: Iterable[Loss], own: QueueState) -> None:
        self._losses = losses
        self._own = own

    def __iter__(self) -> Iterator[Loss]:
        own = self._own
        return (loss for loss in self._losses if loss[1].queue is not own)


def _amount(record: Record, fr: FlavorResource) -> int:
    for used, amount in record.usage:
        if used is fr:
            return amount
    return 0
