"""LimitRanges and RuntimeClasses, as the engine counts them: what they add to pod templates, and what they forbid.

Templates stay as they are; a workload is counted by a completed copy, and one outside of the limits of its namespace
waits until they, or it, have changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from fairway.apis.core.podlimits import NamespaceLimits, completed, outside_limits, summarized
from fairway.apis.kueue.objects import PodSet


class PodLimits:
    """What there is of them; by namespace, and by name of the class."""

    __slots__ = ("_by_namespace", "_overheads", "_ranges")

    def __init__(self) -> None:
        self._ranges: dict[str, dict[str, Sequence[dict[str, Any]]]] = {}
        self._by_namespace: dict[str, NamespaceLimits] = {}
        self._overheads: dict[str, dict[str, Any]] = {}

    def set_range(self, namespace: str, name: str, limits: Sequence[dict[str, Any]] | None) -> None:
        """The limits of a LimitRange; `None` if it is gone. Of defaults, those of the first name count."""
        ranges = self._ranges.setdefault(namespace, {})
        if limits is None:
            ranges.pop(name, None)
        else:
            ranges[name] = limits
        if ranges:
            self._by_namespace[namespace] = summarized(limits for _, limits in sorted(ranges.items()))
        else:
            del self._ranges[namespace]
            self._by_namespace.pop(namespace, None)

    def set_class(self, name: str, overhead: dict[str, Any] | None) -> None:
        """What a pod of a RuntimeClass takes besides its containers."""
        if overhead:
            self._overheads[name] = overhead
        else:
            self._overheads.pop(name, None)

    def completed(self, namespace: str, pod_sets: tuple[PodSet, ...]) -> tuple[PodSet, ...]:
        """Pod sets as they count; the same ones where nothing is added."""
        limits = self._by_namespace.get(namespace)
        if limits is None and not self._overheads:
            return pod_sets
        return tuple(self._completed(pod_set, limits) for pod_set in pod_sets)

    def _completed(self, pod_set: PodSet, limits: NamespaceLimits | None) -> PodSet:
        spec = completed(pod_set.template.spec, limits, self._overheads)
        if spec is pod_set.template.spec:
            return pod_set
        return replace(pod_set, template=replace(pod_set.template, spec=dict(spec)))

    def violations(self, namespace: str, pod_sets: tuple[PodSet, ...]) -> list[str]:
        """Where pod sets are outside of the limits of their namespace."""
        limits = self._by_namespace.get(namespace)
        if limits is None:
            return []
        return [
            str(error)
            for index, pod_set in enumerate(self.completed(namespace, pod_sets))
            for error in outside_limits(pod_set.template.spec, limits, f"spec.podSets[{index}].template.spec")
        ]
