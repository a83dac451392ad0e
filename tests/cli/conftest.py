"""The command line as people meet it: a process, its output and its exit code, on a state directory of the test."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

_SECONDS = 60.0


@dataclass(frozen=True)
class CommandLine:
    """Runs `fairway` with a state directory of its own."""

    state: Path

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 - the interpreter that runs this, with our own module
            [sys.executable, "-m", "fairway.cli.main", *arguments],
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            env={**os.environ, "FAIRWAY_STATE": str(self.state), "HOME": str(self.state.parent)},
            check=False,
        )

    def __call__(self, *arguments: str) -> str:
        """What a command prints that must succeed."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refused(self, *arguments: str) -> str:
        """What a command says that must not succeed: one line, no traceback."""
        done = self.run(*arguments)
        assert done.returncode != 0, done.stdout
        assert "Traceback" not in done.stderr
        return done.stderr.strip()


@pytest.fixture
def fairway(tmp_path: Path) -> Iterator[CommandLine]:
    """The command line; a server that was left running in the background is ended."""
    command_line = CommandLine(tmp_path / "state")
    yield command_line
    command_line("shutdown")
