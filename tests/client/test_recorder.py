"""Events: told at once, written together, counted when they come again."""

import asyncio

from fairway.apis.machinery.kind import Manifest
from fairway.client.recorder import Recorder
from fairway.testing.clusters import LocalCluster, local_cluster


async def something(world: LocalCluster, name: str = "a") -> Manifest:
    return await world.api.create("configmaps", {"metadata": {"name": name, "namespace": "default"}})


def test_an_event_says_what_happened_to_what() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            recorder = Recorder(world.cluster, "tester")
            about = await something(world)
            recorder.warning(about, "Broken", "it broke")
            await recorder.flush()
            (event,) = world.events()
            assert event["involvedObject"]["uid"] == about["metadata"]["uid"]
            assert event["involvedObject"]["kind"] == "ConfigMap"
            assert (event["type"], event["reason"], event["message"]) == ("Warning", "Broken", "it broke")
            assert (event["count"], event["source"]) == (1, {"component": "tester"})

    asyncio.run(story())


def test_what_is_told_again_is_counted() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            recorder = Recorder(world.cluster, "tester")
            about = await something(world)
            recorder.normal(about, "Pulled", "again")
            recorder.normal(about, "Pulled", "again")
            await recorder.flush()
            world.clock.advance(60)
            recorder.normal(about, "Pulled", "again")
            recorder.normal(about, "Pulled", "something else")
            await recorder.flush()
            events = {event["message"]: event for event in world.events()}
            assert {message: event["count"] for message, event in events.items()} == {"again": 3, "something else": 1}
            assert events["again"]["firstTimestamp"] < events["again"]["lastTimestamp"]

    asyncio.run(story())


def test_a_series_keeps_its_first_message_and_counts_the_others() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            recorder = Recorder(world.cluster, "tester")
            about = await something(world)
            recorder.series(about, "PreemptedWorkload", "Preempted workload a")
            await recorder.flush()
            assert "series" not in world.events()[0]
            for victim in "bcd":
                recorder.series(about, "PreemptedWorkload", f"Preempted workload {victim}")
            await recorder.flush()
            (event,) = world.events()
            assert (event["message"], event["count"], event["series"]["count"]) == ("Preempted workload a", 4, 3)

    asyncio.run(story())


def test_events_about_cluster_wide_objects_and_gone_namespaces_do_no_harm() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            recorder = Recorder(world.cluster, "tester")
            flavor = await world.api.create("resourceflavors", {"metadata": {"name": "f"}})
            gone = await something(world)
            gone["metadata"]["namespace"] = "gone"
            recorder.normal(flavor, "Seen", "x" * 5000)
            recorder.normal(gone, "Seen", "nowhere to write it")
            await recorder.flush()
            (event,) = world.events()
            assert event["metadata"]["namespace"] == "default"
            assert len(event["message"]) == 1024

    asyncio.run(story())


def test_a_running_recorder_writes_by_itself() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            recorder = Recorder(world.cluster, "tester")
            async with world.running(recorder):
                for number in range(100):
                    recorder.normal(await something(world, f"n{number}"), "Seen", "m")
                while len(world.events()) < 100:
                    await world.clock.run_for(1)
            assert len(world.events()) == 100

    asyncio.run(story())


def test_what_was_recorded_before_the_end_is_written() -> None:
    """Once, a controller that was stopped within 50 ms of a decision left no event about it."""

    async def story() -> None:
        async with local_cluster() as world:
            recorder = Recorder(world.cluster, "tester")
            async with world.running(recorder):
                recorder.normal(await something(world), "Seen", "m")
            assert [event["reason"] for event in world.events()] == ["Seen"]

    asyncio.run(story())
