"""What the API would hold: workloads with the status that instructions lead to. A restarted engine gets these."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fairway.admission import wording
from fairway.admission.engine import Engine
from fairway.admission.events import (
    CheckVerdict,
    Event,
    QuotaReleased,
    WorkloadAdded,
    WorkloadDeleted,
    WorkloadFinished,
)
from fairway.admission.instructions import Admit, Evict, EvictionReason, Instruction, Requeue, Start, Unreserve
from fairway.apis.kueue import objects
from fairway.apis.kueue.objects import (
    Admission,
    AdmissionCheckState,
    Condition,
    ConditionStatus,
    PodSetAssignment,
    RequeueState,
    SchedulingStats,
    SchedulingStatsEviction,
    Workload,
)
from fairway.apis.machinery.quantities import quantity_of
from fairway.testing.builders import START, Bench, moment

_BACK_AT_ONCE = (EvictionReason.PREEMPTED, EvictionReason.NODE_FAILURES)


def condition(kind: str, reason: str, *, true: bool = True, at: float = START, message: str = "") -> Condition:
    status = ConditionStatus.TRUE if true else ConditionStatus.FALSE
    return Condition(type=kind, status=status, reason=reason, message=message, last_transition_time=moment(at))


class Stored:
    """The workloads of a control plane, as its job controller and its writer leave them."""

    def __init__(self) -> None:
        self.workloads: dict[str, Workload] = {}

    @classmethod
    def after(cls, bench: Bench) -> Stored:
        """Play again all that a bench's engine heard and said."""
        stored, engine = cls(), Engine(bench.engine.config)
        for batch in bench.heard:
            for event in batch:
                stored.hear(event)
            stored.obey(engine.handle(*batch))
        return stored

    def hear(self, event: Event) -> None:
        match event:
            case WorkloadAdded(workload=made):
                self.workloads[made.key] = made
            case WorkloadDeleted(key=key):
                self.workloads.pop(key, None)
            case WorkloadFinished(key=key, at=at):
                self._set(key, condition("Finished", "Succeeded", at=at))
            case QuotaReleased(key=key, at=at):
                self._release(key, at)

    def obey(self, said: Iterable[Instruction]) -> None:
        for each in said:
            match each:
                case Admit():
                    self._admit(each)
                case Start(key=key, at=at):
                    self._set(key, condition("Admitted", "Admitted", at=at))
                case Evict():
                    self._evict(each)
                case Unreserve(key=key, at=at):
                    self._set(key, condition("QuotaReserved", "Pending", true=False, at=at))
                    self._status(key, admission=None)
                case Requeue(key=key, at=at, reason=reason):
                    self._set(key, condition("Requeued", reason, at=at))

    def _admit(self, said: Admit) -> None:
        assignments = tuple(
            PodSetAssignment(
                name=each.name,
                count=each.count,
                flavors=each.flavors,
                resource_usage={name: quantity_of(name, amount) for name, amount in each.usage.items()},
            )
            for each in said.pod_sets
        )
        checks = tuple(_check(name, CheckVerdict(state="Pending"), said.at) for name in said.pending_checks)
        admission = Admission(cluster_queue=said.cluster_queue, pod_set_assignments=assignments)
        self._status(said.key, admission=admission, admission_checks=checks)
        self._set(said.key, condition("QuotaReserved", "QuotaReserved", at=said.at))
        for kind in ("Evicted", "Preempted"):
            if any(each.type == kind for each in self.workloads[said.key].status.conditions):
                self._set(said.key, condition(kind, "QuotaReserved", true=False, at=said.at))
        if said.admitted:
            self._set(said.key, condition("Admitted", "Admitted", at=said.at))

    def _evict(self, said: Evict) -> None:
        self._set(said.key, condition("Evicted", said.reason, at=said.at, message=wording.eviction(said)))
        if said.preemption is not None:
            self._set(said.key, condition("Preempted", said.preemption.reason, at=said.at))
        status = self.workloads[said.key].status
        counts = (
            {}
            if status.scheduling_stats is None
            else {each.reason: each.count for each in status.scheduling_stats.evictions}
        )
        counts[said.reason] = counts.get(said.reason, 0) + 1
        self._status(
            said.key,
            scheduling_stats=SchedulingStats(
                evictions=tuple(
                    SchedulingStatsEviction(reason=reason, underlying_cause="", count=count)
                    for reason, count in counts.items()
                )
            ),
            admission_checks=tuple(
                msgspec.structs.replace(each, state=objects.CheckState.PENDING) for each in status.admission_checks
            ),
        )
        if said.requeue_at is not None:
            self._status(said.key, requeue_state=RequeueState(count=1, requeue_at=moment(said.requeue_at)))

    def _release(self, key: str, at: float) -> None:
        made = self.workloads.get(key)
        if made is None or made.status.admission is None:
            return
        evicted = next((each.reason for each in made.status.conditions if each.type == "Evicted" and each.is_true), "")
        self._set(key, condition("QuotaReserved", "Pending", true=False, at=at))
        self._set(key, condition("Admitted", "NoReservation", true=False, at=at))
        if evicted:
            self._set(key, condition("Requeued", evicted, true=evicted in _BACK_AT_ONCE, at=at))
        self._status(key, admission=None)

    def _set(self, key: str, new: Condition) -> None:
        others = (each for each in self.workloads[key].status.conditions if each.type != new.type)
        self._status(key, conditions=(*others, new))

    def _status(self, key: str, **changes: object) -> None:
        made = self.workloads[key]
        self.workloads[key] = msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, **changes))


def _check(name: str, verdict: CheckVerdict, at: float) -> AdmissionCheckState:
    return AdmissionCheckState(
        name=name, state=objects.CheckState(verdict.state), message=verdict.message, last_transition_time=moment(at)
    )
