"""The controller around the engine: one turn takes in all that happened, decides, and passes on the writes.

The interval of decisions: a decision on one finished workload costs nearly as much as one on six in the same cohort,
because the heads of all its queues are tried until nothing fits. But a late decision leaves quota unused. So decisions
are made at once while they take a small share of the time, and always after a pause. Under more load their interval
grows from a few milliseconds to at most 100, which thirty busy queues on one core reach: then writing is the
bottleneck, and earlier decisions would admit nothing sooner. (Kueue batches freed quota for a second.)
"""

import asyncio
from typing import Final

from fairway.admission import events
from fairway.admission.config import Config, PodsReady, RequeueTimestamp, Resources, Transformation
from fairway.admission.engine import Engine
from fairway.admission.events import Event, EvictionRequested, QueueChanged, TimePassed
from fairway.admission.figures import Figures
from fairway.admission.reasons import Outcome
from fairway.admission.records import Stage
from fairway.admission.world import Attempts
from fairway.apis.kueue.configuration import Configuration
from fairway.client.cluster import Cluster
from fairway.client.recorder import Recorder
from fairway.controllers.admission.act import Writes
from fairway.controllers.admission.sources import ClusterSources, WorkloadSource
from fairway.controllers.kit.configuration import ConfigurationSource
from fairway.runtime.clock import Timer

_REPLACE = "Replace"

SHORTEST_SECONDS: Final = 0.002
LONGEST_SECONDS: Final = 0.1
"""Unless a decision takes more than half of it: then twice as long as that, so that others get half of the time."""

_SHARE: Final = 0.08
"""Of all time, for deciding."""

_WINDOW_SECONDS: Final = 0.25
_STEP_UP: Final = 4.0
_STEP_DOWN: Final = 0.5
_SHORTEST_WAIT_SECONDS: Final = 0.0005
"""Times of day are kept in microseconds, so a timer may ring a moment too early."""


def engine_config(configuration: Configuration, *, requeue_batch_seconds: float) -> Config:
    """The engine's part of the configuration; equal for configurations that make no difference to it."""
    return Config(
        fair_sharing=configuration.fair_sharing,
        admission_fair_sharing=configuration.admission_fair_sharing,
        pods_ready=_pods_ready(configuration),
        resources=_resources(configuration),
        requeue_batch_seconds=requeue_batch_seconds,
        balanced_placement=configuration.balanced_placement,
        replace_failed_nodes_once=configuration.replace_failed_nodes_once,
        hold_admission=configuration.hold_admission,
        keep_first_submit_time=True,  # by an annotation of Workloads, which only those have that Fairway made anew
    )


def _pods_ready(configuration: Configuration) -> PodsReady:
    rules = configuration.wait_for_pods_ready
    if rules is None:
        return PodsReady()
    return PodsReady(
        block_admission=rules.block_admission,
        requeue_timestamp=RequeueTimestamp(rules.requeue_timestamp),
        backoff_limit=rules.backoff_limit,
        backoff_base_seconds=rules.backoff_base_seconds,
        backoff_max_seconds=rules.backoff_max_seconds,
    )


def _resources(configuration: Configuration) -> Resources:
    return Resources(
        excluded_prefixes=configuration.excluded_resource_prefixes,
        transformations={
            one.input: Transformation(
                outputs=one.outputs, replace=one.strategy == _REPLACE, multiply_by=one.multiply_by
            )
            for one in configuration.transformations
        },
        ignore_undeclared=configuration.ignore_undeclared_resources,
    )


class Pace:
    """Follows how much time decisions take, and says how far they are apart."""

    def __init__(self) -> None:
        self.seconds = 0.0
        """From the beginning of one decision to that of the next, at least."""
        self._began: float | None = None
        self._since: float | None = None
        self._spent = 0.0

    def left(self, now: float) -> float:
        """How long the next decision is to wait."""
        return 0.0 if self._began is None else max(0.0, self._began + self.seconds - now)

    def took(self, began: float, ended: float) -> None:
        """A decision was made from then to then."""
        self._began = began
        if self._since is None:
            self._since = began
        took = ended - began
        self._spent += took
        passed = ended - self._since
        if passed >= _WINDOW_SECONDS:
            if passed - self._spent >= 4 * _WINDOW_SECONDS + self.seconds:
                self.seconds = 0.0  # it was quiet for a while
            else:
                self._adapt(self._spent / passed / _SHARE, max(LONGEST_SECONDS, 2 * took))
            self._since, self._spent = ended, 0.0

    def _adapt(self, change: float, longest: float) -> None:
        wanted = max(SHORTEST_SECONDS, self.seconds) * min(_STEP_UP, max(_STEP_DOWN, change))
        self.seconds = min(longest, wanted) if wanted > SHORTEST_SECONDS else 0.0


class QueueingController:
    """Drives an engine with what is stored, and stores what it decides; the `Decider` of this process."""

    def __init__(
        self,
        cluster: Cluster,
        configuration: ConfigurationSource,
        recorder: Recorder,
        *,
        requeue_batch_seconds: float | None = None,
        pace: Pace | None = None,
        schedulers: frozenset[str] | None = None,
    ) -> None:
        """Parked workloads are tried again `requeue_batch_seconds` after quota was freed; where that is not given, with
        the next decision. Decisions are made at a `pace`, or at once if only the former is given.

        `schedulers` are those that place pods here. Where they are given, the nodes of the API are all there will be,
        and what none of them can ever run is not admitted; else quota alone decides, as in Kueue.
        """
        self._clock = cluster.clock
        self._configuration = configuration
        self._batch_seconds = requeue_batch_seconds or 0.0
        self._pace = Pace() if pace is None and requeue_batch_seconds is None else pace
        self._wake = asyncio.Event()
        self._surroundings = ClusterSources(cluster, self._wake.set, schedulers)
        self._intake = WorkloadSource(cluster, self._wake.set)
        self._writes = Writes(cluster, recorder, self._intake, self._wake.set)
        self._told: list[Event] = []
        self._asked_checks: dict[str, object] = {}
        self._timer: Timer | None = None
        self._outdated = False
        """The engine was made for another configuration."""
        self._attempts = Attempts()
        self.engine = Engine(self._config(), attempts=self._attempts)
        """The engine of now; another one after the configuration changed."""
        configuration.on_change(self._configured)

    def tell(self, *happened: Event) -> None:
        """Let the engine know, with the next turn."""
        if happened:
            self._told += happened
            self._wake.set()

    @property
    def figures(self) -> Figures:
        return self.engine.figures

    def can_ever_fit(self, key: str) -> bool | None:
        why = self.engine.why(key)
        if why is None or why.explanation.outcome in {Outcome.NOT_TRIED, Outcome.DEACTIVATED, Outcome.GATED}:
            return None
        return why.can_ever_fit

    async def request_eviction(self, request: EvictionRequested) -> None:
        self.tell(request)

    async def run(self) -> None:
        """Take in, decide and write until cancelled."""
        await self._surroundings.synced()
        await self._intake.synced()
        self._begin()
        try:
            while True:
                await self._wake.wait()
                if self._pace is not None and (seconds := self._pace.left(self._clock.monotonic())):
                    await self._clock.sleep(seconds)
                self._wake.clear()
                self._turn()
        finally:
            if self._timer is not None:
                self._timer.cancel()
            await self._writes.stop()

    def _config(self) -> Config:
        return engine_config(self._configuration.value, requeue_batch_seconds=self._batch_seconds)

    def _configured(self, _: Configuration) -> None:
        self._outdated = self._config() != self.engine.config
        self._wake.set()

    # One turn

    def _turn(self) -> None:
        if self._outdated:
            # What is being written counts for the next engine, too, so it begins when that has ended.
            self._writes.resting = bool(self._writes.busy)
            if self._writes.resting:
                return
            self._begin()
        at = self._clock.now().timestamp()
        happened = self._writes.outcomes()
        happened += self._surroundings.news(at)
        checks_changed = self._checks_changed(happened)
        news, changed = self._intake.news(at, self.engine)
        happened += news
        told, self._told = self._told, []
        happened += told
        due = self.engine.next_wakeup
        if due is not None and due <= at:
            happened.append(TimePassed(at=at))
        if happened:
            self._decide(happened)
        if checks_changed:
            changed += [record.key for record in self.engine.records() if record.stage is not Stage.FINISHED]
        self._writes.look_at(changed)
        self._writes.begin()
        self._wind()

    def _begin(self) -> None:
        """Start with an engine that gets everything that is stored before it decides."""
        self._outdated = False
        self._writes.resting = False
        self.engine = Engine(self._config(), attempts=self._attempts)
        asked = self._writes.serve(self.engine)
        at = self._clock.now().timestamp()
        happened = self._surroundings.everything(at)
        self._checks_changed(happened)
        happened += self._intake.everything(at)
        self._decide([*happened, TimePassed(at=at)])
        self.tell(*asked)
        self._writes.look_at([record.key for record in self.engine.records()])
        self._writes.begin()
        self._wind()

    def _decide(self, happened: list[Event]) -> None:
        began = self._clock.monotonic()
        said = self.engine.handle(*happened)
        if self._pace is not None:
            self._pace.took(began, self._clock.monotonic())
        if said:
            self._writes.take(said)

    def _wind(self) -> None:
        """See to the next turn when time alone will change something."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self.engine.next_wakeup
        if due is not None:
            seconds = max(_SHORTEST_WAIT_SECONDS, due - self._clock.now().timestamp())
            self._timer = self._clock.call_later(seconds, self._wake.set)

    # Checks that a ClusterQueue asks for

    def _checks_changed(self, happened: list[Event]) -> bool:
        """Whether a ClusterQueue asks for other checks than before; then all its workloads are to be looked at."""
        changed = False
        for event in happened:
            if isinstance(event, QueueChanged):
                spec, name = event.queue.spec, event.queue.metadata.name
                strategy = spec.admission_checks_strategy
                asked = None if strategy is None else (strategy, spec.resource_groups)
                changed |= self._asked_checks.get(name) != asked
                self._asked_checks[name] = asked
            elif isinstance(event, events.QueueDeleted):
                self._asked_checks.pop(event.name, None)
        return changed
