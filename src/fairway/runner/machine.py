"""Capacity of this machine: cores, memory, GPUs, disk; detected or declared.

What is declared counts, whether it is there or not, so that a guide for machines with GPUs can be tried on any. What is
found out respects the limits of the container or session that the server itself runs in. Nothing here is a decision.
"""

import importlib
import os
import platform
import re
import shutil
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil
from msgspec import Struct

from fairway.apis.core.accelerators import declared_models, model_of
from fairway.apis.machinery.quantities import Quantity
from fairway.errors import FairwayError

_CGROUPS: Final = Path("/sys/fs/cgroup")
_NOT_IN_A_NAME: Final = re.compile(r"[^a-z0-9.-]+")
_LONGEST_NAME: Final = 253


class MachineError(FairwayError):
    """What was declared about the machine cannot be read; the message says what and how to write it."""


class Machine(Struct, frozen=True, kw_only=True):
    """The capacity and the description of one machine."""

    cores_milli: int
    memory_bytes: int
    gpus: int = 0
    gpu_model: str = ""
    """As the driver calls it, or as it was declared; empty if that is not known, or there are several."""

    gpu_models: tuple[str, ...] = ()
    """The model of each GPU by its index, as jobs ask for it; empty unless there are several models."""

    accelerator: str = ""
    """The same as jobs ask for it: `t4`, `a100-80gb`."""

    hostname: str = "localhost"
    disk_bytes: int = 0
    architecture: str = "amd64"
    kernel: str = ""
    system: str = ""
    """The name of the operating system's release, for people."""

    identity: str = ""
    boot: str = ""
    """Another one after each start of the machine."""

    @property
    def name(self) -> str:
        """The name of its node: the host's, as a DNS name."""
        return node_name(self.hostname)

    @staticmethod
    def detect(
        cpus: str | None = None, memory: str | None = None, gpus: str | None = None, state: Path = Path("/")
    ) -> "Machine":
        """This machine; quantities as Kubernetes writes them (`8`, `500m`, `16Gi`) replace what would be found.

        GPUs are declared as a number (`8`), as a model and a number (`T4:8`), or as several (`V100:4,T4:2`).
        """
        found = _declared_gpus(gpus) if gpus is not None else _gpus()
        return Machine(
            cores_milli=_cores() if cpus is None else _declared("cpu", cpus).milli(),
            memory_bytes=_memory() if memory is None else _declared("memory", memory).value(),
            gpus=found.number,
            gpu_model=found.model,
            gpu_models=found.models,
            accelerator=found.accelerator,
            hostname=socket.gethostname(),
            disk_bytes=_disk(state),
            architecture=_architecture(platform.machine()),
            kernel=platform.release(),
            system=_system(),
            identity=_first_line(Path("/etc/machine-id")),
            boot=_first_line(Path("/proc/sys/kernel/random/boot_id")),
        )


def node_name(hostname: str) -> str:
    """A host's name as the name of an object."""
    name = _NOT_IN_A_NAME.sub("-", hostname.lower())[:_LONGEST_NAME]
    labels = [label[:63].strip("-") for label in name.split(".")]
    return ".".join(label for label in labels if label) or "localhost"


def _declared(resource: str, text: str) -> Quantity:
    try:
        quantity = Quantity.parse(text)
    except ValueError as error:
        raise MachineError(f"{resource} {text!r}: {error}") from error
    if quantity.nanos <= 0:
        raise MachineError(f"{resource} {text!r}: must be greater than 0")
    return quantity


class _Gpus(NamedTuple):
    number: int
    model: str = ""
    accelerator: str = ""
    models: tuple[str, ...] = ()


def _declared_gpus(text: str) -> _Gpus:
    try:
        found = [(model, count) for model, count in declared_models(text) if count]
    except ValueError as error:
        raise MachineError(f"GPUs {text!r}: {error}") from error
    if len(found) > 1:
        models = tuple(model.lower() for model, count in found for _ in range(count))
        return _Gpus(len(models), models=models)
    return _Gpus(found[0][1], found[0][0], found[0][0].lower()) if found else _Gpus(0)


def _cores() -> int:
    """In thousandths: those that this process may use, less what its control group takes away."""
    cores = len(os.sched_getaffinity(0)) * 1000
    for group in _own_groups():
        with suppress(OSError, ValueError):
            quota, period = (group / "cpu.max").read_text().split()
            if quota != "max":
                cores = min(cores, max(1, int(quota) * 1000 // int(period)))
    return cores


def _memory() -> int:
    memory: int = psutil.virtual_memory().total
    for group in _own_groups():
        with suppress(OSError, ValueError):
            memory = min(memory, int((group / "memory.max").read_text()))
    return memory


def _own_groups() -> list[Path]:
    """The control group of this process and those around it, where the unified hierarchy is there."""
    with suppress(OSError, IndexError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            if line.startswith("0::"):
                own = _CGROUPS / line[3:].strip("/")
                return [own, *(group for group in own.parents if group.is_relative_to(_CGROUPS))]
    return [_CGROUPS]


def _gpus() -> _Gpus:
    """How many GPUs the driver shows, and what they are; none where there is no driver."""
    nvml: Any = importlib.import_module("pynvml")  # late: most machines have none, and pay nothing for it
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return _Gpus(0)
    try:
        count = int(nvml.nvmlDeviceGetCount())
        found = [nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByIndex(index)) for index in range(count)]
    except nvml.NVMLError as error:
        raise MachineError(f"cannot count the GPUs: {error}; declare them with --gpus") from error
    finally:
        nvml.nvmlShutdown()
    names = [name.decode() if isinstance(name, bytes) else str(name) for name in found]
    models = tuple(map(model_of, names))
    if len(set(models)) > 1:
        return _Gpus(count, models=models)
    name = names[0] if len(set(names)) == 1 else ""
    return _Gpus(count, name, model_of(name))


def _disk(state: Path) -> int:
    while not state.exists():
        state = state.parent
    return shutil.disk_usage(state).total


def _architecture(machine: str) -> str:
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


def _system() -> str:
    with suppress(OSError):
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    return platform.system()


def _first_line(path: Path) -> str:
    with suppress(OSError, IndexError):
        return path.read_text().splitlines()[0].strip()
    return ""
