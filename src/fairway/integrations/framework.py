"""The protocol of a job kind, and its optional parts.

A framework is stateless: it reads manifests and answers with manifests, patches or facts. Patches are merge patches for
an object exactly as it was given, and share nothing with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

from fairway.apis.machinery.kind import Manifest
from fairway.errors import FieldError
from fairway.integrations.injection import PodSetInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class StopStep:
    """A write on the way to a stopped job."""

    patch: Manifest
    subresource: str = ""
    stops: bool = False
    """Whether it is this one that tells the job to stop."""


class StopProgress(Enum):
    """How far a job is from being stopped when nothing is to be written."""

    STOPPING = "stopping"
    """Its pods have to go first."""

    STOPPED = "stopped"
    """It is suspended, and its templates are as they were before it was admitted."""


class Framework(Protocol):
    """One job kind."""

    name: str
    """Kueue's name of the integration: `batch/job`."""

    resource: str
    """`jobs.batch`."""

    group: str
    kind: str

    validates_unqueued: bool
    """Whether Kueue's webhook also validates jobs that no queue manages."""

    def pod_sets(self, job: Manifest) -> list[Manifest]:
        """The pod sets of its workload. Their templates may be parts of the job: not to be changed."""

    def is_suspended(self, job: Manifest) -> bool:
        """Whether it is, wholly: not while it is still being stopped."""

    def is_active(self, job: Manifest) -> bool:
        """Whether pods of it still use what they were admitted to."""

    def suspend(self, job: Manifest) -> None:
        """Make a new job wait; in place."""

    def suspension(self) -> Manifest:
        """The patch that makes a job wait and changes nothing else."""

    def start(self, job: Manifest, infos: Sequence[PodSetInfo]) -> Manifest:
        """The patch that lets a suspended job run with what it was admitted to; may raise `InjectionConflict`."""

    def stop(self, job: Manifest, pod_sets: Sequence[Manifest] | None) -> StopStep | StopProgress:
        """The next write that stops a job and makes its templates those of the workload's pod sets again.

        `None` where there is no workload: then only what the queue itself put there is taken away.
        """

    def finished(self, job: Manifest) -> tuple[bool, str] | None:
        """Whether it succeeded, and its own words for it, once it has ended."""

    def pods_ready(self, job: Manifest) -> bool:
        """Whether all pods are ready or have succeeded."""

    def wrong_on_create(self, job: Manifest) -> list[FieldError]:
        """What is wrong with a new job besides what is asked of every kind."""

    def wrong_on_update(self, old: Manifest, new: Manifest) -> list[FieldError]:
        """The same for a change."""


@runtime_checkable
class Reclaims(Protocol):
    """A kind whose pods give their quota back one by one."""

    def reclaimable_pods(self, job: Manifest) -> dict[str, int]:
        """How many pods of each pod set need their quota no more."""


@runtime_checkable
class Elastic(Protocol):
    """A kind whose number of pods may change while it runs."""

    def hold_pods(self, job: Manifest) -> None:
        """Gate the pods of a new job; in place."""


@runtime_checkable
class HasPriorityClass(Protocol):
    """A kind with a field of its own for the class of its priority."""

    def priority_class(self, job: Manifest) -> str:
        """The name of a PriorityClass, empty if none is given."""


@runtime_checkable
class CanBeSkipped(Protocol):
    """A kind with jobs that have no pods of their own to queue."""

    def is_skipped(self, job: Manifest) -> bool:
        """Whether a job is left alone although it names a queue."""


@runtime_checkable
class CanBeOnHold(Protocol):
    """A kind that may refuse to run, and then needs no quota."""

    def is_on_hold(self, job: Manifest) -> bool: ...
