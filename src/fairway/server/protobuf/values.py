"""Messages that JSON shows as something other than an object: times, quantities and their like.

Each is the message on the wire, and a function from the values of its fields (by number, only those that were sent) to
the value in JSON. What Go would not accept raises `Malformed`.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from fairway.apis.machinery.documents import from_json
from fairway.server.protobuf.messages import Field, Form, Message, Presence
from fairway.server.protobuf.wire import Malformed

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ZERO_TIME_SECONDS: Final = -62_135_596_800
"""The first second of the year 1: what Go takes for no time at all."""


class WireValue(NamedTuple):
    """How one such message is read."""

    message: Message
    shown: Callable[[Mapping[int, Any]], Any]


def _time(fields: Mapping[int, Any]) -> str | None:
    return _moment(fields, 0, "seconds")


def _microtime(fields: Mapping[int, Any]) -> str | None:
    nanoseconds = fields.get(2, 0)
    return _moment(fields, int(nanoseconds / 1000), "microseconds")


def _moment(fields: Mapping[int, Any], microseconds: int, precision: str) -> str | None:
    if not fields:
        return None
    seconds = fields.get(1, 0)
    if seconds == _ZERO_TIME_SECONDS and microseconds == 0:
        return None
    try:
        moment = _EPOCH + timedelta(seconds=seconds, microseconds=microseconds)
    except OverflowError:
        raise Malformed(f"{seconds} seconds from 1970 are in no year between 1 and 9999") from None
    return moment.isoformat(timespec=precision).replace("+00:00", "Z")


def _quantity(fields: Mapping[int, Any]) -> str:
    quantity: str = fields.get(1, "0")
    if not quantity:
        raise Malformed("a quantity is empty")
    return quantity


def _int_or_string(fields: Mapping[int, Any]) -> int | str:
    match fields.get(1, 0):
        case 0:
            number: int = fields.get(2, 0)
            return number
        case 1:
            text: str = fields.get(3, "")
            return text
        case other:
            raise Malformed(f"a value is neither a number (0) nor a string (1), but {other}")


def _managed_fields(fields: Mapping[int, Any]) -> Any:
    text: str = fields.get(1, "")
    return from_json(text.encode()) if text else None


def _message(*types: str) -> Message:
    return {number: Field("", kind, Form.ONE, Presence.SENT) for number, kind in enumerate(types, 1)}


_TIMESTAMP: Final = _message("int64", "int32")

VALUES: Final[Mapping[str, WireValue]] = {
    "time": WireValue(_TIMESTAMP, _time),
    "microtime": WireValue(_TIMESTAMP, _microtime),
    "quantity": WireValue(_message("string"), _quantity),
    "intorstring": WireValue(_message("int64", "int32", "string"), _int_or_string),
    "fields": WireValue(_message("string"), _managed_fields),
}
