"""The controller on a real store: pods come and go, statuses and events are written, and nothing more than needed."""

import asyncio
import copy
from collections.abc import Coroutine
from typing import Any

import pytest

from fairway.controllers.batchjob import JobController
from fairway.controllers.batchjob.observe import COMPLETION_INDEX, LOST
from fairway.store.memory import MemoryLog
from fairway.testing.stores import PATIENCE_SECONDS, UnreliableLog

from .kubelets import a_controller_in, a_running_world, a_world
from .things import TEMPLATE

DISRUPTED = {"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": LOST}]}
REACHED = "Reached expected number of succeeded pods"


def run(play: Coroutine[Any, Any, None]) -> None:
    asyncio.run(play)


def test_a_short_job_costs_one_pod_and_one_status() -> None:
    async def play() -> None:
        async with a_running_world() as world:
            await world.submit()
            [pod] = await world.until_pods(1)
            await world.start(pod)
            await world.end(pod)
            await world.until(lambda: world.says("Complete"))
            await world.cluster.clock.run_for(1)
            await world.nothing_else_happens()

            created_and_told = 2
            assert world.writes("jobs.batch", "job") == created_and_told
            assert len(world.names()) == 1
            assert world.status()["succeeded"] == 1
            assert await world.events() == [
                ("Normal", "SuccessfulCreate", f"Created pod: {pod}"),
                ("Normal", "Completed", "Job completed"),
            ]

    run(play())


def test_a_job_that_is_over_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    reconcile = JobController._reconcile

    async def counted(self: JobController, key: tuple[str, str]) -> float | None:
        looks.append(key[1])
        return await reconcile(self, key)

    async def play() -> None:
        monkeypatch.setattr(JobController, "_reconcile", counted)
        async with a_running_world() as world:
            await world.submit()
            [pod] = await world.until_pods(1)
            await world.start(pod)
            await world.end(pod)
            await world.until(lambda: world.says("Complete"))
            before = looks.count("job")
            await world.cluster.clock.run_for(60)
            await world.nothing_else_happens()

            assert looks.count("job") == before

    run(play())


def test_a_longer_job_tells_how_far_it_has_come() -> None:
    async def play() -> None:
        async with a_running_world() as world:
            await world.submit(parallelism=2, completions=2)
            first, second = await world.until_pods(2)
            await world.start(first)
            await world.start(second)
            await world.cluster.clock.run_for(0.2)
            await world.until(lambda: world.status().get("ready") == 2)
            assert world.status()["active"] == 2
            await world.end(first)
            await world.nothing_else_happens()
            await world.cluster.clock.run_for(0.2)
            await world.until(lambda: world.status().get("succeeded") == 1)
            assert world.status()["active"] == 1

    run(play())


def test_an_indexed_job_runs_every_index() -> None:
    async def play() -> None:
        async with a_running_world() as world:
            await world.submit(completionMode="Indexed", completions=3, parallelism=2)
            while not world.says("Complete"):
                for pod in world.names("Pending"):
                    await world.end(pod)
                await world.until(lambda: bool(world.names("Pending")) or world.says("Complete"))

            assert world.status()["completedIndexes"] == "0-2"
            assert sorted(pod["metadata"]["labels"][COMPLETION_INDEX] for pod in world.pods()) == ["0", "1", "2"]
            assert sorted(pod["metadata"]["name"][:6] for pod in world.pods()) == ["job-0-", "job-1-", "job-2-"]

    run(play())


def test_a_failing_job_is_tried_again_later_and_later_until_it_has_failed() -> None:
    async def play() -> None:
        async with a_running_world() as world:
            await world.submit(backoffLimit=1)
            [first] = await world.until_pods(1, "Pending")
            await world.end(first, exit_code=3)
            await world.nothing_else_happens()
            await world.cluster.clock.run_for(9)
            await world.nothing_else_happens()
            assert world.names() == [first]

            await world.cluster.clock.run_for(1.5)
            [second] = await world.until_pods(1, "Pending")
            await world.end(second, exit_code=3)
            await world.until(lambda: world.says("Failed"))

            assert world.status()["failed"] == 2
            assert (await world.events())[-1] == (
                "Warning",
                "BackoffLimitExceeded",
                "Job has reached the specified backoff limit",
            )

    run(play())


def test_what_the_machine_took_is_run_again_at_once_and_blamed_on_nobody() -> None:
    async def play() -> None:
        async with a_running_world() as world:
            await world.submit(backoffLimit=0)
            [first] = await world.until_pods(1, "Pending")
            await world.start(first)
            await world.end(first, exit_code=137, **DISRUPTED)
            [second] = await world.until_pods(1, "Pending")
            await world.end(second)
            await world.until(lambda: world.says("Complete"))

            assert (world.status()["failed"], world.status()["succeeded"]) == (1, 1)

    run(play())


def test_a_suspended_job_stands_still_at_once_and_goes_on_when_resumed() -> None:
    async def play() -> None:
        async with a_running_world() as world:
            await world.submit(backoffLimit=0)
            [first] = await world.until_pods(1)
            await world.start(first)
            await world.cluster.clock.run_for(0.2)
            await world.until(lambda: world.status().get("active") == 1)

            await world.api.patch("jobs", "job", {"spec": {"suspend": True}})
            await world.until(lambda: world.says("Suspended"))
            assert {"active", "startTime"}.isdisjoint(world.status())
            assert world.status()["terminating"] == 1
            await world.end(first, reason="Stopped")
            await world.remove(first)
            await world.nothing_else_happens()

            await world.api.patch("jobs", "job", {"spec": {"suspend": False}})
            [second] = await world.until_pods(1)
            await world.end(second)
            await world.until(lambda: world.says("Complete"))

            assert world.status()["succeeded"] == 1
            assert "failed" not in world.status()
            assert [(reason, message) for _, reason, message in await world.events()] == [
                ("SuccessfulCreate", f"Created pod: {first}"),
                ("SuccessfulDelete", f"Deleted pod: {first}"),
                ("Suspended", "Job suspended"),
                ("SuccessfulCreate", f"Created pod: {second}"),
                ("Resumed", "Job resumed"),
                ("Completed", "Job completed"),
            ]

    run(play())


def test_a_pod_whose_success_nobody_has_told_of_yet_is_not_deleted_before_it_is_counted() -> None:
    """The job is suspended in the moment of its success, which is stored but not heard of when its pods are to go."""

    async def play() -> None:
        async with a_running_world() as world:
            made = await world.submit()
            [pod] = await world.until_pods(1)
            await world.start(pod)
            await world.cluster.clock.run_for(0.2)
            await world.until(lambda: world.status().get("active") == 1)
            writer = world.cluster.cluster.writer("somebody")
            await writer.patch("jobs.batch", made, {"spec": {"suspend": True}})
            ended = world.stage_end(pod)
            await world.until(lambda: world.says("Complete"))
            await ended

            assert world.status()["succeeded"] == 1
            assert world.names("Succeeded") == [pod], "it was counted before anybody may do away with it"

    run(play())


def test_a_job_that_is_let_in_at_once_never_says_that_it_was_suspended() -> None:
    async def play() -> None:
        async with a_running_world() as world:
            await world.submit(suspend=True)
            await world.nothing_else_happens()
            await world.api.patch("jobs", "job", {"spec": {"suspend": False}})
            [pod] = await world.until_pods(1)
            await world.end(pod)
            await world.until(lambda: world.says("Complete"))

            assert [one["type"] for one in world.status()["conditions"]] == ["SuccessCriteriaMet", "Complete"]

    run(play())


def test_a_job_that_waits_says_that_it_is_suspended() -> None:
    async def play() -> None:
        async with a_running_world() as world:
            await world.submit(suspend=True)
            await world.nothing_else_happens()
            await world.cluster.clock.run_for(0.2)
            await world.until(lambda: world.says("Suspended"))

            assert world.names() == []

    run(play())


def test_a_pod_deleted_by_hand_is_replaced() -> None:
    async def play() -> None:
        async with a_running_world() as world:
            await world.submit()
            [first] = await world.until_pods(1)
            await world.api.delete("pods", first)
            await world.until(lambda: world.status().get("failed") == 1)
            await world.cluster.clock.run_for(11)
            [second] = await world.until_pods(1)

            assert second != first

    run(play())


def test_a_success_deleted_by_hand_is_not_run_again() -> None:
    async def play() -> None:
        async with a_running_world() as world:
            await world.submit(parallelism=1, completions=2)
            [first] = await world.until_pods(1)
            await world.end(first)
            await world.api.delete("pods", first)
            await world.until(lambda: world.status().get("succeeded") == 1)
            [second] = await world.until_pods(1)
            await world.end(second)
            await world.until(lambda: world.says("Complete"))

            assert world.status()["succeeded"] == 2

    run(play())


def test_a_deadline_ends_a_job_once_its_pods_have_gone() -> None:
    async def play() -> None:
        async with a_running_world() as world:
            await world.submit(activeDeadlineSeconds=30)
            [pod] = await world.until_pods(1)
            await world.start(pod)
            await world.nothing_else_happens()
            await world.cluster.clock.run_for(31)
            await world.until(lambda: world.status().get("terminating") == 1)
            assert (world.says("FailureTarget"), world.says("Failed")) == (True, False)
            await world.remove(pod)
            await world.until(lambda: world.says("Failed"))

            assert world.status()["failed"] == 1
            assert (await world.events())[-1][1] == "DeadlineExceeded"

    run(play())


def test_a_finished_job_goes_with_its_pods_when_its_time_is_over() -> None:
    async def play() -> None:
        async with a_running_world() as world:
            await world.submit(ttlSecondsAfterFinished=60)
            [pod] = await world.until_pods(1)
            await world.end(pod)
            await world.until(lambda: world.says("Complete"))
            await world.nothing_else_happens()
            await world.cluster.clock.run_for(59)
            await world.nothing_else_happens()
            assert "job" in world.api.names("jobs")
            await world.cluster.clock.run_for(2)
            await world.until(lambda: "job" not in world.api.names("jobs") and pod not in world.api.names("pods"))

    run(play())


@pytest.mark.parametrize("manager", ["kueue.x-k8s.io/multikueue", "example.com/other"])
def test_a_job_that_somebody_else_manages_is_left_alone(manager: str) -> None:
    async def play() -> None:
        async with a_running_world() as world:
            await world.submit(managedBy=manager)
            await world.nothing_else_happens()
            await world.cluster.clock.run_for(1)
            await world.nothing_else_happens()

            assert world.names() == []
            assert world.status() == {}

    run(play())


def test_a_job_says_that_it_is_ours_by_name_too() -> None:
    async def play() -> None:
        async with a_running_world() as world:
            await world.submit(managedBy="kubernetes.io/job-controller")
            await world.until_pods(1)

    run(play())


def test_pods_are_made_together() -> None:
    async def play() -> None:
        log = UnreliableLog(MemoryLog())
        async with a_running_world(lambda: log) as world:
            before = len(log.batches)
            await world.submit(parallelism=100, completions=100)
            await world.until_pods(100)

            assert len(log.batches) - before <= 5

    run(play())


def test_pods_that_could_not_be_made_are_made_later_and_not_too_many() -> None:
    async def play() -> None:
        log = UnreliableLog(MemoryLog())
        async with a_running_world(lambda: log) as world:
            await world.submit("first", suspend=True, parallelism=3, completions=3)
            await world.nothing_else_happens()
            refused = len(log.batches)
            await world.api.patch("jobs", "first", {"spec": {"suspend": False}})
            log.failing = True
            async with asyncio.timeout(PATIENCE_SECONDS):
                while len(log.batches) < refused + 3:
                    await world.cluster.clock.run_for(0.1)
                log.failing = False
                while len(world.names(job="first")) < 3:
                    await world.cluster.clock.run_for(1)
            await world.nothing_else_happens()

            assert len(world.names(job="first")) == 3
            assert ("Warning", "FailedCreate") in {one[:2] for one in await world.events("first")}

    run(play())


def test_a_pod_that_was_made_before_a_restart_is_not_made_again() -> None:
    async def play() -> None:
        async with a_world() as world:
            async with a_controller_in(world):
                await world.submit()
                [first] = await world.until_pods(1)
            async with a_controller_in(world):
                await world.nothing_else_happens()
                assert world.names() == [first]
                await world.end(first)
                await world.until(lambda: world.says("Complete"))

    run(play())


def test_what_ended_while_nobody_looked_is_counted() -> None:
    async def play() -> None:
        async with a_world() as world:
            async with a_controller_in(world):
                await world.submit(parallelism=2, completions=3)
                first, second = await world.until_pods(2)
                await world.end(first)
                await world.until_pods(3)
            await world.end(second)
            async with a_controller_in(world):
                [third] = await world.until_pods(1, "Pending")
                await world.end(third)
                await world.until(lambda: world.says("Complete"))

            assert world.status()["succeeded"] == 3
            assert len(world.names()) == 3

    run(play())


@pytest.mark.parametrize("seed", range(3))
def test_a_controller_killed_at_any_moment_runs_every_index_once(seed: int) -> None:
    """Each run of the controller is cut off after a few turns of the event loop, between any two of its writes."""

    async def play() -> None:
        async with a_world() as world:
            await world.submit(completionMode="Indexed", completions=4, parallelism=2, backoffLimit=0)
            for turn in range(400):
                if world.says("Complete"):
                    break
                async with a_controller_in(world):
                    for _ in range((turn * 29 + seed * 11) % 101):
                        await asyncio.sleep(0)
                for pod in world.names("Pending"):
                    await world.end(pod)

            assert world.says("Complete")
            assert len(world.names()) == 4

    run(play())


def test_a_job_with_a_selector_of_its_own_adopts_what_it_finds() -> None:
    async def play() -> None:
        async with a_running_world() as world:
            labels = {"app": "mine"}
            stray = {"metadata": {"name": "stray", "namespace": "default", "labels": {**labels, "job-name": "job"}}}
            await world.api.create("pods", copy.deepcopy({"apiVersion": "v1", "kind": "Pod", **stray, **TEMPLATE}))
            template = {**TEMPLATE, "metadata": {"labels": labels}}
            made = await world.submit(manualSelector=True, selector={"matchLabels": labels}, template=template)
            await world.nothing_else_happens()
            await world.cluster.clock.run_for(0.2)
            await world.until(lambda: world.status().get("active") == 1)

            [adopted] = world.pods()
            assert adopted["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
            assert len([name for name in world.api.names("pods") if name.startswith("job-")]) == 0

    run(play())


def test_a_pod_that_is_taken_away_from_its_job_is_replaced() -> None:
    async def play() -> None:
        async with a_running_world() as world:
            await world.submit()
            [first] = await world.until_pods(1)
            await world.nothing_else_happens()
            await world.api.patch("pods", first, {"metadata": {"ownerReferences": None}})
            await world.until_pods(2)

            assert "ownerReferences" not in (world.api.get("pods", first) or {})["metadata"]

    run(play())


def test_a_job_that_is_deleted_gets_no_more_pods() -> None:
    async def play() -> None:
        async with a_running_world() as world:
            await world.submit()
            [pod] = await world.until_pods(1)
            await world.start(pod)
            await world.api.delete("jobs", "job", propagation="Foreground")
            await world.until(lambda: "deletionTimestamp" in (world.pods() or [{"metadata": {}}])[0]["metadata"])
            await world.nothing_else_happens()
            assert world.names() == [pod]
            await world.remove(pod)
            await world.until(lambda: "job" not in world.api.names("jobs"))

    run(play())


def test_a_change_that_means_nothing_to_a_job_writes_nothing() -> None:
    async def play() -> None:
        async with a_running_world() as world:
            await world.submit()
            [pod] = await world.until_pods(1)
            await world.cluster.clock.run_for(0.2)
            await world.until(lambda: world.status().get("active") == 1)
            before = world.writes("jobs.batch", "job")
            await world.api.patch("pods", pod, {"metadata": {"annotations": {"a": "b"}}})
            await world.api.patch("jobs", "job", {"metadata": {"annotations": {"a": "b"}}})
            await world.nothing_else_happens()
            await world.cluster.clock.run_for(1)
            await world.nothing_else_happens()

            assert world.writes("jobs.batch", "job") == before + 1
            assert world.names() == [pod]

    run(play())
