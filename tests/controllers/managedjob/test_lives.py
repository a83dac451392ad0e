"""Managed jobs on a real queue: from the launch to the end, whatever comes in between."""

import copy
import json

import pytest

from controllers.manifests import local_queue
from fairway.entrypoints import scheduler_plugin
from fairway.integrations import conditions
from fairway.schedulers.config import read_queue_config
from fairway.schedulers.scheduling import Author, schedule

from .scene import JOBS, a_scene, job, story, task


@story
async def test_a_job_waits_as_a_row_runs_as_a_pod_and_leaves_none() -> None:
    async with a_scene() as scene:
        first = await scene.launch(job())
        second = await scene.launch(job())
        assert (first, second) == ("train-1", "train-2")
        assert (scene.phase(first), scene.phase(second)) == ("RUNNING", "PENDING")
        assert scene.pod_names() == ["train-1-1-head"], "a job that waits has no pod"
        (pod,) = scene.pods(first)
        assert pod["spec"]["nodeSelector"] == {"pool": "a"}
        labels = pod["metadata"]["labels"]
        assert "kueue.x-k8s.io/queue-name" not in labels
        assert "kueue.x-k8s.io/managed" not in labels

        await scene.end_all(first)
        await scene.pass_time(1)
        assert (scene.phase(first), scene.phase(second)) == ("SUCCEEDED", "RUNNING")
        finished = conditions.find(scene.workload(first), conditions.FINISHED)
        assert finished is not None
        assert finished["reason"] == "Succeeded"
        assert scene.pod_names() == ["train-2-1-head"]


@story
async def test_the_events_of_a_job_say_what_became_of_it() -> None:
    async with a_scene() as scene:
        name = await scene.launch(job())
        await scene.end_all(name)
        assert await scene.events(name) == ["Started", "Running", "Succeeded"]


@story
async def test_a_preempted_job_comes_back_at_its_old_place_with_a_higher_priority() -> None:
    async with a_scene() as scene:
        low = await scene.launch(job("low"))
        await scene.pass_time(5)
        rival = await scene.launch(job("rival"))
        await scene.pass_time(5)
        high = await scene.launch(job("high", priority=100))
        await scene.pass_time(1)

        assert [scene.phase(one) for one in (low, rival, high)] == ["RECOVERING", "PENDING", "RUNNING"]
        status = scene.status(low)
        assert (status["recoveries"], status["preemptions"], status["priority"]) == (1, 1, 10)
        assert status["attempts"][0]["outcome"] == "Preempted"
        assert status["message"] == "preempted by ManagedJob high-3 with priority 100"
        workload = scene.workload(low)
        assert workload["spec"]["priority"] == 0, "the right to preempt is as it was"
        assert workload["metadata"]["annotations"]["fairway.dev/earned-priority"] == "10"

        await scene.end_all(high)
        await scene.pass_time(1)
        assert [scene.phase(one) for one in (low, rival)] == ["RUNNING", "PENDING"], "it is before who came later"
        assert scene.status(low)["attempt"] == 2
        assert scene.pods(low)[0]["metadata"]["name"] == "low-1-2-head"


@story
async def test_each_attempt_is_an_application_of_its_own_with_its_gang() -> None:
    """YuniKorn skips the reservation of an application that it knows already."""
    config = read_queue_config({"scheduler": "yunikorn"}, ["yunikorn"])
    key = "yunikorn.apache.org"
    async with a_scene() as scene:
        manifest = {"apiVersion": "fairway.dev/v1alpha1", "kind": "ManagedJob", **job("low", task(1, num_nodes=3))}
        schedule(manifest, config, scheduler_plugin, Author("alice", organization="ml"), lambda: "")
        low = await scene.launch(manifest)
        await scene.pass_time(5)
        first = scene.pods(low)
        high = await scene.launch(job("high", priority=100))
        await scene.pass_time(1)
        await scene.end_all(high)
        await scene.pass_time(1)
        second = scene.pods(low)
        for attempt, pods in enumerate((first, second), start=1):
            uid = pods[0]["metadata"]["ownerReferences"][0]["uid"]
            for pod in pods:
                labels, annotations = pod["metadata"]["labels"], pod["metadata"]["annotations"]
                assert labels[f"{key}/app-id"] == f"managed-{uid}-0-{attempt}"
                assert labels[f"{key}/queue"] == "root.ml.default"
                assert annotations[f"{key}/user.info"] == '{"user":"alice","groups":["ml"]}'
                (group,) = json.loads(annotations[f"{key}/task-groups"])
                assert (group["minMember"], group["minResource"]["cpu"]) == (3, "1")
                assert annotations[f"{key}/task-group-name"] == group["name"]
                assert pod["spec"]["schedulerName"] == "yunikorn"
            assert len(pods) == 3


@story
async def test_a_job_of_a_scheduler_with_queues_of_its_own_needs_no_local_queue() -> None:
    """It waited for ever where Kueue or Fairway admits other jobs: no LocalQueue is there for it."""
    config = read_queue_config({"scheduler": "yunikorn"}, ["yunikorn"])
    async with a_scene() as scene:
        manifest = {"apiVersion": "fairway.dev/v1alpha1", "kind": "ManagedJob", **job("gang", task(1), queue="")}
        plain = await scene.launch(copy.deepcopy(manifest))
        schedule(manifest, config, scheduler_plugin, Author("alice", organization="ml"), lambda: "")
        gang = await scene.launch(manifest)
        await scene.pass_time(1)
        assert (scene.phase(plain), scene.phase(gang)) == ("PENDING", "RUNNING")
        assert "names no queue" in scene.status(plain)["message"]
        (first,) = scene.pods(gang)

        await scene.api.delete("pods", first["metadata"]["name"], "default")
        await scene.pass_time(60)
        assert (scene.phase(gang), scene.status(gang)["recoveries"]) == ("RUNNING", 1)
        (second,) = scene.pods(gang)
        applications = [one["metadata"]["labels"]["yunikorn.apache.org/app-id"] for one in (first, second)]
        assert [one.rpartition("-")[2] for one in applications] == ["1", "2"]
        assert not scene.api.names("workloads")


@pytest.mark.parametrize(
    ("step", "starves"),
    [pytest.param(0, True, id="without aging"), pytest.param(10, False, id="with aging")],
)
@story
async def test_aging_ends_a_starvation(*, step: int, starves: bool) -> None:
    """Jobs that are a little more important keep coming, each of them when the last one has ended."""
    async with a_scene() as scene:
        low = await scene.launch(job("low", aging={"step": step, "cap": 100}))
        for _ in range(6):
            high = await scene.launch(job("high", priority=15))
            await scene.pass_time(1)
            if scene.phase(high) == "RUNNING":
                await scene.end_all(high)
                await scene.pass_time(1)
        status = scene.status(low)
        if starves:
            assert (status["preemptions"], status["priority"]) == (6, 0)
        else:
            assert (status["preemptions"], status["priority"]) == (2, 20)
            assert status["phase"] == "RUNNING"
            assert scene.status("high-7")["phase"] == "PENDING"


@story
async def test_a_launched_job_is_not_resubmitted() -> None:
    async with a_scene() as scene:
        low = await scene.launch(job("low", recover=False))
        await scene.launch(job("high", priority=100))
        await scene.pass_time(1)

        assert (scene.phase(low), scene.status(low)["reason"]) == ("FAILED", "Preempted")
        assert "fairway jobs launch" in scene.status(low)["message"]
        assert scene.says(low, conditions.FINISHED)
        await scene.end_all("high-2")
        await scene.pass_time(60)
        assert not scene.pods()


@story
async def test_two_users_in_two_namespaces_share_one_controller() -> None:
    async with a_scene() as scene:
        await scene.api.create("namespaces", {"metadata": {"name": "team-b"}})
        queue = local_queue()
        queue["metadata"]["namespace"] = "team-b"
        await scene.api.create("localqueues", queue, "team-b")
        mine = await scene.launch(job("mine", task(1)), user="alice")
        theirs = await scene.launch(job("theirs", task(1), namespace="team-b"), user="bob")

        assert (mine, theirs) == ("mine-1", "theirs-2"), "numbers are unique over all namespaces"
        assert (scene.phase(mine), scene.phase(theirs, "team-b")) == ("RUNNING", "RUNNING")
        found = [scene.api.get(JOBS, mine), scene.api.get(JOBS, theirs, "team-b")]
        assert [one["spec"]["user"] for one in found if one] == ["alice", "bob"]


@story
async def test_a_restarted_controller_touches_nothing() -> None:
    async with a_scene() as scene:
        running = await scene.launch(job("running", priority=5))
        done = await scene.launch(job("done", task(1)))
        await scene.end_all(done)
        waiting = await scene.launch(job("waiting"))
        held = await scene.launch(job("held", hold=True))
        await scene.pass_time(5)
        await scene.kill()
        before = scene.api.store.next_revision

        await scene.start()
        await scene.pass_time(600)
        assert scene.api.store.next_revision == before
        phases = [scene.phase(one) for one in (running, done, waiting, held)]
        assert phases == ["RUNNING", "SUCCEEDED", "PENDING", "PENDING"]


@story
async def test_waiting_jobs_cost_neither_writes_nor_timers() -> None:
    async with a_scene() as scene:
        for _ in range(5):
            await scene.launch(job())
        await scene.pass_time(5)
        before = scene.api.store.next_revision

        await scene.pass_time(100_000)
        assert scene.api.store.next_revision == before
        assert scene.clock.next_due() is None


# What tasks do


@story
async def test_errors_are_started_again_as_often_as_the_task_says() -> None:
    recovery = {"job_recovery": {"max_restarts_on_errors": 1, "recover_on_exit_codes": [75]}}
    async with a_scene() as scene:
        name = await scene.launch(job("train", task(resources=recovery)))
        await scene.end(f"{name}-1-head", 75)
        await scene.pass_time(2)
        assert (scene.phase(name), scene.status(name)["restartsOnErrors"]) == ("RUNNING", 0)
        await scene.end(f"{name}-2-head", 1)
        await scene.pass_time(3)
        assert (scene.phase(name), scene.status(name)["restartsOnErrors"]) == ("RUNNING", 1)
        await scene.end(f"{name}-3-head", 1)
        assert scene.phase(name) == "FAILED"


@story
async def test_a_setup_that_fails_is_told_apart() -> None:
    async with a_scene() as scene:
        name = await scene.launch(job("train", task(setup="pip install")))
        await scene.end(f"{name}-1-head", 2, container="setup")
        assert scene.phase(name) == "FAILED_SETUP"


@story
async def test_a_gang_of_three_of_which_one_fails() -> None:
    async with a_scene() as scene:
        name = await scene.launch(job("train", task(1, num_nodes=3)))
        head, first, second = scene.pod_names(name)
        assert (head, second) == (f"{name}-1-head", f"{name}-1-worker2")
        scene.slow = True
        await scene.end(first, 4)
        assert [("deletionTimestamp" in one["metadata"]) for one in scene.pods(name)] == [True, False, True]
        scene.slow = False
        await scene.rest()

        assert (scene.phase(name), scene.status(name)["attempts"][0]["exitCode"]) == ("FAILED", 4)
        assert len(scene.status(name)["attempts"][0]["pods"]) == 3
        assert not scene.pods()


@story
async def test_lost_and_deleted_pods_start_again_in_place() -> None:
    async with a_scene() as scene:
        name = await scene.launch(job())
        await scene.lose(f"{name}-1-head")
        assert (scene.phase(name), scene.status(name)["attempts"][-1]["cause"]) == ("RUNNING", "lost")
        await scene.api.delete("pods", f"{name}-2-head")
        await scene.rest()
        await scene.pass_time(2)
        assert (scene.phase(name), scene.status(name)["recoveries"]) == ("RUNNING", 2)
        assert scene.status(name)["preemptions"] == 0


@story
async def test_a_task_runs_no_longer_than_it_may() -> None:
    async with a_scene() as scene:
        name = await scene.launch(job("train", task(max_duration=30)))
        await scene.pass_time(27)
        assert scene.phase(name) == "RUNNING"
        await scene.pass_time(4)
        assert (scene.phase(name), scene.status(name)["reason"]) == ("FAILED", "MaxDurationExceeded")


@story
async def test_a_pipeline_runs_its_tasks_one_after_the_other() -> None:
    async with a_scene() as scene:
        name = await scene.launch(job("pipe", task(1), task(2)))
        assert scene.pod_names() == [f"{name}-t0-1-head"]
        await scene.end_all(name)
        await scene.pass_time(1)
        assert (scene.phase(name), scene.pod_names()) == ("RUNNING", [f"{name}-t1-1-head"])
        await scene.end_all(name)

        assert scene.phase(name) == "SUCCEEDED"
        owned = [scene.api.get("workloads", one) for one in scene.api.names("workloads")]
        assert [conditions.is_true(one, conditions.FINISHED) for one in owned if one] == [True, True]


@story
async def test_a_job_that_can_never_run_at_its_first_candidate_takes_the_second() -> None:
    async with a_scene() as scene:
        either = {"run": "true", "resources": {"ordered": [{"cpus": 100}, {"cpus": 2}]}}
        name = await scene.launch(job("either", either))
        await scene.pass_time(2)

        assert (scene.phase(name), scene.status(name)["candidate"]) == ("RUNNING", 1)
        assert scene.status(name)["passed"][0]["reason"] == "CannotRun"
        assert len(scene.api.names("workloads")) == 1


@story
async def test_jobs_that_were_launched_together_run_in_the_order_of_their_numbers() -> None:
    async with a_scene() as scene:
        first = await scene.launch(job("first", task(4)))
        sweep = [await scene.launch(job(f"sweep-{number}", task(2))) for number in range(6)]
        order: list[str] = []
        await scene.end_all(first)
        for _ in range(30):
            await scene.pass_time(1)
            running = [name for name in sweep if scene.phase(name) == "RUNNING"]
            order += running
            for name in running:
                await scene.end_all(name)
        assert order == sweep


@story
async def test_a_job_that_waited_long_enough_takes_the_next_candidate_and_keeps_its_place() -> None:
    async with a_scene() as scene:
        await scene.launch(job("first", task(3)))
        either = {"run": "true", "resources": {"ordered": [{"cpus": 4}, {"cpus": 1}]}}
        name = await scene.launch(job("either", either, provisionTimeoutSeconds=30))
        submitted = scene.status(name)["submittedAt"]
        await scene.pass_time(29)
        assert (scene.phase(name), scene.status(name)["candidate"]) == ("PENDING", 0)

        await scene.pass_time(2)
        assert (scene.phase(name), scene.status(name)["candidate"]) == ("RUNNING", 1)
        annotations = scene.workload(name)["metadata"]["annotations"]
        assert annotations["fairway.dev/first-submitted-at"] == submitted.replace("Z", ".000002Z"), "the second job"
