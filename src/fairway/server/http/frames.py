"""HTTP/2's frames: their kinds, flags, settings and errors, and what a header block says about a request."""

import struct
from enum import IntEnum
from typing import Final

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITIZED = 0x1, 0x1, 0x4, 0x8, 0x20
ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = range(2, 7)

FRAME_BYTES: Final = 16 << 10
"""The size of a frame, in both directions: the least that every implementation takes."""

DEFAULT_WINDOW: Final = 65_535
MAX_WINDOW: Final = (1 << 31) - 1

FRAME_HEAD: Final = struct.Struct(">IBI")
NUMBER: Final = struct.Struct(">I")
SETTING: Final = struct.Struct(">HI")

_FORBIDDEN: Final = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"})
_PSEUDO: Final = frozenset({b":method", b":scheme", b":authority", b":path"})


class ErrorCode(IntEnum):
    """Why a stream or a connection ends."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class Http2Error(Exception):
    """The client broke the protocol: the connection ends."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class StreamError(Exception):
    """The client broke the protocol within one stream, which ends."""

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


def unpadded(payload: bytes) -> bytes:
    """The payload of a frame without its padding."""
    if not payload or payload[0] >= len(payload):
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, "more padding than frame")
    return payload[1 : len(payload) - payload[0]]


def request_of(headers: list[tuple[bytes, bytes]]) -> tuple[tuple[str, bytes, bytes], list[tuple[bytes, bytes]]]:
    """Method, path and query of a request, and its headers; `StreamError` if it is malformed."""
    pseudo: dict[bytes, bytes] = {}
    at = 0
    for name, value in headers:
        if name[:1] != b":":
            break
        if name not in _PSEUDO or name in pseudo:
            raise StreamError(ErrorCode.PROTOCOL_ERROR)
        pseudo[name] = value
        at += 1
    rest = headers[at:]
    for name, value in rest:
        if name[:1] == b":" or name in _FORBIDDEN or (name == b"te" and value != b"trailers"):
            raise StreamError(ErrorCode.PROTOCOL_ERROR)
    method, path = pseudo.get(b":method"), pseudo.get(b":path")
    if not method or not path or b":scheme" not in pseudo:
        raise StreamError(ErrorCode.PROTOCOL_ERROR)
    if authority := pseudo.get(b":authority"):
        rest.append((b"host", authority))
    path, _, query = path.partition(b"?")
    return (method.decode("latin-1"), path, query), rest
