"""The finalizer `kueue.x-k8s.io/resource-in-use`: what is in use stays until it is not.

Every ClusterQueue, ResourceFlavor, AdmissionCheck and Topology gets it when it is first seen; only a ClusterQueue gets
it back that lost it, so that the others can be deleted by force, as in Kueue. When one is to be deleted, it goes as
soon as nothing depends on it: workloads that hold quota keep their ClusterQueue, ClusterQueues keep their flavors and
checks, flavors keep their topology. LocalQueues and Cohorts are never held.
"""

from collections.abc import Iterable
from typing import Any, Final

from fairway.admission.port import Decider
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.metadata import IN_USE_FINALIZER
from fairway.client.cluster import Cluster
from fairway.controllers.kit.workloads import WORKLOADS
from fairway.controllers.kit.writes import add_finalizer, remove_finalizer
from fairway.integrations import conditions
from fairway.runtime.worker import Worker

CLUSTER_QUEUES: Final = "clusterqueues.kueue.x-k8s.io"
FLAVORS: Final = "resourceflavors.kueue.x-k8s.io"
CHECKS: Final = "admissionchecks.kueue.x-k8s.io"
TOPOLOGIES: Final = "topologies.kueue.x-k8s.io"

_USERS: Final = {FLAVORS: CLUSTER_QUEUES, CHECKS: CLUSTER_QUEUES, TOPOLOGIES: FLAVORS}
"""Whose objects keep an object, where it is not workloads."""

_SOON_SECONDS: Final = 0.02
"""How long the engine may take to get what is stored."""

Key = tuple[str, str]
"""The resource and the name: none of these kinds is namespaced."""


class InUseFinalizers:
    """Puts the finalizer on objects, and takes it off those that wait to be deleted and are not used any more."""

    def __init__(self, cluster: Cluster, decider: Decider) -> None:
        self._decider = decider
        self._writer = cluster.writer("fairway-in-use")
        self._worker: Worker[Key] = Worker("finalizers", cluster.clock, self._reconcile, parallel=4)
        self._caches = {name: cluster.cache(name) for name in (CLUSTER_QUEUES, FLAVORS, CHECKS, TOPOLOGIES, WORKLOADS)}
        self._leaving: dict[str, set[str]] = {name: set() for name in self._caches}
        """Those of each resource that are to be deleted but held by the finalizer."""

        for resource in (CLUSTER_QUEUES, *_USERS):
            self._follow(resource)
        self._caches[WORKLOADS].on_change(self._workload_changed)

    async def run(self) -> None:
        await self._worker.run()

    # What happened

    def _follow(self, resource: str) -> None:
        kept = [used for used, user in _USERS.items() if user == resource]

        def changed(old: Manifest | None, new: Manifest | None) -> None:
            name = (new or old or {})["metadata"]["name"]
            leaving = new is not None and "deletionTimestamp" in new["metadata"] and _has_finalizer(new)
            if leaving:
                self._leaving[resource].add(name)
            else:
                self._leaving[resource].discard(name)
            wanting = new is not None and not _has_finalizer(new) and (old is None or resource == CLUSTER_QUEUES)
            if leaving or wanting:
                self._worker.add((resource, name))
            if old is not None:  # it may have used something that waits to be deleted
                self._look_again(kept)

        self._caches[resource].on_change(changed)

    def _workload_changed(self, _old: Manifest | None, _new: Manifest | None) -> None:
        if self._leaving[CLUSTER_QUEUES]:
            self._look_again([CLUSTER_QUEUES])

    def _look_again(self, resources: Iterable[str]) -> None:
        for resource in resources:
            for name in self._leaving[resource]:
                self._worker.add((resource, name))

    # What to do

    async def _reconcile(self, key: Key) -> float | None:
        resource, name = key
        manifest = self._caches[resource].get("", name)
        if manifest is None:
            return None
        if "deletionTimestamp" not in manifest["metadata"]:
            if not _has_finalizer(manifest):
                await add_finalizer(self._writer, resource, manifest, IN_USE_FINALIZER)
            return None
        if not _has_finalizer(manifest):
            return None
        if resource == CLUSTER_QUEUES:
            if self._holds_workloads(name):
                return None  # their next change brings us back
            if not self._decider_is_done_with(name):
                return _SOON_SECONDS
        elif any(name in _names_used(resource, user) for user in self._caches[_USERS[resource]].items()):
            return None
        await remove_finalizer(self._writer, resource, manifest, IN_USE_FINALIZER)
        return None

    def _holds_workloads(self, cluster_queue: str) -> bool:
        return any(_holds_quota_of(workload, cluster_queue) for workload in self._caches[WORKLOADS].items())

    def _decider_is_done_with(self, cluster_queue: str) -> bool:
        """Whether the engine admits nothing more there, and has nothing there that is not written yet."""
        figures = self._decider.figures
        activity = figures.activity(cluster_queue)
        return activity is None or (activity.terminating and not figures.holders(cluster_queue))


def _has_finalizer(manifest: Manifest) -> bool:
    return IN_USE_FINALIZER in (manifest["metadata"].get("finalizers") or ())


def _holds_quota_of(workload: Manifest, cluster_queue: str) -> bool:
    admission = (workload.get("status") or {}).get("admission") or {}
    return (
        admission.get("clusterQueue") == cluster_queue
        and conditions.is_true(workload, conditions.QUOTA_RESERVED)
        and not conditions.is_true(workload, conditions.FINISHED)
        and bool(workload["spec"].get("active", True))
    )


def _names_used(resource: str, user: Manifest) -> set[str]:
    """What a ClusterQueue or a flavor refers to of a resource."""
    spec: dict[str, Any] = user.get("spec") or {}
    if resource == FLAVORS:
        return flavors_of(user)
    if resource == CHECKS:
        return checks_of(user)
    return {spec["topologyName"]} if spec.get("topologyName") else set()


def flavors_of(cluster_queue: Manifest) -> set[str]:
    groups = (cluster_queue.get("spec") or {}).get("resourceGroups") or ()
    return {flavor["name"] for group in groups for flavor in group.get("flavors") or ()}


def checks_of(cluster_queue: Manifest) -> set[str]:
    strategy = (cluster_queue.get("spec") or {}).get("admissionChecksStrategy") or {}
    return {check["name"] for check in strategy.get("admissionChecks") or ()}
