"""Topology assignments: which domains the pods of a pod set were placed in, and the compact form `v1beta2` stores.

A domain is named by one value per level. Where the lowest level is the host, the host's name alone says it all, and an
assignment has that level only. The stored form groups domains into slices: what all domains of a slice share is
written once, the rest is cut down to what differs between a common prefix and suffix.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple

import msgspec

HOSTNAME: Final = "kubernetes.io/hostname"
"""The label of a topology whose lowest level is single nodes."""

_MOST_SLICES: Final = 1000


class DomainPods(NamedTuple):
    """So many pods in one domain; `values` are its labels, one for each level of the placement."""

    values: tuple[str, ...]
    pods: int


class Placement(NamedTuple):
    """Where the pods of one pod set go."""

    levels: tuple[str, ...]
    domains: tuple[DomainPods, ...]

    @property
    def by_host(self) -> bool:
        """Whether the lowest level is single nodes."""
        return bool(self.levels) and self.levels[-1] == HOSTNAME

    @property
    def pods(self) -> int:
        return sum(domain.pods for domain in self.domains)

    def hosts(self) -> set[str]:
        """The nodes with pods of it, where the lowest level is single nodes."""
        return {domain.values[-1] for domain in self.domains if domain.pods} if self.by_host else set()


def decode(assignment: Mapping[str, Any]) -> Placement:
    """A placement, given as `v1beta2` stores it."""
    domains: list[DomainPods] = []
    for part in assignment.get("slices") or ():
        size = part["domainCount"]
        levels = [_listed(level, size) for level in part["valuesPerLevel"]]
        pods = part["podCounts"]
        counts = [pods["universal"]] * size if pods.get("universal") is not None else pods.get("individual") or []
        domains += [DomainPods(tuple(values), count) for *values, count in zip(*levels, counts, strict=False)]
    return Placement(tuple(assignment["levels"]), tuple(domains))


def encode(placement: Placement) -> dict[str, Any]:
    """A placement as `v1beta2` stores it: one slice, or one for each prefix of host names if that is shorter."""
    single = _slices(placement.levels, [placement.domains] if placement.domains else [])
    runs = _runs(placement)
    if len(runs) < 2:
        return single
    by_prefix = _slices(placement.levels, runs)
    return single if len(msgspec.json.encode(single)) < len(msgspec.json.encode(by_prefix)) else by_prefix


def _slices(levels: tuple[str, ...], runs: Sequence[Sequence[DomainPods]]) -> dict[str, Any]:
    return {"levels": list(levels), "slices": [_slice(run) for run in runs]}


def _slice(domains: Sequence[DomainPods]) -> dict[str, Any]:
    counts = [domain.pods for domain in domains]
    return {
        "domainCount": len(domains),
        "valuesPerLevel": [_level(level) for level in zip(*(domain.values for domain in domains), strict=True)],
        "podCounts": {"universal": counts[0]} if len(set(counts)) == 1 else {"individual": counts},
    }


def _level(values: tuple[str, ...]) -> dict[str, Any]:
    if len(set(values)) == 1:
        return {"universal": values[0]}
    shortest = min(map(len, values))
    suffix = _common_prefix([value[::-1] for value in values])[::-1]
    prefix = _common_prefix(values)[: shortest - len(suffix)]
    individual: dict[str, Any] = {}
    if prefix:
        individual["prefix"] = prefix
    if suffix:
        individual["suffix"] = suffix
    individual["roots"] = [value[len(prefix) : len(value) - len(suffix)] for value in values]
    return {"individual": individual}


def _common_prefix(values: Sequence[str]) -> str:
    first, last = min(values), max(values)
    same = next((at for at, letter in enumerate(first) if last[at : at + 1] != letter), len(first))
    return first[:same]


def _runs(placement: Placement) -> list[list[DomainPods]]:
    """Neighbouring hosts whose names begin alike, up to a dash; as deep as the number of slices allows."""
    domains = placement.domains
    if len(domains) < 2 or not placement.by_host:
        return [list(domains)] if domains else []
    prefixes = [list(_prefixes(domain.values[-1])) for domain in domains]
    times: dict[str, int] = {}
    for one in prefixes:
        for prefix in one:
            times[prefix] = times.get(prefix, 0) + 1
    for depth in range(max(map(len, prefixes)), 0, -1):
        keys = [next((prefix for prefix in reversed(one[:depth]) if times[prefix] > 1), "") for one in prefixes]
        runs = [
            [domain for _, domain in run]
            for _, run in groupby(zip(keys, domains, strict=True), key=lambda pair: pair[0])
        ]
        if len(runs) <= _MOST_SLICES:
            return runs
    return [list(domains)]


def _prefixes(host: str) -> Iterator[str]:
    """The beginnings of a host's name that end with a dash, the shortest first."""
    return (host[: position + 1] for position, letter in enumerate(host[:-1]) if letter == "-")


def _listed(level: Mapping[str, Any], size: int) -> list[str]:
    if level.get("universal") is not None:
        return [level["universal"]] * size
    individual = level.get("individual") or {}
    prefix, suffix = individual.get("prefix") or "", individual.get("suffix") or ""
    return [f"{prefix}{root}{suffix}" for root in individual.get("roots") or ()]
