"""Virtual time: jobs arrive, the real engine decides, admitted jobs end after their time.

The clock jumps from one event to the next; events of the same moment go to the engine together. The player
stands for the other controllers: an evicted job stops and gives its quota back, and starts over when it is admitted
again; admission checks are ready at once, and so are pods.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final

from msgspec import Struct

from fairway.admission import events
from fairway.admission.config import Config
from fairway.admission.engine import Engine
from fairway.admission.events import CheckVerdict
from fairway.admission.instructions import Admit, Deactivate, Evict, Instruction, Start
from fairway.simulate.jobs import PresentJob, TraceJob, Workloads
from fairway.simulate.usage import Usage

_MOST_IDLE: Final = 10_000
"""After so many steps in which only time passed and nothing is to come, those who still wait never start."""

_READY: Final = CheckVerdict(state="Ready")


class JobRun(Struct, gc=False):
    """How one job fared."""

    key: str
    submitted: float
    seconds: float
    running: bool = False
    """Whether it ran at the start of the simulation."""

    started: float | None = None
    """The first time; of one that ran at the start, when that attempt began."""

    ended: float | None = None
    preemptions: int = 0
    attempt: int = 0
    """Of the attempt that runs: the number of its admission; 0 if none does."""

    began: float = 0.0
    """Of the attempt that runs, or ran last: when it began."""

    cluster_queue: str = ""


class Player:
    """One run of one future."""

    def __init__(
        self,
        config: Config,
        surroundings: Sequence[events.Event],
        present: Iterable[PresentJob],
        arriving: Iterable[TraceJob],
        *,
        at: float,
        release_seconds: float = 0.0,
    ) -> None:
        """`surroundings` tell of queues, flavors and nodes. An evicted job takes `release_seconds` to stop."""
        self.engine = Engine(config)
        self.began = self.now = at
        self.runs: dict[str, JobRun] = {}
        self.usage = Usage(at)
        self.admissions = self.batches = 0
        self._release_seconds = release_seconds
        self._waits_for_pods = config.pods_ready.block_admission
        self._workloads = Workloads()
        self._agenda: list[tuple[float, int, str, int]] = []
        """When which attempt of whom ends; attempt 0 is the end of an eviction."""

        self._sequence = 0
        self._arriving = sorted(arriving, key=lambda job: job.submitted)
        self._next = 0
        self._waiting = 0
        self._live = 0
        self._on_start: Callable[[JobRun], None] | None = None
        self._idle = 0
        """Steps in a row in which only time passed."""

        self._begin(surroundings, present)

    def run(self, until: float = inf, on_start: Callable[[JobRun], None] | None = None) -> None:
        """Play until every job has ended, nothing more can happen, or the clock reaches `until`."""
        self._on_start = on_start
        while self._step(until):
            pass

    def branch(self) -> Player:
        """A copy in which no job arrives any more."""
        return copy.deepcopy(self, {id(self._arriving): self._arriving[: self._next]})

    def redraw(self, at: float, seconds: Callable[[JobRun, float], float]) -> None:
        """From this moment on, jobs run for other times: `seconds` gives that of a job that has run for so long."""
        self.now = max(self.now, at)
        self._agenda = [entry for entry in self._agenda if not entry[3]]
        heapify(self._agenda)
        for run in self.runs.values():
            if run.attempt:
                elapsed = self.now - run.began
                self._schedule(run.began + max(elapsed, seconds(run, elapsed)), run.key, run.attempt)
            elif run.ended is None:
                run.seconds = seconds(run, 0.0)

    @property
    def waiting(self) -> int:
        """How many wait now."""
        return self._waiting

    # The start

    def _begin(self, surroundings: Sequence[events.Event], present: Iterable[PresentJob]) -> None:
        told = list(surroundings)
        for job in present:
            told += job.arrival
            run = self.runs[job.key] = JobRun(job.key, job.submitted, job.seconds)
            self._live += 1
            self._waiting += 1
            if job.since is not None:
                self._resume(run, job)
        said = self.engine.handle(*told, events.TimePassed(at=self.now))
        for run in self.runs.values():
            record = self.engine.record(run.key)
            if run.running and record is not None:
                run.cluster_queue = record.cluster_queue
                self.usage.take(run.key, record.admission)
        self._obey(said)
        self._observe()

    def _resume(self, run: JobRun, job: PresentJob) -> None:
        since = job.since or self.now
        run.running, run.started, run.began = True, since, since
        self._waiting -= 1
        self._schedule_end(run, max(self.now, since + job.seconds))

    # One moment

    def _step(self, until: float) -> bool:
        wakeup, arrival = self.engine.next_wakeup, self._next_arrival()
        when = min(self._agenda[0][0] if self._agenda else inf, arrival)
        if wakeup is not None and wakeup < when and self._live and self._idle < _MOST_IDLE:
            self._idle += when == inf
            when = max(self.now, wakeup)
            if when > until:
                return False
            self._move(when)
            happened: list[events.Event] = [events.TimePassed(at=when)]
        else:
            if when > until or when == inf:
                return False
            self._move(when)
            self._idle = 0
            happened = self._ended(when) + self._arrived(when)
        self.batches += 1
        if happened:
            self._obey(self.engine.handle(*happened))
        self._observe()
        return True

    def _move(self, when: float) -> None:
        self.usage.pass_until(when)
        self.now = when

    def _next_arrival(self) -> float:
        return self._arriving[self._next].submitted if self._next < len(self._arriving) else inf

    def _arrived(self, when: float) -> list[events.Event]:
        told: list[events.Event] = []
        arriving = self._arriving
        while self._next < len(arriving) and arriving[self._next].submitted <= when:
            job = arriving[self._next]
            self._next += 1
            self.runs[job.key] = JobRun(job.key, job.submitted, job.seconds)
            self._live += 1
            self._waiting += 1
            told.append(events.WorkloadAdded(at=when, workload=self._workloads.of(job, self._next)))
        return told

    def _ended(self, when: float) -> list[events.Event]:
        told: list[events.Event] = []
        agenda = self._agenda
        while agenda and agenda[0][0] <= when:
            _, _, key, attempt = heappop(agenda)
            run = self.runs[key]
            if not attempt:
                self.usage.give_back(key)
                told.append(events.QuotaReleased(at=when, key=key))
            elif run.attempt == attempt:
                run.ended, run.attempt = when, 0
                self.usage.give_back(key)
                self._live -= 1
                told.append(events.WorkloadFinished(at=when, key=key))
                told.append(events.WorkloadDeleted(at=when, key=key))
        return told

    def _observe(self) -> None:
        self.usage.observe(self.now, running=self._live - self._waiting, waiting=self._waiting)

    # What the engine says

    def _obey(self, said: list[Instruction]) -> None:
        while said:
            answers: list[events.Event] = []
            for each in said:
                if isinstance(each, Admit):
                    self._admitted(each, answers)
                elif isinstance(each, Evict):
                    self._evicted(each, answers)
                elif isinstance(each, Start):
                    self._started(self.runs[each.key], each.cluster_queue, answers)
                elif isinstance(each, Deactivate):
                    answers.append(events.ActiveChanged(at=self.now, key=each.key, active=False))
            said = self.engine.handle(*answers) if answers else []

    def _admitted(self, admit: Admit, answers: list[events.Event]) -> None:
        self.usage.take(admit.key, admit.pod_sets)
        if admit.admitted:
            self._started(self.runs[admit.key], admit.cluster_queue, answers)
            return
        answers += [
            events.CheckReported(at=self.now, key=admit.key, check=check, verdict=_READY)
            for check in admit.pending_checks
        ]

    def _started(self, run: JobRun, cluster_queue: str, answers: list[events.Event]) -> None:
        if run.attempt:
            return
        run.cluster_queue = cluster_queue
        self._waiting -= 1
        run.began = self.now
        if run.started is None:
            run.started = self.now
        self._schedule_end(run, self.now + run.seconds)
        if self._waits_for_pods:
            answers.append(events.PodsReadyChanged(at=self.now, key=run.key, ready=True))
        if self._on_start is not None:
            self._on_start(run)

    def _evicted(self, evict: Evict, answers: list[events.Event]) -> None:
        run = self.runs[evict.key]
        if run.attempt:
            run.attempt = 0
            run.preemptions += 1
            self._waiting += 1
        if self._release_seconds:
            self._schedule(self.now + self._release_seconds, run.key, 0)
        else:
            self.usage.give_back(run.key)
            answers.append(events.QuotaReleased(at=self.now, key=evict.key))

    def _schedule_end(self, run: JobRun, when: float) -> None:
        self.admissions += 1
        run.attempt = self.admissions
        self._schedule(when, run.key, run.attempt)

    def _schedule(self, when: float, key: str, attempt: int) -> None:
        self._sequence += 1
        heappush(self._agenda, (round(when, 6), self._sequence, key, attempt))
