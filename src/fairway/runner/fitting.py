"""Checks whether a pod that names this node fits on it, like a kubelet.

The scheduler gives a node only what fits; a pod may also name its node itself (`spec.nodeName`).
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from fairway.apis.core.pod_requests import pod_requests
from fairway.apis.machinery.kind import Manifest
from fairway.apis.machinery.quantities import amount_of
from fairway.runner.machine import Machine

_CHECKED: Final = ("cpu", "memory")
"""GPUs are handed out by index, and checked then."""


class Misfit(NamedTuple):
    """What the machine does not have enough of, in the words of a kubelet."""

    reason: str
    message: str


def requests_of(pod: Manifest) -> dict[str, int]:
    """What a pod takes of a machine, in the units of `quantities.amount_of`."""
    requests = pod_requests(pod["spec"])
    return {name: amount_of(name, requests[name]) for name in _CHECKED if name in requests}


def misfit(requests: Mapping[str, int], others: Iterable[Mapping[str, int]], machine: Machine) -> Misfit | None:
    """Why a pod does not fit beside those that are there; `None` if it does."""
    others = tuple(others)
    capacity = {"cpu": machine.cores_milli, "memory": machine.memory_bytes}
    for name, amount in requests.items():
        used = sum(other.get(name, 0) for other in others)
        if amount and used + amount > capacity[name]:
            message = (
                f"Pod was rejected: Node didn't have enough resource: {name}, "
                f"requested: {amount}, used: {used}, capacity: {capacity[name]}"
            )
            return Misfit(f"OutOf{name}", message)
    return None
