"""Type checks of values, and quoting of values and names in errors."""

import json
from collections.abc import Collection
from typing import Any, Final

from fairway.managedjobs.tasks.errors import TaskError
from fairway.managedjobs.tasks.places import Where

_LONGEST_SHOWN: Final = 60
_KINDS: Final = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list", dict: "a map"}


def shown(value: Any) -> str:
    """A value, short enough for a sentence."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = f"<{type(value).__name__}>"
    if not text.isprintable():
        text = json.dumps(text)[1:-1]
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def sort_of(value: Any) -> str:
    return "nothing" if value is None else _KINDS.get(type(value), type(value).__name__)


def text(value: Any, where: Where, example: str) -> str:
    """A string; `example` is a value that would do."""
    if type(value) is not str:
        raise where.error(f"must be text, but is {sort_of(value)}; write for example {example}", value)
    return clean(value, where)


def clean(value: str, where: Where) -> str:
    """What can be handed to a process and written to a file: no NUL, nothing that UTF-8 cannot hold."""
    if "\0" in value:
        raise where.error("holds a NUL character, which no process can be given; remove it")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise where.error("holds half a character (a lone surrogate); remove it") from None
    return value


def written(value: Any, where: Where, example: str) -> str:
    """A string, or a number or boolean as it was written."""
    if value is None or type(value) is dict or type(value) is list:
        raise where.error(f"must be text, but is {sort_of(value)}; write for example {example}", value)
    return clean(where.written(value), where)


def whole(value: Any, where: Where, *, least: int, most: int, example: str) -> int:
    """A whole number within bounds; text that is one will do."""
    if type(value) is str and len(value) < 20 and value.strip().lstrip("+-").isdecimal() and value.isascii():
        value = int(value)
    if type(value) is float and value.is_integer():
        value = int(value)
    if type(value) is not int:
        raise where.error(f"must be an integer, but is {shown(value)}; write for example {example}", value)
    if not least <= value <= most:
        raise where.error(f"must be from {least} to {most}, but is {shown(value)}; write for example {example}", value)
    return value


def mapping(value: Any, where: Where, example: str) -> dict[str, Any]:
    """A map whose keys are strings; nothing counts as an empty one."""
    if value is None:
        return {}
    if type(value) is not dict:
        raise where.error(f"must be a map, but is {sort_of(value)}; write for example {example}", value)
    for key in value:
        if type(key) is not str:
            raise where.error(f"has the key {shown(key)}, which is not text; put it in quotes", key)
    return value


def unknown(
    name: str, known: Collection[str], where: Where, hint: str = "", *, also: Collection[str] = ()
) -> TaskError:
    """The error for an unknown field, with the nearest known one; `where` is the field itself.

    The names in `also` exist, but are suggested only for near misses.
    """
    near = nearest(name, (*known, *also))
    way_out = hint or (f"did you mean {near}?" if near else f"the fields here are {', '.join(sorted(known))}")
    error = where.error(f"there is no such field; {way_out}", of_key=True)
    error.rule = "FieldUnknown"
    return error


def nearest(name: str, known: Collection[str]) -> str:
    """The known name that is most like this one; empty if none is."""
    from difflib import get_close_matches  # noqa: PLC0415 - costs as much as all of this package, and only typos need it

    by_lower = {one.lower().replace("-", "_"): one for one in known}
    found = get_close_matches(name[:100].lower().replace("-", "_"), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else ""
