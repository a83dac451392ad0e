"""Texts to manifests: JSON, and YAML as Kubernetes reads it.

What comes from outside may be anything, so whatever is not a tree of JSON values of bounded depth and size is refused
with `BadRequest`. What YAML's words stand for is in `yaml_values`.
"""

import json
import re
from itertools import islice
from typing import Any, Final

import msgspec
import yaml

from fairway.apis.machinery.yaml_values import Builder
from fairway.errors import BadRequest, TooLarge

DEEPEST: Final = 200
MOST_VALUES: Final = 16_000
"""How many values an object may have (a YAML text with its aliases written out): each costs microseconds to check, to
default and to record the owner of, and nothing else is served meanwhile."""

MOST_NESTED: Final = 5_000
"""How many of them may be objects and lists, which cost several times as much."""

_MOST_DIRECTIVES: Final = 20
"""The time that the parser takes grows with the square of these."""

_DIRECTIVE: Final = re.compile(rb"^%", re.MULTILINE)

_decode = msgspec.json.Decoder().decode


def from_json(data: bytes) -> Any:
    """The one value of a JSON text."""
    try:
        value = _decode(data)
    except RecursionError:
        raise BadRequest(f"the JSON is nested deeper than {DEEPEST} levels") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise BadRequest(f"the body is not valid JSON: {error}") from None
    nested = data.count(b"{") + data.count(b"[")
    if nested > DEEPEST:
        _check_depth(value)
    # There are at most as many values as there are commas and objects and lists: most bodies need no closer look.
    if isinstance(value, dict | list) and (nested > MOST_NESTED or nested + data.count(b",") >= MOST_VALUES):
        check_values(value)
    return value


def from_yaml(data: bytes, repeated: list[str] | None = None, *, times: int = 1) -> Any:
    """The one document of a YAML text; `None` if it is empty. Keys that are given twice are added to `repeated`. It may
    have so many times as much in it as an object."""
    builder = Builder(deepest=DEEPEST, most_values=times * MOST_VALUES)
    found = None
    try:
        data.decode()
        if sum(1 for _ in islice(_DIRECTIVE.finditer(data), _MOST_DIRECTIVES + 1)) > _MOST_DIRECTIVES:
            raise BadRequest(f"the YAML has more than {_MOST_DIRECTIVES} lines that begin with %")
        for document in builder.documents(yaml.parse(data, Loader=yaml.CSafeLoader)):
            if document is not None and found is not None:
                raise BadRequest("the body holds several YAML documents; send one object at a time")
            found = document if found is None else found
        if isinstance(found, dict | list):
            check_values(found, times)
        if repeated is not None:
            repeated += builder.repeated
    except UnicodeDecodeError as error:
        raise BadRequest(f"the text is not UTF-8: {error}") from None
    except yaml.YAMLError as error:
        raise BadRequest(f"the text is not valid YAML: {_one_line(error)}") from None
    return found


class _Repeating(dict[str, Any]):
    """A JSON object with a key that comes more than once."""

    repeated: str = ""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) == len(pairs):
        return value
    marked, seen = _Repeating(value), set[str]()
    marked.repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
    return marked


def repeated_field(data: bytes) -> str:
    """The path of a field that a JSON text gives twice; empty if there is none, or the text is not JSON."""
    try:
        value = json.loads(data, object_pairs_hook=_object)
    except (ValueError, RecursionError):
        return ""
    level: list[tuple[str, Any]] = [("", value)]
    while level:
        below: list[tuple[str, Any]] = []
        for path, one in level:
            if isinstance(one, _Repeating):
                return f"{path}{one.repeated}"
            if isinstance(one, dict):
                below += [(f"{path}{key}.", part) for key, part in one.items()]
            elif isinstance(one, list):
                below += [(f"{path.removesuffix('.')}[{index}].", part) for index, part in enumerate(one)]
        level = below
    return ""


def check_values(value: Any, times: int = 1) -> None:
    """`TooLarge` if there is more in this value than can be handled in one go, or so many times as much."""
    level, nested, values = [value], 0, 1
    while level:
        nested += len(level)
        values += sum(map(len, level))
        if nested > times * MOST_NESTED or values > times * MOST_VALUES:
            raise TooLarge(
                f"the object has more than {times * MOST_VALUES} values, or more than {times * MOST_NESTED} objects "
                "and lists among them; split it into several"
            )
        below: list[Any] = []
        for one in level:
            parts = one.values() if type(one) is dict else one
            below += [part for part in parts if type(part) is dict or type(part) is list]
        level = below


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(DEEPEST):
        below: list[Any] = []
        for one in level:
            if type(one) is dict:
                below += [part for part in one.values() if type(part) is dict or type(part) is list]
            elif type(one) is list:
                below += [part for part in one if type(part) is dict or type(part) is list]
        if not below:
            return
        level = below
    raise BadRequest(f"the body is nested deeper than {DEEPEST} levels")


def _one_line(error: yaml.YAMLError) -> str:
    return " ".join(str(error).split())
