"""Reviews that arrive in protobuf, because `kubectl auth` sends them in nothing else.

From 1.32 on kubectl sends the objects that it makes itself (not those it reads from files) in protobuf, whatever the
server would like, and does not try again with JSON. Fairway takes JSON and YAML, and for the questions of `reviews`
also this. Only what these questions need is understood: strings, messages and lists of them; every other field is
passed over.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fairway.errors import BadRequest

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"

_MAGIC = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True, slots=True)
class Message:
    """Which fields of a message are of interest, by number."""

    strings: Mapping[int, str] = field(default_factory=dict)
    lists: Mapping[int, str] = field(default_factory=dict)
    messages: Mapping[int, tuple[str, "Message"]] = field(default_factory=dict)


_TYPE = Message({1: "apiVersion", 2: "kind"})
_RESOURCE = Message({1: "namespace", 2: "verb", 3: "group", 4: "version", 5: "resource", 6: "subresource", 7: "name"})
_PATH = Message({1: "path", 2: "verb"})
_QUESTION = {1: ("resourceAttributes", _RESOURCE), 2: ("nonResourceAttributes", _PATH)}
_SUBJECT = Message({3: "user", 6: "uid"}, {4: "groups"}, _QUESTION)

MESSAGES: dict[tuple[str, str], Message] = {
    ("authentication.k8s.io/v1", "SelfSubjectReview"): Message(),
    ("authorization.k8s.io/v1", "SelfSubjectAccessReview"): Message(
        messages={2: ("spec", Message(messages=_QUESTION))}
    ),
    ("authorization.k8s.io/v1", "SelfSubjectRulesReview"): Message(messages={2: ("spec", Message({1: "namespace"}))}),
    ("authorization.k8s.io/v1", "SubjectAccessReview"): Message(messages={2: ("spec", _SUBJECT)}),
}


def decode_review(body: bytes) -> dict[str, object]:
    """The manifest of a review in Kubernetes' protobuf envelope; raises `BadRequest` if it is no such thing."""
    if not body.startswith(_MAGIC):
        raise BadRequest("the body is not in Kubernetes' protobuf envelope: it does not begin with 'k8s'")
    try:
        envelope = {number: value for number, value in _fields(body[len(_MAGIC) :]) if value is not None}
        manifest = _decode(envelope.get(1, b""), _TYPE)
        message = MESSAGES.get((str(manifest.get("apiVersion")), str(manifest.get("kind"))))
        if message is None:
            raise BadRequest(
                f"{manifest.get('kind')} of {manifest.get('apiVersion')} is not understood in protobuf; send it as JSON"
            )
        return manifest | _decode(envelope.get(2, b""), message)
    except (IndexError, UnicodeDecodeError) as error:
        raise BadRequest("the body is not well-formed protobuf") from error


def _decode(data: bytes, message: Message) -> dict[str, object]:
    found: dict[str, object] = {}
    for number, value in _fields(data):
        if value is None:
            continue
        if number in message.strings:
            found[message.strings[number]] = value.decode()
        elif number in message.lists:
            values = found.setdefault(message.lists[number], [])
            assert isinstance(values, list)  # noqa: S101 - set in the line above
            values.append(value.decode())
        elif number in message.messages:
            name, inner = message.messages[number]
            found[name] = _decode(value, inner)
    return found


def _fields(data: bytes) -> Iterator[tuple[int, bytes | None]]:
    """The fields in order, with their content where it is bytes."""
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        kind = key & 7
        content = None
        if kind == _VARINT:
            _, position = _varint(data, position)
        elif kind == _BYTES:
            length, position = _varint(data, position)
            content = data[position : position + length]
            position += length
        elif kind in (_FIXED64, _FIXED32):
            position += 8 if kind == _FIXED64 else 4
        else:
            raise IndexError(f"unknown wire type {kind}")
        if position > len(data):
            raise IndexError("a field reaches beyond the end")
        yield key >> 3, content


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
    raise IndexError("a number of more than 64 bits")
