"""Compression of headers, by the examples of RFC 7541 and against a model of the table."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.server.http import hpack
from fairway.server.http.hpack import HpackDecoder, HpackError, encode

LIMIT = 1 << 16
GET = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"www.example.com")]
PLAIN = ["828684410f7777772e6578616d706c652e636f6d", "828684be58086e6f2d6361636865",
         "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565"]  # fmt: skip
HUFFMAN = ["828684418cf1e3c2e5f23a6ba0ab90f4ff", "828684be5886a8eb10649cbf",
           "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf"]  # fmt: skip


@pytest.mark.parametrize("blocks", [PLAIN, HUFFMAN], ids=["C.3: without Huffman", "C.4: with Huffman"])
def test_the_examples_of_the_rfc(blocks: list[str]) -> None:
    decoder = HpackDecoder()
    first, second, third = (decoder.decode(bytes.fromhex(block), LIMIT) for block in blocks)
    assert first == GET
    assert second == [*GET, (b"cache-control", b"no-cache")]
    assert third == [
        (b":method", b"GET"), (b":scheme", b"https"), (b":path", b"/index.html"), GET[3],
        (b"custom-key", b"custom-value"),
    ]  # fmt: skip


def huffman(data: bytes) -> bytes:
    """Encoded by the canonical code of the same lengths."""
    codes, code, length = {}, 0, 0
    for symbol in sorted(range(257), key=lambda one: (hpack._LENGTHS[one], one)):
        code <<= hpack._LENGTHS[symbol] - length
        length = hpack._LENGTHS[symbol]
        codes[symbol] = f"{code:0{length}b}"
        code += 1
    bits = "".join(codes[one] for one in data)
    bits += "1" * (-len(bits) % 8)
    return bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits), 8))


@given(st.binary(max_size=60))
def test_whatever_is_encoded_by_huffman_is_decoded(data: bytes) -> None:
    assert hpack._unhuffman(huffman(data)) == data


names = st.sampled_from([b"a", b"b", b"accept", b"x" * 400])
values = st.one_of(st.just(b""), st.just(b"v"), st.binary(max_size=900).map(lambda one: one.hex().encode()))


@given(st.lists(st.lists(st.tuples(names, values), max_size=8), max_size=20))
def test_headers_that_enter_the_table_can_be_referred_to_until_they_are_evicted(
    blocks: list[list[tuple[bytes, bytes]]],
) -> None:
    decoder = HpackDecoder()
    table: list[tuple[bytes, bytes]] = []
    for block in blocks:
        data, expected = bytearray(), []
        for header in block:
            expected.append(header)
            if header in table:
                data += hpack._with_prefix(62 + table.index(header), 0x7F, 0x80)
                continue
            name, value = header
            data += b"\x40" + hpack._with_prefix(len(name), 0x7F, 0) + name
            data += hpack._with_prefix(len(value), 0x7F, 0) + value
            table.insert(0, header)
            while sum(len(one) + len(other) + 32 for one, other in table) > 4096:
                table.pop()
        assert decoder.decode(bytes(data), 1 << 20) == expected


@given(st.integers(200, 599), st.lists(st.tuples(names, values), max_size=5))
def test_what_is_encoded_for_a_response_is_decoded_again(code: int, headers: list[tuple[bytes, bytes]]) -> None:
    assert HpackDecoder().decode(encode(code, headers), 1 << 20) == [(b":status", b"%d" % code), *headers]


BROKEN = {
    "an index that is none": "80",
    "an index beyond the table": "be",
    "an integer without an end": "ffffffffffffff",
    "a string that ends early": "40056162",
    "nothing after the name": "400161",
    "a table that is too large": "3fe21f",
    "a table that changes after a header": "8220",
    "padding of more than seven bits": "00016181ff",
    "padding that is not ones": "000161811e",
    "the end of strings within a string": "00016184ffffffff",
    "a name in capitals": "00014101" + "61",
    "no name": "000001" + "61",
    "a line break in a value": "0001610361" + "0d0a",
}


@pytest.mark.parametrize("block", BROKEN.values(), ids=BROKEN)
def test_what_cannot_be_decoded_is_an_error(block: str) -> None:
    with pytest.raises(HpackError):
        HpackDecoder().decode(bytes.fromhex(block), LIMIT)


@given(st.binary(max_size=200))
def test_nothing_else_is_raised_whatever_comes(data: bytes) -> None:
    with contextlib.suppress(HpackError):
        HpackDecoder().decode(data, LIMIT)


def test_headers_larger_than_the_limit_are_refused_and_the_table_stays_right() -> None:
    decoder = HpackDecoder()
    bomb = b"\x40\x01a\x7f\xa1\x1e" + b"x" * 4000 + b"\xbe" * 1000
    assert decoder.decode(bomb, LIMIT) is None
    assert decoder.decode(b"\xbe", LIMIT) == [(b"a", b"x" * 4000)]
