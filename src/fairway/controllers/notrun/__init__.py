"""Says of objects whose kind is stored and not run (`Kind.not_run`) that nothing will come of them here.

A status in the kind's own fields and a Warning event; the Warning header of the write is the server's. It holds no
Workload and no quota. When a kind is run some day, its record loses `not_run` and this controller leaves it alone.
"""

from functools import partial

from fairway.apis.machinery.keys import key_of
from fairway.apis.machinery.kind import NOT_RUN, Kind, Manifest
from fairway.apis.machinery.timestamps import stamp
from fairway.client.cluster import Cluster
from fairway.client.recorder import Recorder
from fairway.runtime.worker import Worker

Key = tuple[str, str, str]
"""Resource, namespace, name."""


class NotRunController:
    """Writes the status and the event once for each object."""

    def __init__(self, cluster: Cluster, recorder: Recorder) -> None:
        self._clock = cluster.clock
        self._recorder = recorder
        self._writer = cluster.writer("fairway")
        self._worker: Worker[Key] = Worker("kinds that are not run", cluster.clock, self._reconcile, parallel=1)
        self._kinds = {kind.resource: kind for kind in cluster.kinds() if kind.not_run is not None}
        self._caches = {resource: cluster.cache(resource) for resource in self._kinds}
        for resource, cache in self._caches.items():
            cache.on_change(partial(self._changed, resource))

    async def run(self) -> None:
        """Work until cancelled."""
        await self._worker.run()

    def _changed(self, resource: str, _old: Manifest | None, new: Manifest | None) -> None:
        if new is not None and not _is_said(self._kinds[resource], new):
            self._worker.add((resource, *key_of(new)))

    async def _reconcile(self, key: Key) -> None:
        resource, namespace, name = key
        kind, found = self._kinds[resource], self._caches[resource].get(namespace, name)
        if found is None or kind.not_run is None or _is_said(kind, found):
            return
        now = stamp(self._clock.now())
        await self._writer.patch(resource, found, {"status": kind.not_run.status(found, now)}, subresource="status")
        self._recorder.warning(found, NOT_RUN, kind.not_run.message)


def _is_said(kind: Kind, manifest: Manifest) -> bool:
    status = manifest.get("status") or {}
    return (
        "deletionTimestamp" in manifest["metadata"]
        or kind.not_run is None
        or (
            status.get("reason") == NOT_RUN
            and status.get("observedGeneration") == manifest["metadata"].get("generation")
        )
    )
