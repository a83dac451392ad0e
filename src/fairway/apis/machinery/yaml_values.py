"""YAML's events to JSON's values, by the rules that an API server follows.

Those rules are of YAML 1.1, but not all of them: `yes` and `010` are a boolean and a number, while dates, `12:30:45`
and whatever has a tag of its own stay strings. Keys become strings as in JSON. Aliases are written out, so that no two
places of a manifest are one object; what that would come to is counted before it is done.

The parser hands over one event after another and nothing here calls itself, so depth costs nothing and can be bounded.
"""

import base64
import binascii
import json
import math
import re
from collections.abc import Iterable
from typing import Any, Final

import yaml

from fairway.apis.machinery.copies import copied
from fairway.errors import BadRequest

_TAG: Final = "tag:yaml.org,2002:"
_BOOLEANS: Final = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
}
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
MERGE: Final = "<<"
_WHOLE: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]*|0[oO]?[0-7]+|0[xX][0-9a-fA-F]+|0[bB][01]+)")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_LONGEST_NUMBER: Final = 400
_MOST_REPEATED: Final = 10
_LONGEST_KEY_SHOWN: Final = 200
_MOST_AS_WHOLE: Final = 1e21
"""Below this, JSON writes a float without a fraction as a whole number."""

Path = tuple[str | int, ...]


class OpenCollection:
    """A map or a list that is not complete yet."""

    __slots__ = ("anchor", "before", "height", "key", "merged", "merging", "path", "value")

    def __init__(self, value: dict[str, Any] | list[Any], path: Path, anchor: str | None, before: int) -> None:
        self.value = value
        self.path = path
        self.anchor = anchor
        self.before = before
        """How many values there were before it."""

        self.height = 1
        self.key: str | None = None
        """Of a map: the key whose value comes next."""

        self.merging = False
        self.merged: list[dict[str, Any]] = []


class Builder:
    """Makes the values of documents from events.

    A subclass may read keys and scalars by other rules, note where values are (`_placed`), and word errors its own way
    (`_error`).
    """

    def __init__(self, *, deepest: int, most_values: int) -> None:
        self._deepest = deepest
        self._most_values = most_values
        self._open: list[OpenCollection] = []
        self._anchored: dict[str, tuple[Any, int, int]] = {}
        """A value, how many values it is made of, and how high it is."""

        self._count = 0
        self._root: Any = None
        self.repeated: list[str] = []
        """The first keys that a map gives twice, in the words of sigs.k8s.io/yaml. The last value counts."""

    def documents(self, events: Iterable[yaml.Event]) -> Iterable[Any]:
        """The value of each document, `None` for one without any."""
        for event in events:
            if isinstance(event, yaml.ScalarEvent):
                self._scalar(event)
            elif isinstance(event, yaml.CollectionStartEvent):
                self._begin({} if isinstance(event, yaml.MappingStartEvent) else [], event)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._end(event)
            elif isinstance(event, yaml.AliasEvent):
                self._alias(event)
            elif isinstance(event, yaml.DocumentStartEvent):
                self._root = None
                self._anchored = {}
                self._begin_document(event)
            elif isinstance(event, yaml.DocumentEndEvent):
                yield self._root

    # What a subclass may do in another way

    def _begin_document(self, event: yaml.Event) -> None:
        self._counted(1, event)

    def _resolved(self, event: yaml.ScalarEvent) -> Any:
        """What a scalar stands for."""
        return _resolved(event)

    def _take_key(self, value: Any, event: yaml.Event) -> None:
        """A key of the innermost map."""
        part = self._open[-1]
        part.merging = isinstance(event, yaml.ScalarEvent) and _is_merge(event)
        part.key = MERGE if part.merging else _key(value)

    def _placed(self, event: yaml.Event) -> None:
        """A value begins: its key may have one already."""
        part = self._open[-1] if self._open else None
        if part is None or part.key is None or part.merging or part.key not in part.value:
            return
        if len(self.repeated) < _MOST_REPEATED:
            key = json.dumps(part.key[:_LONGEST_KEY_SHOWN], ensure_ascii=False)
            line = 0 if event.start_mark is None else event.start_mark.line + 1
            self.repeated.append(f"line {line}: key {key} already set in map")

    def _error(self, message: str, event: yaml.Event) -> Exception:  # noqa: ARG002 - for those who say where
        return BadRequest(message)

    # Events

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        self._counted(1, event)
        value = self._resolved(event)
        if self._key_is_next():
            self._take_key(value, event)
            value = self._open[-1].key
        else:
            self._placed(event)
            self._put(value, 0, event)
        if event.anchor:
            self._anchored[event.anchor] = (value, 1, 0)

    def _begin(self, value: dict[str, Any] | list[Any], event: yaml.CollectionStartEvent) -> None:
        if self._key_is_next():
            raise self._error("a list or a map is the key of a map; only strings can be: put it in quotes", event)
        if len(self._open) >= self._deepest:
            raise self._too_deep(event)
        if event.anchor:
            self._anchored.pop(event.anchor, None)  # it stands for nothing before it is complete
        self._placed(event)
        self._open.append(OpenCollection(value, self._path(), event.anchor, self._count))
        self._counted(1, event)

    def _end(self, event: yaml.Event) -> None:
        part = self._open.pop()
        if type(part.value) is dict:
            for merged in part.merged:
                for key, value in merged.items():
                    part.value.setdefault(key, value)
        if part.anchor:
            self._anchored[part.anchor] = (part.value, self._count - part.before, part.height)
        self._put(part.value, part.height, event)

    def _alias(self, event: yaml.AliasEvent) -> None:
        anchor = event.anchor or ""
        if anchor not in self._anchored:
            message = f"the alias *{anchor[:60]} stands for nothing yet, or for itself; write &{anchor[:60]} before it"
            raise self._error(message, event)
        value, weight, height = self._anchored[anchor]
        if len(self._open) + height > self._deepest:
            raise self._too_deep(event)
        self._counted(weight, event)
        if self._key_is_next():
            self._take_key(value, event)
        else:
            self._placed(event)
            self._put(copied(value), height, event)

    def _put(self, value: Any, height: int, event: yaml.Event) -> None:
        if not self._open:
            self._root = value
            return
        part = self._open[-1]
        part.height = max(part.height, height + 1)
        if type(part.value) is list:
            part.value.append(value)
        elif part.merging:
            part.merged += self._mergeable(value, event)
            part.key, part.merging = None, False
        elif part.key is not None and type(part.value) is dict:
            part.value[part.key] = value
            part.key = None

    def _mergeable(self, value: Any, event: yaml.Event) -> list[dict[str, Any]]:
        found = value if type(value) is list else [value]
        if not all(type(one) is dict for one in found):
            raise self._error("what `<<` merges must be a map, or a list of maps", event)
        return found

    def _key_is_next(self) -> bool:
        return bool(self._open) and type(self._open[-1].value) is dict and self._open[-1].key is None

    def _path(self) -> Path:
        """Where the next value belongs."""
        if not self._open:
            return ()
        part = self._open[-1]
        return (*part.path, len(part.value) if type(part.value) is list else part.key or "")

    def _counted(self, more: int, event: yaml.Event) -> None:
        self._count += more
        if self._count > self._most_values:
            message = f"the YAML stands for more than {self._most_values} values once its aliases are written out"
            raise self._error(f"{message}; use fewer of them", event)

    def _too_deep(self, event: yaml.Event) -> Exception:
        return self._error(f"the YAML is nested deeper than {self._deepest} levels; make it flatter", event)


def _is_merge(event: yaml.ScalarEvent) -> bool:
    return event.value == MERGE and (event.implicit[0] or event.tag == f"{_TAG}merge")


def _key(value: Any) -> str:
    """A key as JSON has it."""
    if type(value) is str:
        return value
    if value is None or type(value) is dict or type(value) is list:
        raise BadRequest("null, a list or a map is the key of a map; only strings can be: put it in quotes")
    return {True: "true", False: "false"}[value] if type(value) is bool else str(value)


def _resolved(event: yaml.ScalarEvent) -> Any:
    text, tag = event.value, event.tag
    if tag is None:
        return plain(text) if event.implicit[0] else text
    name = tag.removeprefix(_TAG) if tag.startswith(_TAG) else ""
    if name == "binary":
        return _decoded(text)
    if name not in {"bool", "int", "float", "null"}:
        return text
    value = plain(text)
    fits = {
        "bool": type(value) is bool,
        "int": type(value) is int,
        "float": type(value) is int or type(value) is float,
        "null": value is None,
    }
    if not fits[name]:
        raise BadRequest(f"{text[:80]!r} is tagged as !!{name} in this YAML, but is none")
    return value


def plain(text: str) -> Any:
    """What a word without quotes stands for."""
    if text in _NULLS:
        return None
    known = _BOOLEANS.get(text)
    if known is not None:
        return known
    if text[0] not in "+-.0123456789" or len(text) > _LONGEST_NUMBER:
        return text
    if _NOT_FINITE.fullmatch(text):
        raise BadRequest(f"{text} is not a number that JSON knows")
    return _number(text.replace("_", ""), text)


def _number(digits: str, text: str) -> Any:
    if _WHOLE.fullmatch(digits):
        value = _whole(digits)
        if -(2**63) <= value < 2**64:
            return value
    if not _FLOAT.fullmatch(digits):
        return text
    number = float(digits)
    if math.isinf(number):
        return text
    return int(number) if number.is_integer() and abs(number) < _MOST_AS_WHOLE else number


def _whole(digits: str) -> int:
    sign, digits = (-1 if digits[0] == "-" else 1), digits.lstrip("+-").lower()
    if digits[:2] in {"0x", "0b", "0o"}:
        return sign * int(digits, 0)
    return sign * int(digits, 8 if len(digits) > 1 and digits[0] == "0" else 10)


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise BadRequest("a value that is tagged as !!binary in this YAML is not base64, or no text") from None
