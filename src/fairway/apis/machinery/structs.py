"""What every typed kind is built from, and the way from plain data to typed values and back.

A kind's type is a frozen `msgspec.Struct`: the shape of an object for those who read it, with the defaults of the API's
schema. It has no limits and refuses no unknown field: what may be written is said by the recorded schema alone
(`schemas/`), and rules that compare fields with each other are on the kind's record.
"""

import datetime as dt
from typing import Annotated, Any, TypeVar

import msgspec

from fairway.apis.machinery import problems
from fairway.apis.machinery.quantities import Quantity
from fairway.errors import ValidationError

_T = TypeVar("_T")
_CONTAINERS = frozenset({dict, list, tuple})

Time = Annotated[dt.datetime, msgspec.Meta(tz=True)]


class Value(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The base of every kind and of every part of one: immutable, named as in the API."""


def always(value: _T) -> _T:
    """A default that is written out as well: the API server stores it in every object."""
    field: _T = msgspec.field(default_factory=lambda: value)
    return field


def read(data: object, expected: type[_T]) -> _T:
    """Data that the schema accepted as a value of this type; parts of it may be values already."""
    try:
        return msgspec.convert(data, expected, dec_hook=_from_data)
    except msgspec.ValidationError as error:
        if "`null`" in str(error) and (cleaned := _without_nulls(data)) != data:
            return read(cleaned, expected)  # open parts of a schema may have nulls, which mean that nothing is set
        metadata = data.get("metadata") if isinstance(data, dict) else None
        name = str(metadata.get("name", "")) if isinstance(metadata, dict) else ""
        message, _, path = str(error).partition(" - at `$")
        wrong = problems.wrong_type(path.strip("`").lstrip("."), None, message)
        raise ValidationError(expected.__name__, name, [wrong]) from error


def _without_nulls(data: Any) -> Any:
    if type(data) is dict:
        return {name: _without_nulls(part) for name, part in data.items() if part is not None}
    return [_without_nulls(part) for part in data] if type(data) is list else data


def write(value: msgspec.Struct) -> dict[str, Any]:
    """The value as plain data, as the API writes it."""
    data: dict[str, Any] = _plain(msgspec.to_builtins(value, enc_hook=_to_data))
    return data


def _plain(data: Any) -> Any:
    """The data with lists where it has tuples, as JSON would read it."""
    if type(data) is dict:
        return {name: _plain(item) if type(item) in _CONTAINERS else item for name, item in data.items()}
    return [_plain(item) if type(item) in _CONTAINERS else item for item in data]


def _from_data(expected: type, data: Any) -> Any:
    if expected is Quantity:
        return Quantity.parse(data)
    raise NotImplementedError(f"no way to read a {expected.__name__}")


def _to_data(value: Any) -> Any:
    if isinstance(value, Quantity):
        return str(value)
    raise NotImplementedError(f"no way to write a {type(value).__name__}")


def whole_seconds_utc(moment: dt.datetime) -> dt.datetime:
    """The moment as the API holds it: UTC, cut to whole seconds."""
    if moment.tzinfo is None:
        raise ValueError(f"the time {moment.isoformat()} has no time zone; give it one, such as UTC")
    if moment.tzinfo is dt.UTC and not moment.microsecond:
        return moment
    try:
        return moment.astimezone(dt.UTC).replace(microsecond=0)
    except OverflowError as error:
        raise ValueError(f"the time {moment.isoformat()} lies outside the years 1 to 9999") from error


def normalise_times(value: msgspec.Struct, *names: str) -> None:
    """Bring the named attributes, where set, to what the API can hold; only for a value that is being made."""
    for name in names:
        moment = getattr(value, name)
        if moment is not None and (moment.tzinfo is not dt.UTC or moment.microsecond):
            msgspec.structs.force_setattr(value, name, whole_seconds_utc(moment))
