"""Invariants of the engine, as code.

Tests ask after every step; a violation names the object and what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairway.admission.clusterqueues import QueueState
from fairway.admission.forest import CohortTree
from fairway.admission.quota import CohortNode, Node
from fairway.admission.records import PendingPlace, Record, Stage
from fairway.admission.resources import FlavorResource
from fairway.admission.world import World


def violations(world: World) -> Iterator[str]:
    """Every broken invariant of the engine's state. Over-use is not among them: a lowered quota may cause it."""
    for record in world.records.values():
        yield from _misplaced(world, record)
    for tree in world.forest:
        for queue in tree.queues.values():
            yield from _queue_out_of_step(world, queue)
        yield from _usage_out_of_step(tree)
    yield from _places_out_of_step(world)


def _places_out_of_step(world: World) -> Iterator[str]:
    """What is taken in topologies is what the holders of quota take."""
    expected: dict[tuple[str, str], dict[str, int]] = {}
    for record in world.records.values():
        if record.placed and record.queue is None:
            yield f"{record.key} has a place but holds no quota"
        for one in record.placed:
            amounts = expected.setdefault((one.flavor, one.domain), {})
            for resource, amount in one.amounts:
                amounts[resource] = amounts.get(resource, 0) + amount
    if expected != world.topologies.used():
        yield f"topologies count {world.topologies.used()} as taken, workloads take {expected}"


def overused(world: World) -> Iterator[str]:
    """Every node that uses more than it may. Empty as long as no quota was lowered under those who used it."""
    for tree in world.forest:
        for queue in tree.queues.values():
            leaf = queue.leaf
            for fr in leaf.usage.keys() | leaf.subtree.keys():
                if leaf.available(fr) < 0:
                    yield f"{leaf.name} uses {leaf.usage.get(fr, 0)} of {fr}, {-leaf.available(fr)} more than it may"
    for name in world.flavors:
        tree_of_flavor = world.topologies.tree(name)
        if tree_of_flavor is not None:
            for resource, column in tree_of_flavor.left.items():
                if column and min(column) < 0:
                    yield f"a leaf of {name} has {min(column)} of {resource} left"


def _misplaced(world: World, record: Record) -> Iterator[str]:
    """A workload waits in one place, or holds quota, or neither; never both."""
    waiting = record.place is not PendingPlace.NOWHERE
    if waiting and record.stage is not Stage.PENDING:
        yield f"{record.key} is {record.stage.name} and still waits"
    if waiting and record.queue is not None:
        yield f"{record.key} waits and holds quota"
    if record.queue is not None and record.queue.holders.get(record.key) is not record:
        yield f"{record.key} holds quota of {record.queue.name}, which does not know it"
    if record.queue is not None and record.stage not in (Stage.RESERVED, Stage.ADMITTED):
        yield f"{record.key} is {record.stage.name} and holds quota"
    if record.usage and record.queue is None:
        yield f"{record.key} has usage but holds no quota"
    queue = world.queue_for(record)
    expected = record.admissible and queue is not None and record.local_queue in world.known_local_queues
    if expected and not world.local_queue(record.local_queue).stopped and not waiting:
        yield f"{record.key} is lost: it may be queued but waits nowhere"


def _queue_out_of_step(world: World, queue: QueueState) -> Iterator[str]:
    seen: set[str] = set()
    waiting_from: dict[str, int] = {}
    for record in queue.pending:
        waiting_from[record.local_queue] = waiting_from.get(record.local_queue, 0) + 1
        if record.key in seen:
            yield f"{record.key} waits twice in {queue.name}"
        seen.add(record.key)
        if world.records.get(record.key) is not record:
            yield f"{record.key} waits in {queue.name} but is not known"
    if len(queue.pending) != len(seen):
        yield f"{queue.name} counts {len(queue.pending)} waiting, there are {len(seen)}"
    if queue.pending.by_local_queue != waiting_from:
        yield f"{queue.name} counts {queue.pending.by_local_queue} waiting by LocalQueue, there are {waiting_from}"
    held_by: dict[str, dict[str, Record]] = {}
    for record in queue.holders.values():
        held_by.setdefault(record.local_queue, {})[record.key] = record
        if world.records.get(record.key) is not record:
            yield f"{record.key} holds quota of {queue.name} but is not known"
    if queue.by_local_queue != held_by:
        yield f"{queue.name} lists its holders wrongly by LocalQueue"


def _usage_out_of_step(tree: CohortTree) -> Iterator[str]:
    """Usage is the sum of what holders hold, and bubbles up past what each node guarantees."""
    for queue in tree.queues.values():
        held: dict[FlavorResource, int] = {}
        for record in queue.holders.values():
            for fr, amount in record.usage:
                held[fr] = held.get(fr, 0) + amount
        yield from _differs(queue.leaf, held)
    if isinstance(tree.root, CohortNode) and not tree.looping:
        yield from _cohort_out_of_step(tree.root)


def _cohort_out_of_step(cohort: CohortNode) -> Iterator[str]:
    expected: dict[FlavorResource, int] = {}
    for child in (*cohort.children, *cohort.leaves):
        for fr, used in child.usage.items():
            expected[fr] = expected.get(fr, 0) + max(0, used - child.guaranteed.get(fr, 0))
    yield from _differs(cohort, expected)
    for child in cohort.children:
        yield from _cohort_out_of_step(child)


def _differs(node: Node, expected: dict[FlavorResource, int]) -> Iterator[str]:
    for fr in expected.keys() | node.usage.keys():
        if node.usage.get(fr, 0) != expected.get(fr, 0):
            yield f"{node.name} counts {node.usage.get(fr, 0)} of {fr} in use, it is {expected.get(fr, 0)}"
