"""Values that came before, found again by what they say: jobs come in sweeps, and most pods have the spec of another.

Results that are valid for every value with the same JSON are kept here, and need
not find it out again. What counts as the same is exact: `1`, `1.0` and `true` are three values, and so are the keys `1`
and `"1"`. How much is kept is bounded.
"""

from collections import OrderedDict
from typing import Any, Final, Generic, TypeVar

import msgspec

MOST_BYTES: Final = 256 << 10
"""Of the values as they are written; those that were asked for longest ago go first."""

LARGEST: Final = 16 << 10
"""Larger values are not worth their room."""

_Found = TypeVar("_Found")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def written(value: Any) -> bytes | None:
    """How a value is looked for; `None` if it is too large, or nothing that JSON has."""
    try:
        data = _encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return None
    return data if len(data) <= LARGEST else None


def same(left: object, right: object) -> bool:
    """Whether two values are one and the same in JSON, too: to Python, `1`, `1.0` and `true` are equal."""
    return left is right or (left == right and _encode(left) == _encode(right))


class Familiar(Generic[_Found]):
    """What was found out about values."""

    def __init__(self) -> None:
        self._found: OrderedDict[bytes, tuple[Any, _Found]] = OrderedDict()
        self._bytes = 0

    def get(self, data: bytes, value: Any) -> _Found | None:
        """What is kept about a value, given as it is written too; `None` if nothing is."""
        kept = self._found.get(data)
        # What is written the same need not be the same: keys that are no strings are written as such.
        if kept is None or kept[0] != value:
            return None
        self._found.move_to_end(data)
        return kept[1]

    def keep(self, data: bytes, value: Any, found: _Found) -> None:
        """Keep what was found out about a value."""
        copied = _decode(data)
        if data in self._found or copied != value:
            return
        self._found[data] = (copied, found)
        self._bytes += len(data)
        while self._bytes > MOST_BYTES:
            oldest, _ = self._found.popitem(last=False)
            self._bytes -= len(oldest)
