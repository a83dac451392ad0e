"""Builds the process of a container: arguments, environment, directory and limits."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from fairway.apis.core.startable import LONGEST_STRING, MOST_BYTES
from fairway.apis.machinery.kind import Manifest
from fairway.runner import mounts
from fairway.runner.devices import Devices, share_of
from fairway.runner.directories import Directories
from fairway.runner.enforcement import Enforcement
from fairway.runner.pods.attempts import process_id
from fairway.runner.pods.environment import Sources, inherited, variables_of
from fairway.runner.pods.expansion import expanded
from fairway.runner.pods.troubles import ConfigError, OutOfResources
from fairway.runner.processes import ProcessSpec
from fairway.runner.supervising.places import make_home
from fairway.runner.volumes import made_volumes


class Prepared(Struct, frozen=True):
    """A process that can be started, and what to tell people about it."""

    launch: ProcessSpec
    missing: tuple[tuple[str, str], ...]
    """Volumes that are not where they were wanted: name and mount path."""


class Launching:
    """Makes launches; what a pod needs on the disk is made on the way."""

    def __init__(
        self,
        directories: Directories,
        sources: Sources,
        devices: Devices,
        environment: Mapping[str, str],
        enforcement: Enforcement,
    ) -> None:
        """`environment` is the server's own, of which containers get a few variables."""
        self._directories = directories
        self._sources = sources
        self._enforcement = enforcement
        self._devices = devices
        self._inherited = inherited(environment)
        self.hosts: Callable[[str], str] = lambda _: ""
        """The file that pods of a namespace see as /etc/hosts; an empty path is the machine's own."""

    def volumes(self, pod: Manifest) -> dict[str, Path]:
        """Make the volumes of a pod."""
        if not pod["spec"].get("volumes"):
            return {}
        return made_volumes(pod, self._directories.volumes(pod["metadata"]["uid"]), self._sources)

    def prepare(
        self, pod: Manifest, container: Mapping[str, Any], number: int, volumes: Mapping[str, Path]
    ) -> Prepared:
        """The process of one attempt; `ConfigError` if it cannot be started at all."""
        metadata = pod["metadata"]
        uid, name = metadata["uid"], container["name"]
        _refuse_root(pod, container)
        given = mounts.variables(volumes)
        given["HOSTNAME"] = pod["spec"].get("hostname") or metadata["name"]
        given |= self._gpus(pod, name)
        declared = variables_of(pod, container, self._sources, given)
        known = {**given, **declared}
        argv = _arguments(container, known)
        work = self._directories.work(uid)
        placed = self._mounted(pod, container, volumes, known, work)
        wanted = container.get("workingDir")
        # A pod must not name the GPUs of another pod.
        env = {**self._inherited, **known, **self._gpus(pod, name)}
        _check_size(argv, env)
        return Prepared(
            ProcessSpec(
                id=process_id(uid, name, number),
                argv=argv,
                env=env,
                cwd=str(Path(work) / placed.directory(wanted)) if wanted else work,
                log=self._directories.log(metadata["namespace"], uid, name, number),
                limits=self._enforcement.limits(pod, container),
                home=work,
                hosts=self.hosts(metadata["namespace"]),
            ),
            placed.missing,
        )

    def _mounted(
        self,
        pod: Manifest,
        container: Mapping[str, Any],
        volumes: Mapping[str, Path],
        known: Mapping[str, str],
        work: str,
    ) -> mounts.Mounts:
        """What came of the mounts; only they need the working directory before the process is asked for."""
        if not container.get("volumeMounts"):
            return mounts.NONE
        if fault := make_home(work):
            raise OutOfResources(f"cannot create the working directory: {fault}")
        return mounts.mounted(pod, container, volumes, known, Path(work))

    def _gpus(self, pod: Manifest, container: str) -> dict[str, str]:
        """The GPUs that a container may see: on a machine with GPUs, none means none."""
        if not self._devices.count:
            return {}
        shown = ",".join(map(str, share_of(pod, container, self._devices.held(pod["metadata"]["uid"]))))
        return {"CUDA_VISIBLE_DEVICES": shown, "NVIDIA_VISIBLE_DEVICES": shown or "void"}


def _arguments(container: Mapping[str, Any], known: Mapping[str, str]) -> tuple[str, ...]:
    command = container.get("command")
    if not command:
        raise ConfigError(
            f'container "{container["name"]}" has no command: images are not used on this machine, so what '
            f"{container.get('image') or 'the image'} would run is not known. Set `command`.",
            lasting=True,
        )
    argv = tuple(expanded(text, known) for text in (*command, *(container.get("args") or ())))
    if any("\0" in text for text in argv):
        raise ConfigError("a command cannot contain NUL", lasting=True)
    return argv


def _check_size(argv: tuple[str, ...], env: Mapping[str, str]) -> None:
    """`ConfigError` if the system starts no process with so much: ConfigMaps and Secrets are larger than a variable.

    Another value of theirs can help, so the container waits, as one whose ConfigMap is missing.
    """
    total = sum(map(len, argv)) + sum(map(len, env)) + sum(map(len, env.values()))
    if total < LONGEST_STRING // 4:  # a character is at most four bytes
        return
    for name, value in env.items():
        if (size := len(name) + 1 + len(os.fsencode(value))) >= LONGEST_STRING:
            raise ConfigError(
                f"environment variable {name} has {size} bytes, and no process can be started with more than "
                f"{LONGEST_STRING - 1} in one; mount the ConfigMap or Secret as a volume"
            )
    for position, text in enumerate(argv):
        if (size := len(os.fsencode(text))) >= LONGEST_STRING:
            raise ConfigError(
                f"argument {position} of the command has {size} bytes, and no process can be started with more than "
                f"{LONGEST_STRING - 1} in one"
            )
    total = sum(len(os.fsencode(text)) + 9 for text in (*argv, *(f"{name}={value}" for name, value in env.items())))
    if total > MOST_BYTES:
        raise ConfigError(
            f"its command and environment have {total} bytes, and no process can be started with more than {MOST_BYTES}"
        )


def _refuse_root(pod: Manifest, container: Mapping[str, Any]) -> None:
    """Refuse pods that must not run as root, while the server runs as root."""
    if os.geteuid() != 0:
        return
    context = {**(pod["spec"].get("securityContext") or {}), **(container.get("securityContext") or {})}
    if context.get("runAsNonRoot"):
        raise ConfigError("container has runAsNonRoot and this machine's runner runs as root", lasting=True)
    if context.get("runAsUser"):
        raise ConfigError(
            f"container has runAsUser {context['runAsUser']} and this machine's runner runs as root, which has more "
            "rights; run the server as that user, or leave runAsUser out",
            lasting=True,
        )
