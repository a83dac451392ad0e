"""Kueue's generator files (`test/performance/scheduler/configs/*/generator.yaml`) as a trace.

Cohorts with ClusterQueues, and for each ClusterQueue sets of Workloads that are created one interval apart. The
reader takes them as Kueue's own runner does; what concerns topologies is noted and not played.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec
from msgspec import Struct

from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import Quantity
from fairway.simulate.jobs import TraceJob
from fairway.simulate.traces import BadTraceError, JobTrace, manifest, namespace_object

_FLAVOR: Final = "rf"
_RESOURCE: Final = "cpu"
_MOST_JOBS: Final = 1_000_000

_Amount = int | float | str


class WorkloadTemplate(Struct, rename="camel"):
    """One Workload of a set."""

    class_name: str = ""
    runtime_ms: float = 0
    priority: int = 0
    request: _Amount = 0
    pod_count: int = 1
    tas_constraint: str = msgspec.field(name="tasConstraint", default="")


class WorkloadsSet(Struct, rename="camel"):
    """Workloads that are created one interval apart, `count` times each."""

    count: int = 0
    creation_interval_ms: float = 0
    workloads: list[WorkloadTemplate] = []


class QueuesSet(Struct, rename="camel"):
    """Equal ClusterQueues."""

    class_name: str = ""
    count: int = 0
    nominal_quota: _Amount = 0
    borrowing_limit: _Amount | None = None
    reclaim_within_cohort: str = "Never"
    within_cluster_queue: str = "Never"
    workloads_sets: list[WorkloadsSet] = []


class CohortSet(Struct, rename="camel"):
    """Equal cohorts."""

    class_name: str = ""
    count: int = 0
    queues_sets: list[QueuesSet] = []


class GeneratorFile(Struct, rename="camel"):
    """A generator file."""

    cohorts: list[CohortSet]
    topology: Any = None


def read_generator(document: Any) -> JobTrace:
    """The trace that a generator file describes; times count from 0."""
    try:
        config = msgspec.convert(document, GeneratorFile)
    except msgspec.ValidationError as problem:
        raise BadTraceError(f"not a generator file of Kueue's performance tests: {problem}") from None
    if not config.cohorts:
        raise BadTraceError("cohorts: [] is empty; a generator file has at least one cohort")
    objects = [manifest("ResourceFlavor", _FLAVOR, {})]
    jobs: list[TraceJob] = []
    topology = config.topology is not None
    for cohort in config.cohorts:
        for number in range(cohort.count):
            name = f"{cohort.class_name}-{number}"
            for queues in cohort.queues_sets:
                topology |= _has_topology(queues)
                for index in range(queues.count):
                    queue = f"{name}-{queues.class_name}-{index}"
                    objects += _queue_objects(queue, name, queues)
                    jobs += _jobs(queue, queues)
                    if len(jobs) > _MOST_JOBS:
                        raise BadTraceError(f"more than {_MOST_JOBS} workloads; lower the counts")
    notes = ["topology constraints are not played: quota alone decides"] if topology else []
    jobs.sort(key=lambda job: job.submitted)
    return JobTrace(jobs=jobs, objects=objects, notes=notes)


def _has_topology(queues: QueuesSet) -> bool:
    return any(one.tas_constraint for group in queues.workloads_sets for one in group.workloads)


def _queue_objects(name: str, cohort: str, queues: QueuesSet) -> Iterator[Manifest]:
    quota: dict[str, Any] = {"name": _RESOURCE, "nominalQuota": _amount(queues.nominal_quota, "nominalQuota")}
    if queues.borrowing_limit not in {None, ""}:
        quota["borrowingLimit"] = _amount(queues.borrowing_limit or 0, "borrowingLimit")
    spec = {
        "cohortName": cohort,
        "namespaceSelector": {},
        "preemption": {
            "reclaimWithinCohort": queues.reclaim_within_cohort,
            "withinClusterQueue": queues.within_cluster_queue,
        },
        "resourceGroups": [{"coveredResources": [_RESOURCE], "flavors": [{"name": _FLAVOR, "resources": [quota]}]}],
    }
    yield namespace_object(name)
    yield manifest("ClusterQueue", name, spec)
    yield manifest("LocalQueue", name, {"clusterQueue": name}, name)


def _jobs(queue: str, queues: QueuesSet) -> Iterator[TraceJob]:
    for number, group in enumerate(queues.workloads_sets):
        requests = [((_RESOURCE, _amount(one.request, "request")),) for one in group.workloads]
        moment = 0
        for index in range(group.count):
            for place, one in enumerate(group.workloads):
                moment += 1
                yield TraceJob(
                    name=f"{one.class_name}-{number}-{index}-{place}",
                    namespace=queue,
                    queue=queue,
                    user=one.class_name,
                    submitted=group.creation_interval_ms * moment / 1000.0,
                    seconds=one.runtime_ms / 1000.0,
                    priority=one.priority,
                    requests=requests[place],
                    pods=max(1, one.pod_count),
                )


def _amount(value: _Amount, field: str) -> str:
    try:
        return str(Quantity.parse(value))
    except ValueError as problem:
        raise BadTraceError(f"{field}: {value!r} is not an amount: {problem}") from None
