"""What nobody should do to a managed job, and what comes of it: nothing is stuck, nothing runs twice, nothing stays."""

from typing import Any

import pytest

from controllers.manifests import condition, flavor
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.timestamps import stamp
from fairway.errors import ValidationError
from fairway.integrations import conditions

from .scene import JOBS, Scene, a_scene, job, story, task


async def write_status(scene: Scene, name: str, **status: Any) -> None:
    await scene.api.patch(JOBS, name, {"status": status}, subresource="status")
    await scene.rest()


@story
async def test_pods_that_are_orphaned_are_nobody_elses_to_keep() -> None:
    async with a_scene() as scene:
        name = await scene.launch(job())
        await scene.api.delete(JOBS, name, propagation="Orphan")
        await scene.rest()
        assert scene.api.get(JOBS, name) is None
        (pod,) = scene.pods()
        assert "deletionTimestamp" not in pod["metadata"], "it runs on"

        await scene.api.delete("pods", pod["metadata"]["name"])
        await scene.rest()
        assert not scene.pods()


@story
async def test_a_phase_that_there_is_not_is_refused() -> None:
    async with a_scene() as scene:
        name = await scene.launch(job())
        with pytest.raises(ValidationError, match=r"status\.phase: Unsupported value"):
            await write_status(scene, name, phase="RUNING")


@story
async def test_a_job_whose_status_cannot_be_read_ends_and_begins_again_when_asked() -> None:
    async with a_scene() as scene:
        name = await scene.launch(job())
        (attempt,) = scene.status(name)["attempts"]
        await write_status(scene, name, attempts=[{**attempt, "stopping": "nonsense"}])

        status = scene.status(name)
        assert (status["phase"], status["reason"]) == ("FAILED_CONTROLLER", "Unreadable")
        assert "'nonsense' is not an outcome" in status["message"]
        assert not scene.pods()
        assert scene.says(name, conditions.FINISHED)

        await scene.ask(name, retry=1)
        await scene.pass_time(1)
        assert (scene.phase(name), scene.pod_names()) == ("RUNNING", [f"{name}-2-head"])


@story
async def test_a_job_whose_status_was_emptied_goes_on_with_the_pods_it_has() -> None:
    async with a_scene() as scene:
        name = await scene.launch(job())
        await write_status(scene, name, **dict.fromkeys(scene.status(name)))
        await scene.pass_time(5)

        assert (scene.phase(name), scene.pod_names()) == ("RUNNING", [f"{name}-1-head"])
        assert len(scene.api.names("workloads")) == 1


@story
async def test_a_pod_that_was_torn_out_is_lost_and_not_made_again_as_the_same() -> None:
    async with a_scene() as scene:
        name = await scene.launch(job())
        await scene.api.patch("pods", f"{name}-1-head", {"metadata": {"finalizers": None}})
        await scene.api.delete("pods", f"{name}-1-head", grace_seconds=0)
        await scene.rest()

        assert (scene.phase(name), scene.pod_names()) == ("RUNNING", [f"{name}-2-head"])
        first = scene.status(name)["attempts"][0]
        assert (first["outcome"], first["message"]) == ("Lost", f"pod {name}-1-head no longer exists")


@story
async def test_a_workload_that_was_taken_from_its_job_is_said() -> None:
    async with a_scene() as scene:
        name = await scene.launch(job())
        workload = scene.status(name)["workload"]
        await scene.api.patch("workloads", workload, {"metadata": {"ownerReferences": None}})
        await scene.rest()

        assert scene.phase(name) == "FAILED_PRECHECKS"
        assert f"there is a Workload {workload} that is not the job's" in scene.status(name)["message"]
        await scene.ask(name, retry=1)
        await scene.pass_time(1)
        assert scene.phase(name) == "RUNNING"


@story
async def test_a_job_that_something_keeps_from_going_runs_no_more() -> None:
    async with a_scene() as scene:
        name = await scene.launch(job())
        await scene.api.patch(JOBS, name, {"metadata": {"finalizers": ["example.com/wait"]}})
        await scene.api.delete(JOBS, name)
        await scene.rest()

        assert scene.api.get(JOBS, name) is not None
        assert not scene.pods()
        assert not scene.api.names("workloads"), "its quota is free"


@story
async def test_a_job_whose_flavor_is_gone_says_so_and_starts_again_when_it_is_back() -> None:
    async with a_scene() as scene:
        name = await scene.launch(job())
        await scene.api.delete("resourceflavors", "default-flavor", "")
        await scene.rest()
        await scene.lose(f"{name}-1-head")
        await scene.pass_time(5)
        assert (scene.phase(name), scene.pods()) == ("RECOVERING", [])
        assert "FlavorMissing" in await scene.events(name)

        await scene.api.create("resourceflavors", flavor())
        await scene.pass_time(60)
        assert (scene.phase(name), scene.pod_names()) == ("RUNNING", [f"{name}-2-head"])


# Queues that say no


async def add_a_check(scene: Scene) -> None:
    check: Manifest = {"metadata": {"name": "budget"}, "spec": {"controllerName": "test"}}
    await scene.api.create("admissionchecks", check)
    active = condition("Active", "True", "Active", "2026-01-01T00:00:00Z")
    await scene.api.patch("admissionchecks", "budget", {"status": {"conditions": [active]}}, subresource="status")
    strategy = {"admissionChecksStrategy": {"admissionChecks": [{"name": "budget"}]}}
    await scene.api.patch("clusterqueues", "cluster-queue", {"spec": strategy}, namespace="")
    await scene.rest()


async def answer(scene: Scene, name: str, state: str) -> None:
    now = stamp(scene.clock.now())
    check = {"name": "budget", "state": state, "message": "spent", "lastTransitionTime": now}
    workload = scene.status(name)["workload"]
    await scene.api.patch("workloads", workload, {"status": {"admissionChecks": [check]}}, subresource="status")
    await scene.pass_time(2)


@story
async def test_admission_checks_let_a_job_in_send_it_back_and_put_it_out() -> None:
    async with a_scene() as scene:
        await add_a_check(scene)
        name = await scene.launch(job())
        assert (scene.phase(name), scene.pods()) == ("PENDING", []), "quota alone is not enough"
        await answer(scene, name, "Ready")
        assert scene.phase(name) == "RUNNING"
        await answer(scene, name, "Retry")
        assert (scene.phase(name), scene.status(name)["attempts"][0]["outcome"]) == ("RECOVERING", "Evicted")
        await answer(scene, name, "Ready")
        assert (scene.phase(name), scene.status(name)["attempt"]) == ("RUNNING", 2)

        await answer(scene, name, "Rejected")
        status = scene.status(name)
        assert (status["phase"], status["reason"], scene.pods()) == ("RECOVERING", "Deactivated", [])
        assert "budget" in status["message"], "it says why"
        assert "fairway jobs hold" in status["message"], "and what can be done"

        await scene.ask(name, hold=True)
        await scene.ask(name, hold=False)
        await answer(scene, name, "Ready")
        assert (scene.phase(name), scene.status(name)["attempt"]) == ("RUNNING", 3)


@pytest.mark.parametrize(
    ("queues", "queue", "namespace"),
    [
        pytest.param("clusterqueues", "cluster-queue", "", id="a ClusterQueue"),
        pytest.param("localqueues", "user-queue", "default", id="a LocalQueue"),
    ],
)
@story
async def test_draining_a_queue_stops_jobs_until_it_goes_on(queues: str, queue: str, namespace: str) -> None:
    async with a_scene() as scene:
        name = await scene.launch(job("train", task(1)))
        await scene.api.patch(queues, queue, {"spec": {"stopPolicy": "Hold"}}, namespace=namespace)
        await scene.pass_time(2)
        late = await scene.launch(job("late", task(1)))
        assert (scene.phase(name), scene.phase(late)) == ("RUNNING", "PENDING")

        await scene.api.patch(queues, queue, {"spec": {"stopPolicy": "HoldAndDrain"}}, namespace=namespace)
        await scene.pass_time(2)
        assert (scene.phase(name), scene.phase(late), scene.pods()) == ("RECOVERING", "PENDING", [])

        await scene.api.patch(queues, queue, {"spec": {"stopPolicy": "None"}}, namespace=namespace)
        await scene.pass_time(2)
        assert (scene.phase(name), scene.phase(late)) == ("RUNNING", "RUNNING")
        assert scene.status(name)["preemptions"] == 0
