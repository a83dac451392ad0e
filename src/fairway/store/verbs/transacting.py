"""Transactions: several writes decided one on top of the other, and sent to the disk as one, all or none.

Each is decided as if it came alone, on a draft of the store that has the ones before it. Only when none was refused do
they leave the draft, together: until then nothing is visible to readers and watchers.
"""

from asyncio import Future
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.errors import ApiError, BadRequest, Conflict, OperationRefused, TooLarge, ValidationError
from fairway.runtime.slices import Slice
from fairway.store.entries import ADDED, DELETED, Change, Entry, Key
from fairway.store.store import Store
from fairway.store.verbs import changing, creating, deleting
from fairway.store.verbs.options import PLAIN_DELETE, DeleteOptions, PatchType, WriteOptions, WriteTarget, Written
from fairway.store.verbs.reading import decoded
from fairway.store.verbs.writing import WriteContext, renumbered

MOST_OPERATIONS: Final = 10_000
MOST_BYTES: Final = 64 << 20
"""Of all objects that a transaction writes or finds as they should be, as they are stored: a few small patches can
make much of a large object, and none of them need change it."""

_MOST_ROUNDS: Final = 5


class CreateOperation(NamedTuple):
    """A new object. The manifest is changed."""

    kind: Kind
    version: str
    namespace: str
    manifest: object


class PatchOperation(NamedTuple):
    """A merge patch of an object (not of its status)."""

    kind: Kind
    version: str
    key: Key
    patch: Any


class DeleteOperation(NamedTuple):
    """The end of an object."""

    kind: Kind
    key: Key
    options: DeleteOptions = PLAIN_DELETE


Operation: TypeAlias = CreateOperation | PatchOperation | DeleteOperation
Receipt: TypeAlias = Callable[[Sequence[Written], int], list[Change]]


_Place: TypeAlias = tuple[str, Key]
"""Resource and key of an object."""


class StagedStore:
    """What the store would be after the writes so far; what a write asks of the store, it can ask of this."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._heads: dict[_Place, Entry | None] = {}
        self._found: dict[_Place, Entry | None] = {}
        """Objects as operations found them in the store."""

        self._weights: dict[int, int] = {}
        self._bytes = 0
        self.number = 0
        """The operation that is being decided, from 0 on."""

        self.changes: dict[int, Change] = {}
        """What each operation changes; many change nothing."""

    @property
    def next_revision(self) -> int:
        return self._store.next_revision + len(self.changes)

    def head(self, resource: str, key: Key) -> Entry | None:
        place = (resource, key)
        if place in self._heads:
            return self._heads[place]
        if place not in self._found:
            self._found[place] = self._store.head(resource, key)
        return self._found[place]

    def check_room(self) -> None:
        self._store.check_room()

    def stage(self, changes: Sequence[Change]) -> None:
        """Keep the change of an operation for the end; nothing waits for it yet."""
        (change,) = changes
        entry = change.entry
        self._heads[entry.resource, entry.key] = None if change.type == DELETED else entry
        self.changes[self.number] = change

    def weigh(self, entry: Entry) -> None:
        """Count the object of an operation; `TooLarge` if it was one too many."""
        self._bytes += len(entry.data) - self._weights.get(self.number, 0)
        self._weights[self.number] = len(entry.data)
        if self._bytes > MOST_BYTES:
            raise TooLarge(
                f"the objects of the transaction have more than {MOST_BYTES} bytes as they are stored; send it in "
                "several parts"
            )

    def settling(self) -> None:
        """An unchanged object is reported with all the others."""

    def stale(self) -> set[_Place]:
        """Objects that others have changed since operations found them."""
        head = self._store.head
        return {place for place, entry in self._found.items() if head(*place) is not entry}

    def forget(self, place: _Place) -> None:
        """Look at an object anew the next time."""
        self._heads.pop(place, None)
        self._found.pop(place, None)

    def stage_all(self, *, renumber: bool, with_it: Callable[[int], list[Change]] | None = None) -> Future[None] | None:
        """Send everything to the disk; `renumber` where others may have written since the first operation.

        `with_it` makes further changes, from the revision of the first of them.
        """
        changes = [self.changes[number] for number in sorted(self.changes)]
        first = self._store.next_revision
        more = with_it(first + len(changes)) if with_it is not None else []
        if not changes and not more:
            return self._store.settling()
        if renumber:
            for revision, change in enumerate(changes, first):
                renumbered(change.entry, revision)
        return self._store.stage([*changes, *more])


class TransactionResult(NamedTuple):
    """What came of a transaction."""

    written: list[Written]
    """By operation."""

    durable: Future[None] | None
    """What to wait for before the write may be reported."""


async def transact(
    context: WriteContext,
    store: Store,
    operations: Sequence[Operation],
    options: WriteOptions,
    work: Slice,
    receipt: Receipt | None = None,
) -> TransactionResult:
    """Carry out all operations, or none: `OperationRefused` says which one could not be, and why.

    Many are decided in slices, and others write meanwhile. So at the end, in one go with staging, every operation whose
    object was changed by others is decided once more; where that takes more than a slice, it begins again. `receipt`
    makes what is written with them, or raises if the same transaction has been carried out meanwhile.
    """
    if len(operations) > MOST_OPERATIONS:
        raise BadRequest(
            f"spec.operations: Too many: {len(operations)}: a transaction has at most {MOST_OPERATIONS} operations"
        )
    deciding = _Deciding(context, StagedStore(store), operations, replace(options, dry_run=False))
    await deciding.decide(range(len(operations)), work)
    for _ in range(_MOST_ROUNDS):
        pauses = work.pauses
        await deciding.decide(deciding.stale(), work)
        if work.pauses == pauses:
            break
    else:
        raise Conflict("the objects of the transaction are changed by others all the time; send it in smaller parts")
    if options.dry_run:
        return TransactionResult([_undone(store, one) for one in deciding.written], None)
    written = deciding.written
    with_it = partial(receipt, written) if receipt is not None else None
    return TransactionResult(written, deciding.draft.stage_all(renumber=work.pauses > 0, with_it=with_it))


class _Deciding:
    """A transaction on its way to a decision."""

    def __init__(
        self, context: WriteContext, draft: StagedStore, operations: Sequence[Operation], options: WriteOptions
    ) -> None:
        self.draft = draft
        self._context = replace(context, store=draft)
        self._operations = operations
        self._options = options
        self._by_place: dict[_Place, list[int]] = {}
        self.written: list[Written] = []

    async def decide(self, numbers: Iterable[int], work: Slice) -> None:
        """Decide these operations, in order, on top of the draft."""
        for number in numbers:
            try:
                self._decide(number)
            except (ApiError, ValidationError) as error:
                raise OperationRefused(number + 1, error) from error
            if work.is_over:
                await work.pause()

    def _decide(self, number: int) -> None:
        operation, draft = self._operations[number], self.draft
        draft.number = number
        draft.changes.pop(number, None)
        if number < len(self.written) and isinstance(operation, CreateOperation):
            draft.stage([self._created_again(operation, self.written[number])])
            return
        written = _decided(self._context, operation, self._options)
        draft.weigh(written.entry)
        if number < len(self.written):
            self.written[number] = written
            return
        self.written.append(written)
        self._by_place.setdefault((written.entry.resource, written.entry.key), []).append(number)

    def _created_again(self, operation: CreateOperation, written: Written) -> Change:
        """A new object does not depend on others' writes, but for its namespace and for being new."""
        kind, key = operation.kind, written.entry.key
        creating.check_namespace(self._context, kind, key[0])
        creating.exists_already(self._context, kind, key)
        return Change(ADDED, written.entry, None)

    def stale(self) -> list[int]:
        """The operations to be decided again, because others have changed their objects or their namespaces."""
        stale: set[int] = set()
        for place in self.draft.stale():
            self.draft.forget(place)
            stale.update(self._by_place.get(place, ()))
            if place[0] == "namespaces":
                stale.update(self._created_in(place[1][1]))
        for number in sorted(stale):
            entry = self.written[number].entry
            self.draft.forget((entry.resource, entry.key))
        return sorted(stale)

    def _created_in(self, namespace: str) -> Iterator[int]:
        for number, operation in enumerate(self._operations):
            if isinstance(operation, CreateOperation) and self.written[number].entry.namespace == namespace:
                entry = self.written[number].entry
                yield from self._by_place[entry.resource, entry.key]


def _decided(context: WriteContext, operation: Operation, options: WriteOptions) -> Written:
    if isinstance(operation, CreateOperation):
        return creating.create(context, *operation, options)
    if isinstance(operation, PatchOperation):
        target = WriteTarget(operation.kind, operation.version, operation.key, options, "")
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
