"""Assigns GPUs to pods by index.

Each index belongs to at most one pod. What a pod was given is written down before its first process starts, and read
again when the server restarts, so that no pod gets a GPU that another pod's processes still use.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from fairway.apis.core.accelerators import GPU, asked_models
from fairway.apis.core.pod_parts import is_sidecar
from fairway.apis.core.pod_requests import pod_requests, pod_shape
from fairway.apis.kueue.workloads import PodTemplate
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import ZERO, Quantity

FILE: Final = "devices.json"


class DeviceAllocation(msgspec.Struct):
    """The contents of the file."""

    gpus: list[int] = []


class NotEnough(Exception):
    """There are not as many as were asked for."""

    def __init__(self, asked: int, free: int) -> None:
        super().__init__(f"{asked} GPUs requested, {free} free")
        self.asked = asked
        self.free = free


class Devices:
    """The GPUs of one machine and who has them."""

    def __init__(self, count: int, models: Sequence[str] = ()) -> None:
        """`models` are those of the GPUs by their index, where there are several."""
        self._count = count
        self._models = models
        self._held: dict[str, tuple[int, ...]] = {}

    @property
    def count(self) -> int:
        return self._count

    def held(self, uid: str) -> tuple[int, ...]:
        return self._held.get(uid, ())

    @property
    def holders(self) -> Mapping[str, tuple[int, ...]]:
        return self._held

    def take(self, uid: str, wanted: int, directory: Path, models: Collection[str] = ()) -> tuple[int, ...]:
        """So many for this pod, the lowest that are free, or those that it has; noted in its directory before.

        Where there are several models, only those of the `models` that it asks for, if it does.
        """
        if uid in self._held:
            return self._held[uid]
        if wanted == 0:
            return ()
        taken = {index for indices in self._held.values() for index in indices}
        free = [index for index in range(self._count) if index not in taken and self._is_of(index, models)]
        if len(free) < wanted:
            raise NotEnough(wanted, len(free))
        given = tuple(free[:wanted])
        _write(directory, given)
        self._held[uid] = given
        return given

    def _is_of(self, index: int, models: Collection[str]) -> bool:
        return not models or index >= len(self._models) or self._models[index] in models

    def restore(self, uid: str, directory: Path) -> None:
        """Take in what a pod was given by the server before."""
        try:
            grant = msgspec.json.decode((directory / FILE).read_bytes(), type=DeviceAllocation)
        except FileNotFoundError:
            return
        if grant.gpus:
            self._held[uid] = tuple(grant.gpus)

    def release(self, uid: str) -> bool:
        """Nothing of this pod runs any more; whether it had any."""
        return self._held.pop(uid, None) is not None


def _write(directory: Path, indices: Iterable[int]) -> None:
    """Whole or not at all. What a power failure takes away is not missed: it ends the processes too."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = directory / f".{FILE}"
    temporary.write_bytes(msgspec.json.encode(DeviceAllocation(list(indices))))
    temporary.replace(directory / FILE)


def wanted_by(pod: Manifest) -> int:
    """How many GPUs a pod needs at once: those of its containers, or of the init container that needs the most."""
    return pod_requests(pod["spec"]).get(GPU, ZERO).value()


def models_of(pod: Manifest) -> frozenset[str]:
    """The GPU models that a pod asks for; empty if any will do."""
    shape = pod_shape(PodTemplate(spec=pod["spec"]))
    return asked_models(shape.node_selector, (term.expressions for term in shape.affinity_terms))


def share_of(pod: Manifest, container: str, indices: tuple[int, ...]) -> tuple[int, ...]:
    """Which of a pod's GPUs are this container's: its own beside those that run with it, reused by those before."""
    spec = pod["spec"]
    used = 0
    for init in spec.get("initContainers") or ():
        own = asked_by(init)
        if init["name"] == container:
            return indices[used : used + own]
        if is_sidecar(init):
            used += own
    for main in spec.get("containers") or ():
        own = asked_by(main)
        if main["name"] == container:
            return indices[used : used + own]
        used += own
    return ()


def asked_by(container: Mapping[str, Any]) -> int:
    resources = container.get("resources") or {}
    text = (resources.get("limits") or {}).get(GPU) or (resources.get("requests") or {}).get(GPU)
    return Quantity.parse(text).value() if text else 0
