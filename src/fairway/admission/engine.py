"""The engine: events in, instructions out.

    engine = Engine(Config())
    instructions = engine.handle(QueueChanged(...), WorkloadAdded(...))

The engine applies the events, runs as many cycles as lead to something, assumes every decision at once, and returns
what is to be written. It reads no clock: time is what the events say, and :attr:`Engine.next_wakeup` tells when time
alone will change something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fairway.admission import cycle, events, invariants, lifecycle, objects, secondpass, workloads
from fairway.admission.config import KUEUE_BATCH_SECONDS, Config
from fairway.admission.explain import Explainer, Standing
from fairway.admission.figures import Figures
from fairway.admission.forest import CohortTree
from fairway.admission.instructions import (
    Deactivate,
    DeactivationCause,
    EvictionReason,
    Instruction,
)
from fairway.admission.reasons import Why
from fairway.admission.records import Record, Stage
from fairway.admission.remedies import Remedies
from fairway.admission.world import Attempts, World


class Engine:
    """Decides for one control plane. Not thread-safe: one owner feeds it.

    ``shortcuts=False`` works everything out the long way, to check that the shortcuts change no decision. ``attempts``
    are those of an earlier engine, which this one continues to count.
    """

    __slots__ = ("_explainer", "_world", "figures")

    def __init__(
        self, config: Config | None = None, *, shortcuts: bool = True, attempts: Attempts | None = None
    ) -> None:
        self._world = World(config or Config(), shortcuts=shortcuts, attempts=attempts)
        self._explainer = Explainer(self._world)
        self.figures = Figures(self._world)
        """The numbers that statuses and metrics show."""

    @property
    def config(self) -> Config:
        return self._world.config

    @property
    def next_wakeup(self) -> float | None:
        """When to send ``TimePassed`` if nothing else happens before; ``None`` when time alone changes nothing."""
        return self._world.next_timer()

    def handle(self, *happened: events.Event) -> list[Instruction]:
        """Take in what happened, decide, and say what to write. Events are in the order of their times.

        After a restart, hand over everything that is stored in one call: an engine decides on what it knows, and
        would assign the quota of holders that it has not seen yet.
        """
        world = self._world
        for event in happened:
            while (at := world.next_timer()) is not None and at < event.at:
                self._ring()
                self._decide()
            world.now = max(world.now, event.at)
            _HANDLERS[type(event)](world, event)
        # What is due at this very moment comes after the events of this moment, and is decided on together with them.
        while (at := world.next_timer()) is not None and at <= world.now:
            self._ring()
        self._decide()
        instructions, world.out = world.out, []
        return instructions

    def why(self, key: str) -> Why | None:
        """Why a pending workload waits; ``None`` when it does not wait."""
        return self._explainer.why(key)

    def remedies(self, key: str) -> Remedies | None:
        """What would let a pending workload in; ``None`` when it does not wait."""
        return self._explainer.remedies(key)

    def standings(self, is_wanted: Callable[[Record], bool] = lambda _: True) -> Iterator[Standing]:
        """How the wanted of those who wait stand: queue by queue in their order, then those who are in no queue."""
        return self._explainer.standings(is_wanted)

    def pending(self, cluster_queue: str) -> list[Record]:
        """Everyone who waits for a ClusterQueue, in queue order, tried or not: what the visibility API shows."""
        queue = self._world.queues.get(cluster_queue)
        return list(queue.pending.in_order()) if queue is not None else []

    def record(self, key: str) -> Record | None:
        """One workload, to look at."""
        return self._world.records.get(key)

    def required_checks(self, record: Record) -> tuple[str, ...] | None:
        """The checks that a workload needs where it is, by name; ``None`` when its ClusterQueue is not there."""
        admitted_to = record.cluster_queue
        queue = self._world.queues.get(admitted_to) if admitted_to else self._world.queue_for(record)
        if queue is None:
            return None
        if not queue.checks:
            return ()
        if not admitted_to:
            return queue.checks_of_everybody()
        return queue.required_checks(flavor for given in record.admission for flavor in given.flavors.values())

    def records(self) -> Iterable[Record]:
        """Every workload that the engine knows, to look at."""
        return self._world.records.values()

    def violations(self) -> list[str]:
        """Broken invariants of the state: always empty, and tests make sure of it."""
        return list(invariants.violations(self._world))

    def overused(self) -> list[str]:
        """Where more is in use than there may be: only ever after a quota was lowered."""
        return list(invariants.overused(self._world))

    # Time and cycles

    def _ring(self) -> None:
        """Carry out what is due next."""
        world = self._world
        kind, name = world.take_timer()
        if kind == "wake":
            self._wake(name)
        elif kind == "status":
            objects.show_status(world, name)
        elif kind == "sample":
            objects.sample_usage(world, name)
        elif kind == "place":
            if name in world.records:
                secondpass.due(world, world.records[name])
        elif name in world.records:
            lifecycle.backoff_over(world, world.records[name])

    def _wake(self, root_name: str) -> None:
        tree = self._world.forest.tree_named(root_name)
        if tree is None or tree.looping:
            return
        if self._leaves_room_to_preemptor(tree):
            return
        for queue in tree.queues.values():
            if objects.wake(self._world, queue):
                tree.ready.add(queue.name)
        self._world.dirty[root_name] = None

    def _leaves_room_to_preemptor(self, tree: CohortTree) -> bool:
        """Whether to wake no workload yet: a preemptor waits for its victims, and batches have no length.

        In Kueue no workload wakes up for a second after a victim has stopped, so the preemptor gets the room. Workloads
        that woke up at once would take it and be the next victims, without end.
        """
        world = self._world
        if world.config.requeue_batch_seconds or not tree.has_preemptor:
            tree.wakes_at = None
            return False
        if tree.wakes_at is None:
            tree.wakes_at = world.now + KUEUE_BATCH_SECONDS
        if world.now < tree.wakes_at:
            world.wake_tree_at(tree.name, tree.wakes_at)
            return True
        tree.wakes_at = None
        cycle.run(world, tree)  # a victim may stop at the very moment at which they wake up
        return False

    def _decide(self) -> None:
        if self._world.room_for_second_pass:
            secondpass.use_room(self._world)
        cycle.admit_blocked(self._world)
        while (tree := self._world.take_dirty()) is not None:
            cycle.run(self._world, tree)


# What each event does


def _on_record(action: Callable[[World, Record, Any], None]) -> Callable[[World, Any], None]:
    """Events about a workload that is not known (any more) have nothing to change."""

    def handler(world: World, event: Any) -> None:
        record = world.records.get(event.key)
        if record is not None:
            action(world, record, event)

    return handler


def _finished(world: World, record: Record, _: events.WorkloadFinished) -> None:
    for other in world.local_queue(record.local_queue).records.values() if record.stage is Stage.FINISHED else ():
        if other.replaced is not None and other.replaced[0] is record:
            other.replaced = None  # both are stored
    if record.stage is not Stage.FINISHED:
        lifecycle.finish(world, record)


def _deleted(world: World, record: Record, _: events.WorkloadDeleted) -> None:
    lifecycle.forget(world, record)


def _released(world: World, record: Record, event: events.QuotaReleased) -> None:
    if record.stage in (Stage.RESERVED, Stage.ADMITTED):
        lifecycle.release(world, record, requeue=event.requeue)


def _reclaimed(world: World, record: Record, event: events.PodsReclaimed) -> None:
    record.reclaimed = dict(event.counts)
    world.weigh(record)
    if record.holding:
        workloads.update_holder(world, record, priority_changed=False)
    else:
        lifecycle.requeue(world, record)


def _pods_ready(world: World, record: Record, event: events.PodsReadyChanged) -> None:
    record.pods_ready = event.ready
    if event.ready:
        world.set_ready(record)
    elif record.holding:
        world.unready.add(record.key)


def _priority_changed(world: World, record: Record, event: events.PriorityChanged) -> None:
    record.base_priority = event.priority
    if record.holding:
        workloads.update_holder(world, record, priority_changed=True)
    else:
        lifecycle.requeue(world, record)


def _active_changed(world: World, record: Record, event: events.ActiveChanged) -> None:
    if event.active and not record.active:
        lifecycle.reactivate(world, record)
    elif not event.active and record.active:
        lifecycle.deactivate(world, record)


def _check_reported(world: World, record: Record, event: events.CheckReported) -> None:
    record.checks[event.check] = event.verdict
    lifecycle.checks_changed(world, record)


def _eviction_requested(world: World, record: Record, event: events.EvictionRequested) -> None:
    if record.stage not in (Stage.RESERVED, Stage.ADMITTED) or record.evicted is not None:
        return
    reason = EvictionReason(event.reason)
    if reason is EvictionReason.PODS_READY_TIMEOUT:
        rules = world.config.pods_ready
        record.requeue_count += 1
        if rules.backoff_limit is not None and record.requeue_count > rules.backoff_limit:
            cause = DeactivationCause.REQUEUING_LIMIT
            world.out.append(Deactivate(at=world.now, key=record.key, cause=cause))
            lifecycle.deactivate(world, record, cause=cause)
            return
        delay = rules.backoff_base_seconds * 2 ** min(record.requeue_count - 1, 63)
        lifecycle.postpone(record, world.now + min(delay, rules.backoff_max_seconds))
    if reason is EvictionReason.DEACTIVATED:
        if event.cause:
            world.out.append(Deactivate(at=world.now, key=record.key, cause=event.cause, message=event.message))
        lifecycle.deactivate(world, record, cause=event.cause, message=event.message)
        return
    lifecycle.evict(world, record, reason, cause=event.cause, message=event.message)


def _nodes_failed(world: World, record: Record, event: events.NodesFailed) -> None:
    secondpass.nodes_failed(world, record, event.nodes)


def _write_failed(world: World, record: Record, _: events.WriteFailed) -> None:
    if record.evicted is not None:
        lifecycle.take_back_eviction(world, record)
    elif record.holding:
        lifecycle.take_back_admission(world, record)


_HANDLERS: dict[type[events.Event], Callable[[World, Any], None]] = {
    events.TimePassed: lambda _world, _event: None,
    events.FlavorChanged: lambda world, event: objects.set_flavor(world, event.flavor),
    events.FlavorDeleted: lambda world, event: objects.delete_flavor(world, event.name),
    events.CohortChanged: lambda world, event: objects.set_cohort(world, event.cohort),
    events.CohortDeleted: lambda world, event: objects.delete_cohort(world, event.name),
    events.QueueChanged: lambda world, event: objects.set_queue(world, event.queue),
    events.QueueDeleted: lambda world, event: objects.delete_queue(world, event.name),
    events.LocalQueueChanged: lambda world, event: objects.set_local_queue(world, event.queue),
    events.LocalQueueDeleted: lambda world, event: objects.delete_local_queue(world, f"{event.namespace}/{event.name}"),
    events.CheckChanged: lambda world, event: objects.set_check(world, event.check),
    events.CheckDeleted: lambda world, event: objects.delete_check(world, event.name),
    events.NamespaceChanged: lambda world, event: objects.set_namespace(world, event.name, event.labels),
    events.NamespaceDeleted: lambda world, event: objects.delete_namespace(world, event.name),
    events.LimitRangeChanged: objects.set_limits,
    events.RuntimeClassChanged: objects.set_runtime_class,
    events.NodesChanged: lambda world, event: objects.set_nodes(world, event.nodes, event.schedulers),
    events.TopologyChanged: lambda world, event: objects.set_topology(world, event.topology),
    events.TopologyDeleted: lambda world, event: objects.delete_topology(world, event.name),
    events.NodeAvailable: lambda world, event: objects.set_available_node(world, event.node),
    events.NodeUnavailable: lambda world, event: objects.delete_available_node(world, event.name),
    events.NodeUsageChanged: lambda world, event: objects.set_node_usage(world, event.node, event.amounts),
    events.WorkloadAdded: lambda world, event: workloads.add(world, event.workload),
    events.WorkloadChanged: lambda world, event: workloads.change(world, event.workload),
    events.WorkloadDeleted: _on_record(_deleted),
    events.WorkloadFinished: _on_record(_finished),
    events.QuotaReleased: _on_record(_released),
    events.PodsReclaimed: _on_record(_reclaimed),
    events.PodsReadyChanged: _on_record(_pods_ready),
    events.PriorityChanged: _on_record(_priority_changed),
    events.ActiveChanged: _on_record(_active_changed),
    events.CheckReported: _on_record(_check_reported),
    events.NodesFailed: _on_record(_nodes_failed),
    events.EvictionRequested: _on_record(_eviction_requested),
    events.WriteFailed: _on_record(_write_failed),
}
