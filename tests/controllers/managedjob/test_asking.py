"""What users ask of their jobs while they wait and run, on a real queue."""

import pytest

from controllers.manifests import local_queue

from .scene import a_scene, job, story


@story
async def test_cancel_while_it_waits_starts_runs_and_recovers() -> None:
    async with a_scene() as scene:
        running = await scene.launch(job("running"))
        waiting = await scene.launch(job("waiting"))
        await scene.ask(waiting, cancel=True)
        assert scene.phase(waiting) == "CANCELLED"
        assert scene.api.get("workloads", scene.status(waiting)["workload"]) is None

        await scene.launch(job("high", priority=50))
        await scene.pass_time(1)
        assert scene.phase(running) == "RECOVERING"
        await scene.ask(running, cancel=True)
        assert scene.phase(running) == "CANCELLED"

        scene.slow = True
        await scene.ask("high-3", cancel=True)
        assert scene.phase("high-3") == "CANCELLING", "its pod has not ended"
        scene.slow = False
        await scene.rest()
        assert scene.phase("high-3") == "CANCELLED"

        scene.slow = True
        starting = await scene.launch(job("starting"))
        await scene.pass_time(1)
        assert scene.phase(starting) == "STARTING"
        await scene.ask(starting, cancel=True)
        assert scene.phase(starting) == "CANCELLED"
        assert not scene.pods()


@story
async def test_hold_stops_a_job_and_release_brings_it_back() -> None:
    async with a_scene() as scene:
        name = await scene.launch(job())
        other = await scene.launch(job("other"))
        await scene.ask(name, hold=True)
        await scene.pass_time(1)
        assert (scene.phase(name), scene.status(name)["reason"]) == ("RECOVERING", "Held")
        assert scene.phase(other) == "RUNNING", "its quota is free"

        await scene.ask(name, hold=False)
        await scene.end_all(other)
        await scene.pass_time(1)
        assert (scene.phase(name), scene.status(name)["recoveries"]) == ("RUNNING", 0)
        assert scene.status(name)["attempts"][-1]["cause"] == "held"


@story
async def test_retry_lets_an_ended_job_begin_again() -> None:
    async with a_scene() as scene:
        name = await scene.launch(job())
        await scene.end(f"{name}-1-head", 3)
        assert (scene.phase(name), scene.status(name)["attempts"][0]["exitCode"]) == ("FAILED", 3)
        await scene.ask(name, retry=1)

        assert (scene.phase(name), scene.pod_names()) == ("RUNNING", [f"{name}-2-head"])
        await scene.ask(name, cancel=True)
        await scene.ask(name, cancel=False, retry=2)
        assert (scene.phase(name), scene.pod_names()) == ("RUNNING", [f"{name}-3-head"])


@story
async def test_another_priority_counts_at_once() -> None:
    async with a_scene() as scene:
        running = await scene.launch(job("running"))
        waiting = await scene.launch(job("waiting"))
        await scene.ask(waiting, priority=70)
        await scene.pass_time(1)

        assert (scene.phase(waiting), scene.phase(running)) == ("RUNNING", "RECOVERING")
        assert scene.status(waiting)["priority"] == 70


@story
async def test_a_priority_class_is_waited_for_followed_and_added_to() -> None:
    async with a_scene() as scene:
        name = await scene.launch(job(priorityClass="urgent"))
        assert (scene.phase(name), scene.status(name)["reason"]) == ("PENDING", "PriorityClassMissing")
        urgent = {"metadata": {"name": "urgent"}, "value": 50}
        await scene.api.create("workloadpriorityclasses", urgent)
        await scene.rest()
        assert scene.phase(name) == "RUNNING"
        spec = scene.workload(name)["spec"]
        assert (spec["priority"], spec["priorityClassRef"]["name"]) == (50, "urgent")

        await scene.launch(job("higher", priority=70))
        await scene.pass_time(1)
        await scene.api.patch("workloadpriorityclasses", "urgent", {"value": 55})
        await scene.rest()
        workload = scene.workload(name)
        earned = workload["metadata"]["annotations"]["fairway.dev/earned-priority"]
        assert (workload["spec"]["priority"], earned) == (55, "10"), "the class, and what it has earned"
        assert scene.status(name)["priority"] == 65
        await scene.kill()
        await scene.start()
        assert scene.workload(name) == workload, "a restart changes nothing"


@story
async def test_a_number_does_without_its_priority_class(caplog: pytest.LogCaptureFixture) -> None:
    """The controller tried again and again to give the Workload a class that there was not."""
    async with a_scene() as scene:
        name = await scene.launch(job(priority=7, priorityClass="urgent"))
        assert scene.phase(name) == "RUNNING"
        spec = scene.workload(name)["spec"]
        assert (spec["priority"], spec.get("priorityClassRef")) == (7, None)
        assert caplog.messages == []


@story
async def test_a_job_without_a_queue_waits_for_the_default_one() -> None:
    async with a_scene() as scene:
        manifest = job()
        del manifest["spec"]["queue"]
        name = await scene.launch(manifest)
        assert scene.status(name)["reason"] == "NoQueue"

        await scene.api.create("localqueues", local_queue("default"))
        await scene.rest()
        assert (scene.phase(name), scene.workload(name)["spec"]["queueName"]) == ("RUNNING", "default")
