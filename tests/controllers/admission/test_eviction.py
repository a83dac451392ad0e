"""Workloads lose their quota: in two phases, with a reason, and come back as that reason lets them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fairway.admission.events import EvictionRequested
from fairway.apis.kueue.configuration import Configuration, WaitForPodsReady
from fairway.apis.kueue.objects import Workload
from fairway.testing.builders import cluster_queue, flavor, local_queue, workload

from .plays import Play, play

PREEMPTING = cluster_queue("cq", cpu=4, within="LowerPriority")
QUEUES = (flavor(), PREEMPTING, local_queue("lq", "cq"))

ADMITTED = {
    "QuotaReserved": ("True", "QuotaReserved", "Quota reserved in ClusterQueue cq"),
    "Admitted": ("True", "Admitted", "The workload is admitted"),
}
NO_RESERVATION = ("False", "NoReservation", "The workload has no reservation")


def asking(name: str = "w", **given: Any) -> Workload:
    given.setdefault("cpu", 4)
    return workload(name, queue=given.pop("queue", "lq"), **given)


async def _preempted(on_stage: Play) -> str:
    """A workload is preempted; the message that says so."""
    await on_stage.submit(asking("low", priority=1))
    await on_stage.pass_time(5.0)
    await on_stage.submit(asking("high", priority=7, labels={"kueue.x-k8s.io/job-uid": "job-1"}))
    await on_stage.pass_time(1.0)
    uid = on_stage.get("high")["metadata"]["uid"]
    return (
        f"Preempted to accommodate a workload (UID: {uid}, JobUID: job-1) due to prioritization in the ClusterQueue; "
        "preemptor path: /cq; preemptee path: /cq"
    )


def test_a_preempted_workload_keeps_its_quota_until_its_job_has_stopped() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            message = await _preempted(on_stage)

            assert on_stage.conditions("low") == {
                **ADMITTED,
                "Preempted": ("True", "InClusterQueue", message),
                "Evicted": ("True", "Preempted", message),
            }
            assert on_stage.status("low")["schedulingStats"] == {
                "evictions": [{"reason": "Preempted", "underlyingCause": "", "count": 1}]
            }
            waiting = (
                "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, "
                "4 more needed. Pending the preemption of 1 workload(s)"
            )
            assert on_stage.conditions("high") == {"QuotaReserved": ("False", "Pending", waiting)}

            await on_stage.release("low")

            assert on_stage.conditions("high") == ADMITTED
            assert on_stage.conditions("low")["QuotaReserved"] == ("False", "Pending", message)

    asyncio.run(scenario())


def test_the_events_of_a_preemption_name_both_sides() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            message = await _preempted(on_stage)
            ranks = (
                "preemptor effective priority: 7 (base: 7, boost: 0); "
                "preemptee effective priority: 1 (base: 1, boost: 0)"
            )
            uid = on_stage.get("low")["metadata"]["uid"]

            assert await on_stage.told("low") >= {
                ("Normal", "EvictedDueToPreempted", message),
                ("Normal", "Preempted", f"{message}; {ranks}"),
            }
            assert (
                "Normal",
                "PreemptedWorkload",
                f"Preempted workload default/low (UID: {uid}) in ClusterQueue cq; {ranks}",
            ) in await on_stage.told("high")

    asyncio.run(scenario())


def test_a_preempted_workload_that_comes_back_shows_what_was() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            message = await _preempted(on_stage)
            await on_stage.release("low")
            await on_stage.finish("high")
            await on_stage.pass_time(0.5)

            assert on_stage.conditions("low") == {
                **ADMITTED,
                "Preempted": ("False", "QuotaReserved", f"Previously: {message}"),
                "Evicted": ("False", "QuotaReserved", f"Previously: {message}"),
                "Requeued": ("True", "Preempted", message),
            }
            assert on_stage.status("low")["accumulatedPastExecutionTimeSeconds"] == 6

    asyncio.run(scenario())


def test_quota_that_is_taken_back_carelessly_is_free_all_the_same() -> None:
    """A client that only says `QuotaReserved=False`: the rest is put right with the next admission."""

    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await _preempted(on_stage)
            await on_stage.set_condition("low", "QuotaReserved", "False", "Pending")
            await on_stage.pass_time(10.0)
            assert on_stage.state("high") == "admitted"

            finished = on_stage.now()
            await on_stage.finish("high")
            await on_stage.pass_time(1.0)

            assert on_stage.conditions("low")["QuotaReserved"] == ADMITTED["QuotaReserved"]
            (admitted,) = [one for one in on_stage.status("low")["conditions"] if one["type"] == "Admitted"]
            assert admitted["status"] == "True"
            assert admitted["lastTransitionTime"] >= finished, "it is the time of the second admission"

    asyncio.run(scenario())


def test_the_workload_of_a_single_pod_does_not_come_back() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await _preempted(on_stage)
            await on_stage.release("low", single_pod=True)
            await on_stage.finish("high")
            await on_stage.pass_time(5.0)

            assert on_stage.state("low") == "pending"

    asyncio.run(scenario())


STOPPED = [
    pytest.param(
        cluster_queue("cq", cpu=4, stop="HoldAndDrain"),
        cluster_queue("cq", cpu=4),
        "ClusterQueue",
        "ClusterQueue cq is inactive",
        id="the ClusterQueue",
    ),
    pytest.param(
        local_queue("lq", "cq", stop="HoldAndDrain"),
        local_queue("lq", "cq"),
        "LocalQueue",
        "LocalQueue lq is inactive",
        id="the LocalQueue",
    ),
]


@pytest.mark.parametrize(("stopped", "running", "kind", "blocked"), STOPPED)
def test_a_queue_that_is_drained_takes_its_workloads_back_when_it_runs_again(
    stopped: Any, running: Any, kind: str, blocked: str
) -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking())
            await on_stage.apply(stopped)
            message = f"The {kind} is stopped"

            assert on_stage.conditions("w") == {**ADMITTED, "Evicted": ("True", f"{kind}Stopped", message)}
            assert ("Normal", f"EvictedDueTo{kind}Stopped", message) in await on_stage.told("w")

            await on_stage.release("w")
            await on_stage.pass_time(2.0)

            assert on_stage.conditions("w")["Requeued"] == ("False", f"{kind}Stopped", message)
            assert on_stage.conditions("w")["QuotaReserved"] == ("False", "Inadmissible", blocked)

            await on_stage.apply(running)
            await on_stage.pass_time(1.0)

            assert on_stage.conditions("w") == {
                **ADMITTED,
                "Evicted": ("False", "QuotaReserved", f"Previously: {message}"),
                "Requeued": ("True", f"{kind}Restarted", f"The {kind} was restarted after being stopped"),
            }

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "held",
    [
        pytest.param(cluster_queue("cq", cpu=4, stop="Hold"), id="the ClusterQueue"),
        pytest.param(local_queue("lq", "cq", stop="Hold"), id="the LocalQueue"),
    ],
)
def test_a_queue_that_is_only_held_lets_what_runs_run(held: Any) -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking())
            await on_stage.apply(held)
            await on_stage.pass_time(2.0)

            assert on_stage.conditions("w") == ADMITTED

    asyncio.run(scenario())


DEACTIVATED = ("True", "Deactivated", "The workload is deactivated")


def test_a_workload_that_is_set_inactive_stops_and_comes_back_when_it_is_set_active() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking(), asking("next"))
            await on_stage.set_active("w", active=False)
            await on_stage.pass_time(0.5)

            assert on_stage.conditions("w") == {**ADMITTED, "Evicted": DEACTIVATED}
            assert on_stage.state("next") == "admitted"  # what is inactive takes no quota

            await on_stage.release("w")
            await on_stage.finish("next")
            await on_stage.pass_time(2.0)
            assert on_stage.conditions("w")["Requeued"] == ("False", "Deactivated", "The workload is deactivated")
            assert on_stage.state("w") == "pending"

            await on_stage.set_active("w", active=True)
            await on_stage.pass_time(1.0)

            assert on_stage.conditions("w") == {
                **ADMITTED,
                "Evicted": ("False", "QuotaReserved", "Previously: The workload is deactivated"),
                "Requeued": ("True", "Reactivated", "The workload was reactivated"),
            }

    asyncio.run(scenario())


def test_a_pending_workload_that_is_set_inactive_says_so_without_an_event() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking("holder"), asking())
            await on_stage.set_active("w", active=False)
            await on_stage.pass_time(1.0)

            assert on_stage.conditions("w") == {"Evicted": DEACTIVATED}
            assert await on_stage.told("w") == set()

    asyncio.run(scenario())


def test_a_workload_that_is_created_inactive_waits_to_be_activated() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking(active=False))
            await on_stage.pass_time(1.0)
            assert on_stage.conditions("w") == {"Evicted": DEACTIVATED}

            await on_stage.set_active("w", active=True)
            await on_stage.pass_time(1.0)

            assert on_stage.state("w") == "admitted"

    asyncio.run(scenario())


def test_one_that_others_marked_for_deactivation_is_deactivated() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking())
            await on_stage.set_condition("w", "DeactivationTarget", "True", "SomeCause", "somebody said so")
            message = "The workload is deactivated due to somebody said so"

            assert on_stage.get("w")["spec"]["active"] is False
            assert on_stage.conditions("w") == {**ADMITTED, "Evicted": ("True", "DeactivatedDueToSomeCause", message)}

    asyncio.run(scenario())


def test_the_events_of_deactivations_say_their_cause() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking())
            await on_stage.set_active("w", active=False)
            assert ("Normal", "EvictedDueToDeactivated", "The workload is deactivated") in await on_stage.told("w")

            await on_stage.submit(asking("other"))
            await on_stage.set_condition("other", "DeactivationTarget", "True", "SomeCause", "somebody said so")
            message = "The workload is deactivated due to somebody said so"
            assert ("Normal", "EvictedDueToDeactivatedDueToSomeCause", message) in await on_stage.told("other")

    asyncio.run(scenario())


# Evictions that other controllers ask for


def _ask(on_stage: Play, reason: str, *, cause: str = "", message: str = "") -> None:
    at = on_stage.clock.now().timestamp()
    on_stage.queueing.tell(EvictionRequested(at=at, key="default/w", reason=reason, cause=cause, message=message))


PATIENT = Configuration(wait_for_pods_ready=WaitForPodsReady(backoff_base_seconds=10.0, backoff_limit=1))


def test_pods_that_are_not_ready_in_time_cost_a_wait_that_is_remembered() -> None:
    async def scenario() -> None:
        async with play(*QUEUES, configuration=PATIENT) as on_stage:
            await on_stage.submit(asking())
            _ask(on_stage, "PodsReadyTimeout", cause="WaitForStart")
            await on_stage.rest()
            message = "Exceeded the PodsReady timeout default/w"

            assert on_stage.conditions("w") == {**ADMITTED, "Evicted": ("True", "PodsReadyTimeout", message)}
            status = on_stage.status("w")
            assert status["requeueState"] == {"count": 1, "requeueAt": "2026-01-01T00:00:10Z"}
            assert status["schedulingStats"] == {
                "evictions": [{"reason": "PodsReadyTimeout", "underlyingCause": "WaitForStart", "count": 1}]
            }
            assert ("Normal", "EvictedDueToPodsReadyTimeout", message) in await on_stage.told("w")

            await on_stage.release("w")
            await on_stage.pass_time(9.0)
            assert on_stage.conditions("w")["Requeued"] == ("False", "PodsReadyTimeout", message)
            assert on_stage.state("w") == "pending"

            await on_stage.pass_time(1.5)

            assert on_stage.conditions("w") == {
                **ADMITTED,
                "Evicted": ("False", "QuotaReserved", f"Previously: {message}"),
                "Requeued": ("True", "BackoffFinished", "The workload backoff was finished"),
            }
            assert on_stage.status("w")["requeueState"] == {"count": 1}

    asyncio.run(scenario())


def test_one_that_was_requeued_too_often_is_deactivated_in_three_steps() -> None:
    async def scenario() -> None:
        async with play(*QUEUES, configuration=PATIENT) as on_stage:
            await on_stage.submit(asking())
            _ask(on_stage, "PodsReadyTimeout", cause="WaitForStart")
            await on_stage.rest()
            await on_stage.release("w")
            await on_stage.pass_time(12.0)
            before = on_stage.api.store.revision
            _ask(on_stage, "PodsReadyTimeout", cause="WaitForStart")
            await on_stage.rest()

            message = "The workload is deactivated due to exceeding the maximum number of re-queuing retries"
            assert on_stage.conditions("w")["Evicted"] == ("True", "DeactivatedDueToRequeuingLimitExceeded", message)
            assert "DeactivationTarget" not in on_stage.conditions("w")
            assert on_stage.get("w")["spec"]["active"] is False
            assert "requeueState" not in on_stage.status("w")
            assert on_stage.api.store.revision - before == 3
            assert on_stage.status("w")["schedulingStats"]["evictions"][-1] == {
                "reason": "Deactivated",
                "underlyingCause": "RequeuingLimitExceeded",
                "count": 1,
            }

    asyncio.run(scenario())


def test_one_that_ran_too_long_is_deactivated_and_its_time_is_forgotten() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking())
            await on_stage.change("w", {"accumulatedPastExecutionTimeSeconds": 5})
            _ask(
                on_stage,
                "Deactivated",
                cause="MaximumExecutionTimeExceeded",
                message="exceeding the maximum execution time",
            )
            await on_stage.rest()

            message = "The workload is deactivated due to exceeding the maximum execution time"
            reason = "DeactivatedDueToMaximumExecutionTimeExceeded"
            assert on_stage.conditions("w")["Evicted"] == ("True", reason, message)
            assert "accumulatedPastExecutionTimeSeconds" not in on_stage.status("w")

    asyncio.run(scenario())


def test_a_failed_node_sends_its_workload_back_to_the_queue() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking())
            _ask(on_stage, "NodeFailures", message="node n is gone")
            await on_stage.rest()
            assert on_stage.conditions("w")["Evicted"] == ("True", "NodeFailures", "node n is gone")

            await on_stage.release("w")
            await on_stage.pass_time(0.5)

            assert on_stage.state("w") == "admitted"
            assert on_stage.conditions("w")["Requeued"] == ("True", "NodeFailures", "node n is gone")

    asyncio.run(scenario())


def test_what_somebody_else_evicts_counts_as_well() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking())
            await on_stage.submit(asking("next", priority=1, cpu=1))
            await on_stage.set_condition("w", "Evicted", "True", "Preempted", "by hand")
            await on_stage.pass_time(0.5)
            assert on_stage.state("next") == "pending"  # the job still runs

            await on_stage.release("w")
            await on_stage.pass_time(0.5)

            assert on_stage.states() == {"next": "admitted", "w": "pending"}

    asyncio.run(scenario())


def test_what_somebody_else_admits_counts_as_well() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking("holder"), asking())
            await on_stage.finish("holder")
            admission = on_stage.status("holder")["admission"]
            reserved = {"type": "QuotaReserved", "status": "True", "reason": "ByHand", "message": ""}
            given = [{**reserved, "lastTransitionTime": on_stage.now()}]
            await on_stage.change("w", {"admission": admission, "conditions": given})
            await on_stage.submit(asking("next", cpu=1))
            await on_stage.pass_time(0.5)

            assert on_stage.states() == {"holder": "finished", "next": "pending", "w": "admitted"}

    asyncio.run(scenario())


def test_one_that_is_deactivated_and_activated_before_anybody_sees_it_runs_on() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking())
            await asyncio.gather(
                on_stage.api.patch("workloads", "w", {"spec": {"active": False}}),
                on_stage.api.patch("workloads", "w", {"spec": {"active": True}}),
            )
            await on_stage.pass_time(1.0)

            assert on_stage.conditions("w") == ADMITTED

    asyncio.run(scenario())
