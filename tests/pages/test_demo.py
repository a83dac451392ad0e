"""`make demo`: it plays to its end, leaves nothing behind however it ends, and what it suggests works here."""

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import psutil
import pytest

from .shell import ROOT, Shell

DEMO = ROOT / "examples" / "demo.py"
_SECONDS = 180


def demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo", DEMO)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def started(directory: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 - our own script
        [sys.executable, str(DEMO)],
        env={**os.environ, "TMPDIR": str(directory), "FAIRWAY_QUEUE": "not-there", "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )


def left_by(directory: Path) -> list[object]:
    """Files, and processes that were told of the directory."""
    found: list[object] = list(directory.iterdir())
    for process in psutil.process_iter():
        try:
            if any(str(directory) in word for word in process.cmdline()):
                found.append(process)
        except psutil.Error:  # it has ended, or is another user's
            continue
    return found


def test_the_demo_plays_to_its_end_and_cleans_up(tmp_path: Path) -> None:
    with started(tmp_path) as playing:
        output, _ = playing.communicate(timeout=_SECONDS)

    assert playing.returncode == 0, output
    assert "attempt 2, restarted because it was preempted: resuming after step" in output
    assert "To try next" in output
    assert left_by(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["interrupted", "terminated"])
def test_a_demo_that_is_stopped_cleans_up(tmp_path: Path, number: signal.Signals) -> None:
    with started(tmp_path) as playing:
        assert playing.stdout is not None
        for line in playing.stdout:
            if "RUNNING" in line:
                break
        playing.send_signal(number)
        playing.communicate(timeout=_SECONDS)

    assert playing.returncode == 128 + number
    assert left_by(tmp_path) == []


@pytest.mark.parametrize("cpus", [1, 2, 8])
def test_what_it_suggests_works_on_a_machine_of_that_size(tmp_path: Path, cpus: int) -> None:
    suggested = demo().to_try_next(cpus, kubectl=cpus > 1, port_is_taken=True)
    with Shell(tmp_path) as shell:
        assert shell.run(f"fairway up --cpus {cpus}").exit_code == 0
        for command, _ in suggested:
            done = shell.run(command)
            assert done.exit_code == 0, "\n".join([command, *done.lines])
