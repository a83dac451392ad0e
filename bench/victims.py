"""What one search for victims costs among ten thousand running workloads.

Ten queues of a cohort hold a thousand workloads each, all borrowed from an eleventh, which now wants its quota back:
first a little of it, then half of it, then all of it. The general search and the shortcut are measured side by side.
"""

from __future__ import annotations

import time
from typing import NamedTuple

from bench.scenario import NAMESPACE, START, manifest, pod_template, workload
from fairway.admission import events
from fairway.admission.config import Config
from fairway.admission.engine import Engine
from fairway.admission.instructions import Evict
from fairway.model.manifests import load

QUEUES = 10
RUNNING = 10_000


class Victims(NamedTuple):
    running: int
    wanted: int
    evicted: int
    seconds: float


def _full_cohort(*, shortcuts: bool) -> Engine:
    engine = Engine(Config(), shortcuts=shortcuts)
    at = START
    setup: list[events.Event] = [
        events.NamespaceChanged(at=at, name=NAMESPACE, labels={}),
        events.FlavorChanged(at=at, flavor=load(manifest("ResourceFlavor", "default", {}))),  # type: ignore[arg-type]
    ]
    for index in range(QUEUES + 1):
        name = "owner" if index == QUEUES else f"borrower-{index}"
        quota = {"name": "cpu", "nominalQuota": str(RUNNING if index == QUEUES else 0)}
        spec: dict[str, object] = {
            "cohortName": "all",
            "namespaceSelector": {},
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}],
        }
        setup.append(events.QueueChanged(at=at, queue=load(manifest("ClusterQueue", name, spec))))  # type: ignore[arg-type]
        local = load(manifest("LocalQueue", name, {"clusterQueue": name}, NAMESPACE))
        setup.append(events.LocalQueueChanged(at=at, queue=local))  # type: ignore[arg-type]
    engine.handle(*setup)
    template = pod_template(1)
    for index in range(RUNNING):
        queue = f"borrower-{index % QUEUES}"
        job = workload(f"run-{index}", queue, template, priority=index % 7, at=at + 1, uid=f"{index:08d}")
        engine.handle(events.WorkloadAdded(at=at + 1, workload=job))
    return engine


def measure(wanted: int, *, shortcuts: bool, rounds: int) -> Victims:
    """The median of several searches, each for a new preemptor against the same ten thousand."""
    engine = _full_cohort(shortcuts=shortcuts)
    world = engine._world  # noqa: SLF001 - one search is inside the engine; from outside one sees only its effect
    queue = world.queues["owner"]
    template = pod_template(wanted)
    spent = []
    evicted: list[str] = []
    for index in range(rounds):
        job = workload(f"want-{index}", "owner", template, priority=100, at=START + 2, uid=f"w{index}")
        begun = time.process_time()
        instructions = engine.handle(events.WorkloadAdded(at=START + 2, workload=job))
        spent.append(time.process_time() - begun)
        evicted = [each.key for each in instructions if isinstance(each, Evict)]
        engine.handle(events.WorkloadDeleted(at=START + 2, key=f"{NAMESPACE}/want-{index}"))
        for key in evicted:
            engine.handle(events.WriteFailed(at=START + 2, key=key))
    return Victims(len(world.forest.tree_of(queue).victims), wanted, len(evicted), sorted(spent)[rounds // 2])
