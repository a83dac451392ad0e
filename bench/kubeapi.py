"""``python -m bench.kubeapi``: what `client/http` costs on a real kube-apiserver with etcd.

Both are started from the cache of `make cluster`, on loopback, etcd without fsync: the rate of writes is that of the
server on a shared machine, the CPU beside it is that of the client alone. ManagedJobs are custom resources with the
schema that `fairway cluster install` installs. Without the binaries there is one line that says so.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

import psutil
import uvloop
from tools.cluster.apiserver import ApiServer
from tools.cluster.places import Cache

from bench import table
from bench.table import Line, isolated, tell
from fairway.apis.fairway.records import MANAGED_JOB
from fairway.apis.machinery.kind import Manifest
from fairway.client.http.client import HttpClient
from fairway.client.http.transport import Transport, open_transport
from fairway.client.informer import Informer
from fairway.errors import NotFound
from fairway.runtime.clock import SystemClock
from fairway.server.crds import definitions, service_client

JOBS = 5_000
_AT_A_TIME = 8
_NAMESPACE = "default"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


class Cost(NamedTuple):
    done: int
    seconds: float
    cpu_seconds: float
    mb: float = 0.0

    def __str__(self) -> str:
        return f"{self.done / self.seconds:.0f}/s, client {self.cpu_seconds / self.done * 1e6:.0f} us each"


def lines(scale: int) -> list[Line]:
    missing = Cache.default().missing("etcd", "kube-apiserver")
    if missing:
        why = f"left out: {' and '.join(missing)} are not built (python -m tools.cluster build)"
        return [Line("client/http on kube-apiserver", why, "", None, 0)]
    jobs = JOBS // scale
    with tempfile.TemporaryDirectory() as directory, ApiServer(Path(directory)) as api:
        created, _ = isolated(_run, _creates, api.kubeconfig, jobs)
        tell(f"{jobs} ManagedJobs created on kube-apiserver")
        patched, _ = isolated(_run, _patches, api.kubeconfig, jobs)
        watched, memory = isolated(_run, _watches, api.kubeconfig, jobs)
    return [
        Line("kube-apiserver, client/http: creates, 8 at a time", str(created), "", None, 0),
        Line("kube-apiserver, client/http: status patches", str(patched), "", None, 0),
        Line("kube-apiserver, client/http: events of a watch", str(watched), "", None, 0),
        Line(f"informer with {jobs} ManagedJobs", f"{watched.mb * 1024 / jobs:.1f} KB each", "", None, memory),
    ]


def _run(measure: Callable[[Transport, int], Awaitable[Cost]], kubeconfig: Path, count: int) -> Cost:
    async def run() -> Cost:
        async with open_transport(kubeconfig, "", SystemClock()) as transport:
            return await measure(transport, count)

    return uvloop.run(run())


async def _creates(transport: Transport, count: int) -> Cost:
    client = HttpClient(transport, SystemClock(), "bench")
    for definition in definitions("none", service_client("fairway-system")):
        await transport.json("POST", _DEFINITIONS, body=definition)
    await _served(client)
    return await _driven(count, lambda number: client.create(MANAGED_JOB, managed_job(number)))


async def _served(client: HttpClient) -> None:
    """A new definition takes a moment, and is answered with 404 until then."""
    while True:
        try:
            await client.list(MANAGED_JOB)
        except NotFound:
            await asyncio.sleep(0.1)
        else:
            return


async def _patches(transport: Transport, count: int) -> Cost:
    client = HttpClient(transport, SystemClock(), "bench")

    async def patch(number: int) -> None:
        status = {"status": {"phase": "RUNNING", "message": f"attempt {number}"}}
        await client.patch(MANAGED_JOB, _NAMESPACE, f"job-{number}", status, subresource="status")

    return await _driven(count // 5, patch)


async def _driven(count: int, send: Callable[[int], Awaitable[Any]]) -> Cost:
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await send(number)

    with _Watch() as watch:
        await asyncio.gather(*[worker() for _ in range(_AT_A_TIME)])
    return Cost(count, watch.seconds, watch.cpu_seconds)


async def _watches(transport: Transport, count: int) -> Cost:
    """All jobs as events of a watch from the server's cache, and then in an informer."""
    client = HttpClient(transport, SystemClock(), "bench")
    seen = 0
    with _Watch() as watch:
        async for events in client.watch(MANAGED_JOB, "0"):
            seen += len(events)
            if seen >= count:
                break
    before = psutil.Process().memory_info().rss
    async with _followed(client):
        held = psutil.Process().memory_info().rss - before
    return Cost(seen, watch.seconds, watch.cpu_seconds, held / 2**20)


@asynccontextmanager
async def _followed(client: HttpClient) -> AsyncIterator[Informer]:
    informer = Informer(client, MANAGED_JOB, SystemClock())
    task = asyncio.create_task(informer.run())
    await informer.synced.wait()
    try:
        yield informer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


class _Watch:
    """The time of the clock and of this process."""

    seconds = cpu_seconds = 0.0

    def __enter__(self) -> Self:
        self._begun = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._begun[0]
        self.cpu_seconds = time.process_time() - self._begun[1]


def managed_job(number: int) -> Manifest:
    """About 2 KB, as a launch of a sweep makes them."""
    task = {
        "name": "train",
        "run": "python train.py --epochs 10 --learning-rate 0.001 --checkpoint $FAIRWAY_CHECKPOINT_DIR\n" * 8,
        "envs": {f"VARIABLE_{one}": f"value-{one}" for one in range(8)},
        "resources": {"cpus": "4", "memory": "16"},
    }
    return {
        "apiVersion": MANAGED_JOB.api_version(MANAGED_JOB.stored),
        "kind": "ManagedJob",
        "metadata": {"name": f"job-{number}", "namespace": _NAMESPACE, "labels": {"sweep": "one"}},
        "spec": {"id": number + 1, "name": f"sweep-{number}", "user": "ann", "tasks": [task]},
    }


if __name__ == "__main__":
    sys.exit(table.main("bench.kubeapi", __doc__, lines))
