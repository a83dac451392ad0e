"""What processes write is in their logs: all of it, in order, as the bytes it was."""

import asyncio
import os
import re
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.runner.supervising.loop import Called, Loop
from fairway.runner.supervising.output import LogFile, OpenLogs, Pipe
from fairway.runner.supervising.places import SupervisorSettings
from fairway.runtime.logformat import LONGEST_PIECE
from fairway.server.logs.entries import Lines

from .servers import connected, play

ENTRY = re.compile(rb"[0-9-]{10}T[0-9:]{8}\.[0-9]{9}Z (stdout|stderr) ([FP]) (.*)", re.DOTALL)


def texts(path: Path) -> list[tuple[str, str, int]]:
    """Stream, tag and length of each entry."""
    entries = [ENTRY.fullmatch(line) for line in path.read_bytes().split(b"\n")[:-1]]
    return [(entry[1].decode(), entry[2].decode(), len(entry[3])) for entry in entries if entry]


def test_both_streams_are_told_apart_and_times_grow(shared: Path) -> None:
    async def scene() -> None:
        async with connected(shared) as server:
            await server.run("both", "sh", "-c", "echo one; echo two >&2; sleep 0.02; echo three; echo four >&2")

            lines = server.log("both").read_text().splitlines()
            assert sorted(line.split(" ", 1)[1] for line in lines) == [
                "stderr F four",
                "stderr F two",
                "stdout F one",
                "stdout F three",
            ]
            times = [line.split()[0] for line in lines]
            assert times == sorted(times)
            assert server.log("both").stat().st_mode & 0o777 == 0o600

    play(scene())


@pytest.mark.parametrize(
    ("script", "want"),
    [
        pytest.param("printf 'no end'", [("stdout", "P", 6)], id="the last line has no line break"),
        pytest.param("echo; echo", [("stdout", "F", 0), ("stdout", "F", 0)], id="empty lines"),
        pytest.param(
            f"head -c {2 * LONGEST_PIECE + 5} /dev/zero; echo",
            [("stdout", "P", LONGEST_PIECE), ("stdout", "P", LONGEST_PIECE), ("stdout", "F", 5)],
            id="a long line",
        ),
        pytest.param(
            f"head -c {LONGEST_PIECE} /dev/zero; echo", [("stdout", "F", LONGEST_PIECE)], id="as long as a piece may be"
        ),
        pytest.param("printf 'a\\r\\nb\\377\\0c\\n' >&2", [("stderr", "F", 2), ("stderr", "F", 4)], id="any bytes"),
    ],
)
def test_how_lines_are_kept(shared: Path, request: pytest.FixtureRequest, script: str, want: list[object]) -> None:
    async def scene() -> None:
        async with connected(shared) as server:
            await server.run(request.node.name, "sh", "-c", script)

            assert texts(server.log(request.node.name)) == want

    play(scene())


def test_a_flood_is_kept_whole_and_holds_up_nobody(shared: Path) -> None:
    lines = 200_000
    script = f"for number in range({lines}): print('line', number)"

    async def scene() -> None:
        async with connected(shared, SupervisorSettings()) as server:
            flood = asyncio.ensure_future(server.run("flood", sys.executable, "-c", script))
            for number in range(5):
                assert (await server.run(f"beside-{number}", "true")).exit_code == 0
            assert (await flood).exit_code == 0

            assert server.shown("flood") == "".join(f"line {number}\n" for number in range(lines))

    play(scene())


def test_a_process_that_writes_nothing_has_no_log(shared: Path) -> None:
    async def scene() -> None:
        async with connected(shared) as server:
            await server.run("silent", "true")

            assert not server.log("silent").exists()

    play(scene())


def test_a_log_that_cannot_be_written_does_not_disturb_the_process(shared: Path) -> None:
    async def scene() -> None:
        async with connected(shared) as server:
            server.log("unlucky").mkdir(parents=True)
            assert (await server.run("unlucky", "sh", "-c", "seq 100000")).exit_code == 0

            assert "output is lost: " in (shared / "supervisor.log").read_text()

    play(scene())


def test_a_large_log_is_rotated_and_one_old_file_is_kept(own: Path) -> None:
    limit, count = 1_000_000, 20_000

    async def scene() -> None:
        async with connected(own, SupervisorSettings(log_limit_bytes=limit)) as server:
            script = f"for number in range({count}): print('a rather long line with the number', number)"
            await server.run("long", sys.executable, "-c", script)

            log = server.log("long")
            assert sorted(path.name for path in log.parent.iterdir()) == ["long.log", "long.log.1"]
            assert all(path.stat().st_size <= limit for path in log.parent.iterdir())
            lines = Lines()
            kept = lines.feed(log.with_suffix(".log.1").read_bytes() + log.read_bytes()).decode().splitlines()
            assert kept == [
                f"a rather long line with the number {number}" for number in range(count - len(kept), count)
            ]
            assert len(kept) > count // 4

    play(scene())


@settings(max_examples=60)
@given(
    pieces=st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.sampled_from([b"\n", b"\n\n", b"x" * LONGEST_PIECE, b"y" * (LONGEST_PIECE + 1), b"z" * 60_000]),
        ),
        max_size=12,
    )
)
def test_whatever_is_written_is_read_again(pieces: list[bytes]) -> None:
    """However the bytes are cut, what a reader shows is what was written."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "x.log"
        ours, theirs = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        loop = _NoLoop()
        log = LogFile(str(path), 100 * 1024 * 1024, OpenLogs())
        pipe = Pipe(loop, log, "stdout", ours)
        for piece in pieces:
            os.write(theirs, piece)
            loop.call()
        os.close(theirs)
        pipe.finish()
        log.close()

        lines = Lines()
        shown = lines.feed(path.read_bytes()) + lines.finish() if path.exists() else b""
        assert shown == b"".join(pieces)


class _NoLoop(Loop):
    """Stands in for waiting: whoever watches is called when the test says so."""

    def __init__(self) -> None:
        self.call: Called = lambda: None

    def watch(self, file: int, events: int, call: Called) -> None:  # noqa: ARG002 - there is one file
        self.call = call

    def unwatch(self, file: int) -> None:
        """Nobody is called any more."""
