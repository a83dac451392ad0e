"""The controller may die before or after any of its writes; another one goes on from the objects."""

import asyncio
import copy
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.apis.machinery.timestamps import stamp
from fairway.client.cluster import Cluster
from fairway.client.local import LocalClient
from fairway.client.recorder import Recorder
from fairway.controllers.jobframework.controller import FrameworkController
from fairway.controllers.kit.configuration import FixedConfiguration
from fairway.integrations import conditions
from fairway.testing.clusters import LocalCluster, local_cluster
from fairway.testing.stores import LocalApi

from .scene import FLAVOR, Scene, a_job


class Fate:
    """After how many writes a controller dies, and whether the last of them is still carried out."""

    def __init__(self, writes: int, *, carried_out: bool) -> None:
        self._left = writes
        self._carried_out = carried_out
        self.died = asyncio.Event()

    async def before(self) -> None:
        self._left -= 1
        if self._left < 0 or (self._left == 0 and not self._carried_out):
            await self._die()

    async def after(self) -> None:
        if self._left == 0:
            await self._die()

    async def _die(self) -> None:
        self.died.set()
        await asyncio.Event().wait()


class Mortal(LocalClient):
    """The client of a controller that dies in the middle of a write."""

    def __init__(self, api: LocalApi, manager: str, fate: Fate) -> None:
        super().__init__(api.objects, manager)
        self._fate = fate

    async def create(self, kind: Kind, manifest: Manifest, *, trusted: bool = False) -> Manifest:
        await self._fate.before()
        created = await super().create(kind, manifest, trusted=trusted)
        await self._fate.after()
        return created

    async def patch(self, *which: Any, **how: Any) -> Manifest:
        await self._fate.before()
        patched = await super().patch(*which, **how)
        await self._fate.after()
        return patched

    async def delete(self, *which: Any, **how: Any) -> Manifest | None:
        await self._fate.before()
        left = await super().delete(*which, **how)
        await self._fate.after()
        return left


class Relay:
    """Controllers one after the other on the same objects."""

    def __init__(self, world: LocalCluster, fates: list[tuple[int, bool]]) -> None:
        self._world = world
        self._fates = fates
        self.scene: Scene
        self._fate: Fate

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Scene]:
        """A controller with the next fate, on caches of its own."""
        writes, carried_out = self._fates.pop(0) if self._fates else (10_000, True)
        self._fate = Fate(writes, carried_out=carried_out)
        api, clock = self._world.api, self._world.clock
        cluster = Cluster(lambda manager: Mortal(api, manager, self._fate), api.objects.registry, clock)
        configuration = FixedConfiguration()
        scene = Scene(LocalCluster(api, cluster, clock), configuration)
        scene.recorder = Recorder(cluster, "kueue")
        scene.controller = FrameworkController(cluster, configuration, scene.recorder)
        async with scene.world.running(scene.controller):
            yield scene

    async def settled(self) -> None:
        """Let controllers work, and die, until one has nothing left to do."""
        while True:
            async with self.running() as scene:
                tasks = [asyncio.create_task(scene.idle()), asyncio.create_task(self._fate.died.wait())]
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
                if not self._fate.died.is_set():
                    self.scene = scene
                    self._check(scene)
                    return

    def _check(self, scene: Scene) -> None:
        """What holds whenever there is nothing to do."""
        workloads = scene.api.names("workloads")
        assert len(workloads) <= 1
        job = scene.job()
        ended = conditions.is_true(job, "Complete")
        running = not job["spec"]["suspend"]
        if workloads and running and not ended:
            assert conditions.is_true(scene.workload(), "Admitted")
            assert not conditions.is_true(scene.workload(), "Evicted")
        if not running and not job["status"].get("active"):
            template = job["spec"]["template"]
            assert not template["spec"].get("nodeSelector")
            assert not template["spec"].get("tolerations")
            assert "kueue.x-k8s.io/stopping" not in job["metadata"].get("annotations", {})
            assert job["spec"]["parallelism"] == 4
        if ended and workloads:
            assert conditions.is_true(scene.workload(), "Finished")


async def _act(relay: Relay, act: str) -> None:
    """Do one thing to the objects while no controller runs, as others may while one restarts."""
    scene = relay.scene
    api = scene.api
    job = scene.job()
    workload = scene.workload() if api.names("workloads") else {}
    if conditions.is_true(job, "Complete"):
        return
    now = stamp(scene.clock.now())
    if act == "admit" and workload and not conditions.is_true(workload, "QuotaReserved"):
        await api.patch(
            "workloads", workload["metadata"]["name"], {"status": _admitted(workload, now)}, subresource="status"
        )
    elif act == "evict" and conditions.is_true(workload, "QuotaReserved"):
        found = conditions.with_condition(conditions.of(workload), "Evicted", "True", "Preempted", "go", now)
        await api.patch(
            "workloads", workload["metadata"]["name"], {"status": {"conditions": found}}, subresource="status"
        )
    elif act == "pods":
        running = not job["spec"]["suspend"]
        status: Manifest = {"active": 3 if running else 0, "ready": 0}
        if running:
            status["startTime"] = job["status"].get("startTime", now)
        await api.patch("jobs", "train", {"status": status}, subresource="status")
    elif act == "grow" and job["spec"]["suspend"]:
        containers = [{**job["spec"]["template"]["spec"]["containers"][0], "resources": {"requests": {"cpu": "2"}}}]
        if not job["status"].get("active") and not job["status"].get("startTime"):
            await api.patch("jobs", "train", {"spec": {"template": {"spec": {"containers": containers}}}})
    elif act == "resize" and not job["spec"]["suspend"]:
        await api.patch("jobs", "train", {"spec": {"parallelism": 2}})
    elif act == "complete" and not job["spec"]["suspend"]:
        await _complete(api, job, now)


def _admitted(workload: Manifest, now: str) -> Manifest:
    found = conditions.of(workload)
    for kind in ("QuotaReserved", "Admitted"):
        found = conditions.with_condition(found, kind, "True", kind, "", now)
    if conditions.find(workload, "Evicted") is not None:
        found = conditions.with_condition(found, "Evicted", "False", "QuotaReserved", "Previously", now)
    usage = {
        "cpu": str(
            3 * int(workload["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"])
        )
    }
    assignment = {"name": "main", "flavors": {"cpu": "spot"}, "resourceUsage": usage, "count": 3}
    return {"conditions": found, "admission": {"clusterQueue": "team", "podSetAssignments": [assignment]}}


async def _complete(api: LocalApi, job: Manifest, now: str) -> None:
    ends = [
        {"type": kind, "status": "True", "reason": "CompletionsReached", "message": "done", "lastTransitionTime": now}
        for kind in ("SuccessCriteriaMet", "Complete")
    ]
    started = job["status"].get("startTime", now)
    status = {"active": 0, "succeeded": 4, "startTime": started, "completionTime": now, "conditions": ends}
    await api.patch("jobs", "train", {"status": status}, subresource="status")


ACTS = ("admit", "evict", "pods", "grow", "resize", "complete")


@settings(max_examples=40, deadline=None)
@given(
    fates=st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=12),
    acts=st.lists(st.sampled_from(ACTS), max_size=12),
)
def test_whenever_it_dies_everything_ends_right(fates: list[tuple[int, bool]], acts: list[str]) -> None:
    async def play() -> None:
        async with local_cluster() as world:
            await world.api.create("resourceflavors", copy.deepcopy(FLAVOR))
            annotations = {"kueue.x-k8s.io/job-min-parallelism": "2"}
            job = a_job(metadata={"annotations": annotations}, suspend=True, parallelism=4, completions=4)
            await world.api.create("jobs", job)
            relay = Relay(world, list(fates))
            await relay.settled()
            for act in [*acts, "pods", "admit", "pods", "complete"]:
                await _act(relay, act)
                await relay.settled()
            finished = relay.scene.condition("Finished")
            assert finished is not None
            assert finished[1] == "Succeeded"

    asyncio.run(play())
