"""The parsed task."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field, structs


class Candidate(Struct, frozen=True, kw_only=True):
    """One way to give a task what it needs on every node. The first that can be had is taken."""

    infra: str = ""
    """Where: empty for here, else the name of a context in the server's kubeconfig."""

    cpus: str = "1"
    """As a quantity: `4`, `500m`. What was written as `4+` is asked for as 4."""

    memory: str = ""
    """As a quantity: `16Gi`; empty asks for none."""

    gpus: int = 0
    accelerators: tuple[str, ...] = ()
    """Names of the models that will do (`T4`, `A100-80GB`), any of them; empty where any will."""

    image: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    """The task's own, for its pods; queue and priority class may be among them, by Kueue's names."""


class RayWorkers(Struct, frozen=True, kw_only=True):
    """The workers of a task's Ray cluster; the head, with the driver, has what a candidate says."""

    count: int = 1
    cpus: str = "1"
    memory: str = ""
    gpus: int = 0
    accelerators: tuple[str, ...] = ()

    def each(self, head: Candidate) -> Candidate:
        """What one worker needs where the head is this candidate."""
        return structs.replace(head, cpus=self.cpus, memory=self.memory, gpus=self.gpus, accelerators=self.accelerators)


class Recovery(Struct, frozen=True, kw_only=True):
    """When a task that failed by itself is started again."""

    max_restarts_on_errors: int = 0
    exit_codes: frozenset[int] = frozenset()
    """These are always started again, and do not count."""


class Files(Struct, frozen=True, kw_only=True):
    """Files that the task finds at a path: an archive that was uploaded."""

    archive: str
    """The SHA-256 of the archive (`.tar.gz`), in hex."""

    path: str
    """`.` (the working directory), relative to it, or below `~/`."""

    size: int = 0
    """Of the archive, in bytes; zero where that is not needed: on a cluster it says how many Secrets hold it."""

    claim: str = ""
    """On a cluster: the PersistentVolumeClaim that holds it instead of Secrets."""

    @property
    def is_at_home(self) -> bool:
        return self.path.partition("/")[0] == "~"


class CheckpointVolume(Struct, frozen=True, kw_only=True):
    """The volume for checkpoints on a cluster (`config.kubernetes.checkpoints`): a claim that is created for a job and
    deleted with it, or an existing one (`claim`), in which each job has a directory."""

    size: str = "10Gi"
    storage_class: str = ""
    access_mode: str = ""
    """Empty for ReadWriteOnce, or ReadWriteMany if a task has several nodes."""

    claim: str = ""


class FilesVolume(Struct, frozen=True, kw_only=True):
    """How files that are too large for Secrets are stored on a cluster (`config.kubernetes.files`)."""

    storage_class: str = ""
    access_mode: str = ""
    """Empty for ReadWriteOnce, or ReadWriteMany if several pods need them."""

    image: str = ""
    """Of the pod that writes them into the volume."""


class Task(Struct, frozen=True, kw_only=True):
    """One task, complete: every variable has a value, every path is an archive."""

    name: str = ""
    num_nodes: int = 1
    """With `ray`: its head and its workers."""

    ray: RayWorkers | None = None
    envs: dict[str, str] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    """Names of variables whose values are in the job's Secret."""

    files: tuple[Files, ...] = ()
    setup: str = ""
    run: str = ""
    candidates: tuple[Candidate, ...] = (Candidate(),)
    recovery: Recovery = Recovery()
    priority: int | None = None
    max_duration_seconds: int | None = None
    pod_config: dict[str, Any] = field(default_factory=dict)
    """A part of a pod, laid under what is made of the task (`config.kubernetes.pod_config`)."""

    checkpoints: CheckpointVolume | None = None
    files_volume: FilesVolume | None = None
    service_account: str = ""
    provision_timeout_seconds: int | None = None
    queue: str = ""
    """`config.kubernetes.kueue.local_queue_name`."""

    @property
    def has_own_home(self) -> bool:
        """Whether it brings files for `~`, which is a directory of its own then."""
        return "HOME" not in self.envs and any(one.is_at_home for one in self.files)


def node_count(task: Mapping[str, Any]) -> int:
    """The number of nodes of a task as a ManagedJob stores it."""
    ray = task.get("ray")
    nodes = task.get("num_nodes") if ray is None else ray.get("workers", 1) if isinstance(ray, Mapping) else 0
    return (nodes if isinstance(nodes, int) else 1) + (ray is not None)
