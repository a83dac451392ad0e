"""ManagedJobs and waiting Workloads as the command line reads them: only the fields that are shown.

Lists can be long, so they are decoded straight into these and everything else is passed over. What a task asks for is
free in form (people can write it by hand), so it is taken apart with care and never complained about. Here are facts
and figures of one job; tables and sentences are made elsewhere.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from fairway.apis.machinery.amounts import gi
from fairway.cli import amounts
from fairway.managedjobs.status import Attempt
from fairway.managedjobs.tasks.task import node_count

PENDING, STARTING, RUNNING, RECOVERING, CANCELLING = "PENDING", "STARTING", "RUNNING", "RECOVERING", "CANCELLING"
LIVE: Final = frozenset({"", PENDING, STARTING, RUNNING, RECOVERING, CANCELLING})
DEFAULT_QUEUE: Final = "default"
_WAITING: Final = frozenset({"", PENDING, RECOVERING})


class RowMetadata(Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: datetime | None = None


class TaskRow(Struct):
    """A task, as far as a table shows it."""

    name: Any = None
    num_nodes: Any = 1
    ray: Any = None
    resources: Any = None

    @property
    def nodes(self) -> int:
        return node_count({"num_nodes": self.num_nodes, "ray": self.ray})


class Aging(Struct):
    step: int = 10
    cap: int = 100


class Spec(Struct, rename="camel"):
    id: int = 0
    name: str = ""
    user: str = ""
    queue: str = ""
    priority: int | None = None
    priority_class: str = ""
    recover: bool = True
    hold: bool = False
    cancel: bool = False
    array: str = ""
    aging: Aging = field(default_factory=Aging)
    provision_timeout_seconds: int | None = None
    tasks: list[TaskRow] = field(default_factory=list)


class Status(Struct, rename="camel"):
    phase: str = ""
    reason: str = ""
    message: str = ""
    task: int = 0
    candidate: int = 0
    infra: str = ""
    attempt: int = 0
    workload: str = ""
    priority: int | None = None
    recoveries: int = 0
    preemptions: int = 0
    restarts_on_errors: int = 0
    queued_at: datetime | None = None
    started_at: datetime | None = None
    running_since: datetime | None = None
    ended_at: datetime | None = None
    ran_seconds: int = 0


class StatusWithAttempts(Status, rename="camel"):
    attempts: list[Attempt] = field(default_factory=list)


class JobRow(Struct):
    """One ManagedJob of a list."""

    metadata: RowMetadata
    spec: Spec
    status: Status = field(default_factory=Status)

    @property
    def key(self) -> tuple[str, str]:
        return self.metadata.namespace, self.metadata.name

    @property
    def name(self) -> str:
        """What people called it."""
        return self.spec.name or self.metadata.name

    @property
    def phase(self) -> str:
        """Its phase; PENDING before the controller has set one."""
        return self.status.phase or PENDING

    @property
    def is_live(self) -> bool:
        return self.status.phase in LIVE

    @property
    def waits(self) -> bool:
        """Whether it is in a queue, or about to be."""
        return self.status.phase in _WAITING

    def ran_for(self, now: datetime) -> float:
        """Seconds that it ran, over all attempts."""
        status = self.status
        running = (now - status.running_since).total_seconds() if status.running_since and self.is_live else 0.0
        return status.ran_seconds + max(0.0, running)

    def waited_for(self, now: datetime) -> float:
        """Seconds since it was submitted in which it did not run: in queues, starting, recovering."""
        submitted = self.metadata.creation_timestamp
        if submitted is None:
            return 0.0
        until = self.status.ended_at or now
        return max(0.0, (until - submitted).total_seconds() - self.ran_for(now))

    @property
    def priority(self) -> int | None:
        """Its effective priority; before the controller has set one, the requested one."""
        return self.spec.priority if self.status.priority is None else self.status.priority

    @property
    def raised_by(self) -> int:
        """How much of its priority it has for having been preempted."""
        return min(self.status.preemptions * self.spec.aging.step, self.spec.aging.cap)

    def queue(self, waiting: "PendingRow | None") -> str:
        """The LocalQueue that it is in, or was; what names none goes through the default one."""
        named = self.spec.queue or (waiting.local_queue if waiting else "")
        return named or (DEFAULT_QUEUE if self.status.workload else "")

    @property
    def ask(self) -> TaskRow:
        """What the task asks for that it is at."""
        tasks = self.spec.tasks
        return tasks[min(self.status.task, len(tasks) - 1)] if tasks else TaskRow()


class JobWithAttempts(JobRow):
    """One ManagedJob with all its attempts."""

    status: StatusWithAttempts = field(default_factory=StatusWithAttempts)


class ListMetadata(Struct, rename="camel"):
    resource_version: str = ""


class JobRows(Struct):
    items: list[JobRow]
    metadata: ListMetadata = field(default_factory=ListMetadata)


class OwnerRow(Struct):
    kind: str = ""
    name: str = ""


class ExpectedStart(Struct, rename="camel"):
    """When a job will probably start, and between which times."""

    known: bool = False
    at: datetime | None = None
    earliest: datetime | None = None
    latest: datetime | None = None
    basis: str = ""
    computed_at: datetime | None = None
    usual_error_seconds: float | None = None
    message: str = ""


class PendingRow(Struct, rename="camel"):
    """A Workload that waits, in a line."""

    metadata: RowMetadata
    owner: OwnerRow | None = None
    cluster_queue: str = ""
    local_queue: str = ""
    position: int | None = None
    local_position: int | None = None
    priority: int = 0
    outcome: str = ""
    message: str = ""
    can_ever_run: bool = True
    expected_start: ExpectedStart | None = None


class HolderRow(Struct, rename="camel"):
    shown: str = ""
    """Its display name for this reader: `job train-3`."""

    workload: str | None = None
    owner: OwnerRow | None = None
    cluster_queue: str = ""
    priority: int = 0
    amount: str = ""
    evicting: bool = False


class ShortageRow(Struct, rename="camel"):
    pod_set: str = ""
    flavor: str = ""
    resource: str = ""
    missing: str = ""
    requested: str = ""
    holders: list[HolderRow] = field(default_factory=list)


class Ahead(Struct, rename="camel"):
    shown: str = ""
    workload: str | None = None
    owner: OwnerRow | None = None
    priority: int = 0


class Obstacle(Struct, rename="camel"):
    pod_set: str = ""
    flavor: str = ""
    resource: str = ""
    code: str = ""
    message: str = ""


class WaitingInDetail(PendingRow, rename="camel"):
    """A Workload that waits, with all that stands in its way."""

    shortages: list[ShortageRow] = field(default_factory=list)
    ahead: list[Ahead] = field(default_factory=list)
    obstacles: list[Obstacle] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)
    organization: str = ""
    """Of its LocalQueue, where a QuotaDefinition gives it one; as are `team`s."""

    team: str = ""


class WaitingList(Struct):
    items: list[PendingRow]


decode_jobs = msgspec.json.Decoder(JobRows).decode
decode_waiting = msgspec.json.Decoder(WaitingList).decode


def waiting_of(job: JobRow, waiting: Mapping[tuple[str, str], PendingRow]) -> PendingRow | None:
    """How its Workload stands in the queue, if it does."""
    return waiting.get((job.metadata.namespace, job.status.workload)) if job.status.workload else None


def by_name(waiting: list[PendingRow]) -> dict[tuple[str, str], PendingRow]:
    return {(one.metadata.namespace, one.metadata.name): one for one in waiting}


def requested(job: JobRow) -> str:
    """What the nodes of the task ask for: `2x(4 cpu, 16Gi, T4:4)`, with a Ray cluster `1 cpu + 2x(4 cpu, T4:1)`."""
    ask = job.ask
    each = ", ".join(_each(ask.resources, job.status.candidate)) or "1 cpu"
    if ask.ray is not None:
        workers = ", ".join(_each(ask.ray, 0))
        return f"{each} + {ask.nodes - 1}x({workers})" if ask.nodes > 1 else each
    return f"{ask.nodes}x({each})" if ask.nodes > 1 else each


def requests(job: JobRow) -> dict[str, Any]:
    """The same in numbers, for programs: of each node, memory in Gi; several accelerators are alternatives. What the
    workers of a Ray cluster ask for is below `ray`.
    """
    ray = {} if job.ask.ray is None else {"ray": {"workers": job.ask.nodes - 1, **_numbers(job.ask.ray, 0)}}
    return {"nodes": job.ask.nodes, **_numbers(job.ask.resources, job.status.candidate), **ray}


def _numbers(resources: Any, candidate: int) -> dict[str, Any]:
    resources = _resources(resources, candidate)
    accelerators = resources.get("accelerators") or resources.get("gpus")
    cpus, memory = resources.get("cpus"), resources.get("memory")
    return {
        "cpus": amounts.task_cpus(cpus) if cpus is not None else None if accelerators else 1,
        "memoryGi": amounts.task_memory(memory) if memory is not None else None,
        "accelerators": amounts.task_accelerators(accelerators) if accelerators else {},
    }


def _each(resources: Any, candidate: int) -> list[str]:
    resources = _resources(resources, candidate)
    found = []
    accelerators = resources.get("accelerators") or resources.get("gpus")
    cpus, memory = resources.get("cpus"), resources.get("memory")
    if cpus is not None:
        number = amounts.task_cpus(cpus)
        least = "+" if str(cpus).endswith("+") else ""
        found.append(f"{cpus if number is None else f'{number:g}'}{least if number is not None else ''} cpu")
    elif not accelerators:
        found.append("1 cpu")
    if memory is not None:
        size = amounts.task_memory(memory)
        least = "+" if str(memory).endswith("+") else ""
        found.append(f"{gi(size)}{least}" if size is not None else str(memory))
    if accelerators:
        models = amounts.task_accelerators(accelerators)
        found.append(" or ".join(f"{model}:{count}" for model, count in models.items()) or str(accelerators))
    return found


def _resources(resources: Any, candidate: int) -> Mapping[str, Any]:
    return _chosen(resources, candidate) if isinstance(resources, Mapping) else {}


def _chosen(resources: Mapping[str, Any], candidate: int) -> Mapping[str, Any]:
    """The candidate's own fields over those that all candidates have."""
    for name in ("any_of", "ordered"):
        offers = resources.get(name)
        if isinstance(offers, list) and offers:
            offer = offers[min(candidate, len(offers) - 1)]
            return {**resources, **offer} if isinstance(offer, Mapping) else resources
    return resources
