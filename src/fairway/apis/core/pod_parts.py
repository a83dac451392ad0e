"""The containers of a pod and their statuses, and what they need together: the one place that walks a pod.

All of it reads manifests; a list that is missing is empty.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from fairway.apis.machinery.quantities import Quantity

Amounts = Mapping[str, Quantity]


def containers_of(spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The containers of a pod spec, init containers first; they may be changed in place."""
    return [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]


def statuses_of(pod: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The statuses of a pod's containers, init containers first."""
    status = pod.get("status") or {}
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def is_sidecar(container: Mapping[str, Any]) -> bool:
    """Whether an init container keeps running beside those that follow."""
    return container.get("restartPolicy") == "Always"


def needed_together(main: Iterable[Amounts], init: Iterable[tuple[Amounts, bool]]) -> dict[str, Quantity]:
    """What containers need at once: side by side, or the most that starting one after another takes.

    `init` has what each init container needs, and whether it is a sidecar.
    """
    running: dict[str, Quantity] = {}
    for amounts in main:
        add_amounts(running, amounts)
    peak: dict[str, Quantity] = {}
    sidecars: dict[str, Quantity] = {}
    for amounts, stays in init:
        if stays:
            add_amounts(running, amounts)
            add_amounts(sidecars, amounts)
            _raise_to(peak, sidecars)
        else:
            together = dict(amounts)
            add_amounts(together, sidecars)
            _raise_to(peak, together)
    _raise_to(running, peak)
    return running


def add_amounts(total: dict[str, Quantity], more: Amounts) -> None:
    """Add to a total, in place."""
    for name, quantity in more.items():
        total[name] = total[name] + quantity if name in total else quantity


def _raise_to(total: dict[str, Quantity], least: Amounts) -> None:
    for name, quantity in least.items():
        if name not in total or total[name] < quantity:
            total[name] = quantity
