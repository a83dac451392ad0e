"""``python -m bench.managed``: what people type, timed as they wait for it, and managed jobs in numbers.

Commands are whole processes, from the start of Python to its end; the median of several is told. The machine of these
jobs has few CPUs, so that most of them wait.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec

from bench.api.servers import Server, fairway, scratch
from bench.api.wire import Refused, Session
from bench.table import Line, main

GOAL_HELP_SECONDS: Final = 0.1
GOAL_QUEUE_SECONDS: Final = 0.25
GOAL_LAUNCH_SECONDS: Final = 0.25
GOAL_MANY_SECONDS: Final = 2.0
GOAL_NOTICED_SECONDS: Final = 1.0
GOAL_MEMORY_MB: Final = 400.0
GOAL_DIFF_SECONDS: Final = 0.5
_MANAGED: Final = "/apis/fairway.dev/v1alpha1/namespaces/default/managedjobs"
_PATIENCE_SECONDS: Final = 120.0
_AT_A_TIME: Final = 1000

_TASK = "resources:\n  cpus: 2\nrun: sleep 1000\n"


class Command:
    """`fairway` on the state directory of a server, with a home of its own."""

    def __init__(self, state: Path, home: Path) -> None:
        self._state, self._home = state, home

    def seconds(self, *words: str) -> float:
        """How long one takes."""
        begun = time.perf_counter()
        done = subprocess.run(  # noqa: S603 - our own command
            [str(Path(sys.executable).with_name("fairway")), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=self._home,
            env={"PATH": os.environ["PATH"], "HOME": str(self._home), "FAIRWAY_STATE": str(self._state)},
            check=False,
        )
        taken = time.perf_counter() - begun
        if done.returncode:
            raise Refused(f"fairway {' '.join(words)} failed: {done.stderr}{done.stdout}")
        return taken

    def median(self, rounds: int, *words: str) -> float:
        return statistics.median(self.seconds(*words) for _ in range(rounds))


def _managed_job(name: str, cpus: int, priority: int) -> bytes:
    task = {"run": "exec sleep 1000", "resources": {"cpus": cpus}}
    return msgspec.json.encode(
        {"metadata": {"name": name}, "spec": {"name": name, "queue": "default", "priority": priority, "tasks": [task]}}
    )


def _phase(session: Session, name: str) -> str:
    found: dict[str, Any] = msgspec.json.decode(session.ask("GET", f"{_MANAGED}/{name}"))
    return str(found["status"].get("phase"))


def _until(session: Session, name: str, phase: str) -> float:
    """When it was first seen there."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if _phase(session, name) == phase:
            return time.perf_counter()
        time.sleep(0.001)
    raise TimeoutError(f"{name} is not {phase} after {_PATIENCE_SECONDS:.0f} s")


def noticed(server: Server, rounds: int) -> list[float]:
    """Seconds from the submit that preempts a managed job until that one says that it is recovering, each time."""
    found = []
    with Session(server.target) as session:
        for number in range(rounds):
            low, high = f"low-{number}", f"high-{number}"
            session.ask("POST", _MANAGED, _managed_job(low, 2, 0))
            _until(session, low, "RUNNING")
            session.ask("POST", _MANAGED, _managed_job(high, 2, 1000))
            submitted = time.perf_counter()
            found.append(_until(session, low, "RECOVERING") - submitted)
            for name in (high, low):
                session.ask("DELETE", f"{_MANAGED}/{name}?propagationPolicy=Background")
            _until_no_pods(session)
    return found


def _until_no_pods(session: Session) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if not msgspec.json.decode(session.ask("GET", "/api/v1/namespaces/default/pods"))["items"]:
            return
        time.sleep(0.01)
    raise TimeoutError("pods are left")


def _settled(server: Server) -> None:
    """Wait until the server has nothing to do: what it was given a moment ago is dealt with."""
    before = server.cpu_seconds
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        threading.Event().wait(0.5)
        now = server.cpu_seconds
        if now - before < 0.02:
            return
        before = now
    raise TimeoutError("the server does not come to rest")


@contextmanager
def _running(directory: Path) -> Iterator[tuple[Server, Command]]:
    home = directory / "home"
    home.mkdir()
    (home / "task.yaml").write_text(_TASK)
    with fairway(directory / "state", "--cpus", "2", "--gpus", "0", jobs=True) as server:
        yield server, Command(server.state, home)


def lines(scale: int) -> list[Line]:
    """The lines of the table."""
    rounds, many, pending = (9, 1000, 10_000) if scale == 1 else (3, 100, 1000)
    with scratch() as place, _running(place.absolute()) as (server, command):
        command.seconds("--help")
        helped = command.median(rounds, "--help")
        noticing = noticed(server, rounds)
        launched = command.median(rounds, "jobs", "launch", "-y", "-d", "task.yaml")
        accepted = command.seconds("jobs", "launch", "-y", "-d", "--num-jobs", str(many), "task.yaml")
        _settled(server)
        listed = command.median(rounds, "jobs", "queue", "--limit", "0")
        waiting = many + rounds
        while waiting < pending:
            command.seconds("jobs", "launch", "-y", "-d", "--num-jobs", str(_AT_A_TIME), "task.yaml")
            waiting += _AT_A_TIME
        _settled(server)
        memory = server.memory_mb
    return [
        _line("`fairway --help`", helped, GOAL_HELP_SECONDS),
        _line(f"`fairway jobs queue` with {many + rounds} jobs", listed, GOAL_QUEUE_SECONDS),
        _line("`fairway jobs launch -d`", launched, GOAL_LAUNCH_SECONDS),
        _line(f"`fairway jobs launch -d --num-jobs {many}`", accepted, GOAL_MANY_SECONDS),
        _line("a managed job notices its preemption", statistics.median(noticing), GOAL_NOTICED_SECONDS),
        Line(
            f"{waiting} managed jobs wait",
            f"{memory:.0f} MB",
            f"{GOAL_MEMORY_MB:.0f} MB",
            memory < GOAL_MEMORY_MB,
            memory,
        ),
        *quota_lines(scale),
    ]


def quota_lines(scale: int) -> list[Line]:
    """How long it takes to compare a definition of many ClusterQueues with the live objects."""
    rounds, organizations = (9, 100) if scale == 1 else (3, 10)
    spec = {
        "flavors": ["default-flavor"],
        "organizations": [
            {
                "name": f"org-{one}",
                "teams": [
                    {"name": f"team-{one}-{two}", "guaranteed": {"cpu": 4, "memory": "8Gi"}, "types": ["training"]}
                    for two in range(10)
                ],
            }
            for one in range(organizations)
        ],
    }
    manifest = {"apiVersion": "fairway.dev/v1alpha1", "kind": "QuotaDefinition", "metadata": {"name": "bench"}}
    with scratch() as place, _running(place.absolute()) as (server, command):
        (place / "home" / "quota.yaml").write_bytes(msgspec.json.encode({**manifest, "spec": spec}))
        command.seconds("quota", "apply", "-y", "quota.yaml")
        _settled(server)
        compared = command.median(rounds, "quota", "diff")
    return [_line(f"`fairway quota diff` on {10 * organizations} ClusterQueues", compared, GOAL_DIFF_SECONDS)]


def _line(what: str, seconds: float, goal: float) -> Line:
    return Line(what, f"{seconds * 1e3:.0f} ms", f"under {goal:g} s", seconds < goal, 0)


if __name__ == "__main__":
    sys.exit(main("bench.managed", __doc__, lines))
