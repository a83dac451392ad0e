"""The checks of single values: strings, numbers, quantities, times. What holds other values is in `walk`.

A check takes the value that was found and answers `None` if it may stay, an `Instead` if the server keeps another
spelling of it, or what is wrong with it. Paths are empty here: the walk adds them, also before a message that begins
with "in body", as kube-apiserver words those of custom resources.

`builtin` tells Kubernetes' own types, which a real API server reads into Go's types and writes out again, from those of
custom resources, which it checks against their schema and keeps as they were written.
"""

import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final

from fairway.apis.machinery import problems
from fairway.apis.machinery.quantities import Quantity
from fairway.apis.machinery.schemas.schema import Schema
from fairway.errors import FieldError


@dataclass(slots=True, eq=False)
class Instead:
    """The server keeps this form of the value, which is right but for what is said."""

    value: Any
    wrong: list[FieldError] = field(default_factory=list)


Outcome = None | Instead | list[FieldError]
Check = Callable[[Any], Outcome]

_INT_RANGES: Final = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_TIME: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,]([0-9]+))?(Z|[+-][0-9]{2}:[0-9]{2})"
)
_TIME_RULE: Final = "must be a time as RFC 3339 writes it, such as 2026-01-31T12:00:00Z"
QUANTITY_PATTERN: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
_IGNORE_CASE: Final = "(?i)"


def scalar(schema: Schema, *, builtin: bool) -> Check:
    """The check for a value that holds no others."""
    if schema.format == "quantity":
        return _quantity
    if schema.format == "int-or-string":
        return _int_or_string(schema, builtin=builtin)
    if schema.type == "string":
        return _string(schema, builtin=builtin)
    if schema.type == "integer":
        return _integer(schema, builtin=builtin)
    if schema.type == "number":
        return _number(schema)
    if schema.type == "boolean":
        return _boolean
    raise ValueError(f"no check for a value of type {schema.type!r} and format {schema.format!r}")


def zero(schema: Schema) -> Any:
    """What Go makes of a null among the elements of a list or the values of a map."""
    empty: dict[str, Any] = {"object": {}, "array": [], "string": "", "integer": 0, "number": 0, "boolean": False}
    return empty.get(schema.type, 0 if schema.format == "int-or-string" else "0")


def wrong_type(expected: str, value: object) -> list[FieldError]:
    return [problems.wrong_type("", value, f"must be of type {expected}")]


def _boolean(value: Any) -> Outcome:
    return None if type(value) is bool else wrong_type("boolean", value)


def _string(schema: Schema, *, builtin: bool) -> Check:
    if schema.enum:
        return _choice(schema.enum)
    if schema.format in {"date-time", "micro-time"}:
        return _time(micro=schema.format == "micro-time") if builtin else _time_as_written
    if schema.format == "byte":
        return _base64
    if schema.limits:
        return _limited_string(schema.limits)
    return _plain_string


def _plain_string(value: Any) -> Outcome:
    return None if type(value) is str else wrong_type("string", value)


def _choice(choices: tuple[Any, ...]) -> Check:
    allowed = frozenset(choices)

    def check(value: Any) -> Outcome:
        if type(value) is not str:
            return wrong_type("string", value)
        if value in allowed:
            return None
        return [problems.not_supported("", value, choices)]

    return check


def _limited_string(limits: dict[str, Any]) -> Check:
    shortest: int = limits.get("minLength", 0)
    longest: int = limits.get("maxLength", 2**63)
    pattern = limits.get("pattern")
    matches = _matcher(pattern) if pattern else None

    def check(value: Any) -> Outcome:
        if type(value) is not str:
            return wrong_type("string", value)
        if shortest <= len(value) <= longest:
            if matches is None or matches(value) is not None:
                return None
            return [problems.invalid("", value, f"in body should match '{pattern}'")]
        if len(value) > longest:
            return [problems.too_long("", value, longest)]
        return [problems.invalid("", value, f"in body should be at least {shortest} chars long")]

    return check


def _matcher(pattern: str) -> Callable[[str], object]:
    """Go's patterns in Python's spelling: a flag stands first, and `$` is the very end."""
    flags = re.IGNORECASE if _IGNORE_CASE in pattern else re.NOFLAG
    spelled = pattern.replace(_IGNORE_CASE, "")
    if spelled.endswith("$"):
        spelled = f"{spelled[:-1]}\\Z"
    return re.compile(spelled, flags | re.ASCII).search


def _integer(schema: Schema, *, builtin: bool) -> Check:
    least, most = _INT_RANGES.get(schema.format, _INT_RANGES["int64"])
    limits = _bounds(schema.limits)
    low: int = max(least, schema.limits.get("minimum", least))
    high: int = min(most, schema.limits.get("maximum", most))

    def check(value: Any) -> Outcome:
        if type(value) is int and low <= value <= high:
            return None
        if type(value) is float and not builtin and value.is_integer():  # as JSON Schema sees it, 5.0 is whole
            whole = int(value)
            return check(whole) or Instead(whole)
        if type(value) is not int:
            return wrong_type("integer", value)
        if not least <= value <= most:
            return [problems.wrong_type("", value, f"must be between {least} and {most}")]
        return [problems.invalid("", value, message) for holds, message in limits if not holds(value)]

    return check


def _number(schema: Schema) -> Check:
    limits = _bounds(schema.limits)

    def check(value: Any) -> Outcome:
        if type(value) is not float and type(value) is not int:
            return wrong_type("number", value)
        if value - value != 0:  # not a number, or infinite
            return wrong_type("number", str(value))
        return [problems.invalid("", value, message) for holds, message in limits if not holds(value)] or None

    return check


def _bounds(limits: dict[str, Any]) -> list[tuple[Callable[[float], bool], str]]:
    bounds: list[tuple[Callable[[float], bool], str]] = []
    if "minimum" in limits:
        least = limits["minimum"]
        bounds.append((lambda value: value >= least, f"in body should be greater than or equal to {least}"))
    if "maximum" in limits:
        most = limits["maximum"]
        bounds.append((lambda value: value <= most, f"in body should be less than or equal to {most}"))
    return bounds


def _int_or_string(schema: Schema, *, builtin: bool) -> Check:
    text = _limited_string(schema.limits) if schema.limits else _plain_string
    is_quantity = schema.limits.get("pattern") == QUANTITY_PATTERN
    whole = _integer(Schema(type="integer", format="int32" if builtin else "int64"), builtin=builtin)

    def check(value: Any) -> Outcome:
        if type(value) is str:
            outcome = text(value)
            if is_quantity and outcome is None and "e" in value.lower():
                outcome = _quantity(value)  # a pattern cannot say how large an exponent may be
                return outcome if isinstance(outcome, list) else None
            return outcome
        if type(value) is int or type(value) is float:
            outcome = whole(value)
            return wrong_type("integer or string", value) if isinstance(outcome, list) else outcome
        return wrong_type("integer or string", value)

    return check


def _quantity(value: Any) -> Outcome:
    if type(value) is not str and type(value) is not int and type(value) is not float:
        return wrong_type("string or number", value)
    try:
        canonical = _canonical_quantity(str(value))
    except ValueError as error:
        return [problems.invalid("", value, str(error))]
    return None if value == canonical else Instead(canonical)


@lru_cache(maxsize=4096)
def _canonical_quantity(text: str) -> str:
    return str(Quantity.parse(text))


def _base64(value: Any) -> Outcome:
    if type(value) is not str:
        return wrong_type("string", value)
    try:
        binascii.a2b_base64(value.replace("\n", "").replace("\r", ""), strict_mode=True)
    except ValueError:
        # The value is not quoted back: it may be a secret.
        return [problems.invalid("", "", "must be base64")]
    return None


def _time_as_written(value: Any) -> Outcome:
    if type(value) is not str:
        return wrong_type("string", value)
    if _is_second(value) or ("," not in value and _instant(value) is not None):
        return None
    return [problems.invalid("", value, _TIME_RULE)]


def _time(*, micro: bool) -> Check:
    """Kubernetes' own times: kept in UTC, in whole seconds or in microseconds."""

    def check(value: Any) -> Outcome:
        if type(value) is not str:
            return wrong_type("string", value)
        if not micro and _is_second(value):
            return None
        instant = _instant(value)
        if instant is None:
            return [problems.invalid("", value, _TIME_RULE)]
        spelled = f"{instant.isoformat(timespec='microseconds' if micro else 'seconds')}Z"
        return None if spelled == value else Instead(spelled)

    return check


def _is_second(value: str) -> bool:
    """Whether this is a time as `2026-01-31T12:00:00Z`: the form that nearly all have, told quickly."""
    if len(value) != 20 or value[19] != "Z" or value[10] != "T" or value[13] != ":" or value[5] == "W":
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def _instant(value: str) -> datetime | None:
    """The time in UTC, without saying so; `None` if it is none."""
    match = _TIME.fullmatch(value)
    if match is None:
        return None
    second, fraction, zone = match.groups()
    try:
        exact = datetime.fromisoformat(f"{second}.{(fraction or '')[:6]:0<6}{zone}")
        return exact.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):  # no such day, or before the year 1 once in UTC
        return None
