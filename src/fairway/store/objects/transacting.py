"""Transactions: several writes decided one on top of the other, and sent to the disk as one, all or none.

Each is decided as if it came alone, on a draft of the store that has the ones before it. Only when none was refused do
they leave the draft, together: until then nothing has happened, and nobody can have seen anything of it.
"""

from asyncio import Future
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from fairway.errors import ApiError, BadRequest, OperationRefused, TooLarge, ValidationError
from fairway.kinds.kind import Kind, Manifest
from fairway.store.entries import DELETED, Change, Entry, Key
from fairway.store.objects import changing, creating, deleting
from fairway.store.objects.options import PLAIN_DELETE, DeleteOptions, PatchType, Target, WriteOptions, Written
from fairway.store.objects.reading import decoded
from fairway.store.objects.writing import Context
from fairway.store.store import Store

MOST_OPERATIONS: Final = 10_000
MOST_BYTES: Final = 64 << 20
"""Of all objects that a transaction writes or finds as they should be, as they are stored: a few small patches can
make much of a large object, and none of them need change it."""


class Create(NamedTuple):
    """A new object. The manifest is changed."""

    kind: Kind
    version: str
    namespace: str
    manifest: object


class Patch(NamedTuple):
    """A merge patch of an object (not of its status)."""

    kind: Kind
    version: str
    key: Key
    patch: Any


class Delete(NamedTuple):
    """The end of an object."""

    kind: Kind
    key: Key
    options: DeleteOptions = PLAIN_DELETE


Operation: TypeAlias = Create | Patch | Delete


class Draft:
    """What the store would be after the writes so far; what a write asks of the store, it can ask of this."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._heads: dict[tuple[str, Key], Entry | None] = {}
        self._bytes = 0
        self.changes: list[Change] = []

    @property
    def next_revision(self) -> int:
        return self._store.next_revision + len(self.changes)

    def head(self, resource: str, key: Key) -> Entry | None:
        place = (resource, key)
        return self._heads[place] if place in self._heads else self._store.head(resource, key)

    def check_room(self) -> None:
        self._store.check_room()

    def stage(self, changes: Sequence[Change]) -> None:
        """Keep changes for the end; nothing waits for them yet."""
        for change in changes:
            entry = change.entry
            self._heads[entry.resource, entry.key] = None if change.type == DELETED else entry
            self.weigh(entry)
        self.changes += changes

    def weigh(self, entry: Entry) -> None:
        """Count an object that was dealt with; `TooLarge` if it was one too many."""
        self._bytes += len(entry.data)
        if self._bytes > MOST_BYTES:
            raise TooLarge(
                f"the objects of the transaction have more than {MOST_BYTES} bytes as they are stored; send it in "
                "several parts"
            )

    def settling(self) -> None:
        """An object that stays as it is is told of with all the others."""


class Outcome(NamedTuple):
    """What came of a transaction."""

    written: list[Written]
    """By operation."""

    durable: Future[None] | None
    """What to wait for before anybody may hear of it."""


def transact(context: Context, store: Store, operations: Sequence[Operation], options: WriteOptions) -> Outcome:
    """Carry out all operations, or none: `OperationRefused` says which one could not be, and why."""
    if len(operations) > MOST_OPERATIONS:
        raise BadRequest(
            f"spec.operations: Too many: {len(operations)}: a transaction has at most {MOST_OPERATIONS} operations"
        )
    draft = Draft(store)
    above = replace(context, store=draft)
    decided = replace(options, dry_run=False)  # an operation must find what the ones before it did
    written = []
    for number, operation in enumerate(operations, 1):
        before = len(draft.changes)
        try:
            written.append(_decided(above, operation, decided))
            if len(draft.changes) == before:
                draft.weigh(written[-1].entry)
        except (ApiError, ValidationError) as error:
            raise OperationRefused(number, error) from error
    if options.dry_run:
        return Outcome([_undone(store, one) for one in written], None)
    return Outcome(written, store.stage(draft.changes) if draft.changes else store.settling())


def _decided(context: Context, operation: Operation, options: WriteOptions) -> Written:
    if isinstance(operation, Create):
        return creating.create(context, *operation, options)
    if isinstance(operation, Patch):
        target = Target(operation.kind, operation.version, operation.key, options, "")
        return changing.patch(context, target, PatchType.MERGE, operation.patch)
    return deleting.delete(context, operation.kind, operation.key, replace(operation.options, dry_run=False))


def _undone(store: Store, written: Written) -> Written:
    """What a dry run tells: the object at the revision that it still has, if it is there at all."""
    entry = written.entry
    manifest: Manifest = decoded(entry)
    before = store.head(entry.resource, entry.key)
    if before is None:
        manifest["metadata"].pop("resourceVersion", None)
    else:
        manifest["metadata"]["resourceVersion"] = str(before.revision)
    return replace(written, entry=Entry(entry.resource, entry.key, 0, msgspec.json.encode(manifest), entry.meta))
