"""Field ownership of a status after an update: the result of `managedfields.after_write`, computed on less.

A write through `/status` changes nothing else, so nothing else is compared, and only owners of some of the status can
lose a field. They are kept with their fields to work with beside the record as it is stored, from one write to the
next: most writers write what they wrote before, and then only the time in their record is new.

Most writes set a condition or two, and which fields that changes depends on no value in them: it is worked out once
for all that look alike.
"""

from functools import lru_cache
from operator import is_
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.schemas.schema import Schema
from fairway.store.patching.comparing import child_schema, compare
from fairway.store.patching.fieldsets import FieldSet, covers, difference, union
from fairway.store.patching.managedfields import MAX_UPDATE_MANAGERS, Entry, identity, new_entry, order

_MOST_SHAPES: Final = 256
_SCALARS: Final = frozenset({str, int, float, bool, type(None)})

_encode = msgspec.json.Encoder().encode
_Owner: TypeAlias = tuple[Entry, FieldSet | None]
_Shape: TypeAlias = tuple[tuple[str, tuple[str, ...]], ...]


class Claims(NamedTuple):
    """The owners of an object's fields; never changed in place."""

    entries: list[Entry]
    """As they are stored."""

    fields: list[FieldSet | None]
    """What each of them owns; `None` for one who owns nothing of the status."""


class Difference(NamedTuple):
    """What a write makes of the fields of a status."""

    changed: FieldSet
    gone: FieldSet
    text: msgspec.Raw | None = None
    """The changed fields as an owner's record lists them, if they were written down before."""


class StatusWrite(NamedTuple):
    """One write of a status; the status is `None` where there is none."""

    old: Any
    new: Any
    manager: str
    api_version: str
    time: str
    news: list[tuple[Any, dict[str, Any]]] | None = None
    """The conditions that are set, each with the one in its place before (`None`: it is one more), where nothing else
    is different and all conditions are objects of types of their own; `None` if that is not known."""

    def compared(self, schema: Schema) -> Difference:
        """The changed and the vanished fields; `schema` is that of the whole object."""
        shape = None if self.news is None else _shape_of(self.news)
        known = None if shape is None else _differences.get((schema, shape))
        if known is None:
            known = Difference(*compare(_holding(self.old), _holding(self.new), schema))
            if shape is not None and _is_by_type(schema):
                known = _remember(schema, shape, known)
        return known


_differences: dict[tuple[Schema, _Shape], Difference] = {}
"""What writes changed, by what they looked like; emptied when there are too many."""


def _remember(schema: Schema, shape: _Shape, found: Difference) -> Difference:
    if len(_differences) >= _MOST_SHAPES:
        _differences.clear()
    kept = _differences[schema, shape] = found._replace(text=msgspec.Raw(_encode(found.changed)))
    return kept


def _is_by_type(schema: Schema) -> bool:
    """Whether the conditions of a kind are keyed by their type alone."""
    return child_schema(child_schema(schema, "status"), "conditions").list_keys == ("type",)


def _shape_of(news: list[tuple[Any, dict[str, Any]]]) -> _Shape | None:
    """All that counts for `compare` where some conditions are set; `None` if there is more to it.

    For each condition its type and the names of what is other than before, which are all for one more.
    """
    shape = []
    for ours, theirs in news:
        names = _other_names(ours, theirs)
        if names is None:
            return None
        shape.append((theirs["type"], names))
    return tuple(shape)


def _other_names(ours: Any, theirs: dict[str, Any]) -> tuple[str, ...] | None:
    """The fields of a condition that are not as before; `None` if there is more to say than that."""
    if not _SCALARS.issuperset(map(type, theirs.values())):
        return None
    if ours is None:
        return ("", *theirs)
    if type(ours) is not dict or ours.keys() != theirs.keys() or not _SCALARS.issuperset(map(type, ours.values())):
        return None
    if ours["type"] != theirs["type"]:
        return None
    return tuple([name for name, value in theirs.items() if ours[name] != value])


def after_status_write(claims: Claims, write: StatusWrite, schema: Schema) -> Claims | None:
    """The owners afterwards, the same ones if nothing changes; `None` if there are too many to work it out here."""
    if not claims.entries:
        return claims
    if len(claims.entries) >= MAX_UPDATE_MANAGERS:
        return None
    found = write.compared(schema)
    changed, gone = found.changed, found.gone
    if not changed and not gone:
        return claims
    template, me = _template(write.manager, write.api_version, write.time)
    if len(claims.entries) == 1 and claims.fields[0] is None and changed and identity(claims.entries[0]) != me:
        return _joined_by(claims.entries[0], (_recorded(template, changed, found.text), changed))
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
        owners.append(mine or (_recorded(template, changed, found.text), changed))
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


def _recorded(entry: Entry, fields: FieldSet, text: msgspec.Raw | None = None) -> Entry:
    return {**entry, "fieldsV1": msgspec.Raw(_encode(fields)) if text is None else text}


def _order(owner: _Owner) -> tuple[str, str, str, str, str]:
    return order(owner[0])


def _holding(status: Any) -> Manifest:
    return {} if status is None else {"status": status}
