"""What ends up in the store is what Kueue decided: some recorded worlds, played through the API."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controllers.manifests import released
from fairway.apis.kueue.configuration import Configuration, FairSharingPolicy
from fairway.integrations import conditions
from fairway.testing.conformance import COMPARED, RELEASE_SECONDS, STEP_SECONDS, read_worlds

from .plays import NAMESPACE, Play, play

RECORDINGS = sorted((Path(__file__).parents[2] / "conformance" / "data").glob("*.jsonl.gz"))
EVERY = 61
"""Only one in so many: all of them are played with the engine alone."""

KUEUES_BATCH_SECONDS = 1.0
RESOURCES = {
    "ResourceFlavor": "resourceflavors",
    "ClusterQueue": "clusterqueues",
    "LocalQueue": "localqueues",
    "Cohort": "cohorts",
}
STOP_POLICIES = {
    "hold": ("clusterqueues", "Hold"),
    "drain": ("clusterqueues", "HoldAndDrain"),
    "resume": ("clusterqueues", "None"),
    "holdLocalQueue": ("localqueues", "Hold"),
    "drainLocalQueue": ("localqueues", "HoldAndDrain"),
    "resumeLocalQueue": ("localqueues", "None"),
}


def worlds() -> Iterator[Any]:
    for path in RECORDINGS:
        for world in list(read_worlds(path))[::EVERY]:
            yield pytest.param(world, id=f"{path.name.partition('.')[0]} seed {world['seed']}")


class Player:
    """Does the steps, and is the job controller: whoever is evicted gives its quota back a second later."""

    def __init__(self, on_stage: Play, prefix: str) -> None:
        self.on_stage = on_stage
        self.prefix = prefix

    async def step(self, action: dict[str, Any]) -> None:
        ((verb, subject),) = action.items()
        api = self.on_stage.api
        match verb:
            case "create":
                await api.create("workloads", subject)
            case "finish":
                await self.on_stage.finish(subject)
            case "delete":
                await api.delete("workloads", subject)
            case "deactivate" | "activate":
                await self.on_stage.set_active(subject, active=verb == "activate")
            case "setPriority":
                await api.patch("workloads", subject["name"], {"spec": {"priority": subject["priority"]}})
            case "reclaim":
                counted = self.on_stage.status(subject["name"]).get("reclaimablePods") or []
                kept = [one for one in counted if one["name"] != subject["podSet"]]
                done = [*kept, {"name": subject["podSet"], "count": subject["count"]}]
                await self.on_stage.change(subject["name"], {"reclaimablePods": done})
            case "setQuota":
                groups = {"resourceGroups": subject["resourceGroups"]}
                await api.patch("clusterqueues", subject["clusterQueue"], {"spec": groups})
            case "setCohort":
                await self._set_cohort(subject)
            case _:
                kind, policy = STOP_POLICIES[verb]
                await api.patch(kind, subject, {"spec": {"stopPolicy": policy}})
        await self.rest()

    async def _set_cohort(self, change: dict[str, Any]) -> None:
        api = self.on_stage.api
        stored = api.get("cohorts", change["name"])
        if stored is None:
            await api.create("cohorts", {"metadata": {"name": change["name"]}, "spec": change["spec"]})
        else:
            await api.update("cohorts", {**stored, "spec": change["spec"]})

    async def rest(self) -> None:
        """Until the next step."""
        stage = self.on_stage
        end = stage.clock.monotonic() // STEP_SECONDS * STEP_SECONDS + STEP_SECONDS
        while stage.clock.monotonic() < end:
            await stage.rest()
            evicted = self._evicted()
            left = end - stage.clock.monotonic()
            await stage.pass_time(RELEASE_SECONDS if evicted else min(left, stage.clock.next_due() or left))
            await asyncio.gather(*(self._release(name) for name in evicted))  # at once, so that no one of them is first

    async def _release(self, name: str) -> None:
        patch = released(self.on_stage.get(name), self.on_stage.clock.now())
        await self.on_stage.api.patch("workloads", name, patch, subresource="status")

    def _evicted(self) -> list[str]:
        found = []
        for name in self.on_stage.states():
            manifest = self.on_stage.get(name)
            if conditions.is_true(manifest, "Evicted") and conditions.is_true(manifest, "QuotaReserved"):
                found.append(name)
        return found

    def outcome(self) -> dict[str, dict[str, Any]]:
        """What the store says of every workload, in the recordings' words."""
        return {name: self._described(name, state) for name, state in self.on_stage.states().items()}

    def _described(self, name: str, state: str) -> dict[str, Any]:
        status = self.on_stage.status(name)
        described: dict[str, Any] = {"state": state}
        if state in ("reserved", "admitted"):
            described["assignments"] = {
                given["name"]: {
                    "count": given["count"],
                    "flavors": {name: flavor.removeprefix(self.prefix) for name, flavor in given["flavors"].items()},
                }
                for given in status["admission"]["podSetAssignments"]
            }
        evictions = status.get("schedulingStats", {}).get("evictions", [])
        if evictions:
            described["evictions"] = {one["reason"]: one["count"] for one in evictions}
        preempted = conditions.find(self.on_stage.get(name), "Preempted")
        if preempted is not None and preempted["status"] == "True":
            described["preempted"] = preempted["reason"]
        return described


def _at_home(world: dict[str, Any]) -> dict[str, Any]:
    """The same world in the namespace that is there."""
    text = msgspec.json.encode(world).replace(f'"{world["namespace"]}"'.encode(), f'"{NAMESPACE}"'.encode())
    return {**msgspec.json.decode(text), "namespace": world["namespace"]}


@pytest.mark.parametrize("recorded", list(worlds()))
def test_what_is_stored_after_every_step_is_what_kueue_stored(recorded: dict[str, Any]) -> None:
    async def scenario() -> None:
        world = _at_home(recorded)
        configuration = Configuration(fair_sharing=FairSharingPolicy() if world.get("fairSharing") else None)
        async with play(configuration=configuration, batch_seconds=KUEUES_BATCH_SECONDS) as on_stage:
            for manifest in world["objects"]:
                await on_stage.api.create(RESOURCES[manifest["kind"]], manifest)
            player = Player(on_stage, f"{world['namespace']}-")
            await player.rest()
            for number, step in enumerate(world["trace"]):
                await player.step(step["do"])
                got = player.outcome()
                want = {
                    name: {field: expected[field] for field in COMPARED if field in expected}
                    for name, expected in step["expect"].items()
                }
                assert (number, got) == (number, want)

    asyncio.run(scenario())
