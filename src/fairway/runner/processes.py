"""The interface between runner and supervisor: processes to start, and their results.

One container started once is one process, with an identity that says so: `<pod uid>/<container>/<restart>`. Asking for
the same identity again changes nothing, so a request can be repeated.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from msgspec import Struct

from fairway.errors import FairwayError


class ProcessLimits(Struct, frozen=True, kw_only=True):
    """What a process and its children may use; `None` sets no limit."""

    cpu_millis: int | None = None
    cpu_share_millis: int | None = None
    """What it gets at least when other processes want the same CPUs; unused CPUs are shared."""

    memory_bytes: int | None = None

    @property
    def is_share_alone(self) -> bool:
        """Whether there is nothing to enforce before the program begins."""
        return self.cpu_share_millis is not None and self.cpu_millis is None and self.memory_bytes is None


class StartDeferred(FairwayError):
    """Nothing was started, because this machine has run out of a resource; the text says which."""


class ProcessSpec(Struct, frozen=True, kw_only=True):
    """A process to start, in a session and process group of its own."""

    id: str
    argv: tuple[str, ...]
    env: dict[str, str]
    """The whole environment; the supervisor adds `FAIRWAY_PROCESS=<id>`, by which it finds strays."""

    cwd: str
    log: str
    """The file that takes stdout and stderr, in the format of `docs/use/logs.md`."""

    limits: ProcessLimits = ProcessLimits()
    home: str = ""
    """A directory that is made first, for its owner alone, if it is not there; empty for none."""

    hosts: str = ""
    """The file that it and all that it starts see as /etc/hosts; empty for the machine's own."""


class Ended(Struct, frozen=True, kw_only=True):
    """How a process ended."""

    at: float
    """Seconds since the epoch."""

    exit_code: int | None = None
    """`None` where it did not exit by itself."""

    signal: int | None = None
    out_of_memory: bool = False
    error: str = ""
    """Why it could not be started at all: no such program, no such directory."""

    told: bool = False
    """It was stopped before it ended, so an exit code of 0 may be an effect of the SIGTERM."""

    lost: bool = False
    """Its end is unknown: its supervisor, or the machine, stopped."""


class Process(Struct, frozen=True, kw_only=True):
    """A process that was asked for, as far as it has come."""

    id: str
    pid: int | None = None
    started_at: float | None = None
    ended: Ended | None = None


Heard = Callable[[Process], None]


class Supervision(Protocol):
    """The supervisor as the runner sees it. It answers for every process that was started and not forgotten yet."""

    @property
    def processes(self) -> Mapping[str, Process]:
        """All that are known, running or ended; complete once `connect` has returned."""

    async def connect(self) -> None:
        """Find the supervisor of this state directory, or start one; learn what it holds."""

    def on_change(self, heard: Heard) -> None:
        """Tell this one when a process started or ended."""

    async def start(self, launch: ProcessSpec) -> None:
        """Start a process, unless this identity was started before; returns when the supervisor has taken it over.

        `StartDeferred` if it is not taken over because this machine cannot start it now; it may be asked for again.
        """

    async def stop(self, process_id: str, grace_seconds: float) -> None:
        """SIGTERM to the whole group, SIGKILL after the grace period to all that is left; nothing if it has ended."""

    async def forget(self, process_id: str) -> None:
        """The result of this process is durable elsewhere; the supervisor may forget it.

        Returns before the supervisor has it; if that fails, the next server repeats it.
        """

    def on_lost(self, heard: Callable[[], Awaitable[None]]) -> None:
        """Tell this one when the supervisor itself died; what it held has ended as `lost` by then."""
