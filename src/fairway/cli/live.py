"""The live picture on a terminal: follows jobs and queues by watch, draws, and leaves the terminal as it was.

Two threads watch and update the state that the drawing thread reads; nothing is polled. Positions
and reasons have no events, so they are asked for when something has changed, twice a second at most. The clocks make it
draw once a second.
"""

import os
import select
import signal
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from fairway.cli import top
from fairway.cli.jobs.records import JobRow, by_name
from fairway.cli.quotas import API, ClusterQueueUsage, cluster_queue
from fairway.cli.tables import Screen
from fairway.cli.waiting import who_waits
from fairway.client.rest import Rest, Unreachable, paths
from fairway.errors import FairwayError

if TYPE_CHECKING:
    from fairway.cli.session import Session

_BETWEEN_QUESTIONS: Final = 0.5
_BETWEEN_DRAWINGS: Final = 0.04
_BEFORE_TRYING_AGAIN: Final = 1.0
_CLEAR_LINE, _CLEAR_BELOW, _HOME = "\x1b[K", "\x1b[J", "\x1b[H"
_ENTER: Final = "\x1b[?1049h\x1b[?25l"
_LEAVE: Final = "\x1b[?25h\x1b[?1049l"
_QUIT: Final = frozenset(b"qQ\x03\x04")


def show(session: "Session", on: Screen, user: str = "") -> None:
    """Draw until the user quits."""
    wake_up, woken = os.pipe()
    os.set_blocking(woken, False)
    picture = Picture(session, user, lambda: _wake(woken))
    picture.refresh()
    try:
        picture.follow()
        with suppress(KeyboardInterrupt), _screen(woken):  # Ctrl-C is a way to quit
            _draw_until_quit(picture, on, wake_up)
    finally:
        picture.stop()
        os.close(wake_up)
        # `woken` stays open: a watching thread may still ring it, and another file must not get its number.


def _wake(woken: int) -> None:
    with suppress(BlockingIOError):  # full of reasons to wake up already
        os.write(woken, b"!")


class Picture:
    """What is known, kept up to date by watching."""

    def __init__(self, session: "Session", user: str, changed: Callable[[], None]) -> None:
        self._session = session
        self._user = user
        self._changed = changed
        self._jobs: dict[str, JobRow] = {}
        self._queues: dict[str, ClusterQueueUsage] = {}
        self._seen = top.TopSnapshot(server=session.rest.server)
        self._watching: list[Rest] = []
        self._stopped = threading.Event()
        self._stale = threading.Event()
        self._asked = 0.0
        self._lost = ""

    def refresh(self) -> None:
        """Ask for everything once, so that the first picture is complete; what cannot be had here ends the command."""
        self._seen = top.snapshot(self._session, self._user)
        self._jobs = {job.metadata.uid: job for job in self._seen.jobs}
        self._queues = {queue.name: queue for queue in self._seen.queues}
        self._asked = time.monotonic()

    def follow(self) -> None:
        followed = (
            (paths.jobs(self._session.scope), self._list_jobs, self._job),
            (paths.resource(API, "clusterqueues"), self._list_queues, self._queue),
        )
        for path, listed, happened in followed:
            rest = self._session.rest.clone()
            self._watching.append(rest)
            threading.Thread(target=self._watch, args=(rest, path, listed, happened), daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        for rest in self._watching:
            rest.abort()

    def snapshot(self) -> top.TopSnapshot:
        """How things stand; asks for positions and reasons if something has changed and it is time to."""
        if self._stale.is_set() and self.seconds_to_ask() <= 0:
            self._stale.clear()
            self._ask()
        machines = top.busy(self._seen.machines) if self._session.own else self._seen.machines
        return self._seen._replace(
            server=self._session.rest.server,
            jobs=list(self._jobs.values()),
            queues=[self._queues[name] for name in sorted(self._queues)],
            machines=machines,
            lost=self._lost,
        )

    def seconds_to_ask(self) -> float:
        """How long to wait until positions may be asked for again; for ever if nothing has changed."""
        return self._asked + _BETWEEN_QUESTIONS - time.monotonic() if self._stale.is_set() else float("inf")

    def _ask(self) -> None:
        self._asked = time.monotonic()
        try:
            waiting = who_waits(self._session, self._session.scope)
        except FairwayError as error:
            self._lost = str(error)
        else:
            self._lost = ""
            self._seen = self._seen._replace(waiting=by_name(waiting))

    def _watch(
        self, rest: Rest, path: str, listed: Callable[[Any], None], happened: Callable[[str, Any], None]
    ) -> None:
        """List, then take in every event; from the beginning whenever the watch breaks."""
        while not self._stopped.is_set():
            try:
                found = rest.get(path)
                listed(found["items"])
                self._lost = ""
                self._wake_up()
                self._events(rest, path, found["metadata"]["resourceVersion"], happened)
            except (FairwayError, OSError) as error:
                if self._stopped.is_set():
                    return
                lost = isinstance(error, Unreachable | OSError)
                self._lost = "the server does not answer; this is the last known state" if lost else str(error)
                self._changed()
                self._stopped.wait(_BEFORE_TRYING_AGAIN)

    def _events(self, rest: Rest, path: str, revision: str, happened: Callable[[str, Any], None]) -> None:
        for event in rest.watch(path, resourceVersion=revision):
            if self._stopped.is_set():
                return
            if event["type"] != "BOOKMARK":
                happened(event["type"], event["object"])
                self._wake_up()

    def _wake_up(self) -> None:
        self._stale.set()
        self._changed()

    def _list_jobs(self, items: Any) -> None:
        jobs = (msgspec.convert(item, JobRow) for item in items)
        self._jobs = {job.metadata.uid: job for job in jobs if self._is_shown(job)}

    def _job(self, happened: str, item: Any) -> None:
        job = msgspec.convert(item, JobRow)
        # A new dictionary each time: the thread that draws may be walking through the old one.
        jobs = dict(self._jobs)
        jobs.pop(job.metadata.uid, None)
        if happened != "DELETED" and self._is_shown(job):
            jobs[job.metadata.uid] = job
        self._jobs = jobs

    def _is_shown(self, job: JobRow) -> bool:
        return not self._user or job.spec.user == self._user

    def _list_queues(self, items: Any) -> None:
        self._queues = {queue.name: queue for queue in map(cluster_queue, items)}

    def _queue(self, happened: str, item: Any) -> None:
        queue = cluster_queue(item)
        others = {name: one for name, one in self._queues.items() if name != queue.name}
        self._queues = others if happened == "DELETED" else {**others, queue.name: queue}


def _draw_until_quit(picture: Picture, on: Screen, wake_up: int) -> None:
    keys = sys.stdin.fileno() if sys.stdin.isatty() else None
    while True:
        _draw(picture.snapshot(), on)
        drawn = time.monotonic()
        to_the_second = 1.0 - time.time() % 1.0
        patience = max(_BETWEEN_DRAWINGS, min(to_the_second, picture.seconds_to_ask()))
        readable, _, _ = select.select([wake_up, *([] if keys is None else [keys])], [], [], patience)
        if keys in readable and keys is not None:
            pressed = os.read(keys, 64)
            if not pressed or _QUIT & set(pressed):
                return
        if wake_up in readable:
            os.read(wake_up, 4096)
            # Many things happen at once: they are drawn together.
            time.sleep(max(0.0, drawn + _BETWEEN_DRAWINGS - time.monotonic()))


def _draw(seen: top.TopSnapshot, on: Screen) -> None:
    try:
        width, height = os.get_terminal_size(sys.stdout.fileno())
    except OSError:
        width, height = 80, 24
    lines = top.frame(seen, width or 80, height or 24, datetime.now(UTC), colours=on.colours, unicode=on.unicode).split(
        "\n"
    )
    sys.stdout.write(_HOME + "\n".join(f"{line}{_CLEAR_LINE}" for line in lines) + _CLEAR_BELOW)
    sys.stdout.flush()


@contextmanager
def _screen(woken: int) -> Iterator[None]:
    """A screen of our own, with keys that come one by one; whatever happens, the terminal gets back what it had."""
    stdin = sys.stdin.fileno() if sys.stdin.isatty() else None
    before = termios.tcgetattr(stdin) if stdin is not None else None

    def enter() -> None:
        if stdin is not None:
            tty.setcbreak(stdin)
        say(_ENTER)

    def say(text: str) -> None:
        # Not through `sys.stdout`: a signal may have come in the middle of writing to that.
        os.write(sys.stdout.fileno(), text.encode())

    def leave() -> None:
        say(_LEAVE)
        if stdin is not None and before is not None:
            termios.tcsetattr(stdin, termios.TCSADRAIN, before)

    def suspend(number: int, _frame: FrameType | None) -> None:
        leave()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)  # stops here, unless no shell could continue it
        signal.signal(number, suspend)
        enter()
        _wake(woken)

    handlers: dict[signal.Signals, Any] = {
        signal.SIGTSTP: suspend,
        signal.SIGTERM: _end,
        signal.SIGHUP: _end,
        signal.SIGWINCH: lambda *_: _wake(woken),
    }
    old = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        enter()
        yield
    finally:
        leave()
        for number, handler in old.items():
            signal.signal(number, handler)


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
