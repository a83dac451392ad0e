"""Many jobs on a real queue, while users, pods, queues and deaths of the server come in any order and at any moment.

Whatever happens: when peace is made, every job that is there comes to its end, no pod was made twice, and nothing is
left of any of them.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from controllers.manifests import cluster_queue
from fairway.apis.kueue.configuration import WaitForPodsReady
from fairway.apis.machinery.kind import Manifest
from fairway.errors import Invalid, NotFound, ValidationError
from fairway.integrations import conditions
from fairway.managedjobs.states import FINAL
from fairway.store.entries import Change

from .scene import JOBS, PREEMPTING, Scene, a_scene, job, story, task

STEPS = 60
MOST_JOBS = 7
ROUNDS = 80
READINESS = WaitForPodsReady(timeout_seconds=20.0, recovery_timeout_seconds=20.0, backoff_limit=2)


class Chance:
    """Somebody who does all that can be done, without a plan."""

    def __init__(self, scene: Scene, seed: int) -> None:
        self.scene = scene
        self.api = scene.api
        self.chance = random.Random(seed)  # noqa: S311 - the same life every time
        self.made: dict[tuple[str, str], set[str]] = {}
        """The uids of all pods that ever were, by their names."""

        self.api.store.observe(self._note)
        self.deeds: list[Callable[[], Awaitable[None]]] = [
            *[self.launch] * 4,
            *[self.wait] * 3,
            *[self.die] * 2,
            *[self.end_pod] * 3,
            self.ask,
            self.ask,
            self.retry,
            self.delete_job,
            self.lose_pod,
            self.delete_pod,
            self.delete_workload,
            self.switch_workload,
            self.change_queue,
            self.change_quota,
            self.change_kubelet,
        ]

    def _note(self, change: Change) -> None:
        if change.entry.resource == "pods" and change.previous is None:
            self.made.setdefault(change.entry.key, set()).add(change.entry.meta.uid)

    async def do_something(self) -> None:
        """Then let everything come to rest, or not."""
        with suppress(NotFound, Invalid, ValidationError):
            await self.chance.choice(self.deeds)()
        if self.chance.random() < 0.6:
            await self.scene.rest()
        else:
            await self._some_turns()

    async def _some_turns(self) -> None:
        for _ in range(self.chance.choice([0, 1, 3, 10, 30])):
            await asyncio.sleep(0)

    def jobs(self) -> list[Manifest]:
        found = [self.api.get(JOBS, name) for name in sorted(self.api.names(JOBS))]
        return [one for one in found if one]

    def _a_job(self) -> Manifest:
        found = self.jobs()
        if not found:
            raise NotFound("there are no jobs")
        return self.chance.choice(found)

    def _a_pod(self, *phases: str) -> str:
        found: list[str] = [pod["metadata"]["name"] for pod in self.scene.pods() if pod["status"]["phase"] in phases]
        if not found:
            raise NotFound("there are no such pods")
        return self.chance.choice(found)

    # Users

    async def launch(self) -> None:
        chance = self.chance
        if len(self.jobs()) >= MOST_JOBS:
            return
        tasks = [self._a_task() for _ in range(chance.choice([1, 1, 2]))]
        spec: dict[str, Any] = {"recover": chance.random() < 0.7, "priority": chance.choice([0, 0, 5, 20, 50])}
        if chance.random() < 0.2:
            either = {"ordered": [{"cpus": chance.choice([3, 4, 100])}, {"cpus": 1}]}
            tasks, spec["provisionTimeoutSeconds"] = [{"run": "true", "resources": either}], 20
        await self.api.create(JOBS, job("j", *tasks, hold=chance.random() < 0.1, **spec), "default")

    def _a_task(self) -> Manifest:
        chance = self.chance
        recovery = {"job_recovery": {"max_restarts_on_errors": chance.choice([0, 2])}}
        limits = {"max_duration": 30} if chance.random() < 0.2 else {}
        return task(chance.choice([1, 2, 3]), num_nodes=chance.choice([1, 1, 2]), resources=recovery, **limits)

    async def ask(self) -> None:
        wish = self.chance.choice([{"cancel": True}, {"hold": True}, {"hold": False}, {"priority": 40}])
        await self.api.patch(JOBS, self._a_job()["metadata"]["name"], {"spec": wish})

    async def retry(self) -> None:
        found = self._a_job()
        wish = {"retry": (found["spec"].get("retry") or 0) + 1, "cancel": False}
        await self.api.patch(JOBS, found["metadata"]["name"], {"spec": wish})

    async def delete_job(self) -> None:
        how = self.chance.choice(["", "Foreground", "Background"])
        await self.api.delete(JOBS, self._a_job()["metadata"]["name"], propagation=how)

    # Pods

    async def end_pod(self) -> None:
        code, container = self.chance.choice([(0, "run"), (1, "run"), (1, "setup")])
        await self.scene.finish(self._a_pod("Running"), code, container=container)

    async def lose_pod(self) -> None:
        await self.scene.lose(self._a_pod("Running", "Pending"))

    async def delete_pod(self) -> None:
        await self.api.delete("pods", self._a_pod("Running", "Pending"), grace_seconds=self.chance.choice([None, 0]))

    async def change_kubelet(self) -> None:
        self.scene.slow = not self.scene.slow

    # The queue

    async def delete_workload(self) -> None:
        await self.api.delete("workloads", self._a_job()["status"].get("workload", ""))

    async def switch_workload(self) -> None:
        wish = {"spec": {"active": self.chance.random() < 0.5}}
        await self.api.patch("workloads", self._a_job()["status"].get("workload", ""), wish)

    async def change_queue(self, policy: str = "") -> None:
        policy = policy or self.chance.choice(["None", "Hold", "HoldAndDrain"])
        await self.api.patch("clusterqueues", "cluster-queue", {"spec": {"stopPolicy": policy}}, namespace="")

    async def change_quota(self, cores: str = "") -> None:
        groups = cluster_queue(**PREEMPTING)["spec"]["resourceGroups"]
        groups[0]["flavors"][0]["resources"][0]["nominalQuota"] = cores or self.chance.choice(["1", "3", "4"])
        await self.api.patch("clusterqueues", "cluster-queue", {"spec": {"resourceGroups": groups}}, namespace="")

    # Time

    async def wait(self) -> None:
        await self.scene.pass_time(self.chance.choice([0.5, 2, 10, 40]))

    async def die(self) -> None:
        await self._some_turns()
        await self.scene.kill()
        await self.scene.start()

    # Peace

    async def make_peace(self) -> None:
        """Nothing speaks against any job any more, and pods that run are done after a while."""
        self.scene.slow = False
        await self.change_quota("8")
        await self.change_queue("None")
        for hold in (True, False):
            for one in self.jobs():
                await self.api.patch(JOBS, one["metadata"]["name"], {"spec": {"hold": hold}})
            await self.scene.rest()
        for _ in range(ROUNDS):
            if all(one["status"]["phase"] in FINAL for one in self.jobs()):
                break
            await self.scene.pass_time(130)
            for pod in self.scene.pods():
                if pod["status"]["phase"] == "Running":
                    await self.scene.finish(pod["metadata"]["name"], 0)
            await self.scene.rest()
        await self.scene.pass_time(5)

    def check(self) -> None:
        assert not [one for one in self.jobs() if one["status"]["phase"] not in FINAL]
        assert not self.api.names("pods")
        workloads = [self.api.get("workloads", name) for name in self.api.names("workloads")]
        assert all(conditions.is_true(one, conditions.FINISHED) for one in workloads if one)
        assert not [name for name, uids in self.made.items() if len(uids) > 1], "no pod is made twice"
        for one in self.jobs():
            assert all("endedAt" in attempt for attempt in one["status"].get("attempts") or ())


@pytest.mark.parametrize("seed", range(12))
@story
async def test_every_job_comes_to_its_end_and_nothing_is_left(seed: int, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with a_scene(wait_for_pods_ready=READINESS if seed % 2 else None) as scene:
            chance = Chance(scene, seed)
            for _ in range(STEPS):
                await chance.do_something()
            await chance.make_peace()
            chance.check()
    assert not caplog.records, "nothing went wrong on the way"
