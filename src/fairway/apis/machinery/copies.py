"""Copies of manifests."""

from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def copied(value: Any) -> Any:
    """A manifest, or a part of one, that shares nothing with the one given; much faster than `copy.deepcopy`."""
    return _decode(_encode(value))
