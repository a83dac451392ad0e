"""Directories and files of a task, packed as reproducible archives: equal content gives equal bytes.

Owners and times are left out of an archive, entries are in the order of their names. `.git` is never packed, nor what
`.skyignore` in the directory says; where there is none, what the `.gitignore` files in it say. Links are packed as
links. Nothing here knows tasks or servers.
"""

import gzip
import hashlib
import os
import stat
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import IO, Any, BinaryIO, Final, NamedTuple, Self, cast

from fairway.errors import FairwayError

LIMIT_BYTES: Final = 1 << 30
"""What a directory may hold: as much as the server takes as an archive."""

LIMIT_FILES: Final = 100_000
"""How many files and directories may be in it."""

LARGE_BYTES: Final = 100 << 20
LARGE_FILES: Final = 10_000
"""From either on, a directory is large enough to ask whether all of it is needed."""

_IN_MEMORY: Final = 32 << 20
_COMPRESSION: Final = 1
"""Archives are kept a while and travel rarely far: quick is better than small."""

_SHOWN: Final = 5
_WAY_OUT: Final = "Exclude files with .skyignore, or run the task in the directory itself with --in-place"
_MODES: Final = 0o777

Progress = Callable[[int, int], None]
"""Told how many files and bytes are packed so far."""


class PackingError(FairwayError):
    """Something cannot be packed; the message says what, and what to do."""


class ArchiveEntry(NamedTuple):
    """One thing to pack."""

    path: str
    """In the archive; directories without a slash at the end."""

    source: Path
    status: os.stat_result


class Archive:
    """A packed directory or file, in a temporary file that is gone after `close`."""

    def __init__(self, file: BinaryIO, digest: str, size: int, skipped: tuple[str, ...]) -> None:
        self.file = file
        self.digest = digest
        """The SHA-256 of its bytes, in hex."""
        self.size = size
        self.skipped = skipped
        """What has no content that could be packed: sockets, devices, pipes."""

    def close(self) -> None:
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def pack(
    source: Path,
    *,
    name: str = "",
    limit: int = LIMIT_BYTES,
    limit_files: int = LIMIT_FILES,
    progress: Progress | None = None,
    notice: Callable[[str], None] | None = None,
) -> Archive:
    """Pack what is in a directory, or one file under a name; `notice` is called before something large is packed."""
    if source.is_dir():
        entries, skipped = _in_directory(source, limit_files)
    else:
        entries, skipped = [ArchiveEntry(name or source.name, source, source.stat())], []
    _check_size(source, entries, limit, notice or (lambda _text: None))
    file = cast("BinaryIO", tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY))  # noqa: SIM115 - closed with the archive
    try:
        writing = _Hashing(file)
        with (
            gzip.GzipFile("", "wb", _COMPRESSION, cast("IO[bytes]", writing), mtime=0) as zipped,
            tarfile.open(fileobj=zipped, mode="w|", format=tarfile.GNU_FORMAT) as tar,
        ):
            _write(tar, entries, progress or (lambda _files, _size: None))
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return Archive(file, writing.digest(), writing.size, tuple(skipped))


class _Hashing:
    """Passes on what is written, and knows its digest."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        self.size += len(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def digest(self) -> str:
        return self._hash.hexdigest()


def _write(tar: tarfile.TarFile, entries: list[ArchiveEntry], progress: Progress) -> None:
    size = 0
    for number, entry in enumerate(entries, 1):
        info = tarfile.TarInfo(entry.path)
        info.mode = stat.S_IMODE(entry.status.st_mode) & _MODES
        try:
            if stat.S_ISLNK(entry.status.st_mode):
                info.type, info.linkname = tarfile.SYMTYPE, str(entry.source.readlink())
                tar.addfile(info)
            elif stat.S_ISDIR(entry.status.st_mode):
                info.type = tarfile.DIRTYPE
                tar.addfile(info)
            else:
                with entry.source.open("rb") as content:
                    info.size = os.fstat(content.fileno()).st_size
                    tar.addfile(info, content)
                size += info.size
        except FileNotFoundError:
            raise PackingError(f"{entry.source} was deleted while it was packed; launch again") from None
        except OSError as error:
            why = error.strerror or "it changed while it was packed"
            raise PackingError(f"{entry.source} cannot be packed: {why}; exclude it with .skyignore") from None
        progress(number, size)


def _cannot(path: Path | str, why: str) -> PackingError:
    return PackingError(f"{path} cannot be packed: {why}; exclude it with .skyignore")


def _check_size(source: Path, entries: list[ArchiveEntry], limit: int, notice: Callable[[str], None]) -> None:
    total = sum(_bytes(entry) for entry in entries)
    if total <= limit:
        if total >= LARGE_BYTES or len(entries) >= LARGE_FILES:
            notice(
                f"{source} holds {size_text(total)} in {len(entries)} files; the largest entries: {_largest(entries)}"
            )
        return
    raise PackingError(
        f"{source} holds {size_text(total)}, and the limit is {size_text(limit)}; the largest entries: "
        f"{_largest(entries)}. {_WAY_OUT}"
    )


def _largest(entries: list[ArchiveEntry]) -> str:
    sizes: dict[str, int] = {}
    for entry in entries:
        top = entry.path.partition("/")[0]
        sizes[top] = sizes.get(top, 0) + _bytes(entry)
    shown = sorted(sizes.items(), key=lambda item: -item[1])[:_SHOWN]
    return ", ".join(f"{name} ({size_text(size)})" for name, size in shown)


def _bytes(entry: ArchiveEntry) -> int:
    return entry.status.st_size if stat.S_ISREG(entry.status.st_mode) else 0


def size_text(size: float) -> str:
    """An amount of bytes for people."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def _in_directory(root: Path, limit: int) -> tuple[list[ArchiveEntry], list[str]]:
    """Everything below a directory that is not ignored, in the order of its paths."""
    entries: list[ArchiveEntry] = []
    skipped: list[str] = []
    for number, entry in enumerate(_walk(root, "", _Ignoring.at(root)), 1):
        if number > limit:
            raise PackingError(f"{root} has more than {limit} files, the limit. {_WAY_OUT}")
        if stat.S_IFMT(entry.status.st_mode) in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
            entries.append(entry)
        else:
            skipped.append(entry.path)
    return entries, skipped


def _walk(folder: Path, within: str, ignoring: "_Ignoring") -> Iterator[ArchiveEntry]:
    try:
        with os.scandir(folder) as found:
            inside = sorted(found, key=lambda one: one.name)
        for one in inside:
            path = within + one.name
            status = one.stat(follow_symlinks=False)
            is_folder = stat.S_ISDIR(status.st_mode)
            if one.name == ".git" or ignoring.ignores(f"{path}/" if is_folder else path):
                continue
            yield ArchiveEntry(path, Path(one.path), status)
            if is_folder:
                yield from _walk(Path(one.path), f"{path}/", ignoring.below(Path(one.path), f"{path}/"))
    except OSError as error:
        where = error.filename or folder
        raise PackingError(f"{where} cannot be packed: {error.strerror}; exclude it with .skyignore") from None


class _Ignoring(NamedTuple):
    """What ignore files say, from the outermost to the innermost; the innermost that says anything is right."""

    files: tuple[tuple[str, Any], ...]
    """The directory in the archive that a file of rules is in, and the rules."""

    name: str
    """Of the files that are looked for further inside; empty if only the outermost counts."""

    @classmethod
    def at(cls, root: Path) -> Self:
        if (root / ".skyignore").is_file():
            return cls((("", _rules(root / ".skyignore")),), "")
        return cls((), ".gitignore").below(root, "")

    def below(self, folder: Path, path: str) -> Self:
        """The same, with what a directory inside says itself."""
        file = folder / self.name
        try:
            if not self.name or not file.is_file():
                return self
        except PermissionError:  # of the directory: reading it reports this
            return self
        return self._replace(files=(*self.files, (path, _rules(file))))

    def ignores(self, path: str) -> bool:
        for base, rules in reversed(self.files):
            said = rules.check_file(path.removeprefix(base)).include
            if said is not None:
                return bool(said)
        return False


def _rules(file: Path) -> Any:
    from pathspec import GitIgnoreSpec  # noqa: PLC0415 - most directories have no such file

    try:
        return GitIgnoreSpec.from_lines(file.read_text(errors="surrogateescape").splitlines())
    except (OSError, ValueError) as error:
        raise PackingError(f"{file} cannot be used: {error}") from None
