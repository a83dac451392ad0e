"""A supervisor without processes: what becomes of them is what the test says."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from fairway.runner.processes import Ended, Heard, Process, ProcessSpec, StartDeferred
from fairway.runner.supervising.places import make_home
from fairway.runtime.clock import Clock


class ScriptedSupervision:
    """Keeps the contract of `Supervision`, and keeps book of all that it was asked for.

    It outlives runners, as the real one does: `hang_up` is what it sees when the server dies.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._processes: dict[str, Process] = {}
        self._heard: list[Heard] = []
        self._lost: list[Callable[[], Awaitable[None]]] = []
        self.launches: list[ProcessSpec] = []
        """Every process that was really started, in order."""
        self.stops: list[tuple[str, float]] = []
        self.forgotten: list[str] = []
        self.no_home = ""
        """Why no process can be started for now, if so."""
        self.refusals = 0
        self.hesitates: asyncio.Event | None = None
        """What it waits for before it takes over anything, if so."""
        self.slow = False
        """Whether processes are taken over but do not run until `begin`."""

    @property
    def processes(self) -> Mapping[str, Process]:
        return self._processes

    async def connect(self) -> None:
        return None

    def on_change(self, heard: Heard) -> None:
        self._heard.append(heard)

    def on_lost(self, heard: Callable[[], Awaitable[None]]) -> None:
        self._lost.append(heard)

    async def start(self, launch: ProcessSpec) -> None:
        if launch.id in self._processes:
            return
        if self.hesitates is not None:
            await self.hesitates.wait()
        if fault := self.no_home or make_home(launch.home):
            self.refusals += 1
            raise StartDeferred(fault)
        self.launches.append(launch)
        self._processes[launch.id] = Process(id=launch.id)
        if not self.slow:
            self.begin(launch.id)

    async def stop(self, process_id: str, grace_seconds: float) -> None:
        process = self._processes.get(process_id)
        if process is not None and process.ended is None:
            self.stops.append((process_id, grace_seconds))

    async def forget(self, process_id: str) -> None:
        del self._processes[process_id]
        self.forgotten.append(process_id)

    # What tests say

    def begin(self, process_id: str) -> None:
        self._change(Process(id=process_id, pid=4711, started_at=self._now()))

    def end(self, process_id: str, exit_code: int | None = 0, **how: object) -> None:
        before = self._processes[process_id]
        assert before.ended is None, f"{process_id} has ended before"
        ended = Ended(at=self._now(), exit_code=exit_code, **how)  # type: ignore[arg-type]
        self._change(Process(id=process_id, pid=before.pid, started_at=before.started_at, ended=ended))

    async def die(self) -> None:
        """The supervisor goes down, and everything with it."""
        for process in list(self._processes.values()):
            if process.ended is None:
                self.end(process.id, None, lost=True)
        for heard in self._lost:
            await heard()

    def hang_up(self) -> None:
        """The server is gone."""
        self._heard.clear()
        self._lost.clear()

    def running(self) -> list[str]:
        return [process.id for process in self._processes.values() if process.ended is None]

    def _change(self, process: Process) -> None:
        self._processes[process.id] = process
        for heard in self._heard:
            heard(process)

    def _now(self) -> float:
        return self._clock.now().timestamp()
