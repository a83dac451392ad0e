"""Where the runner keeps the files of pods in the state directory, and how they go again.

work/<uid>              what a container without a `workingDir` starts in
pods/<uid>/volumes/…    its volumes
pods/<uid>/devices.json the GPUs it was given
logs/<namespace>/<uid>  what its containers wrote (see docs/logs.md)
"""

import asyncio
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

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

    def made_work(self, uid: str) -> Path:
        """The working directory of a pod, made if it is not there."""
        work = f"{self._work}/{uid}"
        with suppress(FileExistsError):
            os.mkdir(work, 0o700)  # noqa: PTH102 - for every pod, and several times faster than a Path's
        return Path(work)

    def volumes(self, uid: str) -> Path:
        return self._pods / uid / "volumes"

    def log(self, namespace: str, uid: str, container: str, number: int) -> str:
        """The log of one attempt, as docs/logs.md says it; the supervisor makes its directory."""
        return f"{self._logs}/{namespace}/{uid}/{container}/{number}.log"

    def uids(self) -> set[str]:
        """The pods that have left files here."""
        found = {path.name for directory in (self._work, self._pods) for path in directory.iterdir()}
        found.update(
            path.name for namespace in self._logs.iterdir() if namespace.is_dir() for path in namespace.iterdir()
        )
        return found

    def remove_volumes(self, uid: str) -> None:
        """What a pod that has ended needs no more: there can be secrets among it."""
        self._remove(self.volumes(uid))

    def remove(self, uid: str, namespace: str = "") -> None:
        """Everything of a pod that is gone."""
        self._remove(self._work / uid)
        self._remove(self.pod(uid))
        for directory in [self._logs / namespace] if namespace else self._namespaces():
            self._remove(directory / uid)

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


def _remove_all(directories: list[Path]) -> None:
    for directory in directories:
        try:
            shutil.rmtree(directory)
        except FileNotFoundError:
            continue
        except OSError as error:
            _log.warning("%s of a pod that is gone cannot be removed: %s", directory, error)
