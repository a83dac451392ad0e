"""A runner on a store in memory, in virtual time, with a supervisor that does what the test says."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairway.apis.machinery.kind import Manifest
from fairway.client.recorder import Recorder
from fairway.runner.machine import Machine
from fairway.runner.runner import Runner
from fairway.testing.clock import VirtualClock
from fairway.testing.clusters import LocalCluster, cluster_on, local_cluster
from fairway.testing.stores import LocalApi

from .scripted import ScriptedSupervision

NODE = "box"
MACHINE = Machine(cores_milli=8000, memory_bytes=16 << 30, gpus=4, hostname="Box", disk_bytes=100 << 30)
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/home/someone", "FAIRWAY_TOKEN": "a secret of the server"}


def container(name: str = "main", *command: str, **fields: Any) -> Manifest:
    return {"name": name, "image": "busybox", "command": list(command) or ["true"], **fields}


def pod(name: str = "p", *containers: Manifest, **spec: Any) -> Manifest:
    """A pod on this machine, as it is after it was bound."""
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "restartPolicy": "Never",
            "nodeName": NODE,
            "terminationGracePeriodSeconds": 30,
            "containers": list(containers) or [container()],
            **spec,
        },
    }


@dataclass
class World:
    """What a test sees."""

    cluster: LocalCluster
    supervision: ScriptedSupervision
    state: Path
    machine: Machine = MACHINE
    uids: dict[str, str] = field(default_factory=dict)

    @property
    def api(self) -> LocalApi:
        return self.cluster.api

    @property
    def clock(self) -> VirtualClock:
        return self.cluster.clock

    async def create(self, manifest: Manifest) -> Manifest:
        created = await self.api.create("pods", manifest)
        self.uids[created["metadata"]["name"]] = created["metadata"]["uid"]
        return created

    def id(self, pod: str, container: str = "main", number: int = 0) -> str:
        return f"{self.uids[pod]}/{container}/{number}"

    def get(self, name: str = "p") -> Manifest:
        found = self.api.get("pods", name)
        assert found is not None, f"there is no pod {name}"
        return found

    def status(self, name: str = "p") -> Manifest:
        status: Manifest = self.get(name)["status"]
        return status

    def phase(self, name: str = "p") -> str:
        return str(self.status(name)["phase"])

    def state_of(self, container: str = "main", name: str = "p") -> Manifest:
        status = self.status(name)
        both = (*status.get("containerStatuses", ()), *status.get("initContainerStatuses", ()))
        return next(one for one in both if one["name"] == container)

    def condition(self, kind: str, name: str = "p") -> Manifest | None:
        return next((one for one in self.status(name)["conditions"] if one["type"] == kind), None)

    async def until(self, condition: Callable[[], bool], *, patience_seconds: float = 1.0) -> None:
        """Let virtual time pass, in small steps, until a condition holds."""
        passed = 0.0
        while not condition():
            assert passed < patience_seconds, "it did not come about"
            await self.pass_time(0.005)
            passed += 0.005

    async def pass_time(self, seconds: float) -> None:
        await self.clock.run_for(seconds)
        await self.api.store.settled()
        await self.clock.run_for(0)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """A server with its runner on the same store, state and supervisor; gone at the end, as after a SIGKILL."""
        cluster = cluster_on(self.api, self.clock)
        server = LocalCluster(self.api, cluster, self.clock)
        recorder = Recorder(cluster, "fairway-runner")
        runner = Runner(cluster, self.supervision, self.machine, self.state, recorder, ENVIRONMENT)
        async with server.running(runner, recorder):
            await self.until(lambda: self.api.get("nodes", NODE) is not None)
            try:
                yield
            finally:
                self.supervision.hang_up()


@asynccontextmanager
async def a_world(state: Path, machine: Machine = MACHINE) -> AsyncIterator[World]:
    async with local_cluster() as cluster:
        yield World(cluster, ScriptedSupervision(cluster.clock), state, machine)


def play(story: Coroutine[Any, Any, None]) -> None:
    """Run a test's story; one that hangs is stuck."""

    async def bounded() -> None:
        async with asyncio.timeout(20):
            await story

    asyncio.run(bounded())
