"""From the create of a RayJob to its driver's first line, and the memory of it, beside Ray started by hand.

    make bench-ray

By hand: `ray start --head`, and `ray job submit` as soon as Ray answers. Both have the same interpreter, sizes and
settings. Memory is that of all processes of Ray, the submitter and the driver, without what they share twice.
"""

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from fairway.controllers.ray.machine import is_free
from fairway.ray import commands
from fairway.ray.commands import HeadPorts
from fairway.testing.servers import Server

ROUNDS = 3
PATIENCE_SECONDS = 300
PROGRAMS = Path(sys.executable).parent
RESOURCES = {"limits": {"cpu": "1", "memory": "1Gi"}}
TOKEN = "0123456789abcdef0123456789abcdef"  # noqa: S105 - of clusters that live for a minute
_DRIVER = """\
import pathlib, time
pathlib.Path({place!r}, "began").touch()
import ray
ray.init()
pathlib.Path({place!r}, "joined").touch()
time.sleep(3600)
"""


def main() -> None:
    ways = {"ray start by hand": _by_hand, "RayJob": _rayjob}
    found: dict[str, list[tuple[float, float]]] = {title: [] for title in ways}
    with tempfile.TemporaryDirectory(prefix="fwb-") as directory:
        for number in range(ROUNDS):  # in turn: a busy machine is so for both
            for position, (title, measure) in enumerate(ways.items()):
                place = Path(directory, f"{number}{position}")
                place.mkdir()
                (place / "driver.py").write_text(_DRIVER.format(place=str(place)))
                found[title].append(measure(place))
    print(f"{'':24}{'first line':>12}{'memory':>12}")
    for title, rounds in found.items():
        seconds, megabytes = (sorted(column)[ROUNDS // 2] for column in zip(*rounds, strict=True))
        print(f"{title:24}{seconds:10.1f} s{megabytes:9.0f} MB")


def _by_hand(place: Path) -> tuple[float, float]:
    ports = HeadPorts(*commands.choose_ports(len(HeadPorts._fields), os.getpid(), is_free))
    own = {**commands.head_parameters(), **commands.port_parameters(ports), "temp-dir": str(place)}
    address = f"http://{commands.ADDRESS}:{ports.dashboard}"
    environment = {
        **os.environ,
        **commands.environment(),
        "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
        "RAY_AUTH_TOKEN": TOKEN,
        "RAY_TMPDIR": str(place),
    }
    began = time.monotonic()
    start = commands.ray_start(commands.resource_parameters(RESOURCES), own).split()
    submit = ["ray", "job", "submit", "--address", address, "--", "python", str(place / "driver.py")]
    with _process(start, environment):
        _until(lambda: _listens(ports.dashboard) and _listens(ports.agent), "Ray")
        with _process(submit, environment):
            return _measured(place, began)


def _rayjob(place: Path) -> tuple[float, float]:
    template = {"spec": {"containers": [{"name": "ray", "image": "ray", "resources": RESOURCES}]}}
    job: dict[str, Any] = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "bench", "namespace": "default"},
        "spec": {
            "entrypoint": f"python {place / 'driver.py'}",
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": {"headGroupSpec": {"rayStartParams": {}, "template": template}},
        },
    }
    with Server(place / "state", "--cpus", "8", "--memory", "16Gi", jobs=True) as server:
        try:
            began = time.monotonic()
            answer = server.call("POST", "/apis/ray.io/v1/namespaces/default/rayjobs", job)
            if answer.code != 201:
                raise RuntimeError(f"{answer.code}: {answer.body}")
            return _measured(place, began)
        finally:
            server.stop()
            server.end_jobs()


def _measured(place: Path, began: float) -> tuple[float, float]:
    """Seconds until the driver's first line, and the memory once it has joined Ray, in MB."""
    _until((place / "began").exists, "the driver")
    seconds = time.monotonic() - began
    _until((place / "joined").exists, "the driver's ray.init")
    return seconds, sum(_memory(process) for process in _processes(place)) / 1e6


def _until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {PATIENCE_SECONDS} s: {what}")
        time.sleep(0.02)


def _listens(port: int) -> bool:
    with suppress(OSError):
        socket.create_connection((commands.ADDRESS, port), 1).close()
        return True
    return False


def _processes(place: Path) -> Iterator[psutil.Process]:
    """Those of Ray whose variables name a file in this directory."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            found = process.environ()
            if "RAY_AUTH_MODE" in found and any(value.startswith(str(place)) for value in found.values()):
                yield process


def _memory(process: psutil.Process) -> int:
    with suppress(psutil.Error):
        return int(process.memory_full_info().pss)
    return 0


@contextmanager
def _process(command: list[str], environment: dict[str, str]) -> Iterator[None]:
    """A process, and whatever it has started, for a while."""
    process = subprocess.Popen(  # noqa: S603 - our own command
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield
    finally:
        process.kill()
        process.wait()
        for left in _processes(Path(environment["RAY_TMPDIR"])):
            with suppress(psutil.Error):
                left.kill()


if __name__ == "__main__":
    main()
