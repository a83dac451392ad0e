"""The client of a controller that runs in the same process as the store: the same verbs, without the wire."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

from fairway.apis.machinery.keys import key_of
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.client.protocol import EVERYTHING, Listed, Scope, Staged, WatchEvent
from fairway.errors import BadRequest
from fairway.store.entries import Entry
from fairway.store.selectors import Selection
from fairway.store.verbs import DeleteOptions, Objects, PatchType, WriteOptions, WriteTarget, Written, when_durable
from fairway.store.verbs.listing import EVERYTHING as ALL
from fairway.store.verbs.reading import shared
from fairway.store.verbs.writing import check_preconditions

_PATCH_TYPES: Final = {"merge": PatchType.MERGE, "json": PatchType.JSON, "strategic": PatchType.STRATEGIC}


class LocalClient:
    """Keeps the contracts of `protocol.Client` and `protocol.StagingClient` on a store in this process.

    Manifests given to it are its to change. Those that it gives are shared by all who read: not to be changed.
    """

    def __init__(self, objects: Objects, manager: str, *, trusted: bool = False) -> None:
        """`manager` is the name under which fields are owned, where that is recorded (`WriteOptions.tracked`).

        A `trusted` client's statuses are not checked again: its controllers are ours, and in tests they are checked.
        """
        self._objects = objects
        self._options = WriteOptions(manager=manager, shared=True, tracked=False)
        self._trusted = WriteOptions(manager=manager, shared=True, tracked=False, trusted=True)
        self._for_status = self._trusted if trusted else self._options
        self._forced = WriteOptions(manager=manager, force=True, shared=True)
        self._pods = objects.registry.named("pods")

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest:
        return shared(self._objects.get(kind, namespace, name))

    async def list(self, kind: Kind, scope: Scope = EVERYTHING) -> Listed:
        work, selection = self._objects.slices.begin(), Selection(kind, *scope)
        page = await self._objects.page_in_slices(selection, ALL, work)
        items = []
        for entry in page.entries:
            items.append(shared(entry))
            if work.is_over:
                await work.pause()
        return Listed(items, str(page.revision))

    async def watch(self, kind: Kind, since: str, scope: Scope = EVERYTHING) -> AsyncIterator[tuple[WatchEvent, ...]]:
        self._objects.watched_here.add(kind.resource)
        events = self._objects.watch(Selection(kind, *scope), int(since))
        while True:
            if changes := await events.next():
                yield tuple([WatchEvent(change.type, self._read(change.entry)) for change in changes])
            if events.is_behind:
                await self._objects.slices.turn()  # after a burst of changes, others have their turn in between

    async def create(self, kind: Kind, manifest: Manifest, *, trusted: bool = False) -> Manifest:
        namespace = manifest.get("metadata", {}).get("namespace", "")
        options = self._trusted if trusted else self._options
        return await self._durable(self._objects.stage_create(kind, kind.stored, namespace, manifest, options))

    async def update(self, kind: Kind, manifest: Manifest, subresource: str = "") -> Manifest:
        target = WriteTarget(kind, kind.stored, key_of(manifest), self._options, subresource)
        return await self._durable(self._objects.stage_update(target, manifest))

    async def patch(
        self, kind: Kind, namespace: str, name: str, patch: Any, *, patch_type: str = "merge", subresource: str = ""
    ) -> Manifest:
        durable, manifest = self.stage_patch(
            kind, namespace, name, patch, patch_type=patch_type, subresource=subresource
        )
        if durable is not None:
            await durable
        return manifest()

    def stage_patch(
        self, kind: Kind, namespace: str, name: str, patch: Any, *, patch_type: str = "merge", subresource: str = ""
    ) -> Staged:
        known = _PATCH_TYPES.get(patch_type)
        if known is None:
            raise BadRequest(f"there is no patch type {patch_type!r}; it is one of {', '.join(_PATCH_TYPES)}")
        options = self._for_status if subresource == "status" else self._options
        target = WriteTarget(kind, kind.stored, (namespace, name), options, subresource)
        written = self._objects.stage_patch(target, known, patch)
        return Staged(written.durable, partial(self._written_manifest, written.entry))

    async def apply(self, kind: Kind, manifest: Manifest, *, force: bool = False, subresource: str = "") -> Manifest:
        target = WriteTarget(kind, kind.stored, key_of(manifest), self._forced if force else self._options, subresource)
        return await self._durable(self._objects.stage_patch(target, PatchType.APPLY, manifest))

    async def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        resource_version: str = "",
        propagation: str = "",
        grace_seconds: int | None = None,
    ) -> Manifest | None:
        options = DeleteOptions(
            uid=uid, resource_version=resource_version, propagation=propagation, grace_seconds=grace_seconds
        )
        written = self._objects.stage_delete(kind, (namespace, name), options)
        if not written.removed:
            return await self._durable(written)
        await when_durable(written)
        return None

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> Manifest:
        key = (namespace, name)
        check_preconditions(self._pods, self._objects.get(self._pods, *key), uid, None)
        return await self._durable(self._objects.stage_bind(self._pods, key, node, self._options))

    def _read(self, entry: Entry) -> Manifest:
        """A state that may be overtaken already: it stays decoded only if it is the newest."""
        if entry.shared is not None:
            return entry.shared
        manifest = shared(entry)
        if self._objects.store.get(entry.resource, entry.key) is not entry:
            entry.shared = None
        return manifest

    async def _durable(self, written: Written) -> Manifest:
        """The object after a write, once that is durable."""
        if written.durable is not None:
            await written.durable
        return self._written_manifest(written.entry)

    def _written_manifest(self, entry: Entry) -> Manifest:
        """The object after a write; it stays decoded only for kinds that are watched in this process."""
        manifest = self._read(entry)
        if entry.resource not in self._objects.watched_here:
            entry.shared = None
        return manifest
