"""What the controller does on a cluster, where kubelets run the pods: it looks at nodes, keeps logs of pods that go,
and deletes what launches left that never became jobs.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Final

from fairway.apis.machinery.conditions import find_in
from fairway.apis.machinery.keys import key_of
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.client.protocol import Scope
from fairway.errors import AlreadyExists, FairwayError, NotFound
from fairway.managedjobs import keptlogs
from fairway.managedjobs.clusterfiles import ANCHOR_LABEL
from fairway.managedjobs.keptlogs import LogTail
from fairway.managedjobs.observation import KNOWN, NodeState
from fairway.managedjobs.pods import JOB
from fairway.managedjobs.status import ManagedJobStatus
from fairway.runtime.worker import Worker

_log = logging.getLogger(__name__)
_PARALLEL: Final = 100
_READ_SECONDS: Final = 10.0
"""How long the end of a pod may wait for its log: a kubelet that does not answer must not hold up a job."""

_LONGEST_FOLLOWED: Final = 3600.0
_TAIL_LINES: Final = 20_000
_GRACE_SECONDS: Final = 3600.0


class ClusterNodes:
    """The nodes of a cluster. One that a cache does not show is only gone when the server says so, too."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._handlers: list[Callable[[Manifest], None]] = []
        self._nodes = cluster.cache("nodes")
        self._pods = cluster.cache("pods")
        self._gone: set[str] = set()
        self._worker: Worker[str] = Worker("missing node", cluster.clock, self._confirm, parallel=4)
        self._nodes.on_change(self._changed)

    async def run(self) -> None:
        await self._worker.run()

    def on_change(self, handler: Callable[[Manifest], None]) -> None:
        """Call this with every pod of a managed job on a node whose state changed."""
        self._handlers.append(handler)

    def labels(self) -> Iterator[dict[str, str]]:
        """Of all nodes."""
        return ((node["metadata"].get("labels") or {}) for node in self._nodes.items())

    def state_of(self, pod: Manifest) -> NodeState:
        name = (pod.get("spec") or {}).get("nodeName") or ""
        if not name:
            return KNOWN
        node = self._nodes.get("", name)
        if node is None:
            if name not in self._gone:
                self._worker.add(name)
            return NodeState(name=name, gone=name in self._gone)
        return NodeState(name=name, trouble=_trouble(node))

    def _changed(self, old: Manifest | None, new: Manifest | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        if new is not None:
            self._gone.discard(name)
        elif old is not None:
            self._worker.add(name)
        if old is not None and new is not None and _trouble(old) != _trouble(new):
            self._wake_pods(name)

    async def _confirm(self, name: str) -> None:
        try:
            await self._cluster.get("nodes", "", name)
        except NotFound:
            if self._nodes.get("", name) is None:
                self._gone.add(name)
                self._wake_pods(name)

    def _wake_pods(self, node: str) -> None:
        for pod in self._pods.items():
            if (pod.get("spec") or {}).get("nodeName") == node and JOB in (pod["metadata"].get("labels") or {}):
                for handler in self._handlers:
                    handler(pod)


def _trouble(node: Manifest) -> str:
    ready = find_in(node.get("status") or {}, "Ready")
    if ready is None or ready.get("status") == "True":
        return ""
    what = "is unreachable" if ready.get("status") == "Unknown" else "is not ready"
    since = ready.get("lastTransitionTime")
    return f"node {node['metadata']['name']} {what}{f' since {since}' if since else ''}"


class PodLogs:
    """Keeps the logs of pods before they go.

    A kubelet removes the containers of a deleted pod, and their logs, about a second after they ended, so the log of a
    pod that is being deleted is followed to its end from that moment on.
    """

    def __init__(self, cluster: Cluster, nodes: ClusterNodes) -> None:
        self._cluster = cluster
        self._nodes = nodes
        self._writer = cluster.writer("fairway-managed-jobs")
        self._following: dict[str, asyncio.Task[dict[str, bytes]]] = {}
        """By the uid of a pod."""

        self._kept: set[str] = set()
        """Pods whose logs are stored, until they are gone."""

        self._tasks: asyncio.TaskGroup | None = None
        self._free = asyncio.Semaphore(_PARALLEL)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for pod in self._cluster.cache("pods").items():
                self.pod_changed(pod)
            try:
                await asyncio.Event().wait()
            finally:
                self._tasks = None

    def pod_changed(self, pod: Manifest | None) -> None:
        """Begin to follow the log of a pod that is being deleted while it runs."""
        if pod is None or self._tasks is None or "deletionTimestamp" not in pod["metadata"]:
            return
        uid, status = pod["metadata"]["uid"], pod.get("status") or {}
        if uid in self._following or status.get("phase") != "Running" or not pod["metadata"].get("finalizers"):
            return
        self._following[uid] = self._tasks.create_task(self._followed(pod))

    def pod_gone(self, pod: Manifest) -> None:
        self._kept.discard(pod["metadata"]["uid"])
        task = self._following.pop(pod["metadata"]["uid"], None)
        if task is not None:
            task.cancel()

    async def keep(self, job: Manifest, life: ManagedJobStatus, pods: list[Manifest]) -> None:
        """Store the logs of pods that ended; what cannot be read is said there, and never holds up a job."""
        await asyncio.gather(*(self._keep(job, pod) for pod in pods))
        for attempt in life.attempts[-keptlogs.MOST_ATTEMPTS - 1 : -keptlogs.MOST_ATTEMPTS]:
            for ref in attempt.pods:
                old = {"metadata": {"name": keptlogs.config_map_name(ref.uid), "uid": ""} | _namespace(job)}
                await self._writer.delete("configmaps", old)

    async def _keep(self, job: Manifest, pod: Manifest) -> None:
        missing, uid = "", pod["metadata"]["uid"]
        if uid in self._kept:
            return
        try:
            async with asyncio.timeout(_READ_SECONDS):
                logs = await self._logs_of(pod)
        except (FairwayError, TimeoutError) as error:
            logs, missing = {}, str(error) or f"its kubelet did not answer within {_READ_SECONDS:.0f} s"
            _log.info("no log of pod %s/%s: %s", *key_of(pod), missing)
        self._kept.add(uid)
        if not logs and not missing:
            return
        with contextlib.suppress(AlreadyExists):
            await self._writer.create("configmaps", keptlogs.config_map(job, pod, logs, missing))

    async def _logs_of(self, pod: Manifest) -> dict[str, bytes]:
        following = self._following.pop(pod["metadata"]["uid"], None)
        if self._nodes.state_of(pod).gone:
            raise NotFound("its node no longer exists")
        if following is not None:
            try:
                return await following
            except asyncio.CancelledError:
                if not following.cancelled():
                    raise
        if "deletionTimestamp" in pod["metadata"] and not pod["metadata"].get("deletionGracePeriodSeconds"):
            raise NotFound("its containers were removed before the log could be read")
        return await self._read(pod, follow=False)

    async def _followed(self, pod: Manifest) -> dict[str, bytes]:
        async with self._free:
            try:
                async with asyncio.timeout(_LONGEST_FOLLOWED):
                    return await self._read(pod, follow=True)
            except (FairwayError, TimeoutError) as error:
                _log.info("log of pod %s/%s: %s", *key_of(pod), error)
                return {}

    async def _read(self, pod: Manifest, *, follow: bool) -> dict[str, bytes]:
        found = {}
        status = pod.get("status") or {}
        for part in ("initContainerStatuses", "containerStatuses"):
            for container in status.get(part) or ():
                if not container.get("containerID"):
                    continue  # it never started
                tail = LogTail()
                namespace, name = key_of(pod)
                query = {"container": container["name"], "timestamps": True, "tailLines": _TAIL_LINES}
                if follow and "running" in container["state"]:
                    query["follow"] = True
                async for piece in self._cluster.log(namespace, name, **query):
                    tail.add(piece)
                found[str(container["name"])] = tail.read()
        return found


class LaunchAnchors:
    """Deletes anchors of launches that were cut off before their jobs became the owners."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._clock = cluster.clock
        self._writer = cluster.writer("fairway-managed-jobs")

    async def run(self) -> None:
        """Once an hour: a launch that was cut off is rare, and a cache of ConfigMaps would cost all the time."""
        while True:
            try:
                await self.sweep()
            except FairwayError as error:
                _log.warning("cannot delete what launches left: %s; retrying", error)
            await self._clock.sleep(_GRACE_SECONDS)

    async def sweep(self) -> None:
        latest = self._clock.now() - timedelta(seconds=_GRACE_SECONDS)
        for anchor in (await self._cluster.list("configmaps", Scope(labels=ANCHOR_LABEL))).items:
            metadata = anchor["metadata"]
            if not metadata.get("ownerReferences") and datetime.fromisoformat(metadata["creationTimestamp"]) < latest:
                await self._writer.delete("configmaps", anchor, locked=True)


def _namespace(job: Manifest) -> Manifest:
    return {"namespace": job["metadata"]["namespace"]}


class Kubelets:
    """All of it."""

    def __init__(self, cluster: Cluster) -> None:
        self.nodes = ClusterNodes(cluster)
        self.logs = PodLogs(cluster, self.nodes)
        self._anchors = LaunchAnchors(cluster)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for part in (self.nodes, self.logs, self._anchors):
                group.create_task(part.run())
