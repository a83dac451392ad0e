"""What the write of an object leaves to the next one: objects are written in bursts, and most is the same again.

Each state of an object that was written lately carries what its author had in hand: its parts, the owners of its
fields, and how the kind's rules read it. Whoever writes its status next takes these instead of decoding the object.
They are bound to the state itself: a state that was never stored, or that another has replaced, is never asked.

Nothing in here is ever changed in place. How much is kept is bounded by the size of the objects that it is kept for.
"""

from collections import deque
from typing import Any, Final

import msgspec

from fairway.kinds.kind import Manifest
from fairway.store.entries import Entry
from fairway.store.patching.claims import Claims

MOST_BYTES: Final = 4 << 20
"""Of objects as they are stored; a thousand workloads or so."""

LARGEST: Final = 64 << 10
"""Larger objects are not worth their room."""


class Known:
    """One state of an object in its parts."""

    __slots__ = ("claims", "is_right", "metadata", "reading", "spec", "status")

    def __init__(
        self,
        metadata: dict[str, Any],
        claims: Claims,
        spec: msgspec.Raw | None,
        status: Any,
    ) -> None:
        self.metadata = metadata
        """With `managedFields`, if the object has them, but what they say stands in `claims`."""

        self.claims = claims
        self.spec = spec
        self.status = status
        """`None` if there is none."""

        self.is_right = False
        """Whether the status is known to be as the schema wants it: checked, or by an author who is trusted."""

        self.reading: Any = None
        """What the kind's rules made of it (`Rules.validate_status`)."""


class _Owner(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One entry of `managedFields`, its fields as they are stored."""

    manager: str
    operation: str
    apiVersion: str  # noqa: N815 - as it is written
    fieldsType: str  # noqa: N815
    fieldsV1: msgspec.Raw  # noqa: N815
    time: str | msgspec.UnsetType = msgspec.UNSET
    subresource: str | msgspec.UnsetType = msgspec.UNSET


class _Owned(msgspec.Struct):
    owners: list[_Owner] | msgspec.UnsetType = msgspec.field(default=msgspec.UNSET, name="managedFields")


class _Rest(msgspec.Struct):
    """What is not in the state that readers share."""

    metadata: _Owned
    spec: msgspec.Raw = msgspec.Raw()


class _Parts(msgspec.Struct, forbid_unknown_fields=True):
    apiVersion: str  # noqa: N815
    kind: str
    metadata: dict[str, msgspec.Raw]
    spec: msgspec.Raw = msgspec.Raw()
    status: dict[str, Any] | None = None


_PARTS: Final = frozenset(_Parts.__struct_fields__)

_rest = msgspec.json.Decoder(_Rest)
_parts = msgspec.json.Decoder(_Parts)
_owners = msgspec.json.Decoder(list[_Owner])
_decode = msgspec.json.Decoder().decode


def known_of(entry: Entry) -> Known | None:
    """A state in its parts, left by its author or taken apart here; `None` if it has other parts than usual."""
    if entry.known is not None:
        known: Known = entry.known
        return known
    try:
        return _decoded(entry) if entry.shared is None else _completed(entry.data, entry.shared)
    except msgspec.ValidationError:
        return None


def _completed(data: bytes, shared: Manifest) -> Known | None:
    """The same where readers have the object decoded, all but the record of ownership."""
    if not shared.keys() <= _PARTS:
        return None
    rest = _rest.decode(data)
    owners, metadata = rest.metadata.owners, shared["metadata"]
    if owners is msgspec.UNSET:
        return Known(metadata, _claims([]), _given(rest.spec), shared.get("status"))
    return Known({**metadata, "managedFields": None}, _claims(owners), _given(rest.spec), shared.get("status"))


def _decoded(entry: Entry) -> Known:
    parts = _parts.decode(entry.data)
    owners = parts.metadata.pop("managedFields", None)
    metadata = {name: _decode(value) for name, value in parts.metadata.items()}
    if owners is None:
        return Known(metadata, _claims([]), _given(parts.spec), parts.status)
    metadata["managedFields"] = None
    return Known(metadata, _claims(_owners.decode(owners)), _given(parts.spec), parts.status)


def _given(spec: msgspec.Raw) -> msgspec.Raw | None:
    return spec if bytes(spec) else None


def _claims(owners: list[_Owner]) -> Claims:
    """Owners with their fields, read where some of the status is among them."""
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


class Recent:
    """The states that were written last, oldest first."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque()
        self._bytes = 0

    def keep(self, entry: Entry, known: Known, previous: Entry | None = None) -> None:
        """Let a new state carry what is known of it, instead of the one before."""
        if previous is not None:
            previous.known = None
        size = len(entry.data)
        if size > LARGEST:
            return
        entry.known = known
        self._entries.append(entry)
        self._bytes += size
        while self._bytes > MOST_BYTES:
            oldest = self._entries.popleft()
            oldest.known = None
            self._bytes -= len(oldest.data)
