"""Directories of pods in the state directory: creation and removal.

work/<uid>              what a container without a `workingDir` starts in
pods/<uid>/volumes/…    its volumes
pods/<uid>/devices.json the GPUs it was given
logs/<namespace>/<uid>  what its containers wrote (see docs/use/logs.md)

What a pod of a managed job wrote stays when the pod is gone, its logs and its working directory, and so does the mark
`.kept` beside the logs, which says whose they are. They go with the job: see `jobfiles`.
"""

import asyncio
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from fairway.apis.machinery.kind import Manifest

KEPT: Final = ".kept"
"""A file in the directory of a pod's logs: these and its working directory stay, for the job whose UID it begins with.
The second line says which part of the job it was: task, rank, attempt. No container has such a name."""

_KEEP_LOGS: Final = "fairway.dev/keep-logs"
_log = logging.getLogger(__name__)


class Directories:
    """The files of all pods. Those of gone pods are removed by a thread, many at a time."""

    def __init__(self, state: Path) -> None:
        state = state.absolute()
        self._work = state / "work"
        self._pods = state / "pods"
        self._logs = state / "logs"
        self._doomed: list[Path] = []
        self._more = asyncio.Event()

    def make(self) -> None:
        """The directories that all others are in, for their owner alone."""
        for directory in (self._work, self._pods, self._logs):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def pod(self, uid: str) -> Path:
        return self._pods / uid

    def work(self, uid: str) -> str:
        """The working directory of a pod; the supervisor makes it before it starts a process there."""
        return f"{self._work}/{uid}"

    def volumes(self, uid: str) -> Path:
        return self._pods / uid / "volumes"

    def log(self, namespace: str, uid: str, container: str, number: int) -> str:
        """The log of one attempt, as docs/use/logs.md says it; the supervisor makes its directory."""
        return f"{self._logs}/{namespace}/{uid}/{container}/{number}.log"

    def keep_logs(self, pod: Manifest) -> None:
        """Note that a pod's logs stay when it is gone, if they do; to be called before anything is written to them."""
        metadata, owner = pod["metadata"], managed_job_of(pod)
        if not owner or (metadata.get("annotations") or {}).get(_KEEP_LOGS) != "true":
            return
        mark = self._logs / metadata["namespace"] / metadata["uid"] / KEPT
        if mark.exists():
            return
        mark.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = mark.with_name(f"{KEPT}.new")
        temporary.touch(mode=0o600)
        labels = metadata.get("labels") or {}
        part = " ".join(labels.get(f"fairway.dev/{name}") or "0" for name in ("task", "rank", "attempt"))
        temporary.write_text(f"{owner}\n{part}\n")
        temporary.replace(mark)

    def uids(self) -> set[str]:
        """The pods that have left files here which do not stay."""
        kept: set[str] = set()
        others: set[str] = set()
        for namespace in self._namespaces():
            for path in namespace.iterdir():
                (kept if _is_kept(path) else others).add(path.name)
        others.update(path.name for path in self._work.iterdir() if path.name not in kept)
        return others | {path.name for path in self._pods.iterdir()}

    def remove_volumes(self, uid: str) -> None:
        """What a pod that has ended needs no more: there can be secrets among it."""
        self._remove(self.volumes(uid))

    def remove(self, uid: str, namespace: str = "") -> None:
        """Everything of a pod that is gone, but for logs and a working directory that stay."""
        self._remove(self.pod(uid))
        logs = [directory / uid for directory in ([self._logs / namespace] if namespace else self._namespaces())]
        if any(map(_is_kept, logs)):
            with suppress(OSError):
                (self._work / uid).rmdir()  # it left nothing
            return
        for directory in (self._work / uid, *logs):
            self._remove(directory)

    @property
    def doomed(self) -> list[Path]:
        """What is to be removed."""
        return list(self._doomed)

    async def run(self) -> None:
        """Remove what is to be removed until cancelled."""
        while True:
            await self._more.wait()
            self._more.clear()
            doomed, self._doomed = self._doomed, []
            await asyncio.to_thread(_remove_all, doomed)

    def _namespaces(self) -> Iterator[Path]:
        return (path for path in self._logs.iterdir() if path.is_dir())

    def _remove(self, directory: Path) -> None:
        self._doomed.append(directory)
        self._more.set()


def _is_kept(logs: Path) -> bool:
    return os.path.exists(f"{logs}/{KEPT}")  # noqa: PTH110 - for every pod that ever ran here


def managed_job_of(pod: Manifest) -> str:
    """The UID of the managed job that a pod belongs to; empty if it belongs to none."""
    for owner in pod["metadata"].get("ownerReferences") or ():
        if owner.get("controller") and owner["kind"] == "ManagedJob" and owner["apiVersion"].startswith("fairway.dev/"):
            return str(owner["uid"])
    return ""


def _remove_all(directories: list[Path]) -> None:
    for directory in directories:
        try:
            shutil.rmtree(directory)
        except FileNotFoundError:
            continue
        except (OSError, RecursionError) as error:  # directories may be nested as deep as a job likes
            _log.warning("cannot remove %s of a deleted pod: %s", directory, error)
