"""Backups of a state directory: one tar file with everything a server needs, and a manifest of digests at its end.

    fairway.db      a snapshot of the database, consistent whether or not a server writes to it
    …               every other file of the state directory, except what belongs to running processes
    MANIFEST.json   the SHA-256 of every file above; a backup without it is not complete

The database is checked before it is taken: SQLite's own check, and every row is decoded. The tar file is read again
when it is complete and compared with the digests, and only then gets its name.
"""

import hashlib
import io
import os
import stat
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final, cast

import msgspec

from fairway.errors import FairwayError
from fairway.store.sqlite import back_up, check

FORMAT: Final = 1
MANIFEST: Final = "MANIFEST.json"
DATABASE: Final = "fairway.db"
LOGS: Final = "logs"
RESULTS: Final = "work"
_OF_PROCESSES: Final = frozenset(
    {"lock", "starting", "users.lock", "users.new", "supervisor", "supervisor.log", "pods"}
)
_LOGS_OF_SERVERS: Final = ("server.log",)
_PIECE: Final = 1 << 20


class BackupError(FairwayError):
    """A backup that cannot be made or read; the message says what is wrong with it."""


class Manifest(msgspec.Struct, frozen=True):
    """What a backup says about itself."""

    format: int
    version: str
    """Of Fairway."""

    made: str
    logs: bool
    digests: dict[str, str]
    """SHA-256 by path; symbolic links are not in it."""


class Content(msgspec.Struct):
    """What a backup took."""

    files: int = 0
    bytes: int = 0
    changing: list[str] = []
    """Files that something wrote to while they were read: they are as of some moment in between."""

    left_out: list[str] = []
    """Sockets, pipes and devices."""


def write_backup(
    state: Path, target: Path, about: Manifest, *, results: bool, progress: Callable[[str, int], None]
) -> Content:
    """Copy a state directory to a new file; `progress` hears each path with the bytes taken so far."""
    if target.exists():
        raise BackupError(f"{target} exists already; choose another name, or remove it first")
    content = Content()
    partial = target.with_name(f".{target.name}.part")
    with (
        _removed_on_failure(partial, target) as file,
        tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        digests: dict[str, str] = {}
        with tempfile.TemporaryDirectory(prefix=".fairway-backup-", dir=target.parent) as scratch:
            snapshot = Path(scratch) / DATABASE
            back_up(state / DATABASE, snapshot)
            check(snapshot)
            _add(tar, snapshot, DATABASE, digests, content)
            progress(DATABASE, content.bytes)
        for path in _wanted(state, logs=about.logs, results=results):
            name = str(path.relative_to(state))
            _add(tar, path, name, digests, content)
            progress(name, content.bytes)
        data = msgspec.json.encode(msgspec.structs.replace(about, digests=digests))
        info = tarfile.TarInfo(MANIFEST)
        info.size, info.mode = len(data), 0o600
        tar.addfile(info, io.BytesIO(data))
    return content


def read_manifest(source: Path) -> Manifest:
    """Check that a backup is complete and as it was written, and return what it says of itself."""
    digests: dict[str, str] = {}
    manifest = None
    with _opened(source) as tar:
        for info in tar:
            member = tar.extractfile(info) if info.isreg() else None
            if info.name == MANIFEST and member is not None:
                manifest = _decoded(source, member.read())
            elif member is not None:
                digests[info.name] = _digest(member)
    if manifest is None:
        raise BackupError(f"{source} is not a complete backup: {MANIFEST} is missing at its end")
    wrong = [name for name in {*digests, *manifest.digests} if digests.get(name) != manifest.digests.get(name)]
    if wrong:
        raise BackupError(f"{source} is damaged: wrong digest of {', '.join(sorted(wrong)[:5])}")
    return manifest


def unpack(source: Path, directory: Path) -> None:
    """Put the files of a backup that was checked into a directory, for the user of this process alone."""

    def ours(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
        safe = tarfile.tar_filter(member, path)
        return safe.replace(uid=os.geteuid(), gid=os.getegid(), uname="", gname="", mode=safe.mode, deep=False)

    try:
        with tarfile.open(source) as tar:
            for member in tar:
                if member.name != MANIFEST:
                    tar.extract(member, directory, filter=ours)
        check(directory / DATABASE)
    except (tarfile.TarError, OSError) as error:
        raise BackupError(f"{source} cannot be unpacked to {directory}: {error}") from error


def _wanted(state: Path, *, logs: bool, results: bool) -> Iterator[Path]:
    """The files and links that go into a backup, besides the database."""
    for entry in sorted(state.iterdir()):
        name = entry.name
        if name in _OF_PROCESSES or name.startswith((DATABASE, ".")) or (name in _LOGS_OF_SERVERS and not logs):
            continue
        if name == RESULTS and not results:
            continue
        if entry.is_symlink() or not entry.is_dir():
            yield entry
            continue
        yield entry
        for folder, folders, files in os.walk(entry):
            folders.sort()
            here = Path(folder)
            yield from (here / one for one in folders)
            # The marks beside logs (".kept") say whose they are: they are small, and others rely on them.
            yield from (here / one for one in sorted(files) if logs or name != LOGS or one.startswith("."))


def _add(tar: tarfile.TarFile, path: Path, name: str, digests: dict[str, str], content: Content) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return  # removed meanwhile, with the job that it belonged to
    if stat.S_ISREG(found.st_mode):
        _add_file(tar, path, name, digests, content)
    elif stat.S_ISDIR(found.st_mode) or stat.S_ISLNK(found.st_mode):
        tar.add(path, name, recursive=False)
    else:
        content.left_out.append(name)


def _add_file(tar: tarfile.TarFile, path: Path, name: str, digests: dict[str, str], content: Content) -> None:
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        info = tar.gettarinfo(arcname=name, fileobj=file)
        info.type, info.linkname = tarfile.REGTYPE, ""  # a hard link is a file of its own
        info.size = os.fstat(file.fileno()).st_size
        reader = _Reader(file, info.size)
        tar.addfile(info, cast("IO[bytes]", reader))
        after = os.fstat(file.fileno())
    if (after.st_size, after.st_mtime) != (info.size, info.mtime):
        content.changing.append(name)
    digests[name] = reader.digest.hexdigest()
    content.files += 1
    content.bytes += info.size


class _Reader:
    """As many bytes of a file as it had at first: one that has become shorter is filled with zeros."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._left = size
        self.digest = hashlib.sha256()

    def read(self, size: int) -> bytes:
        wanted = min(size, self._left)
        piece = self._file.read(wanted)
        piece += b"\0" * (wanted - len(piece))
        self._left -= len(piece)
        self.digest.update(piece)
        return piece


def _digest(member: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while piece := member.read(_PIECE):
        digest.update(piece)
    return digest.hexdigest()


@contextmanager
def _opened(source: Path) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(source) as tar:
            yield tar
    except (tarfile.TarError, EOFError) as error:
        raise BackupError(f"{source} is not a complete backup: {error}") from error
    except OSError as error:
        raise BackupError(f"{source} cannot be read: {error.strerror or error}") from error


def _decoded(source: Path, data: bytes) -> Manifest:
    try:
        found = msgspec.json.decode(data, type=Manifest)
    except msgspec.MsgspecError as error:
        raise BackupError(f"{source} is damaged: {MANIFEST}: {error}") from error
    if found.format > FORMAT:
        raise BackupError(
            f"{source} was made by a newer Fairway ({found.version}): its format is {found.format}, this one reads "
            f"up to {FORMAT}"
        )
    return found


@contextmanager
def _removed_on_failure(partial: Path, target: Path) -> Iterator[IO[bytes]]:
    """A file that gets its name when it is complete, on the disk, and reads as it was written."""
    try:
        file = os.fdopen(os.open(partial, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "w+b")
    except OSError as error:
        raise BackupError(f"{target} cannot be written: {error.strerror}") from error
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        read_manifest(partial)
        partial.rename(target)
    except OSError as error:
        raise BackupError(f"the backup to {target} failed, and no file was left: {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)
