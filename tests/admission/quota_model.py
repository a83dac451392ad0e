"""A second opinion on quota: the rules of the tree, computed anew at every question. Shares no code with the engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from typing import NamedTuple

from fairway.apis.core.pod_requests import pod_requests
from fairway.apis.kueue.objects import ClusterQueue, Cohort, ResourceGroup, Workload
from fairway.apis.machinery.quantities import Quantity, amount_of

Pair = tuple[str, str]
"""A flavor and a resource."""

Usage = Mapping[str, Mapping[Pair, int]]
"""How much of each pair the workloads of each ClusterQueue hold."""


class Limits(NamedTuple):
    nominal: int
    borrowing: int | None
    lending: int | None


class QuotaModel:
    """ClusterQueues and cohorts by name, with who is above whom."""

    def __init__(self, objects: Iterable[Cohort | ClusterQueue]) -> None:
        self.limits: dict[str, dict[Pair, Limits]] = {}
        self.parent: dict[str, str] = {}
        self.queues: dict[str, ClusterQueue] = {}
        for each in objects:
            if isinstance(each, ClusterQueue):
                name = each.name
                above = each.spec.cohort_name
                self.queues[name] = each
            else:
                name = f"cohort {each.name}"
                above = each.spec.parent_name
            self.limits[name] = dict(_limits(each.spec.resource_groups))
            if above:
                self.parent[name] = f"cohort {above}"
                self.limits.setdefault(f"cohort {above}", {})

    def children(self, name: str) -> Iterator[str]:
        return (child for child, above in self.parent.items() if above == name)

    def of(self, name: str, pair: Pair) -> Limits:
        return self.limits[name].get(pair, Limits(0, None, None))

    def subtree(self, name: str, pair: Pair) -> int:
        """Its own quota and what those below lend it."""
        lent = sum(self.subtree(child, pair) - self.kept(child, pair) for child in self.children(name))
        return self.of(name, pair).nominal + lent

    def kept(self, name: str, pair: Pair) -> int:
        """What it never lends."""
        lending = self.of(name, pair).lending
        return 0 if lending is None else max(0, self.subtree(name, pair) - lending)

    def usage(self, name: str, pair: Pair, held: Usage) -> int:
        if name in self.queues:
            return held.get(name, {}).get(pair, 0)
        return sum(max(0, self.usage(child, pair, held) - self.kept(child, pair)) for child in self.children(name))

    def available(self, name: str, pair: Pair, held: Usage) -> int:
        above = self.parent.get(name)
        if above is None:
            return self.subtree(name, pair) - self.usage(name, pair, held)
        subtree, kept, used = self.subtree(name, pair), self.kept(name, pair), self.usage(name, pair, held)
        from_above = self.available(above, pair, held)
        borrowing = self.of(name, pair).borrowing
        if borrowing is not None:
            from_above = min(from_above, subtree - kept - max(0, used - kept) + borrowing)
        return max(0, kept - used) + from_above

    def potential(self, name: str, pair: Pair) -> int:
        """What it could have if nobody used anything."""
        above = self.parent.get(name)
        if above is None:
            return self.subtree(name, pair)
        most = self.kept(name, pair) + self.potential(above, pair)
        borrowing = self.of(name, pair).borrowing
        return most if borrowing is None else min(most, self.subtree(name, pair) + borrowing)

    def root(self, name: str) -> str:
        while name in self.parent:
            name = self.parent[name]
        return name

    # Workloads

    def fits(self, queue: str, wanted: Mapping[Pair, int], held: Usage) -> bool:
        return all(amount <= max(0, self.available(queue, pair, held)) for pair, amount in wanted.items())

    def borrows(self, queue: str, wanted: Mapping[Pair, int], held: Usage) -> bool:
        return any(
            self.usage(queue, pair, held) + amount > self.of(queue, pair).nominal for pair, amount in wanted.items()
        )

    def choices(self, queue: str, workload: Workload) -> Iterator[dict[Pair, int]]:
        """What a workload could take, for every combination of flavors (which have no taints and no labels here)."""
        groups = self.queues[queue].spec.resource_groups
        options: list[list[dict[Pair, int]]] = []
        for pod_set in workload.spec.pod_sets:
            requests = {
                name: amount_of(name, amount) * pod_set.count
                for name, amount in pod_requests(pod_set.template.spec).items()
            }
            for each in groups:
                wanted = {name: amount for name, amount in requests.items() if name in each.covered_resources}
                if wanted:
                    options.append([{(one.name, name): wanted[name] for name in wanted} for one in each.flavors])
            if any(not any(name in each.covered_resources for each in groups) for name in requests):
                return
        for combination in product(*options):
            total: dict[Pair, int] = {}
            for part in combination:
                for pair, amount in part.items():
                    total[pair] = total.get(pair, 0) + amount
            yield total


def less(held: Usage, queue: str, gone: Mapping[Pair, int]) -> dict[str, dict[Pair, int]]:
    """The usage without what one workload holds."""
    return more(held, queue, {pair: -amount for pair, amount in gone.items()})


def more(held: Usage, queue: str, added: Mapping[Pair, int]) -> dict[str, dict[Pair, int]]:
    changed = {name: dict(amounts) for name, amounts in held.items()}
    for pair, amount in added.items():
        amounts = changed.setdefault(queue, {})
        amounts[pair] = amounts.get(pair, 0) + amount
    return changed


def _limits(groups: Iterable[ResourceGroup]) -> Iterator[tuple[Pair, Limits]]:
    for each in groups:
        for flavor in each.flavors:
            for quota in flavor.resources:
                yield (
                    (flavor.name, quota.name),
                    Limits(
                        amount_of(quota.name, quota.nominal_quota),
                        _amount(quota.name, quota.borrowing_limit),
                        _amount(quota.name, quota.lending_limit),
                    ),
                )


def _amount(resource: str, quantity: Quantity | None) -> int | None:
    return None if quantity is None else amount_of(resource, quantity)
