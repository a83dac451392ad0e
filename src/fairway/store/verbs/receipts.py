"""Receipts of transactions with an idempotency key: a repeated request is answered and not applied again.

A receipt is written in the commit of its transaction, so it is there exactly if the transaction happened, whatever
becomes of the server. It holds the digest of the request and which objects it led to. Receipts are no objects of the
API. They are bounded by age, number and size; the oldest are deleted in the commit of a later transaction.
"""

from collections import deque
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from fairway.apis.machinery import timestamps
from fairway.errors import Invalid
from fairway.store.entries import ADDED, DELETED, Change, Entry, Key
from fairway.store.store import Store
from fairway.store.verbs.options import Written

RESOURCE: Final = "transactionreceipts.fairway.dev"
LIFETIME_SECONDS: Final = 3600.0
MOST: Final = 10_000
MOST_BYTES: Final = 32 << 20
_DELETED_AT_ONCE: Final = 16


class Once(NamedTuple):
    """A transaction that must be carried out at most once."""

    name: str
    """Of its receipt: made of the user, the namespace and the key."""

    digest: str
    """Of the request: a key belongs to one."""


class Repeated(Exception):
    """The transaction has been carried out before."""

    def __init__(self, results: "list[tuple[str, str, str] | None]") -> None:
        self.results = results
        super().__init__("carried out before")


class _Metadata(msgspec.Struct, rename="camel"):
    creation_timestamp: str


class _Receipt(msgspec.Struct):
    metadata: _Metadata
    digest: str
    results: list[tuple[str, str, str] | None]
    """By operation: namespace, name and uid of the object; `None` for one that is gone."""


class _Kept(NamedTuple):
    key: Key
    created: float
    size: int


class ReceiptLimits(NamedTuple):
    """How much is kept."""

    seconds: float = LIFETIME_SECONDS
    number: int = MOST
    data_bytes: int = MOST_BYTES


_decode: Final = msgspec.json.Decoder(_Receipt).decode


class Receipts:
    """All receipts of a store."""

    def __init__(self, store: Store, now: Callable[[], datetime], limits: ReceiptLimits | None = None) -> None:
        self._store = store
        self._now = now
        self._limits = limits or ReceiptLimits()
        self._kept: deque[_Kept] = deque()
        self._bytes = 0
        for entry in sorted(store.collection(RESOURCE).entries.values(), key=lambda one: one.revision):
            created = _decode(entry.data).metadata.creation_timestamp
            self._keep(entry, datetime.fromisoformat(created).timestamp())
        store.observe(self._observe)

    def results(self, once: Once) -> list[tuple[str, str, str] | None] | None:
        """What an earlier transaction with this key led to, durable or on its way there; `None` if there was none."""
        entry = self._store.head(RESOURCE, ("", once.name))
        if entry is None:
            return None
        receipt = _decode(entry.data)
        if receipt.digest != once.digest:
            raise Invalid(
                "spec.idempotencyKey: Invalid value: the key was used for another transaction; use a new one for each"
            )
        return receipt.results

    def changes(self, once: Once, written: Sequence[Written], revision: int) -> list[Change]:
        """The receipt at a revision, and the end of old ones at the revisions after it; `Repeated` if there is one."""
        earlier = self.results(once)
        if earlier is not None:
            raise Repeated(earlier)
        stamp = timestamps.stamp(self._now())
        results = [None if one.removed else (*one.entry.key, one.entry.meta.uid) for one in written]
        data = msgspec.json.encode(_Receipt(_Metadata(stamp), once.digest, results))
        changes = [Change(ADDED, Entry(RESOURCE, ("", once.name), revision, data), None)]
        for old in self._old(len(data)):
            ended = Entry(RESOURCE, old.key, revision + len(changes), old.data)
            changes.append(Change(DELETED, ended, old))
        return changes

    def _old(self, added: int) -> list[Entry]:
        """The oldest that are too old or too many; a few at a time, so that no transaction pays for many."""
        oldest = self._now().timestamp() - self._limits.seconds
        number, size = len(self._kept) + 1, self._bytes + added
        found: list[Entry] = []
        for key, created, length in self._kept:
            if len(found) == _DELETED_AT_ONCE or (
                created > oldest and number <= self._limits.number and size <= self._limits.data_bytes
            ):
                break
            entry = self._store.head(RESOURCE, key)
            if entry is not None:  # else its end is on its way to the disk
                found.append(entry)
            number, size = number - 1, size - length
        return found

    def _observe(self, change: Change) -> None:
        if change.entry.resource != RESOURCE:
            return
        if change.type == DELETED:
            gone = next(one for one in self._kept if one.key == change.entry.key)
            self._kept.remove(gone)
            self._bytes -= gone.size
        else:
            self._keep(change.entry, self._now().timestamp())

    def _keep(self, entry: Entry, created: float) -> None:
        self._kept.append(_Kept(entry.key, created, len(entry.data)))
        self._bytes += len(entry.data)
