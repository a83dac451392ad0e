"""The live state of a server as the start of simulations: expected starts, and what-if runs on request.

Nothing is computed on the event loop but the collection of the state, in slices; a worker process plays. A request
never waits for a forecast: it gets the last one, and the next is begun if something changed since.
"""

import asyncio
import logging
import pickle
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec

from fairway.accounting.books import AccountBooks
from fairway.admission.config import Config
from fairway.admission.port import WaitingExplainer, WaitingPage
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.timestamps import stamp
from fairway.client.cluster import Cluster
from fairway.controllers.admission.controller import engine_config
from fairway.controllers.kit.configuration import ConfigurationSource
from fairway.errors import FairwayError, FieldError, TooManyRequests, Unavailable, ValidationError
from fairway.simulate.accuracy import Accuracy
from fairway.simulate.forecast import ForecastResult, StartForecast
from fairway.simulate.livestate import LiveState
from fairway.simulate.wording import expected, unknown

MOST_DETAILED: Final = 2000
"""So many waiting Workloads are played; the rest of a long queue is left out."""

_MOST_IN_WHAT_IF: Final = 20_000
_FORECAST_CPU_SECONDS: Final = 3.0
_LONGEST_SECONDS: Final = 60.0
_WHAT_IF_SECONDS: Final = 30.0
_REST: Final = 2.0
"""After a forecast the next one waits for so many times as long as it took."""

_LEAST_REST_SECONDS: Final = 2.0
_MOST_WAITING_RUNS: Final = 4
_log = logging.getLogger(__name__)


class SimulationWorker(Protocol):
    """The process that plays (`fairway.runner.workers`)."""

    async def ask(self, question: AsyncIterator[bytes], seconds: float) -> bytes: ...

    async def close(self) -> None: ...


class Simulations:
    """Forecasts and what-if runs of one server; a part that runs until it is cancelled."""

    def __init__(
        self,
        cluster: Cluster,
        configuration: ConfigurationSource,
        worker: SimulationWorker,
        *,
        books: Callable[[], AccountBooks | None],
        requeue_batch_seconds: float,
        schedulers: frozenset[str] | None,
    ) -> None:
        def config() -> Config:
            return engine_config(configuration.value, requeue_batch_seconds=requeue_batch_seconds)

        self.state = LiveState(cluster, config, schedulers)
        self._worker = worker
        self._books = books
        self._clock = cluster.clock
        self._accuracy = Accuracy()
        self.state.on_admitted = self._accuracy.started
        self._starts: dict[str, StartForecast] = {}
        self._runs = self._detailed = 0
        self._failure = ""
        self._computed_at: datetime | None = None
        self._of_change = -1
        self._not_before = 0.0
        self._task: asyncio.Task[None] | None = None
        self._asked = 0

    async def run(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            if self._task is not None:
                self._task.cancel()
            await self._worker.close()

    # Forecasts

    def expected(self, key: str) -> Manifest:
        """The expected start of a waiting Workload, as the API shows it."""
        start, now = self._starts.get(key), self._clock.now()
        if start is not None:
            return expected(start, now, self._computed_at)
        if self._failure:
            return unknown(self._failure, self._computed_at)
        if self._computed_at is None or self._of_change != self.state.changes:
            return unknown("being worked out", self._computed_at)
        return unknown(f"not among the first {MOST_DETAILED} that wait", self._computed_at)

    def summary(self) -> Manifest:
        """What the forecasts rest on, and how good they were."""
        return {
            "computedAt": None if self._computed_at is None else stamp(self._computed_at),
            "stale": self._of_change != self.state.changes,
            "waiting": self.state.waiting,
            "detailed": self._detailed,
            "runs": self._runs,
            "error": self._accuracy.figures(),
        }

    def refresh(self) -> None:
        """On a request: begin a forecast if something has changed and the last one is old enough."""
        self.state.follow(self._books())
        due = self._of_change != self.state.changes or self._is_late()
        if due and self._task is None and self._clock.monotonic() >= self._not_before:
            self._task = asyncio.create_task(self._forecast())

    def _is_late(self) -> bool:
        """Whether time alone makes the forecast wrong: something was expected to start by now."""
        now = self._clock.now().timestamp()
        return any(start.at is not None and start.at < now for start in self._starts.values())

    async def _forecast(self) -> None:
        began, change = self._clock.monotonic(), self.state.changes
        at = self._clock.now()
        try:
            question = {"kind": "forecast", "seconds": _FORECAST_CPU_SECONDS}
            found = await self._worker.ask(self._frames(question, MOST_DETAILED), _LONGEST_SECONDS)
            result = msgspec.json.decode(found, type=ForecastResult)
            self._starts = self._accuracy.given(result.starts, at.timestamp())
            self._runs, self._failure, self._detailed = result.runs, "", len(result.starts)
        except (FairwayError, msgspec.MsgspecError) as error:
            _log.warning("no forecast of starts: %s", error)
            self._starts, self._failure = {}, f"the forecast failed ({error})"
        finally:
            took = self._clock.monotonic() - began
            self._not_before = self._clock.monotonic() + max(_LEAST_REST_SECONDS, _REST * took)
            self._computed_at, self._of_change, self._task = at, change, None

    async def _frames(self, question: Manifest, most: int) -> AsyncIterator[bytes]:
        yield pickle.dumps(question)
        yield pickle.dumps(self.state.scenario())
        async for part in self.state.workloads(most):
            yield pickle.dumps(part)

    # What if

    async def compare(self, spec: Manifest) -> Manifest:
        """The `status` of a Simulation of this spec on the live state."""
        if self._asked >= _MOST_WAITING_RUNS:
            raise TooManyRequests(f"{_MOST_WAITING_RUNS} simulations run or wait; try again in a few seconds")
        self.state.follow(self._books())
        self._asked += 1
        try:
            question = {"kind": "compare", "spec": spec}
            found = await self._worker.ask(self._frames(question, _MOST_IN_WHAT_IF), _WHAT_IF_SECONDS)
        except FairwayError as error:
            raise Unavailable(
                f"the simulation did not come to its end: {error}; a shorter horizonSeconds helps"
            ) from None
        finally:
            self._asked -= 1
        answer: dict[str, Any] = msgspec.json.decode(found)
        if "invalid" in answer:
            raise ValidationError("Simulation", "", [FieldError(*one) for one in answer["invalid"]])
        if "failed" in answer:
            raise Unavailable(f"the simulation failed: {answer['failed']}")
        status: Manifest = answer["status"]
        if self.state.waiting > _MOST_IN_WHAT_IF:
            status["notes"].append(f"only the first {_MOST_IN_WHAT_IF} of {self.state.waiting} waiting jobs are played")
        return status


class ForecastingExplainer:
    """Keeps the contract of `WaitingExplainer`, and adds the expected start of everyone who waits."""

    def __init__(self, explainer: WaitingExplainer, simulations: Simulations) -> None:
        self._explainer = explainer
        self._simulations = simulations
        self.pending = explainer.pending

    async def page(self, namespace: str = "", first: int = 0, limit: int | None = None) -> WaitingPage:
        found = await self._explainer.page(namespace, first, limit)
        if found.items:
            self._simulations.refresh()
        usual = self._usual_error()
        return WaitingPage([self._with_start(item, usual) for item in found.items], found.has_more)

    async def one(
        self, namespace: str, name: str, may_read: Callable[[str], bool], *, may_change: bool, any_priority: bool
    ) -> Manifest | None:
        item = await self._explainer.one(namespace, name, may_read, may_change=may_change, any_priority=any_priority)
        if item is None:
            return None
        self._simulations.refresh()
        return self._with_start(item, self._usual_error())

    def forecast(self) -> Manifest:
        return self._simulations.summary()

    def _usual_error(self) -> float | None:
        """The median error of past forecasts, in seconds."""
        error = self.forecast()["error"]
        return None if error is None else error["medianSeconds"]

    def _with_start(self, item: Manifest, usual_error: float | None) -> Manifest:
        metadata = item["metadata"]
        start = self._start(f"{metadata['namespace']}/{metadata['name']}", item)
        return {**item, "expectedStart": {**start, "usualErrorSeconds": usual_error}}

    def _start(self, key: str, item: Manifest) -> Manifest:
        computed = self._simulations.expected(key)
        because = _UNFORESEEABLE.get(str(item.get("outcome")))
        if because:
            return unknown(because, None)
        if not item.get("canEverRun", True):
            return {**unknown("", None), "message": "never, as things are: see why"}
        return computed


_UNFORESEEABLE: Final = {
    "WaitingForNode": "it has its quota and waits for a node",
    "WaitingForChecks": "it has its quota and waits for an admission check",
    "Deactivated": "it is deactivated",
    "Gated": "something holds it back: see why",
}
