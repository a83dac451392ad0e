"""Which number is which field, in the messages of Kubernetes' own kinds.

`data/messages.json` is written by `tools/protobuf/generate.py` and never by hand. It says for each kind which message
it is, and for each message its fields by number, spelled `name type shown`:

- `type` is a scalar (`string`, `bytes`, `bool`, `int32`, `int64`), one of the `values` that are no objects in JSON
  (`time`, `microtime`, `quantity`, `intorstring`, `fields`) or another message; `[]` before it makes a list of it, `{}`
  a map from strings;
- `shown` is what a Kubernetes API server does with the field in JSON, see `Presence`.

A message that is only a list (`"[]string"` in place of fields) stands for this list in JSON.
"""

import json
from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any, Final, NamedTuple

Message = Mapping[int, "Field"]
"""The fields of a message by number, in the order of their numbers."""

_DELETE_OPTIONS: Final = "DeleteOptions"


class Form(StrEnum):
    """Whether a field has one value or many."""

    ONE = ""
    LIST = "[]"
    MAP = "{}"


class Presence(StrEnum):
    """When a field is part of the JSON, and as what.

    On the wire most zero values are sent although they were not set, so that only this shows which were.
    """

    ALWAYS = "always"
    """With its zero value, if it was not sent."""

    NULL = "null"
    """As null, if it was not sent."""

    SENT = "sent"
    """Only if it was sent, be it zero."""

    NONZERO = "nonzero"
    """Only if it is not zero."""

    INLINE = "inline"
    """Never itself: its fields are shown as fields of the message around it."""


class Field(NamedTuple):
    """One field of a message."""

    name: str
    """As JSON calls it."""

    type: str
    form: Form
    shown: Presence


def message_of(api_version: str, kind: str) -> str | None:
    """The name of the message that a kind is; `None` if it has no protobuf form."""
    kinds: dict[str, str] = _data()["kinds"]
    # Clients write the options of a delete in whatever version the object itself has.
    if kind == _DELETE_OPTIONS:
        api_version = "meta.k8s.io/v1"
    return kinds.get(f"{api_version} {kind}")


@cache
def message(name: str) -> Message:
    """The fields of the message with this name."""
    spelled = _data()["messages"][name]
    if isinstance(spelled, str):
        return {1: _field(f"items {spelled} {Presence.ALWAYS}")}
    return {int(number): _field(field) for number, field in spelled.items()}


@cache
def is_list(name: str) -> bool:
    """Whether a message is no more than a list in JSON."""
    return isinstance(_data()["messages"][name], str)


@cache
def entry(kind: str) -> Message:
    """The message that stands for one entry of a map to values of this type: its key and its value."""
    return {1: _field(f"key string {Presence.ALWAYS}"), 2: _field(f"value {kind} {Presence.ALWAYS}")}


def names() -> tuple[str, ...]:
    """Every message there is, sorted."""
    return tuple(sorted(_data()["messages"]))


def _field(spelled: str) -> Field:
    name, kind, shown = spelled.split(" ")
    form = Form(kind[:2]) if kind[:2] in {Form.LIST, Form.MAP} else Form.ONE
    return Field(name, kind.removeprefix(form), form, Presence(shown))


@cache
def _data() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("data", "messages.json").read_bytes()
    content: dict[str, Any] = json.loads(text)
    return content
