"""The document of version 2 in protocol buffers, which client-go prefers over JSON.

The messages are those of gnostic's `openapi.v2` (field numbers from its `.proto`), as tables from the JSON's words to
numbers; only what `documents` writes is known here, and anything else is an error. What a schema may hold freely
(defaults, enumerations, extensions) travels as YAML in a string, for which JSON is good enough.
"""

import json
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

ACCEPTED: Final = (
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
)
"""What clients ask for to get this."""

CONTENT_TYPE: Final = ACCEPTED[1]
"""What the answer is called: the name with an `@`, which clients ask for, is one that they then cannot read."""

Encoder = Callable[[Any], bytes]

_VARINT, _DOUBLE, _BYTES = 0, 1, 2


def encode(document: Mapping[str, Any]) -> bytes:
    """The bytes of `openapi.v2.Document`."""
    return _document(document)


def _varint(value: int) -> bytes:
    out = bytearray()
    rest = value & (2**64 - 1)  # a negative int64 is written as its two's complement
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _field(number: int, payload: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(payload)) + payload


def _text(number: int) -> Encoder:
    return lambda value: _field(number, value.encode())


def _texts(number: int) -> Encoder:
    return lambda values: b"".join(_field(number, value.encode()) for value in values)


def _flag(number: int) -> Encoder:
    return lambda value: _varint(number << 3 | _VARINT) + _varint(int(value)) if value else b""


def _whole(number: int) -> Encoder:
    return lambda value: _varint(number << 3 | _VARINT) + _varint(value)


def _double(number: int) -> Encoder:
    return lambda value: _varint(number << 3 | _DOUBLE) + struct.pack("<d", value)


def _part(number: int, encoder: Encoder) -> Encoder:
    return lambda value: _field(number, encoder(value))


def _parts(number: int, encoder: Encoder) -> Encoder:
    return lambda values: b"".join(_field(number, encoder(value)) for value in values)


def _named(number: int, encoder: Encoder) -> Encoder:
    """A map: repeated messages of a name (1) and a value (2)."""
    return lambda entries: b"".join(
        _field(number, _field(1, name.encode()) + _field(2, encoder(value))) for name, value in entries.items()
    )


def _any(value: Any) -> bytes:
    return _field(2, json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def _message(words: Mapping[str, Encoder], extensions: int) -> Encoder:
    """A message: a number for each word, and one for all the words that begin with `x-`."""
    extend = _named(extensions, _any)

    def encoder(value: Mapping[str, Any]) -> bytes:
        known = [words[word](fact) for word, fact in value.items() if not word.startswith("x-")]
        others = {word: fact for word, fact in value.items() if word.startswith("x-")}
        return b"".join([*known, extend(others)])

    return encoder


def _schema(value: Mapping[str, Any]) -> bytes:
    return _schema_message(value)


def _wrapped(encoder: Encoder, *numbers: int) -> Encoder:
    """An encoder inside the messages that choose between alternatives, the outermost first."""

    def wrap(value: Any) -> bytes:
        payload = encoder(value)
        for number in reversed(numbers):
            payload = _field(number, payload)
        return payload

    return wrap


def _strings(values: Iterable[str] | str) -> bytes:
    return _texts(1)([values] if isinstance(values, str) else values)


_schema_message: Final = _message(
    {
        "$ref": _text(1),
        "format": _text(2),
        "title": _text(3),
        "description": _text(4),
        "default": _part(5, _any),
        "maximum": _double(7),
        "minimum": _double(9),
        "maxLength": _whole(11),
        "minLength": _whole(12),
        "pattern": _text(13),
        "maxItems": _whole(14),
        "minItems": _whole(15),
        "uniqueItems": _flag(16),
        "maxProperties": _whole(17),
        "minProperties": _whole(18),
        "required": _texts(19),
        "enum": _parts(20, _any),
        "additionalProperties": _part(21, _wrapped(_schema, 1)),
        "type": _part(22, _strings),
        "items": _part(23, _wrapped(_schema, 1)),
        "properties": _part(25, _named(1, _schema)),
    },
    extensions=31,
)

_body_parameter: Final = _message(
    {"description": _text(1), "name": _text(2), "in": _text(3), "required": _flag(4), "schema": _part(5, _schema)},
    extensions=6,
)
_query_parameter: Final = _message(
    {
        "required": _flag(1),
        "in": _text(2),
        "description": _text(3),
        "name": _text(4),
        "type": _text(6),
        "uniqueItems": _flag(20),
    },
    extensions=23,
)
_path_parameter: Final = _message(
    {
        "required": _flag(1),
        "in": _text(2),
        "description": _text(3),
        "name": _text(4),
        "type": _text(5),
        "uniqueItems": _flag(19),
    },
    extensions=22,
)
_PARAMETERS: Final = {
    "body": _wrapped(_body_parameter, 1, 1),
    "query": _wrapped(_query_parameter, 1, 2, 3),
    "path": _wrapped(_path_parameter, 1, 2, 4),
}


def _parameter(value: Mapping[str, Any]) -> bytes:
    return _PARAMETERS[value["in"]](value)


_response: Final = _message({"description": _text(1), "schema": _part(2, _wrapped(_schema, 1))}, extensions=5)

_operation: Final = _message(
    {
        "tags": _texts(1),
        "description": _text(3),
        "operationId": _text(5),
        "produces": _texts(6),
        "consumes": _texts(7),
        "parameters": _parts(8, _parameter),
        "responses": _part(9, _named(1, _wrapped(_response, 1))),
    },
    extensions=13,
)

_path: Final = _message(
    {
        "get": _part(2, _operation),
        "put": _part(3, _operation),
        "post": _part(4, _operation),
        "delete": _part(5, _operation),
        "patch": _part(8, _operation),
        "parameters": _parts(9, _parameter),
    },
    extensions=10,
)

_security: Final = _message({"type": _text(1), "name": _text(2), "in": _text(3), "description": _text(4)}, extensions=5)

_document: Final = _message(
    {
        "swagger": _text(1),
        "info": _part(2, _message({"title": _text(1), "version": _text(2)}, extensions=7)),
        "paths": _part(8, _named(2, _path)),
        "definitions": _part(9, _named(1, _schema)),
        "security": _parts(12, _named(1, _strings)),
        "securityDefinitions": _part(13, _named(1, _wrapped(_security, 2))),
    },
    extensions=16,
)
