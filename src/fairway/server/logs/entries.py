"""The format of log files, as bytes in and bytes out."""

import os
import re
from pathlib import Path

from fairway.runtime.logformat import Stream, encode

LONGEST_LINE = 1024 * 1024
"""A line in pieces is held back until it is whole, up to this length; what is longer is passed on in pieces."""

_TIME = rb"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{9}Z"
_HEAD = re.compile(rb"(" + _TIME + rb") (stdout|stderr) ([FP]) ")
_HEAD_OF_WHOLE_LINE = re.compile(rb"^(" + _TIME + rb" )std(?:out|err) F ", re.MULTILINE)

HEAD_LENGTH = len("2026-11-16T08:30:00.123456789Z stdout F ")


def append(path: Path, nanoseconds: int, stream: Stream, text: bytes, *, partial: bool = False) -> None:
    """Adds one entry to a file, which is created if missing; to write many, keep the file open instead."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(file, encode(nanoseconds, stream, text, partial=partial))
    finally:
        os.close(file)


def time_of(entry: bytes) -> bytes | None:
    """The time at the beginning of an entry, or `None` if this is none."""
    head = _HEAD.match(entry)
    return head[1] if head else None


def is_partial(entry: bytes) -> bool:
    head = _HEAD.match(entry)
    return head is not None and head[3] == b"P"


class Lines:
    """From entries to the lines that a person reads; fed with the bytes of a file in order, cut anywhere.

    Lines that are no entries, as after a power failure, are passed on unchanged.
    """

    def __init__(self, *, since: bytes | None = None, timestamps: bool = False, stream: Stream | None = None) -> None:
        """`since` is the stamp of the earliest entry that counts."""
        self._since = since
        self._timestamps = timestamps
        self._stream = stream.encode() if stream else None
        self._rest = b""
        self._open: dict[bytes, bytes] = {}
        """Lines that are not whole yet, by stream, as far as they are held back."""

    def feed(self, data: bytes) -> bytes:
        data = self._rest + data
        end = data.rfind(b"\n") + 1
        if len(data) - end > LONGEST_LINE:  # not written by `encode`
            end = len(data)
        self._rest = data[end:]
        return self._lines(data[:end])

    def finish(self) -> bytes:
        """What was held back, at the end of the file."""
        unfinished = self._rest
        self._rest = b""
        shown = self._line(unfinished, ended=False) if _HEAD.match(unfinished) else b""
        for stream, text in self._open.items():
            shown += text
            self._open[stream] = b""
        return shown

    def _lines(self, data: bytes) -> bytes:
        if self._since is None and self._stream is None and not self._open:
            shown, whole = _HEAD_OF_WHOLE_LINE.subn(rb"\1" if self._timestamps else b"", data)
            if whole == data.count(b"\n"):
                return shown
        ended = data.endswith(b"\n")
        lines = data.split(b"\n")
        rest = lines.pop()
        shown = b"".join(map(self._line, lines))
        return shown if ended else shown + rest

    def _line(self, entry: bytes, *, ended: bool = True) -> bytes:
        head = _HEAD.match(entry)
        if head is None:
            return entry + b"\n" if self._since is None else b""
        time, stream, tag = head.groups()
        if self._since is not None:
            if time < self._since:
                return b""
            self._since = None  # times only grow
        if self._stream not in (None, stream):
            return b""
        begun = self._open.pop(stream, None)
        text = entry[head.end() :]
        if begun is not None:
            text = begun + text
        elif self._timestamps:
            text = time + b" " + text
        if tag == b"F" and ended:
            return text + b"\n"
        too_long = len(text) > LONGEST_LINE
        self._open[stream] = b"" if too_long else text
        return text if too_long else b""
