"""Kueue's own scalability scenarios, played against the engine in virtual time.

Every ClusterQueue gets small, medium and large workloads at a steady pace; the clock jumps from event to event,
admitted workloads finish after their run time, evicted ones give their quota back at once and start over when they
are admitted again.
"""

from __future__ import annotations

from datetime import UTC, datetime
from heapq import heappop, heappush
from typing import NamedTuple

from fairway.admission import events
from fairway.admission.config import Config
from fairway.admission.engine import Engine
from fairway.admission.instructions import Admit, Evict, Instruction
from fairway.apis.kueue.manifests import load_as
from fairway.apis.kueue.objects import (
    ClusterQueue,
    LocalQueue,
    Metadata,
    PodSet,
    PodTemplate,
    ResourceFlavor,
    Workload,
    WorkloadSpec,
)

START = 1_700_000_000.0
NAMESPACE = "bench"


class Kind(NamedTuple):
    """Workloads of one size: how many a queue gets, how often, how long they run."""

    name: str
    jobs: int
    cpus: int
    priority: int
    every: float
    runs: float


LARGE = (
    Kind("small", 35, 1, 50, 0.060, 0.150),
    Kind("medium", 11, 5, 100, 0.300, 0.350),
    Kind("large", 4, 20, 200, 0.700, 0.700),
)


class Result(NamedTuple):
    workloads: int
    finished: int
    admissions: int
    evictions: int
    virtual_seconds: float
    batches: int


def manifest(kind: str, name: str, spec: dict[str, object], namespace: str = "") -> dict[str, object]:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, "metadata": metadata, "spec": spec}


def queue_manifest(name: str, cohort: str) -> dict[str, object]:
    quota = {"name": "cpu", "nominalQuota": "20", "borrowingLimit": "100"}
    return manifest(
        "ClusterQueue",
        name,
        {
            "cohortName": cohort,
            "namespaceSelector": {},
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}],
        },
    )


def set_up(engine: Engine, cohorts: int, queues: int) -> list[str]:
    """The queues of the scenario; their LocalQueues' names."""
    at = START
    setup: list[events.Event] = [
        events.NamespaceChanged(at=at, name=NAMESPACE, labels={}),
        events.FlavorChanged(at=at, flavor=load_as(ResourceFlavor, manifest("ResourceFlavor", "default", {}))),
    ]
    names = []
    for cohort in range(cohorts):
        for queue in range(queues):
            name = f"cq-{cohort}-{queue}"
            names.append(name)
            setup.append(
                events.QueueChanged(at=at, queue=load_as(ClusterQueue, queue_manifest(name, f"cohort-{cohort}")))
            )
            local = load_as(LocalQueue, manifest("LocalQueue", name, {"clusterQueue": name}, NAMESPACE))
            setup.append(events.LocalQueueChanged(at=at, queue=local))
    engine.handle(*setup)
    return names


def pod_template(cpus: int) -> PodTemplate:
    container = {"name": "main", "image": "job", "resources": {"requests": {"cpu": str(cpus)}}}
    return PodTemplate(spec={"containers": [container], "restartPolicy": "Never"})


def workload(name: str, queue: str, template: PodTemplate, *, priority: int, at: float, uid: str) -> Workload:
    return Workload(
        metadata=Metadata(name=name, namespace=NAMESPACE, uid=uid, creation_timestamp=datetime.fromtimestamp(at, UTC)),
        spec=WorkloadSpec(
            pod_sets=(PodSet(name="main", count=1, template=template),), queue_name=queue, priority=priority
        ),
    )


class Simulation:
    """Events by their time; those of the same moment are handed over together."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.now = START
        self.runs: dict[str, float] = {}
        self.attempt: dict[str, int] = {}
        self.agenda: list[tuple[float, int, str, object]] = []
        self.sequence = 0
        self.admissions = self.evictions = self.finished = self.batches = 0

    def at(self, when: float, what: str, subject: object) -> None:
        self.sequence += 1
        heappush(self.agenda, (when, self.sequence, what, subject))

    def run(self) -> None:
        while True:
            wakeup = self.engine.next_wakeup
            when = self.agenda[0][0] if self.agenda else None
            if wakeup is not None and (when is None or wakeup < when):
                self.now = max(self.now, wakeup)
                self._obey(self.engine.handle(events.TimePassed(at=self.now)))
                continue
            if when is None:
                return
            self.now = when
            batch = []
            while self.agenda and self.agenda[0][0] == when:
                _, _, what, subject = heappop(self.agenda)
                event = self._event(what, subject)
                if event is not None:
                    batch.append(event)
            self.batches += 1
            self._obey(self.engine.handle(*batch))

    def _event(self, what: str, subject: object) -> events.Event | None:
        if what == "arrive":
            assert isinstance(subject, Workload)  # noqa: S101 - the agenda pairs them
            return events.WorkloadAdded(at=self.now, workload=subject)
        assert isinstance(subject, tuple)  # noqa: S101 - the agenda pairs them
        key, attempt = subject
        if self.attempt.get(key) != attempt:
            return None
        self.finished += 1
        del self.attempt[key]
        return events.WorkloadFinished(at=self.now, key=key)

    def _obey(self, instructions: list[Instruction]) -> None:
        while instructions:
            released: list[events.Event] = []
            for each in instructions:
                if isinstance(each, Admit):
                    self.admissions += 1
                    self.attempt[each.key] = self.admissions
                    self.at(round(self.now + self.runs[each.key], 6), "finish", (each.key, self.admissions))
                elif isinstance(each, Evict):
                    self.evictions += 1
                    self.attempt.pop(each.key, None)
                    released.append(events.QuotaReleased(at=self.now, key=each.key))
            instructions = self.engine.handle(*released) if released else []


def prepare(cohorts: int, queues: int, config: Config) -> Simulation:
    """The scenario with all its workloads on the agenda, ready to run."""
    engine = Engine(config)
    names = set_up(engine, cohorts, queues)
    simulation = Simulation(engine)
    templates = {kind.name: pod_template(kind.cpus) for kind in LARGE}
    number = 0
    for kind in LARGE:
        for index in range(kind.jobs):
            at = round(START + kind.every * (index + 1), 6)
            for name in names:
                number += 1
                key = f"{name}-{kind.name}-{index}"
                job = workload(key, name, templates[kind.name], priority=kind.priority, at=at, uid=f"{number:08d}")
                simulation.runs[f"{NAMESPACE}/{key}"] = kind.runs
                simulation.at(at, "arrive", job)
    return simulation


def play(simulation: Simulation) -> Result:
    total = len(simulation.runs)
    simulation.run()
    return Result(
        total,
        simulation.finished,
        simulation.admissions,
        simulation.evictions,
        simulation.now - START,
        simulation.batches,
    )
