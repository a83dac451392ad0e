"""The start of a simulation: objects, Workloads, jobs to come; and the player made from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct

from fairway.admission import events
from fairway.admission.config import Config
from fairway.apis.machinery.kind import Manifest
from fairway.controllers.admission.observe import arrival, seen
from fairway.controllers.admission.sources import TOPICS, lasting_facts
from fairway.errors import ValidationError
from fairway.integrations import conditions
from fairway.integrations.workloads import namespaced_name
from fairway.simulate.estimates import Estimate
from fairway.simulate.jobs import PresentJob, TraceJob
from fairway.simulate.player import Player

KINDS: Final = {
    "Namespace": "namespaces",
    "ResourceFlavor": "resourceflavors",
    "AdmissionCheck": "admissionchecks",
    "Cohort": "cohorts",
    "ClusterQueue": "clusterqueues",
    "LocalQueue": "localqueues",
    "Node": "nodes",
}
"""The kinds that decide, and their resources."""

ObjectKey = tuple[str, str, str]


class PresentWorkload(Struct, gc=False):
    """A stored Workload, and what is known of its run time."""

    manifest: Manifest
    estimate: Estimate = Estimate()
    name: str = ""
    """What its owner calls the job."""

    user: str = ""
    owner: Manifest | None = None


class Scenario(Struct, kw_only=True):
    """Everything that a simulation starts from."""

    at: float
    config: Config = Config()
    objects: dict[ObjectKey, Manifest] = {}
    """By kind, namespace and name."""

    workloads: list[PresentWorkload] = []
    jobs: list[TraceJob] = []
    schedulers: frozenset[str] | None = None
    """Who places pods on the nodes that are there; `None` where quota alone decides."""

    release_seconds: float = 0.0

    def of_kind(self, kind: str) -> Iterator[Manifest]:
        return (manifest for (of, _, _), manifest in self.objects.items() if of == kind)

    def put(self, manifest: Manifest) -> None:
        """Add an object, or replace it."""
        self.objects[object_key(manifest)] = manifest

    def copy(self) -> Scenario:
        """One that can be changed; objects are replaced, never changed in place."""
        return msgspec.structs.replace(
            self, objects=dict(self.objects), workloads=list(self.workloads), jobs=list(self.jobs)
        )

    def cluster_queue_of(self, namespace: str, local_queue: str) -> str:
        found = self.objects.get(("LocalQueue", namespace, local_queue))
        return str((found or {}).get("spec", {}).get("clusterQueue") or "")


def object_key(manifest: Manifest) -> ObjectKey:
    metadata = manifest["metadata"]
    return manifest["kind"], metadata.get("namespace", ""), metadata["name"]


def by_key(manifests: Iterable[Manifest]) -> dict[ObjectKey, Manifest]:
    """The objects that matter, by their keys."""
    return {object_key(one): one for one in manifests if one.get("kind") in KINDS}


def surroundings(scenario: Scenario) -> list[events.Event]:
    """What tells an engine of everything but Workloads."""
    at = scenario.at
    told: list[events.Event] = []
    by_resource: dict[str, list[Manifest]] = {}
    for (kind, _, _), manifest in scenario.objects.items():
        by_resource.setdefault(KINDS[kind], []).append(manifest)
    if scenario.schedulers is not None and (nodes := by_resource.get("nodes")):
        facts = tuple(sorted(map(lasting_facts, nodes), key=lambda one: one.name))
        told.append(events.NodesChanged(at=at, nodes=facts, schedulers=scenario.schedulers))
    for topic in TOPICS:
        told += [topic.changed(manifest, at) for manifest in by_resource.get(topic.resource, ())]
    return told


def arrivals(scenario: Scenario) -> Iterator[tuple[PresentWorkload, tuple[events.Event, ...], float | None]]:
    """Each Workload that is not finished, what tells of it, and since when it runs; invalid ones are left out."""
    for workload in scenario.workloads:
        manifest = workload.manifest
        stored = seen(manifest)
        if stored.finished:
            continue
        try:
            told = tuple(arrival(manifest, scenario.at))
        except (ValueError, ValidationError):
            continue
        yield workload, told, running_since(manifest) if stored.counts and stored.admitted else None


def running_since(workload: Manifest) -> float:
    """When the Workload was admitted."""
    condition = conditions.find(workload, conditions.ADMITTED) or {}
    return moment(condition.get("lastTransitionTime")) or moment(workload["metadata"]["creationTimestamp"]) or 0.0


def moment(text: Any) -> float | None:
    """A time of a manifest in seconds since the epoch."""
    return datetime.fromisoformat(str(text)).timestamp() if text else None


class PreparedScenario(Struct):
    """A scenario read once, to be played many times."""

    scenario: Scenario
    told: list[events.Event]
    present: list[tuple[PresentWorkload, tuple[events.Event, ...], float | None]]

    @classmethod
    def of(cls, scenario: Scenario) -> PreparedScenario:
        return cls(scenario, surroundings(scenario), list(arrivals(scenario)))

    def player(self, draw: Callable[[], float] = lambda: 0.5) -> Player:
        """A player in which the run time of each Workload is drawn: the middle one unless said otherwise."""
        scenario = self.scenario
        present = (
            PresentJob(
                key=namespaced_name(workload.manifest),
                arrival=told,
                submitted=scenario.at if since is None else since,
                seconds=workload.estimate.seconds(draw(), 0.0 if since is None else max(0.0, scenario.at - since)),
                since=since,
            )
            for workload, told, since in self.present
        )
        return Player(
            scenario.config,
            self.told,
            present,
            scenario.jobs,
            at=scenario.at,
            release_seconds=scenario.release_seconds,
        )
