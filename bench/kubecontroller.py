"""``python -m bench.kubecontroller`` (``make bench-cluster``): `fairway controller` on a real kube-apiserver with etcd.

Fairway admits, and this process stands for the kubelet: it says that pods run and end. There is no node, so the times
are those of the controller and of kube-apiserver alone. Without the binaries there is one line that says so.
The writes per job are also counted on one machine, with real processes.
"""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import uvloop
from tools.cluster.apiserver import ApiServer
from tools.cluster.places import Cache

from bench import table
from bench.api.servers import fairway, scratch
from bench.kubeapi import managed_job
from bench.table import Line, tell
from fairway.apis.fairway.records import MANAGED_JOB
from fairway.apis.machinery.kind import Manifest
from fairway.apis.registry import default_registry
from fairway.client.http.client import HttpClient
from fairway.client.http.transport import Transport, open_transport
from fairway.client.informer import Informer
from fairway.errors import ApiError
from fairway.runtime.clock import SystemClock
from fairway.server.crds import definitions, service_client

JOBS = 5_000
RUN = 100
"""Jobs that run, end, and are evicted."""

_AT_A_TIME = 8
_SETTLED_SECONDS = 2.0
"""After the end of a job its pod and its records are still dealt with."""

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_WRITES = re.compile(r'^apiserver_request_total\{.*resource="([^"]*)".*verb="(POST|PUT|PATCH|DELETE|APPLY)".*\} (\d+)$')
_CLUSTER_QUEUES = "clusterqueues.kueue.x-k8s.io"
_WRITTEN = ("configmaps", "services", _CLUSTER_QUEUES, "localqueues.kueue.x-k8s.io", "workloads.kueue.x-k8s.io")
"""What the controllers write besides ManagedJobs and pods."""

_TASK = {"run": "sleep $((FAIRWAY_ATTEMPT > 1 ? 2 : 1000))", "resources": {"cpus": "0.1", "memory": "0.1"}}
"""The first attempt is evicted, the second ends."""

_OTHERS = {"events", "leases", "customresourcedefinitions", "namespaces", "apiservices", "resourceflavors"}


def lines(scale: int) -> list[Line]:
    missing = Cache.default().missing("etcd", "kube-apiserver")
    if missing:
        why = f"left out: {' and '.join(missing)} are not built (python -m tools.cluster build)"
        return [Line("fairway controller on kube-apiserver", why, "", None, 0)]
    waiting, run = JOBS // scale, max(5, RUN // scale)
    machine = ("--cpus", str(run), "--gpus", "0")
    with scratch() as place, fairway(place.absolute() / "state", *machine, jobs=True) as server:
        goal = uvloop.run(_writes_on_one_machine(server.state / "kubeconfig", run))
    tell(f"{run} jobs evicted on one machine")
    with tempfile.TemporaryDirectory() as directory, ApiServer(Path(directory) / "api") as api:
        return uvloop.run(_measured(api, Path(directory) / "state", waiting, run, goal))


async def _writes_on_one_machine(kubeconfig: Path, run: int) -> float:
    """What Fairway writes there for a job that is evicted once, with its scheduler and its runner."""
    async with open_transport(kubeconfig, "", SystemClock()) as transport:
        machine = _Machine(transport)
        async with machine.following():
            machine.written = 0
            await machine.launch(range(run), "default")
            await machine.until(lambda: machine.count("RUNNING") == run)
            await machine.evict()
            await machine.until(lambda: machine.count("SUCCEEDED") == run)
            await asyncio.sleep(_SETTLED_SECONDS)
            return (machine.written - 2 * run) / run  # the jobs are created and their pods deleted by this process


async def _measured(api: ApiServer, state: Path, waiting: int, run: int, most_writes: float) -> list[Line]:
    async with open_transport(api.kubeconfig, "", SystemClock()) as transport:
        bench = _Bench(transport)
        await bench.prepare()
        with _controller(api.kubeconfig, state) as process:
            async with bench.following():
                return [line async for line in _lines(bench, api, process, waiting, run, most_writes)]


async def _lines(
    bench: _Bench, api: ApiServer, process: psutil.Process, waiting: int, run: int, most_writes: float
) -> AsyncIterator[Line]:
    before = await bench.writes()
    await bench.launch(range(run), "running")
    await bench.until(lambda: bench.count("RUNNING") == run)
    evicted = await bench.evict()
    tell(f"{run} jobs evicted")
    yield Line(
        "eviction to the next attempt's pod (SkyPilot polls: 15 s)", f"{evicted:.2f} s", "0.2 s", evicted <= 0.2, 0
    )
    bench.outcome = "Succeeded"
    await bench.end()
    await bench.until(lambda: bench.count("SUCCEEDED") == run)
    await asyncio.sleep(_SETTLED_SECONDS)
    writes = (await bench.writes() - before - run - bench.pod_writes) / run
    goal = f"{most_writes:.1f}, as on one machine"
    yield Line("writes of the controller per job, evicted once", f"{writes:.1f}", goal, writes <= most_writes, 0)

    begun = process.cpu_times()
    await bench.launch(range(run, run + waiting), "waiting")
    await bench.until(lambda: bench.queued() == waiting)
    used, memory = process.cpu_times(), process.memory_info().rss / 2**20
    cpu = used.user + used.system - begun.user - begun.system
    tell(f"{waiting} jobs wait")
    yield Line(
        f"controller: {waiting} ManagedJobs queued", f"{cpu / waiting * 1e3:.2f} ms of CPU each", "", None, memory
    )
    begun = process.cpu_times()
    await asyncio.sleep(10)
    idle = process.cpu_times()
    share = (idle.user + idle.system - begun.user - begun.system) / 10
    yield Line(f"controller: {waiting} ManagedJobs waiting", f"{share:.1%} of a core", "", None, 0)

    await asyncio.to_thread(api.restart, "kube-apiserver")
    back = time.monotonic()
    await bench.launch([run + waiting], "running")
    await bench.until(lambda: bench.count("SUCCEEDED") > run)
    seconds = time.monotonic() - back
    yield Line("kube-apiserver restarted: from ready to a job's end", f"{seconds:.1f} s", "10 s", seconds <= 10, 0)


@contextmanager
def _controller(kubeconfig: Path, state: Path) -> Iterator[psutil.Process]:
    state.mkdir(mode=0o700)
    command = [sys.executable, "-m", "fairway.cli.main", "controller", "--admission=fairway", "--kube-api-qps=0"]
    reading, writing = os.pipe()
    with (state / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - our own
            [*command, "--kubeconfig", str(kubeconfig), "--state", str(state)],
            stdout=log,
            stderr=log,
            pass_fds=(writing,),
            env={**os.environ, "FAIRWAY_READY_FD": str(writing)},
        )
    os.close(writing)
    try:
        with os.fdopen(reading) as ready:
            if not ready.readline():
                raise SystemExit(f"the controller ended: {(state / 'log').read_text()}")
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


class _User:
    """Launches jobs, evicts their pods, and looks at both."""

    def __init__(self, transport: Transport, *more: str) -> None:
        """`more` are the names of other kinds that are followed."""
        clock, registry = SystemClock(), default_registry()
        self._transport = transport
        self._client = HttpClient(transport, clock, "bench")
        self._pod_kind = registry.named("pods")
        self._jobs = Informer(self._client, MANAGED_JOB, clock)
        self._pods = Informer(self._client, self._pod_kind, clock)
        self._others = {name: Informer(self._client, registry.named(name), clock) for name in more}

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        informers = (self._jobs, self._pods, *self._others.values())
        tasks = [asyncio.create_task(one.run()) for one in informers]
        try:
            for one in informers:
                await one.synced.wait()
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def launch(self, numbers: Any, queue: str) -> None:
        left = iter(numbers)

        async def worker() -> None:
            for number in left:
                job = managed_job(number)
                job["spec"]["queue"] = queue
                job["spec"]["tasks"][0] |= _TASK
                await _sent(lambda job=job: self._client.create(MANAGED_JOB, job))  # type: ignore[misc]

        await asyncio.gather(*[worker() for _ in range(_AT_A_TIME)])

    def count(self, phase: str) -> int:
        return sum((one.get("status") or {}).get("phase") == phase for one in self._jobs.items())

    async def until(self, reached: Callable[[], bool]) -> None:
        while not reached():  # noqa: ASYNC110 - by another process
            await asyncio.sleep(0.05)

    async def evict(self) -> float:
        """Evict every pod, one job after the other; the median time until its job has another."""
        found = []
        for pod in [one for one in self._pods.items() if (one.get("status") or {}).get("phase") == "Running"]:
            owner = pod["metadata"]["ownerReferences"][0]["uid"]
            await self._evict(pod)
            begun = time.monotonic()
            await self.until(lambda owner=owner, old=pod: self._has_other(owner, old))  # type: ignore[misc]
            found.append(time.monotonic() - begun)
        return sorted(found)[len(found) // 2]

    def _has_other(self, owner: str, old: Manifest) -> bool:
        return any(
            one["metadata"]["ownerReferences"][0]["uid"] == owner and one["metadata"]["uid"] != old["metadata"]["uid"]
            for one in self._pods.items()
        )

    async def _evict(self, pod: Manifest) -> None:
        raise NotImplementedError


class _Machine(_User):
    """On one machine, where every change of an object is counted, but for Events."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport, *_WRITTEN)
        self.written = 0
        for informer in (self._jobs, self._pods, *self._others.values()):
            informer.on_change(self._count)

    def _count(self, *_: Manifest | None) -> None:
        self.written += 1

    async def _evict(self, pod: Manifest) -> None:
        await self._client.delete(self._pod_kind, pod["metadata"]["namespace"], pod["metadata"]["name"])


class _Bench(_User):
    """On kube-apiserver, and the kubelet there."""

    def __init__(self, transport: Transport) -> None:
        super().__init__(transport, _CLUSTER_QUEUES)
        self._tasks: set[asyncio.Task[None]] = set()
        self.outcome = ""
        self.pod_writes = 0
        self._pods.on_change(self._pod_changed)

    async def prepare(self) -> None:
        for definition in definitions("fairway", service_client("fairway-system")):
            await self._transport.json("POST", _DEFINITIONS, body=definition)
        registry, version = default_registry(), "kueue.x-k8s.io/v1beta2"
        quotas = {"running": 1_000_000, "waiting": 0}
        flavor = {"apiVersion": version, "kind": "ResourceFlavor", "metadata": {"name": "all"}, "spec": {}}
        objects: list[Manifest] = [flavor]
        for name, amount in quotas.items():
            resources = [{"name": one, "nominalQuota": f"{amount}Gi"} for one in ("cpu", "memory")]
            group = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "all", "resources": resources}]}
            spec = {"namespaceSelector": {}, "resourceGroups": [group]}
            metadata = {"name": name}
            objects.append({"apiVersion": version, "kind": "ClusterQueue", "metadata": metadata, "spec": spec})
            local = {"metadata": {"name": name, "namespace": "default"}, "spec": {"clusterQueue": name}}
            objects.append({"apiVersion": version, "kind": "LocalQueue", **local})
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fairway-system"}}
        await self._client.create(registry.named("namespaces"), space)
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
        await self._transport.json("POST", "/api/v1/namespaces/default/serviceaccounts", body=account)
        for manifest in objects:
            kind = registry.named(f"{manifest['kind'].lower()}s.kueue.x-k8s.io")
            await _sent(lambda kind=kind, manifest=manifest: self._client.create(kind, manifest))  # type: ignore[misc]

    def queued(self) -> int:
        """As the controller counts them."""
        queue = self._others[_CLUSTER_QUEUES].get("", "waiting") or {}
        return int((queue.get("status") or {}).get("pendingWorkloads", 0))

    async def _evict(self, pod: Manifest) -> None:
        disruption = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
        await self._set(pod, {"phase": "Failed", "conditions": [disruption]})

    async def end(self) -> None:
        for pod in self._pods.items():
            self._pod_changed(None, pod)

    async def writes(self) -> int:
        """The writes that kube-apiserver has counted, without Events, Leases and what only the bench creates."""
        text = b"".join([piece async for piece in self._transport.stream("/metrics")]).decode()
        found = (_WRITES.match(line) for line in text.splitlines())
        return sum(int(one[3]) for one in found if one is not None and one[1] not in _OTHERS)

    def _pod_changed(self, _old: Manifest | None, pod: Manifest | None) -> None:
        if pod is None or "deletionTimestamp" in pod["metadata"]:
            return
        phase = (pod.get("status") or {}).get("phase")
        if phase == "Pending" or (phase == "Running" and self.outcome):
            task = asyncio.create_task(self._set(pod, {"phase": self.outcome or "Running"}))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _set(self, pod: Manifest, status: Manifest) -> None:
        self.pod_writes += 1
        metadata = pod["metadata"]
        with suppress(ApiError):
            await self._client.patch(
                self._pod_kind, metadata["namespace"], metadata["name"], {"status": status}, subresource="status"
            )


async def _sent(send: Callable[[], Any]) -> None:
    """A new definition takes a moment to be served, and a server that was restarted to be ready for everything."""
    for _ in range(600):
        try:
            await send()
        except ApiError as error:
            if error.code not in {404, 403, 500, 503}:
                raise
            await asyncio.sleep(0.1)
        else:
            return
    raise SystemExit("kube-apiserver does not take a ManagedJob")


if __name__ == "__main__":
    sys.exit(table.main("bench.kubecontroller", __doc__, lines))
