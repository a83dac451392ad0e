"""What one change costs while a hundred thousand workloads wait.

Every queue is full and has a long line of waiting workloads, in several sizes. One running workload finishes: somebody
gets its place, everybody else waits on. Measured is all of it: the event, the wake-up and every cycle that follows.
"""

from __future__ import annotations

import gc
import time
from typing import NamedTuple

from bench.scenario import NAMESPACE, START, pod_template, set_up, workload
from fairway.admission import events
from fairway.admission.config import Config
from fairway.admission.engine import Engine
from fairway.admission.instructions import Admit

NOMINAL = 20


class Parked(NamedTuple):
    waiting: int
    admitted: int
    cycles: int
    seconds: float


def measure(cohorts: int, queues: int, waiting: int, rounds: int) -> Parked:
    """The median over several changes."""
    engine = Engine(Config())
    names = set_up(engine, cohorts, queues)
    at = START + 1
    number = 0
    running = []
    template = pod_template(5)
    for index in range(NOMINAL // 5):
        for name in names:
            number += 1
            key = f"{name}-run-{index}"
            running.append(f"{NAMESPACE}/{key}")
            job = workload(key, name, template, priority=1000, at=at, uid=f"{number:08d}")
            engine.handle(events.WorkloadAdded(at=at, workload=job))
    at += 1
    templates = [pod_template(cpus) for cpus in range(5, 15)]
    for index in range(waiting // len(names)):
        for name in names:
            number += 1
            job = workload(
                f"{name}-wait-{index}",
                name,
                templates[index % len(templates)],
                priority=100 - index % len(templates),
                at=at,
                uid=f"{number:08d}",
            )
            engine.handle(events.WorkloadAdded(at=at, workload=job))
    engine.handle(events.TimePassed(at=at + 10))
    at += 20
    gc.collect()
    gc.freeze()
    spent, admitted, cycles = [], 0, 0
    rounds = min(rounds, len(running))
    for index in range(rounds):
        before = _cycles(engine)
        begun = time.process_time()
        instructions = engine.handle(events.WorkloadFinished(at=at, key=running[index * 7 % len(running)]))
        instructions += engine.handle(events.TimePassed(at=at + 2))
        spent.append(time.process_time() - begun)
        admitted += sum(isinstance(each, Admit) for each in instructions)
        cycles += _cycles(engine) - before
        at += 10
    return Parked(number - len(running), admitted, cycles // rounds, sorted(spent)[rounds // 2])


def _cycles(engine: Engine) -> int:
    return sum(tree.cycle for tree in engine._world.forest)  # noqa: SLF001 - cycles are not to be seen from outside
