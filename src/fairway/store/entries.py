"""Entries of the store: an object at a revision, and a change between revisions.

Objects are kept as the JSON that is sent to clients, encoded once a revision; beside it stands only what the store and
selectors ask for without decoding the rest.
"""

from typing import Any, Final, TypeAlias

import msgspec

Key: TypeAlias = tuple[str, str]
"""Namespace and name; the namespace is empty for a kind that belongs to the whole cluster."""

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"


class Owner(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Who an object is collected with."""

    uid: str
    api_version: str = ""
    kind: str = ""
    name: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class Meta(msgspec.Struct, frozen=True, rename="camel"):
    """The metadata that is looked at without decoding the whole object."""

    uid: str = ""
    labels: dict[str, str] | None = None
    owner_references: tuple[Owner, ...] = ()
    finalizers: tuple[str, ...] = ()
    deletion_timestamp: str | None = None
    creation_timestamp: str | None = None


class _Head(msgspec.Struct, frozen=True):
    metadata: Meta


_head_decoder: Final = msgspec.json.Decoder(_Head)


def meta_of(metadata: dict[str, Any]) -> Meta:
    """The same from a decoded object."""
    owners = metadata.get("ownerReferences")
    return Meta(
        uid=metadata.get("uid", ""),
        labels=metadata.get("labels"),
        owner_references=tuple([msgspec.convert(owner, Owner) for owner in owners]) if owners else (),
        finalizers=tuple(metadata.get("finalizers") or ()),
        deletion_timestamp=metadata.get("deletionTimestamp"),
        creation_timestamp=metadata.get("creationTimestamp"),
    )


class Entry:
    """One object at one revision."""

    __slots__ = ("_meta", "converted", "data", "fields", "key", "parts", "resource", "revision", "shared")

    def __init__(self, resource: str, key: Key, revision: int, data: bytes, meta: Meta | None = None) -> None:
        self.resource = resource
        self.key = key
        self.revision = revision
        self.data = data
        self._meta = meta
        self.converted: dict[str, bytes] | None = None
        """The same object in other versions, for as long as this revision is alive."""

        self.shared: dict[str, Any] | None = None
        """The object decoded, for readers in this process that change nothing; only while it is the newest state."""

        self.fields: dict[str, str] | None = None
        """What field selectors see, once one has asked."""

        self.parts: Any = None
        """The parts of this state, kept for the next write (`verbs.partscache`), for a while."""

    def succeeded_by(self, revision: int, data: bytes) -> "Entry":
        """The next state of the object, where its metadata stays what it is."""
        return Entry(self.resource, self.key, revision, data, self._meta)

    @property
    def meta(self) -> Meta:
        """Read when first asked for: a start on many objects need not wait until all are decoded."""
        if self._meta is None:
            self._meta = _head_decoder.decode(self.data).metadata
        return self._meta

    @property
    def namespace(self) -> str:
        return self.key[0]

    @property
    def name(self) -> str:
        return self.key[1]

    def __repr__(self) -> str:
        return f"<{self.resource} {'/'.join(self.key)} at {self.revision}>"


class Change:
    """One object going from one revision to the next; `entry` is its last state where it was deleted."""

    __slots__ = ("entry", "previous", "type")

    def __init__(self, change_type: str, entry: Entry, previous: Entry | None) -> None:
        self.type = change_type
        self.entry = entry
        self.previous = previous

    @property
    def revision(self) -> int:
        return self.entry.revision

    def __repr__(self) -> str:
        return f"<{self.type} {self.entry!r}>"
