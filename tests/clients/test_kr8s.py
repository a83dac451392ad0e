"""kr8s, which is asynchronous at heart."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import kr8s
import kr8s.asyncio
import pytest
from kr8s.asyncio.objects import ConfigMap, Job, Pod, new_class

from fairway.server.logs.entries import append
from fairway.server.logs.reading import log_path
from fairway.testing.servers import Server

from .hand import Hand
from .manifests import V1BETA1, V1BETA2, cluster_queue, config, job, local_queue, pod, workload

Story = Callable[[Any], Awaitable[None]]
Tell = Callable[[Story], None]


@asynccontextmanager
async def connected(server: Server, namespace: str) -> AsyncIterator[Any]:
    """kr8s keeps its connections as long as the process lives; here they end with the test."""
    api: Any = await kr8s.asyncio.api(kubeconfig=str(server.kubeconfig), namespace=namespace)
    try:
        yield api
    finally:
        if api._session is not None:
            await api._session.aclose()


@pytest.fixture
def tell(server: Server, namespace: str) -> Tell:
    """Runs a story with a connected client."""

    async def run(story: Story) -> None:
        async with asyncio.timeout(60), connected(server, namespace) as api:
            await story(api)

    return lambda story: asyncio.run(run(story))


def test_pods_are_created_read_changed_and_deleted(tell: Tell, namespace: str) -> None:
    async def story(api: Any) -> None:
        made: Any = await Pod(pod("web", labels={"app": "web"}), namespace=namespace, api=api)
        await made.create()
        assert await made.exists()
        await made.patch({"spec": {"activeDeadlineSeconds": 60}})
        await made.label({"tier": "front"})
        await made.annotate({"note": "x"})

        (found,) = [one async for one in api.get("pods", label_selector={"app": "web", "tier": "front"})]
        assert (found.name, found.spec.activeDeadlineSeconds, found.annotations["note"]) == ("web", 60, "x")
        await found.delete()
        await found.wait("delete", timeout=60)
        assert not await made.exists()
        with pytest.raises(kr8s.NotFoundError):
            await Pod.get("web", namespace=namespace, api=api)

    tell(story)


def test_a_job_is_awaited(tell: Tell, hand: Hand, namespace: str) -> None:
    done = {
        "startTime": "2026-11-16T08:30:00Z",
        "completionTime": "2026-11-16T08:31:00Z",
        "succeeded": 1,
        "conditions": [{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}],
    }

    async def story(api: Any) -> None:
        made: Any = await Job(job("j"), namespace=namespace, api=api)
        await made.create()
        waiting = asyncio.create_task(made.wait("condition=Complete", timeout=60))
        hand.change(job("j"), {"status": done}, "status")
        await waiting
        await made.refresh()
        assert made.status.succeeded == 1

    tell(story)


@pytest.mark.parametrize("version", [V1BETA1, V1BETA2])
def test_kueues_kinds_get_classes_of_their_own(tell: Tell, namespace: str, version: str) -> None:
    cluster_queues: Any = new_class("ClusterQueue", version, namespaced=False)
    queues: Any = new_class("LocalQueue", version)

    async def story(api: Any) -> None:
        shared = await cluster_queues(cluster_queue(namespace) | {"apiVersion": version}, api=api)
        await shared.create()
        mine = await queues(local_queue("mine", namespace) | {"apiVersion": version}, namespace=namespace, api=api)
        await mine.create()
        await shared.patch({"spec": {"stopPolicy": "HoldAndDrain"}}, type="merge")
        await shared.patch({"status": {"pendingWorkloads": 4}}, subresource="status", type="merge")

        await shared.refresh()
        assert (shared.spec.stopPolicy, shared.status.pendingWorkloads) == ("HoldAndDrain", 4)
        assert [one.spec.clusterQueue async for one in api.get(queues)] == [namespace]
        await mine.delete()
        await mine.wait("delete", timeout=60)
        await shared.delete()

    tell(story)


def test_a_watch_sees_every_change(tell: Tell, hand: Hand, namespace: str) -> None:
    hand.make(config("a"))
    steps: list[Callable[[], None]] = [
        lambda: hand.make(config("b")),
        lambda: hand.change(config("a"), {"data": {"x": "1"}}),
        lambda: hand.remove(config("b")),
    ]
    seen = []

    async def story(api: Any) -> None:
        async with aclosing(api.watch("configmaps", namespace=namespace)) as events:
            async for kind, found in events:
                seen.append((kind, found.name))
                if not steps:
                    return
                steps.pop(0)()

    tell(story)

    assert seen == [("ADDED", "a"), ("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]


@pytest.mark.parametrize("called", ["workloads.kueue.x-k8s.io", "workload", "kueueworkload", "wl"])
def test_objects_are_found_by_every_name(tell: Tell, hand: Hand, namespace: str, called: str) -> None:
    hand.make(workload("w"))

    async def story(api: Any) -> None:
        assert [one.name async for one in api.get(called, namespace=namespace)] == ["w"]

    tell(story)


def test_logs_are_read_and_followed(tell: Tell, hand: Hand, namespace: str) -> None:
    manifest = pod("web")
    manifest["spec"]["nodeName"] = "here"
    hand.make(manifest)
    container = {"name": "main", "restartCount": 0, "ready": False, "image": "", "imageID": ""}
    status = {"phase": "Succeeded", "containerStatuses": [{**container, "state": {"terminated": {"exitCode": 0}}}]}
    hand.change(manifest, {"status": status}, "status")
    file = log_path(hand.server.state, namespace, hand.look(manifest)["metadata"]["uid"], "main", 0)
    for line in (b"one", b"two"):
        append(file, 1_794_818_000_000_000_000, "stdout", line)

    async def story(api: Any) -> None:
        found: Any = await Pod.get("web", namespace=namespace, api=api)
        assert [line async for line in found.logs()] == ["one", "two"]
        assert [line async for line in found.logs(tail_lines=1)] == ["two"]
        assert [line async for line in found.logs(follow=True)] == ["one", "two"]

    tell(story)


def test_what_is_refused_says_why(tell: Tell, hand: Hand, namespace: str) -> None:
    hand.make(config("c", {"a": "1"}))

    async def story(api: Any) -> None:
        again: Any = await ConfigMap(config("c"), namespace=namespace, api=api)
        with pytest.raises(kr8s.ServerError, match='configmaps "c" already exists'):
            await again.create()

    tell(story)


def test_the_server_tells_its_version_and_kinds(tell: Tell) -> None:
    async def story(api: Any) -> None:
        assert (await api.version())["major"] == "1"
        assert {"clusterqueues", "workloads", "rayjobs"} <= {kind["name"] for kind in await api.api_resources()}

    tell(story)
