"""A server whose RayJobs run on real Ray; nothing of Ray may be left when it is gone."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from clients.kubectl import Kubectl, find_kubectl
from fairway.testing.servers import Server

MACHINE = ("--cpus", "16", "--memory", "64Gi", "--gpus", "8")
PATIENCE_SECONDS = 400.0
"""Ray needs ten seconds of a free machine to start, and much longer on a busy one."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path / "state", *MACHINE, jobs=True) as running:
        yield running
        running.stop()
        running.end_jobs()
    assert ray_processes(running) == []


@pytest.fixture
def kubectl(server: Server, tmp_path: Path) -> Kubectl:
    return Kubectl(find_kubectl(), server.kubeconfig, tmp_path, variables={"PATH": os.environ["PATH"]})


def eventually(found: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> Any:
    """What is waited for, once it is there."""
    until = time.monotonic() + seconds
    while True:
        if value := found():
            return value
        assert time.monotonic() < until, f"not within {seconds:.0f} s: {what}"
        time.sleep(0.5)


def ray_processes(server: Server) -> list[str]:
    """The processes of Ray that belong to a server."""
    root, found = str(server.state), []
    for process in psutil.process_iter():
        try:
            variables = process.environ()
            if "RAY_AUTH_MODE" in variables and variables.get("FAIRWAY_VOLUME_FAIRWAY_RAY", "").startswith(root):
                found.append(" ".join(process.cmdline())[:200])
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def ray_files(server: Server) -> list[Path]:
    """The temporary files of Ray that belong to a server."""
    # os.walk passes over directories that the runner removes meanwhile.
    return [
        Path(at) / one for at, names, _ in os.walk(server.state / "pods") for one in names if one.startswith("session_")
    ]
