"""Decides the next write of a Workload, from its decisions and its stored state.

One step is one write, with Kueue's conditions, reasons and messages. Valid decisions go into one write together, as far
as the API allows; a deactivation takes three, so that a restarted controller can continue after each: the cause, then
`spec.active`, then the eviction. Besides decisions there are chores: what a stored Workload needs by itself, whichever
client brought it into that state.
"""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

from fairway.admission import wording
from fairway.admission.instructions import (
    Admit,
    Deactivate,
    DeactivationCause,
    Evict,
    EvictionReason,
    Instruction,
    Place,
    PodSetAdmission,
    Replace,
    Requeue,
    Start,
    Unreserve,
)
from fairway.admission.reasons import Explanation, Outcome
from fairway.admission.records import Record, Stage
from fairway.apis.kueue import placements
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import format_amount
from fairway.apis.machinery.timestamps import stamp
from fairway.controllers.admission.observe import GATE_ANNOTATION, StoredWorkload
from fairway.controllers.kit.status import BLOCKED_ON_GATES, DEACTIVATION_TARGET, PREEMPTED, WorkloadStatusChange
from fairway.integrations import slices
from fairway.integrations.conditions import ADMITTED, EVICTED, QUOTA_RESERVED, REQUEUED

PENDING: Final = "Pending"
INADMISSIBLE: Final = "Inadmissible"
WAITING: Final = "Waiting"
GATED: Final = "AdmissionGated"

_REASONS: Final = {
    Outcome.QUEUE_INACTIVE: INADMISSIBLE,
    Outcome.QUEUE_MISSING: INADMISSIBLE,
    Outcome.LOCAL_QUEUE_INACTIVE: INADMISSIBLE,
    Outcome.LOCAL_QUEUE_MISSING: INADMISSIBLE,
    Outcome.WAITING_FOR_PODS_READY: WAITING,
}
"""Why a workload has no quota; all that a try found is `Pending`."""

_NOT_SHOWN: Final = frozenset(
    {Outcome.BACKING_OFF, Outcome.DEACTIVATED, Outcome.GATED, Outcome.NOT_TRIED, Outcome.ON_HOLD}
)
"""Outcomes without a condition of their own."""

_IS_ADMITTED: Final = "The workload is admitted"


class StatusEvent(NamedTuple):
    """An event to tell once a draft is written; `about` is another workload's key where it is not the draft's."""

    reason: str
    message: str
    warning: bool = False
    about: str = ""
    """Many victims of one preemptor are one event about it, with a series, as in Kueue."""


class Draft(WorkloadStatusChange):
    """One Workload's status in the making, with the events to tell once it is written."""

    def __init__(self, manifest: Manifest, now: datetime, now_text: str) -> None:
        super().__init__(manifest, now, now_text)
        self.notices: list[StatusEvent] = []

    # Getting quota

    def admit(self, said: Admit, checks: Iterable[str]) -> None:
        """Quota is reserved, and with no check left to wait for the workload may start."""
        requeued = self.find(REQUEUED)
        waited = self.seconds_since(
            self.manifest["metadata"]["creationTimestamp"] if requeued is None else requeued["lastTransitionTime"]
        )
        assignments = [_assignment(given) for given in said.pod_sets]
        self.put("admission", {"clusterQueue": said.cluster_queue, "podSetAssignments": assignments})
        self.put("resourceRequests", None)
        self.set(QUOTA_RESERVED, "True", QUOTA_RESERVED, wording.reserved(said))
        if len(self._conditions) > 1:  # beside the one that was just set
            for kind in (EVICTED, PREEMPTED, BLOCKED_ON_GATES):
                condition = self.find(kind)
                if condition is not None and condition["status"] == "True":
                    self.set(kind, "False", QUOTA_RESERVED, f"Previously: {condition['message']}")
        state = self.get("requeueState")
        if state is not None and (state.get("requeueAt") or self._now_text) < self._now_text:
            self.end_backoff()
        self.list_checks(checks)
        self._emit(
            QUOTA_RESERVED,
            f"Quota reserved in ClusterQueue {said.cluster_queue}, wait time since queued was {waited:.0f}s",
        )
        if said.admitted:
            self._admitted(said.cluster_queue, 0.0)

    def start(self, said: Start) -> None:
        """Every check is ready."""
        reserved = self.find(QUOTA_RESERVED)
        waited = self.seconds_since(reserved["lastTransitionTime"]) if reserved is not None else 0.0
        self._admitted(said.cluster_queue, waited)

    def place(self, said: Place) -> None:
        """The pods got a place, or another one; the nodes that had failed are no longer of interest."""
        admission = self.get("admission")
        if admission is not None:
            self.put("admission", {**admission, "podSetAssignments": [_assignment(given) for given in said.pod_sets]})
            self.put("unhealthyNodes", None)

    def _admitted(self, cluster_queue: str, waited: float) -> None:
        if self.is_true(ADMITTED):  # before it lost its quota: begin anew
            self.remove(ADMITTED)
        self.set(ADMITTED, "True", ADMITTED, _IS_ADMITTED)
        self._emit(ADMITTED, f"Admitted by ClusterQueue {cluster_queue}, wait time since reservation was {waited:.0f}s")

    def list_checks(self, required: Iterable[str]) -> None:
        """Bring the list of checks in line with those that are needed; new ones are pending."""
        known = {check["name"]: check for check in self.get("admissionChecks") or ()}
        listed = [known.get(name) or self.new_check(name) for name in sorted(required)]
        self.put("admissionChecks", listed or None)

    # Losing it

    def carry_out_eviction(self, said: Evict, victim: Record, preemptor: Record | None) -> None:
        """The first phase of an eviction: the job is to stop."""
        cause, message = str(said.cause), wording.eviction(said)
        target = self.find(DEACTIVATION_TARGET)
        if said.reason is EvictionReason.DEACTIVATED and not cause and target is not None:
            cause, message = target["reason"], f"{message} due to {target['message']}"
        requeue_at = "" if said.requeue_at is None else stamp(datetime.fromtimestamp(said.requeue_at, UTC))
        preempted = "" if said.preemption is None else str(said.preemption.reason)
        reason = self.evict(str(said.reason), message, cause, requeue_at=requeue_at, preempted=preempted)
        if self.get("admission") is None:
            return
        self._emit(f"{EVICTED}DueTo{reason}", message)
        if said.preemption is not None:
            ranks = f"preemptor effective {_rank(preemptor)}; preemptee effective {_rank(victim)}"
            self._emit(PREEMPTED, f"{message}; {ranks}")
            what = f"Preempted workload {victim.key} (UID: {victim.uid}) in ClusterQueue {victim.cluster_queue}"
            self.notices.append(StatusEvent("PreemptedWorkload", f"{what}; {ranks}", about=said.preemption.preemptor))

    def give_back(self, said: Unreserve) -> None:
        """A reservation is given back that never became an admission."""
        self.unreserve(_REASONS.get(said.explanation.outcome, INADMISSIBLE), wording.waiting(said.explanation))

    def end_for_another(self, said: Replace) -> None:
        """A slice ends, because another of its job was admitted in its place."""
        message = slices.replaced_message(said.uid, said.job_uid)
        self.finish(slices.REPLACED, message)
        self._emit(slices.REPLACED, message)

    def begin_deactivation(self, said: Deactivate) -> None:
        message = wording.deactivation(said)
        self.mark_for_deactivation(said.cause, message)
        if said.cause == DeactivationCause.ADMISSION_CHECK:
            self._emit("AdmissionCheckRejected", f"Deactivated due to {message}", warning=True)

    # Waiting

    def requeue(self, said: Requeue) -> None:
        """What kept it out of its queue is over."""
        self.end_backoff()
        self.set(REQUEUED, "True", said.reason, wording.requeue(said.reason))

    def explain(self, explanation: Explanation, record: Record) -> None:
        """It was looked at and waits on."""
        if explanation.outcome in _NOT_SHOWN:
            return
        reason, message = _REASONS.get(explanation.outcome, PENDING), wording.waiting(explanation)
        before = self.find(QUOTA_RESERVED)
        same = before is not None and (before["status"], before["reason"], before["message"]) == (
            "False",
            reason,
            message,
        )
        self.unreserve(reason, message)
        if reason != PENDING:
            return
        requests = [
            {"name": ask.name, "resources": {name: _quantity(name, amount) for name, amount in sorted(ask.requests)}}
            for ask in record.demand.asks
        ]
        self.put("resourceRequests", requests or None)
        if not same:
            self._emit(PENDING, message, warning=True)

    def show_gate(self, gate: str) -> None:
        self.unreserve(GATED, f"Admission is gated by: {gate}")
        self._emit(GATED, f"Workload admission is gated by: {gate}")

    def show_no_gate(self) -> None:
        self.unreserve(PENDING, "AdmissionGatedBy cleared, waiting for quota reservation")
        self._emit("AdmissionGateCleared", "Admission gate cleared, workload is now admissible")

    def _emit(self, reason: str, message: str, *, warning: bool = False) -> None:
        self.notices.append(StatusEvent(reason, message, warning))


def first_admission(
    said: Admit, manifest: Manifest, now: datetime, now_text: str
) -> tuple[Manifest, tuple[StatusEvent, ...]]:
    """What a draft comes to for a Workload that has no status yet and needs no check: the patch, and what to tell."""
    metadata, queue = manifest["metadata"], said.cluster_queue
    message = wording.reserved(said)
    reserved = {
        "type": QUOTA_RESERVED,
        "status": "True",
        "reason": QUOTA_RESERVED,
        "message": message,
        "lastTransitionTime": now_text,
    }
    admitted = {
        "type": ADMITTED,
        "status": "True",
        "reason": ADMITTED,
        "message": _IS_ADMITTED,
        "lastTransitionTime": now_text,
    }
    if "generation" in metadata:
        reserved["observedGeneration"] = admitted["observedGeneration"] = metadata["generation"]
    assignments = [_assignment(given) for given in said.pod_sets]
    admission = {"clusterQueue": queue, "podSetAssignments": assignments}
    waited = (now - datetime.fromisoformat(metadata["creationTimestamp"])).total_seconds()
    notices = (
        StatusEvent(QUOTA_RESERVED, f"{message}, wait time since queued was {waited:.0f}s"),
        StatusEvent(ADMITTED, f"Admitted by ClusterQueue {queue}, wait time since reservation was 0s"),
    )
    return {"status": {"admission": admission, "conditions": [reserved, admitted]}}, notices


def _rank(record: Record | None) -> str:
    if record is None:
        return "priority: unknown"
    return f"priority: {record.priority} (base: {record.base_priority}, boost: {record.earned})"


def _assignment(given: PodSetAdmission) -> dict[str, Any]:
    assignment: dict[str, Any] = {
        "name": given.name,
        "flavors": dict(given.flavors),
        "resourceUsage": {name: _quantity(name, amount) for name, amount in given.usage.items()},
        "count": given.count,
    }
    if given.placement is not None:
        assignment["topologyAssignment"] = placements.encode(given.placement)
    if given.delayed:
        assignment["delayedTopologyRequest"] = given.delayed
    return assignment


@lru_cache(maxsize=4096)
def _quantity(resource: str, amount: int) -> str:
    return format_amount(resource, amount)


class WorkloadCase(NamedTuple):
    """One Workload: stored, observed, decided on. `required` are the checks that it needs, if known."""

    manifest: Manifest
    seen: StoredWorkload
    record: Record
    required: tuple[str, ...] | None
    now: datetime
    now_text: str
    find: Callable[[str], Record | None]
    """Other workloads, by key."""


class Step(NamedTuple):
    """One write, and what is done with it."""

    patch: dict[str, Any]
    subresource: str
    notices: tuple[StatusEvent, ...]
    done: tuple[Instruction, ...]
    read_again: bool = False
    """The engine did not decide this, and has to look at what is stored afterwards."""


def holds(decision: Instruction, record: Record, seen: StoredWorkload) -> bool:
    """Whether a decision is still to be written; it may have been overtaken while it waited."""
    match decision:
        case Admit(pod_sets=given):
            return record.admission is given and record.stage in (Stage.RESERVED, Stage.ADMITTED)
        case Start():
            return record.stage is Stage.ADMITTED
        case Place(pod_sets=given):
            return record.admission is given and seen.reserved
        case Deactivate():
            return seen.active and not record.active
        case Evict(reason=EvictionReason.DEACTIVATED):
            return not record.active and not seen.evicted
        case Evict():  # one that is stored was written, and its answer lost
            shown = seen.evicted and seen.reserved
            return record.evicted is not None and record.stage is not Stage.PENDING and not shown
        case Unreserve():
            return seen.reserved
        case _:
            return True


def has_chores(seen: StoredWorkload, record: Record, required: tuple[str, ...] | None) -> bool:
    """Whether what is stored asks for something by itself."""
    if seen.finished:
        return False
    if seen.active and seen.deactivating:
        return True
    if not seen.active and (not seen.evicted or seen.backing_off or seen.deactivating):
        return True
    if not seen.reserved and seen.gate_shown != bool(seen.annotations.get(GATE_ANNOTATION)):
        return True
    return _checks_differ(seen, record, required)


def next_step(case: WorkloadCase, todo: Iterable[Instruction], explanation: Explanation | None = None) -> Step | None:
    """The next write, or `None` when all is as it should be."""
    todo = tuple(todo)
    step = _first_admission(case, todo) or _deactivation(case, todo)
    if step is not None:
        return step
    draft = Draft(case.manifest, case.now, case.now_text)
    done: list[Instruction] = []
    for decision in todo:
        if isinstance(decision, Admit) and _has_admission(case.manifest):
            # An admission is never changed; the old one goes first.
            if not done:
                draft.put("admission", None)
            return _step(draft, done)
        _apply(draft, decision, case)
        done.append(decision)
    evicted = _tidy(draft, case, done)
    if explanation is not None and _is_explained(case, done, explanation):
        draft.explain(explanation, case.record)
    step = _step(draft, done)
    return step._replace(read_again=evicted) if step is not None else None


def _first_admission(case: WorkloadCase, todo: tuple[Instruction, ...]) -> Step | None:
    """The commonest step, without a draft: a Workload that nothing was written of is admitted, and that is all."""
    if len(todo) != 1 or case.required or case.manifest.get("status") or not case.seen.active or case.seen.deactivating:
        return None
    said = todo[0]
    if not isinstance(said, Admit) or not said.admitted:
        return None
    patch, notices = first_admission(said, case.manifest, case.now, case.now_text)
    return Step(patch, "status", notices, todo)


def _step(draft: Draft, done: Iterable[Instruction]) -> Step | None:
    patch = draft.patch
    return None if patch is None else Step(patch, "status", tuple(draft.notices), tuple(done))


def _deactivation(case: WorkloadCase, todo: tuple[Instruction, ...]) -> Step | None:
    """The steps before the eviction of one that is to be inactive and is not yet."""
    if not case.seen.active:
        return None
    if not case.seen.deactivating:
        marked = next((one for one in todo if isinstance(one, Deactivate)), None)
        if marked is None:
            return None
        draft = Draft(case.manifest, case.now, case.now_text)
        draft.begin_deactivation(marked)
        return _step(draft, [marked])
    return Step({"spec": {"active": False}}, "", (), ())


def _apply(draft: Draft, decision: Instruction, case: WorkloadCase) -> None:
    match decision:
        case Admit():
            draft.admit(decision, case.required or ())
        case Start():
            draft.start(decision)
        case Place():
            draft.place(decision)
        case Evict(preemption=preemption):
            preemptor = case.find(preemption.preemptor) if preemption is not None else None
            draft.carry_out_eviction(decision, case.record, preemptor)
        case Unreserve():
            draft.give_back(decision)
        case Requeue():
            draft.requeue(decision)
        case Replace():
            draft.end_for_another(decision)


def _tidy(draft: Draft, case: WorkloadCase, done: list[Instruction]) -> bool:
    """Do the chores; returns whether one of them was an eviction that was not decided by the engine."""
    seen, record = case.seen, case.record
    evicting = any(isinstance(one, Evict) for one in done)
    if not seen.active and not seen.evicted and not evicting:
        said = Evict(at=case.now.timestamp(), key=record.key, reason=EvictionReason.DEACTIVATED)
        draft.carry_out_eviction(said, record, None)
        return True
    if not seen.active and (seen.backing_off or seen.deactivating):
        draft.end_deactivation()
    if not seen.reserved and not done:
        gate = seen.annotations.get(GATE_ANNOTATION, "")
        if gate and not seen.gate_shown:
            draft.show_gate(gate)
        elif seen.gate_shown and not gate:
            draft.show_no_gate()
    if not done and case.required is not None and _checks_differ(seen, record, case.required):
        draft.list_checks(case.required)
    return False


def _checks_differ(seen: StoredWorkload, record: Record, required: tuple[str, ...] | None) -> bool:
    if required is None or (not required and not seen.checks):
        return False
    if record.stage is Stage.PENDING and seen.reserved:
        return False  # its quota is on its way back
    return tuple(sorted(check["name"] for check in seen.checks or ())) != required


def _is_explained(case: WorkloadCase, done: list[Instruction], explanation: Explanation) -> bool:
    """Whether this is still why it waits."""
    record = case.record
    return (
        record.stage is Stage.PENDING
        and record.active
        and not case.seen.reserved
        and not case.seen.held_back
        and record.explanation == explanation
        and not any(isinstance(one, Admit) for one in done)
    )


def _has_admission(manifest: Manifest) -> bool:
    return (manifest.get("status") or {}).get("admission") is not None
