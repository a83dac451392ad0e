"""Objects out of the store, decoded."""

import msgspec

from fairway.errors import NotFound
from fairway.kinds.kind import Kind, Manifest
from fairway.store.entries import Entry

_decode = msgspec.json.Decoder().decode


def decoded(entry: Entry) -> Manifest:
    """A fresh copy of an object in the stored version."""
    manifest: Manifest = _decode(entry.data)
    return manifest


def not_found(kind: Kind, name: str) -> NotFound:
    return NotFound(
        f'{kind.resource} "{name}" not found', details={"name": name, "group": kind.group, "kind": kind.plural}
    )
