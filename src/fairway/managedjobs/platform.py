"""Where the pods of managed jobs run: on this machine as processes (`machine`), or on the kubelets of a cluster
(`kubernetes`). Chosen once, where the controllers are put together; nothing else asks which of the two it is.
"""

from typing import Protocol

from fairway.apis.machinery.kind import Manifest
from fairway.managedjobs.environment import AttemptEnvironment
from fairway.managedjobs.tasks.task import Candidate, Task


class Platform(Protocol):
    """What differs between the two. Manifests that are given are changed in place."""

    @property
    def image(self) -> str:
        """Of containers for which neither the task nor a `pod_config` names one."""

    def prepare(self, spec: Manifest, task: Task, candidate: Candidate) -> None:
        """Complete the spec of a pod template, whose main container is `run`."""

    def checkpoints(self, job: Manifest, task_index: int, task: Task, /) -> str:
        """The directory that all attempts at a task share, as its containers see it; empty if there is none."""

    def addresses(self, task: Task, /) -> tuple[str, ...]:
        """Of the nodes, by rank; empty if they are found out in the pods."""

    def fill(self, spec: Manifest, attempt: AttemptEnvironment, rank: int) -> None:
        """Give the pod of one node its commands, variables and volumes."""

    def needed(self, job: Manifest, task_index: int, task: Task, /) -> list[Manifest]:
        """Objects that must exist before pods of a task do, owned by the job."""
