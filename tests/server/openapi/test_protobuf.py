"""The document of version 2 as protocol buffers.

The numbers here are those of gnostic's `OpenAPIv2.proto`, written down a second time on purpose.
"""

import json
import struct
from typing import Any

import pytest

from fairway.apis.registry import default_registry
from fairway.server.openapi import documents, protobuf

Fields = list[tuple[int, Any]]


def fields(data: bytes) -> Fields:
    """The fields of one message, by the rules of the wire format alone."""
    found: Fields = []
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if not byte & 0x80:
                return value

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            found.append((tag >> 3, varint()))
        elif tag & 7 == 1:
            found.append((tag >> 3, struct.unpack("<d", data[at : at + 8])[0]))
            at += 8
        else:
            size = varint()
            assert at + size <= len(data)
            found.append((tag >> 3, data[at : at + size]))
            at += size
    return found


def one(data: bytes, *numbers: int) -> Any:
    """The value that stands alone under these numbers, from the outside to the inside."""
    for number in numbers:
        values = [value for found, value in fields(data) if found == number]
        assert len(values) == 1, f"{len(values)} fields {number} among {[found for found, _value in fields(data)]}"
        data = values[0]
    return data


def named(data: bytes, number: int) -> dict[str, bytes]:
    return {one(entry, 1).decode(): one(entry, 2) for found, entry in fields(data) if found == number}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return documents.v2_document(default_registry().kinds)


@pytest.fixture(scope="module")
def encoded() -> bytes:
    return documents.v2_protobuf(default_registry().kinds)


def test_a_small_document_byte_by_byte() -> None:
    small = {"swagger": "2.0", "info": {"title": "F", "version": "1"}, "paths": {}, "definitions": {}}

    assert protobuf.encode(small) == bytes.fromhex("0a03322e30 1206 0a0146 120131 4200 4a00".replace(" ", ""))


def test_the_document(document: dict[str, Any], encoded: bytes) -> None:
    assert one(encoded, 1) == b"2.0"
    assert one(encoded, 2, 1) == b"Fairway"
    assert set(named(one(encoded, 8), 2)) == set(document["paths"])
    assert set(named(one(encoded, 9), 1)) == set(document["definitions"])


def test_a_definition(encoded: bytes) -> None:
    spec = named(one(encoded, 9), 1)["io.k8s.api.core.v1.PodSpec"]
    containers = named(one(spec, 25), 1)["containers"]

    assert one(spec, 22, 1) == b"object"
    assert one(spec, 19) == b"containers"
    assert one(containers, 22, 1) == b"array"
    assert one(containers, 23, 1, 1) == b"#/definitions/io.k8s.api.core.v1.Container"
    assert {name: json.loads(one(value, 2)) for name, value in named(containers, 31).items()} == {
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "x-kubernetes-patch-merge-key": "name",
        "x-kubernetes-patch-strategy": "merge",
    }


def test_a_kind_is_marked_with_what_it_is(encoded: bytes) -> None:
    pod = named(one(encoded, 9), 1)["io.k8s.api.core.v1.Pod"]
    mark = named(pod, 31)["x-kubernetes-group-version-kind"]

    assert json.loads(one(mark, 2)) == [{"group": "", "kind": "Pod", "version": "v1"}]


def test_limits_defaults_choices_and_maps() -> None:
    schema = {
        "type": "object",
        "properties": {
            "count": {"type": "integer", "minimum": -1.5, "maximum": 7, "default": {"a": 1}},
            "name": {"type": "string", "maxLength": 300, "enum": ["a", 2]},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 3},
        },
    }
    encoded = protobuf.encode({"definitions": {"Thing": schema}})
    parts = named(one(named(one(encoded, 9), 1)["Thing"], 25), 1)

    assert one(parts["count"], 9) == -1.5
    assert one(parts["count"], 7) == 7.0
    assert one(parts["count"], 5, 2) == b'{"a":1}'
    assert one(parts["name"], 11) == 300
    assert [one(value, 2) for number, value in fields(parts["name"]) if number == 20] == [b'"a"', b"2"]
    assert one(parts["labels"], 21, 1, 22, 1) == b"string"
    assert one(parts["labels"], 17) == 3


def test_an_operation_and_its_parameters(encoded: bytes) -> None:
    path = named(one(encoded, 8), 2)["/apis/batch/v1/namespaces/{namespace}/jobs/{name}"]
    patch = one(path, 8)
    parameters = [value for number, value in fields(patch) if number == 8]
    queries = [one(value, 1, 2, 3) for value in parameters if fields(one(value, 1))[0][0] == 2]
    bodies = [one(value, 1, 1) for value in parameters if fields(one(value, 1))[0][0] == 1]
    in_path = [one(value, 1, 2, 4) for number, value in fields(path) if number == 9 and _is_path(value)]

    assert [one(query, 4).decode() for query in queries] == ["dryRun", "fieldManager", "fieldValidation", "force"]
    assert {one(query, 2) for query in queries} == {b"query"}
    assert [(one(body, 2), one(body, 3), one(body, 4)) for body in bodies] == [(b"body", b"body", 1)]
    assert [one(variable, 4) for variable in in_path] == [b"name", b"namespace"]
    assert b"application/strategic-merge-patch+json" in [value for number, value in fields(patch) if number == 7]
    assert set(named(one(patch, 9), 1)) == {"200", "201", "401"}
    assert json.loads(one(named(patch, 13)["x-kubernetes-action"], 2)) == "patch"


def _is_path(parameter: bytes) -> bool:
    return fields(one(parameter, 1, 2))[0][0] == 4


def test_what_the_tables_do_not_know_is_an_error() -> None:
    with pytest.raises(KeyError):
        protobuf.encode({"definitions": {"Thing": {"oneOf": []}}})
