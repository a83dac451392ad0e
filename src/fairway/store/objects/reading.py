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
    """An object in the stored version, decoded once for all readers in this process: not to be changed.

    Without the record of who owns which field: it is large, and only those who write need it.
    """
    if entry.shared is None:
        manifest = decoded(entry)
        manifest["metadata"].pop("managedFields", None)
        entry.shared = manifest
    return entry.shared


def readable(entry: Entry) -> Manifest:
    """An object to look at once: what others share where they do, else decoded and not kept."""
    return decoded(entry) if entry.shared is None else entry.shared


class _Parts(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    apiVersion: str  # noqa: N815 - as it is written
    kind: str
    metadata: dict[str, msgspec.Raw]
    spec: msgspec.Raw = msgspec.Raw()
    status: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET


class _Owner(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One entry of `managedFields`, its fields as they are stored."""

    manager: str
    operation: str
    apiVersion: str  # noqa: N815
    fieldsType: str  # noqa: N815
    fieldsV1: msgspec.Raw  # noqa: N815
    time: str | msgspec.UnsetType = msgspec.UNSET
    subresource: str | msgspec.UnsetType = msgspec.UNSET


_parts = msgspec.json.Decoder(_Parts)
_owners = msgspec.json.Decoder(list[_Owner])


def with_raw_spec(entry: Entry) -> Manifest | None:
    """An object for who changes its status and nothing else; `None` if it has more than usual parts.

    Its spec is as it is stored, and so are, in the record of ownership, the fields of those who own none of the status.
    """
    try:
        parts = _parts.decode(entry.data)
        metadata = {name: _decode(value) for name, value in parts.metadata.items() if name != "managedFields"}
        owners = parts.metadata.get("managedFields")
        if owners is not None:
            metadata["managedFields"] = [_owner(one) for one in _owners.decode(owners)]
    except msgspec.ValidationError:
        return None
    manifest: Manifest = {"apiVersion": parts.apiVersion, "kind": parts.kind, "metadata": metadata}
    if bytes(parts.spec):
        manifest["spec"] = parts.spec
    if parts.status is not msgspec.UNSET:
        manifest["status"] = parts.status
    return manifest


def _owner(owner: _Owner) -> dict[str, Any]:
    fields = owner.fieldsV1
    entry: dict[str, Any] = {"manager": owner.manager, "operation": owner.operation, "apiVersion": owner.apiVersion}
    if owner.time is not msgspec.UNSET:
        entry["time"] = owner.time
    entry["fieldsType"] = owner.fieldsType
    entry["fieldsV1"] = _decode(fields) if b'"f:status"' in bytes(fields) else fields
    if owner.subresource is not msgspec.UNSET:
        entry["subresource"] = owner.subresource
    return entry


def details_of(kind: Kind, name: str) -> dict[str, object]:
    """What a refusal says about the object that it is about."""
    return {"name": name, "group": kind.group, "kind": kind.plural}


def not_found(kind: Kind, name: str) -> NotFound:
    return NotFound(f'{kind.resource} "{name}" not found', details=details_of(kind, name))
