"""Jobs of a simulation: those that arrive in it, and those that were there at its start."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct

from fairway.admission import events
from fairway.apis.kueue.objects import Metadata, PodSet, PodTemplate, Workload, WorkloadSpec

NAMESPACE: Final = "default"


class TraceJob(Struct, frozen=True, gc=False, kw_only=True):
    """A job that is submitted in the course of a simulation."""

    name: str
    queue: str
    submitted: float
    seconds: float
    """How long it runs, once it is started."""

    requests: tuple[tuple[str, str], ...]
    """Of each pod."""

    pods: int = 1
    namespace: str = NAMESPACE
    user: str = ""
    priority: int = 0
    declared: float | None = None
    """How long its owner said that it runs at most."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"


class PresentJob(Struct, frozen=True, gc=False, kw_only=True):
    """A Workload that waits or runs at the start of a simulation."""

    key: str
    arrival: tuple[events.Event, ...]
    """What tells an engine of it."""

    submitted: float
    seconds: float
    """How long it runs in all, once it is started."""

    since: float | None = None
    """When the attempt began that runs; `None` for one that waits."""


class Workloads:
    """Makes the Workloads of trace jobs; equal jobs share their pod sets."""

    def __init__(self) -> None:
        self._pod_sets: dict[tuple[object, ...], tuple[PodSet, ...]] = {}

    def of(self, job: TraceJob, number: int) -> Workload:
        """The Workload of a job; those of the same moment and priority are queued by `number`."""
        created = datetime.fromtimestamp(job.submitted, UTC)
        metadata = Metadata(name=job.name, namespace=job.namespace, uid=f"{number:08d}", creation_timestamp=created)
        spec = WorkloadSpec(pod_sets=self._pods(job.requests, job.pods), queue_name=job.queue, priority=job.priority)
        return Workload(metadata=metadata, spec=spec)

    def _pods(self, requests: tuple[tuple[str, str], ...], count: int) -> tuple[PodSet, ...]:
        key = requests, count
        known = self._pod_sets.get(key)
        if known is None:
            template = PodTemplate(spec=pod_spec(dict(requests)))
            known = self._pod_sets[key] = (PodSet(name="main", count=count, template=template),)
        return known


def pod_spec(requests: Mapping[str, str]) -> dict[str, object]:
    """A pod that asks for this and nothing else."""
    container = {"name": "main", "image": "job", "resources": {"requests": dict(requests)}}
    return {"containers": [container], "restartPolicy": "Never"}
