"""A RayJob or RayCluster that is stored says in its status and by an event that nothing runs it, once."""

import asyncio
from typing import Any

import pytest

from fairway.client.recorder import Recorder
from fairway.controllers.notrun import NotRunController
from fairway.testing.clusters import LocalCluster, local_cluster

TEMPLATE = {"template": {"spec": {"containers": [{"name": "ray", "image": "ray", "resources": {}}]}}}
CLUSTER: dict[str, Any] = {"headGroupSpec": {"rayStartParams": {}, **TEMPLATE}}


def _status(world: LocalCluster, resource: str) -> Any:
    return (world.cluster.cache(resource).get("default", "train") or {}).get("status")


@pytest.mark.parametrize(
    ("resource", "spec", "conditions"),
    [
        pytest.param("rayclusters.ray.io", CLUSTER, ("conditions",), id="RayCluster"),
        pytest.param(
            "rayjobs.ray.io",
            {"entrypoint": "python train.py", "rayClusterSpec": CLUSTER},
            ("rayClusterStatus", "conditions"),
            id="RayJob",
        ),
    ],
)
def test_an_object_that_is_not_run_says_so_once(
    resource: str, spec: dict[str, Any], conditions: tuple[str, ...]
) -> None:
    async def story() -> None:
        async with local_cluster() as world:
            recorder = Recorder(world.cluster, "fairway")
            controller = NotRunController(world.cluster, recorder)
            place = {"name": "train", "namespace": "default"}
            async with world.running(controller):
                await world.api.create(resource, {"metadata": dict(place), "spec": spec}, namespace="default")
                await world.cluster_says(lambda: bool(_status(world, resource)))
                found = world.seen(resource, **place)
                assert found["status"]["reason"] == "NotRun"
                inner = found["status"]
                for name in conditions:
                    inner = inner[name]
                assert [(one["type"], one["status"]) for one in inner] == [("NotRun", "True")]
                assert "nothing runs it here yet" in inner[0]["message"]
                await recorder.flush()
                (event,) = world.events(reason="NotRun")
                assert event["type"] == "Warning"
                assert event["message"] == inner[0]["message"]

            revision = found["metadata"]["resourceVersion"]
            async with world.running(NotRunController(world.cluster, recorder)):
                assert world.seen(resource, **place)["metadata"]["resourceVersion"] == revision

    asyncio.run(story())
