"""Requests of workloads in the units of quota.

A *flavor-resource* is one resource of one flavor (``cpu`` of ``on-demand``): the thing quota is defined for. Amounts
are integers in Kueue's unit (thousandths for ``cpu``, whole units for everything else).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

PODS = "pods"

_FNV_OFFSET = 0xCBF29CE484222325
_FNV_PRIME = 0x100000001B3
_MASK_64 = 0xFFFFFFFFFFFFFFFF


class FlavorResource:
    """One resource of one flavor. Interned by :class:`FlavorResources`, so identity is equality and hashing is free."""

    __slots__ = ("flavor", "resource")

    def __init__(self, flavor: str, resource: str) -> None:
        self.flavor = flavor
        self.resource = resource

    def __repr__(self) -> str:
        return f"{self.flavor}/{self.resource}"


Amounts = tuple[tuple[FlavorResource, int], ...]
"""How much of which flavor-resources: the quota that a workload holds or asks for."""


class FlavorResources:
    """The one table that makes flavor-resources, so that each pair exists once."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], FlavorResource] = {}

    def get(self, flavor: str, resource: str) -> FlavorResource:
        pair = (flavor, resource)
        known = self._known.get(pair)
        if known is None:
            known = self._known[pair] = FlavorResource(flavor, resource)
        return known


@lru_cache(maxsize=4096)
def resource_rank(resource: str) -> tuple[int, str]:
    """Kueue walks the resources of a pod set by the FNV-1a hash of their names, then by name.

    The order decides which resource group is tried first, and so which shortage is reported when several groups fail.
    """
    digest = _FNV_OFFSET
    for byte in resource.encode():
        digest = ((digest ^ byte) * _FNV_PRIME) & _MASK_64
    return digest, resource


def in_order(requests: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(requests.items(), key=lambda item: resource_rank(item[0])))


def merged(parts: Iterable[Iterable[tuple[str, int]]]) -> tuple[tuple[str, int], ...]:
    """The sum of several ordered request lists, ordered."""
    total: dict[str, int] = {}
    for part in parts:
        for resource, amount in part:
            total[resource] = total.get(resource, 0) + amount
    return in_order(total)
