"""The data about messages is complete, and bounds what a body can be."""

from collections.abc import Set as AbstractSet
from graphlib import TopologicalSorter

import pytest

from fairway.apis.machinery.kind import Kind
from fairway.apis.machinery.schemas.schema import Schema
from fairway.apis.registry import default_registry
from fairway.server.protobuf.messages import Field, Form, Message, Presence, is_list, message, message_of, names
from fairway.server.protobuf.values import VALUES

from .recordings import recordings

SCALARS = {"string", "bytes", "bool", "int32", "int64"}
BUILTIN = [kind for kind in default_registry().kinds if kind.builtin and kind.kind != "CustomResourceDefinition"]
FORMATS = {
    "bytes": "byte",
    "int32": "int32",
    "int64": "int64",
    "intorstring": "int-or-string",
    "microtime": "micro-time",
    "quantity": "quantity",
    "time": "date-time",
}


def test_every_type_is_known() -> None:
    types = {field.type for name in names() for field in message(name).values()}

    assert types - SCALARS - VALUES.keys() <= set(names())


def test_no_message_contains_itself() -> None:
    """Were there one, a body could be nested so deep that Python gives up."""
    graph = {name: {field.type for field in message(name).values()} for name in names()}

    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("kind", BUILTIN, ids=lambda kind: kind.resource)
def test_every_builtin_kind_has_a_message_with_the_fields_of_its_schema(kind: Kind) -> None:
    for version in kind.versions:
        name = message_of(f"{kind.group}/{version}".lstrip("/"), kind.kind)

        assert name is not None
        found = differences(message(name), kind.schemas[version](), {"apiVersion", "kind"})
        assert [one for one in found if "volumeClaimTemplates" not in one] == []  # these are objects without a kind


def test_the_samples_are_of_all_kinds() -> None:
    sampled = {name.partition(":")[0] for name in recordings("samples")}

    assert {kind.kind for kind in BUILTIN if not kind.inert} < sampled


def differences(fields: Message, schema: Schema, ignored: AbstractSet[str] = frozenset(), path: str = "") -> list[str]:
    """Where a message and a schema do not say the same."""
    shown = {field.name: field for field in flat(fields)}
    found = [f"{path}.{name} is only in one" for name in (shown.keys() ^ schema.properties.keys()) - ignored]
    for name in shown.keys() & schema.properties.keys():
        field, part = shown[name], schema.properties[name]
        if field.form is not Form.ONE:
            inner = part.items if field.form is Form.LIST else part.values
            if inner is None:
                found.append(f"{path}.{name} is {field.form} only in the message")
                continue
            part = inner
        if field.type in FORMATS and part.format != FORMATS[field.type]:
            found.append(f"{path}.{name} is {field.type} in the message, but {part.format!r} in the schema")
        if field.type in names() and not is_list(field.type):
            found += differences(message(field.type), part, path=f"{path}.{name}")
    return found


def flat(fields: Message) -> list[Field]:
    """The fields that an object has in JSON."""
    return [
        inner
        for field in fields.values()
        for inner in (flat(message(field.type)) if field.shown is Presence.INLINE else [field])
    ]
