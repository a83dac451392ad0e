"""The events for the engine: changed Workloads, and flavors, queues, cohorts, checks, namespaces and nodes.

Most changes of the latter are of their status, which does not matter to the engine and would only cause new tries.
So each kind has a relevant part, and only a change of that part becomes an event.
"""

import logging
from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from typing import Final, NamedTuple

from fairway.admission import events
from fairway.admission.engine import Engine
from fairway.apis.core.node_views import NodeFacts, facts_of
from fairway.apis.kueue.manifests import typed
from fairway.apis.kueue.objects import AdmissionCheck, ClusterQueue, Cohort, LocalQueue, ResourceFlavor, Topology
from fairway.apis.machinery.keys import Key, key_of
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.client.informer import Informer
from fairway.controllers.admission.observe import StoredWorkload, arrival, difference, seen
from fairway.controllers.admission.topologies import TopologySource
from fairway.errors import ValidationError
from fairway.integrations import conditions
from fairway.integrations.workloads import namespaced_name

_log = logging.getLogger(__name__)


class WorkloadSource:
    """The cache of Workloads, and how the engine knows each of them."""

    def __init__(self, cluster: Cluster, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._cache = cluster.cache("workloads")
        self._seen: dict[str, StoredWorkload] = {}
        self._dirty: dict[str, None] = {}
        self.busy: Container[str] = ()
        """The Workloads that are being written; the writer requests a turn at the end."""
        self._cache.on_change(self._note)

    async def synced(self) -> None:
        await self._cache.synced.wait()

    def manifest(self, key: str) -> Manifest | None:
        """A Workload as it is cached; shared, so not to be changed."""
        namespace, _, name = key.partition("/")
        return self._cache.get(namespace, name)

    def seen(self, key: str) -> StoredWorkload | None:
        """A Workload as the engine has it."""
        return self._seen.get(key)

    def is_behind(self, key: str) -> bool:
        """Whether the engine does not have a change yet."""
        return key in self._dirty

    def everything(self, at: float) -> list[events.Event]:
        """All that is not finished, for an engine that knows nothing."""
        self._seen.clear()
        self._dirty.clear()
        told: list[events.Event] = []
        for manifest in self._cache.items():
            told += self._arrived(namespaced_name(manifest), manifest, at)
        return told

    def news(self, at: float, engine: Engine) -> tuple[list[events.Event], list[str]]:
        """What changed since it was last asked for, and of which Workloads.

        A Workload that is being written waits: whether a change is the write's own is known when that has ended.
        """
        if not self._dirty:
            return [], []
        changed = [key for key in self._dirty if key not in self.busy]
        told: list[events.Event] = []
        for key in changed:
            del self._dirty[key]
            told += self._changed(key, at, engine)
        return told, changed

    def wrote(self, key: str, manifest: Manifest) -> None:
        """Store the result of our own write, which the engine already assumes."""
        self._seen[key] = seen(manifest)
        cached = self.manifest(key)
        if cached is not None and cached["metadata"]["resourceVersion"] == manifest["metadata"]["resourceVersion"]:
            self._dirty.pop(key, None)

    def gone(self, key: str, at: float) -> list[events.Event]:
        """Let the engine forget a Workload."""
        return [events.WorkloadDeleted(at=at, key=key)] if self._seen.pop(key, None) is not None else []

    def read_again(self, keys: Iterable[str]) -> None:
        """Tell the engine of these as if they had changed."""
        self._dirty.update(dict.fromkeys(keys))
        self._wake()

    def _note(self, old: Manifest | None, new: Manifest | None) -> None:
        manifest = new if new is not None else old
        if manifest is not None:
            key = namespaced_name(manifest)
            self._dirty[key] = None
            if key not in self.busy:
                self._wake()

    def _changed(self, key: str, at: float, engine: Engine) -> list[events.Event]:
        manifest, before = self.manifest(key), self._seen.get(key)
        if manifest is None:
            return self.gone(key, at)
        record = engine.record(key)
        if before is None or (record is None and not before.finished):
            return [*self.gone(key, at), *self._arrived(key, manifest, at)]
        after = seen(manifest)
        if before.version == after.version and before.uid == after.uid:
            return []
        if record is None:
            return [] if after.finished and before.uid == after.uid else self._arrived(key, manifest, at)
        self._seen[key] = after
        try:
            return difference(before, after, manifest, record, at)
        except (ValueError, ValidationError) as error:
            _log.warning("ignoring invalid workload %s: %s", key, error)
            return self.gone(key, at)

    def _arrived(self, key: str, manifest: Manifest, at: float) -> list[events.Event]:
        known = self._seen[key] = seen(manifest)
        if known.finished:
            return []
        try:
            return arrival(manifest, at)
        except (ValueError, ValidationError) as error:
            _log.warning("ignoring invalid workload %s: %s", key, error)
            return []


class Topic(NamedTuple):
    """One kind: the part of its objects that matters, and the events that tell of it."""

    resource: str
    part: Callable[[Manifest], object]
    changed: Callable[[Manifest, float], events.Event]
    deleted: Callable[[Key, float], events.Event]


def _spec(manifest: Manifest) -> object:
    return manifest.get("spec")


def _spec_and_end(manifest: Manifest) -> object:
    return manifest.get("spec"), "deletionTimestamp" in manifest["metadata"]


def _labels(manifest: Manifest) -> dict[str, str]:
    labels: dict[str, str] = manifest["metadata"].get("labels") or {}
    return labels


def _limit_range(key: Key, limits: tuple[Manifest, ...] | None, at: float) -> events.Event:
    return events.LimitRangeChanged(at=at, namespace=key[0], name=key[1], limits=limits)


def _runtime_class(name: str, made: Manifest, at: float) -> events.Event:
    overhead = (made.get("overhead") or {}).get("podFixed")
    return events.RuntimeClassChanged(at=at, name=name, overhead=overhead)


TOPICS: Final = (
    Topic(
        "namespaces",
        _labels,
        lambda made, at: events.NamespaceChanged(at=at, name=made["metadata"]["name"], labels=_labels(made)),
        lambda key, at: events.NamespaceDeleted(at=at, name=key[1]),
    ),
    Topic(
        "topologies",
        _spec,
        lambda made, at: events.TopologyChanged(at=at, topology=typed(Topology, made)),
        lambda key, at: events.TopologyDeleted(at=at, name=key[1]),
    ),
    Topic(
        "limitranges",
        _spec,
        lambda made, at: _limit_range(key_of(made), tuple(made["spec"].get("limits") or ()), at),
        lambda key, at: _limit_range(key, None, at),
    ),
    Topic(
        "runtimeclasses.node.k8s.io",
        lambda made: made.get("overhead"),
        lambda made, at: _runtime_class(made["metadata"]["name"], made, at),
        lambda key, at: _runtime_class(key[1], {}, at),
    ),
    Topic(
        "resourceflavors",
        _spec,
        lambda made, at: events.FlavorChanged(at=at, flavor=typed(ResourceFlavor, made)),
        lambda key, at: events.FlavorDeleted(at=at, name=key[1]),
    ),
    Topic(
        "admissionchecks",
        lambda made: conditions.is_true(made, "Active"),
        lambda made, at: events.CheckChanged(at=at, check=typed(AdmissionCheck, made)),
        lambda key, at: events.CheckDeleted(at=at, name=key[1]),
    ),
    Topic(
        "cohorts",
        _spec,
        lambda made, at: events.CohortChanged(at=at, cohort=typed(Cohort, made)),
        lambda key, at: events.CohortDeleted(at=at, name=key[1]),
    ),
    Topic(
        "clusterqueues",
        _spec_and_end,
        lambda made, at: events.QueueChanged(at=at, queue=typed(ClusterQueue, made)),
        lambda key, at: events.QueueDeleted(at=at, name=key[1]),
    ),
    Topic(
        "localqueues",
        _spec,
        lambda made, at: events.LocalQueueChanged(at=at, queue=typed(LocalQueue, made)),
        lambda key, at: events.LocalQueueDeleted(at=at, namespace=key[0], name=key[1]),
    ),
)
"""In the order for the engine: referenced kinds come first."""


class _Watched:
    """One kind, and its last event."""

    __slots__ = ("cache", "dirty", "told", "topic")

    def __init__(self, topic: Topic, cache: Informer) -> None:
        self.topic = topic
        self.cache = cache
        self.told: dict[Key, object] = {}
        self.dirty: dict[Key, None] = {}

    def news(self, keys: Iterable[Key], at: float) -> Iterable[events.Event]:
        for key in keys:
            manifest = self.cache.get(*key)
            if manifest is None:
                if self.told.pop(key, None) is not None:
                    yield self.topic.deleted(key, at)
                continue
            part = (manifest["metadata"]["uid"], self.topic.part(manifest))
            known = self.told.get(key)
            if known == part:
                continue
            self.told[key] = part
            try:
                yield self.topic.changed(manifest, at)
            except ValidationError as error:
                _log.warning("ignoring invalid object: %s", error)


class _Nodes:
    """The nodes, told as a whole: there are few, and most changes of them say nothing new."""

    def __init__(self, cache: Informer, schedulers: frozenset[str], wake: Callable[[], None]) -> None:
        self.cache = cache
        self._schedulers = schedulers
        self._wake = wake
        self._told: tuple[NodeFacts, ...] = ()
        self._dirty = True
        cache.on_change(self._note)

    def news(self, at: float) -> list[events.Event]:
        if not self._dirty:
            return []
        self._dirty = False
        facts = tuple(sorted(map(lasting_facts, self.cache.items()), key=lambda one: one.name))
        if facts == self._told:
            return []
        self._told = facts
        return [events.NodesChanged(at=at, nodes=facts, schedulers=self._schedulers)]

    def everything(self, at: float) -> list[events.Event]:
        self._told, self._dirty = (), True
        return self.news(at)

    def _note(self, old: Manifest | None, new: Manifest | None) -> None:
        if old is None or new is None or lasting_facts(old) != lasting_facts(new):
            self._dirty = True
            self._wake()


def lasting_facts(node: Manifest) -> NodeFacts:
    """What counts of a node for good: a cordon and a node that is not ready pass."""
    return replace(facts_of(node), unschedulable=False, condition=())


class ClusterSources:
    """The caches of these kinds, and what of them the engine has not heard yet."""

    def __init__(self, cluster: Cluster, wake: Callable[[], None], schedulers: frozenset[str] | None = None) -> None:
        """`schedulers` place pods on nodes that are all known here; without them the engine gets no nodes."""
        self._wake = wake
        self._nodes = None if schedulers is None else _Nodes(cluster.cache("nodes"), schedulers, wake)
        self._placeable = TopologySource(cluster, wake)
        self._watched = [_Watched(topic, cluster.cache(topic.resource)) for topic in TOPICS]
        for watched in self._watched:
            watched.cache.on_change(self._note(watched))

    async def synced(self) -> None:
        for watched in self._watched:
            await watched.cache.synced.wait()
        if self._nodes is not None:
            await self._nodes.cache.synced.wait()
        await self._placeable.synced()

    def everything(self, at: float) -> list[events.Event]:
        """All that is there, for an engine that knows nothing."""
        told: list[events.Event] = [] if self._nodes is None else self._nodes.everything(at)
        told += self._placeable.everything(at)
        for watched in self._watched:
            watched.told.clear()
            watched.dirty.clear()
            told += watched.news([key_of(manifest) for manifest in watched.cache.items()], at)
        return told

    def news(self, at: float) -> list[events.Event]:
        """All that changed since it was last asked for."""
        told: list[events.Event] = [] if self._nodes is None else self._nodes.news(at)
        told += self._placeable.news(at)
        for watched in self._watched:
            if watched.dirty:
                keys, watched.dirty = watched.dirty, {}
                told += watched.news(keys, at)
        return told

    def _note(self, watched: _Watched) -> Callable[[Manifest | None, Manifest | None], None]:
        def note(old: Manifest | None, new: Manifest | None) -> None:
            changed = new if new is not None else old
            if changed is not None:
                watched.dirty[key_of(changed)] = None
                self._wake()

        return note
