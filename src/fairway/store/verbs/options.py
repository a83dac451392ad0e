"""Options and results of requests."""

from asyncio import Future
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from fairway.apis.machinery.admission import THIS_PROCESS, UserInfo
from fairway.apis.machinery.kind import Kind
from fairway.store.entries import Entry, Key


class PatchType(StrEnum):
    """The ways to describe a change, by their content types."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """What a write may ask for."""

    manager: str = "unknown"
    """Who will own the fields that are written."""

    dry_run: bool = False
    """Go all the way, but store nothing."""

    field_validation: str = "Warn"
    """What to do about fields that the kind does not have: `Ignore`, `Warn` or `Strict`."""

    force: bool = False
    """Apply only: take over fields that others own."""

    tracked: bool = True
    """Record who owns the fields. Controllers of this process are not recorded for what they create, nor for statuses:
    no other manager competes for these fields, and the record would be larger than the object."""

    trusted: bool = False
    """Its author writes what is right by construction: new objects are not held against the schema, statuses neither
    against the schema nor against the rules."""

    shared: bool = False
    """Keep the result decoded: its author is in this process, and others here will look at it."""

    user: UserInfo = THIS_PROCESS
    """Who writes, for admission plugins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """What a delete may ask for."""

    uid: str = ""
    resource_version: str = ""
    """Preconditions: only this object, only in this state."""

    propagation: str = ""
    """`Orphan`, `Background`, `Foreground`; empty means background."""

    grace_seconds: int | None = None
    dry_run: bool = False


PLAIN: Final = WriteOptions()
PLAIN_DELETE: Final = DeleteOptions()


class WriteTarget(NamedTuple):
    """What a change is aimed at, and how."""

    kind: Kind
    version: str
    """The version that the request speaks."""

    key: Key
    options: WriteOptions
    subresource: str


@dataclass(slots=True)
class Written:
    """The object after a write. It must not be modified; not frozen, because one is made for every write."""

    entry: Entry
    warnings: tuple[str, ...] = ()
    created: bool = False
    removed: bool = False
    """The object is gone; `entry` is its last state."""

    durable: Future[None] | None = field(default=None, compare=False, repr=False)
    """What to wait for before the write may be reported; `None` if it is durable already."""
