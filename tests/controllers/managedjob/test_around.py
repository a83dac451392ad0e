"""What is around managed jobs: their numbers and users, other controllers, deletion."""

import copy

import pytest

from controllers.manifests import local_queue
from fairway.apis.kueue.configuration import WaitForPodsReady
from fairway.apis.machinery.kind import Manifest
from fairway.controllers.managedjob.plugin import CONFIG_MAP, HIGHEST
from fairway.errors import ValidationError
from fairway.integrations import conditions
from fairway.integrations.workloads import owner_reference
from fairway.settings import SYSTEM_NAMESPACE as NAMESPACE

from .scene import JOBS, a_scene, job, story, task


@story
async def test_deleting_a_job_takes_its_pods_and_its_workload_along() -> None:
    async with a_scene() as scene:
        name = await scene.launch(job())
        await scene.api.delete(JOBS, name)
        await scene.rest()
        await scene.pass_time(1)

        assert not scene.api.names("pods")
        assert not scene.api.names("workloads")


@story
async def test_deleting_a_job_in_the_foreground_does_so_too() -> None:
    async with a_scene() as scene:
        name = await scene.launch(job())
        await scene.api.delete(JOBS, name, propagation="Foreground")
        await scene.rest()
        await scene.pass_time(1)

        assert not scene.api.names("pods")
        assert not scene.api.names(JOBS)


@pytest.mark.parametrize("manage_all", [False, True])
@story
async def test_pods_of_managed_jobs_are_nobody_elses(*, manage_all: bool) -> None:
    """Neither a default queue nor a queue for everything makes them jobs of their own."""
    async with a_scene(manage_jobs_without_queue_name=manage_all) as scene:
        await scene.api.create("localqueues", local_queue("default"))
        name = await scene.launch(job())

        assert scene.phase(name) == "RUNNING"
        assert len(scene.api.names("workloads")) == 1


@story
async def test_somebody_elses_pod_under_a_name_of_the_job_is_said() -> None:
    async with a_scene() as scene:
        pod = {"metadata": {"name": "train-1-1-head", "labels": {"fairway.dev/job": ""}}}
        spec = {"containers": [{"name": "main", "image": "x"}]}
        scene.slow = True
        await scene.api.create("pods", {**pod, "spec": spec})
        name = await scene.launch(job())

        assert scene.phase(name) == "FAILED_PRECHECKS"
        assert "train-1-1-head" in scene.status(name)["message"]


@story
async def test_numbers_are_never_given_twice() -> None:
    async with a_scene() as scene:
        assert await scene.launch(job()) == "train-1"
        with pytest.raises(ValidationError):
            await scene.launch(job("bad", {"run": "true", "cpus": 3}))
        assert await scene.launch(job()) == "train-2", "a refused job uses none up"
        await scene.api.delete(JOBS, "train-2")
        await scene.rest()
        await scene.kill()
        await scene.start()

        assert await scene.launch(job()) == "train-3"


@pytest.mark.parametrize("highest", ["9" * 5000, "9" * 40, "-3", "many"])
@story
async def test_no_number_that_somebody_else_wrote_down_keeps_jobs_from_being_launched(highest: str) -> None:
    async with a_scene() as scene:
        written = {"metadata": {"name": CONFIG_MAP, "namespace": NAMESPACE}, "data": {HIGHEST: highest}}
        await scene.api.create("configmaps", written, NAMESPACE)
        await scene.rest()
        assert await scene.launch(job()) == "train-1"
        await scene.rest()
        known = scene.api.get("configmaps", CONFIG_MAP, NAMESPACE)
        assert known is not None
        assert known["data"] == {HIGHEST: "1"}


@story
async def test_a_job_without_a_spec_is_refused() -> None:
    async with a_scene() as scene:
        empty: list[Manifest] = [{}, {"spec": {"tasks": []}}]
        for one in empty:
            with pytest.raises(ValidationError, match=r"spec\.tasks: Required value"):
                await scene.api.create(JOBS, {"metadata": {"generateName": "train-"}, **one})
        assert await scene.launch(job()) == "train-1"


@story
async def test_only_an_administrator_launches_for_others() -> None:
    async with a_scene() as scene:
        with pytest.raises(ValidationError, match="only administrators"):
            await scene.launch(job(user="bob"), user="alice")


@story
async def test_readiness_is_told_where_it_is_followed() -> None:
    rules = WaitForPodsReady(timeout_seconds=30.0)
    async with a_scene(wait_for_pods_ready=rules) as scene:
        name = await scene.launch(job())
        await scene.pass_time(1)
        assert scene.says(name, conditions.PODS_READY)

        scene.slow = True
        late = await scene.launch(job("late", task(1)))
        await scene.pass_time(31)
        assert scene.status(late)["attempts"][0]["outcome"] == "Evicted"
        assert scene.phase(late) == "PENDING"


@story
async def test_a_job_of_the_same_name_waits_for_the_pods_of_the_one_before() -> None:
    async with a_scene() as scene:
        manifest = job("dev", task(1), recover=False)
        manifest["metadata"] = {"name": "dev", "namespace": "default"}
        await scene.launch(copy.deepcopy(manifest))
        scene.slow = True
        await scene.api.delete(JOBS, "dev")
        await scene.launch(copy.deepcopy(manifest))
        await scene.pass_time(1)
        assert (scene.phase("dev"), scene.status("dev")["attempt"]) == ("PENDING", 0)

        scene.slow = False
        await scene.rest()
        assert (scene.phase("dev"), scene.pod_names()) == ("RUNNING", ["dev-1-head"])


@story
async def test_a_pod_that_only_claims_to_be_a_managed_jobs_is_removed() -> None:
    async with a_scene() as scene:
        name = await scene.launch(job("dev", task(1)))
        found = scene.api.get(JOBS, name)
        assert found is not None
        pod = {
            "metadata": {"name": "free-rider", "ownerReferences": [owner_reference(found)]},
            "spec": {"containers": [{"name": "main", "image": "x"}]},
        }
        await scene.api.create("pods", pod)
        await scene.rest()

        assert scene.pod_names() == [f"{name}-1-head"]


@story
async def test_what_the_server_gave_a_job_need_not_be_repeated() -> None:
    async with a_scene() as scene:
        name = await scene.launch(job())
        found = scene.api.get(JOBS, name)
        assert found is not None
        spec = {key: value for key, value in found["spec"].items() if key not in {"id", "user", "aging", "recover"}}
        await scene.api.update(JOBS, {**found, "spec": {**spec, "hold": True}})

        kept = scene.api.get(JOBS, name)
        assert kept is not None
        assert kept["spec"] == {**found["spec"], "hold": True}


@story
async def test_what_a_job_is_made_of_stays_as_it_is() -> None:
    async with a_scene() as scene:
        name = await scene.launch(job())
        with pytest.raises(ValidationError, match=r"spec\.tasks: Invalid value.*immutable"):
            await scene.ask(name, tasks=[task(1)])
        with pytest.raises(ValidationError, match=r"spec\.id"):
            await scene.ask(name, id=99)
