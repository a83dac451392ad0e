"""Lists: the objects at the newest or a recent revision, whole or in pages."""

import base64
import binascii
from dataclasses import dataclass
from itertools import islice
from typing import Final

import msgspec

from fairway.errors import ApiError, BadRequest, Expired
from fairway.runtime.slices import Slice
from fairway.store.collection import Collection, Snapshot
from fairway.store.entries import Entry, Key
from fairway.store.selectors import Selection
from fairway.store.store import Store


class TooNewError(ApiError):
    """The revision is yet to come."""

    code, reason = 504, "Timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Paging:
    """How much of a list is asked for, and as of when."""

    limit: int = 0
    """0 means all."""

    token: str = ""
    """Where the page before ended."""

    revision: int = 0
    """0 means the newest."""

    exact: bool = False
    """Not this revision or a newer one, but this one."""


EVERYTHING: Final = Paging()


@dataclass(frozen=True, slots=True)
class ListPage:
    """A list, or a part of one."""

    entries: list[Entry]
    revision: int
    token: str = ""
    """The continue token; empty at the end."""

    remaining: int | None = None
    """How many come after this page; `None` where a selector makes that unknown."""


class _Token(msgspec.Struct, frozen=True):
    revision: int
    namespace: str
    name: str


def check_not_too_new(store: Store, revision: int) -> None:
    """Whether a revision has been reached."""
    if revision > store.revision:
        raise TooNewError(
            f"Too large resource version: {revision}, current: {store.revision}",
            details={"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]},
        )


def page(store: Store, selection: Selection, paging: Paging) -> ListPage:
    """The objects that match, in the order of namespace and name."""
    found = _candidates(store, selection, paging)
    if not selection.filters:
        return found
    return _cut(found, [entry for entry in found.entries if selection.matches(entry)], paging)


async def page_in_slices(store: Store, selection: Selection, paging: Paging, work: Slice) -> ListPage:
    """The same, as of the moment of the call; matching many objects takes several slices."""
    found = _candidates(store, selection, paging)
    if not selection.filters:
        return found
    matching, enough = [], paging.limit + 1 if paging.limit else 0
    for entry in found.entries:
        if selection.matches(entry):
            matching.append(entry)
            if len(matching) == enough:
                break
        if work.is_over:
            await work.pause()
    return _cut(found, matching, paging)


def _candidates(store: Store, selection: Selection, paging: Paging) -> ListPage:
    """The objects of the namespace (or with the name) that are asked for; cut to a page unless a selector filters."""
    collection = store.collection(selection.kind.resource)
    revision, after, at = store.revision, None, None
    if paging.token:
        token = _read_token(paging.token)
        revision, after = token.revision, (token.namespace, token.name)
        if revision > store.revision:
            raise _bad_token(paging.token)
        at = _as_of(collection, revision)
    elif paging.revision:
        check_not_too_new(store, paging.revision)
        if paging.exact:
            revision, at = paging.revision, _as_of(collection, paging.revision)
    get = at.get if at is not None else collection.entries.get
    if selection.name and selection.namespace and after is None:
        entry = get((selection.namespace, selection.name))
        return ListPage([entry] if entry is not None else [], revision)
    keys = (at or collection).keys(selection.namespace, after)
    found = (entry for key in keys if (entry := get(key)) is not None)
    if selection.filters or not paging.limit:
        return ListPage(list(found), revision)
    entries = list(islice(found, paging.limit))
    if next(found, None) is None:
        return ListPage(entries, revision)
    return ListPage(entries, revision, _written_token(revision, entries[-1].key), len(keys) - len(entries))


def _cut(found: ListPage, matching: list[Entry], paging: Paging) -> ListPage:
    """A page of what matches; how many come after it is unknown."""
    if not paging.limit or len(matching) <= paging.limit:
        return ListPage(matching, found.revision)
    entries = matching[: paging.limit]
    return ListPage(entries, found.revision, _written_token(found.revision, entries[-1].key))


def _as_of(collection: Collection, revision: int) -> Snapshot:
    try:
        return collection.at(revision)
    except Expired:
        raise Expired(
            "The provided continue parameter is too old to display a consistent list result, or the requested revision "
            "is compacted. Start the list again without it."
        ) from None


def _written_token(revision: int, key: Key) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(_Token(revision, *key))).decode().rstrip("=")


def _read_token(text: str) -> _Token:
    try:
        data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        return msgspec.json.decode(data, type=_Token)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        raise _bad_token(text) from None


def _bad_token(text: str) -> BadRequest:
    return BadRequest(f"continue key is not valid: {text[:80]!r}; use the one that the last page gave")
