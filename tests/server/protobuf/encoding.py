"""Just enough of a writer to make messages that no real program sends."""

LENGTH = 2


def varint(value: int) -> bytes:
    """A number as it is on the wire; negative ones as 64 bits."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def key(number: int, wire_type: int) -> bytes:
    """What comes before a field's content."""
    return varint(number << 3 | wire_type)


def number(field: int, value: int) -> bytes:
    """A field with a number in it."""
    return key(field, 0) + varint(value)


def message(field: int, *content: bytes) -> bytes:
    """A field with a text or with other fields in it."""
    joined = b"".join(content)
    return key(field, LENGTH) + varint(len(joined)) + joined


def envelope(api_version: str, kind: str, *content: bytes) -> bytes:
    """A whole body."""
    return b"k8s\0" + message(1, message(1, api_version.encode()), message(2, kind.encode())) + message(2, *content)
