"""The ConfigMap as it is edited, and what a first start leaves behind."""

import asyncio
from typing import Any

from fairway.apis.kueue.configuration import DEFAULT_TEXT, Configuration
from fairway.client.recorder import Recorder
from fairway.controllers.defaults import Defaults
from fairway.controllers.kit.configuration import CurrentConfiguration
from fairway.testing.clusters import LocalCluster, cluster_on, local_cluster

PLACE = {"name": "kueue-manager-config", "namespace": "kueue-system"}
MACHINE = {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "2"}


def config_map(text: str) -> dict[str, Any]:
    return {"metadata": dict(PLACE), "data": {"controller_manager_config.yaml": text}}


async def configure(world: LocalCluster, text: str) -> None:
    await world.api.patch("configmaps", PLACE["name"], config_map(text), namespace=PLACE["namespace"])


def test_an_edit_is_in_force_at_once_and_a_wrong_one_changes_nothing() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            recorder = Recorder(world.cluster, "kueue")
            current = CurrentConfiguration(world.cluster, recorder)
            heard: list[Configuration] = []
            current.on_change(heard.append)
            async with world.running():
                await world.api.create("namespaces", {"metadata": {"name": "kueue-system"}})
                await world.api.create("configmaps", config_map(DEFAULT_TEXT), namespace="kueue-system")
                await configure(world, DEFAULT_TEXT.replace("  - pod\n", ""))
                await world.cluster_says(lambda: "pod" not in current.value.frameworks)
                await configure(world, "integrations: [")
                await world.cluster_says(lambda: "integrations: [" in str(world.seen("configmaps", **PLACE)["data"]))
                await configure(world, DEFAULT_TEXT)
                await world.cluster_says(lambda: "pod" in current.value.frameworks)
                await recorder.flush()
                (event,) = world.events(reason="InvalidConfiguration")
                assert "not valid YAML" in event["message"]
                await world.api.delete("configmaps", PLACE["name"], namespace=PLACE["namespace"])
        assert [("pod" in one.frameworks) for one in heard] == [False, True]

    asyncio.run(story())


def test_a_first_start_leaves_queues_with_what_the_machine_has() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            await start(world, MACHINE)
            queue = world.api.get("clusterqueues", "cluster-queue")
            assert queue is not None
            (group,) = queue["spec"]["resourceGroups"]
            assert group["coveredResources"] == ["cpu", "memory", "nvidia.com/gpu"]
            assert group["flavors"] == [
                {
                    "name": "default-flavor",
                    "resources": [{"name": name, "nominalQuota": amount} for name, amount in MACHINE.items()],
                }
            ]
            assert world.api.get("resourceflavors", "default-flavor") is not None
            local = world.api.get("localqueues", "default")
            assert local is not None
            assert local["spec"]["clusterQueue"] == "cluster-queue"
            assert world.api.get("configmaps", PLACE["name"], "kueue-system") is not None

    asyncio.run(story())


def test_queues_that_are_still_as_they_were_made_follow_the_machine() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            await start(world, MACHINE)
            await start(world, {**MACHINE, "cpu": "4"})
            assert quota(world) == "4"
            await start(world, MACHINE)
            assert quota(world) == "8"

    asyncio.run(story())


def test_what_was_changed_or_deleted_stays_so() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            await start(world, MACHINE)
            await world.api.patch("clusterqueues", "cluster-queue", {"spec": {"queueingStrategy": "StrictFIFO"}})
            await world.api.delete("localqueues", "default")
            await start(world, {**MACHINE, "cpu": "4"})
            assert quota(world) == "8"
            assert world.api.get("localqueues", "default") is None

    asyncio.run(story())


def test_what_was_there_before_is_left_alone() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            mine = {"metadata": {"name": "cluster-queue"}, "spec": {"cohortName": "mine"}}
            await world.api.create("clusterqueues", mine)
            await start(world, MACHINE)
            await start(world, {**MACHINE, "cpu": "4"})
            queue = world.api.get("clusterqueues", "cluster-queue")
            assert queue is not None
            assert "resourceGroups" not in queue["spec"]

    asyncio.run(story())


def test_a_first_start_that_was_cut_short_is_brought_to_its_end() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            await start(world, MACHINE)
            await world.api.delete("configmaps", "fairway-defaults", namespace="kueue-system")
            await world.api.delete("localqueues", "default")
            await start(world, MACHINE)
            assert world.api.get("localqueues", "default") is not None
            await start(world, {**MACHINE, "cpu": "4"})
            assert quota(world) == "4"

    asyncio.run(story())


async def start(world: LocalCluster, capacity: dict[str, str], models: dict[str, int] | None = None) -> None:
    cluster = cluster_on(world.api, world.clock)
    defaults = Defaults(cluster, dict(capacity), models)
    caches = asyncio.create_task(cluster.run())
    await cluster.synced()
    await defaults.ensure()
    caches.cancel()
    await asyncio.gather(caches, return_exceptions=True)


def quota(world: LocalCluster) -> str:
    queue = world.api.get("clusterqueues", "cluster-queue")
    assert queue is not None
    resources = queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
    return str(resources[0]["nominalQuota"])


def test_several_models_of_gpus_are_several_flavors_and_follow_the_machine() -> None:
    def gpu_quotas(world: LocalCluster) -> dict[str, str]:
        queue = world.api.get("clusterqueues", "cluster-queue")
        assert queue is not None
        return {
            flavor["name"]: resource["nominalQuota"]
            for group in queue["spec"]["resourceGroups"]
            for flavor in group["flavors"]
            for resource in flavor["resources"]
            if resource["name"] == "nvidia.com/gpu"
        }

    async def story() -> None:
        async with local_cluster() as world:
            await start(world, MACHINE, {"v100": 4, "t4": 2})
            assert gpu_quotas(world) == {"v100": "4", "t4": "2"}
            flavor = world.api.get("resourceflavors", "t4")
            assert flavor is not None
            assert flavor["spec"]["nodeLabels"] == {"skypilot.co/accelerator": "t4"}
            await start(world, MACHINE, {"v100": 4, "l4": 1})
            assert gpu_quotas(world) == {"v100": "4", "l4": "1"}
            assert world.api.get("resourceflavors", "l4") is not None
            await start(world, MACHINE)
            assert gpu_quotas(world) == {"default-flavor": "2"}

    asyncio.run(story())
