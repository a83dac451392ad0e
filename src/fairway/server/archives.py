"""Archives: the files that people send along with their jobs, each under the SHA-256 of its bytes.

    PUT  …/namespaces/NS/archives/SHA256    send one, as application/gzip
    HEAD …/namespaces/NS/archives/SHA256    is it here already?

They are kept as `archives/<namespace>/<sha256>.tar.gz` in the state directory, for their owner alone. A body goes to a
file of another name first, and gets its own when every byte is on the disk and the digest is right: what is there under
a digest is complete, even with concurrent uploads. A failed upload leaves nothing.

To send one, or to ask for one that is here, counts as a use: for an hour from then it stays even if no job refers to
it. When archives go is not decided here.
"""

import asyncio
import errno
import hashlib
import os
import re
import shutil
import time
from itertools import count
from pathlib import Path
from typing import Final

from fairway.apis.machinery.kind import Manifest
from fairway.errors import (
    BadRequest,
    Invalid,
    MethodNotAllowed,
    NoRoom,
    NotFound,
    TooLarge,
    TooManyRequests,
    Unavailable,
    UnsupportedMediaType,
)
from fairway.server.limits import Limits
from fairway.server.requests import Request
from fairway.server.responses import Response, ok
from fairway.server.routes import ResourcePath
from fairway.server.threads import in_thread
from fairway.store.verbs import Objects

CONTENT_TYPE: Final = "application/gzip"
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_UNFINISHED: Final = ".part"
_WRITTEN_AT_ONCE: Final = 1 << 20
_VERBS: Final = {"PUT": "create", "HEAD": "get"}
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


class Archives:
    """The archives of one state directory. Created before the first upload: unfinished uploads are removed then."""

    def __init__(self, objects: Objects, state: Path, limits: Limits) -> None:
        self._objects = objects
        self._state = state
        self._directory = state / "archives"
        self._limits = limits
        self._numbers = count()
        self._uploads: set[asyncio.Task[object]] = set()
        self._closing = False
        for left in self._directory.glob(f"*/.*{_UNFINISHED}"):
            left.unlink()

    def verb(self, request: Request, where: ResourcePath) -> str:
        if not where.namespace or not where.name or where.subresource:
            raise NotFound("not found: archives are at namespaces/NS/archives/SHA256")
        verb = _VERBS.get(request.method)
        if verb is None:
            raise MethodNotAllowed(f"archives support PUT and HEAD, not {request.method}")
        return verb

    async def answer(self, request: Request, where: ResourcePath) -> Response:
        if not _DIGEST.fullmatch(where.name):
            raise BadRequest(
                f"archives {where.name[:80]!r}: the name of an archive is the SHA-256 of its bytes: 64 lower-case "
                "hex digits"
            )
        if self._objects.store.head("namespaces", ("", where.namespace)) is None:
            raise NotFound(f'namespaces "{where.namespace}" not found', details={"name": where.namespace})
        path = self._directory / where.namespace / f"{where.name}.tar.gz"
        size = self._use(path)
        if size is not None:
            return ok(_described(where, size))
        if request.method == "HEAD":
            details: dict[str, object] = {"name": where.name, "group": where.group, "kind": where.resource}
            raise NotFound(f'archives "{where.name}" not found', details=details)
        return ok(_described(where, await self._received(request, path, where.name)), 201)

    def close(self) -> None:
        """Abort the uploads in progress; clients must repeat them."""
        self._closing = True
        for task in self._uploads:
            task.cancel()

    def _use(self, path: Path) -> int | None:
        """The size of an archive, which counts as used now; `None` if it is not here."""
        now = self._objects.now().timestamp()
        try:
            os.utime(path, (now, now))
            return path.stat().st_size
        except FileNotFoundError:
            return None

    async def _received(self, request: Request, path: Path, digest: str) -> int:
        """Take in an archive; its size."""
        if request.content_type != CONTENT_TYPE:
            raise UnsupportedMediaType(
                f"the content type of an archive is {CONTENT_TYPE}, not {request.content_type[:80]!r}"
            )
        if len(self._uploads) >= self._limits.uploads:
            raise TooManyRequests(f"{self._limits.uploads} archives are being uploaded; try again in a second")
        length = request.headers.get(b"content-length", b"")
        self._check_room(int(length[:20]) if length.isdigit() else 0, 0)
        task = asyncio.current_task()
        if task is not None:
            self._uploads.add(task)
        try:
            return await self._written(request, path, digest)
        except asyncio.CancelledError:
            if not self._closing or task is None:
                raise
            task.uncancel()
            raise Unavailable("the server is shutting down; upload the archive again after its restart") from None
        except OSError as error:
            if error.errno in _FULL:
                raise NoRoom("the server's disk is full; the archive was not stored") from error
            raise
        finally:
            if task is not None:
                self._uploads.discard(task)

    async def _written(self, request: Request, path: Path, digest: str) -> int:
        upload = _Upload(path.with_name(f".{path.name}.{next(self._numbers)}{_UNFINISHED}"))
        try:
            waiting = bytearray()
            began = time.monotonic()
            async for piece in request.exchange.pieces(self._limits.upload_idle_seconds):
                waiting += piece
                self._check_room(len(waiting), upload.size)
                self._check_speed(len(waiting) + upload.size, time.monotonic() - began)
                if len(waiting) >= _WRITTEN_AT_ONCE:
                    await in_thread(upload.write, waiting)
                    waiting = bytearray()
            await in_thread(upload.write, waiting)
            if upload.digest() != digest:
                raise Invalid(
                    f"what arrived is not the archive: {upload.size} bytes with the SHA-256 {upload.digest()} and not "
                    f"{digest}; nothing was kept, send it again"
                )
            await in_thread(upload.finish, path)
            self._use(path)
            return upload.size
        finally:
            upload.close()

    def _check_room(self, more: int, already: int) -> None:
        """Refuse what is too large or leaves too little room, when so much more is to be written."""
        limits = self._limits
        if already + more > limits.archive_bytes:
            raise TooLarge(
                f"the archive is larger than the limit of {limits.archive_bytes} bytes; exclude files that the "
                "job does not need, or let the job download large files"
            )
        free = shutil.disk_usage(self._state).free
        if free - more < limits.spare_bytes:
            raise NoRoom(
                f"there is no room for the archive: the server's disk has {free} bytes left, of which it keeps "
                f"{limits.spare_bytes} for itself. Delete ended jobs, or make room on the disk"
            )

    def _check_speed(self, size: int, seconds: float) -> None:
        limits = self._limits
        if size < (seconds - limits.upload_idle_seconds) * limits.upload_slowest:
            raise BadRequest(
                f"the archive comes too slowly: {size} bytes in {seconds:.0f} seconds, and others wait; send it again, "
                f"with at least {limits.upload_slowest} bytes a second"
            )


class _Upload:
    """One body on its way to the disk; what takes long is for a thread, one step after the other."""

    def __init__(self, path: Path) -> None:
        self._path = path
        for directory in (path.parent.parent, path.parent):
            directory.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(path, flags, 0o600)
        self._hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytearray) -> None:
        self._hash.update(data)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._file, rest) :]
        self.size += len(data)

    def digest(self) -> str:
        return self._hash.hexdigest()

    def finish(self, path: Path) -> None:
        """Every byte on the disk, then the name that others look for."""
        os.fsync(self._file)
        self._path.rename(path)
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def close(self) -> None:
        """Whatever is not finished is gone."""
        os.close(self._file)
        self._path.unlink(missing_ok=True)


def _described(where: ResourcePath, size: int) -> Manifest:
    return {
        "apiVersion": f"{where.group}/{where.version}",
        "kind": "Archive",
        "metadata": {"name": where.name, "namespace": where.namespace},
        "status": {"bytes": size},
    }
