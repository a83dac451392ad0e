"""Shared by both searches: request, result, and how a set of victims is made minimal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from fairway.admission.clusterqueues import QueueState
from fairway.admission.forest import CohortTree
from fairway.admission.instructions import PreemptionReason
from fairway.admission.records import Record
from fairway.admission.resources import Amounts, FlavorResource
from fairway.admission.topology.assigning import NotPlaced, TopologyAsk, place_all
from fairway.admission.topology.capacity import Topologies
from fairway.apis.kueue.objects import PreemptionPolicy


class Target(NamedTuple):
    """A workload to evict, and by which right."""

    record: Record
    reason: PreemptionReason


class PlacementQuestion(NamedTuple):
    """Whether the pods of the preemptor have a place, too."""

    topologies: Topologies
    asks: tuple[TopologyAsk, ...]
    balance: bool

    def fits(self) -> bool:
        return not isinstance(place_all(self.topologies, self.asks, balance=self.balance), NotPlaced)


class Search:
    """One question: who could make room for ``requests``, of which ``contested`` are short?

    ``protected_until`` collects when the youngest protected candidate may be asked again, where a minimum run time is
    set.
    """

    __slots__ = (
        "contested",
        "minimum_run",
        "now",
        "placement",
        "protected_until",
        "queue",
        "record",
        "requests",
        "tree",
    )

    def __init__(
        self,
        *,
        tree: CohortTree,
        queue: QueueState,
        record: Record,
        contested: frozenset[FlavorResource],
        requests: Amounts,
        now: float,
        minimum_run: float,
        placement: PlacementQuestion | None = None,
    ) -> None:
        self.tree = tree
        self.placement = placement
        self.queue = queue
        self.record = record
        self.contested = contested
        self.requests = requests
        self.now = now
        self.minimum_run = minimum_run
        self.protected_until: float | None = None

    def fits(self, *, borrowing: bool) -> bool:
        leaf = self.queue.leaf
        for fr, amount in self.requests:
            if not borrowing and leaf.exceeds_quota_with(fr, amount):
                return False
            if amount > 0 and amount > leaf.available(fr):
                return False
        return self.placement is None or self.placement.fits()

    def frees_too_much(self, targets: list[Target]) -> bool:
        """Whether the victims hold more than is missing, so that others might do with less."""
        freed = self.held_by(target.record for target in targets)
        available = self.queue.leaf.available
        return any(freed.get(fr, 0) > amount - available(fr) for fr, amount in self.requests if fr in self.contested)

    def held_by(self, records: Iterable[Record]) -> dict[FlavorResource, int]:
        """How much of the contested quota these hold."""
        held: dict[FlavorResource, int] = {}
        for record in records:
            for fr, amount in record.usage:
                if fr in self.contested:
                    held[fr] = held.get(fr, 0) + amount
        return held

    def allowed(self, candidate: Record, policy: PreemptionPolicy) -> bool:
        """Whether policy lets this candidate be preempted, and whether that would help at all."""
        if policy is PreemptionPolicy.NEVER:
            return False
        if policy is not PreemptionPolicy.ANY and not self._outranks(candidate, policy):
            return False
        for fr, _ in candidate.usage:
            if fr in self.contested:
                return self.minimum_run <= 0 or self._ran_long_enough(candidate)
        return False

    def _outranks(self, candidate: Record, policy: PreemptionPolicy) -> bool:
        """By the preemptor's base priority: what aging earned protects a candidate, and gives no right to preempt."""
        record = self.record
        if record.base_priority != candidate.protection:
            return record.base_priority > candidate.protection
        newer_too = policy is PreemptionPolicy.LOWER_OR_NEWER_EQUAL_PRIORITY
        return newer_too and record.order_key[1] < candidate.order_key[1]

    def _ran_long_enough(self, candidate: Record) -> bool:
        if candidate.evicted is not None or candidate.reserved_at is None:
            return True
        until = candidate.reserved_at + self.minimum_run
        if until <= self.now:
            return True
        if self.protected_until is None or until < self.protected_until:
            self.protected_until = until
        return False

    def take_away(self, candidate: Record) -> None:
        queue = candidate.queue
        if queue is not None:
            queue.leaf.remove_all(candidate.usage)
            if self.placement is not None:
                self.placement.topologies.give_back(candidate.placed)

    def put_back(self, candidate: Record) -> None:
        queue = candidate.queue
        if queue is not None:
            queue.leaf.add_all(candidate.usage)
            if self.placement is not None:
                self.placement.topologies.take(candidate.placed)

    def restore(self, targets: list[Target]) -> None:
        for target in reversed(targets):
            self.put_back(target.record)

    def fill_back(self, targets: list[Target], *, borrowing: bool) -> list[Target]:
        """Spare everyone who turns out not to be needed. The last one taken always is: without it there was no room."""
        needed = targets[-1:]
        for target in reversed(targets[:-1]):
            self.put_back(target.record)
            if not self.fits(borrowing=borrowing):
                self.take_away(target.record)
                needed.append(target)
        return needed


@contextmanager
def in_base_order(tree: CohortTree) -> Iterator[None]:
    """Candidates come in the order that they would have without aging. Who may preempt whom stays as it is."""
    aged = [(record, record.victim_key) for record in tree.victims.aged.values() if record.evicted is None]
    holders = [one for one in (tree.victims, *(queue.victims for queue in tree.queues.values())) if one.aged]
    filed = [one.running for one in holders]
    for record, key in aged:
        record.victim_key = (record.base_priority, *key[1:])
    for one in holders:
        one.running = sorted((record.victim_key, record) for _, record in one.running)
    try:
        yield
    finally:
        for one, running in zip(holders, filed, strict=True):
            one.running = running
        for record, key in aged:
            record.victim_key = key


def cheaper(search: Search, targets: list[Target], others: list[Target]) -> list[Target]:
    """The first set, unless the other one costs less.

    So earned priority decides which workloads are evicted, and never that more is evicted.
    """
    cost, other_cost = _cost(search, targets), _cost(search, others)
    less = others and cost != other_cost and all(amount <= cost.get(fr, 0) for fr, amount in other_cost.items())
    return others if less else targets


def _cost(search: Search, targets: list[Target]) -> dict[FlavorResource, int]:
    """The contested quota that is taken from running workloads."""
    return search.held_by(target.record for target in targets if target.record.evicted is None)
