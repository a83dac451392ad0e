"""Watches QuotaDefinitions and their objects; looks only at what changed, and writes the status of a definition."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from fairway.apis.fairway.teams import LABEL as TEAM_LABEL
from fairway.apis.fairway.teams import ORGANIZATION_LABEL
from fairway.apis.machinery.conditions import find
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.timestamps import stamp
from fairway.client.cluster import Cluster
from fairway.client.recorder import Recorder
from fairway.controllers.quota.decide import SYNCED, DefinedObjects, status_of
from fairway.errors import BadRequest
from fairway.quota import yunikorn
from fairway.quota.compare import ObjectDifference, ObjectKey, difference, extra, owner
from fairway.runtime.worker import Worker

_DEFINITIONS: Final = "quotadefinitions.fairway.dev"
_RESOURCES: Final = {
    "AdmissionCheck": "admissionchecks.kueue.x-k8s.io",
    "ResourceFlavor": "resourceflavors.kueue.x-k8s.io",
    "Cohort": "cohorts.kueue.x-k8s.io",
    "ClusterQueue": "clusterqueues.kueue.x-k8s.io",
    "LocalQueue": "localqueues.kueue.x-k8s.io",
    "Namespace": "namespaces",
}
_CONFIGURED: Final = ("Queue", "Partition")
"""Parts of YuniKorn's configuration."""

_SETTLE_SECONDS: Final = 0.1
"""Changes that come together are reported together."""

_AT_ONCE: Final = 200
"""Objects that are compared between two turns of the loop."""


class QuotaDrift:
    """Reports drift; also a collector of metrics."""

    def __init__(self, cluster: Cluster, recorder: Recorder) -> None:
        self._clock = cluster.clock
        self._recorder = recorder
        self._writer = cluster.writer("fairway-quota")
        self._worker: Worker[str] = Worker("quota definitions", cluster.clock, self._reconcile, parallel=1)
        self._defined: dict[str, DefinedObjects] = {}
        self._dirty: dict[str, set[ObjectKey]] = {}
        self._definitions = cluster.cache(_DEFINITIONS)
        self._definitions.on_change(self._definition_changed)
        self._caches = {kind: cluster.cache(resource) for kind, resource in _RESOURCES.items()}
        for kind, cache in self._caches.items():
            cache.on_change(partial(self._object_changed, kind))
        self._config_maps = cluster.cache("configmaps")
        self._config_maps.on_change(self._config_map_changed)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._worker.run()

    def collect(self) -> Iterator[object]:
        """How many objects each definition has, how many differ, by kind, and whose its ClusterQueues are."""
        from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415

        objects = GaugeMetricFamily("fairway_quota_objects", "Objects of a QuotaDefinition.", labels=["definition"])
        drift = GaugeMetricFamily(
            "fairway_quota_drift_objects",
            "Objects that differ from their QuotaDefinition.",
            labels=["definition", "kind"],
        )
        queues = GaugeMetricFamily(
            "fairway_quota_cluster_queue_info",
            "Organization and team of a ClusterQueue; always 1, to be joined with series by cluster_queue.",
            labels=["definition", "cluster_queue", "organization", "team"],
        )
        for name, defined in sorted(self._defined.items()):
            objects.add_metric([name], defined.count)
            for key, manifest in defined.objects.items():
                if key.kind == "ClusterQueue":
                    labels = manifest["metadata"]["labels"]
                    queues.add_metric([name, key.name, labels[ORGANIZATION_LABEL], labels[TEAM_LABEL]], 1)
            counts = Counter(key.kind for key in defined.drift)
            for kind in (*_RESOURCES, *(_CONFIGURED if defined.config is not None else ())):
                drift.add_metric([name, kind], counts[kind])
        yield objects
        yield drift
        yield queues

    def _definition_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        if new is None and old is not None:
            self._defined.pop(old["metadata"]["name"], None)
        elif new is not None:
            known = self._defined.get(new["metadata"]["name"])
            if known is None or (known.uid, known.generation) != _version(new):
                self._worker.add(new["metadata"]["name"])

    def _object_changed(self, kind: str, old: Manifest | None, new: Manifest | None) -> None:
        manifest = new or old
        if manifest is None or not self._defined or (old is not None and new is not None and _alike(old, new)):
            return
        metadata = manifest["metadata"]
        key = ObjectKey(kind, metadata.get("namespace", ""), metadata["name"])
        for name, defined in self._defined.items():
            if key in defined.objects or key in defined.drift or owner(manifest) == name:
                self._dirty.setdefault(name, set()).add(key)
                self._worker.add_after(name, _SETTLE_SECONDS)

    def _config_map_changed(self, old: Manifest | None, new: Manifest | None) -> None:
        manifest = new or old
        if manifest is None or manifest["metadata"]["name"] != yunikorn.CONFIG_MAP:
            return
        for name, defined in self._defined.items():
            if defined.config is not None:
                self._worker.add_after(name, _SETTLE_SECONDS)

    async def _reconcile(self, name: str) -> None:
        manifest = self._definitions.get("", name)
        if manifest is None:
            self._defined.pop(name, None)
            self._dirty.pop(name, None)
            return
        defined = self._defined.get(name)
        dirty = self._dirty.pop(name, set())
        if defined is None or (defined.uid, defined.generation) != _version(manifest):
            defined = self._defined[name] = DefinedObjects(manifest)
            dirty = {*defined.objects, *self._owned(name)}
        for number, key in enumerate(dirty, 1):
            self._compare(defined, key)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)
        self._compare_config(defined)
        await self._write_status(defined, manifest)

    def _owned(self, name: str) -> Iterator[ObjectKey]:
        for kind, cache in self._caches.items():
            for one in cache.items():
                if owner(one) == name:
                    yield ObjectKey(kind, one["metadata"].get("namespace", ""), one["metadata"]["name"])

    def _compare(self, defined: DefinedObjects, key: ObjectKey) -> None:
        live = self._caches[key.kind].get(key.namespace, key.name)
        desired = defined.objects.get(key)
        found: ObjectDifference | None = None
        if desired is not None:
            found = difference(key, desired, live, defined.name)
        elif live is not None and owner(live) == defined.name:
            found = extra(key, live)
        if found is None or not found.is_drift:
            defined.drift.pop(key, None)
        else:
            defined.drift[key] = found._replace(desired=None, live=None)

    def _compare_config(self, defined: DefinedObjects) -> None:
        found = self._config_maps.get(defined.config_namespace, yunikorn.CONFIG_MAP)
        version = "" if found is None else found["metadata"]["resourceVersion"]
        if defined.config is None or defined.config_version == version:
            return
        defined.config_version = version
        for key in [key for key in defined.drift if key.kind in _CONFIGURED]:
            del defined.drift[key]
        try:
            live = yunikorn.config_of(found)
        except BadRequest:
            live = None  # all its queues are missing
        for one in yunikorn.compare_configs(defined.config, live):
            defined.drift[one.key] = one

    async def _write_status(self, defined: DefinedObjects, manifest: Manifest) -> None:
        before = manifest.get("status") or {}
        status = status_of(defined, manifest, stamp(self._clock.now()))
        if all(before.get(field) == value for field, value in status.items()):
            return
        await self._writer.patch(_DEFINITIONS, manifest, {"status": status}, subresource="status")
        was = (find(manifest, SYNCED) or {}).get("status")
        now = find({"status": status}, SYNCED) or {}
        if now["status"] == "False" and was != "False":
            self._recorder.warning(manifest, now["reason"], now["message"])
        elif now["status"] == "True" and was == "False":
            self._recorder.normal(manifest, now["reason"], now["message"])


def _version(manifest: Manifest) -> tuple[Any, Any]:
    return manifest["metadata"].get("uid"), manifest["metadata"].get("generation")


def _alike(old: Manifest, new: Manifest) -> bool:
    """Whether a change leaves what is compared: the generation counts changes of the spec, not of the status."""
    before, after = old["metadata"], new["metadata"]
    same_spec = before.get("generation") == after.get("generation") if "generation" in after else True
    return same_spec and before.get("labels") == after.get("labels") and before.get("uid") == after.get("uid")
