"""What can be configured, as a value, and where it is looked for. How it is read is in `config`: most commands find
nothing to read, and need not wait for that.
"""

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from fairway.managedjobs.tasks.task import CheckpointVolume, FilesVolume

if TYPE_CHECKING:
    from fairway.schedulers.config import QueueConfig
else:
    QueueConfig = Any

USER_FILE: Final = "config.yaml"
"""In the user's state directory."""

PROJECT_FILE: Final = ".fairway.yaml"
"""In the working directory, or the nearest directory above it that has one."""

ENVIRONMENT: Final = {
    "FAIRWAY_QUEUE": "jobs.queue",
    "FAIRWAY_PRIORITY": "jobs.priority",
    "FAIRWAY_NAMESPACE": "server.namespace",
    "FAIRWAY_CONTEXT": "server.context",
    "FAIRWAY_KUBECONFIG": "server.kubeconfig",
    "FAIRWAY_PROVISION_TIMEOUT": "kubernetes.provision_timeout",
}
"""The variables, and the field that each stands for."""


class RunnerConfig(Struct, frozen=True, kw_only=True):
    """What the server's `config.yaml` says about its own machine; empty or `None` for the defaults."""

    cpu: str = ""
    """What a task's `cpus` are: its `share` under contention, its `limit`, or `none`."""

    memory: str = ""
    """What a task's `memory` is: its `limit`, or `none`."""

    results_days: int | None = None
    results_attempts: int | None = None
    results_count: int | None = None
    results_bytes: int | None = None


class LaunchConfig(Struct, frozen=True, kw_only=True):
    """The whole configuration; empty or `None` where nothing is set."""

    queue: str = ""
    """The LocalQueue of jobs that name none."""

    priority: int | str | None = None
    """Of jobs that have none: a number, or the name of a class."""

    aging_step: int | None = None
    """What each preemption adds to the priority."""

    aging_cap: int | None = None
    """The most that preemptions add in all."""

    pod_config: dict[str, Any] = field(default_factory=dict)
    """A part of a pod, below what tasks say; without the labels that became `queue` and `priority`."""

    provision_timeout_seconds: int | None = None
    """How long a job waits in one place before the next candidate is tried; -1 is for ever."""

    image: str = ""
    """On a cluster: of tasks that name none."""

    checkpoints: CheckpointVolume | None = None
    files_volume: FilesVolume | None = None
    """On a cluster: both of tasks that say nothing about it."""

    service_account: str = ""
    queueconfig: QueueConfig | None = None
    """The scheduler of jobs, by kind, type and organization."""

    allowed_contexts: tuple[str, ...] | None = None
    """Which other servers jobs may be sent to; `*` among them for all, `None` if nothing is said."""

    other_servers: str = ""
    """The kubeconfig whose contexts are those other servers."""

    runner: RunnerConfig = RunnerConfig()
    """Of the server that reads this; others do not look at it."""

    namespace: str = ""
    kubeconfig: str = ""
    context: str = ""
    warnings: tuple[str, ...] = ()
