"""Explains why a workload waits, on request.

The last try left its reasons on the record (or on its lane, for those that were not tried themselves). Positions and
holders are looked up here, from the state as it is now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from msgspec import structs

from fairway.admission import cycle, lifecycle
from fairway.admission.clusterqueues import QueueState
from fairway.admission.forest import CohortTree
from fairway.admission.reasons import Code, Explanation, Holder, Outcome, PodSetReasons, Shortage, Why
from fairway.admission.records import PendingPlace, Record, Stage
from fairway.admission.remedies import Remedies, remedies
from fairway.admission.resources import FlavorResource
from fairway.admission.world import World

MOST_HOLDERS = 10
MOST_AHEAD = 10


class Standing(NamedTuple):
    """How a pending workload stands, in short. Positions start at 0; they are ``None`` for one that is in no queue."""

    record: Record
    cluster_queue: str
    position: int | None
    local_position: int | None
    explanation: Explanation
    """What the last try found, with the amounts that are missing now."""

    strict: bool = False
    """Whether a workload is tried only after all workloads ahead of it."""


class Explainer:
    __slots__ = ("_world",)

    def __init__(self, world: World) -> None:
        self._world = world

    def why(self, key: str) -> Why | None:
        world = self._world
        record = world.records.get(key)
        if record is None or record.stage is not Stage.PENDING:
            return None
        queue = world.queue_for(record)
        obstacles = self._obstacles(record, queue)
        explanation = self._explanation(record, obstacles)
        position, local_position, ahead = self._position(record, queue)
        return Why(
            workload=record.key,
            cluster_queue=queue.name if queue is not None else "",
            local_queue=record.local_queue_name,
            position=position,
            local_position=local_position,
            priority=record.priority,
            explanation=explanation,
            obstacles=obstacles,
            can_ever_fit=all(pod_set.can_ever_fit for pod_set in obstacles),
            shortages=self._shortages(queue, obstacles) if queue is not None else (),
            ahead=ahead,
        )

    def remedies(self, key: str) -> Remedies | None:
        """What would let a pending workload in; ``None`` when it does not wait."""
        record = self._world.records.get(key)
        if record is None or record.stage is not Stage.PENDING:
            return None
        queue = self._world.queue_for(record)
        if queue is None or record.place is PendingPlace.NOWHERE:
            return Remedies()
        return remedies(self._world, record, queue, self._obstacles(record, queue))

    def standings(self, is_wanted: Callable[[Record], bool]) -> Iterator[Standing]:
        """The wanted of those who wait: queue by queue in their order, then those who are in no queue.

        `is_wanted` is asked of each in that order. This triggers no tries: equal workloads share the result of the
        last try of one of them.
        """
        current: dict[int, Explanation] = {}
        for name, queue in sorted(self._world.queues.items()):
            places: dict[str, int] = {}
            for position, record in enumerate(queue.pending.in_order()):
                local_position = places.get(record.local_queue, 0)
                places[record.local_queue] = local_position + 1
                if not is_wanted(record):
                    continue
                found = self._explanation(record, None)
                if found.pod_sets:
                    explanation = current.get(id(found))
                    if explanation is None:
                        explanation = current[id(found)] = self._updated(found, queue)
                    found = explanation
                yield Standing(record, name, position, local_position, found, queue.pending.strict)
        for record in self._world.records.values():
            if record.stage is Stage.PENDING and record.place is PendingPlace.NOWHERE and is_wanted(record):
                owner = self._world.queue_for(record)
                name = owner.name if owner is not None else ""
                yield Standing(record, name, None, None, self._explanation(record, None))

    def _updated(self, explanation: Explanation, queue: QueueState) -> Explanation:
        self._world.forest.tree_of(queue)
        available, frs = queue.leaf.available, self._world.frs
        pod_sets = tuple(
            PodSetReasons(
                pod_set.name,
                tuple(
                    structs.replace(
                        reason,
                        missing=max(0, reason.requested - max(0, available(frs.get(reason.flavor, reason.resource)))),
                    )
                    if reason.code is Code.INSUFFICIENT_UNUSED
                    else reason
                    for reason in pod_set.reasons
                ),
            )
            for pod_set in explanation.pod_sets
        )
        return structs.replace(explanation, pod_sets=pod_sets)

    def _explanation(self, record: Record, obstacles: tuple[PodSetReasons, ...] | None) -> Explanation:
        """``obstacles`` are those of now, where they are known."""
        if not record.active:
            return Explanation(Outcome.DEACTIVATED)
        if record.gated:
            return Explanation(Outcome.GATED, record.gated)
        blocked = lifecycle.blocker(self._world, record)
        if blocked is not None:
            return blocked
        if self._world.config.hold_admission:
            return Explanation(Outcome.ON_HOLD)
        if record.backing_off(self._world.now):
            return Explanation(Outcome.BACKING_OFF, record.requeue_held_by)
        lane = record.lane
        if lane is not None and lane.parked and lane.explanation is not None:
            # A lane that slept on would have found the same obstacles, with the amounts of today.
            if lane.overslept and obstacles is not None:
                return structs.replace(lane.explanation, pod_sets=obstacles)
            return lane.explanation
        return record.explanation or Explanation(Outcome.NOT_TRIED)

    def _obstacles(self, record: Record, queue: QueueState | None) -> tuple[PodSetReasons, ...]:
        if queue is None or not record.demand.asks or self._world.forest.tree_of(queue).looping:
            return ()
        return cycle.assess(self._world, record, queue).reasons

    def _position(self, record: Record, queue: QueueState | None) -> tuple[int | None, int | None, tuple[str, ...]]:
        if queue is None or record.place is PendingPlace.NOWHERE:
            return None, None, ()
        before = []
        for other in queue.pending.in_order():
            if other is record:
                break
            before.append(other)
        same = sum(other.local_queue == record.local_queue for other in before)
        return len(before), same, tuple(other.key for other in before[:MOST_AHEAD])

    def _shortages(self, queue: QueueState, obstacles: tuple[PodSetReasons, ...]) -> tuple[Shortage, ...]:
        tree = self._world.forest.tree_of(queue)
        found = []
        for pod_set in obstacles:
            for reason in pod_set.reasons:
                if reason.code is Code.INSUFFICIENT_UNUSED:
                    fr = self._world.frs.get(reason.flavor, reason.resource)
                    holders = _holders(tree, queue, fr)
                    found.append(Shortage(pod_set.name, reason.flavor, reason.resource, reason.missing, holders))
        return tuple(found)


def _holders(tree: CohortTree, queue: QueueState, fr: FlavorResource) -> tuple[Holder, ...]:
    """The largest holders of a flavor-resource that the queue could use: those being evicted, its own, then
    borrowers.
    """
    ranked = []
    for other in tree.queues.values():
        borrowing = not other.leaf.within_quota((fr,))
        if other is not queue and not borrowing:
            continue
        for holder in other.holders.values():
            amount = sum(amount for used, amount in holder.usage if used is fr)
            if amount:
                ranked.append(((holder.evicted is None, other is not queue, -amount, holder.key), holder, amount))
    ranked.sort(key=lambda item: item[0])
    return tuple(
        Holder(
            holder.key,
            holder.queue.name if holder.queue is not None else "",
            holder.priority,
            amount,
            holder.evicted is not None,
        )
        for _, holder, amount in ranked[:MOST_HOLDERS]
    )
