"""Files of managed jobs on this machine, and their removal.

logs/<namespace>/<pod uid>             of pods that are gone, with a mark that names the job (see `directories`)
work/<pod uid>                         their working directories: the job's results
checkpoints/<job uid>                  what its attempts hand on to each other, and where they wait for each other
archives/<namespace>/<digest>.tar.gz   files that were sent along with jobs, each for as many as refer to it

Results go before the job does when they are too old, too many or too large in all: see `results`.
Logs and checkpoints go when neither the job nor any of its pods is there any more. An archive goes when no job refers
to it and its last PUT or HEAD is more than an hour ago: a launch first asks whether
its archive is here, and may rely on the answer for so long.

Everything is found by looking at the disk and at what there is, so it does not matter what was missed while no server
ran. What cannot be removed is logged once and retried.
"""

import asyncio
import logging
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster
from fairway.runner.directories import KEPT, managed_job_of
from fairway.runner.results import Kept, Retention, measure, retire

GRACE_SECONDS: Final = 3600.0
"""How long an archive that no job refers to stays after it was last sent or asked for."""

_EVERY_SECONDS: Final = 600.0
_AGAIN_SECONDS: Final = 60.0
"""After what time something that could not be removed is tried again."""

_SETTLE_SECONDS: Final = 1.0
"""How long to wait when a job has gone: often more of them do."""

_ARCHIVE: Final = re.compile(r"([0-9a-f]{64})\.tar\.gz")
_LEAVING: Final = ".leaving"
_log = logging.getLogger(__name__)


class _Archive(NamedTuple):
    path: Path
    namespace: str
    digest: str
    used_at: float


class _Found(NamedTuple):
    """What is on the disk."""

    owned: list[tuple[tuple[Path, ...], str]]
    """Directories that go together, in this order, and the UIDs of the jobs that they belong to."""

    results: list[Kept]
    archives: list[_Archive]


class JobFiles:
    """Removes the files of managed jobs that are gone."""

    def __init__(self, cluster: Cluster, state: Path, retention: Retention = Retention()) -> None:  # noqa: B008
        self._cluster = cluster
        self._clock = cluster.clock
        self._jobs = cluster.cache("managedjobs.fairway.dev")
        self._pods = cluster.cache("pods")
        state = state.absolute()
        self._logs, self._checkpoints, self._archives = (state / name for name in ("logs", "checkpoints", "archives"))
        self._work = state / "work"
        self._retention = retention
        self._news = asyncio.Event()
        self._warned: set[Path] = set()
        """What could not be removed, and was complained about."""

        self._jobs.on_change(self._on_job)
        self._pods.on_change(self._on_pod)

    async def run(self) -> None:
        """Tidy up until cancelled."""
        await self._cluster.synced()
        while True:
            self._news.clear()
            all_well = await self._tidied_up()
            await self._next_time(_EVERY_SECONDS if all_well else _AGAIN_SECONDS)

    def _on_job(self, _old: Manifest | None, new: Manifest | None) -> None:
        if new is None:
            self._news.set()

    def _on_pod(self, old: Manifest | None, new: Manifest | None) -> None:
        """The last pod of a job that is gone; what a pod of one that is there leaves stays anyway."""
        if new is None and old is not None and (owner := managed_job_of(old)) and not self._has_job(old, owner):
            self._news.set()

    def _has_job(self, pod: Manifest, uid: str) -> bool:
        metadata = pod["metadata"]
        names = [one["name"] for one in metadata["ownerReferences"] if one["uid"] == uid]
        job = self._jobs.get(metadata["namespace"], names[0])
        return job is not None and bool(job["metadata"]["uid"] == uid)

    async def _next_time(self, seconds: float) -> None:
        timer = self._clock.call_later(seconds, self._news.set)
        try:
            await self._news.wait()
        finally:
            timer.cancel()
        await self._clock.sleep(_SETTLE_SECONDS)

    async def _tidied_up(self) -> bool:
        """Remove obsolete files; returns whether all were removed."""
        try:
            found = await asyncio.to_thread(_found, self._logs, self._work, self._checkpoints, self._archives)
        except OSError as error:
            self._complain(Path(str(error.filename)), error)
            return False
        # Asked after the look at the disk: what is on it of a job that is there was made after the job was.
        there = self._owners()
        gone = [paths for paths, owner in found.owned if owner not in there]
        failed = await asyncio.to_thread(_together, gone)
        failed += await self._retire_results([one for one in found.results if one.owner in there])
        latest = self._clock.now().timestamp() - GRACE_SECONDS
        used = self._used_archives() if found.archives else set()
        idle = [one.path for one in found.archives if (one.namespace, one.digest) not in used and one.used_at < latest]
        failed += await asyncio.to_thread(_each, lambda path: _retire(path, latest), idle)
        self._warned &= {path for path, _ in failed}
        for path, reason in failed:
            self._complain(path, reason)
        return not failed

    async def _retire_results(self, kept: list[Kept]) -> list[tuple[Path, Exception]]:
        """Remove results beyond the limits; those of pods that are still there are left alone."""
        running = {pod["metadata"]["uid"] for pod in self._pods.items()}
        now = self._clock.now().timestamp()
        measured = await asyncio.to_thread(measure, [one for one in kept if one.uid not in running], now)
        failed: list[tuple[Path, Exception]] = []
        for one, why in self._retention.exceeding(measured, now):
            failed += await asyncio.to_thread(_each, lambda path: retire(path, one, why, _remove), [one.work])  # noqa: B023
        return failed

    def _owners(self) -> set[str]:
        """The jobs that are there, and those that are not but still have pods."""
        found = {job["metadata"]["uid"] for job in self._jobs.items()}
        found.update(owner for pod in self._pods.items() if (owner := managed_job_of(pod)))
        return found

    def _used_archives(self) -> set[tuple[str, str]]:
        return {(job["metadata"]["namespace"], digest) for job in self._jobs.items() for digest in _archives_of(job)}

    def _complain(self, path: Path, error: Exception) -> None:
        if path not in self._warned:
            self._warned.add(path)
            _log.warning("cannot remove %s of a deleted job: %s; retrying", path, error)


def _archives_of(job: Manifest) -> Iterator[str]:
    """What a job refers to; tasks may hold anything, and what is no archive is passed over."""
    for task in (job.get("spec") or {}).get("tasks") or ():
        files = task.get("files")
        for one in files if isinstance(files, list) else ():
            if isinstance(one, dict) and isinstance(one.get("archive"), str):
                yield one["archive"]


# On the disk; for a thread


def _found(logs: Path, work: Path, checkpoints: Path, archives: Path) -> _Found:
    owned: list[tuple[tuple[Path, ...], str]] = [((one,), one.name) for one in _entries(checkpoints)]
    results = []
    for namespace in _entries(logs, directories=True):
        for directory in _entries(namespace, directories=True):
            try:
                owner, _, part = (directory / KEPT).read_text(errors="replace").partition("\n")
            except FileNotFoundError:
                continue
            place = work / directory.name
            owned.append(((place, directory), owner.strip()))
            if place.is_dir():
                results.append(Kept(place, directory, owner.strip(), part.strip()))
    stored = []
    for namespace in _entries(archives, directories=True):
        for path in _entries(namespace):
            name = _ARCHIVE.fullmatch(path.name)
            if name is not None:
                stored.append(_Archive(path, namespace.name, name[1], path.lstat().st_mtime))
            elif path.name.endswith(_LEAVING):
                path.unlink()
    return _Found(owned, results, stored)


def _entries(directory: Path, *, directories: bool = False) -> list[Path]:
    """What is in a directory; only real directories if these are asked for, since links may lead anywhere."""
    try:
        with os.scandir(directory) as entries:
            return [Path(entry.path) for entry in entries if not directories or entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def _each(remove: Callable[[Path], None], paths: Iterable[Path]) -> list[tuple[Path, Exception]]:
    """Remove all of these; those that could not be, and why."""
    failed: list[tuple[Path, Exception]] = []
    for path in paths:
        try:
            remove(path)
        except FileNotFoundError:
            continue
        except (OSError, RecursionError) as error:  # directories may be nested as deep as a job likes
            failed.append((path, error))
    return failed


def _together(gone: Iterable[tuple[Path, ...]]) -> list[tuple[Path, Exception]]:
    """Remove directories, each only if the one before it is gone: the last one says whose they are."""
    failed: list[tuple[Path, Exception]] = []
    for paths in gone:
        for path in paths:
            if wrong := _each(_remove, [path]):
                failed += wrong
                break
    return failed


def _remove(path: Path) -> None:
    """A directory with all that is in it; of a link, the link."""
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return
    try:
        shutil.rmtree(path)
    except PermissionError:  # jobs may take rights away from their directories, and need not give them back
        _open_up(path)
        shutil.rmtree(path)


def _open_up(directory: Path) -> None:
    directory.chmod(0o700)
    for inner in _entries(directory, directories=True):
        _open_up(inner)


def _retire(path: Path, latest: float) -> None:
    """An archive that was not used since then. It is renamed first, so that a HEAD now answers 404."""
    leaving = path.with_name(f".{path.name}{_LEAVING}")
    path.rename(leaving)
    if leaving.lstat().st_mtime >= latest:
        leaving.rename(path)
    else:
        leaving.unlink()
