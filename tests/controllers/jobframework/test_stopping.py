"""Jobs that have to go, and jobs that changed."""

import asyncio
from typing import Any

import pytest

from fairway.integrations import conditions

from .scene import Scene, a_job, a_scene

RESTORED = "No matching Workload; restoring pod templates according to existent Workload"


def is_as_submitted(scene: Scene) -> bool:
    """Whether nothing of an admission is left on the template."""
    template = scene.job()["spec"]["template"]
    labels = template["metadata"]["labels"]
    return (
        "nodeSelector" not in template["spec"]
        and "tolerations" not in template["spec"]
        and not template["metadata"].get("annotations")
        and not any(key.startswith("kueue") for key in labels)
        and "kueue.x-k8s.io/stopping" not in scene.job()["metadata"].get("annotations", {})
    )


@pytest.mark.parametrize(
    ("reason", "requeued"),
    [
        pytest.param("Preempted", "True", id="preempted comes back at once"),
        pytest.param("NodeFailures", "True", id="so does one whose nodes failed"),
        pytest.param("PodsReadyTimeout", "False", id="others wait to be let back"),
        pytest.param("Deactivated", "False", id="also deactivated ones"),
    ],
)
def test_an_eviction_in_two_phases(reason: str, requeued: str) -> None:
    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit()
            await scene.reserve()
            await scene.pods()
            await scene.after(100)
            await scene.evict(reason, "because")
            assert not scene.is_running()
            assert scene.job()["metadata"]["annotations"] == {"kueue.x-k8s.io/stopping": "true"}
            held = scene.condition("QuotaReserved")
            assert held is not None
            assert held[0] == "True"  # as long as pods run

            await scene.pods_gone()
            assert is_as_submitted(scene)
            assert "startTime" not in scene.job()["status"]
            assert scene.condition("Requeued") == (requeued, reason, "because")
            assert scene.condition("QuotaReserved") == ("False", "Pending", "because")
            assert scene.condition("Admitted") == ("False", "NoReservation", "The workload has no reservation")
            assert scene.condition("Evicted") == ("True", reason, "because")
            assert scene.condition("PodsReady") == ("False", "WaitForStart", "Not all pods are ready or succeeded")
            status = scene.workload()["status"]
            assert "admission" not in status
            assert status["accumulatedPastExecutionTimeSeconds"] == 100
            assert (await scene.events())[-1] == ("Stopped", "because")

            await scene.reserve()
            assert scene.is_running()
            await scene.complete()
            assert conditions.is_true(scene.workload(), "Finished")

    asyncio.run(play())


def test_checks_that_are_not_ready_are_named_when_admission_is_lost() -> None:
    check = {"name": "c", "state": "Pending", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}

    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit()
            await scene.reserve(admissionChecks=[check])
            await scene.evict("AdmissionCheck", "retry")
            want = "The workload has no reservation and not all checks ready"
            assert scene.condition("Admitted") == ("False", "NoReservationUnsatisfiedChecks", want)

    asyncio.run(play())


def test_a_job_that_ends_while_it_is_evicted_is_finished() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit()
            await scene.reserve()
            await scene.pods()
            await scene.evict()
            await scene.complete()
            finished = scene.condition("Finished")
            assert finished is not None
            assert finished[1] == "Succeeded"

    asyncio.run(play())


@pytest.mark.parametrize("suspends", [True, False])
def test_a_user_cannot_start_or_stop_a_job_of_the_queue(suspends: bool) -> None:  # noqa: FBT001 - a table
    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit()
            if suspends:
                await scene.reserve()
            await scene.change({"spec": {"suspend": suspends}})
            assert scene.is_running() is suspends
            told = [one for one in await scene.events() if one[0] != "CreatedWorkload"]
            want = (
                [("Started", "Admitted by clusterQueue team")]
                if suspends
                else [("Stopped", "Not admitted by cluster queue")]
            )
            assert told == want
            assert is_as_submitted(scene) is not suspends

    asyncio.run(play())


def test_a_job_that_was_let_loose_before_the_controller_knew_it() -> None:
    async def play() -> None:
        async with a_scene(webhooks=False) as scene:
            await scene.submit(a_job(suspend=False))
            assert not scene.is_running()
            assert [reason for reason, _ in await scene.events()] == ["Stopped", "CreatedWorkload"]
            assert (await scene.events())[0][1] == "Missing Workload; unable to restore pod templates"

    asyncio.run(play())


@pytest.mark.parametrize(
    ("change", "want"),
    [
        pytest.param({"parallelism": 2}, {"count": 2}, id="count"),
        pytest.param(
            {"template": {"spec": {"tolerations": [{"key": "a"}]}}}, {"tolerations": [{"key": "a"}]}, id="spec"
        ),
    ],
)
def test_a_waiting_job_that_changes_keeps_its_workload(change: dict[str, Any], want: dict[str, Any]) -> None:
    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit(a_job(parallelism=1, completions=5))
            before = scene.workload()["metadata"]["uid"]
            await scene.change({"spec": change})
            after = scene.workload()
            assert after["metadata"]["uid"] == before
            [made] = after["spec"]["podSets"]
            assert {"count": made["count"], **made["template"]["spec"]}.items() >= want.items()
            message = f"Updated not matching Workload for suspended job: default/{scene.name_of_workload()}"
            assert (await scene.events())[-1] == ("UpdatedWorkload", message)

    asyncio.run(play())


def test_a_waiting_job_that_changes_loses_a_reservation_by_a_new_workload() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit(a_job(parallelism=1, completions=5))
            before = scene.workload()["metadata"]["uid"]
            await scene.reserve(admitted=False)
            await scene.change({"spec": {"parallelism": 2}})
            after = scene.workload()
            assert after["metadata"]["uid"] != before
            assert "status" not in after
            message = f"Deleted not matching Workload: default/{scene.name_of_workload()}"
            assert ("DeletedWorkload", message) in await scene.events()

    asyncio.run(play())


def test_a_running_job_that_changes_starts_anew() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit(a_job(parallelism=1, completions=5))
            before = scene.workload()["metadata"]["uid"]
            await scene.reserve()
            await scene.pods()
            await scene.change({"spec": {"parallelism": 2}})
            assert not scene.is_running()
            assert scene.workload()["metadata"]["uid"] == before  # it still knows the templates
            await scene.pods_gone()
            assert is_as_submitted(scene)
            after = scene.workload()
            assert after["metadata"]["uid"] != before
            assert after["spec"]["podSets"][0]["count"] == 2
            assert ("Stopped", RESTORED) in await scene.events()

    asyncio.run(play())


def test_a_workload_that_a_user_deletes_comes_back() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit()
            first = scene.workload()["metadata"]["uid"]
            await scene.api.delete("workloads", scene.name_of_workload())
            await scene.idle()
            second = scene.workload()["metadata"]["uid"]
            assert second != first

            await scene.reserve()
            await scene.pods()
            await scene.api.delete("workloads", scene.name_of_workload())
            await scene.idle()
            assert not scene.is_running()
            assert not scene.has_workload()  # not while its pods run
            await scene.pods_gone()
            assert is_as_submitted(scene)
            assert scene.workload()["metadata"]["uid"] != second
            assert ("Stopped", "Workload is deleted") in await scene.events()

    asyncio.run(play())


def test_a_workload_that_is_held_by_a_finalizer_while_it_is_deleted() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit()
            await scene.reserve()
            name = scene.name_of_workload()
            await scene.api.patch("workloads", name, {"metadata": {"finalizers": ["example.com/keep"]}})
            await scene.api.delete("workloads", name)
            await scene.idle()
            assert not scene.is_running()
            assert is_as_submitted(scene)
            await scene.api.patch("workloads", name, {"metadata": {"finalizers": None}})
            await scene.idle()
            assert "deletionTimestamp" not in scene.workload()["metadata"]

    asyncio.run(play())


def test_a_finished_job_whose_workload_is_deleted_gets_no_other() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit()
            await scene.reserve()
            await scene.complete()
            await scene.api.delete("workloads", scene.name_of_workload())
            await scene.after(10)
            assert not scene.has_workload()

    asyncio.run(play())


def test_the_workload_goes_with_its_job() -> None:
    async def play() -> None:
        async with a_scene() as scene:
            await scene.submit()
            name = scene.name_of_workload()
            await scene.api.delete("jobs", "train", propagation="Background")
            await scene.api.until(lambda: scene.api.get("workloads", name) is None)

    asyncio.run(play())


def test_a_job_that_the_queue_gave_up_is_deleted_after_a_while() -> None:
    async def play() -> None:
        async with a_scene(deactivated_retention_seconds=60) as scene:
            await scene.submit()
            await scene.reserve()
            await scene.api.patch("workloads", scene.name_of_workload(), {"spec": {"active": False}})
            await scene.evict("DeactivatedDueToRequeuingLimitExceeded", "given up")
            await scene.after(50)
            assert not scene.is_running()
            await scene.after(11)
            assert scene.api.get("jobs", "train") is None

    asyncio.run(play())


def test_a_job_that_a_user_deactivated_is_kept() -> None:
    async def play() -> None:
        async with a_scene(deactivated_retention_seconds=60) as scene:
            await scene.submit()
            await scene.reserve()
            await scene.api.patch("workloads", scene.name_of_workload(), {"spec": {"active": False}})
            await scene.evict("Deactivated", "The workload is deactivated")
            await scene.after(1000)
            assert not scene.is_running()

    asyncio.run(play())
