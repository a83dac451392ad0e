"""What workloads that hold quota take in topologies, and who needs another look for a place."""

from __future__ import annotations

from typing import Final

from fairway.admission.records import Record
from fairway.admission.topology.capacity import Occupied, occupied
from fairway.admission.topology.requests import per_pod
from fairway.admission.world import World
from fairway.apis.kueue.objects import DelayedTopologyRequestState

FIRST_SECONDS: Final = 1.0
LONGEST_SECONDS: Final = 30.0


def placed_by(record: Record) -> tuple[Occupied, ...]:
    """What the pods of an admission take, by the flavors that they may be of."""
    shapes = {ask.name: ask.shape for ask in record.demand.asks}
    return tuple(
        one
        for pod_set in record.admission
        if pod_set.placement is not None and pod_set.name in shapes
        for flavor in (("",) if pod_set.placement.by_host else dict.fromkeys(pod_set.flavors.values()))
        for one in occupied(flavor, pod_set.placement, per_pod(shapes[pod_set.name]))
    )


def leave(world: World, record: Record) -> None:
    """Free the place of a workload. Others may fit there whose quota comes from elsewhere."""
    world.second_pass.pop(record.key, None)
    if record.placed:
        world.topologies.give_back(record.placed)
        record.placed = ()
        made_room(world)


def made_room(world: World) -> None:
    """Pods may find a place that found none before."""
    for queue in world.queues.values():
        if queue.topology_flavors:
            world.wake_later(queue)
    world.room_for_second_pass = True


def pending(record: Record) -> bool:
    """Whether a place is still to be found for some pods, now that the checks are ready."""
    return any(
        pod_set.placement is None and pod_set.delayed == DelayedTopologyRequestState.PENDING
        for pod_set in record.admission
    )


def lost_node(record: Record) -> bool:
    """Whether pods are placed on a node that failed."""
    return any(
        pod_set.placement is not None and not pod_set.placement.hosts().isdisjoint(record.failed_nodes)
        for pod_set in record.admission
    )


def call_second_pass(world: World, record: Record) -> None:
    """Look for a place in a while, unless that is under way."""
    if record.key not in world.second_pass:
        world.second_pass[record.key] = 1
        world.place_later(record, FIRST_SECONDS)
