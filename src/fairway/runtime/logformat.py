"""The format of log files, as far as those who write them need it; `docs/use/logs.md` describes it."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Literal

Stream = Literal["stdout", "stderr"]

LONGEST_PIECE = 16 * 1024
"""A line is written in pieces of at most this length."""


def stamp(nanoseconds: int) -> bytes:
    """A time since the epoch as log files have it."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return b"%s.%09dZ" % (_second(seconds), rest)


@lru_cache(maxsize=16)
def _second(seconds: int) -> bytes:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S").encode()


def head(nanoseconds: int, stream: Stream, *, partial: bool = False) -> bytes:
    """What an entry begins with; the text and a line break follow."""
    return b"%s %s %s " % (stamp(nanoseconds), stream.encode(), b"P" if partial else b"F")


def encode(nanoseconds: int, stream: Stream, text: bytes, *, partial: bool = False) -> bytes:
    """One entry: a line without its line break, or with `partial` a piece of one."""
    if b"\n" in text:
        raise ValueError("an entry holds one line; split the text at its line breaks")
    return b"%s%s\n" % (head(nanoseconds, stream, partial=partial), text)
