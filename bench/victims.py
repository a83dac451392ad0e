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
from fairway.admission.preemption import classical
from fairway.admission.preemption.search import Search
from fairway.apis.kueue.manifests import load_as
from fairway.apis.kueue.objects import ClusterQueue, LocalQueue, ResourceFlavor

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
        events.FlavorChanged(at=at, flavor=load_as(ResourceFlavor, manifest("ResourceFlavor", "default", {}))),
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
        setup.append(events.QueueChanged(at=at, queue=load_as(ClusterQueue, manifest("ClusterQueue", name, spec))))
        local = load_as(LocalQueue, manifest("LocalQueue", name, {"clusterQueue": name}, NAMESPACE))
        setup.append(events.LocalQueueChanged(at=at, queue=local))
    engine.handle(*setup)
    template = pod_template(1)
    for index in range(RUNNING):
        queue = f"borrower-{index % QUEUES}"
        job = workload(f"run-{index}", queue, template, priority=index % 7, at=at + 1, uid=f"{index:08d}")
        engine.handle(events.WorkloadAdded(at=at + 1, workload=job))
    return engine


def measure(wanted: int, *, shortcuts: bool, rounds: int) -> Victims:
    """The median of several searches for the same preemptor. Evicting those found is not part of it."""
    engine = _full_cohort(shortcuts=shortcuts)
    world = engine._world  # noqa: SLF001 - a search is inside the engine; from outside one sees only its effect
    job = workload("want", "owner", pod_template(wanted), priority=100, at=START + 2, uid="want")
    engine.handle(
        events.LocalQueueChanged(at=START + 2, queue=_stopped("owner")),
        events.WorkloadAdded(at=START + 2, workload=job),
    )
    queue, record = world.queues["owner"], world.records[f"{NAMESPACE}/want"]
    fr = world.frs.get("default", "cpu")
    spent, found = [], 0
    for _ in range(rounds):
        queue.tree.losses.clear()
        search = Search(
            tree=queue.tree,
            queue=queue,
            record=record,
            contested=frozenset((fr,)),
            requests=((fr, wanted * 1000),),
            now=START + 2,
            minimum_run=0,
        )
        begun = time.process_time()
        found = len(classical.find_targets(search, shortcut=shortcuts))
        spent.append(time.process_time() - begun)
    return Victims(len(queue.tree.victims), wanted, found, sorted(spent)[rounds // 2])


def _stopped(name: str) -> LocalQueue:
    spec: dict[str, object] = {"clusterQueue": name, "stopPolicy": "Hold"}
    return load_as(LocalQueue, manifest("LocalQueue", name, spec, NAMESPACE))
