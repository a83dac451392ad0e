"""Garbage collection of the dependents of deleted owners.

Background: dependents go after their owner. Foreground: the owner waits, under a finalizer, until the dependents that
block its deletion are gone. Orphan: dependents lose their reference and stay. An object with several owners stays as
long as one of them does.
"""

import asyncio
import logging
from collections import defaultdict
from typing import Any

import msgspec

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.store.entries import DELETED, Change, Entry, Key, Owner
from fairway.store.gc.chores import Chores
from fairway.store.verbs import DeleteOptions, Objects, PatchType
from fairway.store.verbs.deleting import FOREGROUND, ORPHAN
from fairway.store.verbs.reading import decoded

_log = logging.getLogger(__name__)

_Place = tuple[str, Key]
_MERGE = PatchType.MERGE
_AT_ONCE = 100


class GarbageCollector:
    """Knows who depends on whom, and acts when an owner goes."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._store = objects.store
        self._kind_of = objects.registry.by_resource_name
        self._dependents: dict[str, set[_Place]] = defaultdict(set)
        self._chores: Chores[_Place] = Chores(self._look_at, self._store.settled, objects.slices)
        self._store.observe(self._observe)

    async def run(self) -> None:
        """Get to know what is there, a piece at a time, then collect until cancelled."""
        for resource in [kind.resource for kind in self._objects.registry.kinds]:
            entries = self._store.collection(resource).entries
            keys = list(entries)
            for start in range(0, len(keys), _AT_ONCE):
                for key in keys[start : start + _AT_ONCE]:
                    if key in entries:
                        self._found(entries[key])
                await asyncio.sleep(0)
        await self._chores.run()

    def _found(self, entry: Entry) -> None:
        try:
            entry.meta  # noqa: B018 - read here for the first time
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            _log.error("%r is damaged: %s. Restore a backup, or replace the object.", entry, error)
            return
        for owner in entry.meta.owner_references:
            self._dependents[owner.uid].add((entry.resource, entry.key))
        if entry.meta.owner_references or entry.meta.deletion_timestamp:
            self._chores.add((entry.resource, entry.key))

    def _observe(self, change: Change) -> None:
        entry, previous = change.entry, change.previous
        place = (entry.resource, entry.key)
        before = {owner.uid for owner in previous.meta.owner_references} if previous else set()
        if change.type == DELETED:
            for uid in before:
                self._forget(uid, place)
            for dependent in self._dependents.get(entry.meta.uid, ()):
                self._chores.add(dependent)
            self._wake_owners(entry)
            return
        now = {owner.uid for owner in entry.meta.owner_references}
        for uid in before - now:
            self._forget(uid, place)
        for uid in now - before:
            self._dependents[uid].add(place)
        if now != before or (entry.meta.deletion_timestamp and self._has_own_finalizer(entry)):
            self._chores.add(place)
        if previous is not None and previous.meta.owner_references != entry.meta.owner_references:
            self._wake_owners(previous)

    def _forget(self, uid: str, place: _Place) -> None:
        places = self._dependents[uid]
        places.discard(place)
        if not places:
            del self._dependents[uid]

    def _wake_owners(self, dependent: Entry) -> None:
        """Owners may be waiting for this dependent to go."""
        for owner in dependent.meta.owner_references:
            found = self._owner(owner, dependent.namespace)
            if found is not None and found[1] is not None and found[1].meta.deletion_timestamp:
                self._chores.add((found[0].resource, found[1].key))

    @staticmethod
    def _has_own_finalizer(entry: Entry) -> bool:
        return FOREGROUND in entry.meta.finalizers or ORPHAN in entry.meta.finalizers

    async def _look_at(self, place: _Place) -> None:
        resource, key = place
        kind, entry = self._kind_of(resource), self._store.get(resource, key)
        if entry is None or kind is None:
            return
        if entry.meta.deletion_timestamp and self._has_own_finalizer(entry):
            await self._finish_owner(kind, entry)
        elif entry.meta.owner_references and not entry.meta.deletion_timestamp:
            await self._judge(kind, entry)

    async def _judge(self, kind: Kind, entry: Entry) -> None:
        """Delete an object whose owners are all gone or waiting for it; drop references to those if others remain."""
        gone, waiting, solid = [], [], []
        for owner in entry.meta.owner_references:
            found = self._owner(owner, entry.namespace)
            if found is None or (found[1] is not None and not _waits_for_dependents(found[1])):
                solid.append(owner)  # there, or of a kind that is not served here and cannot be judged
            elif found[1] is None:
                gone.append(owner)
            else:
                waiting.append(owner)
        if solid:
            if gone or waiting:
                await self._drop_references(kind, entry, {owner.uid for owner in (*gone, *waiting)})
        elif waiting and any(owner.block_owner_deletion for owner in waiting) and self._dependents.get(entry.meta.uid):
            await self._delete(kind, entry, "Foreground")
        else:
            await self._delete(kind, entry, "")

    async def _delete(self, kind: Kind, entry: Entry, propagation: str) -> None:
        options = DeleteOptions(uid=entry.meta.uid, propagation=propagation)
        await self._objects.delete(kind, entry.key, options)

    async def _finish_owner(self, kind: Kind, entry: Entry) -> None:
        dependents = self._living_dependents(entry)
        if ORPHAN in entry.meta.finalizers:
            for dependent_kind, dependent in dependents:
                await self._drop_references(dependent_kind, dependent, {entry.meta.uid})
            await self._drop_finalizer(kind, entry, ORPHAN)
            return
        for dependent_kind, dependent in dependents:
            if not dependent.meta.deletion_timestamp:
                self._chores.add((dependent_kind.resource, dependent.key))
        blocking = [
            dependent
            for _, dependent in dependents
            if _blocks(dependent, entry) and not self._waits_for(dependent, entry, set())
        ]
        if not blocking:
            await self._drop_finalizer(kind, entry, FOREGROUND)

    def _waits_for(self, waiting: Entry, owner: Entry, seen: set[str]) -> bool:
        """Whether an object waits, through its dependents, for this one: a cycle must be broken somewhere."""
        if not _waits_for_dependents(waiting) or waiting.meta.uid in seen:
            return False
        seen.add(waiting.meta.uid)
        return any(
            dependent.meta.uid == owner.meta.uid or self._waits_for(dependent, owner, seen)
            for _, dependent in self._living_dependents(waiting)
            if _blocks(dependent, waiting)
        )

    def _living_dependents(self, owner: Entry) -> list[tuple[Kind, Entry]]:
        found = []
        for resource, key in self._dependents.get(owner.meta.uid, ()):
            kind, entry = self._kind_of(resource), self._store.get(resource, key)
            if entry is not None and kind is not None:
                found.append((kind, entry))
        return found

    def _owner(self, owner: Owner, namespace: str) -> tuple[Kind, Entry | None] | None:
        """The kind of an owner, and the owner if it is there; `None` if that cannot be known.

        It cannot where the kind is not served here, nor for a dependent outside of all namespaces with an owner in one.
        """
        group, _, _ = owner.api_version.rpartition("/")
        kind = self._objects.registry.by_kind(group, owner.kind)
        if kind is None or (kind.namespaced and not namespace):
            return None
        entry = self._store.get(kind.resource, (namespace if kind.namespaced else "", owner.name))
        return kind, entry if entry is not None and entry.meta.uid == owner.uid else None

    async def _drop_references(self, kind: Kind, entry: Entry, uids: set[str]) -> None:
        manifest = decoded(entry)
        kept = [one for one in manifest["metadata"]["ownerReferences"] if one["uid"] not in uids]
        await self._change(kind, entry, {"ownerReferences": kept or None})

    async def _drop_finalizer(self, kind: Kind, entry: Entry, finalizer: str) -> None:
        kept = [one for one in entry.meta.finalizers if one != finalizer]
        await self._change(kind, entry, {"finalizers": kept or None})

    async def _change(self, kind: Kind, entry: Entry, metadata: dict[str, Any]) -> None:
        patch: Manifest = {"metadata": {"resourceVersion": str(entry.revision), **metadata}}
        await self._objects.patch(kind, kind.stored, entry.key, _MERGE, patch)


def _blocked_by(dependent: Entry) -> set[str]:
    """The owners that must not go before this dependent."""
    return {owner.uid for owner in dependent.meta.owner_references if owner.block_owner_deletion}


def _blocks(dependent: Entry, owner: Entry) -> bool:
    return owner.meta.uid in _blocked_by(dependent)


def _waits_for_dependents(owner: Entry) -> bool:
    return owner.meta.deletion_timestamp is not None and FOREGROUND in owner.meta.finalizers
