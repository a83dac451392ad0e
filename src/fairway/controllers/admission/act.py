"""Writes decisions to Workloads.

Each Workload with pending writes has a desk with its decisions in order. A write is based on the state that the engine
has, with its resource version as a precondition; after a conflict, the engine gets the newer state before the decision
is tried again. Many Workloads are written at the same time, none of them twice.

The engine may assume its own decisions at once, but the store must stay consistent: while a write that frees quota is
in progress, no admission is written, because a crash between the two would leave both in the store.

Reasons why a workload waits change with every try, and under load there are thousands of tries a second. So an
explanation is delayed a moment, because the workload may be admitted first; only the latest is written, at most one a
second for a workload, and hardly any while there are admissions to write.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final

from fairway.admission import events, wording
from fairway.admission.engine import Engine
from fairway.admission.instructions import (
    Admit,
    Deactivate,
    Evict,
    EvictionReason,
    Explain,
    Instruction,
    Replace,
    SecondPassFailed,
    Unreserve,
)
from fairway.admission.reasons import Explanation
from fairway.admission.records import Record
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.timestamps import stamp
from fairway.client.cluster import Cluster
from fairway.client.recorder import WARNING, Recorder
from fairway.controllers.admission.decide import Step, WorkloadCase, has_chores, holds, next_step
from fairway.controllers.admission.observe import StoredWorkload
from fairway.controllers.admission.sources import WorkloadSource
from fairway.errors import ApiError, Conflict, FairwayError, NotFound, ValidationError
from fairway.runtime.backoff import Backoff
from fairway.runtime.clock import Clock, Timer

_SETTLE_SECONDS: Final = 0.1
_APART_SECONDS: Final = 1.0
_TICK_SECONDS: Final = 0.05
_MOST_WHEN_IDLE: Final = 16
_MOST_WHEN_BUSY: Final = 2

_log = logging.getLogger(__name__)
_MOST_AT_ONCE: Final = 256
_BACKOFF: Final = Backoff(first=0.02, cap=5.0)
_REFUSED: Final = Backoff(first=1.0, cap=300.0)
_REFUSALS: Final = frozenset({400, 403, 413, 422})


class Explanations:
    """Those that are still to be written. One without reasons asks for chores only."""

    def __init__(self, clock: Clock, ring: Callable[[], None]) -> None:
        """`ring` is called when something may be due."""
        self._clock = clock
        self._ring = ring
        self._waiting: dict[str, Explanation | None] = {}
        self._order: list[tuple[float, int, str]] = []
        self._sequence = count()
        self._said: dict[str, float] = {}
        self._timer: Timer | None = None

    def put(self, key: str, explanation: Explanation | None) -> None:
        """Say this of a workload, instead of what was to be said."""
        if key in self._waiting:
            if explanation is not None:
                self._waiting[key] = explanation
            return
        self._waiting[key] = explanation
        now = self._clock.monotonic()
        due = max(now + _SETTLE_SECONDS, self._said.get(key, now - _APART_SECONDS) + _APART_SECONDS)
        heappush(self._order, (due, next(self._sequence), key))
        self._wind(due - now)

    def drop(self, key: str) -> None:
        """There is nothing to say of this workload any more."""
        self._waiting.pop(key, None)
        self._said.pop(key, None)

    def clear(self) -> None:
        self._waiting.clear()
        self._order.clear()
        self._said.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def due(self, *, idle: bool) -> list[tuple[str, Explanation | None]]:
        """A few that are due, earliest first."""
        now = self._clock.monotonic()
        if self._timer is not None:
            return []
        most = _MOST_WHEN_IDLE if idle else _MOST_WHEN_BUSY
        found: list[tuple[str, Explanation | None]] = []
        while self._order and len(found) < most and self._order[0][0] <= now:
            _, _, key = heappop(self._order)
            if key in self._waiting:
                self._said[key] = now
                found.append((key, self._waiting.pop(key)))
        if self._order:
            self._wind(max(_TICK_SECONDS, self._order[0][0] - now))
        return found

    def _wind(self, seconds: float) -> None:
        if self._timer is None:
            self._timer = self._clock.call_later(seconds, self._rung)

    def _rung(self) -> None:
        self._timer = None
        self._ring()


class PendingWrites:
    """What is still to be written of one Workload."""

    __slots__ = ("explanation", "failures", "retry", "todo")

    def __init__(self) -> None:
        self.todo: list[Instruction] = []
        self.explanation: Explanation | None = None
        self.failures = 0
        self.retry: Timer | None = None


class Writes:
    """All desks, and the writes under way."""

    def __init__(
        self,
        cluster: Cluster,
        recorder: Recorder,
        intake: WorkloadSource,
        wake: Callable[[], None],
    ) -> None:
        """`wake` asks for a turn of the controller."""
        self._clock = cluster.clock
        self._writer = cluster.writer("kueue-admission")
        self._recorder = recorder
        self._intake = intake
        self._wake = wake
        self._outcomes: list[events.Event] = []
        self._engine = Engine()
        self._explanations = Explanations(cluster.clock, wake)
        self._desks: dict[str, PendingWrites] = {}
        self._ready: deque[str] = deque()
        self._held: deque[str] = deque()
        """Admissions that wait until freed quota is free in the store, too."""
        self._freeing: set[str] = set()
        self._refusals: dict[str, int] = {}
        self._busy: dict[str, asyncio.Future[Any]] = {}
        intake.busy = self._busy
        self.resting = False
        """Set while no write may begin."""

    @property
    def busy(self) -> Collection[str]:
        """The Workloads that are being written."""
        return self._busy

    def serve(self, engine: Engine) -> list[events.Event]:
        """Write for another engine from now on; what others had asked of the old one and was not written."""
        unwritten = [
            events.EvictionRequested(at=one.at, key=one.key, reason=one.reason, cause=one.cause, message=one.message)
            for desk in self._desks.values()
            for one in desk.todo
            if isinstance(one, Evict) and _was_asked_for(one)
        ]
        for desk in self._desks.values():
            _cancel(desk)
        self._desks.clear()
        self._ready.clear()
        self._held.clear()
        self._freeing.clear()
        self._explanations.clear()
        self._outcomes.clear()
        self._engine = engine
        return list(unwritten)

    async def stop(self) -> None:
        """Drop everything; what was not written is decided again after the next start."""
        self.serve(Engine())
        under_way = list(self._busy.values())
        self._busy.clear()
        for write in under_way:
            write.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    def outcomes(self) -> list[events.Event]:
        """The results of writes that the engine must get before anything else."""
        happened, self._outcomes = self._outcomes, []
        return happened

    # What is to be written

    def take(self, decisions: Iterable[Instruction]) -> None:
        """Write these, in this order where they are about the same Workload."""
        for decision in decisions:
            key = decision.key
            if isinstance(decision, Explain):
                self._explanations.put(key, decision.explanation)
                continue
            if isinstance(decision, SecondPassFailed):
                self._report_second_pass(key, decision)
                continue
            self._desk(key).todo.append(decision)
            if isinstance(decision, Admit):
                self._explanations.drop(key)
            elif isinstance(decision, Unreserve | Deactivate):
                seen = self._intake.seen(key)
                if seen is not None and seen.counts:
                    self._freeing.add(key)

    def _report_second_pass(self, key: str, said: SecondPassFailed) -> None:
        """A workload found no place in a topology: an event, for its conditions stay as they are."""
        manifest = self._intake.manifest(key)
        if manifest is not None:
            self._recorder.series(manifest, "SecondPassFailed", wording.waiting(said.explanation), WARNING)

    def look_at(self, keys: Iterable[str]) -> None:
        """The engine has the newest state of these: continue with them and their chores."""
        engine = self._engine
        for key in keys:
            desk = self._desks.get(key)
            if desk is not None:
                self._resume(key, desk)
                continue
            seen, record = self._intake.seen(key), engine.record(key)
            if seen is None or record is None:
                self._explanations.drop(key)
                self._refusals.pop(key, None)
            elif has_chores(seen, record, engine.required_checks(record)):
                if seen.reserved or not seen.active or seen.deactivating:
                    self._desk(key)
                else:
                    self._explanations.put(key, None)

    def begin(self) -> None:
        """Begin as many writes as there is room for."""
        for key, explanation in self._explanations.due(idle=not self._ready and not self._busy):
            self._desk(key).explanation = explanation
        if not self._ready:
            return
        now = self._clock.now()
        now_text = stamp(now)
        while self._ready and len(self._busy) < _MOST_AT_ONCE and not self.resting:
            self._begin(self._ready.popleft(), now, now_text)

    def _desk(self, key: str) -> PendingWrites:
        desk = self._desks.get(key)
        if desk is None:
            desk = self._desks[key] = PendingWrites()
            self._ready.append(key)
        return desk

    def _resume(self, key: str, desk: PendingWrites) -> None:
        _cancel(desk)
        if key not in self._busy:
            self._ready.append(key)

    # Writing

    def _begin(self, key: str, now: datetime, now_text: str) -> None:
        desk = self._desks.get(key)
        if desk is None or desk.retry is not None or key in self._busy or self._intake.is_behind(key):
            return
        case = self._case(key, now, now_text)
        if case is None:
            self._close(key)
            return
        self._drop_overtaken(desk, case.record, case.seen)
        step = next_step(case, desk.todo, desk.explanation)
        if step is None:
            self._close(key)
        elif self._freeing and self._freeing - {key} and any(isinstance(one, Admit) for one in step.done):
            self._held.append(key)
        else:
            ended = partial(self._ended, key, desk, case, step)
            self._busy[key] = self._writer.begin_patch(
                "workloads", case.manifest, step.patch, ended, subresource=step.subresource
            )

    def _case(self, key: str, now: datetime, now_text: str) -> WorkloadCase | None:
        manifest, seen, record = self._intake.manifest(key), self._intake.seen(key), self._engine.record(key)
        if manifest is None or seen is None or record is None or seen.finished:
            return None
        required = self._engine.required_checks(record)
        return WorkloadCase(manifest, seen, record, required, now, now_text, self._engine.record)

    def _drop_overtaken(self, desk: PendingWrites, record: Record, seen: StoredWorkload) -> None:
        kept = [one for one in desk.todo if holds(one, record, seen)]
        if len(kept) == len(desk.todo):
            return
        for one in desk.todo:
            undone = isinstance(one, Evict) and one not in kept and not (seen.evicted and seen.reserved)
            if undone and record.active and record.evicted is not None:
                # It was deactivated and activated again before the write.
                self._pass_on(events.WriteFailed(at=self._now(), key=record.key))
        desk.todo = kept

    def _ended(
        self, key: str, desk: PendingWrites, case: WorkloadCase, step: Step, result: Callable[[], Manifest]
    ) -> None:
        if key not in self._busy:
            return  # it was let go of
        try:
            written = result()
        except NotFound:
            self._pass_on(*self._intake.gone(key, self._now()))
            desk.todo.clear()
        except Conflict:
            self._try_later(key, desk)  # at the latest; sooner when the engine has the newer state
        except FairwayError as error:
            if _is_refusal(error):
                self._refused(key, desk, error)
            else:
                _log.warning("workload %s: %s; retrying", key, error)
                self._try_later(key, desk)
        except Exception:  # noqa: BLE001 - a mistake in one object's case must not stop the work on all others
            _log.exception("workload %s: writing failed; retrying", key)
            self._try_later(key, desk)
        else:
            self._wrote(key, desk, case, step, written)
        finally:
            del self._busy[key]
            if self._desks.get(key) is desk and desk.retry is None:
                if self._is_done(key, desk):
                    self._close(key)
                else:
                    self._ready.append(key)
            if self._ready or self._intake.is_behind(key) or self.resting:
                self._wake()

    def _is_done(self, key: str, desk: PendingWrites) -> bool:
        if desk.todo or desk.explanation is not None:
            return False
        seen, record = self._intake.seen(key), self._engine.record(key)
        return seen is None or record is None or not has_chores(seen, record, self._engine.required_checks(record))

    def _wrote(self, key: str, desk: PendingWrites, case: WorkloadCase, step: Step, written: Manifest) -> None:
        self._intake.wrote(key, written)
        desk.failures = 0
        desk.explanation = None
        self._refusals.pop(key, None)
        if step.done:
            desk.todo = [one for one in desk.todo if not any(one is done for done in step.done)]
        seen = self._intake.seen(key)
        if seen is not None and not seen.counts:
            self._freed(key)
        if not step.subresource and case.record.active:
            self._pass_on(events.ActiveChanged(at=self._now(), key=key, active=False))
        for one in step.done:
            if isinstance(one, Admit) and one.replaces:
                record = case.record
                self.take([Replace(at=one.at, key=one.replaces, uid=record.uid, job_uid=record.job_uid)])
            elif isinstance(one, Replace):
                self._pass_on(events.WorkloadFinished(at=self._now(), key=key))
        if step.read_again:
            self._pass_on(*self._intake.gone(key, self._now()))
            self._intake.read_again([key])
        for reason, message, warning, about in step.notices:
            subject = self._intake.manifest(about) if about else written
            if subject is not None:
                tell = self._recorder.warning if warning else self._recorder.normal
                if about:
                    tell = self._recorder.series
                tell(subject, reason, message)

    def _try_later(self, key: str, desk: PendingWrites, seconds: float | None = None) -> None:
        """After these seconds, or after longer and longer ones."""

        def again() -> None:
            desk.retry = None
            if self._desks.get(key) is desk:
                self._ready.append(key)
                self._wake()

        if seconds is None:
            seconds = _BACKOFF.delay(desk.failures)
            desk.failures += 1
        desk.retry = self._clock.call_later(seconds, again)

    def _refused(self, key: str, desk: PendingWrites, error: FairwayError) -> None:
        """The API does not take it. One that was to be admitted is left out for a while, so that others get on."""
        refusals = self._refusals[key] = self._refusals.get(key, 0) + 1
        seconds = _REFUSED.delay(refusals - 1)
        _log.error("workload %s: %s; retrying in %d seconds", key, error, seconds)
        if any(isinstance(one, Admit) for one in desk.todo):
            self._pass_on(*self._intake.gone(key, self._now()))
            desk.todo.clear()
            self._clock.call_later(seconds, lambda: self._intake.read_again([key]))
        else:
            self._try_later(key, desk, seconds)

    def _close(self, key: str) -> None:
        desk = self._desks.pop(key, None)
        if desk is not None:
            _cancel(desk)
        self._freed(key)

    def _freed(self, key: str) -> None:
        self._freeing.discard(key)
        if not self._freeing and self._held:
            self._ready.extend(self._held)
            self._held.clear()
            self._wake()

    def _pass_on(self, *happened: events.Event) -> None:
        if happened:
            self._outcomes += happened
            self._wake()

    def _now(self) -> float:
        return self._clock.now().timestamp()


def _was_asked_for(said: Evict) -> bool:
    """Whether an eviction was requested from outside, which the engine would not decide by itself."""
    if said.reason is EvictionReason.DEACTIVATED:
        return bool(said.cause)
    return said.reason in (EvictionReason.PODS_READY_TIMEOUT, EvictionReason.NODE_FAILURES)


def _is_refusal(error: FairwayError) -> bool:
    return isinstance(error, ValidationError) or (isinstance(error, ApiError) and error.code in _REFUSALS)


def _cancel(desk: PendingWrites) -> None:
    if desk.retry is not None:
        desk.retry.cancel()
        desk.retry = None
