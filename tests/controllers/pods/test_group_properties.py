"""Whatever happens to a group and in whatever order: all of its pods run or none, and it can always go on."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.apis.machinery.kind import Manifest
from fairway.integrations import conditions, pod_groups, pods
from fairway.store.entries import Change
from fairway.store.verbs.reading import decoded

from .world import PodWorld, pod, pod_world

_SIZE = 3
_ACTIONS = ("create", "delete", "admit", "evict", "run", "succeed", "fail", "end", "restart", "wait")


class Play:
    """A group `g` of three pods in two roles, to which anything may happen."""

    def __init__(self, world: PodWorld) -> None:
        self.world = world
        self._made = 0
        self._broken: list[str] = []
        world.watchers.append(self._check_change)

    # What must never happen

    def _check_change(self, change: Change) -> None:
        if change.type != "MODIFIED" or change.previous is None:
            return
        before, after = decoded(change.previous), decoded(change.entry)
        workload = self.workload()
        started = change.entry.resource == "pods" and pods.is_gated(before) and not pods.is_gated(after)
        if started and (workload is None or not conditions.is_true(workload, "Admitted")):
            self._broken.append(f"{change.entry.key[1]} was started without admission")
        if change.entry.resource.startswith("workloads"):
            released = conditions.is_true(before, "QuotaReserved") and not conditions.is_true(after, "QuotaReserved")
            if released and self._running():
                self._broken.append("quota was given back while pods run")

    def check_calm(self) -> None:
        """What holds when nobody has anything left to do."""
        assert not self._broken
        workload = self.workload()
        open_pods = [
            one
            for one in self.pods()
            if not pods.is_gated(one) and not pods.is_deleting(one) and not pods.is_terminated(one)
        ]
        if workload is None or not conditions.is_true(workload, "Admitted"):
            assert not open_pods, "pods run that are not admitted"
        elif not conditions.is_true(workload, "Evicted") and not conditions.is_true(workload, "Finished"):
            roles = {one["name"] for one in workload["spec"]["podSets"]}
            gated = [
                one
                for one in self.pods()
                if pods.is_gated(one) and not pods.is_deleting(one) and pod_groups.role(one) in roles
            ]
            assert not gated, "some pods of an admitted group do not run"

    # What there is

    def workload(self) -> Manifest | None:
        return self.world.api.get("workloads", "g")

    def pods(self) -> list[Manifest]:
        return [self.world.pod(name) for name in sorted(self.world.api.names("pods"))]

    def _running(self) -> list[Manifest]:
        return [one for one in self.pods() if pods.phase(one) == "Running"]

    def _pick(self, number: int, fits: Callable[[Manifest], bool]) -> str | None:
        found = [str(one["metadata"]["name"]) for one in self.pods() if fits(one)]
        return found[number % len(found)] if found else None

    # What may happen

    async def do(self, action: str, number: int) -> None:
        act: Callable[[int], Coroutine[Any, Any, None]] = getattr(self, f"_{action}")
        await act(number)
        await self.world.calm()
        self.check_calm()

    async def _create(self, number: int) -> None:
        """Another pod, of the small role twice as often as of the big one."""
        self._made += 1
        cpu = "2" if number % _SIZE == 0 else "1"
        await self.world.api.create("pods", pod(f"p{self._made:03}", group="g", total=_SIZE, cpu=cpu))

    async def _delete(self, number: int) -> None:
        name = self._pick(number, lambda one: not pods.is_deleting(one))
        if name is not None:
            await self.world.api.delete("pods", name)

    async def _admit(self, _: int) -> None:
        workload = self.workload()
        if workload is None or any(
            conditions.is_true(workload, one) for one in ("Finished", "QuotaReserved", "WaitingForReplacementPods")
        ):
            return
        await self.world.admit("g")

    async def _evict(self, number: int) -> None:
        workload = self.workload()
        if workload is None or not conditions.is_true(workload, "QuotaReserved"):
            return
        if not any(conditions.is_true(workload, one) for one in ("Finished", "Evicted")):
            await self.world.evict("g", ("Preempted", "PodsReadyTimeout")[number % 2])

    async def _run(self, number: int) -> None:
        name = self._pick(
            number, lambda one: not pods.is_gated(one) and not pods.is_deleting(one) and pods.phase(one) == "Pending"
        )
        if name is not None:
            await self.world.run(name)

    async def _succeed(self, number: int) -> None:
        name = self._pick(number, lambda one: pods.phase(one) == "Running")
        if name is not None:
            await self.world.report(name, "Succeeded")

    async def _fail(self, number: int) -> None:
        name = self._pick(number, lambda one: pods.phase(one) == "Running")
        if name is not None:
            await self.world.report(name, "Failed")

    async def _end(self, number: int) -> None:
        name = self._pick(number, lambda one: pods.is_deleting(one) and bool(one["spec"].get("nodeName")))
        if name is not None:
            if not pods.is_terminated(self.world.pod(name)):
                await self.world.report(name, "Failed")
            await self.world.api.delete("pods", name, grace_seconds=0)

    async def _restart(self, _: int) -> None:
        await self.world.stop()
        await self.world.start()

    async def _wait(self, _: int) -> None:
        await self.world.clock.run_for(2)

    async def bring_to_an_end(self) -> None:
        """With goodwill on all sides the group finishes."""
        for _ in range(40):
            workload = self.workload()
            if workload is not None and conditions.is_true(workload, "Finished"):
                return
            for name in sorted(self.world.api.names("pods")):
                if not self.world.has("pods", name):
                    continue
                one = self.world.pod(name)
                if pods.is_deleting(one) and one["spec"].get("nodeName"):
                    await self._end_of(name)
                elif not pods.is_gated(one) and pods.phase(one) == "Pending" and not pods.is_deleting(one):
                    await self.world.run(name)
                elif pods.phase(one) == "Running":
                    await self.world.report(name, "Succeeded")
            await self.world.calm()
            await self._admit(0)
            await self._fill_up()
            await self.world.calm()
            self.check_calm()
            await self.world.clock.run_for(1)
        raise AssertionError(f"the group does not end: {self.workload()}")

    async def _end_of(self, name: str) -> None:
        if not pods.is_terminated(self.world.pod(name)):
            await self.world.report(name, "Failed")
        await self.world.api.delete("pods", name, grace_seconds=0)

    async def _fill_up(self) -> None:
        """Make the pods that are missing, of the role that misses them."""
        workload = self.workload()
        if workload is None:
            if sum(map(_counts, self.pods())) < _SIZE:
                await self._create(1)
            return
        for pod_set in workload["spec"]["podSets"]:
            cpu = pod_set["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"]
            good = [
                one
                for one in self.pods()
                if one["spec"]["containers"][0]["resources"]["requests"]["cpu"] == cpu and _counts(one)
            ]
            if len(good) < pod_set["count"]:
                await self._create(0 if cpu == "2" else 1)


def _counts(one: Manifest) -> bool:
    return pods.phase(one) == "Succeeded" or (pods.phase(one) != "Failed" and not pods.is_deleting(one))


def _played(story: Callable[[Play], Awaitable[None]]) -> None:
    async def play() -> None:
        async with pod_world() as world:
            await world.start()
            try:
                await story(Play(world))
            finally:
                await world.stop()

    asyncio.run(play())


@settings(max_examples=40)
@given(st.lists(st.tuples(st.sampled_from(_ACTIONS), st.integers(0, 5)), max_size=25))
def test_all_pods_of_a_group_run_or_none_and_it_can_end(happenings: list[tuple[str, int]]) -> None:
    async def story(play: Play) -> None:
        for number in (0, 1, 2):
            await play.do("create", number)
        for action, number in happenings:
            await play.do(action, number)
        await play.bring_to_an_end()

    _played(story)
