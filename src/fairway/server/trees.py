"""A directory that a job wrote: listed, and packed as a tar stream, without ever leaving it.

Everything is reached through the descriptor of the directory above it, and no symbolic link is followed, so a job that
moves things about meanwhile gains nothing. How deep and how many is bounded.
"""

import os
import stat
import tarfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_DEEPEST: Final = 100
_MOST_PACKED: Final = 1_000_000
_PIECE: Final = 256 * 1024
_BLOCK: Final = 512


class NoSuchPath(Exception):
    """What is asked for is not in the directory; the text says why."""


class _Entry(NamedTuple):
    path: str
    name: str
    above: int
    """The descriptor of the directory it is in; open while this entry is looked at."""

    found: os.stat_result

    @property
    def kind(self) -> str:
        mode = self.found.st_mode
        if stat.S_ISREG(mode):
            return "file"
        if stat.S_ISDIR(mode):
            return "directory"
        return "link" if stat.S_ISLNK(mode) else "other"


class Tree:
    """A directory, or a part of it."""

    def __init__(self, above: int, name: str, path: str) -> None:
        self._above = above
        self._name = name
        self._path = path
        self._truncated = False

    @classmethod
    def open(cls, root: Path, path: str) -> "Tree":
        """The part of `root` that `path` names; `NoSuchPath`, or `FileNotFoundError` if there is no `root`."""
        parts = [part for part in path.split("/") if part not in ("", ".")]
        if ".." in parts or "\0" in path:
            raise NoSuchPath(f"path: Invalid value: {path[:200]!r}: it must stay in the job's working directory")
        above = os.open(root, _DIRECTORY)
        try:
            for part in parts[:-1]:
                below = os.open(part, _DIRECTORY, dir_fd=above)
                os.close(above)
                above = below
            if parts:
                os.stat(parts[-1], dir_fd=above, follow_symlinks=False)
        except OSError as error:
            os.close(above)
            raise NoSuchPath(f"there is no {path[:200]!r} in the job's working directory: {error.strerror}") from None
        return cls(above, parts[-1] if parts else "", "/".join(parts))

    def listed(self, most: int) -> tuple[list[dict[str, Any]], bool]:
        """The entries, and whether there are more than `most`."""
        items = [_item(entry) for entry in self._entries(most)]
        return items, self._truncated

    def tar(self) -> Generator[bytes, None, None]:
        """A tar archive, in pieces; what is neither file, directory nor link is left out."""
        waiting = bytearray()
        for entry in self._entries(_MOST_PACKED):
            for piece in _packed(entry):
                waiting += piece
                if len(waiting) >= _PIECE:
                    yield bytes(waiting)
                    waiting.clear()
        yield bytes(waiting) + bytes(2 * _BLOCK)

    def _entries(self, most: int) -> Iterator[_Entry]:
        """Everything, directories before what is in them; the descriptor is closed at the end."""
        left = [most]
        try:
            if self._name:
                entry = _Entry(self._path, self._name, self._above, _stat(self._name, self._above))
                yield entry
                if entry.kind == "directory":
                    with _opened(self._name, self._above) as directory:
                        yield from self._below(directory, f"{self._path}/", left, 1)
            else:
                yield from self._below(self._above, "", left, 0)
        finally:
            os.close(self._above)

    def _below(self, directory: int, prefix: str, left: list[int], depth: int) -> Iterator[_Entry]:
        if directory < 0:
            return
        with os.scandir(directory) as found:
            names = sorted(one.name for one in islice(found, left[0] + 1))
        for name in names:
            if left[0] <= 0 or depth >= _DEEPEST:
                self._truncated = True
                return
            left[0] -= 1
            with suppress(FileNotFoundError):  # it is gone since
                entry = _Entry(prefix + name, name, directory, _stat(name, directory))
                yield entry
                if entry.kind == "directory":
                    with _opened(name, directory) as inner:
                        yield from self._below(inner, f"{prefix}{name}/", left, depth + 1)


@contextmanager
def _opened(name: str, above: int) -> Iterator[int]:
    """A directory while it is looked at; -1 if it cannot be."""
    try:
        descriptor = os.open(name, _DIRECTORY, dir_fd=above)
    except OSError:
        yield -1
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _stat(name: str, above: int) -> os.stat_result:
    return os.stat(name, dir_fd=above, follow_symlinks=False)


def _item(entry: _Entry) -> dict[str, Any]:
    item: dict[str, Any] = {
        "path": _text(entry.path),
        "type": entry.kind,
        "bytes": entry.found.st_size if entry.kind == "file" else 0,
        "modifiedAt": datetime.fromtimestamp(int(entry.found.st_mtime), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    if entry.kind == "link":
        item["target"] = _text(os.readlink(entry.name, dir_fd=entry.above))
    return item


def _text(name: str) -> str:
    """A file name that is no UTF-8 as it can be shown."""
    return name.encode(errors="surrogateescape").decode(errors="replace")


def _packed(entry: _Entry) -> Iterator[bytes]:
    header = tarfile.TarInfo(entry.path)
    header.mode = stat.S_IMODE(entry.found.st_mode) & 0o777
    header.mtime = int(entry.found.st_mtime)
    match entry.kind:
        case "directory":
            header.type = tarfile.DIRTYPE
            yield _header(header)
        case "link":
            header.type, header.linkname = tarfile.SYMTYPE, os.readlink(entry.name, dir_fd=entry.above)
            yield _header(header)
        case "file":
            yield from _file(entry, header)


def _file(entry: _Entry, header: tarfile.TarInfo) -> Iterator[bytes]:
    try:
        file = os.open(entry.name, _FILE, dir_fd=entry.above)
    except OSError:  # not readable, or no longer what it was; the list has it, so its absence is seen
        return
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            return
        header.size = left = found.st_size
        yield _header(header)
        while left:
            piece = os.read(file, min(_PIECE, left)) or bytes(min(_PIECE, left))  # it has become shorter
            left -= len(piece)
            yield piece
        yield bytes(-header.size % _BLOCK)
    finally:
        os.close(file)


def _header(header: tarfile.TarInfo) -> bytes:
    return header.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
