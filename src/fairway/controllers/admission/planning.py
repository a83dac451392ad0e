"""What to write to a Workload next, given what was decided on it and what is stored.

One step is one write. Decisions that still hold go into one write together, as far as the API lets them; a deactivation
takes three, so that whoever takes over in the middle knows how to go on: why, then `spec.active`, then the eviction.
Beside decisions there are chores: what a stored Workload asks for by itself, whoever brought it into that state.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, NamedTuple

from fairway.admission.instructions import (
    Admit,
    Deactivate,
    Evict,
    EvictionReason,
    Instruction,
    Requeue,
    Start,
    Unreserve,
)
from fairway.admission.reasons import Explanation
from fairway.admission.records import Record, Stage
from fairway.apis.machinery.kind import Manifest
from fairway.controllers.admission.drafts import Draft, Notice, first_admission
from fairway.controllers.admission.observing import GATE_ANNOTATION, Seen


class Case(NamedTuple):
    """One Workload: stored, heard of, decided on. `required` are the checks that it needs, if that is known."""

    manifest: Manifest
    seen: Seen
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
    notices: tuple[Notice, ...]
    done: tuple[Instruction, ...]
    read_again: bool = False
    """The engine did not decide this, and has to look at what is stored afterwards."""


def holds(decision: Instruction, record: Record, seen: Seen) -> bool:
    """Whether a decision is still to be written; it may have been overtaken while it waited."""
    match decision:
        case Admit(pod_sets=given):
            return record.admission is given and record.stage in (Stage.RESERVED, Stage.ADMITTED)
        case Start():
            return record.stage is Stage.ADMITTED
        case Deactivate():
            return seen.active and not record.active
        case Evict(reason=EvictionReason.DEACTIVATED):
            return not record.active and not seen.evicted
        case Evict():
            return record.evicted is not None and record.stage is not Stage.PENDING
        case Unreserve():
            return seen.reserved
        case _:
            return True


def has_chores(seen: Seen, record: Record, required: tuple[str, ...] | None) -> bool:
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


def next_step(case: Case, todo: Iterable[Instruction], explanation: Explanation | None = None) -> Step | None:
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


def _first_admission(case: Case, todo: tuple[Instruction, ...]) -> Step | None:
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


def _deactivation(case: Case, todo: tuple[Instruction, ...]) -> Step | None:
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


def _apply(draft: Draft, decision: Instruction, case: Case) -> None:
    match decision:
        case Admit():
            draft.admit(decision, case.required or ())
        case Start():
            draft.start(decision)
        case Evict(preemption=preemption):
            preemptor = case.find(preemption.preemptor) if preemption is not None else None
            draft.carry_out_eviction(decision, case.record, preemptor)
        case Unreserve():
            draft.give_back(decision)
        case Requeue():
            draft.requeue(decision)


def _tidy(draft: Draft, case: Case, done: list[Instruction]) -> bool:
    """Carry out the chores; whether one of them was an eviction that nobody had decided."""
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


def _checks_differ(seen: Seen, record: Record, required: tuple[str, ...] | None) -> bool:
    if required is None or (not required and not seen.checks):
        return False
    if record.stage is Stage.PENDING and seen.reserved:
        return False  # its quota is on its way back
    return tuple(sorted(check["name"] for check in seen.checks or ())) != required


def _is_explained(case: Case, done: list[Instruction], explanation: Explanation) -> bool:
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
