"""Pods as processes of this machine: scripts, files and checkpoints are directories that all of them see."""

from typing import Final

from msgspec import Struct

from fairway.apis.core.accelerators import LABEL
from fairway.apis.machinery.kind import Manifest
from fairway.managedjobs import environment, raynodes, scripts
from fairway.managedjobs.containers import FILES, SETUP, beside, containers_of, require_accelerator, target
from fairway.managedjobs.environment import AttemptEnvironment
from fairway.managedjobs.podconfig import RUN
from fairway.managedjobs.tasks.task import Candidate, Task
from fairway.ray import commands

ADDRESS: Final = "127.0.0.1"
_FOR_FILES: Final = ("image", "imagePullPolicy", "securityContext", "volumeMounts", "workingDir")
_FOR_SETUP: Final = (*_FOR_FILES, "env", "envFrom", "resources", "volumeDevices")
"""What the containers before have of the main one: to the task it is one place."""


class ThisMachine(Struct, frozen=True, kw_only=True):
    """Directories of the machine where pods find what outlives them."""

    archives: str
    """`<namespace>/<sha256>.tar.gz` below it."""

    checkpoint_root: str
    """`<uid of the job>/<task index>/` below it."""

    ray_path: str = ""
    """The directory of a `ray` for tasks that have none on their PATH."""

    image: str = "local"
    """A container must have an image; none is used here."""

    def prepare(self, spec: Manifest, task: Task, candidate: Candidate) -> None:
        main = containers_of(spec)[RUN]
        if candidate.accelerators:
            models = [name.lower() for name in candidate.accelerators]
            # Nodes without the label match, too.
            require_accelerator(spec, {LABEL: models}, LABEL)
        before = [beside(main, FILES, _FOR_FILES)] if task.files else []
        before += [beside(main, SETUP, _FOR_SETUP)] if task.setup else []
        if before:
            spec["initContainers"] = [*(spec.get("initContainers") or ()), *before]

    def checkpoints(self, job: Manifest, task_index: int, _task: Task, /) -> str:
        return f"{self.checkpoint_root}/{job['metadata']['uid']}/{task_index}"

    def addresses(self, task: Task, /) -> tuple[str, ...]:
        return (ADDRESS,) * task.num_nodes

    def fill(self, spec: Manifest, attempt: AttemptEnvironment, rank: int) -> None:
        task, containers = attempt.task, containers_of(spec)
        own_home = task.has_own_home
        secret = attempt.job["spec"].get("secretName", "")
        main = containers[RUN]
        together = task.num_nodes > 1 and bool(task.setup)
        main["command"] = scripts.run_command(task.run, own_home=own_home, together=together and task.ray is None)
        ours = environment.run_variables(attempt, rank)
        if task.ray is not None:
            ours |= {**commands.environment(), "FAIRWAY_RAY_PATH": self.ray_path}
            main["command"] = self._node(spec, attempt, rank, driver=[] if rank else main["command"])
        main["env"] = environment.declared(ours, task, secret, main.get("env"))
        if task.setup:
            setup = containers[SETUP]
            setup["command"] = scripts.setup_command(task.setup, own_home=own_home)
            ours = environment.setup_variables(attempt, rank)
            setup["env"] = environment.declared(ours, task, secret, setup.get("env"))
        if task.files:
            archives = f"{self.archives}/{attempt.job['metadata']['namespace']}"
            containers[FILES]["command"] = scripts.files_command(
                (f"{archives}/{files.archive}.tar.gz", target(files, task)) for files in task.files
            )

    def _node(self, spec: Manifest, attempt: AttemptEnvironment, rank: int, driver: list[str]) -> list[str]:
        """The command of a node of a Ray cluster, whose files end with its pod."""
        spec["volumes"] = [*(spec.get("volumes") or ()), {"name": commands.VOLUME, "emptyDir": {}}]
        meeting = f"{self.checkpoint_root}/{attempt.job['metadata']['uid']}/.ray-{attempt.task_index}-{attempt.number}"
        arguments = raynodes.arguments_on_machine(attempt.task, rank, containers_of(spec)[RUN], meeting)
        return scripts.ray_command(arguments, driver)

    def needed(self, _job: Manifest, _task_index: int, _task: Task, /) -> list[Manifest]:
        return []
