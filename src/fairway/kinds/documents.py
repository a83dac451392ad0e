"""Texts to manifests: JSON, and YAML as Kubernetes reads it.

What comes from outside may be anything, so whatever is not a tree of JSON values of bounded depth and size is refused
with `BadRequest`. What YAML's words stand for is in `yaml_values`.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import yaml

from fairway.errors import BadRequest
from fairway.kinds.yaml_values import Builder

DEEPEST: Final = 200
MOST_VALUES: Final = 1_000_000
"""How many values a YAML text may have once its aliases are written out."""

_decode = msgspec.json.Decoder().decode


def from_json(data: bytes) -> Any:
    """The one value of a JSON text."""
    try:
        value = _decode(data)
    except RecursionError:
        raise BadRequest(f"the JSON is nested deeper than {DEEPEST} levels") from None
    except (msgspec.MsgspecError, ValueError) as error:
        raise BadRequest(f"the body is not valid JSON: {error}") from None
    if data.count(b"{") + data.count(b"[") > DEEPEST:
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
    builder = Builder(deepest=DEEPEST, most_values=MOST_VALUES)
    try:
        for document in builder.documents(yaml.parse(data, Loader=yaml.CSafeLoader)):
            if document is not None:
                yield document
    except yaml.YAMLError as error:
        raise BadRequest(f"the text is not valid YAML: {_one_line(error)}") from None


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
