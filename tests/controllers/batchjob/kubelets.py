"""A world in which the job controller works and a test plays the kubelet."""

import copy
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from fairway.apis.machinery.conditions import is_true_in
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.timestamps import stamp
from fairway.client.recorder import Recorder
from fairway.controllers.batchjob import JobController
from fairway.store.entries import Change
from fairway.store.verbs import PatchType, WriteOptions, WriteTarget, when_durable
from fairway.testing.clusters import LocalCluster, cluster_on, local_cluster
from fairway.testing.stores import LocalApi, OpenLog

from .things import TEMPLATE


@dataclass
class World:
    """The API, with the writes to it, and hands to play pods."""

    cluster: LocalCluster
    recorder: Recorder
    changes: list[tuple[str, str]] = field(default_factory=list)
    """Every change, by resource and name."""

    @property
    def api(self) -> LocalApi:
        return self.cluster.api

    async def submit(self, name: str = "job", **spec: Any) -> Manifest:
        manifest: Manifest = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"template": TEMPLATE, **spec},
        }
        return await self.api.create("jobs", copy.deepcopy(manifest))

    def pods(self, job: str = "job") -> list[Manifest]:
        found = [self.api.get("pods", name) for name in sorted(self.api.names("pods"))]
        return [pod for pod in found if pod and (pod["metadata"].get("labels") or {}).get("job-name") == job]

    def names(self, *phases: str, job: str = "job") -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods(job) if not phases or pod["status"]["phase"] in phases]

    def status(self, job: str = "job") -> dict[str, Any]:
        found = self.api.get("jobs", job)
        return dict(found["status"]) if found else {}

    def says(self, kind: str, job: str = "job") -> bool:
        return is_true_in(self.status(job), kind)

    async def until(self, condition: Callable[[], bool]) -> None:
        await self.cluster.until(condition)

    async def until_pods(self, count: int, *phases: str, job: str = "job") -> list[str]:
        await self.until(lambda: len(self.names(*phases, job=job)) == count)
        return self.names(*phases, job=job)

    async def start(self, name: str, **status: Any) -> None:
        """A pod gets a node and runs."""
        await self.api.objects.bind(self.api.kind("pods"), ("default", name), "node")
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": stamp(self.cluster.clock.now())}
        await self._patch(name, {"phase": "Running", "conditions": [ready], **status})

    async def end(self, name: str, exit_code: int = 0, **status: Any) -> None:
        """The process of a pod ends."""
        await self._patch(name, {**self._ended(exit_code), **status})

    def stage_end(self, name: str) -> Awaitable[object]:
        """The process of a pod ends well: decided, and not told to anybody before this goes on to wait."""
        kind = self.api.kind("pods")
        target = WriteTarget(kind, kind.stored, ("default", name), WriteOptions(), "status")
        written = self.api.objects.stage_patch(target, PatchType.MERGE, {"status": self._ended(0)})
        return when_durable(written)

    def _ended(self, exit_code: int) -> dict[str, Any]:
        terminated = {"exitCode": exit_code, "finishedAt": stamp(self.cluster.clock.now())}
        container = {"name": "main", "image": "job", "imageID": "", "ready": False, "restartCount": 0}
        ended = {"containerStatuses": [{**container, "state": {"terminated": terminated}}], "conditions": []}
        return {"phase": "Failed" if exit_code else "Succeeded", **ended}

    async def remove(self, name: str) -> None:
        """A pod that was told to go has ended, and goes."""
        await self.api.delete("pods", name, grace_seconds=0)

    async def nothing_else_happens(self) -> None:
        """Let everything that is under way come to its end: another job gets its pod only after it."""
        name = f"marker-{len(self.changes)}"
        await self.submit(name)
        await self.until_pods(1, job=name)

    async def events(self, job: str = "job") -> list[tuple[str, str, str]]:
        """What was told about a job: type, reason and message, in order."""
        await self.recorder.flush()
        found = [self.api.get("events", name) for name in self.api.names("events")]
        about = [event for event in found if event and event["involvedObject"]["name"] == job]
        about.sort(key=lambda event: int(event["metadata"]["resourceVersion"]))
        return [(event["type"], event["reason"], event["message"]) for event in about]

    def writes(self, resource: str, name: str) -> int:
        return self.changes.count((resource, name))

    async def _patch(self, name: str, status: dict[str, Any]) -> None:
        await self.api.patch("pods", name, {"status": status}, subresource="status")


@asynccontextmanager
async def a_world(open_log: OpenLog | None = None) -> AsyncIterator[World]:
    """Nothing works yet."""
    async with local_cluster(open_log) as cluster:
        world = World(cluster, Recorder(cluster.cluster, "job-controller"))

        def note(change: Change) -> None:
            world.changes.append((change.entry.resource, change.entry.name))

        cluster.api.store.observe(note)
        yield world


@asynccontextmanager
async def a_running_world(open_log: OpenLog | None = None) -> AsyncIterator[World]:
    async with a_world(open_log) as world, a_controller_in(world):
        yield world


@asynccontextmanager
async def a_controller_in(world: World) -> AsyncIterator[JobController]:
    """A controller with caches of its own, as a new process has them; ends as abruptly as one."""
    cluster = LocalCluster(world.api, cluster_on(world.api, world.cluster.clock), world.cluster.clock)
    controller = JobController(cluster.cluster, world.recorder)
    async with cluster.running(controller):
        yield controller
    await world.api.store.settled()  # what it had sent to the disk is there when the next one begins
