"""Writes down what the engine's figures say of each queue: soon after a quiet time, then at most once a second.

A change of anything that a status depends on marks the queue. A marked queue is looked at a moment later, and its
status is written if it differs. The engine may get a change after this controller, so every queue that was marked or
written is looked at once more a second later, until that finds nothing new: the last state is always written.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from fairway.admission.port import Decider
from fairway.apis.machinery.keys import key_of
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.controllers.kit.configuration import ConfigurationSource
from fairway.controllers.kit.workloads import WORKLOADS
from fairway.controllers.queuestatus import decide
from fairway.controllers.queuestatus.finalizers import (
    CHECKS,
    CLUSTER_QUEUES,
    FLAVORS,
    InUseFinalizers,
    checks_of,
    flavors_of,
)
from fairway.errors import FairwayError
from fairway.integrations.workloads import namespaced_name
from fairway.runtime.worker import Worker

LOCAL_QUEUES: Final = "localqueues.kueue.x-k8s.io"
COHORTS: Final = "cohorts.kueue.x-k8s.io"

_NOTHING: Final[dict[str, Any]] = {}

FIRST_SECONDS: Final = 0.05
BATCH_SECONDS: Final = 1.0

Key = tuple[str, str, str]
"""Resource, namespace, name."""


class QueueStatuses:
    """Keeps the statuses of all queues and cohorts, and the finalizers of what they use."""

    def __init__(self, cluster: Cluster, decider: Decider, configuration: ConfigurationSource) -> None:
        self._clock = cluster.clock
        self._decider = decider
        self._configuration = configuration
        self._writer = cluster.writer("fairway-queues")
        self._finalizers = InUseFinalizers(cluster, decider)
        self._worker: Worker[Key] = Worker("queue statuses", self._clock, self._reconcile, parallel=8)
        self._caches = {name: cluster.cache(name) for name in (CLUSTER_QUEUES, LOCAL_QUEUES, COHORTS)}
        self._marked: set[Key] = set()
        self._written: dict[Key, float] = {}
        self._leads_to: dict[tuple[str, str], str] = {}
        """The ClusterQueue of each LocalQueue."""

        self._led_here: dict[str, set[tuple[str, str]]] = {}
        """The LocalQueues of each ClusterQueue."""

        self._caches[LOCAL_QUEUES].on_change(self._local_queue_changed)
        self._caches[CLUSTER_QUEUES].on_change(self._cluster_queue_changed)
        self._caches[COHORTS].on_change(self._cohort_changed)
        cluster.cache(FLAVORS).on_change(lambda old, new: self._dependency_changed(flavors_of, old, new))
        cluster.cache(CHECKS).on_change(lambda old, new: self._dependency_changed(checks_of, old, new))
        cluster.cache(WORKLOADS).on_change(self._workload_changed)
        configuration.on_change(lambda _: self._mark_all())

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._worker.run())
            group.create_task(self._finalizers.run())

    # What happened

    def _mark(self, key: Key) -> None:
        if key in self._marked:
            return
        self._marked.add(key)
        last = self._written.get(key)
        quiet = BATCH_SECONDS if last is None else self._clock.monotonic() - last
        self._worker.add_after(key, max(FIRST_SECONDS, BATCH_SECONDS - quiet))

    def _mark_all(self) -> None:
        for resource, cache in self._caches.items():
            for manifest in cache.items():
                self._mark((resource, *key_of(manifest)))

    def _workload_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        place = None
        if new is not None:
            place = self._place_of(new)
            self._mark_place(place)
        if old is not None and (before := self._place_of(old)) != place:
            self._mark_place(before)

    def _place_of(self, workload: Manifest) -> tuple[str, str, str | None]:
        """Its namespace, its LocalQueue and its ClusterQueue, as far as it has them."""
        namespace, local_queue = workload["metadata"]["namespace"], workload["spec"].get("queueName", "")
        admission = (workload.get("status") or _NOTHING).get("admission")
        cluster_queue = admission["clusterQueue"] if admission else self._leads_to.get((namespace, local_queue))
        return namespace, local_queue, cluster_queue

    def _mark_place(self, place: tuple[str, str, str | None]) -> None:
        namespace, local_queue, cluster_queue = place
        self._mark((LOCAL_QUEUES, namespace, local_queue))
        if cluster_queue:
            self._mark((CLUSTER_QUEUES, "", cluster_queue))

    def _local_queue_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if not _is_news(old, new):
            return
        place = key_of(new or old or {})
        before = self._leads_to.pop(place, "")
        self._led_here.get(before, set()).discard(place)
        after = str((new.get("spec") or {}).get("clusterQueue") or "") if new is not None else ""
        if after:
            self._leads_to[place] = after
            self._led_here.setdefault(after, set()).add(place)
        self._mark((LOCAL_QUEUES, *place))
        for cluster_queue in {before, after} - {""}:
            self._mark((CLUSTER_QUEUES, "", cluster_queue))

    def _cluster_queue_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if not _is_news(old, new):
            return
        name = (new or old or {})["metadata"]["name"]
        self._mark((CLUSTER_QUEUES, "", name))
        if old is None or new is None:
            self._mark_local_queues_of(name)

    def _cohort_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if _is_news(old, new):
            self._mark((COHORTS, "", (new or old or {})["metadata"]["name"]))

    def _dependency_changed(
        self, used_by: Callable[[Manifest], set[str]], old: Manifest | None, new: Manifest | None
    ) -> None:
        name = (new or old or {})["metadata"]["name"]
        for cluster_queue in self._caches[CLUSTER_QUEUES].items():
            if name in used_by(cluster_queue):
                self._mark((CLUSTER_QUEUES, "", cluster_queue["metadata"]["name"]))

    def _mark_local_queues_of(self, cluster_queue: str) -> None:
        for place in self._led_here.get(cluster_queue, ()):
            self._mark((LOCAL_QUEUES, *place))

    # What to write

    async def _reconcile(self, key: Key) -> float | None:
        was_marked = key in self._marked
        self._marked.discard(key)
        resource, namespace, name = key
        manifest = self._caches[resource].get(namespace, name)
        if manifest is None:
            self._written.pop(key, None)
            return None
        wanted = self._wanted(resource, manifest)
        if wanted is None:
            return BATCH_SECONDS  # the engine does not have it yet
        old = manifest.get("status") or {}
        patch = decide.changes(old, wanted)
        if patch:
            try:
                await self._writer.patch(resource, manifest, {"status": patch}, subresource="status", locked=True)
            except FairwayError:
                self._marked.add(key)
                raise
            self._written[key] = self._clock.monotonic()
            if resource == CLUSTER_QUEUES and decide.is_active(old) != decide.is_active(wanted):
                self._mark_local_queues_of(name)
        return BATCH_SECONDS if was_marked or patch else self._next_sample(resource)

    def _wanted(self, resource: str, manifest: Manifest) -> decide.Status | None:
        figures, now = self._decider.figures, self._clock.now()
        configuration = self._configuration.value
        fair_sharing = configuration.fair_sharing is not None
        metadata = manifest["metadata"]
        if resource == COHORTS:
            cohort = figures.cohort(metadata["name"]) if fair_sharing else None
            return decide.of_cohort(cohort.share if cohort is not None else None, fair_sharing=fair_sharing)
        if resource == CLUSTER_QUEUES:
            found = figures.cluster_queue(metadata["name"])
            if found is None:
                return None
            if fair_sharing:
                for name in found.cohorts[:-1]:  # the share of a root is always nothing
                    self._mark((COHORTS, "", name))
            return decide.of_cluster_queue(manifest, found, fair_sharing=fair_sharing, now=now)
        local = figures.local_queue(namespaced_name(manifest))
        cluster_queue = str((manifest.get("spec") or {}).get("clusterQueue") or "")
        activity = figures.activity(cluster_queue)
        if local is None or (activity is None and self._caches[CLUSTER_QUEUES].get("", cluster_queue) is not None):
            return None
        by_recent_usage = configuration.admission_fair_sharing is not None
        return decide.of_local_queue(manifest, local, activity, by_recent_usage=by_recent_usage, now=now)

    def _next_sample(self, resource: str) -> float | None:
        """Where recent usage decides, time alone changes what a LocalQueue shows."""
        sharing = self._configuration.value.admission_fair_sharing
        return sharing.sampling_seconds if sharing is not None and resource == LOCAL_QUEUES else None


def _is_news(old: Manifest | None, new: Manifest | None) -> bool:
    """Whether more than a status or metadata changed."""
    if old is None or new is None:
        return True
    return bool(old["metadata"].get("generation") != new["metadata"].get("generation"))
