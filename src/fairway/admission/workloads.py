"""Workload objects, read into the engine's records: new ones, changed ones, and those that held quota before a
restart.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from fairway.admission import lifecycle
from fairway.admission.events import CheckVerdict
from fairway.admission.instructions import EvictionReason, PodSetAdmission
from fairway.admission.records import (
    EARNED_PRIORITY,
    FIRST_SUBMITTED,
    GANG,
    GATED_BY,
    POD_GROUP,
    REPLACEMENT_FOR,
    Record,
    Stage,
    annotation_number,
    seconds,
    true_condition,
)
from fairway.admission.world import World
from fairway.apis.kueue.objects import PriorityClassKind, TopologyAssignment, Workload, find_condition
from fairway.apis.kueue.placements import Placement, decode
from fairway.apis.machinery.quantities import amount_of


def add(world: World, workload: Workload) -> None:
    key = f"{workload.metadata.namespace}/{workload.metadata.name}"
    if key in world.records:
        change(world, workload)
        return
    record = Record(workload, f"{workload.metadata.namespace}/{workload.spec.queue_name}")
    world.records[key] = record
    world.local_queue(record.local_queue).records[key] = record
    _read_spec(world, record, workload)
    _read_status(world, record, workload)
    record.refresh_keys(world.config)
    if record.stage is Stage.PENDING:
        lifecycle.come_back(world, record)
    elif record.stage is Stage.RESERVED and not record.holding:
        lifecycle.start_without_queue(world, record)


def change(world: World, workload: Workload) -> None:
    """Take over changes. The engine's own decisions stay until an event contradicts them."""
    key = f"{workload.metadata.namespace}/{workload.metadata.name}"
    record = world.records.get(key)
    if record is None or (workload.metadata.uid and record.uid != workload.metadata.uid):
        if record is not None:
            lifecycle.forget(world, record)
        add(world, workload)
        return
    if true_condition(workload.status.conditions, "Finished"):
        if record.stage is not Stage.FINISHED:
            lifecycle.finish(world, record)
        return
    before, priority = _competing(record), (record.base_priority, record.earned)
    _move(world, record, f"{record.namespace}/{workload.spec.queue_name}")
    was_active = record.active
    _read_spec(world, record, workload)
    _read_checks(record, workload)
    if was_active and not workload.spec.active:
        lifecycle.deactivate(world, record)
    elif not was_active and workload.spec.active:
        lifecycle.reactivate(world, record)
    record.active = workload.spec.active
    if record.holding:
        if _evicted_and_released(workload) and record.evicted is not None:
            lifecycle.release(world, record)
            return
        update_holder(world, record, priority_changed=priority != (record.base_priority, record.earned))
        lifecycle.checks_changed(world, record)
    elif before != _competing(record):
        lifecycle.requeue(world, record)


def _competing(record: Record) -> tuple[object, ...]:
    """Everything that decides whether and where a workload is queued."""
    priority = record.base_priority, record.earned
    return record.spec, record.reclaimed, record.gated, record.waiting_for_replacement, priority


def _evicted_and_released(workload: Workload) -> bool:
    evicted = true_condition(workload.status.conditions, "Evicted")
    reserved = find_condition(workload.status.conditions, "QuotaReserved")
    return evicted is not None and reserved is not None and reserved.status == "False"


def _move(world: World, record: Record, local_queue: str) -> None:
    """A workload that names another LocalQueue leaves the one it was in."""
    if record.local_queue == local_queue:
        return
    lifecycle.dequeue(world, record)
    world.local_queue(record.local_queue).records.pop(record.key, None)
    world.usage.forgive(record.local_queue, record.key)
    queue = record.queue
    if queue is not None:
        queue.unlist_holder(record)
    record.local_queue = local_queue
    if queue is not None:
        queue.list_holder(record)
    world.local_queue(local_queue).records[record.key] = record
    lifecycle.enqueue(world, record)


def update_holder(world: World, record: Record, *, priority_changed: bool) -> None:
    """A workload that holds quota changed in place.

    As in Kueue, only a priority that comes from a WorkloadPriorityClass is news to those who wait.
    """
    queue = record.queue
    if queue is None:
        return
    lifecycle.set_usage(world, record, lifecycle.admitted_amounts(world, record))
    if priority_changed:
        record.refresh_keys(world.config)
        queue.changed(record)
        world.touch(queue)
        by_class = record.spec.priority_class_ref
        if by_class is not None and by_class.kind is PriorityClassKind.WORKLOAD:
            world.wake_later(queue)


# Reading


def _read_spec(world: World, record: Record, workload: Workload) -> None:
    metadata, spec = workload.metadata, workload.spec
    record.spec = spec
    record.base_priority = spec.priority or 0
    record.earned = annotation_number(metadata.annotations, EARNED_PRIORITY)
    record.gang = "true" in (metadata.annotations.get(GANG), metadata.annotations.get(POD_GROUP))
    record.gated = metadata.annotations.get(GATED_BY, "")
    record.replaces = metadata.annotations.get(REPLACEMENT_FOR, "")
    record.reclaimed = {pod.name: pod.count for pod in workload.status.reclaimable_pods}
    record.waiting_for_replacement = _is_held_back(workload)
    record.created = seconds(metadata.creation_timestamp)
    if world.config.keep_first_submit_time:
        first = _moment(metadata.annotations.get(FIRST_SUBMITTED, ""))
        if first is not None and first < record.created + 1:  # creation times are whole seconds
            record.created = first
    world.weigh(record)


def _is_held_back(workload: Workload) -> bool:
    """Whether its job keeps it out of its queue: pods are missing, or it is on hold."""
    conditions = workload.status.conditions
    reserved = find_condition(conditions, "QuotaReserved")
    on_hold = reserved is not None and reserved.reason == "OnHold" and reserved.status == "False"
    return on_hold or true_condition(conditions, "WaitingForReplacementPods") is not None


def _moment(text: str) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo is not None else None


def _read_checks(record: Record, workload: Workload) -> None:
    for check in workload.status.admission_checks:
        after = check.requeue_after_seconds
        record.checks[check.name] = CheckVerdict(
            state=check.state,
            message=check.message,
            requeue_after_seconds=None if after is None else float(after),
            updates=check.pod_set_updates,
        )


def _read_status(world: World, record: Record, workload: Workload) -> None:
    """The state of a workload set by another writer, or by this engine before a restart."""
    status = workload.status
    record.active = workload.spec.active
    _read_checks(record, workload)
    if status.scheduling_stats is not None:
        for entry in status.scheduling_stats.evictions:
            record.evictions[entry.reason] = record.evictions.get(entry.reason, 0) + entry.count
    if status.requeue_state is not None:
        record.requeue_count = status.requeue_state.count or 0
        record.requeue_at = (
            seconds(status.requeue_state.requeue_at) if status.requeue_state.requeue_at is not None else None
        )
    _read_eviction(record, workload)
    record.pods_ready = true_condition(status.conditions, "PodsReady") is not None
    if true_condition(status.conditions, "Finished"):
        record.stage = Stage.FINISHED
        return
    reserved = true_condition(status.conditions, "QuotaReserved")
    if reserved is None or status.admission is None:
        return
    _read_admission(record, workload)
    record.reserved_at = seconds(reserved.last_transition_time)
    record.stage = Stage.ADMITTED if true_condition(status.conditions, "Admitted") else Stage.RESERVED
    record.cluster_queue = status.admission.cluster_queue
    record.failed_nodes = tuple(node.name for node in status.unhealthy_nodes)
    lifecycle.hold_again(world, record)
    if record.holding and record.evicted is None:
        lifecycle.call_for_place(world, record)


def _read_eviction(record: Record, workload: Workload) -> None:
    conditions = workload.status.conditions
    evicted = true_condition(conditions, "Evicted")
    if evicted is not None:
        known = next((reason for reason in EvictionReason if evicted.reason.startswith(reason)), None)
        record.evicted = known
        record.evicted_at = seconds(evicted.last_transition_time)
    preempted = true_condition(conditions, "Preempted")
    if preempted is not None:
        record.preemption_reason = preempted.reason
    requeued = find_condition(conditions, "Requeued")
    if requeued is not None and requeued.status == "False":
        record.requeue_held_by = "Deactivated" if requeued.reason.startswith("Deactivated") else requeued.reason


def _placement(assignment: TopologyAssignment | None) -> Placement | None:
    return decode(msgspec.to_builtins(assignment)) if assignment is not None else None


def _read_admission(record: Record, workload: Workload) -> None:
    admission = workload.status.admission
    counts = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    if admission is None:
        return
    record.admission = tuple(
        PodSetAdmission(
            assigned.name,
            assigned.count if assigned.count is not None else counts.get(assigned.name, 0),
            dict(assigned.flavors),
            {resource: amount_of(resource, quantity) for resource, quantity in assigned.resource_usage.items()},
            _placement(assigned.topology_assignment),
            assigned.delayed_topology_request or "",
        )
        for assigned in admission.pod_set_assignments
    )
