"""Recorded worlds of `tests/conformance`, played through the API of a cluster whose workloads Fairway admits.

The player does what the player of the recordings did: it creates and changes objects, finishes Workloads, and stands
for the job controller, which stops evicted jobs and releases their quota. All decisions are those of the controller at
the other end. A step is over when nothing changes any more; then the stored objects are compared with the recording.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fairway.apis.kueue.manifests import load
from fairway.apis.machinery.kind import Kind
from fairway.apis.registry import Registry, default_registry
from fairway.client.cluster import Cluster
from fairway.client.http.client import HttpClient
from fairway.client.http.transport import open_transport
from fairway.client.protocol import Scope
from fairway.errors import AlreadyExists, ApiError, Conflict, NotFound
from fairway.runtime.clock import SystemClock
from fairway.runtime.parts import running, unless
from fairway.testing.conformance import COMPARED, RELEASE_SECONDS, Disagreement

Json = dict[str, Any]
WORKLOADS = "workloads.kueue.x-k8s.io"

AT_ONCE = int(os.environ.get("FAIRWAY_WORLDS_AT_ONCE", "60"))
"""Worlds that are played beside each other: they share no queue, cohort or flavor. Fewer on a machine that is busy."""

REST_SECONDS = 1.75
"""A step is over when its outcome is as recorded and nothing changed for so long: Kueue collects wake-ups for 1 s."""

REST_SECONDS_WITH_COHORTS = 2.75
"""With Cohort objects a changed status wakes waiting workloads, too, another second later."""

GIVE_UP_SECONDS = 12.0
"""Another outcome than the recorded one stands when nothing changed for so long, and the controller answers."""

PATIENCE = 600.0
_POLL_SECONDS = 0.1


async def play(
    kubeconfig: Path, worlds: Iterable[Json], ended: Callable[[list[Disagreement]], None]
) -> dict[str, list[Disagreement]]:
    """The differences of every world, by its namespace; `ended` is called at the end of each."""
    clock, registry = SystemClock(), default_registry()
    async with open_transport(kubeconfig, "", clock) as transport:
        client = PatientClient(transport, clock, "player")
        cluster = Cluster(lambda _: client, registry, clock)
        workloads = cluster.cache(WORKLOADS)
        probe = Probe(client, registry, lambda name: workloads.get(Probe.NAME, name))
        players = {world["namespace"]: Player(world, client, registry, probe) for world in worlds}

        def see(old: Json | None, new: Json | None) -> None:
            player = players.get((new or old or {})["metadata"]["namespace"])
            if player is not None:  # else the probe's, or of an earlier play that broke off
                player.see(old, new)

        workloads.on_change(see)
        room = asyncio.Semaphore(AT_ONCE)

        async def one(player: Player) -> list[Disagreement]:
            async with room:
                differences = await player.play()
            ended(differences)
            return differences

        async with running(cluster) as broken:
            await unless(broken, cluster.synced())
            await probe.begin()
            found = await asyncio.gather(*(one(player) for player in players.values()))
        return dict(zip(players, found, strict=True))


class Probe:
    """Whether the controller has come to what was asked of it before now: on a busy machine that may take long."""

    NAME = "probe"

    def __init__(self, client: HttpClient, registry: Registry, stored: Callable[[str], Json | None]) -> None:
        self._client = client
        self._registry = registry
        self._stored = stored
        self._number = 0

    async def begin(self) -> None:
        """A queue of its own."""
        quota = {"name": self.NAME, "resources": [{"name": "cpu", "nominalQuota": "1M"}]}
        group = {"coveredResources": ["cpu"], "flavors": [quota]}
        objects: dict[str, Json] = {
            "namespaces": {},
            "resourceflavors": {"spec": {}},
            "clusterqueues": {"spec": {"namespaceSelector": {}, "resourceGroups": [group]}},
            "localqueues": {"spec": {"clusterQueue": self.NAME}},
        }
        for resource, content in objects.items():
            kind = self._registry.named(resource if resource == "namespaces" else f"{resource}.kueue.x-k8s.io")
            metadata = {"name": self.NAME, **({"namespace": self.NAME} if kind.namespaced else {})}
            with suppress(AlreadyExists):
                await self._client.create(kind, _typed(kind, {"metadata": metadata, **content}))

    async def answered(self) -> None:
        """A new Workload was admitted, so that everything before it was seen."""
        self._number += 1
        kind, name = self._registry.named(WORKLOADS), f"{self.NAME}-{self._number}"
        container = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
        pods = {"name": "main", "count": 1, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
        metadata = {"name": name, "namespace": self.NAME}
        spec = {"queueName": self.NAME, "podSets": [pods]}
        await self._client.create(kind, _typed(kind, {"metadata": metadata, "spec": spec}))
        async with asyncio.timeout(PATIENCE):
            while not _is_true(_conditions(self._stored(name) or {}), "Admitted"):  # noqa: ASYNC110 - by another process
                await asyncio.sleep(_POLL_SECONDS)
        await self._client.delete(kind, self.NAME, name)


def _typed(kind: Kind, manifest: Json) -> Json:
    version = f"{kind.group}/{kind.stored}" if kind.group else kind.stored
    return {"apiVersion": version, "kind": kind.kind, **manifest}


class PatientClient(HttpClient):
    """Tries again what the webhook of a busy controller did not answer in time."""

    async def create(self, *arguments: Any, **options: Any) -> Any:
        return await _answered(super().create, *arguments, **options)

    async def update(self, *arguments: Any, **options: Any) -> Any:
        return await _answered(super().update, *arguments, **options)

    async def patch(self, *arguments: Any, **options: Any) -> Any:
        return await _answered(super().patch, *arguments, **options)


async def _answered(call: Callable[..., Awaitable[Any]], *arguments: Any, **options: Any) -> Any:
    while True:
        try:
            return await call(*arguments, **options)
        except ApiError as error:
            if "failed calling webhook" not in str(error):
                raise
            await asyncio.sleep(_POLL_SECONDS)


@dataclass
class Player:
    """One world."""

    world: Json
    client: HttpClient
    registry: Registry
    probe: Probe
    workloads: dict[str, Json] = field(default_factory=dict)
    changed_at: float = 0.0
    stopping: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def namespace(self) -> str:
        return str(self.world["namespace"])

    async def play(self) -> list[Disagreement]:
        """All steps, until one ends differently; nothing of the world is left."""
        objects = [("namespaces", {"metadata": {"name": self.namespace}})]
        objects += [(load(one).KIND.lower() + "s.kueue.x-k8s.io", one) for one in self.world["objects"]]
        for resource, manifest in objects:
            try:
                await self.client.create(self.registry.named(resource), manifest)
            except AlreadyExists:
                if resource != "namespaces":  # it would take a controller manager to remove it
                    raise
        try:
            for number, step in enumerate(self.world["trace"]):
                await self._do(**step["do"])
                differences = await self._settle(number, step["expect"])
                if differences:
                    return differences
            return []
        finally:
            await self._clean(objects[1:])

    def see(self, old: Json | None, new: Json | None) -> None:
        """A Workload changed. An evicted one is stopped a moment later, as the player of the recordings did."""
        self.changed_at = asyncio.get_running_loop().time()
        if new is None:
            assert old is not None
            self.workloads.pop(old["metadata"]["name"], None)
            return
        name = new["metadata"]["name"]
        before, self.workloads[name] = self.workloads.get(name, {}), new
        if _is_stopping(new) and not _is_stopping(before):
            task = asyncio.create_task(self._release(name))
            self.stopping.add(task)
            task.add_done_callback(self.stopping.discard)

    # Steps

    async def _do(self, **step: Any) -> None:
        ((verb, subject),) = step.items()
        match verb:
            case "create":
                await self.client.create(self._kind(WORKLOADS), subject)
            case "delete":
                await self.client.delete(self._kind(WORKLOADS), self.namespace, subject)
            case "finish":
                await self._set_conditions(subject, Finished=("True", "JobFinished", "Job finished successfully"))
            case "deactivate" | "activate":
                await self._patch(WORKLOADS, subject, {"active": verb == "activate"})
            case "setPriority":
                await self._patch(WORKLOADS, subject["name"], {"priority": subject["priority"]})
            case "reclaim":
                await self._reclaim(subject["name"], subject["podSet"], subject["count"])
            case "setQuota":
                await self._patch(
                    "clusterqueues", subject["clusterQueue"], {"resourceGroups": subject["resourceGroups"]}
                )
            case "setCohort":
                await self._set_cohort(subject["name"], subject["spec"])
            case "hold" | "drain" | "resume" | "holdLocalQueue" | "drainLocalQueue" | "resumeLocalQueue":
                resource = "localqueues" if verb.endswith("LocalQueue") else "clusterqueues"
                policy = {"hold": "Hold", "drain": "HoldAndDrain", "resume": "None"}[verb.removesuffix("LocalQueue")]
                await self._patch(resource, subject, {"stopPolicy": policy})
            case _:
                raise AssertionError(f"step {verb!r} cannot be played through the API")

    async def _patch(self, resource: str, name: str, spec: Json) -> None:
        await self.client.patch(self._kind(resource), self._place(resource), name, {"spec": spec})

    async def _set_cohort(self, name: str, spec: Json) -> None:
        kind = self._kind("cohorts")
        try:
            stored = await self.client.get(kind, "", name)
            await self.client.update(kind, {**stored, "spec": spec})
        except NotFound:
            await self.client.create(kind, {"metadata": {"name": name}, "spec": spec})

    async def _reclaim(self, name: str, pod_set: str, count: int) -> None:
        stored = await self.client.get(self._kind(WORKLOADS), self.namespace, name)
        counts = {one["name"]: one["count"] for one in stored.get("status", {}).get("reclaimablePods") or ()}
        reclaimable = [{"name": key, "count": value} for key, value in {**counts, pod_set: count}.items()]
        status = {"status": {"reclaimablePods": reclaimable}}
        await self.client.patch(self._kind(WORKLOADS), self.namespace, name, status, subresource="status")

    # The job controller

    async def _release(self, name: str) -> None:
        await asyncio.sleep(RELEASE_SECONDS)
        found = self.workloads.get(name)
        if found is None or not _is_stopping(found):
            return
        evicted = _conditions(found)["Evicted"]
        why = evicted["reason"], evicted["message"]
        again = "False" if evicted["reason"].startswith("Deactivated") else "True"
        conditions = {
            "QuotaReserved": ("False", "Pending", why[1]),
            "Admitted": ("False", "NoReservation", "The workload has no reservation"),
            "Requeued": (again, *why),
        }
        with suppress(NotFound):  # it may have been deleted while it stopped
            await self._set_conditions(name, admission=None, **conditions)

    async def _set_conditions(self, name: str, /, *, admission: object = ..., **changes: tuple[str, str, str]) -> None:
        while True:
            stored = await self.client.get(self._kind(WORKLOADS), self.namespace, name)
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            conditions = _conditions(stored)
            for kind, (status, reason, message) in changes.items():
                before = conditions.get(kind, {})
                since = before["lastTransitionTime"] if before.get("status") == status else now
                new = {"type": kind, "status": status, "reason": reason, "message": message}
                conditions[kind] = {**new, "lastTransitionTime": since}
            patch: Json = {
                "metadata": {"resourceVersion": stored["metadata"]["resourceVersion"]},
                "status": {"conditions": list(conditions.values())},
            }
            if admission is not ...:
                patch["status"]["admission"] = admission
            try:
                await self.client.patch(self._kind(WORKLOADS), self.namespace, name, patch, subresource="status")
            except Conflict:
                continue
            return

    # Rest

    async def _settle(self, number: int, expected: Json) -> list[Disagreement]:
        loop = asyncio.get_running_loop()
        began, with_cohorts = loop.time(), any(one["kind"] == "Cohort" for one in self.world["objects"])
        rest = REST_SECONDS_WITH_COHORTS if with_cohorts else REST_SECONDS
        while True:
            differences = list(self._differences(number, expected))
            quiet = loop.time() - max(began, self.changed_at)
            if not differences and quiet >= rest:
                return []
            if differences and (quiet >= GIVE_UP_SECONDS or loop.time() - began > PATIENCE):
                seen = self.changed_at
                await self.probe.answered()
                await asyncio.sleep(rest)
                await self.probe.answered()
                if seen == self.changed_at or loop.time() - began > PATIENCE:  # some never come to rest
                    return differences
            await asyncio.sleep(_POLL_SECONDS)

    def _differences(self, number: int, expected: Json) -> Iterator[Disagreement]:
        for name in sorted(expected.keys() | self.workloads.keys()):
            want, found = expected.get(name), self.workloads.get(name)
            got = None if found is None else self._outcome(found)
            for what, one, other in _compared(want, got):
                yield Disagreement(self.world["file"], self.world["seed"], number, name, what, one, other)

    def _outcome(self, workload: Json) -> Json:
        """A stored Workload in the words of the recordings."""
        status, conditions = workload.get("status") or {}, _conditions(workload)
        states = {"Finished": "finished", "Admitted": "admitted", "QuotaReserved": "reserved"}
        state = next((word for kind, word in states.items() if _is_true(conditions, kind)), "pending")
        found: Json = {"state": state}
        if conditions:
            found["tried"] = True
        if state in {"admitted", "reserved"}:
            prefix = f"{self.namespace}-"
            found["assignments"] = {
                one["name"]: {
                    "count": one["count"],
                    "flavors": {key: value.removeprefix(prefix) for key, value in (one.get("flavors") or {}).items()},
                }
                for one in status["admission"]["podSetAssignments"]
            }
        evictions: dict[str, int] = {}
        for one in (status.get("schedulingStats") or {}).get("evictions") or ():
            evictions[one["reason"]] = evictions.get(one["reason"], 0) + one["count"]
        if evictions:
            found["evictions"] = evictions
        if _is_true(conditions, "Preempted"):
            found["preempted"] = conditions["Preempted"]["reason"]
        return found

    # The end

    async def _clean(self, objects: list[tuple[str, Json]]) -> None:
        """Delete everything but the namespace, and wait until it is gone."""
        for task in self.stopping:
            task.cancel()
        listed = await self.client.list(self._kind(WORKLOADS), Scope(namespace=self.namespace))
        steps = [one["do"] for one in self.world["trace"]]
        names = [(WORKLOADS, one["metadata"]["name"]) for one in listed.items]
        names += [(resource, one["metadata"]["name"]) for resource, one in reversed(objects)]
        names += [("cohorts", one["setCohort"]["name"]) for one in steps if "setCohort" in one]
        for resource, name in names:
            with suppress(NotFound):
                await self.client.delete(self._kind(resource), self._place(resource), name)
        async with asyncio.timeout(PATIENCE):
            for resource, name in names:
                while await self._exists(resource, name):  # noqa: ASYNC110 - it is gone in another process
                    await asyncio.sleep(_POLL_SECONDS)

    async def _exists(self, resource: str, name: str) -> bool:
        try:
            await self.client.get(self._kind(resource), self._place(resource), name)
        except NotFound:
            return False
        return True

    def _place(self, resource: str) -> str:
        return self.namespace if self._kind(resource).namespaced else ""

    def _kind(self, resource: str) -> Kind:
        return self.registry.named(resource if "." in resource else f"{resource}.kueue.x-k8s.io")


def _compared(want: Json | None, got: Json | None) -> Iterator[tuple[str, object, object]]:
    if want is None or got is None:
        yield "existence", want, got
        return
    yield from ((one, want.get(one), got.get(one)) for one in COMPARED if want.get(one) != got.get(one))
    if "why" in want and "tried" not in got:
        yield "message", want["why"], None


def _conditions(workload: Json) -> dict[str, Json]:
    return {one["type"]: one for one in (workload.get("status") or {}).get("conditions") or ()}


def _is_true(conditions: dict[str, Json], kind: str) -> bool:
    return bool(conditions.get(kind, {}).get("status") == "True")


def _is_stopping(workload: Json) -> bool:
    conditions = _conditions(workload)
    return _is_true(conditions, "Evicted") and _is_true(conditions, "QuotaReserved")
