"""Workloads get quota, or are told why not: every condition and event on the way, as Kueue words them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fairway.apis.kueue.configuration import Configuration, WaitForPodsReady
from fairway.apis.kueue.objects import Workload
from fairway.testing.builders import Limited, Limits, cluster_queue, cohort, flavor, local_queue, on, pod_set, workload

from .plays import Play, play

QUEUES = (flavor(), cluster_queue("cq", cpu=4), local_queue("lq", "cq"))

RESERVED = ("True", "QuotaReserved", "Quota reserved in ClusterQueue cq")
ADMITTED = ("True", "Admitted", "The workload is admitted")


def asking(name: str = "w", **given: Any) -> Workload:
    given.setdefault("cpu", 1)
    return workload(name, queue=given.pop("queue", "lq"), **given)


def test_a_workload_that_fits_is_admitted_in_one_write() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            before = on_stage.api.store.revision
            await on_stage.submit(asking(cpu="1500m", count=2))
            written = on_stage.api.store.revision - before

            assert written == 2  # the create and the admission
            assert on_stage.conditions("w") == {"QuotaReserved": RESERVED, "Admitted": ADMITTED}
            assert on_stage.status("w")["admission"] == {
                "clusterQueue": "cq",
                "podSetAssignments": [
                    {"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "3"}, "count": 2}
                ],
            }

    asyncio.run(scenario())


def test_conditions_carry_the_generation_they_were_decided_for_and_whole_seconds() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.pass_time(1.7)
            await on_stage.submit(asking())

            assert {
                (one["observedGeneration"], one["lastTransitionTime"]) for one in on_stage.status("w")["conditions"]
            } == {(1, "2026-01-01T00:00:01Z")}

    asyncio.run(scenario())


def test_amounts_are_written_as_kueue_writes_them() -> None:
    async def scenario() -> None:
        quotas: dict[str, Limits] = {"cpu": 8, "memory": "64Gi", "nvidia.com/gpu": 8}
        queue = cluster_queue("cq", on("default", resources=quotas))
        async with play(flavor(), queue, local_queue("lq", "cq")) as on_stage:
            head = pod_set("head", resources={"cpu": "250m", "memory": "2000M"})
            workers = pod_set("workers", count=3, resources={"cpu": "1", "memory": "512Mi", "nvidia.com/gpu": 1})
            await on_stage.submit(workload("w", head, workers, queue="lq"))

            assert [one["resourceUsage"] for one in on_stage.status("w")["admission"]["podSetAssignments"]] == [
                {"cpu": "250m", "memory": "1953125Ki"},
                {"cpu": "3", "memory": "1536Mi", "nvidia.com/gpu": "3"},
            ]

    asyncio.run(scenario())


def test_the_events_of_an_admission_say_how_long_it_waited() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking("first", cpu=4))
            await on_stage.submit(asking("second", cpu=4))
            await on_stage.pass_time(61.0)
            await on_stage.finish("first")
            await on_stage.pass_time(0.1)

            told = await on_stage.told("second")

            assert (
                "Normal",
                "QuotaReserved",
                "Quota reserved in ClusterQueue cq, wait time since queued was 61s",
            ) in told
            assert (
                "Normal",
                "Admitted",
                "Admitted by ClusterQueue cq, wait time since reservation was 0s",
            ) in told

    asyncio.run(scenario())


SHORT_OF_TWO = (
    "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 2 more needed"
)
TOO_LARGE = (
    "couldn't assign flavors to pod set main: insufficient quota for cpu in flavor default, previously considered "
    "podsets requests (0) + current podset request (9) > maximum capacity (4)"
)

WAITING = [
    pytest.param((), asking(cpu=3), "Pending", SHORT_OF_TWO, id="quota that others use"),
    pytest.param((), asking(cpu=9), "Pending", TOO_LARGE, id="more than there will ever be"),
    pytest.param(
        (),
        workload("w", queue="lq", memory="1Gi"),
        "Pending",
        "couldn't assign flavors to pod set main: resource memory unavailable in ClusterQueue",
        id="a resource that the queue does not have",
    ),
    pytest.param(
        (), asking(queue="nowhere"), "Inadmissible", "LocalQueue nowhere doesn't exist", id="no such LocalQueue"
    ),
    pytest.param(
        (local_queue("lost", "gone"),),
        asking(queue="lost"),
        "Inadmissible",
        "ClusterQueue gone doesn't exist",
        id="a LocalQueue that leads nowhere",
    ),
    pytest.param(
        (local_queue("held", "cq", stop="Hold"),),
        asking(queue="held"),
        "Inadmissible",
        "LocalQueue held is inactive",
        id="a stopped LocalQueue",
    ),
    pytest.param(
        (cluster_queue("held", cpu=4, stop="Hold"), local_queue("other", "held")),
        asking(queue="other"),
        "Inadmissible",
        "ClusterQueue held is inactive",
        id="a stopped ClusterQueue",
    ),
    pytest.param(
        (cluster_queue("bare", on("unknown", cpu=4)), local_queue("other", "bare")),
        asking(queue="other"),
        "Inadmissible",
        "ClusterQueue bare is inactive",
        id="a ClusterQueue whose flavor is missing",
    ),
    pytest.param(
        (cluster_queue("picky", cpu=4, namespaces={"team": "a"}), local_queue("other", "picky")),
        asking(queue="other"),
        "Pending",
        "workload namespace doesn't match ClusterQueue selector",
        id="a namespace that is not selected",
    ),
    pytest.param(
        (),
        workload("w", pod_set(pod={"containers": [{"name": "c", "resources": {
            "requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}]}), queue="lq"),
        "Pending",
        "resources validation failed: spec.podSets[0].template.spec.containers[0]: Invalid value: [\"cpu\"]: "
        "requests must not exceed its limits",
        id="requests above limits",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("more", "waiting", "want_reason", "want_message"), WAITING)
def test_a_workload_that_waits_says_why(
    more: tuple[Any, ...], waiting: Workload, want_reason: str, want_message: str
) -> None:
    async def scenario() -> None:
        async with play(*QUEUES, *more) as on_stage:
            await on_stage.submit(asking("holder", cpu=3))
            await on_stage.submit(waiting)
            await on_stage.pass_time(1.0)

            assert on_stage.conditions("w") == {"QuotaReserved": ("False", want_reason, want_message)}
            want_told = {("Warning", "Pending", want_message)} if want_reason == "Pending" else set()
            assert await on_stage.told("w") == want_told

    asyncio.run(scenario())


def test_a_workload_that_waits_shows_what_it_asks_for_until_it_is_admitted() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking("holder", cpu=4))
            await on_stage.submit(asking(cpu="500m", count=3))
            await on_stage.pass_time(1.0)

            assert on_stage.status("w")["resourceRequests"] == [{"name": "main", "resources": {"cpu": "1500m"}}]

            await on_stage.finish("holder")
            await on_stage.pass_time(0.1)

            assert on_stage.state("w") == "admitted"
            assert "resourceRequests" not in on_stage.status("w")

    asyncio.run(scenario())


def test_while_the_reasons_change_at_most_one_explanation_a_second_is_written() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking("holder", cpu=4))
            await on_stage.submit(asking(cpu=3))
            before = on_stage.api.store.revision
            for quota in range(1, 11):
                await on_stage.apply(cluster_queue("cq", cpu=4 - quota * 0.1))
                await on_stage.pass_time(0.2)
            written = on_stage.api.store.revision - before - 10

            assert 1 <= written <= 3

    asyncio.run(scenario())


def test_an_explanation_that_is_stored_already_is_not_written_again() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking("holder", cpu=4), asking(cpu=3))
            await on_stage.pass_time(1.0)
            before = on_stage.api.store.revision
            await on_stage.restart()
            await on_stage.pass_time(5.0)

            assert on_stage.api.store.revision == before

    asyncio.run(scenario())


def test_a_workload_that_is_admitted_soon_gets_no_explanation() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking("holder", cpu=4))
            await on_stage.submit(asking(cpu=3))
            await on_stage.finish("holder")
            await on_stage.pass_time(2.0)

            assert on_stage.conditions("w") == {"QuotaReserved": RESERVED, "Admitted": ADMITTED}
            assert {reason for _, reason, _ in await on_stage.told("w")} == {"QuotaReserved", "Admitted"}

    asyncio.run(scenario())


def test_all_pods_ready_before_the_next_one_starts() -> None:
    async def scenario() -> None:
        configuration = Configuration(wait_for_pods_ready=WaitForPodsReady(block_admission=True))
        async with play(*QUEUES, configuration=configuration) as on_stage:
            await on_stage.submit(asking("first"))
            await on_stage.submit(asking())
            await on_stage.pass_time(1.0)

            message = "waiting for all admitted workloads to be in PodsReady condition"
            assert on_stage.conditions("w") == {"QuotaReserved": ("False", "Waiting", message)}
            assert await on_stage.told("w") == set()

            await on_stage.set_condition("first", "PodsReady", "True", "Started")

            assert on_stage.state("w") == "admitted"

    asyncio.run(scenario())


def test_finished_quota_is_given_on_within_the_batch() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking("first", cpu=4), asking("second", cpu=4))
            await on_stage.finish("first")
            await on_stage.pass_time(0.03)

            assert on_stage.states() == {"first": "finished", "second": "admitted"}

    asyncio.run(scenario())


async def _delete(on_stage: Play) -> None:
    await on_stage.api.delete("workloads", "first")


async def _reclaim(on_stage: Play) -> None:
    await on_stage.change("first", {"reclaimablePods": [{"name": "main", "count": 4}]})


async def _raise_quota(on_stage: Play) -> None:
    await on_stage.apply(cluster_queue("cq", cpu=8))


async def _join_cohort(on_stage: Play) -> None:
    await on_stage.apply(cohort("all", cpu=4), cluster_queue("cq", cpu=4, cohort="all"))


async def _shrink(on_stage: Play) -> None:
    made = on_stage.get("second")["spec"]["podSets"]
    made[0]["count"] = 0
    await on_stage.api.patch("workloads", "second", {"spec": {"podSets": made}})


async def _move(on_stage: Play) -> None:
    await on_stage.apply(cluster_queue("free", cpu=4), local_queue("elsewhere", "free"))
    await on_stage.api.patch("workloads", "second", {"spec": {"queueName": "elsewhere"}})


@pytest.mark.parametrize(
    "room",
    [
        pytest.param(_delete, id="another one is deleted"),
        pytest.param(_reclaim, id="another one's pods are done"),
        pytest.param(_raise_quota, id="the quota is raised"),
        pytest.param(_join_cohort, id="there is a cohort to borrow from"),
        pytest.param(_shrink, id="it asks for less"),
        pytest.param(_move, id="it goes to another queue"),
    ],
)
def test_room_is_made_and_used(room: Any) -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking("first", count=4), asking("second", count=4))
            await on_stage.pass_time(0.5)
            assert on_stage.state("second") == "pending"

            await room(on_stage)
            await on_stage.pass_time(0.5)

            assert on_stage.state("second") == "admitted"

    asyncio.run(scenario())


def test_a_priority_that_is_raised_goes_ahead() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking("holder", cpu=4), asking("one", cpu=4, priority=5), asking("two", cpu=4))
            await on_stage.api.patch("workloads", "two", {"spec": {"priority": 9}})
            await on_stage.finish("holder")
            await on_stage.pass_time(0.1)

            assert on_stage.states() == {"holder": "finished", "one": "pending", "two": "admitted"}

    asyncio.run(scenario())


def test_fewer_pods_are_admitted_where_fewer_will_do() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking("holder", cpu=1))
            await on_stage.submit(asking(cpu=1, count=5, min_count=2))

            (assigned,) = on_stage.status("w")["admission"]["podSetAssignments"]
            assert (assigned["count"], assigned["resourceUsage"]) == (3, {"cpu": "3"})

    asyncio.run(scenario())


def test_a_gated_workload_waits_for_its_gate() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking(annotations={"kueue.x-k8s.io/admission-gated-by": "example.com/gate"}))
            await on_stage.pass_time(1.0)

            message = "Admission is gated by: example.com/gate"
            assert on_stage.conditions("w") == {"QuotaReserved": ("False", "AdmissionGated", message)}
            assert await on_stage.told("w") == {
                ("Normal", "AdmissionGated", "Workload admission is gated by: example.com/gate")
            }

            cleared = {"metadata": {"annotations": {"kueue.x-k8s.io/admission-gated-by": None}}}
            await on_stage.api.patch("workloads", "w", cleared)
            await on_stage.pass_time(1.0)

            assert on_stage.state("w") == "admitted"

    asyncio.run(scenario())


def test_a_gate_that_is_gone_is_shown_where_there_is_no_quota_yet() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.apply(cluster_queue("cq", cpu=4, stop="Hold"))
            await on_stage.submit(asking(annotations={"kueue.x-k8s.io/admission-gated-by": "example.com/gate"}))
            await on_stage.pass_time(1.0)
            cleared = {"metadata": {"annotations": {"kueue.x-k8s.io/admission-gated-by": ""}}}
            await on_stage.api.patch("workloads", "w", cleared)
            await on_stage.pass_time(1.0)

            cleared_event = ("Normal", "AdmissionGateCleared", "Admission gate cleared, workload is now admissible")
            assert cleared_event in await on_stage.told("w")

    asyncio.run(scenario())


def test_a_workload_on_hold_is_not_queued_until_its_job_lets_it() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.apply(cluster_queue("cq", cpu=4, stop="Hold"))
            await on_stage.submit(asking())
            await on_stage.set_condition("w", "QuotaReserved", "False", "OnHold", "Job is on hold")
            await on_stage.apply(cluster_queue("cq", cpu=4))
            await on_stage.pass_time(2.0)
            assert on_stage.conditions("w") == {"QuotaReserved": ("False", "OnHold", "Job is on hold")}

            await on_stage.set_condition("w", "QuotaReserved", "False", "Pending")
            await on_stage.pass_time(1.0)

            assert on_stage.state("w") == "admitted"

    asyncio.run(scenario())


def test_quota_of_others_is_borrowed_up_to_the_limit() -> None:
    async def scenario() -> None:
        queues = (
            cluster_queue("cq", cohort="all", cpu=Limited(4, borrowing=2)),
            cluster_queue("other", cohort="all", cpu=4),
        )
        async with play(flavor(), *queues, local_queue("lq", "cq")) as on_stage:
            await on_stage.submit(asking("one", cpu=6), asking("two", cpu=1))
            await on_stage.pass_time(0.5)

            assert on_stage.states() == {"one": "admitted", "two": "pending"}

    asyncio.run(scenario())
