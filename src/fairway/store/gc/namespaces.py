"""Deletes everything in a deleted namespace, then the namespace."""

from collections.abc import Sequence

from fairway.apis.machinery.kind import Kind
from fairway.store.entries import DELETED, Change, Key
from fairway.store.gc.chores import Chores
from fairway.store.selectors import Selection
from fairway.store.verbs import Objects

NAMESPACES = "namespaces"
DEFAULT_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")


class NamespaceKeeper:
    """Makes the namespaces that everybody expects, and empties those that are deleted."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._store = objects.store
        self._kind: Kind = next(kind for kind in objects.registry.kinds if kind.resource == NAMESPACES)
        self._chores: Chores[str] = Chores(self._look_at, self._store.settled, objects.slices)
        self._terminating: set[str] = set()
        for entry in self._store.collection(NAMESPACES).entries.values():
            if entry.meta.deletion_timestamp:
                self._ends(entry.name)
        self._store.observe(self._observe)

    async def make_defaults(self) -> None:
        """Create what is missing of the namespaces that everybody expects."""
        for name in DEFAULT_NAMESPACES:
            if self._store.head(NAMESPACES, ("", name)) is None:
                await self._objects.create(self._kind, self._kind.stored, "", {"metadata": {"name": name}})

    async def run(self) -> None:
        """Empty namespaces until cancelled."""
        await self._chores.run()

    def _ends(self, name: str) -> None:
        self._terminating.add(name)
        self._chores.add(name)

    def _observe(self, change: Change) -> None:
        entry = change.entry
        if entry.resource == NAMESPACES:
            if change.type == DELETED:
                self._terminating.discard(entry.name)
            elif entry.meta.deletion_timestamp:
                self._ends(entry.name)
        elif change.type == DELETED and entry.namespace in self._terminating:
            self._chores.add(entry.namespace)

    async def _look_at(self, name: str) -> None:
        if name not in self._terminating:
            return
        empty = True
        for kind in self._objects.registry.kinds:
            if not kind.namespaced:
                continue
            keys = self._store.collection(kind.resource).keys(name)
            if keys:
                empty = False
                if not await self._all_end(kind, keys):
                    await self._objects.delete_collection(Selection(kind, name))
        if empty:
            await self._objects.finalize_namespace(self._kind, ("", name))

    async def _all_end(self, kind: Kind, keys: Sequence[Key]) -> bool:
        """Whether all of these objects are marked for deletion, or gone."""
        entries, work = self._store.collection(kind.resource).entries, self._objects.slices.begin()
        for key in keys:
            entry = entries.get(key)
            if entry is not None and not entry.meta.deletion_timestamp:
                return False
            if work.is_over:
                await work.pause()
        return True
