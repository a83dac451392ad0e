"""Value validations that only CustomResourceDefinitions have: alternatives, formats, exclusive bounds, any pattern.

`validation` compiles a part of an OpenAPI schema into a check that changes nothing: it neither prunes nor defaults.
Facts that every kind has (types, lengths, plain enums) are checked by `walk`; what `Schema.also` holds is checked here.
All of it counts against the meter, since the schema is a user's.
"""

import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from fairway.apis.machinery import problems
from fairway.apis.machinery.schemas.metering import METER
from fairway.apis.machinery.schemas.patterns import matcher
from fairway.errors import FieldError

_Wrong = list[FieldError]
_Validation = Callable[[Any], _Wrong]

_MOST_PROBLEMS: Final = 100
_HOSTNAME: Final = re.compile(r"(?=.{1,253}$)[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(\.[a-zA-Z0-9-]{1,63})*")
_EMAIL: Final = re.compile(r"[^@\s]{1,64}@[^@\s]{1,255}")
_URI: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:\S*")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}")
_MAC: Final = re.compile(r"[0-9a-fA-F]{2}([:-][0-9a-fA-F]{2}){5}")
_DURATION: Final = re.compile(r"-?((\d+(\.\d*)?|\.\d+)\s*(ns|us|µs|ms|s|m|h|d|w|[a-z]{3,12})\s*)+|0")


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def holds(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return holds


FORMATS: Final[Mapping[str, Callable[[str], bool]]] = {
    "cidr": _parses(lambda text: ipaddress.ip_network(text, strict=False) if "/" in text else int("")),
    "date": _parses(lambda text: datetime.strptime(text, "%Y-%m-%d")),  # noqa: DTZ007 - a day has no zone
    "duration": lambda text: _DURATION.fullmatch(text[:256]) is not None,
    "email": lambda text: _EMAIL.fullmatch(text) is not None,
    "hostname": lambda text: _HOSTNAME.fullmatch(text) is not None,
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "mac": lambda text: _MAC.fullmatch(text) is not None,
    "uri": lambda text: _URI.fullmatch(text) is not None,
    "uuid": lambda text: _UUID.fullmatch(text) is not None,
}
"""Those that kube-apiserver checks; it ignores formats that it does not know, and so does this server."""

_TYPES: Final[dict[str, Callable[[Any], bool]]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "integer": lambda value: not isinstance(value, bool) and (isinstance(value, int) or _is_whole(value)),
}


def _is_whole(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer()


def validation(raw: Mapping[str, Any]) -> _Validation:
    """The check of a part of a schema."""
    checks = [make(raw) for words, make in _MAKERS if any(word in raw for word in words)]

    def check(value: Any) -> _Wrong:
        METER.spend(1)
        wrong: _Wrong = []
        for one in checks:
            found = one(value)
            if found:
                wrong += found
                if len(wrong) >= _MOST_PROBLEMS:
                    break
        return wrong

    return check


def _type(raw: Mapping[str, Any]) -> _Validation:
    expected = raw["type"]
    is_one = _TYPES.get(expected, lambda _value: True)
    if raw.get("nullable"):
        return lambda value: [] if value is None or is_one(value) else [_not_of(expected, value)]
    return lambda value: [] if is_one(value) else [_not_of(expected, value)]


def _not_of(expected: str, value: Any) -> FieldError:
    return problems.invalid("", value, f"must be of type {expected}")


def _enum(raw: Mapping[str, Any]) -> _Validation:
    allowed: list[Any] = raw["enum"]

    def check(value: Any) -> _Wrong:
        METER.spend(len(allowed) >> 6)
        if any(_same(value, one) for one in allowed):
            return []
        return [problems.not_supported("", value, [str(one) for one in allowed])]

    return check


def _same(value: Any, other: Any) -> bool:
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)


def _pattern(raw: Mapping[str, Any]) -> _Validation:
    pattern = raw["pattern"]
    matches = matcher(pattern)

    def check(value: Any) -> _Wrong:
        if not isinstance(value, str) or matches(value):
            return []
        return [problems.invalid("", value, f"in body should match '{pattern}'")]

    return check


def _format(raw: Mapping[str, Any]) -> _Validation:
    name = raw["format"]
    holds = FORMATS.get(name)
    if holds is None:
        return lambda _value: []
    return lambda value: [_not_of(name, value)] if isinstance(value, str) and not holds(value) else []


def _bounds(raw: Mapping[str, Any]) -> _Validation:
    low, high, step = raw.get("minimum"), raw.get("maximum"), raw.get("multipleOf")
    above, below = raw.get("exclusiveMinimum", False), raw.get("exclusiveMaximum", False)

    def check(value: Any) -> _Wrong:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return []
        wrong = []
        if low is not None and (value < low or (above and value == low)):
            rule = f"in body should be greater than {'' if above else 'or equal to '}{low}"
            wrong.append(problems.invalid("", value, rule))
        if high is not None and (value > high or (below and value == high)):
            rule = f"in body should be less than {'' if below else 'or equal to '}{high}"
            wrong.append(problems.invalid("", value, rule))
        if step and abs(value / step - round(value / step)) > 1e-9:
            wrong.append(problems.invalid("", value, f"in body should be a multiple of {step}"))
        return wrong

    return check


def _sizes(raw: Mapping[str, Any]) -> _Validation:
    sizes = (
        (str, raw.get("minLength", 0), raw.get("maxLength"), "chars long"),
        (list, raw.get("minItems", 0), raw.get("maxItems"), "items"),
        (dict, raw.get("minProperties", 0), raw.get("maxProperties"), "properties"),
    )

    def check(value: Any) -> _Wrong:
        for kind, least, most, unit in sizes:
            if isinstance(value, kind):
                if len(value) < least:
                    verb = "be" if kind is str else "have"
                    return [problems.invalid("", value if kind is str else len(value), _too_few(verb, least, unit))]
                if most is not None and len(value) > most:
                    long = problems.too_long("", value, most) if isinstance(value, str) else None
                    return [long or problems.too_many("", len(value), most)]
        return []

    return check


def _too_few(verb: str, least: int, unit: str) -> str:
    return f"in body should {verb} at least {least} {unit}"


def _required(raw: Mapping[str, Any]) -> _Validation:
    names = raw["required"]

    def check(value: Any) -> _Wrong:
        return [problems.required(name) for name in names if name not in value] if isinstance(value, dict) else []

    return check


def _children(raw: Mapping[str, Any]) -> _Validation:
    parts = {name: validation(part) for name, part in (raw.get("properties") or {}).items()}
    items, values = raw.get("items"), raw.get("additionalProperties")
    item = validation(items) if isinstance(items, dict) else None
    other = validation(values) if isinstance(values, dict) else None

    def check(value: Any) -> _Wrong:
        if isinstance(value, dict):
            found = [(name, one(part)) for name, part in value.items() if (one := parts.get(name) or other) is not None]
        elif isinstance(value, list) and item is not None:
            found = [(f"[{at}]", item(part)) for at, part in enumerate(value)]
        else:
            return []
        return [_below(name, error) for name, wrong in found for error in wrong]

    return check


def _below(name: str, error: FieldError) -> FieldError:
    path = error.path if error.path.startswith("[") or not error.path else f".{error.path}"
    return FieldError(f"{name}{path}", error.value, error.rule, error.message)


def _all_of(raw: Mapping[str, Any]) -> _Validation:
    checks = [validation(one) for one in raw["allOf"]]

    def check(value: Any) -> _Wrong:
        wrong = [error for one in checks for error in one(value)]
        return [problems.invalid("", _shown(value), "must validate all the schemas (allOf)"), *wrong] if wrong else []

    return check


def _any_of(raw: Mapping[str, Any]) -> _Validation:
    checks = [validation(one) for one in raw["anyOf"]]

    def check(value: Any) -> _Wrong:
        if any(not one(value) for one in checks):
            return []
        return [problems.invalid("", _shown(value), "must validate at least one schema (anyOf)")]

    return check


def _one_of(raw: Mapping[str, Any]) -> _Validation:
    checks = [validation(one) for one in raw["oneOf"]]

    def check(value: Any) -> _Wrong:
        matching = sum(not one(value) for one in checks)
        if matching == 1:
            return []
        found = f"Found {matching} valid alternatives" if matching else "Found none valid"
        return [problems.invalid("", _shown(value), f"must validate one and only one schema (oneOf). {found}")]

    return check


def _not(raw: Mapping[str, Any]) -> _Validation:
    refused = validation(raw["not"])

    def check(value: Any) -> _Wrong:
        return [] if refused(value) else [problems.invalid("", _shown(value), "must not validate the schema (not)")]

    return check


def _shown(value: Any) -> Any:
    return value if not isinstance(value, dict | list) else "object" if isinstance(value, dict) else "array"


_SIZES: Final = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_MAKERS: Final[tuple[tuple[tuple[str, ...], Callable[[Mapping[str, Any]], _Validation]], ...]] = (
    (("type",), _type),
    (("enum",), _enum),
    (("pattern",), _pattern),
    (("format",), _format),
    (("minimum", "maximum", "multipleOf"), _bounds),
    (_SIZES, _sizes),
    (("required",), _required),
    (("properties", "items", "additionalProperties"), _children),
    (("allOf",), _all_of),
    (("anyOf",), _any_of),
    (("oneOf",), _one_of),
    (("not",), _not),
)
