"""The files of a task on their way to the server: each packed once, and uploaded only if the server has not got it."""

from collections.abc import Sequence
from pathlib import PurePosixPath
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO, Final, Self, cast

from fairway.cli.launching import LaunchRequest, source_of
from fairway.cli.meter import Meter
from fairway.cli.session import Session, print_note
from fairway.client.rest import AnswerLost, paths

if TYPE_CHECKING:
    from fairway.cli.packing import Archive
    from fairway.client.clusterlaunch import ClusterLaunch
    from fairway.managedjobs.tasks.files import Mount
    from fairway.managedjobs.tasks.task import Files

Manifest = dict[str, Any]

_SHOWN: Final = 3
_TRIES: Final = 3


class Packages:
    """The files of a launch, packed; to be closed."""

    def __init__(self) -> None:
        self.files: list[list[Files]] = []
        """Of each task, as the task finds them."""

        self._archives: dict[str, tuple[str, Archive]] = {}
        """By digest, with what they were packed from."""

    def add(self, source: str, archive: "Archive") -> None:
        if archive.digest in self._archives:
            archive.close()
        else:
            self._archives[archive.digest] = (source, archive)

    def upload(self, session: Session) -> None:
        """Have them all at the server."""
        for source, archive in self._archives.values():
            _upload(session, source, archive)

    def store(self, launch: "ClusterLaunch", jobs: list[Manifest]) -> list[Manifest]:
        """Have them all on a cluster; the jobs with the volumes that hold their files."""
        from fairway.client.uploading import ArchiveFile  # noqa: PLC0415 - only for clusters
        from fairway.managedjobs.clustervolume import plan_for, with_claims  # noqa: PLC0415

        claims: dict[str, str] = {}
        for source, archive in self._archives.values():
            plan = plan_for(jobs, archive.digest)
            file = ArchiveFile(source, archive.digest, archive.size, archive.file)
            with Meter(f"Uploading {source}", archive.size) as meter:
                claims[archive.digest] = launch.add_archive(file, plan, meter.show_bytes, print_note)
            if claims[archive.digest] and plan.several and not plan.is_shared:
                print_note(
                    f"warning: the files of {source} are in a {plan.access_mode} volume: pods on other nodes than the "
                    "first wait until it is free. access_mode: ReadWriteMany in kubernetes.files is for several nodes."
                )
        return [with_claims(job, claims) for job in jobs]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for _, archive in self._archives.values():
            archive.close()


def packed(wanted: LaunchRequest) -> Packages:
    """The files of all tasks, packed; nothing is sent yet."""
    packages = Packages()
    known: dict[tuple[str, str], Files] = {}
    for task in wanted.parsed.tasks:
        for mount in task.mounts:
            if (mount.source, mount.path) not in known:
                known[mount.source, mount.path] = _pack(packages, mount)
        packages.files.append([known[mount.source, mount.path] for mount in task.mounts])
    return packages


def _pack(packages: Packages, mount: "Mount") -> "Files":
    """Archives are unpacked into a directory, so a single file is packed by the name that it has there."""
    from fairway.cli.packing import pack  # noqa: PLC0415 - not every task has files
    from fairway.managedjobs.tasks.task import Files  # noqa: PLC0415

    source = source_of(mount)
    where = PurePosixPath(mount.path)
    is_file = not source.is_dir()
    with Meter(f"Packing {mount.source}") as meter:
        archive = pack(source, name=where.name if is_file else "", progress=meter.show, notice=_print_large)
    packages.add(mount.source, archive)
    if archive.skipped:
        _print_skipped(mount.source, archive.skipped)
    return Files(archive=archive.digest, path=str(where.parent if is_file else where), size=archive.size)


def _upload(session: Session, name: str, archive: "Archive") -> None:
    path = paths.archive(session.namespace, archive.digest)
    if session.rest.exists(path):
        return
    start = archive.file.tell()
    for tries_left in reversed(range(_TRIES)):
        try:
            with Meter(f"Uploading {name}", archive.size) as meter:
                file = cast("BinaryIO", _Read(archive.file, meter))
                session.rest.upload(path, file, archive.size, "application/gzip")
        except AnswerLost:  # sending the same content again changes nothing
            if not tries_left:
                raise
            print_note(f"The connection broke while uploading {name}; retrying ...")
            archive.file.seek(start)
        else:
            return


def _print_large(what: str) -> None:
    print_note(f"Copying {what}. Exclude files with .skyignore, or use --in-place.")


def _print_skipped(source: str, skipped: Sequence[str]) -> None:
    more = f" and {len(skipped) - _SHOWN} more" if len(skipped) > _SHOWN else ""
    print_note(
        f"Skipped in {source}: {', '.join(skipped[:_SHOWN])}{more} (sockets, pipes and devices are not uploaded)."
    )


class _Read:
    """A file that tells how far it was read."""

    def __init__(self, file: BinaryIO, meter: Meter) -> None:
        self._file = file
        self._meter = meter

    def read(self, size: int = -1) -> bytes:
        piece = self._file.read(size)
        self._meter.show(0, self._file.tell())
        return piece

    def seek(self, position: int) -> int:
        return self._file.seek(position)

    def tell(self) -> int:
        return self._file.tell()
