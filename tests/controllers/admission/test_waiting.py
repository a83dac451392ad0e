"""Why Workloads wait, as the API tells it: positions, amounts, owners, holders, and who may know of whom."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from fairway.apis.kueue.objects import Workload
from fairway.apis.machinery.kind import Manifest
from fairway.controllers.admission.waiting import MayRead
from fairway.testing.builders import cluster_queue, flavor, local_queue, pod_set, workload

from .plays import NAMESPACE, Play, manifest_of, play

QUEUES = (flavor(), cluster_queue("cq", cpu=9, within="LowerPriority"), local_queue("lq", "cq"))
JOB: Manifest = {"spec": {"tasks": [{"run": "true"}]}}


def anything(_namespace: str) -> bool:
    return True


def asking(name: str, cpu: int | str, **given: Any) -> Workload:
    return workload(name, queue="lq", cpu=cpu, **given)


async def owned(on_stage: Play, made: Workload, namespace: str = NAMESPACE, **spec: Any) -> None:
    """A Workload of a ManagedJob of the same name."""
    job = {"metadata": {"name": made.name, "namespace": namespace}, "spec": {**JOB["spec"], **spec}}
    stored = await on_stage.api.create("managedjobs", job, namespace)
    manifest = manifest_of(made)
    manifest["metadata"]["namespace"] = namespace
    manifest["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "fairway.dev/v1alpha1",
            "kind": "ManagedJob",
            "name": made.name,
            "uid": stored["metadata"]["uid"],
            "controller": True,
        }
    ]
    await on_stage.api.create("workloads", manifest, namespace)
    await on_stage.rest()


async def one(on_stage: Play, name: str, may_read: MayRead = anything) -> Manifest:
    found = await on_stage.waiting.one(NAMESPACE, name, may_read)
    assert found is not None
    return found


def test_everyone_who_waits_in_the_order_of_the_queue() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await owned(on_stage, asking("runs", 6, priority=10))
            await owned(on_stage, asking("later", 6))
            await owned(on_stage, asking("first", 6, priority=5))
            await on_stage.pass_time(1)
            await on_stage.submit(asking("never", 12))

            items = (await on_stage.waiting.page()).items
            assert [(item["metadata"]["name"], item["position"]) for item in items] == [
                ("first", 1),
                ("later", 2),
                ("never", 3),
            ]
            assert items[0] == {
                "metadata": {
                    "name": "first",
                    "namespace": NAMESPACE,
                    "creationTimestamp": on_stage.get("first")["metadata"]["creationTimestamp"],
                },
                "owner": {"kind": "ManagedJob", "name": "first"},
                "clusterQueue": "cq",
                "localQueue": "lq",
                "position": 1,
                "localPosition": 1,
                "priority": 5,
                "outcome": "PreemptionNoCandidates",
                "message": "needs 6 CPUs, 3 free in default",
                "canEverRun": True,
            }
            assert (items[2]["owner"], items[2]["canEverRun"]) == (None, False)

    asyncio.run(scenario())


def test_one_that_has_its_quota_and_waits_for_a_node_waits() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await owned(on_stage, asking("runs", 6))
            told = {"type": "WaitingForNode", "status": "True", "reason": "Unschedulable", "message": "no room"}
            told["lastTransitionTime"] = "2026-01-01T00:00:00Z"
            conditions = [*on_stage.get("runs")["status"]["conditions"], told]
            patch = {"status": {"conditions": conditions}}
            await on_stage.api.patch("workloads", "runs", patch, namespace=NAMESPACE, subresource="status")
            await on_stage.rest()

            (item,) = (await on_stage.waiting.page()).items
            assert (item["outcome"], item["canEverRun"]) == ("WaitingForNode", True)
            assert item["message"] == "has its quota and waits for a node: no room"
            assert "when a node has room" in (await one(on_stage, "runs"))["hints"][0]

    asyncio.run(scenario())


def test_amounts_are_those_of_now_even_if_nobody_was_tried_again() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking("a", 4, priority=9), asking("b", 4, priority=9), asking("w", 8))
            (before,) = (await on_stage.waiting.page()).items
            await on_stage.finish("a")
            await on_stage.pass_time(1)
            (after,) = (await on_stage.waiting.page()).items

            assert before["message"] == "needs 8 CPUs, 1 free in default"
            assert after["message"] == "needs 8 CPUs, 5 free in default"
            assert (await one(on_stage, "w"))["message"] == after["message"]

    asyncio.run(scenario())


def test_all_about_one() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await owned(on_stage, asking("train-1", 6, priority=100))
            await owned(on_stage, asking("train-2", 5, priority=7))
            await owned(on_stage, asking("train-3", 6))

            found = await one(on_stage, "train-3")
            assert (found["position"], found["priority"], found["canEverRun"]) == (2, 0, True)
            assert found["ahead"] == [
                {
                    "workload": "default/train-2",
                    "owner": {"kind": "ManagedJob", "name": "train-2"},
                    "shown": "job train-2",
                    "priority": 7,
                }
            ]
            assert found["shortages"] == [
                {
                    "podSet": "main",
                    "flavor": "default",
                    "resource": "cpu",
                    "missing": "3",
                    "requested": "6",
                    "holders": [
                        {
                            "workload": "default/train-1",
                            "owner": {"kind": "ManagedJob", "name": "train-1"},
                            "shown": "job train-1",
                            "clusterQueue": "cq",
                            "priority": 100,
                            "amount": "6",
                            "evicting": False,
                        }
                    ],
                }
            ]
            assert found["obstacles"] == [
                {
                    "podSet": "main",
                    "flavor": "default",
                    "resource": "cpu",
                    "code": "InsufficientUnused",
                    "message": "needs 6 CPUs, 3 free in default",
                }
            ]
            assert found["hints"] == [
                "would have room, unless another job takes it first, when job train-1 (6 CPUs, priority 100) ends",
                (
                    "raise the priority above 100 to preempt job train-1 (6 CPUs, priority 100), "
                    "with `fairway jobs priority train-3 101`"
                ),
            ]

    asyncio.run(scenario())


def test_those_of_other_teams_are_told_of_without_their_names() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.api.create("namespaces", {"metadata": {"name": "team-b"}})
            there = manifest_of(local_queue("lq", "cq"))
            there["metadata"]["namespace"] = "team-b"
            await on_stage.api.create("localqueues", there, "team-b")
            await owned(on_stage, asking("secret-plan", 6, priority=100), "team-b")
            await owned(on_stage, asking("next-plan", 6, priority=50), "team-b")
            await owned(on_stage, asking("mine", 6))

            mine = await one(on_stage, "mine", lambda namespace: namespace == NAMESPACE)
            assert "plan" not in msgspec.json.encode(mine).decode()
            assert mine["ahead"] == [
                {"workload": None, "owner": None, "shown": "a job of another team", "priority": 50}
            ]
            (shortage,) = mine["shortages"]
            assert shortage["holders"][0]["shown"] == "a job of another team"
            assert mine["hints"][0].endswith("when a job of another team (6 CPUs, priority 100) ends")
            theirs = (await one(on_stage, "mine"))["hints"][0]
            assert theirs.endswith("when job secret-plan of namespace team-b (6 CPUs, priority 100) ends")

            assert [item["metadata"]["name"] for item in (await on_stage.waiting.page(NAMESPACE)).items] == ["mine"]
            assert [item["metadata"]["name"] for item in (await on_stage.waiting.page("team-b")).items] == ["next-plan"]

    asyncio.run(scenario())


def test_one_who_is_being_evicted_is_shown_so() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking("low", 9), asking("high", 9, priority=1))

            found = await one(on_stage, "high")
            (holder,) = found["shortages"][0]["holders"]
            assert (holder["shown"], holder["evicting"]) == ("workload low", True)
            assert found["message"].endswith("1 job is being preempted for it")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "prepare",
    [
        pytest.param(lambda _on_stage: None, id="it is admitted"),
        pytest.param(lambda on_stage: on_stage.finish("w"), id="it has ended"),
    ],
)
def test_who_does_not_wait_is_not_there(prepare: Callable[[Play], Any]) -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking("w", 1))
            if (doing := prepare(on_stage)) is not None:
                await doing
            assert await on_stage.waiting.one(NAMESPACE, "w", anything) is None
            assert await on_stage.waiting.one(NAMESPACE, "nobody", anything) is None
            assert (await on_stage.waiting.page()).items == []

    asyncio.run(scenario())


def test_who_is_in_no_queue_has_no_position() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await owned(on_stage, asking("held", 10), hold=True)
            await on_stage.set_active("held", active=False)
            await on_stage.submit(workload("lost", queue="nowhere", cpu=1))

            items = {item["metadata"]["name"]: item for item in (await on_stage.waiting.page()).items}
            assert {name: (item["position"], item["outcome"]) for name, item in items.items()} == {
                "held": (None, "Deactivated"),
                "lost": (None, "LocalQueueMissing"),
            }
            assert (await one(on_stage, "held"))["hints"][0] == (
                "the job is held: `fairway jobs release held` queues it again"
            )

    asyncio.run(scenario())


def test_why_a_queue_admits_nothing() -> None:
    async def scenario() -> None:
        async with play(flavor(), cluster_queue("cq", cpu=4, stop="Hold"), local_queue("lq", "cq")) as on_stage:
            await on_stage.submit(asking("w", 1))

            found = await one(on_stage, "w")
            assert found["message"] == "ClusterQueue cq is inactive"
            assert found["hints"] == ["ClusterQueue cq: Can't admit new workloads: is stopped."]

    asyncio.run(scenario())


def test_two_thousand_are_listed_in_a_moment() -> None:
    async def scenario() -> None:
        async with play(*QUEUES) as on_stage:
            await on_stage.submit(asking("runs", 9, priority=9))
            manifest = manifest_of(workload("w", pod_set(cpu=1), queue="lq"))
            for number in range(2000):
                one_more = msgspec.json.decode(msgspec.json.encode(manifest))
                one_more["metadata"]["name"] = f"w{number}"
                one_more["spec"]["priority"] = number % 9
                await on_stage.api.create("workloads", one_more, trusted=True)
            await on_stage.rest()

            items = (await on_stage.waiting.page()).items
            took = []
            for _ in range(3):
                began = time.thread_time()  # of the processor: others may have it meanwhile
                await on_stage.waiting.page()
                took.append(time.thread_time() - began)
            assert len(items) == 2000
            assert {item["message"] for item in items} == {"needs 1 CPU, 0 free in default"}
            assert min(took) < 0.5, took

    asyncio.run(scenario())
