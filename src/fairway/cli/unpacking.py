"""Writing what a server sends as a tar stream below one directory, and nowhere else.

The server is not trusted: names must stay below the directory, a file is never written through a symbolic link, and
links are made last, only those that stay inside.
"""

import os
import posixpath
import sys
import tarfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, NamedTuple, cast

import click

from fairway.cli.choosing import Manifest
from fairway.cli.results import Listing, in_words
from fairway.cli.tables import plain, screen
from fairway.client.rest import paths
from fairway.errors import FairwayError

if TYPE_CHECKING:
    from fairway.cli.session import Session

_PIECE: Final = 256 * 1024


class DownloadError(FairwayError):
    """The files cannot be written here."""


class Downloaded(NamedTuple):
    files: int
    bytes: int
    skipped: list[str]


class Download:
    """The files of one node of one attempt."""

    def __init__(self, session: "Session", job: Manifest, listing: Listing, target: Path, *, overwrite: bool) -> None:
        self._session = session
        self._job = job
        self._listing = listing
        self._target = target
        self._overwrite = overwrite
        self._screen = screen(sys.stderr)
        self._links: list[tarfile.TarInfo] = []
        self._skipped: list[str] = []
        self._files = self._bytes = 0

    def run(self, path: str) -> Downloaded:
        metadata = self._job["metadata"]
        stream = self._session.rest.stream(
            paths.files(metadata["namespace"], metadata["name"]),
            task=self._listing.part.task,
            attempt=self._listing.part.attempt,
            rank=self._listing.rank,
            path_=path or None,
            format="tar",
        )
        try:
            with closing(stream):
                self.unpack(stream)
        finally:
            self._progress(done=True)
        missing = self._listing.files - self._files
        if missing > 0 and not self._listing.truncated and not self._skipped:
            self._skipped.append(f"{missing} files that the server could not read, or that were deleted")
        return Downloaded(self._files, self._bytes, self._skipped)

    def unpack(self, stream: Iterator[bytes]) -> None:
        """Write a tar archive that comes in pieces; `DownloadError` if that is not possible."""
        try:
            self._target.mkdir(parents=True, exist_ok=True)
            self._target = self._target.resolve(strict=True)
            with tarfile.open(fileobj=cast("IO[bytes]", _Reader(stream)), mode="r|") as archive:
                for member in archive:
                    self._take(archive, member)
            for link in self._links:
                self._make_link(link)
        except tarfile.TarError as error:
            raise DownloadError(f"what the server sent is no archive of files: {error}") from error
        except OSError as error:
            raise DownloadError(f"cannot write {error.filename or self._target}: {error.strerror}") from error

    def _take(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        name = _inside(member.name)
        if name is None or not (member.isfile() or member.isdir() or member.issym()):
            self._skip(f"{member.name}: not a file of this directory")
            return
        place = self._target / name
        if member.issym():
            self._links.append(member)
            return
        directory = place if member.isdir() else place.parent
        if not self._make_directory(directory):
            self._skip(f"{member.name}: an existing link leads out of {self._target}")
        elif member.isfile():
            self._write(archive, member, place)

    def _make_directory(self, directory: Path) -> bool:
        """Whether it is there now, and inside; nothing is made behind a link that leads out."""
        nearest = directory
        while not os.path.lexists(nearest):
            nearest = nearest.parent
        if not nearest.resolve().is_relative_to(self._target):
            return False
        directory.mkdir(parents=True, exist_ok=True)
        return directory.resolve(strict=True).is_relative_to(self._target)

    def _write(self, archive: tarfile.TarFile, member: tarfile.TarInfo, place: Path) -> None:
        content = archive.extractfile(member)
        if content is None:
            return
        if self._overwrite:
            with suppress(FileNotFoundError):
                place.unlink()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            file = os.open(place, flags, 0o600)
        except FileExistsError:
            raise DownloadError(f"{place} is there already; --overwrite replaces it, --to writes elsewhere") from None
        with open(file, "wb") as opened:  # noqa: PTH123 - a descriptor
            while piece := content.read(_PIECE):
                opened.write(piece)
                self._bytes += len(piece)
                self._progress()
            os.fchmod(file, member.mode & 0o777 & ~_umask() | 0o600)
        os.utime(place, (member.mtime, member.mtime))
        self._files += 1

    def _make_link(self, link: tarfile.TarInfo) -> None:
        inside = _inside(posixpath.join(posixpath.dirname(link.name), link.linkname))
        if posixpath.isabs(link.linkname) or inside is None:
            self._skip(f"{link.name} -> {link.linkname}: the link leads out of the directory")
            return
        place = self._target / link.name
        if not self._make_directory(place.parent):
            self._skip(f"{link.name}: a link that is there already leads out of {self._target}")
            return
        if not (place.parent / link.linkname).resolve().is_relative_to(self._target):
            self._skip(f"{link.name} -> {link.linkname}: the link leads out of the directory")
            return
        if self._overwrite:
            with suppress(FileNotFoundError):
                place.unlink()
        place.symlink_to(link.linkname)

    def _skip(self, text: str) -> None:
        self._skipped.append(plain(text))

    def _progress(self, *, done: bool = False) -> None:
        if self._screen.moves:
            said = "" if done else f"{in_words(self._bytes)} of {in_words(self._listing.bytes)}"
            click.echo(f"\r\x1b[2K{said}", err=True, nl=False)


def _inside(name: str) -> str | None:
    """A name below a directory, without detours; `None` if it leads out."""
    found = posixpath.normpath(name)
    return None if posixpath.isabs(found) or found == ".." or found.startswith("../") else found


def _umask() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


class _Reader:
    """A stream of pieces, to be read by length."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._held = b""

    def read(self, size: int) -> bytes:
        parts, missing = [self._held], size - len(self._held)
        while missing > 0 and (piece := next(self._pieces, b"")):
            parts.append(piece)
            missing -= len(piece)
        whole = b"".join(parts)
        self._held = whole[size:]
        return whole[:size]
