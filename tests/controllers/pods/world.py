"""A store, the controller of pods, the webhooks, and hands that play the queueing controller and the node."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fairway.apis.kueue.configuration import Configuration
from fairway.apis.machinery.admission import AdmissionChain
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.timestamps import stamp
from fairway.client.recorder import Recorder
from fairway.controllers.kit.configuration import FixedConfiguration
from fairway.controllers.pods import PodController
from fairway.controllers.webhooks.queues import QueueAdmission
from fairway.integrations import conditions
from fairway.integrations.pods import is_gated
from fairway.store.entries import Change
from fairway.testing.clusters import LocalCluster, cluster_on, local_cluster
from fairway.testing.stores import PATIENCE_SECONDS

GROUP = "kueue.x-k8s.io/pod-group-name"
TOTAL = "kueue.x-k8s.io/pod-group-total-count"
QUEUE = "kueue.x-k8s.io/queue-name"
FINALIZER = "kueue.x-k8s.io/managed"
NODE = "this-machine"


def pod(
    name: str,
    *,
    queue: str | None = "user-queue",
    group: str = "",
    total: int | None = None,
    cpu: str = "1",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Manifest:
    """A pod as people write it."""
    labels, annotations = dict(labels or {}), dict(annotations or {})
    if queue is not None:
        labels[QUEUE] = queue
    if group:
        labels[GROUP] = group
    if total is not None:
        annotations[TOTAL] = str(total)
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    return {
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": {"containers": [container], "restartPolicy": "Never", **spec},
    }


class PodWorld:
    """What a test does, and what it sees."""

    def __init__(self, local: LocalCluster, configuration: FixedConfiguration) -> None:
        self.local = local
        self.api = local.api
        self.clock = local.clock
        self.configuration = configuration
        self.recorder: Recorder | None = None
        self.writes: list[str] = []
        """Every write, as `ADDED pods/a`."""

        self.kill_after: int | None = None
        """After which write the controller is killed."""

        self.watchers: list[Callable[[Change], None]] = []
        self.controller: PodController | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.api.store.observe(self._note)

    def _note(self, change: Change) -> None:
        if change.entry.resource == "events":
            return
        self.writes.append(f"{change.type} {change.entry.resource.split('.')[0]}/{change.entry.key[1]}")
        for watcher in self.watchers:
            watcher(change)
        if len(self.writes) == self.kill_after:
            self.kill()

    # Running and waiting

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """The controller at work until the end."""
        await self.start()
        try:
            yield
        finally:
            await self.stop()

    async def start(self) -> None:
        """Let the controller work, with caches of its own, as after the server was started."""
        cluster = cluster_on(self.api, self.clock)
        self.recorder = Recorder(cluster, "kueue")
        self.controller = PodController(cluster, self.configuration, self.recorder)
        self.api.objects.use_admission(AdmissionChain(QueueAdmission(cluster, self.configuration)))
        self._tasks = [asyncio.create_task(cluster.run())]
        await self.local.healed(cluster.synced())
        self._tasks.append(asyncio.create_task(self.controller.run()))

    def kill(self) -> None:
        """Let the controller do nothing any more, wherever it is."""
        self.controller = None
        for task in self._tasks:
            task.cancel()

    async def stop(self) -> None:
        self.kill()
        ended = await asyncio.gather(*self._tasks, return_exceptions=True)
        broken = [one for one in ended if one is not None and not isinstance(one, asyncio.CancelledError)]
        if broken:
            raise AssertionError(f"something that was to run on ended: {broken}")

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition, letting time pass where nothing else can bring it about."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                await self.calm()
                if not condition():
                    await self.clock.run_for(0.05)

    async def calm(self) -> None:
        """Let everything happen that needs no time."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            still = 0
            while still < 3:
                await self.local.heal()
                before = self.api.store.next_revision
                await self.api.store.settled()
                for _ in range(30):
                    await asyncio.sleep(0)
                still = still + 1 if before == self.api.store.next_revision and not self._busy() else 0

    def _busy(self) -> bool:
        if self.controller is None:
            return False
        queue = self.controller._worker._queue
        return bool(queue._waiting or queue._processing)

    async def events(self, name: str) -> list[tuple[str, str]]:
        """The reasons and messages told about an object, in order of time."""
        assert self.recorder is not None
        await self.recorder.flush()
        found = [self.api.get("events", one) for one in self.api.names("events")]
        about = [one for one in found if one and one["involvedObject"]["name"] == name]
        about.sort(key=lambda one: int(one["metadata"]["resourceVersion"]))
        return [(one["reason"], one["message"]) for one in about]

    # What there is

    def pod(self, name: str) -> Manifest:
        found = self.api.get("pods", name)
        assert found is not None, f"there is no pod {name}"
        return found

    def workload(self, name: str) -> Manifest:
        found = self.api.get("workloads", name)
        assert found is not None, f"there is no workload {name}, only {self.api.names('workloads')}"
        return found

    def only_workload(self) -> Manifest:
        names = self.api.names("workloads")
        assert len(names) == 1, names
        return self.workload(next(iter(names)))

    def has(self, kind: str, name: str) -> bool:
        return self.api.get(kind, name) is not None

    def is_open(self, name: str) -> bool:
        return self.has("pods", name) and not is_gated(self.pod(name))

    def condition(self, name: str, kind: str) -> tuple[str, str, str] | None:
        """Status, reason and message of a condition of a workload."""
        found = conditions.find(self.workload(name), kind)
        return None if found is None else (found["status"], found["reason"], found["message"])

    def status(self, name: str, kind: str) -> str:
        """The status of a condition of a workload, empty if it has none."""
        return (self.condition(name, kind) or ("",))[0]

    def reason(self, name: str, kind: str) -> str:
        found = self.condition(name, kind)
        return "" if found is None else found[1]

    # The queueing controller

    async def admit(self, name: str, flavor: str = "default-flavor", *, checks: list[Manifest] | None = None) -> None:
        """Reserve quota for a workload and, unless there are checks that wait, admit it."""
        workload = self.workload(name)
        assignments = [
            {
                "name": one["name"],
                "count": one["count"],
                "flavors": {"cpu": flavor},
                "resourceUsage": {"cpu": str(one["count"])},
            }
            for one in workload["spec"]["podSets"]
        ]
        status: Manifest = {"admission": {"clusterQueue": "cluster-queue", "podSetAssignments": assignments}}
        found = conditions.of(workload)
        reserved = "Quota reserved in ClusterQueue cluster-queue"
        found = self._set(found, "QuotaReserved", "True", "QuotaReserved", reserved)
        if conditions.is_true(workload, "Evicted"):
            found = self._set(found, "Evicted", "False", "QuotaReserved", "Previously: evicted")
        if checks is not None:
            status["admissionChecks"] = checks
        if checks is None or all(check["state"] == "Ready" for check in checks):
            found = self._set(found, "Admitted", "True", "Admitted", "The workload is admitted")
        await self._status(name, {**status, "conditions": found})

    async def evict(self, name: str, reason: str = "Preempted", message: str = "Preempted to accommodate b") -> None:
        found = self._set(conditions.of(self.workload(name)), "Evicted", "True", reason, message)
        await self._status(name, {"conditions": found})

    async def _status(self, name: str, status: Manifest) -> None:
        await self.api.patch("workloads", name, {"status": status}, subresource="status")

    def _set(self, found: list[Manifest], kind: str, status: str, reason: str, message: str) -> list[Manifest]:
        return conditions.with_condition(found, kind, status, reason, message, stamp(self.clock.now()), 1)

    # The scheduler and the node

    async def bind(self, name: str) -> None:
        await self.api.objects.bind(self.api.kind("pods"), ("default", name), NODE)

    async def run(self, name: str, *, ready: bool = True) -> None:
        """A node takes an open pod and starts it."""
        await self.bind(name)
        await self.report(name, "Running", ready=ready)

    async def report(self, name: str, phase: str, *, ready: bool = False, message: str = "") -> None:
        """What the node says of a pod."""
        now = stamp(self.clock.now())
        kept = [one for one in conditions.of(self.pod(name)) if one["type"] not in {"Ready", "ContainersReady"}]
        word = "True" if ready else "False"
        said = [
            {"type": "Ready", "status": word, "lastTransitionTime": now},
            {
                "type": "ContainersReady",
                "status": word,
                "lastTransitionTime": now,
                **({"reason": "Failed"} if phase == "Failed" else {}),
            },
        ]
        status: Manifest = {"phase": phase, "conditions": [*kept, *said]}
        if message:
            status["message"] = message
        await self.api.patch("pods", name, {"status": status}, subresource="status")

    async def end(self, name: str, phase: str = "Failed") -> None:
        """A pod that was told to go has ended, and its node is done with it."""
        await self.report(name, phase)
        await self.api.delete("pods", name, grace_seconds=0)


@asynccontextmanager
async def pod_world(configuration: Configuration | None = None) -> AsyncIterator[PodWorld]:
    """A store with a flavor, and nothing running yet."""
    async with local_cluster() as local:
        world = PodWorld(local, FixedConfiguration(configuration))
        await world.api.create(
            "resourceflavors",
            {
                "metadata": {"name": "default-flavor"},
                "spec": {
                    "nodeLabels": {"machine": "here"},
                    "tolerations": [{"key": "queue", "operator": "Exists", "effect": "NoSchedule"}],
                },
            },
        )
        yield world


def played(story: Callable[[PodWorld], Any], configuration: Configuration | None = None) -> None:
    """Play a story in a world of its own, with the controller at work."""

    async def play() -> None:
        async with pod_world(configuration) as world, world.running():
            await story(world)

    asyncio.run(play())
