"""Reads and decodes objects of the store."""

import msgspec

from fairway.apis.machinery.kind import Kind, Manifest
from fairway.errors import NotFound
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


def details_of(kind: Kind, name: str) -> dict[str, object]:
    """What a refusal says about the object that it is about."""
    return {"name": name, "group": kind.group, "kind": kind.plural}


def not_found(kind: Kind, name: str) -> NotFound:
    return NotFound(f'{kind.resource} "{name}" not found', details=details_of(kind, name))
