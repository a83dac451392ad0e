"""The server may be killed between any two writes: what was begun is finished by the next one, once."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable

from fairway.apis.machinery.kind import Manifest
from fairway.integrations import conditions, pods

from .world import PodWorld, pod, pod_world


class Others:
    """Everybody but the controller: they do whatever is to be done, one round after the other."""

    def __init__(self, world: PodWorld, *, evictions: int = 0) -> None:
        self._world = world
        self._evictions = evictions
        self._numbers = itertools.count()
        self.runs: dict[str, int] = {}
        """How often each pod was started."""

    async def queue(self) -> None:
        """Admit what waits; evict something that runs, a given number of times."""
        world = self._world
        for name in sorted(world.api.names("workloads")):
            workload = world.workload(name)
            if conditions.is_true(workload, "Finished") or conditions.is_true(workload, "WaitingForReplacementPods"):
                continue
            if not conditions.is_true(workload, "QuotaReserved"):
                await world.admit(name)
            elif self._evictions and not conditions.is_true(workload, "Evicted") and self._all_run():
                self._evictions -= 1
                await world.evict(name)

    async def node(self, *, succeed: bool) -> None:
        """Start what is open, end what must go, and let what runs succeed if nothing more is to happen to it."""
        world = self._world
        for name in sorted(world.api.names("pods")):
            found = world.pod(name)
            if pods.is_terminated(found) or pods.is_gated(found):
                continue
            if pods.is_deleting(found):
                await world.end(name)
            elif pods.phase(found) != "Running":
                self.runs[name] = self.runs.get(name, 0) + 1
                await world.run(name)
            elif succeed and not self._evictions and not self._is_evicted():
                await world.report(name, "Succeeded")

    async def user(self, size: int) -> None:
        """Make a pod in place of each that went or goes."""
        world = self._world
        good = [
            name
            for name in world.api.names("pods")
            if not pods.is_deleting(world.pod(name)) and pods.phase(world.pod(name)) != "Failed"
        ]
        for _ in range(size - len(good)):
            await world.api.create("pods", pod(f"p{next(self._numbers)}", group="g", total=size))

    def _all_run(self) -> bool:
        found = [self._world.pod(name) for name in self._world.api.names("pods")]
        return bool(found) and all(pods.phase(one) == "Running" for one in found)

    def _is_evicted(self) -> bool:
        return any(
            conditions.is_true(self._world.workload(name), "Evicted") for name in self._world.api.names("workloads")
        )


async def _until_done(
    world: PodWorld, others: Others, done: Callable[[], object], user: Callable[[], Awaitable[None]]
) -> None:
    async with asyncio.timeout(20):
        while not done():
            if world.controller is None:
                await world.stop()
                await world.start()
            await user()
            await others.queue()
            await others.node(succeed=True)
            await world.calm()
            await world.clock.run_for(0.25)


async def _nobody() -> None:
    pass


def _ended(world: PodWorld) -> Manifest | None:
    for name in world.api.names("workloads"):
        found = conditions.find(world.workload(name), "Finished")
        if found is not None:
            return found
    return None


async def _one_pod(kill_after: int | None) -> int:
    async with pod_world() as world:
        world.kill_after = kill_after
        others = Others(world)
        await world.start()
        await world.api.create("pods", pod("a"))
        await _until_done(world, others, lambda: _ended(world), _nobody)
        ended = _ended(world)
        assert ended is not None
        assert ended["reason"] == "Succeeded"
        assert others.runs == {"a": 1}
        await world.stop()
        return len(world.writes)


async def _one_group(kill_after: int | None) -> int:
    async with pod_world() as world:
        world.kill_after = kill_after
        others = Others(world, evictions=1)
        await world.start()
        await _until_done(world, others, lambda: _ended(world), lambda: others.user(2))
        ended = _ended(world)
        assert ended is not None
        assert (ended["reason"], ended["message"]) == ("Succeeded", "Pods succeeded: 2/2.")
        assert set(others.runs.values()) == {1}
        assert len(others.runs) == 4  # two that were evicted, and two in their place
        await world.calm()
        if world.controller is None:
            await world.stop()
            await world.start()
            await world.calm()
        for name in world.api.names("pods"):
            assert not pods.is_held(world.pod(name))
        await world.stop()
        return len(world.writes)


def test_a_pod_runs_once_whenever_the_server_is_killed() -> None:
    async def play() -> None:
        for kill_after in range(1, await _one_pod(None) + 1):
            await _one_pod(kill_after)

    asyncio.run(play())


def test_a_group_is_evicted_replaced_and_finished_whenever_the_server_is_killed() -> None:
    async def play() -> None:
        for kill_after in range(1, await _one_group(None) + 1):
            await _one_group(kill_after)

    asyncio.run(play())
