"""Field ownership of a status after an update: the result of `managedfields.after_write`, computed on less.

A write through `/status` changes nothing else, so nothing else is compared, and only owners of some of the status can
lose a field. They are kept with their fields to work with beside the record as it is stored, from one write to the
next: most writers write what they wrote before, and then only the time in their record is new.
"""

from functools import lru_cache
from operator import is_
from typing import Any, NamedTuple, TypeAlias

import msgspec

from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.schemas.schema import Schema
from fairway.store.patching.comparing import compare
from fairway.store.patching.fieldsets import FieldSet, covers, difference, union
from fairway.store.patching.managedfields import MAX_UPDATE_MANAGERS, Entry, identity, new_entry, order

_encode = msgspec.json.Encoder().encode
_Owner: TypeAlias = tuple[Entry, FieldSet | None]


class Claims(NamedTuple):
    """The owners of an object's fields; never changed in place."""

    entries: list[Entry]
    """As they are stored."""

    fields: list[FieldSet | None]
    """What each of them owns; `None` for one who owns nothing of the status."""


class StatusWrite(NamedTuple):
    """One write of a status; the status is `None` where there is none."""

    old: Any
    new: Any
    manager: str
    api_version: str
    time: str


def after_status_write(claims: Claims, write: StatusWrite, schema: Schema) -> Claims | None:
    """The owners afterwards, the same ones if nothing changes; `None` if there are too many to work it out here."""
    if not claims.entries:
        return claims
    if len(claims.entries) >= MAX_UPDATE_MANAGERS:
        return None
    changed, gone = compare(_holding(write.old), _holding(write.new), schema)
    if not changed and not gone:
        return claims
    template, me = _template(write.manager, write.api_version, write.time)
    if len(claims.entries) == 1 and claims.fields[0] is None and changed and identity(claims.entries[0]) != me:
        return _joined_by(claims.entries[0], (_recorded(template, changed), changed))
    owners: list[_Owner] = []
    mine: _Owner | None = None
    for entry, fields in zip(*claims, strict=True):
        if changed and entry.get("subresource") == "status" and identity(entry) == me:
            if fields is None:
                return None
            mine = _with_taken(entry, fields, template, changed, gone)
        elif fields is None:
            owners.append((entry, None))
        else:
            rest = difference(difference(fields, changed), gone)
            if rest:
                owners.append((entry if rest is fields else _recorded(entry, rest), rest))
    if changed:
        owners.append(mine or (_recorded(template, changed), changed))
        owners.sort(key=_order)
    if len(owners) == len(claims.entries) and all(map(is_, (entry for entry, _ in owners), claims.entries)):
        return claims
    return Claims([entry for entry, _ in owners], [fields for _, fields in owners])


def _joined_by(entry: Entry, owner: _Owner) -> Claims:
    """The owners where the first who writes a status joins the one who made the object."""
    mine, fields = owner
    if (entry["operation"], entry.get("time") or "") < ("Update", mine["time"]) or order(entry) <= order(mine):
        return Claims([entry, mine], [None, fields])
    return Claims([mine, entry], [fields, None])


@lru_cache(maxsize=64)
def _template(manager: str, api_version: str, time: str) -> tuple[Entry, tuple[str, str, str, str]]:
    """The managedFields entry of the writer, without fields, and its key."""
    entry = new_entry(manager, "Update", api_version, time, "status")
    return entry, identity(entry)


def _with_taken(entry: Entry, fields: FieldSet, template: Entry, changed: FieldSet, gone: FieldSet) -> _Owner:
    """The managedFields entry of the writer, with its fields after this write."""
    if gone or not covers(fields, changed):
        fields = union(difference(difference(fields, changed), gone), changed)
        return _recorded(template, fields), fields
    if entry.get("time") == template.get("time"):
        return entry, fields
    return {**template, "fieldsV1": entry["fieldsV1"]}, fields


def _recorded(entry: Entry, fields: FieldSet) -> Entry:
    return {**entry, "fieldsV1": msgspec.Raw(_encode(fields))}


def _order(owner: _Owner) -> tuple[str, str, str, str, str]:
    return order(owner[0])


def _holding(status: Any) -> Manifest:
    return {} if status is None else {"status": status}
