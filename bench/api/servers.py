"""The server under load: Fairway as a process on a state directory of this disk, and what that process uses."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path

import psutil

from bench.api.wire import Refused, Session, Target
from fairway.runner.supervision import end_jobs
from fairway.runtime.clock import SystemClock

SCRATCH = Path(".bench")
"""Beneath the checkout, not in /tmp, which may be memory: what is durable has to be so on a disk."""


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory on this disk that is gone afterwards."""
    SCRATCH.mkdir(exist_ok=True)
    path = Path(tempfile.mkdtemp(dir=SCRATCH))
    try:
        yield path
    finally:
        shutil.rmtree(path)
        if not any(SCRATCH.iterdir()):
            SCRATCH.rmdir()


class Server:
    """A running ``fairway serve``."""

    def __init__(self, state: Path, *, ready_seconds: float, target: Target, process: subprocess.Popen[bytes]) -> None:
        self.state = state
        self.ready_seconds = ready_seconds
        """From starting the process to the first 200 of /readyz."""
        self.target = target
        self._process = process
        self._measured = psutil.Process(process.pid)

    @property
    def database(self) -> Path:
        return self.state / "fairway.db"

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def memory_mb(self) -> float:
        return float(self._measured.memory_info().rss) / 2**20

    @property
    def cpu_seconds(self) -> float:
        used = self._measured.cpu_times()
        return float(used.user + used.system)

    def stay_on(self, core: int) -> None:
        """Keep the server on one core, with each of the threads that it has; those to come follow the first."""
        for thread in self._measured.threads():
            os.sched_setaffinity(thread.id, {core})

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise


@contextmanager
def fairway(state: Path, *options: str, jobs: bool = False, patience_seconds: float = 60.0) -> Iterator[Server]:
    """Fairway on this state directory, ready, on a port of its own choice; the API alone unless `jobs` are to run."""
    kubeconfig = state / "kubeconfig"
    log = state.with_name(f"{state.name}.log")
    command = [sys.executable, "-m", "fairway.cli.main", "serve", "--state", str(state), "--port", "0"]
    command += options if jobs else (*options, "--api-only")
    with log.open("ab") as output:
        begun = time.monotonic()
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)  # noqa: S603 - our own command
    server: Server | None = None
    try:
        while server is None:
            target = _ready(kubeconfig)
            elapsed = time.monotonic() - begun
            if target is not None:
                server = Server(state, ready_seconds=elapsed, target=target, process=process)
            elif process.poll() is not None or elapsed > patience_seconds:
                raise RuntimeError(f"the server did not become ready in {elapsed:.1f} s:\n{log.read_text()[-3000:]}")
            else:
                time.sleep(0.005)
        yield server
    finally:
        if server is not None:
            server.stop()
            if jobs:
                asyncio.run(end_jobs(state, SystemClock()))  # they outlive the server; not the benchmark
        else:
            process.kill()
            process.wait()


def _ready(kubeconfig: Path) -> Target | None:
    """Where it listens, once it is ready for requests."""
    try:
        target = Target.from_kubeconfig(kubeconfig)
    except FileNotFoundError:
        return None
    try:
        with Session(target, timeout_seconds=5) as session:
            session.ask("GET", "/readyz")
    except (OSError, HTTPException, Refused):  # the address is that of an earlier run, or it is still starting
        return None
    return target
