"""Transitions of a workload: enqueue, reserve, evict in two phases, finish.

Every change of a record's stage, place or hold on quota goes through a function here, and each tells the world what
follows from it: which tree to look at again, whom to wake, what to write. Who is to be admitted or evicted is decided
elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from fairway.admission import places
from fairway.admission.choices import Assignment
from fairway.admission.clusterqueues import QueueState
from fairway.admission.events import CheckVerdict
from fairway.admission.instructions import (
    Admit,
    Deactivate,
    DeactivationCause,
    Evict,
    EvictionReason,
    Explain,
    PodSetAdmission,
    Preemption,
    Requeue,
    RequeueReason,
    Start,
    Unreserve,
)
from fairway.admission.reasons import Explanation, Outcome
from fairway.admission.records import PendingPlace, Record, Stage, total_requests
from fairway.admission.resources import Amounts, FlavorResource
from fairway.admission.world import World
from fairway.apis.kueue.objects import CheckState

_REQUEUED_AT_ONCE = (EvictionReason.PREEMPTED, EvictionReason.NODE_FAILURES)
_REQUEUED_AFTER_BACKOFF = (EvictionReason.PODS_READY_TIMEOUT, EvictionReason.ADMISSION_CHECK)

# Waiting


def enqueue(world: World, record: Record) -> None:
    """Put a pending workload where it belongs: its queue, aside while it backs off, or nowhere while it may not be
    queued.
    """
    if record.place is not PendingPlace.NOWHERE or not record.admissible:
        return
    blocked = blocker(world, record)
    if blocked is not None:
        explain(world, record, blocked)
    if blocked is not None and blocked.outcome is not Outcome.QUEUE_INACTIVE:
        return
    queue = world.queue_for(record)
    if queue is None:
        return
    record.refresh_keys(world.config)
    world.show_later(queue)
    if record.backing_off(world.now):
        queue.pending.put_aside(record)
        return
    if queue.pending.push(record):
        ready(world, queue)


def ready(world: World, queue: QueueState) -> None:
    """Mark a queue that may have a workload to try."""
    world.forest.tree_of(queue).ready.add(queue.name)
    world.touch(queue)


def dequeue(world: World, record: Record) -> None:
    """Take a workload out of its queue. Its head may have changed by that."""
    if record.place is PendingPlace.NOWHERE:
        return
    queue = world.queue_for(record)
    if queue is not None:
        queue.pending.remove(record)
        world.show_later(queue)
        world.touch(queue)


def requeue(world: World, record: Record) -> None:
    """Something about the workload changed: it is tried anew, at its new place."""
    dequeue(world, record)
    enqueue(world, record)


def blocker(world: World, record: Record) -> Explanation | None:
    """What keeps a workload from being tried at all, whatever the quota."""
    if record.local_queue not in world.known_local_queues:
        return Explanation(Outcome.LOCAL_QUEUE_MISSING, record.local_queue_name)
    local = world.local_queue(record.local_queue)
    if local.stopped:
        return Explanation(Outcome.LOCAL_QUEUE_INACTIVE, record.local_queue_name)
    queue = world.queues.get(local.cluster_queue)
    if queue is None:
        return Explanation(Outcome.QUEUE_MISSING, local.cluster_queue)
    if not queue.active:
        return Explanation(Outcome.QUEUE_INACTIVE, queue.name)
    return None


def explain(world: World, record: Record, explanation: Explanation) -> None:
    if record.explanation != explanation:
        record.explanation = explanation
        world.out.append(Explain(at=world.now, key=record.key, explanation=explanation))


def backoff_over(world: World, record: Record) -> None:
    """Time has come for a workload that was to wait before it is tried again."""
    if not record.active or record.stage is not Stage.PENDING or _still_to_wait(world, record):
        return
    dequeue(world, record)
    come_back(world, record)


def _still_to_wait(world: World, record: Record) -> bool:
    return record.requeue_at is not None and record.requeue_at > world.now


def allow_requeue(world: World, record: Record, reason: RequeueReason) -> None:
    """What held a workload back is over."""
    record.requeue_held_by = ""
    world.out.append(Requeue(at=world.now, key=record.key, reason=reason))
    requeue(world, record)


# Getting quota


def reserve(world: World, record: Record, queue: QueueState, assignment: Assignment) -> None:
    """Give a workload what was assigned, and let it start when no check stands before it.

    A slice that it takes the place of ends at the same moment: what both have together is never more than the new one.
    """
    dequeue(world, record)
    replaced = world.replaced_by(record)
    record.admission = assignment.admission()
    record.usage = assignment.taken
    record.placed = assignment.placed
    if replaced is not None:
        record.replaced = replaced, replaced.stage
        record.usage = admitted_amounts(world, record)
        finish(world, replaced)
    # The API keeps whole seconds, and a restarted engine must agree with itself.
    record.reserved_at = float(int(world.now))
    record.evicted = None
    record.preemption_reason = ""
    record.progress = None
    record.explanation = None
    waiting = _sync_checks(record, queue)
    hold(world, record, queue, Stage.RESERVED if waiting else Stage.ADMITTED)
    queue.note_other_holders()  # in Kueue the echo of the write replaces the holder, which counts as one that left
    if world.usage.enabled and queue.order_by_usage:
        world.usage.penalise(record.local_queue, record.key, total_requests(record))
        if not waiting:
            settle_usage(world, record)
    world.out.append(
        Admit(
            at=world.now,
            key=record.key,
            cluster_queue=queue.name,
            pod_sets=record.admission,
            admitted=not waiting,
            pending_checks=waiting,
            waited_seconds=max(0.0, world.now - record.created),
            replaces="" if replaced is None else replaced.key,
        )
    )


def hold(world: World, record: Record, queue: QueueState, stage: Stage) -> None:
    """Count a workload's usage against its queue."""
    record.stage = stage
    record.cluster_queue = queue.name
    record.refresh_keys(world.config)
    queue.take(record)
    if record.placed:
        world.topologies.take(record.placed)
    world.show_later(queue)
    world.forest.tree_of(queue).version += 1
    if not record.pods_ready:
        world.unready.add(record.key)


def hold_again(world: World, record: Record) -> None:
    """Count a workload that was admitted while it did not count: it was inactive, or its queue was not there."""
    queue = world.queues.get(record.cluster_queue)
    if queue is None or record.queue is not None or not record.active:
        return
    if record.stage in (Stage.RESERVED, Stage.ADMITTED):
        record.usage = admitted_amounts(world, record)
        record.placed = places.placed_by(record)
        hold(world, record, queue, record.stage)


def admitted_amounts(world: World, record: Record) -> Amounts:
    """What an admission takes, less the pods that were reclaimed since."""
    total: dict[FlavorResource, int] = {}
    for pod_set in current_admission(record):
        for resource, flavor in pod_set.flavors.items():
            fr = world.frs.get(flavor, resource)
            total[fr] = total.get(fr, 0) + pod_set.usage.get(resource, 0)
    return tuple((fr, amount) for fr, amount in total.items() if amount)


def current_admission(record: Record) -> Iterator[PodSetAdmission]:
    """What each pod set has now: less than it was given once pods were reclaimed, or its job has become smaller."""
    demand = record.demand
    full = dict(zip((ask.name for ask in demand.asks), demand.full_counts, strict=True))
    for pod_set in record.admission:
        left = max(0, full.get(pod_set.name, pod_set.count) - record.reclaimed.get(pod_set.name, 0))
        if left >= pod_set.count:
            yield pod_set
        else:
            usage = {resource: amount // pod_set.count * left for resource, amount in pod_set.usage.items()}
            yield PodSetAdmission(pod_set.name, left, pod_set.flavors, usage)


def _sync_checks(record: Record, queue: QueueState) -> tuple[str, ...]:
    """Bring the workload's checks in line with its flavors; those that are not ready."""
    if not queue.checks and not record.checks:
        return ()
    flavors = {flavor for pod_set in record.admission for flavor in pod_set.flavors.values()}
    required = queue.required_checks(flavors)
    record.checks = {name: record.checks.get(name, CheckVerdict(state=CheckState.PENDING)) for name in required}
    return tuple(name for name in required if record.checks[name].state != CheckState.READY)


def checks_changed(world: World, record: Record) -> None:
    """Start, evict or deactivate by what the checks say now."""
    queue = record.queue
    if queue is None or record.evicted is not None:
        return
    waiting = _sync_checks(record, queue)
    rejected = {name: check for name, check in record.checks.items() if check.state == CheckState.REJECTED}
    retry = {name: check for name, check in record.checks.items() if check.state == CheckState.RETRY}
    if rejected:
        cause = DeactivationCause.ADMISSION_CHECK
        world.out.append(Deactivate(at=world.now, key=record.key, cause=cause, checks=rejected))
        deactivate(world, record, cause=cause, checks=rejected)
    elif retry:
        delays = [check.requeue_after_seconds for check in retry.values() if check.requeue_after_seconds]
        if delays:
            postpone(record, world.now + max(delays))
        evict(world, record, EvictionReason.ADMISSION_CHECK, checks=retry)
    elif not waiting and record.stage is Stage.RESERVED and places.pending(record):
        places.call_second_pass(world, record)
    elif not waiting and record.stage is Stage.RESERVED:
        record.stage = Stage.ADMITTED
        queue.changed(record)
        world.show_later(queue)
        if world.usage.enabled and queue.order_by_usage:
            settle_usage(world, record)
        world.out.append(Start(at=world.now, key=record.key, cluster_queue=queue.name))


def start_without_queue(world: World, record: Record) -> None:
    """Another writer has reserved quota in a ClusterQueue that is not there. As in Kueue it may start all the same."""
    if record.active and record.evicted is None and not _waits_for_checks(record) and not places.pending(record):
        record.stage = Stage.ADMITTED
        world.out.append(Start(at=world.now, key=record.key, cluster_queue=record.cluster_queue))


def call_for_place(world: World, record: Record) -> None:
    """After a restart: look for the place that a holder needs."""
    if (record.stage is Stage.RESERVED and not _waits_for_checks(record) and places.pending(record)) or (
        record.stage is Stage.ADMITTED and places.lost_node(record)
    ):
        places.call_second_pass(world, record)


def _waits_for_checks(record: Record) -> bool:
    return any(check.state != CheckState.READY for check in record.checks.values())


def postpone(record: Record, until: float) -> None:
    """Moments to requeue at are only ever moved later."""
    record.requeue_at = until if record.requeue_at is None else max(record.requeue_at, until)


def settle_usage(world: World, record: Record) -> None:
    world.usage.settle(record.local_queue, record.key, admitted_usage(world, record.local_queue), world.now)


def admitted_usage(world: World, local_queue: str) -> dict[str, int]:
    """What the admitted workloads of a LocalQueue use now, by resource; nothing of all others of its ClusterQueue."""
    local = world.local_queue(local_queue)
    queue = world.queues.get(local.cluster_queue)
    total = dict.fromkeys(sorted(queue.group_of), 0) if queue is not None else {}
    for record in local.records.values():
        if record.stage is Stage.ADMITTED:
            for fr, amount in record.usage:
                total[fr.resource] = total.get(fr.resource, 0) + amount
    return total


# Losing it: first the order to stop, then the release


def evict(
    world: World,
    record: Record,
    reason: EvictionReason,
    *,
    cause: str = "",
    message: str = "",
    checks: dict[str, CheckVerdict] | None = None,
    preemption: Preemption | None = None,
) -> None:
    """The first phase: the job is to stop. The quota stays taken until it has."""
    world.second_pass.pop(record.key, None)
    record.evicted = reason
    record.evicted_at = world.now
    record.refresh_keys(world.config)
    record.evictions[reason] = record.evictions.get(reason, 0) + 1
    record.checks = {name: CheckVerdict(state=CheckState.PENDING) for name in record.checks}
    if preemption is not None:
        record.preemption_reason = preemption.reason
    if record.queue is not None:
        record.queue.changed(record)
    world.out.append(
        Evict(
            at=world.now,
            key=record.key,
            reason=reason,
            cause=cause,
            message=message,
            checks=checks or {},
            preemption=preemption,
            requeue_at=record.requeue_at,
        )
    )


def release(world: World, record: Record, *, requeue: bool = True) -> None:
    """The second phase: the job has stopped.

    Its quota is free, and it queues again as the reason for its eviction lets it, unless it is not to come back.
    """
    reason = record.evicted
    let_go(world, record)
    _back_to_pending(record)
    record.progress = None
    if reason is None or (requeue and reason in _REQUEUED_AT_ONCE):
        record.requeue_held_by = ""
    else:
        record.requeue_held_by = reason
    come_back(world, record)


def _back_to_pending(record: Record) -> None:
    record.stage = Stage.PENDING
    record.admission = ()
    record.failed_nodes = ()
    record.cluster_queue = ""
    record.reserved_at = None


def come_back(world: World, record: Record) -> None:
    """Queue a pending workload again, now or when what holds it back is over."""
    held_by = record.requeue_held_by
    if not record.active:
        return
    if held_by in _REQUEUED_AFTER_BACKOFF and not _waits_for_time(world, record):
        allow_requeue(world, record, RequeueReason.BACKOFF_FINISHED)
    elif held_by == EvictionReason.DEACTIVATED:
        allow_requeue(world, record, RequeueReason.REACTIVATED)
    else:
        if not held_by:
            _waits_for_time(world, record)
        enqueue(world, record)
        restart_if_running(world, record)


def _waits_for_time(world: World, record: Record) -> bool:
    """Whether a back-off is left; if so, time will bring the workload back."""
    if _still_to_wait(world, record) and record.requeue_at is not None:
        world.call_at(record.requeue_at, record)
        return True
    record.requeue_at = None
    return False


def let_go(world: World, record: Record) -> None:
    """Free the quota that a workload holds, and wake those that may fit now."""
    queue = record.queue
    if queue is None:
        return
    world.set_ready(record)
    queue.give_back(record)
    world.show_later(queue)
    record.usage = ()
    places.leave(world, record)
    record.pods_ready = False
    world.forest.tree_of(queue).version += 1
    world.wake_later(queue)
    world.touch(queue)


def unreserve(world: World, record: Record, explanation: Explanation) -> None:
    """Take back a reservation that never became an admission, without an eviction."""
    let_go(world, record)
    _back_to_pending(record)
    record.explanation = explanation
    world.usage.forgive(record.local_queue, record.key)
    world.out.append(Unreserve(at=world.now, key=record.key, explanation=explanation))
    enqueue(world, record)


def take_back_eviction(world: World, record: Record) -> None:
    """An eviction could not be written: it did not happen, and those who search for victims must see it."""
    queue, reason = record.queue, record.evicted
    if queue is None or reason is None:
        return
    record.evictions[reason] -= 1
    if not record.evictions[reason]:
        del record.evictions[reason]
    record.evicted = None
    record.preemption_reason = ""
    record.refresh_keys(world.config)
    queue.changed(record)
    world.touch(queue)


def take_back_admission(world: World, record: Record) -> None:
    """An admission could not be written: it did not happen."""
    let_go(world, record)
    _back_to_pending(record)
    _bring_back_replaced(world, record)
    world.usage.forgive(record.local_queue, record.key)
    enqueue(world, record)


def _bring_back_replaced(world: World, record: Record) -> None:
    """The slice that ended for this one holds its quota again: what was to take its place was never stored."""
    if record.replaced is None:
        return
    (old, stage), record.replaced = record.replaced, None
    if world.records.get(old.key) is old and old.stage is Stage.FINISHED:
        old.stage = stage
        hold_again(world, old)


def restart_if_running(world: World, record: Record) -> None:
    """Workloads drained from a stopped queue may queue again once it runs."""
    local = world.local_queue(record.local_queue)
    if record.stage is not Stage.PENDING or not record.active:
        return
    if record.requeue_held_by == EvictionReason.LOCAL_QUEUE_STOPPED and not local.stopped:
        allow_requeue(world, record, RequeueReason.LOCAL_QUEUE_RESTARTED)
    elif record.requeue_held_by == EvictionReason.CLUSTER_QUEUE_STOPPED:
        queue = world.queues.get(local.cluster_queue)
        if queue is not None and queue.stop_policy == "None":
            allow_requeue(world, record, RequeueReason.CLUSTER_QUEUE_RESTARTED)


# Deactivation and the end


def deactivate(
    world: World, record: Record, *, cause: str = "", message: str = "", checks: dict[str, CheckVerdict] | None = None
) -> None:
    """An inactive workload is not queued, and its quota counts no more from this moment on."""
    record.active = False
    leave(world, record)
    record.requeue_at = None
    record.requeue_count = 0
    if record.evicted is None:
        evict(world, record, EvictionReason.DEACTIVATED, cause=cause, message=message, checks=checks)
    record.explanation = Explanation(Outcome.DEACTIVATED)


def leave(world: World, record: Record) -> None:
    """Take a workload out of queue and quota alike. Others of its tree are tried again even if it held nothing."""
    dequeue(world, record)
    if record.queue is not None:
        let_go(world, record)
        return
    queue = world.queue_for(record)
    if queue is not None:
        world.wake_later(queue)


def reactivate(world: World, record: Record) -> None:
    """An active workload counts again if its admission still stands, and queues if it has none."""
    record.active = True
    if record.stage is Stage.PENDING:
        come_back(world, record)
    else:
        hold_again(world, record)


def finish(world: World, record: Record) -> None:
    leave(world, record)
    world.usage.forgive(record.local_queue, record.key)
    record.stage = Stage.FINISHED


def forget(world: World, record: Record) -> None:
    """The object is gone."""
    finish(world, record)
    _bring_back_replaced(world, record)
    del world.records[record.key]
    world.local_queue(record.local_queue).records.pop(record.key, None)


def set_usage(world: World, record: Record, usage: Amounts) -> None:
    """A holder needs less (pods were reclaimed): count the new usage, and wake those that may fit now."""
    queue = record.queue
    if queue is None or usage == record.usage:
        return
    queue.give_back(record)
    record.usage = usage
    queue.take(record)
    queue.grow()
    world.show_later(queue)
    world.forest.tree_of(queue).version += 1
    world.wake_later(queue)
    world.touch(queue)
