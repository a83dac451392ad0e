"""Workloads on their way into the engine: which of them changed since it last heard of them, and how."""

import logging
from collections.abc import Callable, Container, Iterable

from fairway.admission import events
from fairway.admission.engine import Engine
from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.controllers.admission.observing import Seen, arrival, difference, seen
from fairway.errors import ValidationError
from fairway.integrations.workloads import namespaced_name

_log = logging.getLogger(__name__)


class Intake:
    """The cache of Workloads, and how the engine knows each of them."""

    def __init__(self, cluster: Cluster, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._cache = cluster.cache("workloads")
        self._seen: dict[str, Seen] = {}
        self._dirty: dict[str, None] = {}
        self.busy: Container[str] = ()
        """The Workloads that are being written; whoever writes asks for a turn when that has ended."""
        self._cache.on_change(self._note)

    async def synced(self) -> None:
        await self._cache.synced.wait()

    def manifest(self, key: str) -> Manifest | None:
        """A Workload as it is cached; shared, so not to be changed."""
        namespace, _, name = key.partition("/")
        return self._cache.get(namespace, name)

    def seen(self, key: str) -> Seen | None:
        """A Workload as the engine has heard of it."""
        return self._seen.get(key)

    def is_behind(self, key: str) -> bool:
        """Whether the engine has yet to hear of a change."""
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
        """Take in what came of a write of our own, which is no news to the engine."""
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
