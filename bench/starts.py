"""``python -m bench.starts``: the simulator's speed, errors of expected starts, and what a server did.

The trace is made up: 60 users whose jobs have names, sizes and run times of their own (lognormal around a middle of
each name), submitted at random at 98 % of what the machine can do. The server is real and has quick jobs.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from datetime import datetime
from typing import Any, Final

import msgspec

from bench.api.servers import fairway, scratch
from bench.api.wire import Session
from bench.table import Line, isolated, main, tell
from fairway.admission.config import Config
from fairway.simulate.jobs import TraceJob
from fairway.simulate.playing import trace_scenario
from fairway.simulate.replay import ReplayedForecasts, replay
from fairway.simulate.scenario import PreparedScenario, Scenario
from fairway.simulate.traces import JobTrace, one_queue

GOAL_SECONDS: Final = 60.0
GOAL_IN_RANGE: Final = 0.6
_CPUS: Final = 1024
_LOAD: Final = 0.98
"""The part of what the machine can do."""

_API: Final = "/apis/fairway.dev/v1alpha1"
_PATIENCE_SECONDS: Final = 300.0


def made_up(jobs: int, seed: int = 1) -> Scenario:
    """A trace of so many jobs on a machine of 1 024 CPUs."""
    draw = random.Random(seed)
    names = [
        (f"user-{user}", f"task-{'abcdefgh'[kind]}", 2 ** draw.randrange(7), draw.lognormvariate(6.5, 1.2))
        for user in range(60)
        for kind in range(draw.randrange(1, 4))
    ]
    found, area = [], 0.0
    for number in range(jobs):
        user, name, cpus, middle = draw.choice(names)
        seconds = round(min(2 * 86400.0, middle * draw.lognormvariate(0, 0.5)), 1)
        area += cpus * seconds
        found.append((user, f"{name}-{number}", cpus, seconds))
    span = area / _CPUS / _LOAD
    arrivals = sorted(round(draw.uniform(0, span), 3) for _ in range(jobs))
    trace = JobTrace(
        jobs=[
            TraceJob(
                name=name, queue="default", user=user, submitted=at, seconds=seconds, requests=(("cpu", str(cpus)),)
            )
            for at, (user, name, cpus, seconds) in zip(arrivals, found, strict=True)
        ],
        objects=one_queue({"cpu": str(_CPUS)}, ["default"]),
    )
    return trace_scenario(trace, config=Config(requeue_batch_seconds=0.0))[0]


def played(jobs: int) -> tuple[float, int]:
    """CPU seconds for a trace, and how many of its jobs ended."""
    scenario = made_up(jobs)
    begun = time.process_time()
    player = PreparedScenario.of(scenario).player()
    player.run()
    return time.process_time() - begun, sum(run.ended is not None for run in player.runs.values())


def errors(jobs: int) -> ReplayedForecasts | None:
    return replay(made_up(jobs, seed=2))


def _speed_line(scale: int) -> Line:
    jobs = 100_000 // scale
    (seconds, ended), memory = isolated(played, jobs)
    if ended != jobs:
        raise AssertionError(f"{jobs - ended} jobs of the trace did not end")
    what = f"{jobs} jobs of a trace, played"
    return Line(what, f"{seconds:.1f} s of CPU", f"under {GOAL_SECONDS:.0f} s", seconds < GOAL_SECONDS, memory)


def _error_lines(scale: int) -> list[Line]:
    found, memory = isolated(errors, 3_000 // scale)
    if found is None:
        return [Line("expected starts on held-out history", "no job waited", "", None, memory)]
    figure = f"median {found.median_seconds:.0f} s, p90 {found.p90_seconds:.0f} s"
    what = f"error of {found.compared} expected starts, held out"
    better = found.median_seconds < found.naive_seconds
    return [
        Line(what, figure, f"below {found.naive_seconds:.0f} s", better, memory),
        Line("  their median wait from then", f"{found.median_wait_seconds:.0f} s", "", None, 0),
        Line(
            "  within the range given",
            f"{found.in_range:.0%}, {found.median_range_seconds:.0f} s wide",
            "60 %",
            found.in_range >= GOAL_IN_RANGE,
            0,
        ),
    ]


# Against a server


def _submit(session: Session, jobs: int) -> None:
    draw = random.Random(3)
    for number in range(jobs):
        seconds = draw.randrange(2, 7)
        task = {
            "run": f"exec sleep {seconds}",
            "resources": {"cpus": draw.choice([1, 1, 2])},
            "max_duration": seconds + 1,
        }
        name = f"quick-{number}"
        spec = {"name": name, "queue": "default", "tasks": [task]}
        session.ask(
            "POST",
            f"{_API}/namespaces/default/managedjobs",
            msgspec.json.encode({"metadata": {"name": name}, "spec": spec}),
        )


def _jobs(session: Session) -> dict[str, dict[str, Any]]:
    found = msgspec.json.decode(session.ask("GET", f"{_API}/namespaces/default/managedjobs"))
    return {one["metadata"]["name"]: one.get("status") or {} for one in found["items"]}


def _server_lines(scale: int) -> list[Line]:
    jobs = 60 // scale
    with scratch() as directory, fairway(directory / "state", jobs=True) as server, Session(server.target) as session:
        _submit(session, jobs)
        body = msgspec.json.encode({"spec": {"limit": 5000}})
        answer = msgspec.json.decode(session.ask("POST", f"{_API}/simulations", body))
        status = answer["status"]
        foreseen = {
            job["owner"]["name"]: datetime.fromisoformat(job["before"]["start"]).timestamp()
            for job in status["jobs"]
            if job["owner"] and job["before"]["start"] and not job["before"]["running"]
        }
        tell(f"{len(foreseen)} starts foreseen in {status['computedSeconds']} s of CPU")
        until = time.monotonic() + _PATIENCE_SECONDS
        while any(not one.get("endedAt") for one in _jobs(session).values()):
            if time.monotonic() > until:
                raise TimeoutError("the jobs did not end")
            time.sleep(0.5)
        real = {name: datetime.fromisoformat(one["startedAt"]).timestamp() for name, one in _jobs(session).items()}
        memory = server.memory_mb
    off = sorted(abs(real[name] - at) for name, at in foreseen.items())
    at = datetime.fromisoformat(status["at"]).timestamp()
    waits = statistics.median(real[name] - at for name in foreseen)
    order = sorted(foreseen, key=lambda name: (foreseen[name], name))
    pairs = [(a, b) for place, a in enumerate(order) for b in order[place + 1 :] if foreseen[b] - foreseen[a] > 1]
    agreed = sum(real[a] <= real[b] for a, b in pairs) / max(1, len(pairs))
    figure = f"median {statistics.median(off):.1f} s, p90 {off[int(0.9 * (len(off) - 1))]:.1f} s"
    return [
        Line(f"simulator against a server, {len(foreseen)} quick jobs", figure, "", None, memory),
        Line("  their median wait", f"{waits:.1f} s", "", None, 0),
        Line("  pairs that started in the foreseen order", f"{agreed:.0%}", "90 %", agreed >= 0.9, 0),
    ]


def lines(scale: int) -> list[Line]:
    """The lines of the table."""
    return [_speed_line(scale), *_error_lines(scale), *_server_lines(scale)]


if __name__ == "__main__":
    sys.exit(main("bench.starts", __doc__, lines))
