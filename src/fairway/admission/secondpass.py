"""The second pass: a place in a topology for a workload that has its flavors already.

It has none yet because its nodes come with an admission check, or it lost one with a failed node. The search is
repeated with a growing pause; room that is made in between is used at once.
"""

from __future__ import annotations

from msgspec import structs

from fairway.admission import lifecycle, places
from fairway.admission.instructions import EvictionReason, Place, SecondPassFailed
from fairway.admission.placement import not_placed
from fairway.admission.reasons import Code, Explanation, Outcome, PodSetReasons
from fairway.admission.records import PodSetDemand, Record, Stage
from fairway.admission.shapes import Shape
from fairway.admission.topology.assigning import NotPlaced, TopologyAsk, place_all, replace_failed
from fairway.admission.topology.placing import Placements
from fairway.admission.topology.requests import PodSetTopology
from fairway.admission.world import World
from fairway.apis.kueue.objects import CheckState, DelayedTopologyRequestState


def nodes_failed(world: World, record: Record, nodes: tuple[str, ...]) -> None:
    """Nodes of an admitted workload failed, or are back."""
    record.failed_nodes = nodes
    if _needed(record):
        places.call_second_pass(world, record)
    else:
        world.second_pass.pop(record.key, None)


def due(world: World, record: Record) -> None:
    """Time for the next try."""
    tries = world.second_pass.get(record.key)
    if tries is None:
        return
    failure = _try(world, record)
    if failure is None:
        return
    if record.failed_nodes and world.config.replace_failed_nodes_once:
        nodes = ",".join(record.failed_nodes)
        message = f"Workload was evicted as there was no replacement for unhealthy node(s): {nodes}"
        lifecycle.evict(world, record, EvictionReason.NODE_FAILURES, message=message)
        return
    reasons = PodSetReasons(failure.pod_set, (not_placed(Code.TOPOLOGY_FULL, failure),))
    explanation = Explanation(Outcome.NO_FIT, record.cluster_queue, (reasons,))
    world.out.append(SecondPassFailed(at=world.now, key=record.key, explanation=explanation))
    world.second_pass[record.key] = tries + 1
    world.place_later(record, min(places.LONGEST_SECONDS, places.FIRST_SECONDS * 2.0 ** min(tries, 16)))


def use_room(world: World) -> None:
    """Room was made: try all workloads of the second pass again."""
    world.room_for_second_pass = False
    for key in list(world.second_pass):
        record = world.records.get(key)
        if record is not None:
            _try(world, record)


def _needed(record: Record) -> bool:
    if record.queue is None or record.evicted is not None:
        return False
    if record.stage is Stage.ADMITTED:
        return places.lost_node(record)
    return record.stage is Stage.RESERVED and places.pending(record)


def _try(world: World, record: Record) -> NotPlaced | None:
    """Find a place; who has none otherwise. What is needed no more counts as found."""
    if not _needed(record):
        world.second_pass.pop(record.key, None)
        return None
    asks = _asks(world, record)
    if record.failed_nodes:
        existing = {one.name: one.placement for one in record.admission if one.placement is not None}
        found = replace_failed(world.topologies, asks, existing, record.failed_nodes[0])
    else:
        found = place_all(world.topologies, asks, balance=world.config.balanced_placement)
    if isinstance(found, NotPlaced):
        return found
    _take(world, record, found)
    return None


def _asks(world: World, record: Record) -> tuple[TopologyAsk, ...]:
    """The pod sets without a place, or with pods on the failed node."""
    demands = {ask.name: ask for ask in record.demand.asks}
    asks = []
    for given in record.admission:
        ask = demands.get(given.name)
        flavor = next((name for name in given.flavors.values() if world.topologies.tree(name) is not None), "")
        if ask is None or not given.count:
            continue
        if record.failed_nodes:
            wanted = given.placement is not None and record.failed_nodes[0] in given.placement.hosts()
        else:
            wanted = given.placement is None and given.delayed == DelayedTopologyRequestState.PENDING
        if wanted:
            pods = given.count
            shape = _updated(record, ask)
            pod_set = PodSetTopology(ask.name, pods, shape, ask.topology, implied=not ask.wants_topology)
            asks.append(TopologyAsk(flavor, pod_set))
    return tuple(asks)


def _updated(record: Record, ask: PodSetDemand) -> Shape:
    """The pods with what the admission checks add to them."""
    updates = [
        update
        for check in record.checks.values()
        if check.state == CheckState.READY
        for update in check.updates
        if update.name == ask.name
    ]
    if not updates:
        return ask.shape
    selector = dict(ask.shape.node_selector)
    tolerations = ask.shape.tolerations
    for update in updates:
        selector.update(update.node_selector)
        tolerations += update.tolerations
    return ask.shape.replace(node_selector=selector, tolerations=tolerations)


def _take(world: World, record: Record, found: Placements) -> None:
    ready = DelayedTopologyRequestState.READY.value
    record.admission = tuple(
        structs.replace(one, placement=found[one.name], delayed=ready if one.delayed else "")
        if one.name in found
        else one
        for one in record.admission
    )
    world.topologies.give_back(record.placed)
    record.placed = places.placed_by(record)
    world.topologies.take(record.placed)
    replaced = bool(record.failed_nodes)
    record.failed_nodes = ()
    world.second_pass.pop(record.key, None)
    world.out.append(Place(at=world.now, key=record.key, pod_sets=record.admission))
    if replaced:
        places.made_room(world)
    else:
        lifecycle.checks_changed(world, record)
