"""Why Workloads wait, from their conditions alone, beside what the engine that wrote them says."""

import asyncio

from controllers.admission.plays import Play, play
from fairway.admission.port import WaitingExplainer
from fairway.controllers.decider.stored import Positions, StoredExplainer
from fairway.testing.builders import cluster_queue, flavor, local_queue, workload
from fairway.testing.clusters import LocalCluster, cluster_on

QUEUES = (flavor(), cluster_queue("cq", cpu=4, within="LowerPriority"), local_queue("lq", "cq"))
NAMES = {"low": 1, "high": 5, "unlisted": 0}
FIELDS = ("clusterQueue", "localQueue", "position", "localPosition", "priority", "owner", "canEverRun")


def anything(_: str) -> bool:
    return True


async def check_parts(explainer: WaitingExplainer) -> None:
    """The parts of the list are the list, and each says whether others follow."""
    for namespace in ("", "default", "elsewhere"):
        whole = (await explainer.page(namespace)).items
        for size in (1, 2, len(whole) + 1):
            for first in range(0, len(whole) + 2, size):
                part = await explainer.page(namespace, first, size)
                assert part == (whole[first : first + size], len(whole) > first + size)


async def both(on_stage: Play) -> tuple[dict[str, dict[str, object]], dict[str, dict[str, object]]]:
    """What the objects say and what the engine says, by name."""
    there = LocalCluster(on_stage.api, cluster_on(on_stage.api, on_stage.clock), on_stage.clock)
    explainer = StoredExplainer(there.cluster)
    async with there.running():
        stored = {item["metadata"]["name"]: item for item in (await explainer.page()).items}
        for name, item in stored.items():
            one = await explainer.one("default", name, anything, may_change=True, any_priority=True)
            assert one is not None
            assert {field: one[field] for field in item} == item
        assert await explainer.one("default", "nobody", anything, may_change=True, any_priority=True) is None
        await check_parts(explainer)
    await check_parts(on_stage.waiting)
    return stored, {item["metadata"]["name"]: item for item in (await on_stage.waiting.page()).items}


def test_positions_queues_and_whether_waiting_helps_are_those_of_the_engine() -> None:
    async def story() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(workload("holder", queue="lq", cpu=4, priority=9))
            await on_stage.submit(
                workload("low", queue="lq", cpu=2, priority=1),
                workload("high", queue="lq", cpu=2, priority=5),
                workload("huge", queue="lq", cpu=40),
            )
            await on_stage.pass_time(2)
            stored, engine = await both(on_stage)
            assert {name: [item[field] for field in FIELDS] for name, item in stored.items()} == {
                name: [item[field] for field in FIELDS] for name, item in engine.items()
            }
            assert stored["high"]["message"] == (
                "couldn't assign flavors to pod set main: "
                "insufficient unused quota for cpu in flavor default, 2 more needed"
            )
            assert not stored["huge"]["canEverRun"]

    asyncio.run(story())


def test_those_in_no_queue_and_those_with_quota_have_a_sentence_too() -> None:
    async def story() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(workload("off", queue="lq", cpu=1), workload("placed", queue="lq", cpu=1))
            await on_stage.set_condition("placed", "WaitingForNode", "True", "Unschedulable", "0/1 nodes are available")
            await on_stage.set_active("off", active=False)
            await on_stage.pass_time(1)
            assert set((await both(on_stage))[0]) == set((await both(on_stage))[1]) == {"placed"}
            await on_stage.release("off")
            await on_stage.submit(workload("lost", queue="no-such-queue", cpu=1))
            await on_stage.pass_time(2)
            stored, engine = await both(on_stage)
            assert set(stored) == set(engine) == {"off", "placed", "lost"}
            assert stored["off"]["outcome"] == engine["off"]["outcome"] == "Deactivated"
            assert stored["placed"] == engine["placed"]
            assert stored["lost"]["message"] == "LocalQueue no-such-queue doesn't exist"

    asyncio.run(story())


def test_positions_are_those_of_the_decider_where_it_answers() -> None:
    """Kueue's visibility API, for one; what it does not list has no position, and where it fails, our own order."""

    async def kueues(cluster_queue: str) -> Positions | None:
        return {("default", "low"): (1, 1), ("default", "high"): (2, 2)} if cluster_queue == "cq" else None

    async def story() -> None:
        queues = (*QUEUES, cluster_queue("other", cpu=4), local_queue("other", "other"))
        async with play(*queues) as on_stage:
            await on_stage.submit(
                *(workload(name, queue="lq", cpu=40, priority=priority) for name, priority in NAMES.items()),
                workload("far", queue="other", cpu=40),
            )
            there = LocalCluster(on_stage.api, cluster_on(on_stage.api, on_stage.clock), on_stage.clock)
            explainer = StoredExplainer(there.cluster, order=kueues)
            async with there.running():
                found = {one["metadata"]["name"]: one["position"] for one in (await explainer.page()).items}
            assert found == {"low": 1, "high": 2, "unlisted": None, "far": 1}

    asyncio.run(story())
