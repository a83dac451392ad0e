"""Commands about jobs, run in this process against one real server for all of them; each test has its directory."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple

import pytest

from fairway.cli.main import main
from fairway.testing.servers import Server

JOBS = "/apis/fairway.dev/v1alpha1/namespaces/default/managedjobs"
_SECONDS = 30.0


class Said(NamedTuple):
    """How a command ended."""

    code: int
    output: str
    errors: str


@dataclass
class Commands:
    """`fairway` against the server of these tests, in the test's own directory."""

    server: Server
    directory: Path
    capture: pytest.CaptureFixture[str]
    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    def run(self, *words: str) -> Said:
        self.capture.readouterr()
        code = main(list(words))
        output, errors = self.capture.readouterr()
        return Said(code, output, errors)

    def __call__(self, *words: str) -> str:
        """What a command prints that must succeed."""
        said = self.run(*words)
        assert said.code == 0, said
        return said.output

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "-o", "json"))

    def refused(self, *words: str, code: int = 1) -> str:
        """What a command says that must not succeed."""
        said = self.run(*words)
        assert (said.code, said.output) == (code, ""), said
        return said.errors.strip()

    def submitted(self, *words: str) -> int:
        """The id of a job that is launched and left alone."""
        return int(self("jobs", "launch", "-y", "--async", *words))

    def job(self, number: int) -> dict[str, Any]:
        """The object, as the server has it."""
        (found,) = (one for one in self.jobs() if one["spec"]["id"] == number)
        return dict(found)

    def jobs(self) -> list[dict[str, Any]]:
        return list(self.server.call("GET", JOBS).body["items"])

    def phase(self, number: int) -> str:
        return str(self.job(number).get("status", {}).get("phase"))

    def until(self, number: int, phase: str) -> None:
        until(lambda: self.phase(number) == phase)

    @contextmanager
    def process(self, *words: str) -> Iterator["Process"]:
        """The command as a process of its own, which is ended with the block."""
        started = subprocess.Popen(  # noqa: S603 - the interpreter that runs this, with our own module
            [sys.executable, "-m", "fairway.cli.main", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ,
        )
        assert started.stdout is not None
        # Who reads waits for as long as it lives: one that does not end must not hold up the tests for ever.
        watchdog = threading.Timer(2 * _SECONDS, started.kill)
        watchdog.start()
        try:
            yield Process(started, started.stdout)
        finally:
            watchdog.cancel()
            started.kill()
            started.wait(_SECONDS)
            started.stdout.close()


class Process(NamedTuple):
    """A command that runs; what it says goes to one pipe."""

    started: subprocess.Popen[str]
    output: IO[str]

    def reads(self, text: str) -> str:
        """What it says up to the line that has the text."""
        said = ""
        for line in self.output:
            said += line
            if text in line:
                return said
        raise AssertionError(f"it ended without saying {text!r}: {said}")

    def interrupt(self) -> None:
        self.started.send_signal(signal.SIGINT)

    def rest(self) -> tuple[str, int]:
        """All that it says until its end, and its exit code."""
        return self.output.read(), self.started.wait(_SECONDS)


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + _SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def masked(text: str) -> str:
    """Without what differs from run to run: ids and times."""
    text = re.sub(r"\b\d+(\.\d+)?s ago", "TIME ago", text)
    return re.sub(r"(?<![\w.])\d+(?![\w.])", "N", text)


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server") / "state", "--cpus", "4", jobs=True) as running:
        yield running


@pytest.fixture
def fairway(
    server: Server,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Commands:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setenv("FAIRWAY_STATE", str(server.state))
    return Commands(server, tmp_path, capsys)
