"""Handlers for changed queues, flavors, checks and namespaces."""

from __future__ import annotations

from collections.abc import Iterable

from fairway.admission import events, lifecycle, places
from fairway.admission.clusterqueues import QueueState, weight_of
from fairway.admission.flavors import Flavor
from fairway.admission.instructions import EvictionReason
from fairway.admission.nodes import Nodes
from fairway.admission.reasons import Explanation, Outcome
from fairway.admission.records import Record, Stage
from fairway.admission.world import World
from fairway.apis.core.node_views import NodeFacts
from fairway.apis.kueue.objects import (
    AdmissionCheck,
    ClusterQueue,
    Cohort,
    LocalQueue,
    ResourceFlavor,
    StopPolicy,
    Topology,
    has_condition,
)
from fairway.apis.machinery.quantities import amount_of

PROVISIONING = "kueue.x-k8s.io/provisioning-request"
"""The controller of checks that provide nodes."""

# ClusterQueues and cohorts


def set_queue(world: World, manifest: ClusterQueue) -> None:
    name = manifest.metadata.name
    queue = world.queues.get(name)
    new = queue is None
    if queue is None:
        queue = world.queues[name] = QueueState(name)
    cohort = queue.cohort_name
    moved = queue.configure(manifest, world.frs)
    _order_by_usage(world, queue)
    if new or queue.cohort_name != cohort:
        world.forest.relink()
    elif moved:
        world.forest.tree_of(queue).stale = True
    _refresh_activity(world, queue)
    if new:
        _welcome(world, queue)
    world.wake_later(queue)
    _apply_stop(world, queue)
    for record in tuple(queue.holders.values()):
        lifecycle.checks_changed(world, record)
    world.touch(queue)


def _welcome(world: World, queue: QueueState) -> None:
    """A queue that is new to the engine: those admitted to it before count at once, those that waited for it queue
    up.
    """
    for record in world.records.values():
        if record.cluster_queue == queue.name:
            lifecycle.hold_again(world, record)
    for record in _pending_of_queue(world, queue.name):
        lifecycle.requeue(world, record)


def delete_queue(world: World, name: str) -> None:
    queue = world.queues.get(name)
    if queue is None:
        return
    world.wake_later(queue)
    waiting = list(queue.pending)
    for record in waiting:
        queue.pending.remove(record)
    for record in tuple(queue.holders.values()):
        if record.stage is Stage.RESERVED:
            lifecycle.unreserve(world, record, Explanation(Outcome.QUEUE_MISSING, name))
        else:
            lifecycle.let_go(world, record)
    del world.queues[name]
    world.forest.relink()
    for record in waiting:
        lifecycle.enqueue(world, record)


def set_cohort(world: World, manifest: Cohort) -> None:
    world.forest.set_cohort(manifest)
    _cohort_changed(world, manifest.metadata.name)


def delete_cohort(world: World, name: str) -> None:
    world.forest.delete_cohort(name)
    _cohort_changed(world, name)


def _cohort_changed(world: World, name: str) -> None:
    root = world.forest.cohort_root_name(name)
    world.wake_tree_at(root, world.now + world.config.requeue_batch_seconds)
    for queue in world.queues.values():
        if queue.cohort_name:
            _refresh_activity(world, queue)
            world.touch(queue)


def show_status(world: World, name: str) -> None:
    """If the status of a ClusterQueue has changed, the cohorts above it are gone through again."""
    queue = world.queues.get(name)
    if queue is None:
        return
    queue.shown_later = False
    status = queue.status()
    if status != queue.shown:
        queue.shown = status
        tree = world.forest.tree_of(queue)
        for other in tree.queues.values():
            other.generation += 1
        world.wake_later(queue)


def _order_by_usage(world: World, queue: QueueState) -> None:
    if not (queue.order_by_usage and world.usage.enabled):
        queue.pending.usage_of = None
    elif queue.pending.usage_of is None:
        waiting = list(queue.pending)
        for record in waiting:
            queue.pending.remove(record)
        queue.pending.usage_of = lambda key: world.usage.usage(key, world.local_queue(key).weight)
        for record in waiting:
            lifecycle.enqueue(world, record)


def _refresh_activity(world: World, queue: QueueState) -> None:
    """Whether the queue admits anything, and if not, why. Becoming active wakes its pending workloads."""
    was_active = queue.active
    reasons = ["Terminating"] if queue.terminating else []
    if queue.stop_policy is not StopPolicy.NONE:
        reasons.append("Stopped")
    missing = [name for name in dict.fromkeys(queue.flavor_names()) if name not in world.flavors]
    if missing:
        reasons.append("FlavorNotFound")
    names = [rule.name for rule in queue.checks]
    if any(name not in world.checks for name in names):
        reasons.append("AdmissionCheckNotFound")
    if any(not world.checks.get(name, True) for name in names):
        reasons.append("AdmissionCheckInactive")
    _refresh_topologies(world, queue)
    if any(not world.topologies.knows(world.flavors[name]) for name in queue.topology_flavors):
        reasons.append("TopologyNotFound")
    tree = world.forest.tree_of(queue)
    if tree.looping:
        reasons.append("CohortCycle")
    queue.inactive = tuple(reasons)
    if queue.active != was_active:
        tree.stale = True
        if queue.active:
            lifecycle.ready(world, queue)
        else:
            for record in list(queue.pending):
                lifecycle.explain(world, record, Explanation(Outcome.QUEUE_INACTIVE, queue.name))


def _refresh_topologies(world: World, queue: QueueState) -> None:
    """Which flavors of a queue have a topology, and of which the nodes are provided by a check."""
    names = frozenset(queue.flavor_names())
    queue.topology_flavors = frozenset(name for name in names if name in world.flavors and world.flavors[name].topology)
    queue.only_topologies = bool(names) and queue.topology_flavors == names
    queue.delayed_flavors = frozenset(
        name
        for rule in queue.checks
        if rule.name in world.provisioning_checks
        for name in rule.flavors or queue.topology_flavors
    )


def _apply_stop(world: World, queue: QueueState) -> None:
    """A stopped queue, and one that is being deleted, takes back reservations; a drained one stops what runs; one that
    runs again lets its own come back.
    """
    if queue.stop_policy is StopPolicy.NONE and not queue.terminating:
        for record in _pending_of_queue(world, queue.name):
            lifecycle.restart_if_running(world, record)
        return
    for record in tuple(queue.holders.values()):
        if record.stage is Stage.RESERVED:
            lifecycle.unreserve(world, record, Explanation(Outcome.QUEUE_INACTIVE, queue.name))
        elif queue.stop_policy is StopPolicy.HOLD_AND_DRAIN and record.evicted is None:
            lifecycle.evict(world, record, EvictionReason.CLUSTER_QUEUE_STOPPED)


def _pending_of_queue(world: World, name: str) -> list[Record]:
    return [
        record
        for local in world.local_queues.values()
        if local.cluster_queue == name
        for record in local.records.values()
        if record.stage is Stage.PENDING
    ]


# LocalQueues


def set_local_queue(world: World, manifest: LocalQueue) -> None:
    key = f"{manifest.metadata.namespace}/{manifest.metadata.name}"
    local = world.local_queue(key)
    for record in local.records.values():
        lifecycle.dequeue(world, record)
    if key not in world.known_local_queues:
        _restore_usage(world, key, manifest)
        world.sample_later(key)
    world.known_local_queues.add(key)
    local.cluster_queue = manifest.spec.cluster_queue
    local.stop_policy = manifest.spec.stop_policy
    local.weight = weight_of(manifest.spec.fair_sharing)
    for record in tuple(local.records.values()):
        if record.queue is not None and local.stopped:
            _stop_holder(world, record, drain=local.stop_policy is StopPolicy.HOLD_AND_DRAIN)
        elif record.stage is Stage.PENDING:
            lifecycle.enqueue(world, record)
            lifecycle.restart_if_running(world, record)


def _restore_usage(world: World, key: str, manifest: LocalQueue) -> None:
    sharing = manifest.status.fair_sharing
    shown = sharing.admission_fair_sharing_status if sharing is not None else None
    if shown is not None:
        consumed = {name: amount_of(name, quantity) for name, quantity in shown.consumed_resources.items()}
        world.usage.restore(key, consumed, world.now)


def sample_usage(world: World, key: str) -> None:
    """Mix what a LocalQueue uses now into what it used before; as the order of queues follows it, all are looked at."""
    if key not in world.known_local_queues:
        return
    world.usage.sample(key, lifecycle.admitted_usage(world, key), world.now)
    world.sample_later(key)
    queue = world.queues.get(world.local_queue(key).cluster_queue)
    if queue is not None:
        world.touch(queue)


def _stop_holder(world: World, record: Record, *, drain: bool) -> None:
    if record.stage is Stage.RESERVED:
        lifecycle.unreserve(world, record, Explanation(Outcome.LOCAL_QUEUE_INACTIVE, record.local_queue_name))
    elif drain and record.evicted is None:
        lifecycle.evict(world, record, EvictionReason.LOCAL_QUEUE_STOPPED)


def delete_local_queue(world: World, key: str) -> None:
    local = world.local_queue(key)
    for record in local.records.values():
        lifecycle.dequeue(world, record)
    world.known_local_queues.discard(key)
    world.usage.forget(key)
    local.cluster_queue = ""
    for record in tuple(local.records.values()):
        if record.stage is Stage.RESERVED:
            lifecycle.unreserve(world, record, Explanation(Outcome.LOCAL_QUEUE_MISSING, record.local_queue_name))
        else:
            lifecycle.enqueue(world, record)


# Flavors, checks, namespaces


def set_flavor(world: World, manifest: ResourceFlavor) -> None:
    name = manifest.metadata.name
    new = name not in world.flavors
    world.flavors[name] = Flavor(manifest)
    world.topologies.outdate()
    _refresh_users(world, _queues_with_flavor(world, name), wake_all=not new)


def delete_flavor(world: World, name: str) -> None:
    if world.flavors.pop(name, None) is not None:
        world.topologies.outdate()
        _refresh_users(world, _queues_with_flavor(world, name), wake_all=False)


def _queues_with_flavor(world: World, name: str) -> list[QueueState]:
    return [queue for queue in world.queues.values() if name in set(queue.flavor_names())]


def set_check(world: World, manifest: AdmissionCheck) -> None:
    world.checks[manifest.metadata.name] = has_condition(manifest.status.conditions, "Active")
    if manifest.spec.controller_name == PROVISIONING:
        world.provisioning_checks.add(manifest.metadata.name)
    _refresh_users(world, _queues_with_check(world, manifest.metadata.name), wake_all=False)


def delete_check(world: World, name: str) -> None:
    world.provisioning_checks.discard(name)
    if world.checks.pop(name, None) is not None:
        _refresh_users(world, _queues_with_check(world, name), wake_all=False)


def _queues_with_check(world: World, name: str) -> list[QueueState]:
    return [queue for queue in world.queues.values() if any(rule.name == name for rule in queue.checks)]


def _refresh_users(world: World, queues: Iterable[QueueState], *, wake_all: bool) -> None:
    """Those that begin to admit by this change are tried; a flavor that changed is worth a try for all its users."""
    for queue in queues:
        was_active = queue.active
        _refresh_activity(world, queue)
        if wake_all or (queue.active and not was_active):
            world.wake_later(queue)
        world.forest.tree_of(queue).stale = True
        world.touch(queue)


def set_nodes(world: World, nodes: tuple[NodeFacts, ...], schedulers: frozenset[str]) -> None:
    """What no node could serve may be served now, and the other way round. Without any node, quota alone decides."""
    world.nodes = Nodes(nodes, schedulers) if nodes else None
    _refresh_users(world, world.queues.values(), wake_all=True)


# Topologies


def set_topology(world: World, manifest: Topology) -> None:
    name = manifest.metadata.name
    world.topologies.set_levels(name, tuple(level.node_label for level in manifest.spec.levels))
    _refresh_users(world, _queues_with_topology(world, name), wake_all=True)


def delete_topology(world: World, name: str) -> None:
    world.topologies.drop_levels(name)
    _refresh_users(world, _queues_with_topology(world, name), wake_all=False)


def _queues_with_topology(world: World, name: str) -> list[QueueState]:
    return [
        queue
        for queue in world.queues.values()
        if any(world.flavors[flavor].topology == name for flavor in queue.topology_flavors)
    ]


def set_available_node(world: World, node: NodeFacts) -> None:
    if world.topologies.set_node(node):
        _room_in_topologies(world)


def delete_available_node(world: World, name: str) -> None:
    world.topologies.drop_node(name)


def set_node_usage(world: World, node: str, amounts: dict[str, int]) -> None:
    if world.topologies.block(node, amounts):
        _room_in_topologies(world)


def _room_in_topologies(world: World) -> None:
    places.made_room(world)
    for queue in world.queues.values():
        if queue.topology_flavors:
            queue.grow()


def set_namespace(world: World, name: str, labels: dict[str, str]) -> None:
    """Queues that select the namespace from now on may try what was set aside."""
    for queue in world.queues.values():
        queue.selects(name, world.namespaces)
    world.namespaces[name] = labels
    for queue in world.queues.values():
        if not queue.selected.pop(name) and queue.selects(name, world.namespaces):
            world.wake_later(queue)


def delete_namespace(world: World, name: str) -> None:
    world.namespaces.pop(name, None)
    for queue in world.queues.values():
        queue.selected.pop(name, None)


def wake(world: World, queue: QueueState) -> bool:
    """Wake the parked workloads of a queue; returns whether there are any to try."""

    def may_try(record: Record) -> bool:
        return not record.backing_off(world.now) and queue.selects(record.namespace, world.namespaces)

    return queue.pending.wake(queue, may_try)


# LimitRanges and RuntimeClasses


def set_limits(world: World, event: events.LimitRangeChanged) -> None:
    world.pod_limits.set_range(event.namespace, event.name, event.limits)
    _weigh_again(world, (record for record in world.records.values() if record.namespace == event.namespace))


def set_runtime_class(world: World, event: events.RuntimeClassChanged) -> None:
    world.pod_limits.set_class(event.name, event.overhead)
    _weigh_again(
        world,
        (
            record
            for record in world.records.values()
            if any(one.template.spec.get("runtimeClassName") == event.name for one in record.spec.pod_sets)
        ),
    )


def _weigh_again(world: World, records: Iterable[Record]) -> None:
    """Pods count otherwise from now on. Those who hold quota hold what they were given."""
    for record in tuple(records):
        if record.stage is not Stage.FINISHED:
            world.weigh(record)
            if record.stage is Stage.PENDING:
                lifecycle.requeue(world, record)
