"""``python -m bench.jobs``: real jobs on this machine, from the submit to the end, beside what else is installed.

Each job is a batch/v1 Job that is submitted over HTTP and is durable when the submit returns. What it runs is a program
that ends at once, or one that touches a file, whose time then tells when it ran.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import uvloop

from bench import peers
from bench.api.servers import Server, fairway, scratch
from bench.api.wire import Session, Target
from bench.connections import Pool, Stream
from bench.table import Line, main, middle_and_all

SLOTS: Final = 8
GOAL_SECONDS: Final = 6.0
GOAL_START_SECONDS: Final = 0.030
GOAL_PREEMPTION_SECONDS: Final = 0.150
_JOBS: Final = "/apis/batch/v1/namespaces/default/jobs"
_PODS: Final = "/api/v1/namespaces/default/pods"
_KUEUE: Final = "/apis/kueue.x-k8s.io/v1beta2"
_SUBMITTERS: Final = 8
_ROUNDS: Final = 3
_PATIENCE_SECONDS: Final = 120.0

_encode = msgspec.json.Encoder().encode


class _Condition(msgspec.Struct):
    type: str
    status: str


class _Status(msgspec.Struct):
    phase: str = ""
    conditions: list[_Condition] = []


class _Metadata(msgspec.Struct):
    name: str = ""


class _Job(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    status: _Status = msgspec.field(default_factory=_Status)


class _Event(msgspec.Struct):
    type: str
    object: _Job


_decode = msgspec.json.Decoder(_Event).decode


def job(name: str, command: list[str], cpus: int = 1, priority: str = "") -> bytes:
    """A Job in the queue that is there without configuration."""
    labels = {"kueue.x-k8s.io/queue-name": "default"}
    if priority:
        labels["kueue.x-k8s.io/priority-class"] = priority
    container = {"name": "main", "image": "none", "command": command, "resources": {"requests": {"cpu": str(cpus)}}}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": [container]}
    manifest = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {"backoffLimit": 0, "template": {"spec": pod}},
    }
    return _encode(manifest)


def pod(name: str, command: list[str]) -> bytes:
    """A plain pod in the same queue, as SkyPilot submits its jobs."""
    manifest = msgspec.json.decode(job(name, command))
    metadata, spec = manifest["metadata"], manifest["spec"]["template"]["spec"]
    return _encode({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


def _end_of(found: _Job) -> str:
    """How a job or a pod ended; empty if it has not."""
    if found.status.phase in {"Succeeded", "Failed"}:
        return found.status.phase
    ended = [one.type for one in found.status.conditions if one.status == "True"]
    return "Succeeded" if "Complete" in ended else "Failed" if "Failed" in ended else ""


async def _no_ops(target: Target, path: str, bodies: dict[str, bytes]) -> float:
    """Seconds from the first submit to the end of the last job."""
    left = set(bodies)
    done = asyncio.get_running_loop().create_future()

    def heard(line: bytes) -> None:
        found = _decode(line).object
        end = _end_of(found)
        if end == "Failed":
            raise RuntimeError(f"{found.metadata.name} failed")
        if end:
            left.discard(found.metadata.name)
        if not left and not done.done():
            done.set_result(None)

    pool = Pool(target, _SUBMITTERS)
    await pool.open()
    stream = Stream(target, f"{path}?watch=true&resourceVersion=0", heard)
    await stream.open()
    begun = time.monotonic()
    await asyncio.gather(*(pool.must("POST", path, body) for body in bodies.values()))
    ends: list[asyncio.Future[Any]] = [done, stream.failed]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED, timeout=_PATIENCE_SECONDS)
    seconds = time.monotonic() - begun
    stream.close()
    pool.close()
    if stream.failed.done():
        stream.failed.result()
    if left:
        raise TimeoutError(f"{len(left)} of {len(bodies)} jobs have not ended after {seconds:.0f} s")
    return seconds


def no_ops(target: Target, count: int) -> float:
    """With batch Jobs."""
    names = [f"noop-{number}" for number in range(count)]
    return uvloop.run(_no_ops(target, _JOBS, {name: job(name, ["/bin/true"]) for name in names}))


def no_op_pods(target: Target, count: int) -> float:
    """With plain pods."""
    names = [f"noop-pod-{number}" for number in range(count)]
    return uvloop.run(_no_ops(target, _PODS, {name: pod(name, ["/bin/true"]) for name in names}))


def starts(target: Target, directory: Path, rounds: int) -> list[float]:
    """Seconds from the return of a submit to the moment its program ran, on an idle machine, each time."""
    found = []
    with Session(target) as session:
        for number in range(rounds):
            mark = directory / f"start-{number}"
            session.ask("POST", _JOBS, job(f"start-{number}", ["/usr/bin/touch", str(mark)]))
            submitted = time.time()
            found.append(_touched(mark) - submitted)
            _wait_for_end(session, f"start-{number}")
    return found


def preemptions(target: Target, directory: Path, rounds: int) -> list[float]:
    """The same for a job that needs what another one holds, which ends when it is told to."""
    found = []
    with Session(target) as session:
        for name, value in (("bench-low", 1), ("bench-high", 1000)):
            manifest = {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "WorkloadPriorityClass",
                "metadata": {"name": name},
                "value": value,
            }
            session.ask("POST", f"{_KUEUE}/workloadpriorityclasses", _encode(manifest))
        for number in range(rounds):
            running, mark = directory / f"victim-{number}", directory / f"high-{number}"
            victim = ["/bin/sh", "-c", f"touch {running}; exec sleep 1000"]
            session.ask("POST", _JOBS, job(f"victim-{number}", victim, SLOTS, "bench-low"))
            _touched(running)
            time.sleep(0.2)  # the victim has been running for a while, and the machine is idle again
            high = job(f"high-{number}", ["/usr/bin/touch", str(mark)], SLOTS, "bench-high")
            session.ask("POST", _JOBS, high)
            submitted = time.time()
            found.append(_touched(mark) - submitted)
            _wait_for_end(session, f"high-{number}")
            session.ask("DELETE", f"{_JOBS}/victim-{number}?propagationPolicy=Background")
            time.sleep(0.3)
    return found


def _touched(mark: Path) -> float:
    """When a file appeared: the time that it carries."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        try:
            return mark.stat().st_mtime_ns / 1e9
        except FileNotFoundError:
            time.sleep(0.001)
    raise TimeoutError(f"{mark.name} did not run within {_PATIENCE_SECONDS:.0f} s")


def _wait_for_end(session: Session, name: str) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        found = msgspec.json.decode(session.ask("GET", f"{_JOBS}/{name}"), type=_Job)
        if any(one.type == "Complete" and one.status == "True" for one in found.status.conditions):
            return
        time.sleep(0.01)
    raise TimeoutError(f"{name} did not end within {_PATIENCE_SECONDS:.0f} s")


@contextmanager
def _server(directory: Path) -> Iterator[Server]:
    with fairway(directory, "--cpus", str(SLOTS), "--gpus", "0", jobs=True) as server:
        yield server


class _Rounds(NamedTuple):
    """No-ops on servers of their own, one after the other."""

    jobs: list[float]
    pods: list[float]
    cpu_ms: float
    memory_mb: float


def _play_rounds(directory: Path, count: int) -> _Rounds:
    jobs, pods, cpu_ms, memory = [], [], [], []
    for number in range(_ROUNDS):
        with _server(directory / f"round-{number}") as server:
            used = server.cpu_seconds
            jobs.append(no_ops(server.target, count))
            cpu_ms.append((server.cpu_seconds - used) / count * 1e3)
            memory.append(server.memory_mb)
            pods.append(no_op_pods(server.target, count))
    return _Rounds(jobs, pods, statistics.median(cpu_ms), max(memory))


def lines(scale: int) -> list[Line]:
    """The lines of the table."""
    count, rounds = (1000, 20) if scale == 1 else (100, 3)
    with scratch() as place:
        directory = place.absolute()
        with _server(directory / "state") as server:
            idle = server.memory_mb
            starting = starts(server.target, directory, rounds)
            preempting = preemptions(server.target, directory, max(3, rounds // 2))
        played = _play_rounds(directory, count)
        beside = peers.lines(directory, count, SLOTS)
    start, preemption = statistics.median(starting), statistics.median(preempting)
    return [
        Line(
            f"{count} no-op jobs on {SLOTS} slots, first submit to last end",
            middle_and_all(played.jobs),
            f"{GOAL_SECONDS:.0f} s",
            statistics.median(played.jobs) <= GOAL_SECONDS,
            played.memory_mb,
        ),
        Line("  CPU of the server for each", f"{played.cpu_ms:.1f} ms", "", None, 0),
        Line(
            "  the same with plain pods",
            middle_and_all(played.pods),
            f"{GOAL_SECONDS:.0f} s",
            statistics.median(played.pods) <= GOAL_SECONDS,
            0,
        ),
        Line(
            "from the submit to the process, idle machine",
            f"{start * 1e3:.1f} ms, at most {max(starting) * 1e3:.0f} ms",
            f"{GOAL_START_SECONDS * 1e3:.0f} ms",
            start <= GOAL_START_SECONDS,
            idle,
        ),
        Line(
            "the same where a victim has to end first",
            f"{preemption * 1e3:.1f} ms, at most {max(preempting) * 1e3:.0f} ms",
            f"{GOAL_PREEMPTION_SECONDS * 1e3:.0f} ms",
            preemption <= GOAL_PREEMPTION_SECONDS,
            0,
        ),
        *beside,
    ]


if __name__ == "__main__":
    sys.exit(main("bench.jobs", __doc__, lines))
