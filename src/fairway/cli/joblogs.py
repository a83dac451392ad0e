"""What an attempt of a job wrote: its files being unpacked, its setup, its run, in that order, of one node or of all.

Of several nodes the lines come as they are written, each behind the name of its node. A server that goes away for a
moment is waited for, and the log continues where it stopped.
"""

import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from fairway.cli.choosing import Manifest
from fairway.client.rest import Unreachable, paths
from fairway.errors import FairwayError, Unavailable
from fairway.managedjobs.tasks.task import node_count

if TYPE_CHECKING:
    from fairway.client.rest import Rest

_PATIENCE_SECONDS: Final = 60.0
_PAUSE: Final = 0.25
_SECONDS_TO_HANG_UP: Final = 1.0
_FAILED_IN: Final = {"FilesFailed": "files", "SetupFailed": "setup"}


class TaskAttempt(NamedTuple):
    """An attempt of one of the tasks of a job."""

    task: int
    attempt: int


class LogFilter(NamedTuple):
    """How logs are shown."""

    rank: int | None = None
    """Of one node only; 0 is the head."""

    tail: int | None = None
    """Only the last lines of each node."""

    timestamps: bool = False


class LogPart(NamedTuple):
    """The log of one container of one node of one attempt, from where on, and how."""

    task: int
    attempt: int
    rank: int
    container: str
    tail: int | None
    timestamps: bool
    follow: bool


LogSource = Callable[["Rest", Manifest, LogPart], Iterator[bytes]]
"""Where logs come from: `server_log`, or `clusterlogs.cluster_log`."""


def server_log(rest: "Rest", job: Manifest, part: LogPart) -> Iterator[bytes]:
    """From a server of ours, which has the logs of pods that are gone, too."""
    return rest.stream(
        paths.log(job["metadata"]["namespace"], job["metadata"]["name"]),
        task=part.task,
        attempt=part.attempt,
        rank=part.rank,
        container=part.container,
        tailLines=part.tail,
        timestamps=part.timestamps or None,
        follow=part.follow or None,
    )


def parts_of(job: Manifest) -> list[TaskAttempt]:
    """The attempts that there were, the first one first."""
    return [TaskAttempt(int(one.get("task", 0)), int(one["attempt"])) for one in _attempts(job)]


def attempt_of(job: Manifest, part: TaskAttempt) -> Manifest:
    """What is known of an attempt; nothing if it was too long ago."""
    return next((one for one in _attempts(job) if (one.get("task", 0), one["attempt"]) == part), {})


def _attempts(job: Manifest) -> list[Manifest]:
    return (job.get("status") or {}).get("attempts") or []


class Patience:
    """For a server that is away for a moment, not for ever."""

    def __init__(self, on_away: Callable[[], None]) -> None:
        self._on_away = on_away
        self.renew()

    def renew(self) -> None:
        self._deadline = time.monotonic() + _PATIENCE_SECONDS

    def after(self, error: FairwayError) -> None:
        """Wait a little; raise the error if it has been too long."""
        if time.monotonic() >= self._deadline:
            raise error
        self._on_away()
        time.sleep(_PAUSE)


class _Read:
    """How much of a log was shown already, should it be asked for again."""

    def __init__(self, tail: int | None) -> None:
        self.tail = tail
        self._bytes = 0

    def new(self, stream: Iterator[bytes]) -> Iterator[bytes]:
        """What comes after that."""
        skip = self._bytes
        for piece in stream:
            new = piece[skip:]
            skip = max(0, skip - len(piece))
            if not new:
                continue
            if self.tail is None:
                self._bytes += len(new)
            else:
                self.tail = 0  # where the last lines began cannot be known a second time
            yield new


class AttemptLog:
    """The log of one attempt. A second read returns what is new since the first."""

    def __init__(
        self,
        rest: "Rest",
        job: Manifest,
        part: TaskAttempt,
        shown: LogFilter,
        on_away: Callable[[], None],
        source: LogSource = server_log,
    ) -> None:
        self._rest = rest
        self._job = job
        self._source = source
        self._part = part
        self._shown = shown
        self._on_away = on_away
        self._read: dict[tuple[int, str], _Read] = {}
        task = job["spec"]["tasks"][part.task]
        self._nodes = node_count(task)
        self._driver_only = task.get("ray") is not None
        self._containers = _containers(task, attempt_of(job, part), shown)

    def pieces(self, *, follow: bool) -> Iterator[bytes]:
        """As it comes; with `follow`, until the attempt has ended."""
        ranks = range(1 if self._driver_only else self._nodes) if self._shown.rank is None else (self._shown.rank,)
        if len(ranks) == 1:
            yield from self._of_node(self._rest, ranks[0], follow=follow)
        elif follow:
            yield from self._of_all(ranks)
        else:
            for rank in ranks:
                yield from _prefixed(self._of_node(self._rest, rank, follow=False), rank)

    def _of_node(self, rest: "Rest", rank: int, *, follow: bool) -> Iterator[bytes]:
        for container in self._containers:
            yield from self._of_container(rest, rank, container, follow=follow)

    def _of_container(self, rest: "Rest", rank: int, container: str, *, follow: bool) -> Iterator[bytes]:
        read = self._read.setdefault((rank, container), _Read(self._shown.tail))
        patience = Patience(self._on_away)
        while True:
            try:
                part = LogPart(*self._part, rank, container, read.tail, self._shown.timestamps, follow)
                for piece in read.new(self._source(rest, self._job, part)):
                    yield piece
                    patience.renew()
            except (Unreachable, Unavailable) as error:
                patience.after(error)
            else:
                return

    def _of_all(self, ranks: range) -> Iterator[bytes]:
        """A thread for every node; whatever goes wrong in one goes wrong here."""
        arriving: queue.SimpleQueue[bytes | BaseException | None] = queue.SimpleQueue()
        rests = [self._rest.clone() for _ in ranks]

        def read(rest: "Rest", rank: int) -> None:
            try:
                for line in _prefixed(self._of_node(rest, rank, follow=True), rank):
                    arriving.put(line)
            except BaseException as error:  # noqa: BLE001 - raised again where it is read
                arriving.put(error)
            else:
                arriving.put(None)
            finally:
                rest.close()

        threads = [
            threading.Thread(target=read, args=(rest, rank), daemon=True)
            for rest, rank in zip(rests, ranks, strict=True)
        ]
        for thread in threads:
            thread.start()
        try:
            left = len(threads)
            while left:
                arrived = arriving.get()
                if isinstance(arrived, BaseException):
                    raise arrived
                if arrived is None:
                    left -= 1
                else:
                    yield arrived
        finally:
            for rest, thread in zip(rests, threads, strict=True):
                rest.abort()
                thread.join(_SECONDS_TO_HANG_UP)


def _containers(task: Manifest, attempt: Manifest, shown: LogFilter) -> list[str]:
    """Whose logs to show, in their order; of the last lines, only those of where the attempt came to."""
    if shown.tail is not None:
        return [_FAILED_IN.get(str(attempt.get("outcome")), "run")]
    return [*(["files"] if task.get("files") else []), *(["setup"] if task.get("setup") else []), "run"]


def _prefixed(pieces: Iterator[bytes], rank: int) -> Iterator[bytes]:
    """Whole lines, each behind the name of its node."""
    name = b"(head) " if rank == 0 else f"(worker{rank}) ".encode()
    held = b""
    for piece in pieces:
        *lines, held = (held + piece).split(b"\n")
        if lines:
            yield b"".join(name + line + b"\n" for line in lines)
    if held:
        yield name + held + b"\n"
