"""Pods of managed jobs on the real runner, for tests: real processes, real files, the API of the store.

Nobody controls the job here: the pods are made as its controller makes them, and only looked at.
"""

import asyncio
import io
import os
import tarfile
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fairway.apis.machinery.kind import Manifest
from fairway.client.recorder import Recorder
from fairway.managedjobs.machine import ThisMachine
from fairway.managedjobs.tasks.task import Task
from fairway.runner.machine import Machine
from fairway.runner.runner import Runner
from fairway.runner.supervision import LocalSupervision
from fairway.runtime.clock import SystemClock
from fairway.testing.clock import VirtualClock
from fairway.testing.clusters import cluster_on
from fairway.testing.stores import LocalApi, local_api

from .jobs import managed_job, pods_of

NODE = "box"
MACHINE = Machine(cores_milli=64_000, memory_bytes=256 << 30, gpus=2, hostname=NODE)
PATIENCE_SECONDS = 30
ENDED = {"Succeeded", "Failed"}


@dataclass
class World:
    """An API, a runner on it, and what its pods leave behind."""

    api: LocalApi
    state: Path
    uids: dict[str, str] = field(default_factory=dict)

    @property
    def places(self) -> ThisMachine:
        return ThisMachine(archives=str(self.state / "archives"), checkpoint_root=str(self.state / "checkpoints"))

    async def start(self, task: Task, name: str = "train", **attempt: Any) -> list[str]:
        """Make the pods of an attempt, as they are when the scheduler has seen them; their names."""
        stored = self.api.get("managedjobs", name)
        job = stored or await self.api.create("managedjobs", _submitted(name))
        pods = pods_of(task, job, platform=self.places, **attempt)
        for pod in pods:
            pod["spec"]["nodeName"] = NODE
            created = await self.api.create("pods", pod)
            self.uids[created["metadata"]["name"]] = created["metadata"]["uid"]
        return [pod["metadata"]["name"] for pod in pods]

    async def run(self, task: Task, name: str = "train", **attempt: Any) -> str:
        """The name of the head, when all have ended."""
        names = await self.start(task, name, **attempt)
        await self.api.until(lambda: all(self.phase(one) in ENDED for one in names))
        return names[0]

    def phase(self, pod: str) -> str:
        found = self.api.get("pods", pod)
        return str(found["status"]["phase"]) if found else "gone"

    def exit_code(self, pod: str, container: str = "run") -> int:
        found = self.api.get("pods", pod)
        assert found is not None
        status = found["status"]
        statuses = [*(status.get("initContainerStatuses") or ()), *status["containerStatuses"]]
        return int(next(one for one in statuses if one["name"] == container)["state"]["terminated"]["exitCode"])

    def said(self, pod: str, container: str = "run") -> list[str]:
        log = self.state / "logs" / "default" / self.uids[pod] / container / "0.log"
        return [line.split(" ", 3)[3] for line in log.read_text().splitlines()] if log.exists() else []

    async def stop(self, pod: str) -> None:
        """Delete a pod and wait until it is gone."""
        await self.api.delete("pods", pod)
        await self.api.until(lambda: self.phase(pod) == "gone")

    def work(self, pod: str) -> Path:
        return self.state / "work" / self.uids[pod]

    def checkpoints(self, name: str = "train") -> Path:
        """What the attempts of a job share, and beside it what one attempt's nodes share."""
        job = self.api.get("managedjobs", name)
        assert job is not None
        return self.state / "checkpoints" / str(job["metadata"]["uid"])

    def upload(self, digest: str, files: Mapping[str, str]) -> None:
        """An archive, as it is stored when it was uploaded."""
        directory = self.state / "archives" / "default"
        directory.mkdir(parents=True, exist_ok=True)
        with tarfile.open(directory / f"{digest}.tar.gz", "w:gz") as archive:
            for name, text in files.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(text.encode()), 0o755
                archive.addfile(entry, io.BytesIO(text.encode()))


async def eventually(condition: Callable[[], bool]) -> None:
    """For what nobody tells: files that processes write."""
    while not condition():  # noqa: ASYNC110 - there is nothing to wait on
        await asyncio.sleep(0)


def _submitted(name: str) -> Manifest:
    job = managed_job(name, secretName="train-secrets")
    return job | {"metadata": {"name": name, "namespace": "default"}}


@asynccontextmanager
async def world_on(state: Path) -> AsyncIterator[World]:
    async with local_api(clock=VirtualClock(datetime.now(UTC)), keepers=True) as api:
        clock = SystemClock()
        cluster, supervision = cluster_on(api, clock), LocalSupervision(state, clock)
        environment = {"PATH": os.environ["PATH"], "HOME": "/home/of-the-server", "TOKEN": "of the server"}
        runner = Runner(cluster, supervision, MACHINE, state, Recorder(cluster, "runner"), environment)
        tasks = [asyncio.create_task(cluster.run()), asyncio.create_task(runner.run())]
        try:
            yield World(api, state)
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            await supervision.shutdown()
            await supervision.close()
            assert all(isinstance(one, asyncio.CancelledError) for one in ended), ended


def play(story: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await story

    asyncio.run(bounded())
