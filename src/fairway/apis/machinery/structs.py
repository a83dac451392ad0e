"""What every kind's type is built from: the base value, and the limits that its fields carry.

A kind is a frozen `msgspec.Struct`. Its annotations say three things: the shape (checked whenever a manifest is read),
the limits of the API's schema (`Limits`, checked by `validation.limits`), and the defaults that the API server fills
in. Rules that compare fields with each other do not belong here; they are in `validation`.
"""

import datetime as dt
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeVar

import msgspec

_T = TypeVar("_T")

_SUBDOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
LABEL_KEY: Final = rf"({_SUBDOMAIN}/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])"


class Value(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """The base of every kind and of every part of one: immutable, named as in the API, nothing unknown accepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits that the API's schema puts on one field."""

    min_items: int = 0
    max_items: int | None = None
    min_length: int = 0
    max_length: int | None = None
    pattern: str | None = None
    minimum: int | None = None
    one_of: tuple[str, ...] = ()
    """The values allowed here, where the field's enumeration knows more than these."""
    unique_by: tuple[str, ...] = ()
    """The attributes that together identify an item of the list; `("",)` where the item itself does."""


def limits(**bounds: Any) -> msgspec.Meta:
    """The annotation that puts `Limits(**bounds)` on a field; a second one on the same field replaces the first."""
    return msgspec.Meta(extra={"limits": Limits(**bounds)})


def always(value: _T) -> _T:
    """A default that is written out as well: the API server stores it in every object."""
    field: _T = msgspec.field(default_factory=lambda: value)
    return field


Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
Time = Annotated[dt.datetime, msgspec.Meta(tz=True)]

# An empty string stands for "absent" in these, so one that is written out is refused while reading.
OptionalReference = Annotated[str, msgspec.Meta(min_length=1), limits(max_length=253, pattern=_SUBDOMAIN)]

Reference = Annotated[str, limits(max_length=253, pattern=_SUBDOMAIN)]
RequiredReference = Annotated[str, limits(min_length=1, max_length=253, pattern=_SUBDOMAIN)]
PodSetName = Annotated[str, limits(max_length=63, pattern="[a-z0-9]([-a-z0-9]*[a-z0-9])?")]
CheckName = Annotated[str, limits(min_length=1, max_length=316)]
GateName = Annotated[str, limits(min_length=1, max_length=63)]
Message = Annotated[str, limits(max_length=32768)]
NodeLabel = Annotated[str, limits(min_length=1, max_length=316, pattern=LABEL_KEY)]
ConditionType = Annotated[str, limits(max_length=316, pattern=LABEL_KEY)]
ConditionReason = Annotated[
    str, limits(min_length=1, max_length=1024, pattern="[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
]


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
