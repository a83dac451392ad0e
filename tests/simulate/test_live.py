"""Forecasts and what-if runs on the caches of a server, and the process that plays them."""

import asyncio
import pickle
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from fairway.admission.port import WaitingPage
from fairway.apis.kueue.manifests import encode
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.timestamps import stamp
from fairway.controllers.kit.configuration import FixedConfiguration
from fairway.errors import AlreadyExists, TooManyRequests, ValidationError
from fairway.runner.workers import WorkerFailed, WorkerProcess
from fairway.simulate.live import ForecastingExplainer, Simulations
from fairway.simulate.livestate import MODULE
from fairway.simulate.scenario import Scenario
from fairway.simulate.worker import answer
from fairway.testing.builders import cluster_queue, flavor, local_queue, workload
from fairway.testing.clusters import LocalCluster, local_cluster

from .test_player import job, scenario


class HereWorker:
    """Plays in this process."""

    def __init__(self) -> None:
        self.questions: list[str] = []
        self.held = asyncio.Event()
        self.held.set()

    async def ask(self, question: AsyncIterator[bytes], seconds: float) -> bytes:  # noqa: ARG002
        frames = [frame async for frame in question]
        self.questions.append(pickle.loads(frames[0])["kind"])  # noqa: S301 - our own
        await self.held.wait()
        return answer(frames)

    async def close(self) -> None:
        pass


class Waiters:
    """A `WaitingExplainer` of the Workloads without quota."""

    def __init__(self, world: LocalCluster) -> None:
        self._cache = world.cluster.cache("workloads")

    async def pending(self, cluster_queue: str) -> None:  # noqa: ARG002
        return None

    async def page(self, namespace: str = "", first: int = 0, limit: int | None = None) -> WaitingPage:  # noqa: ARG002
        return WaitingPage(
            [{"metadata": one["metadata"], "outcome": "NoFit", "canEverRun": True} for one in self._cache.items()]
        )

    async def one(
        self,
        namespace: str,  # noqa: ARG002
        name: str,
        may_read: Callable[[str], bool],  # noqa: ARG002
        **_: Any,
    ) -> Manifest | None:
        return next((one for one in (await self.page()).items if one["metadata"]["name"] == name), None)


def staged(told: Callable[[LocalCluster, Simulations, HereWorker], Awaitable[None]], *, waiting: int = 2) -> None:
    async def run() -> None:
        async with local_cluster() as world:
            with suppress(AlreadyExists):
                await world.api.create("namespaces", {"metadata": {"name": "default"}})
            for plural, made in (
                ("resourceflavors", encode(flavor())),
                ("clusterqueues", encode(cluster_queue("cq", cpu=2))),
                ("localqueues", encode(local_queue("cq", "cq"))),
                *(("workloads", encode(workload(f"w{number}", cpu=2, priority=-number))) for number in range(waiting)),
            ):
                made["metadata"] = {"name": made["metadata"]["name"]}
                await world.api.create(plural, made)
            worker = HereWorker()
            simulations = Simulations(
                world.cluster,
                FixedConfiguration(),
                worker,
                books=lambda: None,
                requeue_batch_seconds=0.0,
                schedulers=None,
            )
            async with world.running(simulations):
                await told(world, simulations, worker)

    asyncio.run(run())


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.001)


def test_a_request_starts_a_forecast_and_does_not_wait_for_it() -> None:
    async def told(world: LocalCluster, simulations: Simulations, worker: HereWorker) -> None:
        explainer = ForecastingExplainer(Waiters(world), simulations)
        worker.held.clear()
        first = (await explainer.page()).items
        assert {one["expectedStart"]["message"] for one in first} == {"unknown: being worked out"}
        worker.held.set()
        await until(lambda: simulations.summary()["computedAt"] is not None)
        simulations.state.durations.add("w", "", "cq", 60.0)
        found = {one["metadata"]["name"]: one["expectedStart"] for one in (await explainer.page()).items}
        assert found["w0"]["known"], "nothing runs before it"
        assert found["w1"]["message"].startswith("unknown: a job before it has no max_duration")
        assert worker.questions == ["forecast"], "nothing changed since"
        assert explainer.forecast() | {"computedAt": ""} == {
            "computedAt": "", "stale": False, "waiting": 2, "detailed": 2, "runs": 25, "error": None,
        }  # fmt: skip
        await world.api.create("namespaces", {"metadata": {"name": "other"}})
        await until(lambda: simulations.summary()["stale"])
        await explainer.page()
        assert worker.questions == ["forecast"], "the last one was a moment ago"
        world.clock.advance(600)
        await explainer.page()
        await until(lambda: worker.questions == ["forecast", "forecast"])

    staged(told)


def test_what_happens_is_followed_from_the_first_question_on_and_what_is_stored_is_learnt_from() -> None:
    async def told(world: LocalCluster, simulations: Simulations, worker: HereWorker) -> None:
        now = stamp(world.clock.now())
        conditions = [
            {"type": kind, "status": "True", "reason": "X", "message": "", "lastTransitionTime": now}
            for kind in ("Admitted", "Finished")
        ]
        patch = {"status": {"conditions": conditions}}
        await world.api.patch("workloads", "w0", patch, namespace="default", subresource="status")
        state = simulations.state
        await until(lambda: len(list(world.cluster.cache("workloads").items())) == 2)
        assert (state.changes, state.durations.count, worker.questions) == (0, 0, [])
        simulations.refresh()
        await until(lambda: simulations.summary()["computedAt"] is not None)
        assert (state.durations.count, state.waiting) == (1, 1)
        await world.api.delete("workloads", "w1", namespace="default")
        await until(lambda: state.changes == 1)

    staged(told)


def test_past_forecasts_are_compared_with_what_happened() -> None:
    async def told(world: LocalCluster, simulations: Simulations, worker: HereWorker) -> None:
        simulations.refresh()
        await until(lambda: simulations.summary()["computedAt"] is not None)
        at = world.clock.now().timestamp()
        simulations.state.durations.add("w", "", "cq", 60.0)
        for number in range(6):
            simulations.state.on_admitted(f"default/w{number}", at + 10)
        assert simulations.summary()["error"] is None, "only those that rest on something count"

    staged(told, waiting=6)


def test_what_if_compares_and_refuses() -> None:
    async def told(world: LocalCluster, simulations: Simulations, worker: HereWorker) -> None:
        more = {"quota": {"clusterQueue": "cq", "resource": "cpu", "nominal": "+2"}}
        status = await simulations.compare({"changes": [more]})
        assert [one["change"] for one in status["jobs"]] == ["sooner", "same"]
        assert status["notes"] == [
            "2 jobs have no max_duration, and none like them has ended here: an hour each is assumed"
        ]
        with pytest.raises(ValidationError, match="there are cq"):
            await simulations.compare({"changes": [{"quota": {"clusterQueue": "x", "resource": "cpu"}}]})
        worker.held.clear()
        waiting = [asyncio.create_task(simulations.compare({})) for _ in range(4)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequests):
            await simulations.compare({})
        worker.held.set()
        assert len(await asyncio.gather(*waiting)) == 4

    staged(told)


async def _frames(question: Manifest, of: Scenario) -> AsyncIterator[bytes]:
    yield pickle.dumps(question)
    yield pickle.dumps(of)


def test_a_process_plays_ends_when_it_is_idle_and_is_given_up_when_it_takes_too_long() -> None:
    async def told() -> None:
        worker = WorkerProcess(MODULE, idle_seconds=0.05)
        of = scenario([job("one", 0, cpu=4), job("two", 0, cpu=8)])
        found = await worker.ask(_frames({"kind": "compare", "spec": {}}, of), 120)
        assert msgspec.json.decode(found)["status"]["before"]["finished"] == 2
        await until(lambda: worker.pid is None)
        with pytest.raises(WorkerFailed, match="no answer within"):
            await worker.ask(_frames({"kind": "compare", "spec": {}}, of), 0.001)
        await worker.close()
        missing = WorkerProcess("fairway.no_such_module")
        with pytest.raises(WorkerFailed, match="ended"):
            await missing.ask(_frames({}, of), 120)
        await missing.close()

    asyncio.run(told())
