"""A body in Kubernetes' protobuf envelope to a manifest, as a Kubernetes API server would show it in JSON.

The nesting is bounded by the messages themselves (none contains itself), the number of values by a budget. Fields that
are not known are passed over, as every reader of protobuf does.
"""

import base64
from collections.abc import Callable, Mapping
from typing import Any, Final

from fairway.apis.machinery.kind import Manifest
from fairway.errors import BadRequest, UnsupportedMediaType
from fairway.server.protobuf.messages import Field, Form, Message, Presence, entry, is_list, message, message_of
from fairway.server.protobuf.values import VALUES
from fairway.server.protobuf.wire import LENGTH, VARINT, Malformed, Reader, WireField, signed

CONTENT_TYPE: Final = "application/vnd.kubernetes.protobuf"

_MAGIC: Final = b"k8s\x00"
_TYPE_META, _RAW = 1, 2
_MOST_VALUES: Final = 100_000
"""Objects have some thousands, and a ConfigMap of 30 000 entries is still taken; a body at this limit takes less than
half a second."""

_NUMBERS: Final[Mapping[str, Callable[[int], int]]] = {
    "bool": bool,
    "int32": lambda value: signed(value, 32),
    "int64": lambda value: signed(value, 64),
}
_TEXTS: Final[Mapping[str, Callable[[bytes], str]]] = {
    "string": lambda content: content.decode("utf-8"),
    "bytes": lambda content: base64.b64encode(content).decode("ascii"),
}
_ZEROS: Final[Mapping[str, Any]] = {
    "bool": False, "int32": 0, "int64": 0, "string": "", "bytes": "",
    **{name: value.shown({}) for name, value in VALUES.items()},
}  # fmt: skip


def decode(body: bytes) -> Manifest:
    """The manifest in a body.

    `BadRequest` if it is not well-formed, `UnsupportedMediaType` if it is of a kind that has no protobuf form here.
    """
    if not body.startswith(_MAGIC):
        raise BadRequest("the body is not in Kubernetes' protobuf envelope: it does not begin with 'k8s' and a zero")
    try:
        return _Decoder(body).manifest()
    except (Malformed, UnicodeDecodeError) as error:
        raise BadRequest(f"the body is not well-formed protobuf: {error}") from None


class _Decoder:
    """One body on its way to a manifest."""

    def __init__(self, body: bytes) -> None:
        self._reader = Reader(body, _MOST_VALUES)

    def manifest(self) -> Manifest:
        """The envelope opened, and what is in it."""
        api_version = kind = ""
        start = end = 0
        for field in self._reader.fields(len(_MAGIC), len(self._reader.data)):
            if field.number == _TYPE_META:
                api_version, kind = self._type(field)
            elif field.number == _RAW:
                start, end = self._content(field)
        if not kind:
            raise BadRequest("the body does not say which kind it is")
        name = message_of(api_version, kind)
        if name is None:
            raise UnsupportedMediaType(
                f"{kind[:80]} of {api_version[:80]} is not understood in protobuf; send it as application/json or "
                "application/yaml"
            )
        return {"apiVersion": api_version, "kind": kind, **self._object(message(name), start, end)}

    def _type(self, field: WireField) -> tuple[str, str]:
        start, end = self._content(field)
        texts = {part.number: self._content(part) for part in self._reader.fields(start, end)}
        api_version, kind = (self._text("string", texts.get(number, (0, 0))) for number in (1, 2))
        return api_version, kind

    def _object(self, fields: Message, start: int, end: int) -> dict[str, Any]:
        return self._shown(fields, self._found(fields, start, end))

    def _found(self, fields: Message, start: int, end: int) -> dict[int, Any]:
        """The values of the fields that were sent, by number; of several the last, as protobuf has it."""
        found: dict[int, Any] = {}
        for sent in self._reader.fields(start, end):
            field = fields.get(sent.number)
            if field is None:
                continue
            if field.form is Form.LIST:
                found.setdefault(sent.number, []).extend(self._items(field.type, sent))
            elif field.form is Form.MAP:
                key, value = self._entry(field.type, sent)
                found.setdefault(sent.number, {})[key] = value
            else:
                found[sent.number] = self._value(field.type, sent)
        return found

    def _shown(self, fields: Message, found: Mapping[int, Any]) -> dict[str, Any]:
        """The object in JSON that these values make."""
        self._reader.spend(len(fields))
        shown: dict[str, Any] = {}
        for number, field in fields.items():
            if field.shown is Presence.INLINE:
                shown.update(found[number] if number in found else self._zero(field))
            elif number in found:
                if found[number] or field.shown is not Presence.NONZERO:
                    shown[field.name] = found[number]
            elif field.shown is Presence.ALWAYS:
                shown[field.name] = self._zero(field)
            elif field.shown is Presence.NULL:
                shown[field.name] = None
        return shown

    def _zero(self, field: Field) -> Any:
        if field.form is not Form.ONE:
            return None
        if field.type in _ZEROS:
            return _ZEROS[field.type]
        return [] if is_list(field.type) else self._shown(message(field.type), {})

    def _items(self, kind: str, sent: WireField) -> list[Any]:
        """What one field adds to a list: numbers may come one by one or many at once."""
        number = _NUMBERS.get(kind)
        if number is not None and sent.wire_type == LENGTH:
            return [number(value) for value in self._reader.varints(sent.value, sent.end)]
        return [self._value(kind, sent)]

    def _entry(self, kind: str, sent: WireField) -> tuple[str, Any]:
        """The key and the value of an entry of a map: on the wire, a message with these two fields."""
        fields = entry(kind)
        start, end = self._content(sent)
        found = self._found(fields, start, end)
        return found.get(1, ""), found[2] if 2 in found else self._zero(fields[2])

    def _value(self, kind: str, sent: WireField) -> Any:
        if kind in _NUMBERS:
            if sent.wire_type != VARINT:
                raise Malformed(f"field {sent.number} is not a number")
            return _NUMBERS[kind](sent.value)
        start, end = self._content(sent)
        if kind in _TEXTS:
            return self._text(kind, (start, end))
        if kind in VALUES:
            value = VALUES[kind]
            return value.shown(self._found(value.message, start, end))
        if is_list(kind):
            return self._found(message(kind), start, end).get(1, [])
        return self._object(message(kind), start, end)

    def _text(self, kind: str, span: tuple[int, int]) -> str:
        return _TEXTS[kind](self._reader.data[slice(*span)])

    def _content(self, sent: WireField) -> tuple[int, int]:
        if sent.wire_type != LENGTH:
            raise Malformed(f"field {sent.number} is a number where a text or a message is expected")
        return sent.value, sent.end
