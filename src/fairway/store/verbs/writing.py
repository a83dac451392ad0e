"""Shared by all writes: context, time stamps, and staging.

A write is decided at once and without waiting, so that nothing can change under it. Only then does its author wait for
the disk, and by then everything that was needed for the decision is let go of.
"""

from asyncio import Future
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, Protocol

import msgspec

from fairway.apis.machinery.admission import AdmissionChain, AdmissionPlugin
from fairway.apis.machinery.documents import MOST_NESTED, MOST_VALUES, check_values
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.apis.machinery.timestamps import stamp
from fairway.apis.registry import Registry
from fairway.errors import Conflict, FieldError, TooLarge, ValidationError
from fairway.store.entries import ADDED, DELETED, MODIFIED, Change, Entry, Key, meta_of
from fairway.store.patching.managedfields import after_write, entries_of
from fairway.store.verbs.intake import name_of
from fairway.store.verbs.options import WriteOptions, Written
from fairway.store.verbs.partscache import PartsCache
from fairway.store.verbs.reading import details_of, not_found

LARGEST_OBJECT: Final = 3 << 20
"""In bytes, as it is stored: twice what etcd takes, and as much as a request can carry."""

_TIMES_AS_MANY: Final = 2
"""How many times what a request may carry an object may hold: with defaults, or after several patches."""

_TIMES_AS_MANY_OWNED: Final = 8
"""The record of an object's owners has an entry for each field and manager: how many times what an object may hold."""

_SURELY_SMALL: Final = 2 * MOST_NESTED
"""With fewer bytes than this, no object can have too many values."""

_ROOM_TO_GO: Final = 64 << 10
_MOST_PROBLEMS: Final = 100
"""More are not told: the first hundred are enough to see what is wrong."""

_encode = msgspec.json.Encoder().encode


class Ground(Protocol):
    """What writes are decided on: the store itself, or a draft of it."""

    @property
    def next_revision(self) -> int:
        """The revision that the next staged change gets."""

    def head(self, resource: str, key: Key) -> Entry | None:
        """The newest state of an object."""

    def check_room(self) -> None:
        """`TooManyRequests` while there is no room for more."""

    def stage(self, changes: Sequence[Change]) -> Future[None] | None:
        """Take changes; what is given back, if anything, is done when they are durable."""

    def settling(self) -> Future[None] | None:
        """The same for everything staged so far."""


@dataclass(slots=True)
class WriteContext:
    """What a write needs besides its request."""

    store: Ground
    registry: Registry
    now: Callable[[], datetime]
    new_uid: Callable[[], str]
    new_suffix: Callable[[], str]
    admission: AdmissionPlugin = field(default_factory=AdmissionChain)
    before_apply: Callable[[Kind, Manifest, Manifest], None] | None = None
    recent: PartsCache = field(default_factory=PartsCache)

    def stamp(self) -> str:
        """The time as objects carry it: whole seconds, UTC."""
        return stamp(self.now())

    def head(self, kind: Kind, key: Key) -> Entry:
        """The object as the next write finds it; `NotFound` if there is none."""
        entry = self.store.head(kind.resource, key)
        if entry is None:
            raise not_found(kind, key[1])
        return entry


def drafted(kind: Kind, key: Key, manifest: Manifest) -> Entry:
    """The entry of a dry run: complete, but of no revision."""
    return Entry(kind.resource, key, 0, _encode(manifest), meta_of(manifest["metadata"]))


def staged(kind: Kind, key: Key, manifest: Manifest, revision: int) -> Entry:
    """The entry of an object at the revision that it is about to get.

    It says first of what kind it is, and its revision last of its metadata: the next write can cut it there
    (`recent.py`).
    """
    metadata = manifest["metadata"]
    metadata.pop("resourceVersion", None)
    metadata["resourceVersion"] = str(revision)
    if next(iter(manifest)) != "apiVersion":
        manifest = {"apiVersion": manifest["apiVersion"], "kind": manifest["kind"], **manifest}
    return Entry(kind.resource, key, revision, _encode(manifest), meta_of(metadata))


def renumbered(entry: Entry, revision: int) -> None:
    """Give a staged entry that was not visible yet another revision."""
    if entry.revision == revision:
        return
    before, after = (b'"resourceVersion":"%d"}' % number for number in (entry.revision, revision))
    if entry.data.count(before) == 1:
        entry.data = entry.data.replace(before, after)
    else:  # some field of the object looks the same
        manifest = msgspec.json.decode(entry.data)
        manifest["metadata"]["resourceVersion"] = str(revision)
        entry.data = _encode(manifest)
    entry.revision = revision
    if entry.shared is not None:
        entry.shared["metadata"]["resourceVersion"] = str(revision)


def owned(
    context: WriteContext, kind: Kind, old: Manifest | None, new: Manifest, options: WriteOptions, subresource: str = ""
) -> list[dict[str, Any]]:
    """The record of ownership after a plain write; it is always in the stored version."""
    if not options.tracked and (old is None or subresource):
        return entries_of(old)
    return after_write(
        old,
        new,
        schema=kind.schemas[kind.stored](),
        manager=options.manager,
        subresource=subresource,
        api_version=kind.api_version(kind.stored),
        now=context.stamp(),
    )


def put(
    context: WriteContext,
    kind: Kind,
    key: Key,
    manifest: Manifest,
    previous: Entry | None,
    warnings: tuple[str, ...] = (),
) -> Written:
    """Send an object's new state to the disk."""
    store = context.store
    store.check_room()
    entry = staged(kind, key, manifest, store.next_revision)
    if not is_surely_small(entry.data):
        _check_size(kind, manifest, entry.data)
    entry.shared = readable_after(manifest, previous)
    durable = store.stage([Change(ADDED if previous is None else MODIFIED, entry, previous)])
    return Written(entry, warnings, created=previous is None, durable=durable)


def readable_after(manifest: Manifest, previous: Entry | None) -> Manifest | None:
    """The object for readers in this process; a spec that was left as it is stored is taken from the state before."""
    spec = manifest.get("spec")
    if isinstance(spec, msgspec.Raw):
        if previous is None or previous.shared is None:
            return None
        spec = previous.shared["spec"]
    metadata = {name: value for name, value in manifest["metadata"].items() if name != "managedFields"}
    readable = {**manifest, "metadata": metadata}
    if spec is not None:
        readable["spec"] = spec
    return readable


def is_surely_small(data: bytes) -> bool:
    """Whether an object is of an allowed size as it is stored; if not, it is worth a closer look."""
    if len(data) <= _SURELY_SMALL:
        return True
    if len(data) > LARGEST_OBJECT:
        return False
    return _are_few(*_counted(data), 1)


def _counted(data: bytes) -> tuple[int, int]:
    """At most how many objects and lists there are in a JSON text, and how many values besides."""
    return data.count(b"{") + data.count(b"["), data.count(b",")


def _are_few(nested: int, others: int, times: int) -> bool:
    return nested <= times * MOST_NESTED and nested + others < times * MOST_VALUES


def _check_size(kind: Kind, manifest: Manifest, data: bytes) -> None:
    """Patches could let an object grow without end. One that is to go may be a little larger, or it could never go."""
    size, is_to_go = len(data), "deletionTimestamp" in manifest["metadata"]
    if not is_to_go:
        metadata = manifest["metadata"]
        owners = metadata.get("managedFields") or []
        owned, besides = _counted(_encode(owners))
        nested, others = _counted(data)
        if not _are_few(nested - owned, others - besides, _TIMES_AS_MANY):
            check_values({**manifest, "metadata": {**metadata, "managedFields": []}}, _TIMES_AS_MANY)
        if not _are_few(owned, besides, _TIMES_AS_MANY_OWNED):
            check_values(owners, _TIMES_AS_MANY_OWNED)
    if size <= LARGEST_OBJECT + (_ROOM_TO_GO if is_to_go else 0):
        return
    raise TooLarge(
        f'{kind.resource} "{name_of(manifest)}" would have {size} bytes as it is stored, with what is kept about its '
        f"fields' owners; at most {LARGEST_OBJECT} are possible"
    )


def remove(
    context: WriteContext, kind: Kind, key: Key, manifest: Manifest, previous: Entry, warnings: tuple[str, ...] = ()
) -> Written:
    """Send an object's end to the disk; `manifest` is its last state."""
    store = context.store
    entry = staged(kind, key, manifest, store.next_revision)
    return Written(entry, warnings, removed=True, durable=store.stage([Change(DELETED, entry, previous)]))


def unchanged(context: WriteContext, entry: Entry, warnings: tuple[str, ...] = (), *, dry_run: bool = False) -> Written:
    """No-op write: returns the current entry once pending commits are durable."""
    return Written(entry, warnings, durable=None if dry_run else context.store.settling())


def refuse_invalid(
    kind: Kind, version: str, manifest: Manifest, errors: list[FieldError], missed: Sequence[FieldError] = ()
) -> None:
    """Raise what is wrong with an object, if anything is, with the paths of the request's version.

    `missed` is what the schema found; where the rules found something at the same place, theirs is said.
    """
    if missed:
        said = {error.path for error in errors}
        errors = [*errors, *(error for error in missed if error.path not in said)]
    if not errors:
        return
    errors = errors[:_MOST_PROBLEMS]
    if version != kind.stored:
        errors = [replace(error, path=kind.rules.request_path(version, error.path)) for error in errors]
    raise ValidationError(kind.kind, name_of(manifest), errors)


def modified_meanwhile(kind: Kind, name: str) -> Conflict:
    return Conflict(
        f'Operation cannot be fulfilled on {kind.resource} "{name}": the object has been modified; please apply your '
        "changes to the latest version and try again",
        details=details_of(kind, name),
    )


def check_preconditions(kind: Kind, entry: Entry, uid: object, resource_version: object) -> None:
    """`Conflict` unless the object is the one, and in the state, that the request was made for."""
    if uid and uid != entry.meta.uid:
        raise Conflict(
            f'Operation cannot be fulfilled on {kind.resource} "{entry.name}": Precondition failed: UID in '
            f"precondition: {uid!s:.64}, UID in object meta: {entry.meta.uid}",
            details=details_of(kind, entry.name),
        )
    if resource_version and str(resource_version) != str(entry.revision):
        raise modified_meanwhile(kind, entry.name)
