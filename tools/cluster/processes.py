"""Programs that run in the background and end with the process that started them, even if it is killed."""

import contextlib
import subprocess
from pathlib import Path
from typing import Self

from tools.cluster.places import ClusterError

_PATIENCE = 10.0
"""Seconds between SIGTERM and SIGKILL."""

_TAIL = 2000


class Daemons:
    """Background programs by name, each with a log. A context manager: all have ended when it is left."""

    def __init__(self, logs: Path) -> None:
        logs.mkdir(parents=True, exist_ok=True)
        self._logs = logs
        self._commands: dict[str, list[str]] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in reversed(list(self._running)):
            self.stop(name)

    def start(self, name: str, command: list[str] | None = None) -> int:
        """Start a program, or one that was stopped again; its process id."""
        command = self._commands.setdefault(name, command or [])
        # The kernel kills the program when this process ends, in whatever way.
        guarded = ["setpriv", "--pdeathsig", "KILL", "--", *command]
        with self.log(name).open("ab") as log:
            process = subprocess.Popen(  # noqa: S603 - our own command lines
                guarded, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self._running[name] = process
        return process.pid

    def stop(self, name: str, *, kill: bool = False) -> None:
        """End a program: asked first, or at once."""
        process = self._running.pop(name)
        if not kill:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_PATIENCE)
        process.kill()
        process.wait()

    def check(self) -> None:
        """An error with the end of its log if one ended by itself."""
        for name, process in self._running.items():
            if process.poll() is not None:
                raise ClusterError(
                    f"{name} ended with code {process.returncode}; {self.log(name)} ends with:\n{self._tail(name)}"
                )

    def log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def _tail(self, name: str) -> str:
        return self.log(name).read_text(errors="replace")[-_TAIL:]
