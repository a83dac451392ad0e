"""What else a job's workload follows, and which jobs are the queue's at all."""

import asyncio
from typing import Any

import pytest

from fairway.apis.kueue.configuration import Configuration
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.selectors import LabelSelector
from fairway.integrations.batch_job import BatchJob
from fairway.integrations.workloads import owner_reference

from .scene import Scene, a_job, a_scene

PRIORITY = "kueue.x-k8s.io/priority-class"
QUEUE = "kueue.x-k8s.io/queue-name"
GATES = "kueue.x-k8s.io/admission-gated-by"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"


async def a_class(scene: Scene, name: str, value: int) -> None:
    await scene.api.create("workloadpriorityclasses", {"metadata": {"name": name}, "value": value})
    await scene.idle()


def test_another_queue() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit()
            await scene.change({"metadata": {"labels": {QUEUE: "other"}}})
            assert scene.workload()["spec"]["queueName"] == "other"

    asyncio.run(play())


def test_another_queue_has_to_wait_while_quota_is_reserved() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit()
            await scene.reserve(admitted=False)
            await scene.change({"metadata": {"labels": {QUEUE: "other"}}})
            assert scene.workload()["spec"]["queueName"] == "user-queue"
            await scene.evict()
            assert scene.workload()["spec"]["queueName"] == "other"

    asyncio.run(play())


@pytest.mark.parametrize("running", [False, True])
def test_another_priority_class(running: bool) -> None:  # noqa: FBT001 - a table
    async def play() -> None:
        async with a_scene() as scene:
            await a_class(scene, "low", 1)
            await a_class(scene, "high", 2)
            await scene.submit(a_job(metadata={"labels": {PRIORITY: "low"}}))
            if running:
                await scene.reserve()
            await scene.change({"metadata": {"labels": {PRIORITY: "high"}}})
            spec = scene.workload()["spec"]
            assert (spec["priority"], spec["priorityClassRef"]["name"]) == (2, "high")
            message = f"Updated workload priority class: default/{scene.name_of_workload()}"
            assert (await scene.events())[-1] == ("UpdatedWorkload", message)
            assert scene.is_running() is running

    asyncio.run(play())


def test_a_class_of_pods_is_not_given_up_for_a_label() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            await a_class(scene, "high", 2)
            await scene.api.create(
                "priorityclasses", {"metadata": {"name": "usual"}, "value": 5, "globalDefault": True}
            )
            await scene.submit()
            assert scene.workload()["spec"]["priorityClassRef"]["kind"] == "PriorityClass"
            await scene.change({"metadata": {"labels": {PRIORITY: "high"}}})
            assert scene.workload()["spec"]["priority"] == 5

    asyncio.run(play())


def test_a_job_waits_for_its_priority_class() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit(a_job(metadata={"labels": {PRIORITY: "high"}}))
            assert not scene.has_workload()
            want = ("ErrWorkloadCompose", 'workloadpriorityclasses.kueue.x-k8s.io "high" not found')
            assert await scene.events() == [want]
            await a_class(scene, "high", 2)
            assert scene.workload()["spec"]["priority"] == 2

    asyncio.run(play())


def test_gates() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit(a_job(metadata={"annotations": {GATES: "a.io/x,b.io/y"}}))
            assert scene.workload()["metadata"]["annotations"] == {GATES: "a.io/x,b.io/y"}
            await scene.change({"metadata": {"annotations": {GATES: "b.io/y"}}})
            assert scene.workload()["metadata"]["annotations"] == {GATES: "b.io/y"}
            assert (await scene.events())[-1] == ("UpdatedWorkload", 'Updated workload AdmissionGatedBy to "b.io/y"')
            await scene.change({"metadata": {"annotations": {GATES: None}}})
            assert not scene.workload()["metadata"].get("annotations")

    asyncio.run(play())


@pytest.mark.parametrize(
    ("queue", "configured", "namespace", "managed"),
    [
        pytest.param("q", {}, "default", True, id="with a queue"),
        pytest.param(None, {}, "default", False, id="without a queue"),
        pytest.param(
            None, {"manage_jobs_without_queue_name": True}, "default", True, id="without a queue, but all are"
        ),
        pytest.param("q", {}, "kube-system", False, id="in a namespace that is left out"),
        pytest.param(None, {"manage_jobs_without_queue_name": True}, "kube-system", False, id="there all are not"),
        pytest.param("q", {"frameworks": ("pod",)}, "default", False, id="of a kind that is off"),
    ],
)
def test_which_jobs_are_the_queues(
    queue: str | None,
    configured: dict[str, Any],
    namespace: str,
    managed: bool,  # noqa: FBT001 - a table
) -> None:
    async def play() -> None:
        async with a_scene(**configured) as scene:
            job = a_job(queue=queue, metadata={"namespace": namespace})
            made = await scene.api.create("jobs", job, namespace)
            await scene.idle()
            assert made["spec"]["suspend"] is managed
            assert bool(scene.api.names("workloads")) is managed

    asyncio.run(play())


def test_jobs_are_taken_in_when_the_configuration_or_their_namespace_changes() -> None:
    async def play() -> None:
        async with a_scene(frameworks=()) as scene:
            await scene.submit(a_job(suspend=True))
            assert not scene.has_workload()
            only = LabelSelector(match_labels={"queue": "yes"})
            scene.configuration.set(Configuration(namespace_selector=only))
            await scene.idle()
            assert not scene.has_workload()
            await scene.api.patch("namespaces", "default", {"metadata": {"labels": {"queue": "yes"}}})
            await scene.idle()
            assert scene.has_workload()

    asyncio.run(play())


# Jobs of jobs


async def a_child(scene: Scene, parent: str = "train", name: str = "child", **spec: Any) -> Manifest:
    job = a_job(name, None, metadata={"ownerReferences": [owner_reference(scene.job(parent))]}, **spec)
    made = await scene.api.create("jobs", job)
    await scene.idle()
    return made


def test_a_job_of_a_job_runs_only_while_that_is_admitted() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit()
            made = await a_child(scene)
            assert made["spec"]["suspend"] is False  # it is not queued by itself
            assert not scene.is_running("child")
            assert await scene.events("child") == [("Suspended", "Kueue managed child job suspended")]
            assert len(scene.api.names("workloads")) == 1

            await scene.reserve()
            await scene.change({"spec": {"suspend": False}}, "child")
            assert scene.is_running("child")
            await scene.evict()
            assert not scene.is_running("child")

    asyncio.run(play())


def test_a_job_of_a_finished_job_is_left_alone_once_it_has_ended_itself() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit()
            await scene.reserve()
            await a_child(scene)
            await scene.complete("child")
            await scene.complete()
            assert scene.is_running("child")

    asyncio.run(play())


def test_a_job_of_a_job_that_is_in_no_queue_is_as_free_as_that() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit(a_job(queue=None))
            await a_child(scene)
            assert scene.is_running("child")
            assert not scene.api.names("workloads")

    asyncio.run(play())


def test_too_many_jobs_of_jobs() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit(a_job(queue=None))
            before = "train"
            for depth in range(12):
                await a_child(scene, before, f"child-{depth}")
                before = f"child-{depth}"
            message = "Terminated search for Kueue-managed Job because ancestor depth exceeded limit of 10"
            assert await scene.events(before) == [("JobNestingTooDeep", message)]
            assert await scene.events("child-5") == []

    asyncio.run(play())


# Workloads made beforehand


def a_workload(name: str = "made", *, cpu: str = "1", queue: str = "user-queue") -> Manifest:
    template = a_job()["spec"]["template"]
    template["spec"]["containers"][0] |= {
        "resources": {"requests": {"cpu": cpu}},
        "imagePullPolicy": "Always",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    spec = {"queueName": queue, "podSets": [{"name": "main", "count": 1, "template": template}]}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


@pytest.mark.parametrize("field", ["labels", "annotations"])
def test_a_workload_made_beforehand_is_taken_over_whenever_it_comes(field: str) -> None:
    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit(a_job(metadata={field: {PREBUILT: "made"}}))
            assert not scene.api.names("workloads")
            await scene.api.create("workloads", a_workload())
            await scene.idle()
            workload = scene.api.get("workloads", "made")
            assert workload is not None
            job = scene.job()
            assert workload["metadata"]["ownerReferences"] == [owner_reference(job)]
            assert workload["metadata"]["labels"] == {"kueue.x-k8s.io/job-uid": job["metadata"]["uid"]}
            assert scene.api.names("workloads") == {"made"}

    asyncio.run(play())


def test_a_workload_made_beforehand_for_something_else() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            await scene.api.create("workloads", a_workload(cpu="2"))
            await scene.submit(a_job(metadata={"labels": {PREBUILT: "made"}}))
            workload = scene.api.get("workloads", "made")
            assert workload is not None
            [finished] = workload["status"]["conditions"]
            assert (finished["type"], finished["reason"], finished["message"]) == (
                "Finished", "OutOfSync", "The prebuilt workload is out of sync with its user job",
            )  # fmt: skip
            assert not scene.is_running()
            assert scene.api.names("workloads") == {"made"}

    asyncio.run(play())


def test_a_job_without_the_workload_that_was_to_be_made_beforehand_stops() -> None:
    async def play() -> None:
        async with a_scene(webhooks=False) as scene:
            await scene.submit(a_job(metadata={"labels": {PREBUILT: "made"}}, suspend=False))
            assert not scene.is_running()
            assert await scene.events() == [("Stopped", "missing workload")]

    asyncio.run(play())


def test_a_workload_of_another_job_is_not_taken_over() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit(a_job("first"))
            name = scene.name_of_workload("first")
            await scene.submit(a_job("second", metadata={"labels": {PREBUILT: name}}))
            owners = scene.workload("first")["metadata"]["ownerReferences"]
            assert [one["name"] for one in owners] == ["first"]
            assert not scene.is_running("second")

    asyncio.run(play())


# What some kinds offer


class Choosy(BatchJob):
    """Jobs with a class and a will of their own."""

    def priority_class(self, job: Manifest) -> str:
        return str(job["metadata"]["annotations"]["class"])

    def is_on_hold(self, job: Manifest) -> bool:
        return "hold" in job["metadata"]["annotations"]


def test_a_kind_with_its_own_priority_class() -> None:
    async def play() -> None:
        async with a_scene((Choosy(),)) as scene:
            await scene.api.create("priorityclasses", {"metadata": {"name": "mine"}, "value": 3})
            await scene.submit(a_job(metadata={"annotations": {"class": "mine"}}))
            assert scene.workload()["spec"]["priority"] == 3

    asyncio.run(play())


def test_a_job_on_hold_gives_its_quota_back() -> None:
    async def play() -> None:
        async with a_scene((Choosy(),)) as scene:
            await scene.submit(a_job(metadata={"annotations": {"class": ""}}))
            await scene.reserve(admitted=False)
            await scene.change({"metadata": {"annotations": {"hold": "yes"}}})
            assert scene.condition("QuotaReserved") == ("False", "OnHold", "Job is on hold")
            assert "admission" not in scene.workload()["status"]

    asyncio.run(play())
