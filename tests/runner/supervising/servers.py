"""Servers for tests: the real client, a real supervisor, and waiting for what is told, never for a time."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from fairway.runner.processes import Ended, Process, ProcessLimits, ProcessSpec
from fairway.runner.supervising import proc
from fairway.runner.supervising.places import SupervisorSettings
from fairway.runner.supervision import LocalSupervision
from fairway.runtime.clock import SystemClock
from fairway.runtime.lease import holder
from fairway.server.logs.entries import Lines

SECONDS = 30.0
T = TypeVar("T")


class Server:
    """A server, as far as it talks to the supervisor."""

    def __init__(self, directory: Path, settings: SupervisorSettings | None = None) -> None:
        self.directory = directory
        self.supervision = LocalSupervision(directory, SystemClock(), settings)
        self.told: list[Process] = []
        self._changed = asyncio.Event()
        self.supervision.on_change(self._on_change)

    def _on_change(self, process: Process) -> None:
        self.told.append(process)
        self._changed.set()

    @property
    def processes(self) -> Mapping[str, Process]:
        return self.supervision.processes

    def log(self, process_id: str) -> Path:
        return self.directory / "logs" / f"{process_id.replace('/', '-')}.log"

    def shown(self, process_id: str) -> str:
        """The log as a person sees it."""
        lines = Lines()
        return (lines.feed(self.log(process_id).read_bytes()) + lines.finish()).decode(errors="replace")

    def launch(
        self,
        process_id: str,
        *argv: str,
        env: Mapping[str, str] | None = None,
        cwd: str = "/",
        limits: ProcessLimits | None = None,
        home: str = "",
        hosts: str = "",
    ) -> ProcessSpec:
        return ProcessSpec(
            id=process_id,
            argv=argv,
            env={"PATH": os.environ["PATH"], **(env or {})},
            cwd=cwd,
            log=str(self.log(process_id)),
            limits=limits or ProcessLimits(),
            home=home,
            hosts=hosts,
        )

    async def start(self, process_id: str, *argv: str, **how: Any) -> Process:
        await self.supervision.start(self.launch(process_id, *argv, **how))
        return self.processes[process_id]

    async def run(self, process_id: str, *argv: str, **how: Any) -> Ended:
        await self.start(process_id, *argv, **how)
        return await self.ended(process_id)

    async def shell(self, process_id: str, script: str, **how: Any) -> Process:
        return await self.start(process_id, "sh", "-c", script, **how)

    async def stop(self, process_id: str, grace_seconds: float = 0.0) -> Ended:
        await self.supervision.stop(process_id, grace_seconds)
        return await self.ended(process_id)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for news until this holds."""
        async with asyncio.timeout(SECONDS):
            while not holds():
                self._changed.clear()
                await self._changed.wait()

    async def ended(self, process_id: str) -> Ended:
        await self.until(lambda: self.processes[process_id].ended is not None)
        ended = self.processes[process_id].ended
        assert ended is not None
        return ended

    async def says(self, process_id: str, text: str) -> str:
        """Its log, once this text is in it."""
        await eventually_so(lambda: self.log(process_id).exists() and text in self.shown(process_id))
        return self.shown(process_id)


@asynccontextmanager
async def connected(directory: Path, settings: SupervisorSettings | None = None) -> AsyncIterator[Server]:
    server = Server(directory, settings)
    await server.supervision.connect()
    try:
        yield server
    finally:
        await server.supervision.close()


def play(scene: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(SECONDS * 2):
            return await scene

    return asyncio.run(bounded())


def hiding_daemon(ready: Path) -> str:
    """A script that starts a daemon without a mark in a session of its own, and ends when the daemon is there."""
    daemon = f"echo $$; : > {ready}; exec sleep 600"
    return f"(env -i setsid sh -c '{daemon}' &); until [ -e {ready} ]; do sleep 0.01; done"


def supervisor_of(directory: Path) -> int | None:
    folder = directory / "supervisor"
    return holder(folder) if folder.is_dir() else None


def kill(pid: int) -> None:
    """SIGKILL, and wait until it is gone."""
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: is_gone(pid))


def is_gone(pid: int) -> bool:
    stat = proc.read_stat(pid)
    return stat is None or stat.is_gone


def eventually(holds: Callable[[], bool]) -> None:
    """For what no one tells: the state of other people's processes."""
    until = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < until, "it did not come about"
        time.sleep(0.005)


async def eventually_so(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not holds():  # noqa: ASYNC110 - what others do raises no event here
            await asyncio.sleep(0.005)


def end_supervisor(directory: Path) -> None:
    """Let the supervisor end everything and then itself."""
    pid = supervisor_of(directory)
    if pid is not None:
        play(_shut_down(directory))
        eventually(lambda: is_gone(pid))


async def _shut_down(directory: Path) -> None:
    supervision = LocalSupervision(directory, SystemClock())
    await supervision.connect()
    await supervision.shutdown()


def living(directory: Path) -> list[int]:
    """The processes of a state directory that are there, whoever started them."""
    journal = directory / "supervisor" / "journal"
    if not journal.exists():
        return []
    token = json.loads(journal.read_bytes().split(b"\n")[0])["token"]
    found = []
    for pid in proc.all_pids():
        marks = proc.marks_of(pid)
        if marks is not None and marks[0].startswith(token):
            found.append(pid)
    return found


def files_of(pid: int) -> int:
    """How many files it has open."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
