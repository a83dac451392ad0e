"""Pods that are made with their node: nothing is given away twice, nothing is kept for who never came."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from controllers import timeline
from fairway.apis.machinery.admission import ALLOWED, AdmissionChain, AdmissionRequest, AdmissionResponse
from fairway.apis.machinery.kind import Manifest
from fairway.client.recorder import Recorder
from fairway.controllers.batchjob import JobController
from fairway.controllers.kit.capacity import demand_of, demand_of_new, worked_out
from fairway.controllers.scheduler import Scheduler
from fairway.errors import FieldError
from fairway.testing.clusters import LocalCluster, local_cluster
from fairway.testing.stores import local_api

from .things import node, pod, pod_spec


class Gating:
    """Gates every pod, as the queue does with its own."""

    resources = ("pods",)

    def admit(self, request: AdmissionRequest) -> AdmissionResponse:
        if request.old is None:
            request.object["spec"]["schedulingGates"] = [{"name": "wait"}]
        return ALLOWED


class Refusing:
    """Lets no pod be created."""

    resources = ("pods",)

    def admit(self, request: AdmissionRequest) -> AdmissionResponse:
        wrong = FieldError("spec", None, "FieldValueInvalid", "there are enough pods")
        return AdmissionResponse([wrong] if request.old is None else [])


def job(name: str, cpu: str = "1", **spec: Any) -> Manifest:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"template": {"spec": pod_spec({"cpu": cpu})}, **spec},
    }


@asynccontextmanager
async def working(*nodes: Manifest) -> AsyncIterator[tuple[LocalCluster, Scheduler]]:
    """A cluster with these nodes, a scheduler, and the controller of jobs that asks it for places."""
    async with local_cluster() as local:
        recorder = Recorder(local.cluster, "fairway")
        scheduler = Scheduler(local.cluster, recorder)
        async with local.running(scheduler, JobController(local.cluster, recorder, scheduler), recorder):
            await timeline.create(local, nodes=list(nodes))
            yield local, scheduler


def pods(local: LocalCluster, owner: str) -> list[Manifest]:
    found = [local.api.get("pods", name) for name in sorted(local.api.names("pods"))]
    return [one for one in found if one and one["metadata"]["labels"].get("job-name") == owner]


def nodes_of(local: LocalCluster, owner: str) -> list[str | None]:
    return [one["spec"].get("nodeName") for one in pods(local, owner)]


async def end(local: LocalCluster, owner: str) -> None:
    for one in pods(local, owner):
        await local.api.patch("pods", one["metadata"]["name"], {"status": {"phase": "Succeeded"}}, subresource="status")
    await timeline.catch_up(local)


def test_the_pod_of_a_job_is_made_with_its_node_in_one_write() -> None:
    async def story() -> None:
        async with working(node()) as (local, _):
            await timeline.create(local, jobs=job("train"))
            [made] = pods(local, "train")
            assert made["spec"]["nodeName"] == "n1"
            assert made["metadata"]["generation"] == 1  # it was never changed

            await timeline.pass_time(local, 0.5)
            [told] = local.events("Scheduled")
            name = made["metadata"]["name"]
            assert told["involvedObject"]["name"] == name
            assert told["message"] == f"Successfully assigned default/{name} to n1"

    asyncio.run(story())


def test_pods_for_whom_there_is_no_room_wait_and_get_it_when_there_is() -> None:
    async def story() -> None:
        async with working(node()) as (local, _):
            await timeline.create(local, jobs=job("wide", "1.5", parallelism=3, completions=3))
            assert sorted(nodes_of(local, "wide"), key=str) == [None, "n1", "n1"]
            await timeline.create(local, jobs=job("small", "1"))
            assert nodes_of(local, "small") == ["n1"]  # overtakes nobody who could go

            await end(local, "small")
            assert None in nodes_of(local, "wide")
            for one in pods(local, "wide"):
                if one["spec"].get("nodeName"):
                    await local.api.delete("pods", one["metadata"]["name"], grace_seconds=0)
                    break
            await timeline.catch_up(local)
            assert nodes_of(local, "wide").count("n1") == 2

    asyncio.run(story())


def test_the_place_of_a_pod_that_ended_is_free_again() -> None:
    async def story() -> None:
        async with working(node()) as (local, _):
            for number in range(5):
                await timeline.create(local, jobs=job(f"j{number}", "4"))
                assert nodes_of(local, f"j{number}") == ["n1"]
                await end(local, f"j{number}")

    asyncio.run(story())


def test_a_pod_that_may_not_be_made_keeps_no_place() -> None:
    async def story() -> None:
        async with working(node()) as (local, scheduler):
            local.api.objects.use_admission(AdmissionChain(Refusing()))
            await timeline.create(local, jobs=job("refused", "4"))
            assert pods(local, "refused") == []

            assert scheduler.reserve("another", pod("p", {"cpu": "4"})) == "n1"
            assert scheduler.reserve("another", pod("q", {"cpu": "1"})) is None
            scheduler.settle("another", "n1", None)
            assert scheduler.reserve("another", pod("q", {"cpu": "1"})) == "n1"

    asyncio.run(story())


def test_a_pod_that_gets_a_gate_on_its_way_is_made_without_a_node() -> None:
    async def story() -> None:
        async with working(node()) as (local, scheduler):
            local.api.objects.use_admission(AdmissionChain(Gating()))
            await timeline.create(local, jobs=job("gated", "4"))
            [made] = pods(local, "gated")
            assert "nodeName" not in made["spec"]
            assert made["spec"]["schedulingGates"] == [{"name": "wait"}]
            assert scheduler.reserve("another", pod("p", {"cpu": "4"})) == "n1"

    asyncio.run(story())


def test_nobody_who_waits_to_be_tried_is_overtaken() -> None:
    async def story() -> None:
        async with working(node()) as (local, scheduler):
            cache = local.cluster.cache("pods")
            asked: list[str | None] = []
            cache.on_change(lambda _old, _new: asked.append(scheduler.reserve("another", pod("p", {"cpu": "1"}))))
            await timeline.create(local, pods=pod("first", {"cpu": "1"}))
            assert asked[0] is None  # it came a moment ago, and has not been tried

    asyncio.run(story())


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"nodeName": "n1"}, id="has a node"),
        pytest.param({"schedulerName": "another"}, id="is another scheduler's"),
        pytest.param({"schedulingGates": [{"name": "wait"}]}, id="is held back"),
        pytest.param({"nodeSelector": {"disk": "ssd"}}, id="fits no node"),
    ],
)
def test_no_place_is_kept_for_a_pod_that_would_not_be_bound(spec: dict[str, Any]) -> None:
    async def story() -> None:
        async with working(node()) as (_, scheduler):
            assert scheduler.reserve("owner", pod("p", {"cpu": "1"}, **spec)) is None

    asyncio.run(story())


SPECS = [
    pod_spec(),
    pod_spec({"cpu": "1", "memory": "1Gi"}),
    pod_spec({"cpu": "1500m"}, nodeSelector={"disk": "ssd"}, tolerations=[{"operator": "Exists"}]),
    {"containers": [{"name": "main", "image": "job", "resources": {"limits": {"cpu": "2", "nvidia.com/gpu": "1"}}}]},
    {
        "containers": [{"name": "main", "image": "job", "ports": [{"containerPort": 80}]}],
        "initContainers": [{"name": "first", "image": "job", "resources": {"limits": {"memory": "3Gi"}}}],
        "hostNetwork": True,
    },
    pod_spec({"cpu": "1"}, resources={"limits": {"cpu": "3"}}),
    {**pod_spec({"cpu": "1"}), "containers": [{"name": "main", "image": "job", "args": ["x" * 20_000]}]},
]


@pytest.mark.parametrize("spec", SPECS)
def test_what_a_pod_will_ask_for_is_known_before_it_is_made(spec: dict[str, Any]) -> None:
    async def story() -> None:
        async with local_api() as api:
            expected = [demand_of_new(spec), demand_of_new(spec)]
            made = await api.create("pods", {"metadata": {"name": "p"}, "spec": spec})
            known = worked_out(made["spec"])
            assert expected == [known, known]
            assert [demand_of(made["spec"]), demand_of(made["spec"])] == [known, known]

    asyncio.run(story())
