"""The entry point of the verbs: executes requests on the store."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any
from uuid import uuid4

import msgspec

from fairway.apis.machinery.admission import AdmissionPlugin
from fairway.apis.machinery.documents import from_json
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.apis.registry import Registry
from fairway.runtime.slices import Slice, Slices
from fairway.store.entries import Entry, Key
from fairway.store.selectors import Selection
from fairway.store.store import Store
from fairway.store.verbs import binding, changing, creating, deleting, listing, transacting, watching
from fairway.store.verbs.options import (
    PLAIN,
    PLAIN_DELETE,
    DeleteOptions,
    PatchType,
    WriteOptions,
    WriteTarget,
    Written,
)
from fairway.store.verbs.reading import decoded, not_found
from fairway.store.verbs.receipts import Once, Receipts
from fairway.store.verbs.speccache import SpecCache, request_parts
from fairway.store.verbs.transacting import Operation
from fairway.store.verbs.writing import WriteContext


def _new_uid() -> str:
    return str(uuid4())


class Objects:
    """Create, read, change, delete and follow objects of every kind."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        now: Callable[[], datetime],
        *,
        new_uid: Callable[[], str] | None = None,
        new_suffix: Callable[[], str] | None = None,
    ) -> None:
        self.store = store
        self.registry = registry
        self.now = now
        self.slices = Slices()
        """Turns for whatever takes long, shared by all requests and chores on this store."""

        self._specs = SpecCache()
        self.receipts = Receipts(store, now)
        self.watched_here: set[str] = set()
        """Resources with informers in this process: their newest states stay decoded, whichever client wrote them."""
        self._context = WriteContext(store, registry, now, new_uid or _new_uid, new_suffix or creating.random_suffix)

    def use_admission(
        self, plugin: AdmissionPlugin, before_apply: Callable[[Kind, Manifest, Manifest], None] | None = None
    ) -> None:
        """Ask this plugin about every write from now on.

        `before_apply` may change an applied configuration in place before it is merged into the stored object.
        """
        self._context.admission, self._context.before_apply = plugin, before_apply

    # Reading

    def get(self, kind: Kind, namespace: str, name: str) -> Entry:
        """The newest durable state of an object; `NotFound` if there is none."""
        entry = self.store.get(kind.resource, (namespace, name))
        if entry is None:
            raise not_found(kind, name)
        return entry

    def page(self, selection: Selection, paging: listing.Paging = listing.EVERYTHING) -> listing.ListPage:
        """The objects that match, in the order of namespace and name."""
        return listing.page(self.store, selection, paging)

    async def page_in_slices(self, selection: Selection, paging: listing.Paging, work: Slice) -> listing.ListPage:
        """The same, as of the moment of the call, with pauses where matching takes long."""
        return await listing.page_in_slices(self.store, selection, paging, work)

    def watch(self, selection: Selection, since: int) -> watching.Events:
        """The changes after a revision to the objects that match."""
        return watching.Events(self.store.watch(selection.kind.resource, since), selection)

    def rendered(self, kind: Kind, entry: Entry, version: str) -> bytes:
        """The object's JSON in a version; encoded once a revision and version."""
        if version == kind.stored:
            return entry.data
        if entry.converted is None:
            entry.converted = {}
        data = entry.converted.get(version)
        if data is None:
            data = entry.converted[version] = msgspec.json.encode(kind.rules.convert(decoded(entry), version))
        return data

    # Writing: a staged write is decided, and later writes see it; readers and watchers see it when it is durable

    def stage_create(
        self, kind: Kind, version: str, namespace: str, manifest: object, options: WriteOptions = PLAIN
    ) -> Written:
        """A new object. The manifest is changed."""
        return self._staged(creating.create(self._context, kind, version, namespace, manifest, options), options)

    def stage_create_from(
        self, kind: Kind, version: str, namespace: str, data: bytes, options: WriteOptions = PLAIN
    ) -> Written:
        """A new object from its JSON; cheaper than `stage_create` where its spec is one that came before."""
        parts = request_parts(kind, version, data)
        written = self._specs.create(self._context, kind, namespace, parts, options) if parts is not None else None
        if written is None:
            written = creating.create(self._context, kind, version, namespace, from_json(data), options)
            if parts is not None:
                self._specs.remember(kind, bytes(parts.spec), options, written)
        return self._staged(written, options)

    def stage_update(self, target: WriteTarget, manifest: object) -> Written:
        """An object, or its status, replaced. The manifest is changed."""
        return self._staged(changing.update(self._context, target, manifest), target.options)

    def stage_patch(self, target: WriteTarget, patch_type: PatchType, patch: Any) -> Written:
        """An object, or its status, changed as a patch describes it."""
        return self._staged(changing.patch(self._context, target, patch_type, patch), target.options)

    def stage_bind(self, kind: Kind, key: Key, node: str, options: WriteOptions = PLAIN) -> Written:
        """A pod given to a node."""
        return self._staged(binding.bind(self._context, kind, key, node, options), options)

    def stage_delete(self, kind: Kind, key: Key, options: DeleteOptions = PLAIN_DELETE) -> Written:
        """Delete an object, or mark it for deletion while it has finalizers or a grace period."""
        written = deleting.delete(self._context, kind, key, options)
        written.entry.shared = None
        return written

    def _staged(self, written: Written, options: WriteOptions) -> Written:
        entry = written.entry
        if not options.shared and entry.resource not in self.watched_here:
            entry.shared = None
        return written

    # The same, done when it is durable

    async def create(
        self, kind: Kind, version: str, namespace: str, manifest: object, options: WriteOptions = PLAIN
    ) -> Written:
        """Store a new object. The manifest is changed."""
        written = self.stage_create(kind, version, namespace, manifest, options)
        del manifest
        return await when_durable(written)

    async def update(
        self,
        kind: Kind,
        version: str,
        key: Key,
        manifest: object,
        options: WriteOptions = PLAIN,
        subresource: str = "",
    ) -> Written:
        """Replace an object, or its status. The manifest is changed."""
        written = self.stage_update(WriteTarget(kind, version, key, options, subresource), manifest)
        del manifest
        return await when_durable(written)

    async def patch(
        self,
        kind: Kind,
        version: str,
        key: Key,
        patch_type: PatchType,
        patch: Any,
        options: WriteOptions = PLAIN,
        subresource: str = "",
    ) -> Written:
        """Change an object, or its status, as a patch describes it."""
        written = self.stage_patch(WriteTarget(kind, version, key, options, subresource), patch_type, patch)
        del patch
        return await when_durable(written)

    async def bind(self, kind: Kind, key: Key, node: str, options: WriteOptions = PLAIN) -> Written:
        """Give a pod to a node."""
        return await when_durable(self.stage_bind(kind, key, node, options))

    async def delete(self, kind: Kind, key: Key, options: DeleteOptions = PLAIN_DELETE) -> Written:
        """Delete an object, or mark it for deletion while it has finalizers or a grace period."""
        return await when_durable(self.stage_delete(kind, key, options))

    async def finalize_namespace(self, kind: Kind, key: Key) -> Written:
        """Finalize an empty namespace, as the subresource `finalize` does."""
        written = deleting.finalize_namespace(self._context, kind, key)
        written.entry.shared = None
        return await when_durable(written)

    async def delete_collection(self, selection: Selection, options: DeleteOptions = PLAIN_DELETE) -> list[Written]:
        """Delete all objects that match now, each as `delete` would; many are deleted in slices."""
        return await deleting.delete_collection(self._context, self.store, selection, options, self.slices.begin())

    async def transact(
        self, operations: Sequence[Operation], options: WriteOptions = PLAIN, once: Once | None = None
    ) -> list[Written]:
        """Carry out all operations as one write, or none: `OperationRefused`. The results are in their order.

        With `once` a receipt is written in the same commit; if there is one already, it is `Repeated`.
        """
        receipt = partial(self.receipts.changes, once) if once is not None else None
        work = self.slices.begin()
        written, durable = await transacting.transact(self._context, self.store, operations, options, work, receipt)
        del operations
        for one in written:
            if one.entry.resource not in self.watched_here:
                one.entry.shared = None
        if durable is not None:
            await durable
        return written


async def when_durable(written: Written) -> Written:
    """Wait until a write is durable."""
    if written.durable is not None:
        await written.durable
    return written
