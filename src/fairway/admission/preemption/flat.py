"""The classical search again, for the commonest question: one flavor-resource is short, in one cohort of
ClusterQueues.

There, whom other queues would lose (everyone taken in order until the queue is back within its own quota) does not
depend on who asks. So it is worked out once for all heads of a cycle, and each search is sums over that list instead
of steps on the tree. The answers are those of :mod:`~fairway.admission.preemption.classical`; a property test holds
the two together.
"""

from __future__ import annotations

from itertools import chain

from fairway.admission.clusterqueues import QueueState
from fairway.admission.forest import Losses, Tree
from fairway.admission.holders import VictimKey
from fairway.admission.instructions import PreemptionReason
from fairway.admission.preemption.search import Search, Target
from fairway.admission.quota import Cohort
from fairway.admission.records import Record
from fairway.admission.resources import FlavorResource
from fairway.model.objects import PreemptionPolicy


def applies(search: Search) -> bool:
    """Whether the question is one that can be answered by sums."""
    tree = search.tree
    return (
        len(search.requests) == 1
        and len(search.contested) == 1
        and search.requests[0][0] in search.contested
        and search.minimum_run <= 0
        and not search.queue.borrowing_preemption
        and isinstance(tree.root, Cohort)
        and not tree.root.children
        and search.requests[0][0] not in tree.guaranteed
    )


def find_targets(search: Search) -> list[Target]:
    """The victims, or none when no allowed set makes enough room."""
    fr, amount = search.requests[0]
    leaf = search.queue.leaf
    own = _own(search, fr)
    others = _others(search, fr)
    used, nominal = leaf.usage.get(fr, 0), leaf.nominal.get(fr, 0)
    entitled = used + amount <= nominal
    from_others = bool(others[0] or others[1])
    if not from_others or used >= nominal:
        attempts: tuple[bool, ...] = (True,)
    else:
        attempts = (True, False) if entitled else (False, True)
    for borrowing in attempts:
        if not borrowing and used - sum(part for part, _ in chain(*own)) + amount > nominal:
            continue
        only_own = borrowing and not entitled
        order = [*own[0], *own[1]] if only_own else [*others[0], *own[0], *others[1], *own[1]]
        found = _take_in_order(search, order, fr, amount, borrowing=borrowing)
        if found:
            return found
    return []


def _take_in_order(
    search: Search, order: list[tuple[int, Record]], fr: FlavorResource, amount: int, *, borrowing: bool
) -> list[Target]:
    """Take until there is room, then spare whoever was not needed, the last ones first."""
    queue = search.queue
    leaf = queue.leaf
    nominal, limit = leaf.nominal.get(fr, 0), leaf.borrowing.get(fr)
    most = nominal if not borrowing else nominal + limit if limit is not None else None
    used = leaf.usage.get(fr, 0) + amount
    root = search.tree.root
    left = root.subtree.get(fr, 0) - root.usage.get(fr, 0) - amount
    taken = 0
    for part, record in order:
        taken += 1
        left += part
        if record.queue is queue:
            used -= part
        if left >= 0 and (most is None or used <= most):
            break
    else:
        return []
    needed = [order[taken - 1][1]]
    for part, record in reversed(order[: taken - 1]):
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


def _own(search: Search, fr: FlavorResource) -> Losses:
    queue, policy = search.queue, search.queue.within
    found: Losses = ([], [])
    if policy is not PreemptionPolicy.NEVER:
        by_priority = queue.pending.usage_of is None
        for record in queue.own_victims():
            if search.allowed(record, policy):
                found[record.evicted is None].append((_amount(record, fr), record))
            elif by_priority and record.evicted is None and record.priority > search.record.priority:
                break
    return found


def _others(search: Search, fr: FlavorResource) -> Losses:
    """What the other queues of the cohort would lose: the same for every head, but for its own queue."""
    policy = search.queue.reclaim
    if policy is PreemptionPolicy.NEVER:
        return [], []
    below = None if policy is PreemptionPolicy.ANY else search.record.priority
    tree = search.tree
    losses = tree.losses.get((fr, below))
    if losses is None:
        losses = tree.losses[fr, below] = _losses(tree, fr, below)
    own = search.queue
    if own.leaf.usage.get(fr, 0) <= own.leaf.nominal.get(fr, 0):
        return losses
    evicted, running = losses
    return [loss for loss in evicted if loss[1].queue is not own], [
        loss for loss in running if loss[1].queue is not own
    ]


def _losses(tree: Tree, fr: FlavorResource, below: int | None) -> Losses:
    found: Losses = ([], [])
    for queue in tree.queues.values():
        beyond = queue.leaf.usage.get(fr, 0) - queue.leaf.nominal.get(fr, 0)
        if beyond <= 0 or not queue.active:
            continue
        for record in queue.victims:
            if below is not None and record.priority >= below:
                continue
            amount = _amount(record, fr)
            if amount:
                found[record.evicted is None].append((amount, record))
                beyond -= amount
                if beyond <= 0:
                    break
    for part in found:
        part.sort(key=_order)
    return found


def _amount(record: Record, fr: FlavorResource) -> int:
    for used, amount in record.usage:
        if used is fr:
            return amount
    return 0


def _order(loss: tuple[int, Record]) -> VictimKey:
    return loss[1].victim_key
