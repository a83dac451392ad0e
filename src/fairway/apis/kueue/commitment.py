"""Quotas beside what the nodes have: what is promised in all, and a warning where that is more than there is."""

from collections.abc import Mapping
from heapq import nlargest
from typing import Any, Final

from fairway.apis.machinery.amounts import is_binary, readable
from fairway.apis.machinery.quantities import Quantity

_MOST_NAMED: Final = 5
_UNLIMITED: Final = 10**9 * 10**9
_UNLIMITED_BYTES: Final = 10**9 * 2**30 * 10**9
"""In nano-units: quotas of a thousand million of anything (of Gi for memory), as guides write them, are unlimited."""

_ALWAYS_COMPARED: Final = frozenset({"cpu", "memory", "nvidia.com/gpu"})
"""Other resources are compared where nodes have them: some are counted by quota alone."""

Amounts = Mapping[str, int]
"""By resource, in nano-units."""


def promised(queue: Mapping[str, Any]) -> Amounts:
    """The nominal quotas of a ClusterQueue; none if its admission checks find nodes when they are needed."""
    spec = queue.get("spec") or {}
    if (spec.get("admissionChecksStrategy") or {}).get("admissionChecks") or spec.get("admissionChecks"):
        return {}
    total: dict[str, int] = {}
    for group in spec.get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            for resource in flavor.get("resources") or ():
                name = resource["name"]
                total[name] = total.get(name, 0) + Quantity.parse(resource.get("nominalQuota") or 0).nanos
    return total


def allocatable(node: Mapping[str, Any]) -> Amounts:
    """What a Node has to give."""
    has = (node.get("status") or {}).get("allocatable") or {}
    return {name: Quantity.parse(amount).nanos for name, amount in has.items()}


def warnings(queues: Mapping[str, Amounts], nodes: Mapping[str, Amounts]) -> list[str]:
    """A sentence for each resource of which all ClusterQueues together promise more than all nodes have."""
    if not nodes:
        return []
    there = _sum(nodes)
    found = []
    for resource, amount in sorted(_sum(queues).items()):
        has = there.get(resource, 0)
        if not has < amount < (_UNLIMITED_BYTES if is_binary(resource) else _UNLIMITED) or (
            resource not in _ALWAYS_COMPARED and resource not in there
        ):
            continue
        parts = [(part[resource], name) for name, part in queues.items() if part.get(resource)]
        largest = nlargest(_MOST_NAMED, parts)
        listed = ", ".join(f"{name} {readable(resource, part)}" for part, name in largest)
        listed += f" and {len(parts) - _MOST_NAMED} more" if len(parts) > _MOST_NAMED else ""
        promise = f"all ClusterQueues together have a quota of {readable(resource, amount)} {resource} ({listed})"
        if len(parts) == 1:
            promise = f"ClusterQueue {parts[0][1]} has a quota of {readable(resource, amount)} {resource}"
        found.append(f"{promise}, and the nodes have {readable(resource, has)}: what is admitted beyond that waits")
    return found


def _sum(parts: Mapping[str, Amounts]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts.values():
        for resource, amount in part.items():
            total[resource] = total.get(resource, 0) + amount
    return total
