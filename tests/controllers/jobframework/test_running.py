"""A job from its creation to its end."""

import asyncio
from typing import Any

import pytest

from fairway.apis.kueue.configuration import WaitForPodsReady
from fairway.controllers.jobframework.reconcile import Reconciler

from .scene import a_job, a_scene

DONE = "Reached expected number of succeeded pods"


def test_a_job_that_ends_at_once_costs_three_writes() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            before = scene.writes()
            await scene.submit()
            assert scene.writes() - before == 2  # the job, and its workload
            await scene.reserve()
            assert scene.writes() - before == 4  # the reservation, and the start
            await scene.pods()
            await scene.pods(active=1, ready=1)
            await scene.complete()
            await scene.after(10)
            assert scene.writes() - before == 8  # three states of the job, and the end of the workload
            assert scene.condition("Finished") == ("True", "Succeeded", DONE)
            name = f"default/{scene.name_of_workload()}"
            assert await scene.events() == [
                ("CreatedWorkload", f"Created Workload: {name}"),
                ("Started", "Admitted by clusterQueue team"),
                ("FinishedWorkload", f"Workload '{name}' is declared finished"),
            ]

    asyncio.run(play())


def test_a_job_is_looked_at_once_for_each_thing_that_happens_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not again for what was written about it in that look."""
    looks: list[str] = []
    reconcile = Reconciler.reconcile

    async def counted(self: Reconciler, namespace: str, name: str) -> float | None:
        looks.append(name)
        return await reconcile(self, namespace, name)

    async def play() -> None:
        monkeypatch.setattr(Reconciler, "reconcile", counted)
        async with a_scene() as scene:
            await scene.submit()
            assert len(looks) == 1
            await scene.reserve()
            assert len(looks) == 2
            await scene.complete()
            assert len(looks) == 3
            await scene.clock.run_for(60)
            assert len(looks) == 3

    asyncio.run(play())


def test_a_second_workload_of_a_job_is_noticed_while_the_first_is_there() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit()
            first = scene.workload()
            kept = ("labels", "ownerReferences", "namespace")
            metadata = {"name": "another", **{name: first["metadata"][name] for name in kept}}
            await scene.api.create("workloads", {"metadata": metadata, "spec": first["spec"]})
            await scene.idle()
            assert len(scene.api.names("workloads")) == 1

    asyncio.run(play())


def test_the_workload_of_a_job() -> None:
    async def play() -> None:
        async with a_scene(label_keys_to_copy=("team", "absent")) as scene:
            await scene.api.create("workloadpriorityclasses", {"metadata": {"name": "high"}, "value": 7})
            job = a_job(
                metadata={
                    "labels": {
                        "team": "a",
                        "other": "b",
                        "kueue.x-k8s.io/priority-class": "high",
                        "kueue.x-k8s.io/max-exec-time-seconds": "60",
                    },
                    "annotations": {
                        "provreq.kueue.x-k8s.io/ValidUntilSeconds": "0",
                        "kueue.x-k8s.io/admission-gated-by": "example.com/gate",
                        "other": "c",
                    },
                },
                parallelism=3,
            )
            made = await scene.submit(job)
            workload = scene.workload()
            assert made["spec"]["suspend"] is True
            assert workload["metadata"]["labels"] == {"team": "a", "kueue.x-k8s.io/job-uid": made["metadata"]["uid"]}
            assert workload["metadata"]["annotations"] == {
                "provreq.kueue.x-k8s.io/ValidUntilSeconds": "0",
                "kueue.x-k8s.io/admission-gated-by": "example.com/gate",
            }
            assert workload["metadata"].get("finalizers") is None
            assert "status" not in workload
            spec = workload["spec"]
            assert (spec["queueName"], spec["priority"], spec["maximumExecutionTimeSeconds"]) == ("user-queue", 7, 60)
            assert spec["priorityClassRef"]["name"] == "high"
            assert [(one["name"], one["count"]) for one in spec["podSets"]] == [("main", 3)]
            template = scene.job()["spec"]["template"]
            assert spec["podSets"][0]["template"]["spec"] == template["spec"]

    asyncio.run(play())


def test_a_start_adds_what_admission_says_in_one_write() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit()
            before = scene.job()
            await scene.reserve()
            job = scene.job()
            assert job["metadata"]["generation"] == before["metadata"]["generation"] + 1
            assert not job["spec"]["suspend"]
            template = job["spec"]["template"]
            assert template["spec"]["nodeSelector"] == {"instance": "spot"}
            assert [one["key"] for one in template["spec"]["tolerations"]] == ["spot"]
            assert template["metadata"]["annotations"] == {"kueue.x-k8s.io/workload": scene.name_of_workload()}
            assert template["metadata"]["labels"]["kueue.x-k8s.io/podset"] == "main"

    asyncio.run(play())


def test_a_job_that_fails() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit()
            await scene.reserve()
            await scene.fail()
            assert scene.condition("Finished") == ("True", "Failed", "Job has reached the specified backoff limit")

    asyncio.run(play())


def test_a_reservation_alone_starts_nothing_but_says_what_is_waited_for() -> None:
    check = {"name": "capacity", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    pending = {**check, "state": "Pending", "message": "soon"}
    ready = {
        **check, "state": "Ready", "message": "",
        "podSetUpdates": [{"name": "main", "annotations": {"booked": "yes"}, "nodeSelector": {"zone": "a"}}],
    }  # fmt: skip

    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit()
            await scene.reserve(admitted=False, admissionChecks=[pending])
            assert not scene.is_running()
            assert (await scene.events())[-1] == ("UpdatedAdmissionCheck", "capacity: soon")
            await scene.admit(admissionChecks=[ready])
            template = scene.job()["spec"]["template"]
            assert template["metadata"]["annotations"]["booked"] == "yes"
            assert template["spec"]["nodeSelector"] == {"instance": "spot", "zone": "a"}

    asyncio.run(play())


def test_a_job_that_can_never_start_as_admitted() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            job = a_job()
            job["spec"]["template"]["spec"]["nodeSelector"] = {"instance": "on-demand"}
            await scene.submit(job)
            await scene.reserve()
            why = "conflict for nodeSelector: conflict for key=instance, value1=on-demand, value2=spot"
            assert scene.condition("Finished") == (
                "True", "FailedToStart", f"invalid admission check PodSetUpdate: {why}",
            )  # fmt: skip
            assert not scene.is_running()
            assert (await scene.events())[-1][0] == "FinishedWorkload"

    asyncio.run(play())


def test_pods_that_are_over_give_their_quota_back() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit(a_job(parallelism=3, completions=3))
            await scene.reserve(count=3)
            await scene.pods(active=3)
            assert scene.workload()["status"].get("reclaimablePods") is None
            await scene.pods(active=2, succeeded=1)
            assert scene.workload()["status"]["reclaimablePods"] == [{"name": "main", "count": 1}]
            before = scene.writes()
            await scene.pods(active=1, succeeded=1)
            assert scene.writes() == before + 1  # nothing about the workload

    asyncio.run(play())


def test_a_waiting_job_may_be_content_with_fewer_pods_later() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit(a_job(parallelism=5, completions=6))
            assert "minCount" not in scene.workload()["spec"]["podSets"][0]
            await scene.change({"metadata": {"annotations": {"kueue.x-k8s.io/job-min-parallelism": "1"}}})
            assert scene.workload()["spec"]["podSets"][0]["minCount"] == 1
            await scene.reserve(count=2)
            assert scene.job()["spec"]["parallelism"] == 2
            assert scene.is_running()

    asyncio.run(play())


def test_a_job_admitted_with_fewer_pods_runs_with_those_and_gets_all_back() -> None:
    annotations = {"kueue.x-k8s.io/job-min-parallelism": "2"}

    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit(a_job(metadata={"annotations": annotations}, parallelism=5, completions=10))
            assert scene.workload()["spec"]["podSets"][0]["minCount"] == 2
            await scene.reserve(count=3)
            assert scene.job()["spec"]["parallelism"] == 3
            assert scene.is_running()
            await scene.pods(active=3)
            await scene.evict()
            await scene.pods_gone()
            assert scene.job()["spec"]["parallelism"] == 5
            assert scene.condition("QuotaReserved") == ("False", "Pending", "Preempted for another")
            await scene.reserve(count=5)
            assert scene.job()["spec"]["parallelism"] == 5
            assert scene.is_running()

    asyncio.run(play())


@pytest.mark.parametrize(
    ("configured", "want"),
    [
        pytest.param({"wait_for_pods_ready": None}, [None, None, None], id="not where nobody waits for it"),
        pytest.param({}, [None, "WaitForStart", "Started"], id="after a moment"),
        pytest.param(
            {"wait_for_pods_ready": WaitForPodsReady(block_admission=True)},
            [None, "WaitForStart", "Started"],
            id="where others wait for it, too",
        ),
    ],
)
def test_readiness_of_pods_that_take_their_time(configured: dict[str, Any], want: list[str | None]) -> None:
    async def play() -> None:
        async with a_scene(**configured) as scene:
            await scene.submit()
            await scene.after(60)
            assert scene.condition("PodsReady") is None  # nothing is admitted yet
            await scene.reserve()
            seen = [scene.condition("PodsReady")]
            await scene.after(1.5)
            seen.append(scene.condition("PodsReady"))
            await scene.pods(active=1, ready=1)
            await scene.after(0.5)
            seen.append(scene.condition("PodsReady"))
            assert [None if one is None else one[1] for one in seen] == want

    asyncio.run(play())


def test_readiness_is_told_at_once_where_others_wait_for_it() -> None:
    async def play() -> None:
        async with a_scene(wait_for_pods_ready=WaitForPodsReady(block_admission=True)) as scene:
            await scene.submit()
            await scene.reserve()
            await scene.pods(active=1, ready=1)
            assert scene.condition("PodsReady") == (
                "True", "Started", "All pods reached readiness and the workload is running",
            )  # fmt: skip

    asyncio.run(play())


def test_pods_that_fall_ill_and_recover() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit()
            await scene.reserve()
            await scene.pods(active=1, ready=1)
            await scene.after(1)
            assert scene.condition("PodsReady", "train") is not None
            started = scene.job()["status"]["startTime"]
            await scene.job_status(ready=0, startTime=started)
            await scene.job_status(ready=1, startTime=started)
            await scene.after(1)
            ready = scene.condition("PodsReady")
            assert ready is not None
            assert ready[:2] == ("True", "Started")  # a short absence is none
            await scene.job_status(ready=0, startTime=started)
            await scene.after(1)
            want = ("False", "WaitForRecovery", "At least one pod has failed, waiting for recovery")
            assert scene.condition("PodsReady") == want
            await scene.job_status(ready=1, startTime=started)
            await scene.after(1)
            recovered = scene.condition("PodsReady")
            assert recovered is not None
            assert recovered[:2] == ("True", "Recovered")

    asyncio.run(play())


def test_pods_of_an_elastic_job_are_let_go_by_the_slices_that_they_name() -> None:
    """Once, only pods that the Job itself controls were: those that an operator makes for a job were not."""

    async def story() -> None:
        async with a_scene() as scene:
            job = a_job(metadata={"annotations": {"kueue.x-k8s.io/elastic-job": "true"}}, parallelism=1, completions=1)
            await scene.submit(job)
            [name] = scene.api.names("workloads")
            slice_of_it = scene.api.get("workloads", name)
            assert slice_of_it is not None
            found = scene._with(slice_of_it, "QuotaReserved", "True", "QuotaReserved", "Quota reserved")
            found = scene._set(found, "Admitted", "True", "Admitted", "The workload is admitted")
            assignment = {"name": "main", "flavors": {"cpu": "spot"}, "resourceUsage": {"cpu": "1"}, "count": 1}
            admission = {"clusterQueue": "team", "podSetAssignments": [assignment]}
            await scene._status(slice_of_it, {"conditions": found, "admission": admission})
            for pod in ("first", "second"):
                await scene.api.create(
                    "pods",
                    {
                        "metadata": {
                            "name": pod,
                            "namespace": "default",
                            "labels": {"kueue.x-k8s.io/podset": "main"},
                            "annotations": {"kueue.x-k8s.io/workload-slice-name": name},
                        },
                        "spec": {
                            "containers": [{"name": "c", "image": "x"}],
                            "schedulingGates": [{"name": "kueue.x-k8s.io/elastic-job"}],
                        },
                    },
                )
                await scene.idle()
            gated = [
                bool((scene.api.get("pods", one) or {})["spec"].get("schedulingGates")) for one in ("first", "second")
            ]
            assert gated == [False, True]

    asyncio.run(story())
