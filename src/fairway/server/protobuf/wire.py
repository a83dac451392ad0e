"""Bytes to numbered fields: the part of protobuf that is the same for all messages.

What comes in may be anything: every step is checked against the end of the message, and the number of steps against a
budget, so that a body of the largest size allowed costs a bounded amount of time and memory.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

VARINT: Final = 0
FIXED64: Final = 1
LENGTH: Final = 2
FIXED32: Final = 5

_FIXED_SIZES: Final = {FIXED64: 8, FIXED32: 4}
_LONGEST_VARINT_BITS: Final = 70


class Malformed(Exception):
    """The bytes are not what they say they are."""


class WireField(NamedTuple):
    """One field of a message, as it was sent."""

    number: int
    wire_type: int
    value: int
    """The number that was sent as a varint; for every other wire type the position where the content begins."""

    end: int
    """The position behind the field."""


class Reader:
    """A body, and how many more values may be taken from it."""

    __slots__ = ("_budget", "data")

    def __init__(self, data: bytes, budget: int) -> None:
        self.data = data
        self._budget = budget

    def spend(self, values: int) -> None:
        """Note that so many values were made."""
        self._budget -= values
        if self._budget < 0:
            raise Malformed("it stands for too many values")

    def fields(self, start: int, end: int) -> Iterator[WireField]:
        """The fields of the message between two positions, in the order in which they were sent."""
        position = start
        while position < end:
            self.spend(1)
            key, position = self._varint(position, end)
            number, wire_type = key >> 3, key & 7
            if number == 0:
                raise Malformed("a field has the number 0")
            if wire_type == VARINT:
                value, position = self._varint(position, end)
                yield WireField(number, wire_type, value, position)
                continue
            if wire_type == LENGTH:
                size, position = self._varint(position, end)
            elif wire_type in _FIXED_SIZES:
                size = _FIXED_SIZES[wire_type]
            else:
                raise Malformed(f"field {number} has the unknown wire type {wire_type}")
            begin, position = position, position + size
            if position > end:
                raise Malformed(f"field {number} reaches beyond the end of its message")
            yield WireField(number, wire_type, begin, position)

    def varints(self, start: int, end: int) -> Iterator[int]:
        """The numbers of a packed list."""
        position = start
        while position < end:
            self.spend(1)
            value, position = self._varint(position, end)
            yield value

    def _varint(self, position: int, end: int) -> tuple[int, int]:
        """The number at a position, as 64 bits without sign, and the position behind it."""
        value = shift = 0
        while shift < _LONGEST_VARINT_BITS:
            if position >= end:
                raise Malformed("a number reaches beyond the end of its message")
            byte = self.data[position]
            position += 1
            if byte < 0x80:
                return (value | byte << shift) & 0xFFFF_FFFF_FFFF_FFFF, position
            value |= (byte & 0x7F) << shift
            shift += 7
        raise Malformed("a number has more than 64 bits")


def signed(value: int, bits: int) -> int:
    """The number with a sign that the lowest bits of a varint stand for."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value
