"""Admission checks: listed when they are needed, waited for, and obeyed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fairway.apis.kueue.objects import Workload
from fairway.testing.builders import admission_check, cluster_queue, flavor, local_queue, on, workload

from .plays import Play, play

QUEUES = (
    flavor(),
    admission_check("capacity"),
    admission_check("budget"),
    cluster_queue("cq", cpu=4, checks=["capacity", "budget"]),
    local_queue("lq", "cq"),
)
RESERVED = ("True", "QuotaReserved", "Quota reserved in ClusterQueue cq")
ADMITTED = ("True", "Admitted", "The workload is admitted")


def asking(name: str = "w", **given: Any) -> Workload:
    given.setdefault("cpu", 4)
    return workload(name, queue="lq", **given)


def checks(on_stage: Play, name: str = "w") -> dict[str, tuple[str, str]]:
    return {one["name"]: (one["state"], one["message"]) for one in on_stage.status(name).get("admissionChecks", [])}


def test_a_workload_holds_quota_while_its_checks_are_pending() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking(), asking("next"))
            await on_stage.pass_time(0.5)

            assert on_stage.conditions("w") == {"QuotaReserved": RESERVED}
            assert list(checks(on_stage).items()) == [("budget", ("Pending", "")), ("capacity", ("Pending", ""))]
            assert on_stage.state("next") == "pending"

    asyncio.run(scenario())


def test_it_is_admitted_when_the_last_check_is_ready() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking())
            await on_stage.report("w", "capacity", "Ready")
            assert on_stage.state("w") == "reserved"
            await on_stage.pass_time(30.0)

            await on_stage.report("w", "budget", "Ready")

            assert on_stage.conditions("w") == {"QuotaReserved": RESERVED, "Admitted": ADMITTED}
            told = await on_stage.told("w")
            assert ("Normal", "Admitted", "Admitted by ClusterQueue cq, wait time since reservation was 30s") in told

    asyncio.run(scenario())


def test_a_check_that_asks_for_another_try_sends_the_workload_back_and_all_checks_begin_anew() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking())
            await on_stage.report("w", "budget", "Ready", podSetUpdates=[{"name": "main", "labels": {"a": "b"}}])
            await on_stage.report("w", "capacity", "Retry", "no nodes")
            message = 'Evicted due to AdmissionCheck in Retry state: "capacity" (no nodes)'

            assert on_stage.conditions("w") == {
                "QuotaReserved": RESERVED,
                "Evicted": ("True", "AdmissionCheck", message),
            }
            assert checks(on_stage) == {
                "budget": ("Pending", "Reset to Pending after eviction. Previously: Ready"),
                "capacity": ("Pending", "Reset to Pending after eviction. Previously: Retry"),
            }
            listed = {one["name"]: one for one in on_stage.status("w")["admissionChecks"]}
            assert "podSetUpdates" not in listed["budget"]
            assert (listed["capacity"]["retryCount"], "retryCount" in listed["budget"]) == (1, False)

            await on_stage.release("w")
            await on_stage.pass_time(0.5)

            assert on_stage.conditions("w") == {
                "QuotaReserved": RESERVED,
                "Evicted": ("False", "QuotaReserved", f"Previously: {message}"),
                "Requeued": ("True", "BackoffFinished", "The workload backoff was finished"),
            }

    asyncio.run(scenario())


def test_a_check_can_ask_for_time_before_the_next_try() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking())
            await on_stage.report("w", "capacity", "Retry", "no nodes", requeueAfterSeconds=60)
            assert on_stage.status("w")["requeueState"] == {"requeueAt": "2026-01-01T00:01:00Z"}

            await on_stage.release("w")
            await on_stage.pass_time(59.0)
            assert on_stage.state("w") == "pending"

            await on_stage.pass_time(2.0)

            assert on_stage.state("w") == "reserved"
            assert "requeueState" not in on_stage.status("w")

    asyncio.run(scenario())


def test_several_verdicts_at_once_are_told_together() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking())
            verdicts = [
                {**one, "state": "Retry", "lastTransitionTime": on_stage.now()}
                for one in on_stage.status("w")["admissionChecks"]
            ]
            await on_stage.change("w", {"admissionChecks": verdicts})

            message = 'Evicted due to AdmissionChecks in Retry state: "budget"; "capacity"'
            assert on_stage.conditions("w")["Evicted"] == ("True", "AdmissionCheck", message)

    asyncio.run(scenario())


def test_a_check_that_rejects_a_workload_deactivates_it() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking(), asking("next"))
            await on_stage.report("w", "budget", "Rejected", "too dear")
            await on_stage.pass_time(0.5)

            cause = 'AdmissionCheck in Rejected state: "budget" (too dear)'
            message = f"The workload is deactivated due to {cause}"
            assert on_stage.get("w")["spec"]["active"] is False
            assert on_stage.conditions("w") == {
                "QuotaReserved": RESERVED,
                "Evicted": ("True", "DeactivatedDueToAdmissionCheck", message),
            }
            assert await on_stage.told("w") >= {
                ("Warning", "AdmissionCheckRejected", f"Deactivated due to {cause}"),
                ("Normal", "EvictedDueToDeactivatedDueToAdmissionCheck", message),
            }
            assert on_stage.state("next") == "reserved"

    asyncio.run(scenario())


def test_an_evicted_workload_is_not_admitted_on_verdicts_from_before() -> None:
    """A verdict that comes while the eviction is written is from before it; the next try needs a new one."""

    async def scenario() -> None:
        queues = (*QUEUES[:3], cluster_queue("cq", cpu=4, checks=["capacity"], within="LowerPriority"), QUEUES[4])
        async with play(*queues) as on_stage:
            await on_stage.submit(asking("low"))
            await on_stage.submit(asking("high", priority=5))
            assert on_stage.conditions("low")["Evicted"][0] == "True"
            await on_stage.release("low")
            await on_stage.finish("high")
            await on_stage.pass_time(0.5)

            assert on_stage.state("low") == "reserved"

    asyncio.run(scenario())


def test_checks_that_the_queue_asks_for_later_are_added_and_those_it_drops_are_removed() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking(), asking("waiting"))
            await on_stage.apply(cluster_queue("cq", cpu=4, checks=["budget"]))
            await on_stage.pass_time(0.5)
            assert (list(checks(on_stage)), list(checks(on_stage, "waiting"))) == (["budget"], ["budget"])

            await on_stage.report("w", "budget", "Ready")
            await on_stage.apply(cluster_queue("cq", cpu=4, checks=["budget", "capacity"]))
            await on_stage.pass_time(0.5)

            assert checks(on_stage) == {"budget": ("Ready", ""), "capacity": ("Pending", "")}
            assert on_stage.state("w") == "admitted"  # what runs is not stopped

            await on_stage.apply(cluster_queue("cq", cpu=4))
            await on_stage.pass_time(1.5)

            assert (checks(on_stage), checks(on_stage, "waiting")) == ({}, {})

    asyncio.run(scenario())


def test_only_the_checks_of_the_flavors_that_were_given_are_needed() -> None:
    async def scenario() -> None:
        queue = cluster_queue(
            "cq", on("spot", cpu=1), on("default", cpu=4), checks={"capacity": ["spot"], "budget": ["default"]}
        )
        async with play(flavor("spot"), *QUEUES[:3], queue, QUEUES[4]) as on_stage:
            await on_stage.submit(asking("small", cpu=1), asking("large", cpu=4))

            assert (list(checks(on_stage, "small")), list(checks(on_stage, "large"))) == (["capacity"], ["budget"])

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("verdict", "want_state"),
    [pytest.param("Ready", "admitted", id="ready"), pytest.param("Retry", "reserved", id="another try")],
)
def test_a_verdict_that_came_while_no_controller_ran_is_obeyed(verdict: str, want_state: str) -> None:
    async def scenario() -> None:
        queues = (*QUEUES[:3], cluster_queue("cq", cpu=4, checks=["capacity"]), QUEUES[4])
        async with play(*queues) as on_stage:
            await on_stage.submit(asking())
            await on_stage.kill()
            await on_stage.report("w", "capacity", verdict)
            await on_stage.start()

            assert on_stage.state("w") == want_state
            assert ("Evicted" in on_stage.conditions("w")) == (verdict == "Retry")

    asyncio.run(scenario())


def test_a_queue_whose_check_is_not_active_admits_nothing_until_it_is() -> None:
    async def scenario() -> None:
        queues = (flavor(), admission_check("capacity", active=False))
        queue = cluster_queue("cq", cpu=4, checks=["capacity"])
        async with play(*queues, queue, local_queue("lq", "cq")) as on_stage:
            await on_stage.submit(asking())
            await on_stage.pass_time(1.0)
            assert on_stage.conditions("w")["QuotaReserved"] == (
                "False",
                "Inadmissible",
                "ClusterQueue cq is inactive",
            )

            active = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
            status = {"conditions": [{**active, "lastTransitionTime": on_stage.now()}]}
            await on_stage.api.patch("admissionchecks", "capacity", {"status": status}, subresource="status")
            await on_stage.pass_time(1.0)

            assert on_stage.state("w") == "reserved"

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "stopped",
    [
        pytest.param(cluster_queue("cq", cpu=4, checks=["capacity", "budget"], stop="Hold"), id="the ClusterQueue"),
        pytest.param(local_queue("lq", "cq", stop="Hold"), id="the LocalQueue"),
    ],
)
def test_a_reservation_is_given_back_when_the_queue_is_held(stopped: Any) -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking())
            await on_stage.apply(stopped)
            name = f"{stopped.KIND} {stopped.name}"

            assert on_stage.conditions("w") == {"QuotaReserved": ("False", "Inadmissible", f"{name} is inactive")}
            assert "admission" not in on_stage.status("w")

    asyncio.run(scenario())
