"""What would admit a waiting workload, as data: jobs that must end, victims, limits.

Everything is tried out on the quota tree as it is now, with the engine's own rules, and taken back: what is said here
is what the engine would do. Sentences are made in :mod:`fairway.admission.advice`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from msgspec import Struct

from fairway.admission import cycle
from fairway.admission.clusterqueues import QueueState
from fairway.admission.quota import without
from fairway.admission.reasons import Code, PodSetReasons
from fairway.admission.records import Record
from fairway.admission.resources import FlavorResource
from fairway.admission.world import World

MOST_NAMED: Final = 5
_MOST_TRIED: Final = 100
"""Holders whose end is tried out: the largest ones."""

_MOST_PRIORITIES: Final = 10
_HIGHEST_PRIORITY: Final = 2**31 - 1


class Party(Struct, frozen=True, gc=False):
    """A workload that holds some of what is short, by resource."""

    workload: str
    cluster_queue: str
    priority: int
    held: tuple[tuple[str, int], ...]


class Limit(Struct, frozen=True, gc=False):
    """A borrowing limit without which there would be room."""

    flavor: str
    resource: str
    amount: int


class Remedies(Struct, frozen=True, gc=False):
    """Each part by itself would do, as far as quota goes."""

    strict: bool = False
    """Whether a workload is tried only after all workloads ahead of it."""

    contended: bool = False
    """Whether a workload of another queue could take the room."""

    going: tuple[Party, ...] = ()
    """Those that are being evicted, if there is room when they are gone."""

    alone: tuple[Party, ...] = ()
    """Any one of these ending."""

    together: tuple[Party, ...] = ()
    """All of these ending; told of where no single one would do."""

    victims: tuple[Party, ...] = ()
    """Whom it may preempt when it is tried."""

    priority: int | None = None
    """The lowest priority at which it could preempt, if it cannot now."""

    outranked: tuple[Party, ...] = ()
    """Whom, then."""

    limits: tuple[Limit, ...] = ()


def remedies(world: World, record: Record, queue: QueueState, obstacles: tuple[PodSetReasons, ...]) -> Remedies:
    """What would make room for a workload that lacks nothing but quota that others use."""
    strict = queue.pending.strict
    contended = any(len(other.pending) for other in queue.tree.queues.values() if other is not queue)
    short = _short(world, obstacles)
    if not short or not all(pod_set.can_ever_fit for pod_set in obstacles):
        return Remedies(strict=strict)
    holders = _holders(queue, short)
    going = [holder for holder in holders if holder.evicted is not None]
    if going and _fits_without(world, record, queue, going):
        return Remedies(strict=strict, contended=contended, going=_parties(going, short))
    staying = [holder for holder in holders if holder.evicted is None][:_MOST_TRIED]
    alone = _alone(world, record, queue, staying)
    together = [] if alone else _together(world, record, queue, [*going, *staying])
    victims = cycle.victims(world, record, queue)
    priority, outranked = (None, []) if victims else _outranking(world, record, queue, staying)
    return Remedies(
        strict=strict,
        contended=contended,
        alone=_parties(alone, short),
        together=_parties(together, short),
        victims=_parties(victims, short),
        priority=priority,
        outranked=_parties(outranked, short),
        limits=tuple(_limits(world, record, queue, short)),
    )


def _short(world: World, obstacles: tuple[PodSetReasons, ...]) -> tuple[FlavorResource, ...]:
    """What others use so much of that too little is left, in the order it was found."""
    found = {
        world.frs.get(reason.flavor, reason.resource): None
        for pod_set in obstacles
        for reason in pod_set.reasons
        if reason.code is Code.INSUFFICIENT_UNUSED
    }
    return tuple(found)


def _holders(queue: QueueState, short: tuple[FlavorResource, ...]) -> list[Record]:
    """Those who hold some of it anywhere in the tree: the queue's own first, the largest first."""
    ranked = []
    for other in queue.tree.queues.values():
        for record in other.holders.values():
            held = sum(amount for fr, amount in record.usage if fr in short)
            if held:
                ranked.append(((other is not queue, -held, record.key), record))
    ranked.sort(key=lambda pair: pair[0])
    return [record for _, record in ranked]


def _fits_without(world: World, record: Record, queue: QueueState, gone: Iterable[Record]) -> bool:
    with without([(holder.queue.leaf, holder.usage) for holder in gone if holder.queue is not None]):
        return cycle.fits(world, record, queue)


def _alone(world: World, record: Record, queue: QueueState, holders: list[Record]) -> list[Record]:
    found = []
    for holder in holders:
        if _fits_without(world, record, queue, [holder]):
            found.append(holder)
            if len(found) >= MOST_NAMED:
                break
    return found


def _together(world: World, record: Record, queue: QueueState, holders: list[Record]) -> list[Record]:
    """A minimal sufficient set; empty if not even all together suffice."""
    gone: list[Record] = []
    for holder in holders:
        gone.append(holder)
        if _fits_without(world, record, queue, gone):
            break
    else:
        return []
    for holder in gone[:-1]:
        others = [other for other in gone if other is not holder]
        if _fits_without(world, record, queue, others):
            gone = others
    return gone


def _outranking(
    world: World, record: Record, queue: QueueState, holders: list[Record]
) -> tuple[int | None, list[Record]]:
    """The lowest higher base priority that would let it preempt, and whom."""
    above = sorted({holder.priority for holder in holders if holder.priority >= record.base_priority})
    for priority in above[:_MOST_PRIORITIES]:
        if priority >= _HIGHEST_PRIORITY:
            break
        with _as_if(record, priority + 1):
            found = cycle.victims(world, record, queue)
        if found:
            return priority + 1, found
    return None, []


@contextmanager
def _as_if(record: Record, priority: int) -> Iterator[None]:
    """What if it had this base priority?"""
    before = record.base_priority
    record.base_priority = priority
    try:
        yield
    finally:
        record.base_priority = before


def _limits(world: World, record: Record, queue: QueueState, short: tuple[FlavorResource, ...]) -> Iterator[Limit]:
    """The queue's borrowing limits, if there would be room without them."""
    limits = queue.leaf.borrowing
    limited = {fr: limits[fr] for fr in short if fr in limits}
    if not limited:
        return
    queue.leaf.borrowing = {fr: amount for fr, amount in limits.items() if fr not in limited}
    try:
        fits = cycle.fits(world, record, queue)
    finally:
        queue.leaf.borrowing = limits
    if fits:
        yield from (Limit(fr.flavor, fr.resource, amount) for fr, amount in limited.items())


def _parties(records: Iterable[Record], short: tuple[FlavorResource, ...]) -> tuple[Party, ...]:
    return tuple(
        Party(
            record.key,
            record.queue.name if record.queue is not None else "",
            record.priority,
            tuple((fr.resource, amount) for fr, amount in record.usage if amount and fr in short),
        )
        for record in records
    )
