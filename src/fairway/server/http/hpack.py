"""HPACK (RFC 7541): how HTTP/2 compresses headers.

Decoding follows the RFC. Encoding uses the static table only: responses of an API have few headers, and without a
dynamic table the encoder has no state. Pure Python, because what the package index offers is slower: clients repeat
most headers, which are one byte each then, and the rest is decoded by a table of Huffman transitions that is computed
as needed.
"""

import re
from collections import deque
from collections.abc import Iterable
from typing import Final, TypeAlias

Header = tuple[bytes, bytes]

_STATIC: Final[list[Header]] = [
    (b"", b""),  # indexes begin at 1
    (b":authority", b""), (b":method", b"GET"), (b":method", b"POST"), (b":path", b"/"), (b":path", b"/index.html"),
    (b":scheme", b"http"), (b":scheme", b"https"), (b":status", b"200"), (b":status", b"204"), (b":status", b"206"),
    (b":status", b"304"), (b":status", b"400"), (b":status", b"404"), (b":status", b"500"), (b"accept-charset", b""),
    (b"accept-encoding", b"gzip, deflate"),
    *((name, b"") for name in (
        b"accept-language", b"accept-ranges", b"accept", b"access-control-allow-origin", b"age", b"allow",
        b"authorization", b"cache-control", b"content-disposition", b"content-encoding", b"content-language",
        b"content-length", b"content-location", b"content-range", b"content-type", b"cookie", b"date", b"etag",
        b"expect", b"expires", b"from", b"host", b"if-match", b"if-modified-since", b"if-none-match", b"if-range",
        b"if-unmodified-since", b"last-modified", b"link", b"location", b"max-forwards", b"proxy-authenticate",
        b"proxy-authorization", b"range", b"referer", b"refresh", b"retry-after", b"server", b"set-cookie",
        b"strict-transport-security", b"transfer-encoding", b"user-agent", b"vary", b"via", b"www-authenticate",
    )),
]  # fmt: skip
_DYNAMIC: Final = len(_STATIC)
"""The index of the newest entry of the dynamic table."""

_NAMES: Final = {name: index for index, (name, _) in reversed(list(enumerate(_STATIC)))}
_STATUSES: Final = {int(value): index for index, (name, value) in enumerate(_STATIC) if name == b":status"}

TABLE_BYTES: Final = 4096
"""The size of the dynamic table, as HTTP/2 has it unless a setting says otherwise."""

_ENTRY_BYTES: Final = 32
_NAME: Final = re.compile(rb":?[!#$%&'*+\-.^_`|~0-9a-z]+")
_VALUE: Final = re.compile(rb"[^\x00\r\n]*")


class HpackError(Exception):
    """The block cannot be decoded; nothing later on the connection can be either."""


class HpackDecoder:
    """Decodes the header blocks of one direction of a connection, in their order."""

    def __init__(self) -> None:
        self._table: deque[Header] = deque()
        self._size = 0
        self._capacity = TABLE_BYTES

    def decode(self, data: bytes, limit: int) -> list[Header] | None:
        """The headers of a block; `None` if they are larger than `limit` bytes together."""
        headers: list[Header] = []
        at, end, size = 0, len(data), 0
        while at < end:
            first = data[at]
            if first >= 0x80:
                index, at = _integer(data, at, 0x7F)
                header = self._entry(index)
            elif first >= 0x40:
                header, at = self._literal(data, at, 0x3F)
                self._add(header)
            elif first >= 0x20:
                if headers:
                    raise HpackError("a table size update after a header")
                self._capacity, at = _integer(data, at, 0x1F)
                if self._capacity > TABLE_BYTES:
                    raise HpackError(f"a table of {self._capacity} bytes")
                self._evict()
                continue
            else:
                header, at = self._literal(data, at, 0x0F)
            size += len(header[0]) + len(header[1]) + _ENTRY_BYTES
            if size <= limit:
                headers.append(header)
        return headers if size <= limit else None

    def _entry(self, index: int) -> Header:
        if 0 < index < _DYNAMIC:
            return _STATIC[index]
        if not 0 <= index - _DYNAMIC < len(self._table):
            raise HpackError(f"no header with index {index}")
        return self._table[index - _DYNAMIC]

    def _literal(self, data: bytes, at: int, prefix: int) -> tuple[Header, int]:
        index, at = _integer(data, at, prefix)
        if index:
            name = self._entry(index)[0]
        else:
            name, at = _string(data, at)
            if not _NAME.fullmatch(name):
                raise HpackError(f"the header name {name[:80]!r}")
        value, at = _string(data, at)
        if not _VALUE.fullmatch(value):
            raise HpackError(f"the value of the header {name[:80]!r} has a line break or a zero byte in it")
        return (name, value), at

    def _add(self, header: Header) -> None:
        self._table.appendleft(header)
        self._size += len(header[0]) + len(header[1]) + _ENTRY_BYTES
        self._evict()

    def _evict(self) -> None:
        while self._size > self._capacity:
            name, value = self._table.pop()
            self._size -= len(name) + len(value) + _ENTRY_BYTES


def encode(code: int, headers: Iterable[Header]) -> bytes:
    """The header block of a response."""
    status = _STATUSES.get(code)
    parts = [_with_prefix(status, 0x7F, 0x80) if status else b"\x08\x03%d" % code]
    for name, value in headers:
        index = _NAMES.get(name, 0)
        parts.append(_with_prefix(index, 0x0F, 0))
        if not index:
            parts += (_with_prefix(len(name), 0x7F, 0), name)
        parts += (_with_prefix(len(value), 0x7F, 0), value)
    return b"".join(parts)


def _with_prefix(value: int, prefix: int, flags: int) -> bytes:
    if value < prefix:
        return bytes((flags | value,))
    found = bytearray((flags | prefix,))
    value -= prefix
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _integer(data: bytes, at: int, prefix: int) -> tuple[int, int]:
    """An integer that begins in the lower bits of a byte, and where the next thing begins."""
    value = data[at] & prefix
    at += 1
    if value < prefix:
        return value, at
    shift = 0
    while True:
        if at >= len(data) or shift > 21:
            raise HpackError("an integer that does not end")
        byte = data[at]
        at += 1
        value += (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _string(data: bytes, at: int) -> tuple[bytes, int]:
    if at >= len(data):
        raise HpackError("a string is missing")
    coded = data[at] & 0x80
    length, at = _integer(data, at, 0x7F)
    end = at + length
    if end > len(data):
        raise HpackError("a string ends early")
    return (_unhuffman(data[at:end]) if coded else data[at:end]), end


# Huffman: the code of the RFC is canonical, so the length of each symbol's code is all there is to know.

_LENGTHS: Final = bytes.fromhex(
    "0d171c1c1c1c1c1c1c181e1c1c1e1c1c1c1c1c1c1c1c1e1c1c1c1c1c1c1c1c1c060a0a0c0d06080b0a0a080b080606060505"
    "050606060606060607080f060c0a0d06070707070707070707070707070707070707070707070807080d130d0e060f050605"
    "06050606060507070606060506070605050607070707070f0b0e0d1c14161414161616171617171717171817181816171817"
    "1717171516171617171816151416161717151716161815161717151516151716171714161616171616171a1a141316171619"
    "1a1a1a1b1b1a181913151a1b1b1a1b1815151a1a1c1b1b1b14181415161515171616191918181a171a1b1a1a1b1b1b1b1b1c"
    "1b1b1b1b1b1a1e"
)
_END: Final = 256


def _tree() -> list[list[int]]:
    """The inner nodes of the code's tree: for each bit the next node, or `~symbol`."""
    nodes = [[0, 0]]
    code, length = 0, 0
    for symbol in sorted(range(257), key=lambda one: (_LENGTHS[one], one)):
        code <<= _LENGTHS[symbol] - length
        length = _LENGTHS[symbol]
        node = 0
        for shift in range(length - 1, 0, -1):
            bit = code >> shift & 1
            if not nodes[node][bit]:
                nodes[node][bit] = len(nodes)
                nodes.append([0, 0])
            node = nodes[node][bit]
        nodes[node][code & 1] = ~symbol
        code += 1
    return nodes


_nodes: Final = _tree()

_Row: TypeAlias = "list[tuple[bytes, _Row] | None]"
"""The steps from a node, by byte: what the byte adds, and the row of the node that it leads to."""

_rows: Final[dict[int, _Row]] = {}
"""By node. Steps are added as they are needed: at most 65 536, and clients use a few thousand."""


def _row(node: int) -> _Row:
    return _rows.setdefault(node, [None] * 256)


def _padding() -> list[_Row]:
    """Where a string may end: the path to these nodes is at most seven one bits."""
    nodes = [0]
    for _ in range(7):
        nodes.append(_nodes[nodes[-1]][1])
    return [_row(node) for node in nodes]


_ROOT: Final = _row(0)
_PADDING: Final = _padding()


def _unhuffman(data: bytes) -> bytes:
    parts: list[bytes] = []
    row = _ROOT
    for byte in data:
        part, row = row[byte] or _step(row, byte)
        parts.append(part)
    if not any(row is one for one in _PADDING):
        raise HpackError("a Huffman string with wrong padding")
    return b"".join(parts)


def _step(row: _Row, byte: int) -> tuple[bytes, _Row]:
    node = next(node for node, one in _rows.items() if one is row)
    found = bytearray()
    for shift in range(7, -1, -1):
        node = _nodes[node][byte >> shift & 1]
        if node < 0:
            if ~node == _END:
                raise HpackError("a Huffman string with its end in it")
            found.append(~node)
            node = 0
    step = row[byte] = (bytes(found), _row(node))
    return step
