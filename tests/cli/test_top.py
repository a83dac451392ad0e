"""`fairway top`: one picture at any size, and the live one on a terminal."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.cli import quotas, top
from fairway.cli.tables import width_of
from fairway.cli.top import NodeUsage, TopSnapshot, cropped, frame
from fairway.testing.servers import Server

from .looking import ago, cluster_queue, golden, job, known, waiting

NOON = datetime(2030, 1, 2, 12, 0, 0, tzinfo=UTC)
_PATIENCE_SECONDS = 30
_FRAME, _END = "\x1b[H", "\x1b[J"
"""What every picture begins and ends with."""

_ESCAPE = re.compile(r"\x1b\[[0-9;]*m")

RUNNING = job(1, "one", "RUNNING", runningSince=ago(200), priority=50)
WAITS = job(2, "two", preemptions=1, priority=10, spec={"tasks": [{"num_nodes": 2, "resources": {"cpus": 4}}]})
DONE = job(3, "three", "SUCCEEDED", endedAt=ago(60), ranSeconds=10)
SNAPSHOT = TopSnapshot(
    server="https://127.0.0.1:7437",
    jobs=(RUNNING, WAITS, DONE),
    waiting=known(waiting(WAITS, 1)),
    queues=(
        quotas.cluster_queue(
            cluster_queue(
                "cluster-queue",
                {("default", "cpu"): ("9", "12", "3"), ("default", "memory"): ("36Gi", "6Gi", "0")},
                running=1,
                pending=1,
            )
        ),
        quotas.cluster_queue(
            cluster_queue(
                "team-b",
                {("spot", "nvidia.com/gpu"): ("4", "1", "0"), ("base", "cpu"): ("8", "0", "0")},
                trouble="is stopped",
            )
        ),
    ),
    machines=(NodeUsage("vm", cpus="9", memory="23.5Gi", gpus="2", load=1.5, memory_used=0.4),),
)


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("width", "height", "name"),
    [
        pytest.param(120, 24, "top-wide.txt", id="a wide screen"),
        pytest.param(64, 12, "top-narrow.txt", id="a narrow one"),
    ],
)
def test_the_picture(width: int, height: int, name: str) -> None:
    assert frame(SNAPSHOT, width, height, NOON) == golden(name)


@given(
    width=st.integers(1, 200),
    height=st.integers(1, 40),
    jobs=st.integers(0, 60),
    colours=st.booleans(),
    unicode=st.booleans(),
    lost=st.booleans(),
)
def test_at_any_size_it_fits(width: int, height: int, jobs: int, *, colours: bool, unicode: bool, lost: bool) -> None:
    many = tuple(job(number, f"job-{number}") for number in range(1, jobs + 1))
    seen = SNAPSHOT._replace(jobs=many, lost="the server does not answer" if lost else "")

    lines = frame(seen, width, height, NOON, colours=colours, unicode=unicode).split("\n")

    assert len(lines) <= height
    assert max(width_of(_ESCAPE.sub("", line)) for line in lines) <= width
    assert colours or "\x1b" not in "".join(lines)
    assert unicode or "".join(lines).isascii()


def test_who_finds_no_place_is_counted() -> None:
    many = tuple(job(number, f"job-{number}") for number in range(1, 31))

    lines = frame(SNAPSHOT._replace(jobs=many), 120, 15, NOON).split("\n")

    shown = sum(1 for line in lines if " job-" in line)
    assert lines[-1] == f"… and {30 - shown} more"
    assert len(lines) == 15


def test_without_a_height_everything_is_there() -> None:
    many = tuple(job(number, f"job-{number}") for number in range(1, 301))

    assert frame(SNAPSHOT._replace(jobs=many), 120, None, NOON).count(" job-") == 300


def test_an_old_picture_says_so() -> None:
    assert "! the server does not answer" in frame(SNAPSHOT._replace(lost="the server does not answer"), 80, 24, NOON)


def test_an_empty_server_says_what_to_try() -> None:
    assert "fairway jobs launch" in frame(TopSnapshot(), 80, 24, NOON)


def test_colours_end_where_a_line_is_cut() -> None:
    assert cropped("ab\x1b[32mcdef\x1b[0m", 4) == "ab\x1b[32mcd\x1b[0m"


def test_how_busy_other_machines_are_is_not_known_here() -> None:
    two = [NodeUsage("a"), NodeUsage("b")]

    assert top.busy(two) == two
    assert top.busy(two[:1])[0].load is not None


class Screen:
    """A process on a terminal of its own: what it writes, and keys for it."""

    def __init__(self, pid: int, terminal: int) -> None:
        self.pid, self._terminal = pid, terminal
        self.written = ""
        self.is_over = False

    def until(self, *words: str) -> str:
        """What came since the last time, when the words are in it."""
        fresh = ""
        while not all(word in fresh for word in words):
            piece = self._read()
            assert piece, f"it ended: {fresh[-2000:]}"
            fresh += piece
        return fresh

    def _read(self) -> str:
        """What comes next; nothing when it has ended."""
        assert select.select([self._terminal], [], [], _PATIENCE_SECONDS)[0], self.written[-2000:]
        try:
            piece = os.read(self._terminal, 65536).decode(errors="replace")
        except OSError:  # so a terminal without anybody on it ends
            return ""
        self.written += piece
        return piece

    def press(self, keys: bytes) -> None:
        os.write(self._terminal, keys)

    def resize(self, height: int, width: int) -> None:
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def ended(self) -> int:
        """The exit code, when it has ended; all that it wrote is in `written`."""
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while self._read():
            assert time.monotonic() < deadline, self.written[-2000:]
        self.is_over = True
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@contextmanager
def live(state: Path) -> Iterator[Screen]:
    pid, terminal = pty.fork()
    if pid == 0:
        words = [sys.executable, "-m", "fairway.cli.main", "top", "--state", str(state)]
        os.execve(sys.executable, words, {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8"})  # noqa: S606
    screen = Screen(pid, terminal)
    try:
        screen.resize(24, 100)
        yield screen
    finally:
        os.close(terminal)
        if not screen.is_over:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("top") / "state") as server:
        yield server


def _make(server: Server, name: str) -> None:
    manifest = {"metadata": {"name": name}, "spec": {"name": name, "tasks": [{"run": "true"}]}}
    assert server.call("POST", "/apis/fairway.dev/v1alpha1/namespaces/default/managedjobs", manifest).code == 201


def test_live_it_shows_what_happens_and_gives_the_terminal_back(server: Server) -> None:
    with live(server.state) as screen:
        screen.until("\x1b[?1049h", "Fairway")
        _make(server, "seen-at-once")
        screen.until("seen-at-once")
        screen.resize(10, 50)
        narrow = screen.until("\x1b[H", "\x1b[J")
        assert "seen-at-once" in narrow or screen.until("seen-at-once")
        screen.press(b"q")

        assert screen.ended() == 0

    assert screen.written.endswith("\x1b[?25h\x1b[?1049l")
    assert "Traceback" not in screen.written


@pytest.mark.parametrize(
    ("number", "want"),
    [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["Ctrl-C", "SIGTERM", "the terminal goes away"],
)
def test_however_it_ends_the_terminal_is_as_it_was(server: Server, number: signal.Signals, want: int) -> None:
    with live(server.state) as screen:
        screen.until("\x1b[?1049h", "Fairway")
        if number is signal.SIGINT:
            screen.press(b"\x03")
        else:
            os.kill(screen.pid, number)

        assert screen.ended() == want

    assert screen.written.rstrip().endswith("\x1b[?25h\x1b[?1049l")
    assert "Traceback" not in screen.written


def test_put_into_the_background_it_leaves_the_screen_and_comes_back(server: Server) -> None:
    with live(server.state) as screen:
        screen.until("\x1b[?1049h", "Fairway")
        screen.press(b"\x1a")
        # Without a shell above it nobody could let it go on, so the kernel does not let it stop: it is back at once.
        screen.until("\x1b[?1049l", "\x1b[?1049h", "Fairway")
        screen.press(b"q")

        assert screen.ended() == 0


def test_a_server_that_ends_is_told_of_and_found_again(tmp_path: Path) -> None:
    with Server(tmp_path / "state") as server, live(server.state) as screen:
        screen.until("\x1b[?1049h", "no jobs")
        server.stop()
        screen.until("the server does not answer; this is the last known state")
        server.start(port=int(server.url.rpartition(":")[2]))
        _make(server, "after-the-restart")
        screen.until("after-the-restart")
        assert any("does not answer" not in screen.until(_FRAME, _END) for _ in range(30)), "it is there for good"
        screen.press(b"q")

        assert screen.ended() == 0
