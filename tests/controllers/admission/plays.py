"""A queue on a real store in virtual time, and hands for everybody else: users, job controllers, check controllers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from controllers.manifests import released
from fairway.admission.port import QueueFigures
from fairway.apis.kueue.configuration import Configuration
from fairway.apis.kueue.manifests import encode
from fairway.apis.kueue.objects import AdmissionCheck, Workload
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.apis.machinery.timestamps import stamp
from fairway.client.cluster import Cluster
from fairway.client.local import LocalClient
from fairway.client.protocol import Client, Staged
from fairway.client.recorder import Recorder
from fairway.controllers.admission import QueueingController
from fairway.controllers.admission.controller import Pace
from fairway.controllers.admission.waiting import WaitingWorkloads
from fairway.controllers.decider import StoredDecider
from fairway.controllers.kit.configuration import FixedConfiguration
from fairway.errors import Invalid
from fairway.integrations import conditions
from fairway.store.verbs import Objects
from fairway.testing.clusters import LocalCluster, local_cluster, plain
from fairway.testing.faults import with_faults
from fairway.testing.stores import LocalApi, OpenLog

NAMESPACE = "default"
BATCH_SECONDS = 0.02

_RESOURCES = {
    "ResourceFlavor": "resourceflavors",
    "Cohort": "cohorts",
    "ClusterQueue": "clusterqueues",
    "LocalQueue": "localqueues",
    "AdmissionCheck": "admissionchecks",
    "Workload": "workloads",
}


def manifest_of(made: Any) -> Manifest:
    """What somebody would apply to get this object."""
    manifest = encode(made)
    kept = ("name", "labels", "annotations")
    metadata = {name: value for name, value in manifest["metadata"].items() if name in kept}
    if made.NAMESPACED:
        metadata["namespace"] = NAMESPACE
    return {**{name: part for name, part in manifest.items() if name != "status"}, "metadata": metadata}


class _Picky(LocalClient):
    """An API that does not take what others would."""

    def __init__(self, objects: Objects, manager: str, refuses: set[str]) -> None:
        super().__init__(objects, manager)
        self._refuses = refuses

    def stage_patch(self, kind: Kind, namespace: str, name: str, patch: Any, **options: Any) -> Staged:
        if name in self._refuses:
            raise Invalid(f"{name} is refused")
        return super().stage_patch(kind, namespace, name, patch, **options)


class Play:
    """One API, with one controller after the other on it."""

    def __init__(
        self,
        world: LocalCluster,
        configuration: FixedConfiguration,
        batch_seconds: float = BATCH_SECONDS,
        pace: Pace | None = None,
        *,
        staging: bool = True,
    ) -> None:
        self.staging = staging
        self.batch_seconds = batch_seconds if pace is None else None
        self.pace = pace
        self.world = world
        self.api: LocalApi = world.api
        self.clock = world.clock
        self.configuration = configuration
        self.queueing: QueueingController
        self.waiting: WaitingWorkloads
        self.stored: StoredDecider
        self.recorder: Recorder
        self.refuses: set[str] = set()
        """The Workloads whose status the API does not take."""
        self._running = AsyncExitStack()

    # The controller

    async def start(self) -> None:
        """A controller begins, with caches of its own, as a new process would."""
        cluster = Cluster(self._client, self.api.objects.registry, self.clock)
        self.recorder = Recorder(cluster, "kueue-admission")
        self.queueing = QueueingController(
            cluster, self.configuration, self.recorder, requeue_batch_seconds=self.batch_seconds, pace=self.pace
        )
        self.waiting = WaitingWorkloads(cluster, self.queueing)
        self.stored = StoredDecider(cluster, self.configuration)
        place = LocalCluster(self.api, cluster, self.clock)
        await self._running.enter_async_context(place.running(self.queueing))
        await self.rest()

    def _client(self, manager: str) -> Client:
        client = _Picky(self.api.objects, manager, self.refuses)
        return with_faults(client if self.staging else plain(client), self.clock)

    def check_stored_figures(self) -> None:
        """The decider that reads objects has the same numbers as the engine, once all is written."""
        if self.queueing._writes.busy or self.queueing._wake.is_set():
            return
        engine, stored = self.queueing.figures, self.stored.figures
        for name in self.api.names("clusterqueues"):
            ours, theirs = _numbers(stored, name), _numbers(engine, name)
            assert ours == theirs, (name, ours, theirs)
        for name in self.api.names("localqueues"):
            local, known = stored.local_queue(f"default/{name}"), engine.local_queue(f"default/{name}")
            assert (local is None) == (known is None)
            if local is not None and known is not None:
                assert (local.pending, local.holdings) == (known.pending, known.holdings), name

    async def kill(self) -> None:
        """The controller ends, whatever it was about to do."""
        await self._running.aclose()
        self._running = AsyncExitStack()

    async def restart(self) -> None:
        await self.kill()
        await self.start()

    # Time

    async def rest(self) -> None:
        """Let everything happen that needs no time."""
        await self.world.rest()

    async def pass_time(self, seconds: float) -> None:
        """Let time pass, with all that it brings, one timer after the other."""
        end = self.clock.monotonic() + seconds
        await self.rest()
        while (due := self.clock.next_due()) is not None and self.clock.monotonic() + due <= end:
            self.clock.advance(max(0.0, due))
            await self.rest()
        self.clock.advance(max(0.0, end - self.clock.monotonic()))
        await self.rest()

    # What others do

    async def apply(self, *objects: Any) -> None:
        """Create these, or give them another spec."""
        for made in objects:
            kind, manifest = _RESOURCES[made.KIND], manifest_of(made)
            stored = self.api.get(kind, made.name)
            if stored is None:
                await self.api.create(kind, manifest)
                if isinstance(made, AdmissionCheck):
                    status = encode(made)["status"]
                    await self.api.patch(kind, made.name, {"status": status}, subresource="status")
            else:
                await self.api.update(kind, {**stored, "spec": manifest["spec"]})
            await self.rest()

    async def submit(self, *workloads: Workload) -> None:
        await self.apply(*workloads)

    async def change(self, name: str, status: dict[str, Any]) -> None:
        await self.api.patch("workloads", name, {"status": status}, subresource="status")
        await self.rest()

    async def set_condition(self, name: str, kind: str, status: str, reason: str = "Test", message: str = "") -> None:
        found = conditions.with_condition(conditions.of(self.get(name)), kind, status, reason, message, self.now())
        await self.change(name, {"conditions": found})

    async def finish(self, name: str) -> None:
        await self.set_condition(name, "Finished", "True", "Succeeded")

    async def release(self, name: str, *, single_pod: bool = False) -> None:
        """The evicted job has stopped: the second phase."""
        patch = released(self.get(name), self.clock.now(), single_pod=single_pod)
        await self.change(name, patch["status"])

    async def set_active(self, name: str, *, active: bool) -> None:
        await self.api.patch("workloads", name, {"spec": {"active": active}})
        await self.rest()

    async def report(self, name: str, check: str, state: str, message: str = "", **more: Any) -> None:
        """A check comes to a verdict on a workload."""
        checks = [dict(one) for one in self.status(name)["admissionChecks"]]
        (found,) = [one for one in checks if one["name"] == check]
        found |= {"state": state, "message": message, "lastTransitionTime": self.now(), **more}
        await self.change(name, {"admissionChecks": checks})

    # Looking

    def now(self) -> str:
        return stamp(self.clock.now())

    def get(self, name: str) -> Manifest:
        found = self.api.get("workloads", name)
        assert found is not None, f"there is no workload {name}"
        return found

    def status(self, name: str) -> dict[str, Any]:
        status: dict[str, Any] = self.get(name).get("status") or {}
        return status

    def conditions(self, name: str) -> dict[str, tuple[str, str, str]]:
        """Status, reason and message, by type."""
        return {one["type"]: (one["status"], one["reason"], one["message"]) for one in conditions.of(self.get(name))}

    def state(self, name: str) -> str:
        """In the words of the recordings."""
        manifest = self.get(name)
        for kind, state in (("Finished", "finished"), ("Admitted", "admitted"), ("QuotaReserved", "reserved")):
            if conditions.is_true(manifest, kind):
                return state
        return "pending"

    def states(self) -> dict[str, str]:
        return {name: self.state(name) for name in sorted(self.api.names("workloads"))}

    async def told(self, name: str) -> set[tuple[str, str, str]]:
        """Type, reason and message of all events about a workload."""
        await self.recorder.flush()
        found = (self.api.get("events", event) for event in self.api.names("events"))
        return {
            (event["type"], event["reason"], event["message"])
            for event in found
            if event is not None and event["involvedObject"]["name"] == name
        }


def _numbers(figures: QueueFigures, name: str) -> object:
    found = figures.cluster_queue(name)
    assert found is not None
    quotas = {str(fr): quota for fr, quota in figures.quotas(name).items()}
    cohorts = {one.name: (one.parent, one.root, one.admitted) for one in figures.cohorts()}
    amounts = {
        one.name: sorted((str(fr), amount) for fr, amount in (*one.quota.items(), *one.reservation.items()))
        for one in figures.cohorts()
    }
    return found.activity, found.pending, found.holdings, found.cohorts, quotas, cohorts, amounts, figures.holders(name)


@asynccontextmanager
async def play(
    *objects: Any,
    configuration: Configuration | None = None,
    open_log: OpenLog | None = None,
    batch_seconds: float = BATCH_SECONDS,
    pace: Pace | None = None,
    staging: bool = True,
) -> AsyncIterator[Play]:
    """A controller at work, with these objects; in batches of so many seconds, or at a pace.

    Its client is able to stage writes, or not.
    """
    async with local_cluster(open_log, keepers=False) as world:
        made = Play(world, FixedConfiguration(configuration), batch_seconds, pace, staging=staging)
        for each in objects:
            await made.apply(each)
        await made.start()
        try:
            yield made
            assert made.queueing.engine.violations() == []
            await made.rest()
            if not made.refuses:
                made.check_stored_figures()
        finally:
            await made.kill()
