"""From the create of a RayJob to its driver's first line, and the memory that it takes, beside Ray started by hand.

    make bench-ray

By hand: `ray start --head` and `ray job submit` one after the other, as a script would do it. Both use the same
interpreter and the same sizes. Ray itself takes nearly all of the time; the difference is the queue's and the runner's.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from fairway.controllers.ray.machine import is_free, temp_root
from fairway.ray import commands
from fairway.ray.commands import HeadPorts
from fairway.testing.servers import Server

ROUNDS = 3
PROGRAMS = Path(sys.executable).parent
RESOURCES = {"limits": {"cpu": "1", "memory": "1Gi"}}
TOKEN = "0123456789abcdef0123456789abcdef"  # noqa: S105 - of clusters that live for a minute


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="fwb-") as directory:
        root = Path(directory)
        print(f"{'':24}{'first line':>12}{'memory':>12}")
        for title, measure in (("ray start by hand", _by_hand), ("RayJob", _rayjob)):
            found = [measure(root / f"{title[:3]}{number}") for number in range(ROUNDS)]
            seconds, megabytes = (sorted(one[part] for one in found)[len(found) // 2] for part in (0, 1))
            print(f"{title:24}{seconds:10.1f} s{megabytes:9.0f} MB")


def _program(mark: Path) -> str:
    """A driver that joins Ray, says that it runs, and waits."""
    return f"import pathlib, ray, time; ray.init(); pathlib.Path('{mark}').touch(); time.sleep(3600)"


def _until(mark: Path, began: float) -> float:
    while not mark.exists():
        if time.monotonic() - began > 300:
            raise TimeoutError(f"{mark} did not appear within 300 s")
        time.sleep(0.05)
    return time.monotonic() - began


def _memory(variable: str, value: str) -> float:
    """The unshared memory of all processes that have a variable, in MB."""
    total = 0
    for process in psutil.process_iter():
        try:
            if process.environ().get(variable, "").startswith(value):
                total += process.memory_full_info().pss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return total / 1e6


def _by_hand(place: Path) -> tuple[float, float]:
    place.mkdir()
    mark, ports = place / "mark", HeadPorts(*commands.choose_ports(5, os.getpid(), is_free))
    started = commands.ray_start(commands.resource_parameters(RESOURCES), commands.head_parameters(ports, str(place)))
    environment = {**os.environ, **commands.environment(str(place)), "RAY_AUTH_TOKEN": TOKEN}
    environment["PATH"] = f"{PROGRAMS}:{environment['PATH']}"
    began = time.monotonic()
    with _process(started.split(), environment):
        address = f"http://{commands.ADDRESS}:{ports.dashboard}"
        submit = ["ray", "job", "submit", "--address", address, "--no-wait", "--", "python", "-c", _program(mark)]
        while subprocess.run(submit, env=environment, capture_output=True, check=False).returncode:  # noqa: S603
            time.sleep(0.2)
        seconds = _until(mark, began)
        return seconds, _memory("RAY_TMPDIR", str(place))


@contextmanager
def _process(command: list[str], environment: dict[str, str]) -> Iterator[None]:
    process = subprocess.Popen(  # noqa: S603 - our own command
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield
    finally:
        process.terminate()
        process.wait()
        for left in psutil.process_iter():
            try:
                if left.environ().get("RAY_TMPDIR") == environment["RAY_TMPDIR"]:
                    left.kill()
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue


def _rayjob(place: Path) -> tuple[float, float]:
    place.mkdir()
    mark, template = place / "mark", {"spec": {"containers": [{"name": "ray", "image": "ray", "resources": RESOURCES}]}}
    program = place / "driver.py"
    program.write_text(_program(mark))
    job: dict[str, Any] = {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": "bench", "namespace": "default"},
        "spec": {
            "entrypoint": f"python {program}",
            "shutdownAfterJobFinishes": True,
            "rayClusterSpec": {"headGroupSpec": {"rayStartParams": {}, "template": template}},
        },
    }
    with Server(place / "state", "--cpus", "8", "--memory", "16Gi", jobs=True) as server:
        began = time.monotonic()
        answer = server.call("POST", "/apis/ray.io/v1/namespaces/default/rayjobs", job)
        if answer.code != 201:
            raise RuntimeError(f"{answer.code}: {answer.body}")
        seconds = _until(mark, began)
        used = _memory("RAY_TMPDIR", str(temp_root(server.state)))
        server.stop()
        server.end_jobs()
    return seconds, used


if __name__ == "__main__":
    main()
