"""A definition reports in its status, by an event and in a metric how the objects differ from it."""

import asyncio
from collections.abc import Callable
from typing import Any

import yaml

from fairway.apis.fairway.quotas import parse
from fairway.apis.machinery.conditions import find
from fairway.client.recorder import Recorder
from fairway.controllers.quota import QuotaDrift
from fairway.quota.kueue import namespaces, render
from fairway.quota.yunikorn import render as queues
from fairway.server.metrics import exposition
from fairway.testing.clusters import LocalCluster, local_cluster
from quota.definitions import example

DEFINITIONS = "quotadefinitions.fairway.dev"
QUEUES = "clusterqueues.kueue.x-k8s.io"
RESOURCES = {
    "AdmissionCheck": "admissionchecks.kueue.x-k8s.io",
    "Cohort": "cohorts.kueue.x-k8s.io",
    "ClusterQueue": QUEUES,
    "LocalQueue": "localqueues.kueue.x-k8s.io",
    "Namespace": "namespaces",
}


def synced(world: LocalCluster) -> tuple[str, str, int]:
    found = world.cluster.cache(DEFINITIONS).get("", "company") or {}
    condition = find(found, "Synced") or {}
    return condition.get("status", ""), condition.get("reason", ""), (found.get("status") or {}).get("drifted", -1)


async def eventually(world: LocalCluster, condition: Callable[[], bool]) -> None:
    """Let time pass until something holds."""
    async with asyncio.timeout(60):
        while not condition():
            world.clock.advance(0.05)
            await asyncio.sleep(0.001)


async def create(world: LocalCluster, spec: dict[str, Any]) -> None:
    for one in render(parse(spec)[0], "company"):
        await world.api.create(RESOURCES[one["kind"]], one, namespace=one["metadata"].get("namespace", ""))


def test_drift_is_reported_while_it_lasts() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            recorder = Recorder(world.cluster, "fairway")
            controller = QuotaDrift(world.cluster, recorder)
            async with world.running(controller):
                await world.api.create(DEFINITIONS, {"metadata": {"name": "company"}, "spec": example()})
                await eventually(world, lambda: synced(world) == ("False", "Drifted", 16))
                await create(world, example())
                await eventually(world, lambda: synced(world) == ("True", "InSync", 0))

                await world.api.patch(QUEUES, "vision", {"spec": {"stopPolicy": "Hold"}})
                await eventually(world, lambda: synced(world) == ("False", "Drifted", 1))
                status = world.seen(DEFINITIONS, name="company", namespace="")["status"]
                assert status["drift"] == [
                    {"action": "update", "kind": "ClusterQueue", "name": "vision", "fields": ["spec.stopPolicy"]}
                ]
                lines = exposition([controller]).decode()
                assert 'fairway_quota_drift_objects{definition="company",kind="ClusterQueue"} 1.0' in lines
                assert 'fairway_quota_objects{definition="company"} 16.0' in lines
                labels = 'cluster_queue="vision",definition="company",organization="ml",team="vision"'
                assert f"fairway_quota_cluster_queue_info{{{labels}}} 1.0" in lines

                await world.api.patch(QUEUES, "vision", {"spec": {"stopPolicy": "None"}})
                await eventually(world, lambda: synced(world) == ("True", "InSync", 0))
                await recorder.flush()

    asyncio.run(story())


def test_what_is_no_longer_defined_is_drift_until_it_is_gone() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            controller = QuotaDrift(world.cluster, Recorder(world.cluster, "fairway"))
            await create(world, example())
            async with world.running(controller):
                spec = example()
                spec["organizations"][1]["types"] = ["default"]
                await world.api.create(DEFINITIONS, {"metadata": {"name": "company"}, "spec": spec})
                await eventually(world, lambda: synced(world) == ("False", "Drifted", 1))
                await world.api.delete("localqueues.kueue.x-k8s.io", "spark", namespace="data")
                await eventually(world, lambda: synced(world) == ("True", "InSync", 0))

    asyncio.run(story())


def test_yunikorns_configuration_is_compared_queue_by_queue() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            controller = QuotaDrift(world.cluster, Recorder(world.cluster, "fairway"))
            async with world.running(controller):
                spec = {**example(), "targets": ["yunikorn"]}
                await world.api.create(DEFINITIONS, {"metadata": {"name": "company"}, "spec": spec})
                await eventually(world, lambda: synced(world)[1] == "Drifted")
                text = yaml.safe_dump(queues(parse(spec)[0]))
                for home in (*namespaces(parse(spec)[0], "company"), {"metadata": {"name": "yunikorn"}}):
                    await world.api.create("namespaces", home)
                place = {"name": "yunikorn-configs", "namespace": "yunikorn"}
                await world.api.create(
                    "configmaps", {"metadata": place, "data": {"queues.yaml": text}}, namespace="yunikorn"
                )
                await eventually(world, lambda: synced(world) == ("True", "InSync", 0))
                edited = text.replace("3000m", "4000m")
                await world.api.patch(
                    "configmaps", "yunikorn-configs", {"data": {"queues.yaml": edited}}, namespace="yunikorn"
                )
                await eventually(world, lambda: synced(world) == ("False", "Drifted", 1))
                config = queues(parse(spec)[0])
                config["partitions"][0]["nodesortpolicy"] = {"type": "binpacking"}
                changed = {"data": {"queues.yaml": yaml.safe_dump(config)}}
                await world.api.patch("configmaps", "yunikorn-configs", changed, namespace="yunikorn")
                one = 'fairway_quota_drift_objects{definition="company",kind="Partition"} 1.0'
                await eventually(world, lambda: one in exposition([controller]).decode())

    asyncio.run(story())
