"""Parked lanes that need no try: until one of their flavors has enough room, or their own queue changes.

When room is made somewhere, Kueue tries every parked head of the tree again, and almost all find what they found
before. Where it is certain that a try would end as the last one did, the lane sleeps through it. What follows is the
same, decision for decision: a sleeping head still takes its turn in the cycles, it just is not worked out again.

A lane sleeps only where the outcome hangs on sums: in a flat cohort (or none), without fair sharing, when others'
workloads could not be reclaimed for it anyway and a failed try leaves no trace in the cycle. Everything else is tried.
"""

from __future__ import annotations

from itertools import chain, takewhile
from typing import NamedTuple

from fairway.admission.choices import Assignment, Mode
from fairway.admission.clusterqueues import QueueState
from fairway.admission.quota import CohortNode
from fairway.admission.reasons import FOR_GOOD, Reason
from fairway.admission.records import Record
from fairway.admission.resources import FlavorResource, FlavorResources
from fairway.apis.kueue.objects import PreemptionPolicy

Need = tuple[tuple[FlavorResource, int], ...]
"""For one flavor: how much must be available of each flavor-resource that was short."""


class Sleep(NamedTuple):
    """Holds while the queue's epoch lasts and no alternative is available."""

    epoch: int
    alternatives: tuple[Need, ...]

    def holds(self, queue: QueueState) -> bool:
        if queue.epoch != self.epoch:
            return False
        available = queue.leaf.available
        for need in self.alternatives:
            for fr, least in need:
                if available(fr) < least:
                    break
            else:
                return False
        return True


def after_failed_try(record: Record, queue: QueueState, assignment: Assignment, frs: FlavorResources) -> Sleep | None:
    """Until when a head that found no room need not be tried again; ``None`` when every change may matter."""
    root = queue.tree.root
    alone = not isinstance(root, CohortNode)
    nested = isinstance(root, CohortNode) and bool(root.children)
    if nested or queue.borrowing_preemption or record.demand.divisible or assignment.asks:
        return None
    blocked = next(each for each in assignment.pod_sets if each.mode is not Mode.FIT)
    by_flavor: dict[str, list[Reason]] = {}
    for reason in blocked.reasons:
        by_flavor.setdefault(reason.flavor, []).append(reason)
    alternatives = []
    for reasons in by_flavor.values():
        if any(reason.code in FOR_GOOD for reason in reasons):
            continue
        need = _need(record, queue, reasons, frs)
        if not need:
            return None
        alternatives.append(need)
    # A head that may become one without candidates keeps room from others for a cycle, unless it may always reclaim.
    if alternatives and not alone and queue.reclaim is not PreemptionPolicy.ANY:
        return None
    return Sleep(queue.epoch, tuple(alternatives))


def _need(record: Record, queue: QueueState, reasons: list[Reason], frs: FlavorResources) -> Need:
    """What must be available before this flavor is worth a try; nothing if that is unknown."""
    leaf = queue.leaf
    need = []
    for reason in reasons:
        fr = frs.get(reason.flavor, reason.resource)
        own = _own_candidates(record, queue, fr)
        within_nominal = leaf.usage.get(fr, 0) - own + reason.requested <= leaf.nominal.get(fr, 0)
        if own < reason.missing and not (within_nominal and queue.reclaim is not PreemptionPolicy.NEVER):
            need.append((fr, reason.requested - own))
    return tuple(need)


def _own_candidates(record: Record, queue: QueueState, fr: FlavorResource) -> int:
    """At most this much could be had by preempting in the own queue."""
    if queue.within is PreemptionPolicy.NEVER:
        return 0
    safe = record.base_priority + (queue.within is not PreemptionPolicy.LOWER_PRIORITY)
    victims = queue.victims
    return sum(
        amount
        for _, holder in chain(victims.evicted, takewhile(lambda filed: filed[0][0] < safe, victims.running))
        if holder.protection < safe
        for used, amount in holder.usage
        if used is fr
    )
