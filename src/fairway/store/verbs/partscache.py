"""Cache of the parts of recently written objects: objects are written in bursts, and most of each stays the same.

An entry that was written lately keeps its parts as the write had them: metadata, owners of fields, spec and
status. The next status write takes these instead of decoding the object, and the bytes that it cannot change are
stored again as they are. The parts belong to the entry: they go when another revision replaces it.
Where none are kept, an object that readers have decoded is only split at the borders of its parts.

Nothing in here is ever changed in place. How much is kept is bounded by the size of the objects that it is kept for.
"""

from collections import OrderedDict
from functools import lru_cache
from operator import is_
from typing import Any, Final

import msgspec

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.store.entries import Entry
from fairway.store.patching.claims import Claims

MOST_BYTES: Final = 4 << 20
"""Of objects as they are stored; two thousand workloads or so."""

LARGEST: Final = 64 << 10
"""Larger objects are not worth their room."""

_OWNERS: Final = b',"managedFields":'
_LATE: Final = frozenset({"managedFields", "resourceVersion"})
"""Metadata that a write of a status changes; here it is written last."""


class ObjectParts:
    """One revision of an object, split into its parts."""

    __slots__ = ("_claims", "is_right", "lead", "metadata", "spec", "status")

    def __init__(
        self, metadata: dict[str, Any], claims: Claims | None, spec: msgspec.Raw | None, status: Any, lead: bytes = b""
    ) -> None:
        """Owners that are not given are read from `lead`."""
        self.metadata = metadata
        """What it says of owners and of its revision may be of an earlier state, or missing."""

        self.spec = spec
        self.status = status
        """`None` if there is none."""

        self.lead = lead
        """All of it that is stored before its revision, its owners last; empty if it has not been asked for."""

        self.is_right = False
        """Whether the status is known to be as the schema wants it: checked, or by an author who is trusted."""

        self._claims = claims

    def with_status(self, status: Any) -> "ObjectParts":
        """The same with another status, about which nothing is known yet."""
        return ObjectParts(self.metadata, self._claims, self.spec, status, self.lead)

    @property
    def claims(self) -> Claims:
        """The owners, read when first asked for: most controllers never ask. `DecodeError` if they are unusual."""
        if self._claims is None:
            owners = self.lead[self._end_of_head() + len(_OWNERS) :]
            if not owners and b'"managedFields"' in self.lead:
                raise msgspec.DecodeError("the owners are not where they usually are")
            self._claims = _read_claims(owners)
        return self._claims

    def give_to(self, owners: Claims, before: Claims) -> None:
        """Set the owners, if the previous ones are those that are stored."""
        self._claims = owners
        if owners is not before:
            self._record(owners.entries, before.entries)

    def _record(self, after: list[dict[str, Any]], before: list[dict[str, Any]]) -> None:
        if len(after) == len(before) + 1 and all(map(is_, before, after)):
            self.lead = b"".join((self.lead[:-1], b",", _encode(after[-1]), b"]"))
        else:
            self.lead = self.lead[: self._end_of_head()] + _OWNERS + _encode(after)

    def stored(self, revision: int) -> bytes:
        """The object as it is stored at a revision."""
        parts: list[Any] = [self.lead, b',"resourceVersion":"%d"}' % revision]
        if self.spec is not None:
            parts += (b',"spec":', self.spec)
        if self.status is not None:
            parts += (b',"status":', _encode(self.status))
        parts.append(b"}")
        return b"".join(parts)

    def _end_of_head(self) -> int:
        # No label and no annotation is a list, so this is not one of that name.
        at = self.lead.find(_OWNERS + b"[")
        return len(self.lead) if at < 0 else at


class _Owner(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One entry of `managedFields`, its fields as they are stored."""

    manager: str
    operation: str
    apiVersion: str  # noqa: N815 - as it is written
    fieldsType: str  # noqa: N815
    fieldsV1: msgspec.Raw  # noqa: N815
    time: str | msgspec.UnsetType = msgspec.UNSET
    subresource: str | msgspec.UnsetType = msgspec.UNSET


class _Parts(msgspec.Struct, forbid_unknown_fields=True):
    apiVersion: str  # noqa: N815
    kind: str
    metadata: dict[str, msgspec.Raw]
    spec: msgspec.Raw = msgspec.Raw()
    status: dict[str, Any] | None = None


_PARTS: Final = frozenset(_Parts.__struct_fields__)

_parts = msgspec.json.Decoder(_Parts)
_owners = msgspec.json.Decoder(list[_Owner])
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def object_parts(kind: Kind, entry: Entry) -> ObjectParts | None:
    """The parts of an entry, kept or split now; `None` if it has other parts than usual."""
    parts: ObjectParts | None = entry.parts
    if parts is not None:
        if parts.lead:
            return parts
        at = _cut(kind, entry)
        if at > 0:
            parts.lead = entry.data[:at]
            return parts
    shared = entry.shared
    if shared is not None and not shared.keys() <= _PARTS:
        return None
    found = None if shared is None else _split(kind, entry, shared)
    try:
        return found or _decoded(kind, entry)
    except msgspec.ValidationError:
        return None


def _cut(kind: Kind, entry: Entry) -> int:
    """Where the revision of an object is stored, if that is the end of its metadata and the spec follows; else -1.

    Quotes inside of strings are escaped and no part of the metadata has a spec beside it, so the place is certain.
    """
    if not entry.data.startswith(_start(kind)):
        return -1
    return entry.data.find(b',"resourceVersion":"%d"},"spec":' % entry.revision)


@lru_cache(maxsize=256)
def _start(kind: Kind) -> bytes:
    """What objects of a kind usually begin with."""
    return _encode({"apiVersion": kind.api_version(kind.stored), "kind": kind.kind, "metadata": {}})[:-2]


def _split(kind: Kind, entry: Entry, shared: Manifest) -> ObjectParts | None:
    """An object cut where its parts meet, with what readers have of it; `None` if its parts are in another order."""
    data, status = entry.data, shared.get("status")
    at = _cut(kind, entry)
    tail = b"".join((b',"status":', _encode(status), b"}")) if "status" in shared else b"}"
    if at < 0 or not data.endswith(tail):
        return None
    start = data.index(b"}", at) + len(b'},"spec":')
    spec = msgspec.Raw(data[start : len(data) - len(tail)])
    return ObjectParts(shared["metadata"], None, spec, status, data[:at])


def _decoded(kind: Kind, entry: Entry) -> ObjectParts:
    parts = _parts.decode(entry.data)
    owners = parts.metadata.get("managedFields")
    metadata = {name: _decode(part) for name, part in parts.metadata.items() if name not in _LATE}
    lead = _start(kind) + _encode(metadata)[1:-1]
    if owners is not None:
        lead = b"".join((lead, _OWNERS, owners))
    spec = msgspec.Raw(bytes(parts.spec)) if bytes(parts.spec) else None
    return ObjectParts(metadata, None, spec, parts.status, lead)


def _read_claims(text: bytes) -> Claims:
    """Owners with their fields, read where some of the status is among them."""
    owners = _owners.decode(text) if text else []
    fields = [_decode(one.fieldsV1) if b'"f:status"' in bytes(one.fieldsV1) else None for one in owners]
    return Claims([_entry(one) for one in owners], fields)


def _entry(owner: _Owner) -> dict[str, Any]:
    entry: dict[str, Any] = {"manager": owner.manager, "operation": owner.operation, "apiVersion": owner.apiVersion}
    if owner.time is not msgspec.UNSET:
        entry["time"] = owner.time
    entry["fieldsType"] = owner.fieldsType
    entry["fieldsV1"] = owner.fieldsV1
    if owner.subresource is not msgspec.UNSET:
        entry["subresource"] = owner.subresource
    return entry


class PartsCache:
    """The newest revisions of the objects that were written last, oldest first."""

    def __init__(self) -> None:
        self._entries: OrderedDict[Entry, None] = OrderedDict()
        self._bytes = 0

    def keep(self, entry: Entry, parts: ObjectParts, previous: Entry | None = None) -> None:
        """Attach the parts to a new revision instead of the previous one."""
        if previous is not None and previous.parts is not None:
            self._drop(previous)
        size = len(entry.data)
        if size > LARGEST:
            return
        entry.parts = parts
        self._entries[entry] = None
        self._bytes += size
        while self._bytes > MOST_BYTES:
            self._drop(next(iter(self._entries)))

    def _drop(self, entry: Entry) -> None:
        entry.parts = None
        del self._entries[entry]
        self._bytes -= len(entry.data)
