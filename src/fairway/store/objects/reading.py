"""Objects out of the store, decoded."""

from typing import Any

import msgspec

from fairway.errors import NotFound
from fairway.kinds.kind import Kind, Manifest
from fairway.store.entries import Entry

_decode = msgspec.json.Decoder().decode


def decoded(entry: Entry) -> Manifest:
    """A fresh copy of an object in the stored version."""
    manifest: Manifest = _decode(entry.data)
    return manifest


def shared(entry: Entry) -> Manifest:
    """An object in the stored version, decoded once for all readers in this process: not to be changed."""
    if entry.shared is None:
        entry.shared = decoded(entry)
    return entry.shared


class _Parts(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    apiVersion: str  # noqa: N815 - as it is written
    kind: str
    metadata: dict[str, Any]
    spec: msgspec.Raw = msgspec.Raw()
    status: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


_parts = msgspec.json.Decoder(_Parts)


def with_raw_spec(entry: Entry) -> Manifest | None:
    """An object with its spec as it is stored, for who leaves that alone; `None` if it has more than usual parts."""
    try:
        parts = _parts.decode(entry.data)
    except msgspec.ValidationError:
        return None
    manifest: Manifest = {"apiVersion": parts.apiVersion, "kind": parts.kind, "metadata": parts.metadata}
    if bytes(parts.spec):
        manifest["spec"] = parts.spec
    if parts.status is not msgspec.UNSET:
        manifest["status"] = parts.status
    return manifest


def details_of(kind: Kind, name: str) -> dict[str, object]:
    """What a refusal says about the object that it is about."""
    return {"name": name, "group": kind.group, "kind": kind.plural}


def not_found(kind: Kind, name: str) -> NotFound:
    return NotFound(f'{kind.resource} "{name}" not found', details=details_of(kind, name))
