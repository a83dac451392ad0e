"""Writes that do not come through, and controllers that end in the middle of several."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fairway.apis.kueue.objects import Workload
from fairway.integrations import conditions
from fairway.store.memory import MemoryLog
from fairway.testing.builders import admission_check, cluster_queue, flavor, local_queue, workload
from fairway.testing.stores import UnreliableLog

from .plays import Play, play

QUEUES = (flavor(), cluster_queue("cq", cpu=4, within="LowerPriority"), local_queue("lq", "cq"))


@pytest.fixture(params=[True, False], ids=["staging", "waiting"])
def staging(request: pytest.FixtureRequest) -> bool:
    """Whether writes are decided at once, or each is waited for, as over the wire."""
    return bool(request.param)


def asking(name: str = "w", **given: Any) -> Workload:
    given.setdefault("cpu", 4)
    return workload(name, queue="lq", **given)


def test_while_the_disk_is_full_nothing_is_given_away_and_then_the_decision_is_written(*, staging: bool) -> None:
    async def scenario() -> None:
        log = UnreliableLog(MemoryLog())
        async with play(*QUEUES, open_log=lambda: log, staging=staging) as on_stage:
            await on_stage.submit(asking("holder", cpu=4))
            await on_stage.submit(asking(), asking("next"))
            await on_stage.finish("holder")
            log.failing = True
            await on_stage.pass_time(3.0)
            assert on_stage.states() == {"holder": "finished", "next": "pending", "w": "pending"}

            log.failing = False
            await on_stage.pass_time(6.0)

            assert sorted(on_stage.states().values()) == ["admitted", "finished", "pending"]

    asyncio.run(scenario())


def test_a_workload_that_the_api_refuses_to_admit_stands_in_nobodys_way_and_is_tried_again(*, staging: bool) -> None:
    async def scenario() -> None:
        async with play(*QUEUES, staging=staging) as on_stage:
            on_stage.refuses.add("w")
            await on_stage.submit(asking(priority=9))
            await on_stage.submit(asking("next"))
            await on_stage.pass_time(0.5)
            assert on_stage.states() == {"next": "admitted", "w": "pending"}

            on_stage.refuses.clear()
            await on_stage.finish("next")
            await on_stage.pass_time(10.0)

            assert on_stage.states() == {"next": "finished", "w": "admitted"}

    asyncio.run(scenario())


def test_an_eviction_that_the_api_refuses_is_tried_again_and_its_quota_stays_taken(*, staging: bool) -> None:
    async def scenario() -> None:
        async with play(*QUEUES, staging=staging) as on_stage:
            await on_stage.submit(asking())
            on_stage.refuses.add("w")
            await on_stage.submit(asking("high", priority=5))
            await on_stage.pass_time(0.5)
            assert on_stage.states() == {"high": "pending", "w": "admitted"}

            on_stage.refuses.clear()
            await on_stage.pass_time(2.0)

            assert on_stage.conditions("w")["Evicted"][:2] == ("True", "Preempted")

    asyncio.run(scenario())


def test_a_workload_that_is_deleted_while_it_is_admitted_frees_its_quota(*, staging: bool) -> None:
    async def scenario() -> None:
        async with play(*QUEUES, staging=staging) as on_stage:
            await asyncio.gather(
                on_stage.api.create("workloads", _manifest("w")), on_stage.api.create("workloads", _manifest("next"))
            )
            await asyncio.sleep(0)  # both are seen, one is decided on, and before that is written it is gone
            await on_stage.api.delete("workloads", "w")
            await on_stage.api.create("workloads", _manifest("w"))
            await on_stage.pass_time(1.0)

            assert sorted(on_stage.states().values()) == ["admitted", "pending"]

    asyncio.run(scenario())


def _manifest(name: str) -> dict[str, Any]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "4"}}}
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"queueName": "lq", "podSets": [pod_set]}}


def test_a_workload_that_asks_for_more_while_it_is_admitted_is_not_admitted_for_less(*, staging: bool) -> None:
    async def scenario() -> None:
        async with play(*QUEUES, staging=staging) as on_stage:
            made = _manifest("w")
            made["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1"
            await on_stage.api.create("workloads", made)
            larger = on_stage.get("w")["spec"]["podSets"]
            larger[0]["count"] = 3
            await on_stage.api.patch("workloads", "w", {"spec": {"podSets": larger}})
            await on_stage.pass_time(1.0)

            (given,) = on_stage.status("w")["admission"]["podSetAssignments"]
            assert (given["count"], given["resourceUsage"]) == (3, {"cpu": "3"})

    asyncio.run(scenario())


# Deactivation takes three writes; whoever takes over goes on from any of them.


async def _marked(on_stage: Play) -> None:
    await on_stage.set_condition("w", "DeactivationTarget", "True", "AdmissionCheck", "because")


async def _inactive(on_stage: Play) -> None:
    await _marked(on_stage)
    await on_stage.api.patch("workloads", "w", {"spec": {"active": False}})


@pytest.mark.parametrize(
    "written", [pytest.param(_marked, id="after the first write"), pytest.param(_inactive, id="after the second")]
)
def test_a_deactivation_goes_on_where_the_last_controller_left_it(written: Any, *, staging: bool) -> None:
    async def scenario() -> None:
        async with play(*QUEUES, staging=staging) as on_stage:
            await on_stage.submit(asking())
            await on_stage.kill()
            await written(on_stage)
            await on_stage.start()

            message = "The workload is deactivated due to because"
            assert on_stage.get("w")["spec"]["active"] is False
            assert on_stage.conditions("w")["Evicted"] == ("True", "DeactivatedDueToAdmissionCheck", message)
            assert "DeactivationTarget" not in on_stage.conditions("w")

            await on_stage.release("w")
            await on_stage.set_active("w", active=True)
            await on_stage.pass_time(1.0)

            assert on_stage.state("w") == "admitted"

    asyncio.run(scenario())


def test_no_admission_is_written_before_the_quota_it_uses_is_free_in_the_store(*, staging: bool) -> None:
    """A rejected workload is to be inactive, which takes two writes; one of them does not come through for a while."""

    async def scenario() -> None:
        queue = cluster_queue("cq", cpu=4, checks=["check"])
        async with play(
            flavor(), admission_check("check"), queue, local_queue("lq", "cq"), staging=staging
        ) as on_stage:
            await on_stage.submit(asking(), asking("next"))
            on_stage.refuses.add("w")
            await on_stage.report("w", "check", "Rejected")
            await on_stage.pass_time(0.5)
            assert on_stage.states() == {"next": "pending", "w": "reserved"}

            on_stage.refuses.clear()
            await on_stage.pass_time(2.0)

            assert on_stage.state("next") == "reserved"
            assert not conditions.is_true(on_stage.get("w"), "DeactivationTarget")

    asyncio.run(scenario())
