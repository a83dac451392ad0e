"""The observed state of a managed job: its spec, its Workload, its pods, and the job that does
its work elsewhere. Values only; who makes them of manifests is in `observing`.
"""

from datetime import datetime
from enum import StrEnum
from typing import Final

from msgspec import Struct

from fairway.admission.port import AdmittedBy
from fairway.managedjobs.tasks.task import Candidate, Task

FOR_EVER: Final = -1
DEFAULT_STEP: Final = 10
DEFAULT_CAP: Final = 100
DEFAULT_TIMEOUT_SECONDS: Final = 86400
"""How long a job with several candidates waits at one of them."""


class ManagedJobSpec(Struct, frozen=True, kw_only=True):
    """What is asked for."""

    name: str
    uid: str
    created_at: datetime
    generation: int = 1
    tasks: tuple[Task, ...] = ()
    unreadable: str = ""
    """Why the tasks cannot be read; then there are none."""

    recover: bool = True
    hold: bool = False
    cancel: bool = False
    retry: int = 0
    aging_step: int = DEFAULT_STEP
    aging_cap: int = DEFAULT_CAP
    provision_timeout_seconds: int | None = None

    def task(self, index: int) -> Task:
        return self.tasks[index] if index < len(self.tasks) else Task()

    def candidate(self, task: int, candidate: int) -> Candidate:
        candidates = self.task(task).candidates
        return candidates[candidate] if candidate < len(candidates) else candidates[0]

    def timeout_seconds(self, task: int) -> int:
        """How long the job waits at a candidate of a task; below zero: for ever."""
        asked = self.task(task)
        for given in (self.provision_timeout_seconds, asked.provision_timeout_seconds):
            if given is not None:
                return given
        return DEFAULT_TIMEOUT_SECONDS if len(asked.candidates) > 1 else FOR_EVER


class PodState(StrEnum):
    """How far a pod has come. All but the first two mean that nothing of it runs any more."""

    STARTING = "starting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """It ended by itself: it was not stopped."""

    STOPPED = "stopped"
    """Told to end before it ended, or before it began."""

    LOST = "lost"
    """It ended with its machine, or its machine would not have it."""


ENDED: Final = frozenset(PodState) - {PodState.STARTING, PodState.RUNNING}


class StartObstacle(StrEnum):
    """What keeps a pod from starting, where that is not merely time."""

    NONE = ""
    UNSCHEDULABLE = "unschedulable"
    IMAGE = "image"
    """It cannot be pulled; that may end by itself."""

    HOPELESS = "hopeless"
    """No such image can exist."""


class NodeState(Struct, frozen=True, kw_only=True):
    """What is known of the node of a pod."""

    name: str = ""
    gone: bool = False
    """It has been deleted: nothing of its pods runs any more, as Kubernetes sees it, too."""

    trouble: str = ""
    """Why the state of its pods is not known; empty for a healthy node."""


KNOWN: Final = NodeState()
"""A node that is healthy, or that says itself how its pods ended, as this machine does."""


class ObservedPod(Struct, frozen=True, kw_only=True):
    """A pod that the job controls."""

    name: str
    uid: str
    task: int
    attempt: int
    rank: int
    state: PodState
    deleting: bool = False
    kept: bool = True
    """Whether it waits for us before it goes."""

    exit_code: int | None = None
    container: str = ""
    """Which container failed."""

    message: str = ""
    """What keeps it from starting, or why it ended."""

    ended_at: datetime | None = None
    node_trouble: str = ""
    """Why it is not known whether it still runs."""

    obstacle: StartObstacle = StartObstacle.NONE

    @property
    def is_over(self) -> bool:
        return self.state in ENDED


class ObservedWorkload(Struct, frozen=True, kw_only=True):
    """The Workload that stands for the job in the queue."""

    name: str
    reserved: bool = False
    """It holds quota."""

    admitted: bool = False
    evicted: str = ""
    """Why, if it is to stop, or had to stop last."""

    message: str = ""
    finished: bool = False
    deleting: bool = False
    active: bool = True
    priority: int = 0
    """Its `spec.priority`: without what aging earned, unless Kueue admits and it holds quota (`JobView.aged`)."""

    earned: int = 0
    priority_class: str = ""
    """The WorkloadPriorityClass that it refers to."""


class ObservedRemote(Struct, frozen=True, kw_only=True):
    """The job at another server, as far as is known."""

    context_known: bool = True
    known: bool = False
    """Whether that server told of everything it has."""

    uid: str = ""
    """Empty if there is no such job."""

    status: dict[str, object] = {}
    hold: bool = False
    cancel: bool = False
    priority: int | None = None


class JobObservation(Struct, frozen=True, kw_only=True):
    """Everything, at one moment."""

    workload: ObservedWorkload | None = None
    others: tuple[str, ...] = ()
    """Workloads of the job that stand for nothing any more, and are not finished."""

    pods: tuple[ObservedPod, ...] = ()
    predecessor: bool = False
    """Whether there are still pods of a job before this one that had its name."""

    admitted_by: AdmittedBy = AdmittedBy.FAIRWAY
    base_priority: int | None = None
    """What the job's priority says without aging; nothing if its class is missing."""

    priority_class: str = ""
    """The class that it names."""

    queue: str = ""
    """The LocalQueue; empty if it names none and there is no default."""

    can_ever_run: bool | None = None
    """What the queue thinks once it has tried; nothing before."""

    refused: str = ""
    """Why its pods could not be made, or another server would not have it."""

    remote: ObservedRemote | None = None
