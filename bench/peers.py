"""The same no-op jobs with what people use on one machine instead, where it is installed.

Each is driven by its own command line, as people do, and keeps its files in a directory of the benchmark's own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bench.table import Line

_TRUE: Final = "/bin/true"
_PATIENCE_SECONDS: Final = 600.0


def lines(directory: Path, count: int, slots: int) -> list[Line]:
    """One line for each that is there."""
    found = []
    for name, program, play in _PEERS:
        if shutil.which(program):
            seconds = play(directory, count, slots)
            found.append(Line(f"  {count} no-op jobs with {name}", f"{seconds:.1f} s", "", None, 0))
        else:
            found.append(Line(f"  {count} no-op jobs with {name}", "not installed", "", None, 0))
    return found


def _run(*command: str, environment: dict[str, str] | None = None) -> None:
    subprocess.run(  # noqa: S603 - programs of this machine, with arguments of our own
        command,
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, **(environment or {})},
        timeout=_PATIENCE_SECONDS,
    )


def _task_spooler(directory: Path, count: int, slots: int) -> float:
    environment = {"TS_SOCKET": str(directory / "tsp.socket"), "TMPDIR": str(directory), "TS_MAXFINISHED": "10"}
    _run("tsp", "-S", str(slots), environment=environment)
    try:
        begun = time.monotonic()
        for _ in range(count):
            _run("tsp", "-n", _TRUE, environment=environment)
        _run("tsp", "-n", "-N", str(slots), "-f", _TRUE, environment=environment)
        return time.monotonic() - begun
    finally:
        _run("tsp", "-K", environment=environment)


def _pueue(directory: Path, count: int, slots: int) -> float:
    home = directory / "pueue"
    home.mkdir()
    config = home / "pueue.yml"
    config.write_text(f"shared:\n  pueue_directory: {home}\n  runtime_directory: {home}\n  use_unix_socket: true\n")
    command = ("pueued", "-c", str(config))
    daemon = subprocess.Popen(command, stdout=subprocess.DEVNULL)  # noqa: S603 - as above
    try:
        _until(lambda: any(home.glob("*.socket")))
        _run("pueue", "-c", str(config), "parallel", str(slots))
        begun = time.monotonic()
        for _ in range(count):
            _run("pueue", "-c", str(config), "add", "--", _TRUE)
        _run("pueue", "-c", str(config), "wait")
        return time.monotonic() - begun
    finally:
        daemon.terminate()
        daemon.wait()


def _slurm(directory: Path, count: int, slots: int) -> float:
    begun = time.monotonic()
    array = f"--array=1-{count}%{slots}"
    _run("sbatch", "--wait", array, f"--output={directory}/slurm-%a.out", f"--wrap={_TRUE}")
    return time.monotonic() - begun


def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError("the daemon did not start within 10 s")
        time.sleep(0.01)


_PEERS: Final = (
    ("task-spooler", "tsp", _task_spooler),
    ("pueue", "pueued", _pueue),
    ("Slurm", "sbatch", _slurm),
)
