"""Texts to manifests: JSON, and YAML as Kubernetes reads it.

What comes from outside may be anything, so whatever is not a tree of JSON values of bounded depth and size is refused
with `BadRequest`. YAML keeps what JSON would: dates and `12:30:45` stay strings, and aliases may not blow up.
"""

import math
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import yaml

from fairway.errors import BadRequest

DEEPEST: Final = 200
_MOST_NODES: Final = 1_000_000
"""How many values a YAML document may have once its aliases are written out."""

_SAFE_BRACKETS: Final = DEEPEST
_decode = msgspec.json.Decoder().decode


def from_json(data: bytes) -> Any:
    """The one value of a JSON text."""
    try:
        value = _decode(data)
    except RecursionError:
        raise BadRequest(f"the JSON is nested deeper than {DEEPEST} levels") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise BadRequest(f"the body is not valid JSON: {error}") from None
    if data.count(b"{") + data.count(b"[") > _SAFE_BRACKETS:
        _check_depth(value)
    return value


def from_yaml(data: bytes) -> Any:
    """The one document of a YAML text; `None` if it is empty."""
    documents = list(all_from_yaml(data))
    if len(documents) > 1:
        raise BadRequest(f"the body holds {len(documents)} YAML documents; send one object at a time")
    return documents[0] if documents else None


def all_from_yaml(data: bytes) -> Iterator[Any]:
    """The documents of a YAML text that are not empty."""
    try:
        _check_size(data)
        for document in yaml.load_all(data, Loader=_Loader):
            if document is not None:
                _check_tree(document)
                yield document
    except RecursionError:
        raise BadRequest(f"the YAML is nested deeper than {DEEPEST} levels") from None
    except yaml.YAMLError as error:
        raise BadRequest(f"the text is not valid YAML: {_one_line(error)}") from None
    except (ValueError, TypeError, UnicodeError) as error:
        raise BadRequest(f"the text cannot be read as YAML: {error}") from None


class _Loader(yaml.CSafeLoader):
    """YAML as Kubernetes reads it: booleans of YAML 1.1, but no dates and no numbers to the base of sixty."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith((":timestamp", ":int", ":float"))]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"^[-+]?(?:0|[1-9][0-9]*|0o?[0-7]+|0x[0-9a-fA-F]+|0b[01]+)$"),
    list("-+0123456789"),
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"^[-+]?(?:(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+|\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
    list("-+0123456789."),
)


def _float(loader: yaml.CSafeLoader, node: yaml.ScalarNode) -> float:
    text = str(loader.construct_scalar(node)).lower()
    return float(text.replace(".inf", "inf").replace(".nan", "nan"))


def _int(loader: yaml.CSafeLoader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node))
    digits = text.lstrip("+-").lower()
    if digits.startswith(("0x", "0b", "0o")):
        value = int(digits, 0)
    else:
        value = int(digits, 8 if len(digits) > 1 and digits[0] == "0" else 10)
    return -value if text.startswith("-") else value


_Loader.add_constructor("tag:yaml.org,2002:float", _float)
_Loader.add_constructor("tag:yaml.org,2002:int", _int)


def _check_size(data: bytes) -> None:
    """Refuse aliases that would blow up: ten lines can stand for a billion values."""
    if b"*" not in data or b"&" not in data:
        return
    weights: dict[str, int] = {}
    open_parts: list[tuple[str | None, int]] = []
    total = 0
    for event in yaml.parse(data, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in weights:
                raise BadRequest(f"the YAML alias *{event.anchor} stands for nothing yet, or for itself")
            total += weights[event.anchor]
        elif isinstance(event, yaml.ScalarEvent):
            total += 1
            if event.anchor:
                weights[event.anchor] = 1
        elif isinstance(event, yaml.CollectionStartEvent):
            open_parts.append((event.anchor, total))
            total += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_parts.pop()
            if anchor:
                weights[anchor] = total - before
        if total > _MOST_NODES:
            raise BadRequest(f"the YAML stands for more than {_MOST_NODES} values once its aliases are written out")


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


def _check_tree(value: Any) -> None:
    """Whether a document is made of JSON's values only."""
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        below: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                wrong = next((key for key in one if not isinstance(key, str)), None)
                if wrong is not None:
                    raise BadRequest(f"the key {wrong!r} is not a string; put it in quotes")
                below += one.values()
            elif isinstance(one, list):
                below += one
            elif one is not None and not isinstance(one, str | bool | int | float):
                raise BadRequest(f"a value of type {type(one).__name__} has no place in a manifest: {str(one)[:80]!r}")
            elif isinstance(one, float) and not math.isfinite(one):
                raise BadRequest(f"{one} is not a number that JSON knows")
        if not below:
            return
        level = below
    raise BadRequest(f"the YAML is nested deeper than {DEEPEST} levels")


def _one_line(error: yaml.YAMLError) -> str:
    return " ".join(str(error).split())
