"""Chooses domains and goes down to the leaves: the second phase of a placement.

The search begins at the requested level. One domain that fits all is taken, the tightest; where the level is only
preferred, the search goes up until one fits, and at the top takes the fullest domains until all pods have a place. On
the way down each level gets as few domains as do. Pods that may run anywhere fill the domains with the least room
first, so that large ones stay free.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fairway.admission.topology import balanced
from fairway.admission.topology.counting import Counted, LeafRoom, count, shortfall
from fairway.admission.topology.requests import PlacementRequest, PodSetTopology, TopologyShortfall, wanted
from fairway.admission.topology.tree import Domain, TopologyTree
from fairway.apis.kueue.placements import DomainPods, Placement

Placements = Mapping[str, Placement]
"""By pod set."""


def place(
    tree: TopologyTree, workers: PodSetTopology, leader: PodSetTopology | None, room: LeafRoom, *, balance: bool = False
) -> Placements | TopologyShortfall:
    """Where the pods of a pod set go, and the single pod of another that goes with it, if there is one.

    With ``balance``, pods that prefer a level are spread evenly over as few domains as possible, if that can be done.
    """
    want = wanted(tree, workers, leaders=0 if leader is None else 1)
    if isinstance(want, TopologyShortfall):
        return want
    counted = count(
        tree, tree.matching(workers.shape), workers.per_pod, None if leader is None else leader.per_pod, want, room
    )
    even = balanced.choose(tree, want) if balance and not want.required and not want.unconstrained else None
    if even is not None:
        leaves = _descend(tree, even.domains, even.level, want, evenly=True)
    else:
        level, chosen = _choose(counted, want, want.level)
        if isinstance(chosen, TopologyShortfall):
            return chosen
        leaves = _descend(tree, chosen, level, want, evenly=False)
    placements = {}
    if leader is not None:
        placements[leader.name] = _placement(tree, [(one, one.leaders) for one in leaves])
    placements[workers.name] = _placement(tree, [(one, one.pods) for one in leaves])
    return placements


def _placement(tree: TopologyTree, counts: list[tuple[Domain, int]]) -> Placement:
    """The leaves with pods, in the order of their values; only the host of each, if leaves are hosts."""
    first = len(tree.levels) - 1 if tree.by_host else 0
    used = sorted(((leaf.rank, leaf, pods) for leaf, pods in counts if pods > 0), key=lambda one: one[0])
    return Placement(tree.levels[first:], tuple(DomainPods(leaf.values[first:], pods) for _, leaf, pods in used))


# Choosing


def _by_slices(domain: Domain) -> int:
    return domain.slices


def _by_slices_led(domain: Domain) -> int:
    return domain.slices_led


def _by_pods(domain: Domain) -> int:
    return domain.pods


def _by_pods_led(domain: Domain) -> int:
    return domain.pods_led


def in_order(domains: list[Domain], *, least_first: bool) -> list[Domain]:
    """The fullest domains last or first; of equal ones that with the least room beside whole slices."""
    if least_first:
        return sorted(domains, key=lambda one: (one.slices, one.pods, one.rank))
    return sorted(domains, key=lambda one: (-one.slices, one.pods, one.rank))


def in_order_with_leader(domains: list[Domain], *, least_first: bool) -> list[Domain]:
    """The same by what fits beside a leader, domains with room for one first."""
    if least_first:
        return sorted(domains, key=lambda one: (-one.leaders, one.slices_led, one.pods_led, one.rank))
    return sorted(domains, key=lambda one: (-one.leaders, -one.slices_led, one.pods_led, one.rank))


def _tightest(domains: list[Domain], needed: int, leaders: int, fits: Callable[[Domain], int]) -> Domain:
    """The domain with the least room that is enough; the first, if none has enough."""
    best, best_room = domains[0], -1
    for domain in domains:
        room = fits(domain)
        if domain.leaders >= leaders and room >= needed and (best_room < 0 or room < best_room):
            best, best_room = domain, room
    return best


def _tightest_for_slices(domains: list[Domain], needed: int, leaders: int) -> Domain:
    return _tightest(domains, needed, leaders, _by_slices_led if leaders else _by_slices)


def _choose(counted: Counted, want: PlacementRequest, level: int) -> tuple[int, list[Domain] | TopologyShortfall]:
    """The level at which the pods are placed, and the domains; or why there are none."""
    tree, slices, least_first = counted.tree, want.slices, want.unconstrained
    if not tree.tiers[level]:
        return 0, TopologyShortfall(f"no topology domains at level: {tree.levels[level]}")
    domains = in_order_with_leader(tree.tiers[level], least_first=least_first)
    if least_first:
        fits = _by_slices_led if want.leaders else _by_slices
        for domain in domains:
            if domain.leaders >= want.leaders and fits(domain) >= slices:
                return level, [domain]
        if want.required:
            return 0, shortfall(counted, want, level, domains[-1].pods)
    top = domains[0]
    if top.slices_led >= slices and top.leaders >= want.leaders:
        return level, [top if least_first else _tightest_for_slices(domains, slices, want.leaders)]
    if want.required:
        return 0, shortfall(counted, want, level, top.slices)
    if level > 0 and not want.unconstrained:
        return _choose(counted, want, level - 1)
    return _choose_several(counted, want, level, domains)


def _choose_several(
    counted: Counted, want: PlacementRequest, level: int, domains: list[Domain]
) -> tuple[int, list[Domain] | TopologyShortfall]:
    """Domains until all pods have a place, first those that take the leaders."""
    remaining, leaders = want.slices, want.leaders
    chosen: list[Domain] = []
    domains = _leader_first(domains, want.pods, leaders, want.slice_size, slices=True)
    position = 0
    while leaders > 0 and position < len(domains) and domains[position].leaders > 0:
        domain = domains[position]
        if not want.unconstrained and domain.slices_led >= remaining:
            domain = _tightest_for_slices(domains[position:], remaining, leaders)
        chosen.append(domain)
        leaders -= domain.leaders
        remaining -= domain.slices_led
        position += 1
    if leaders > 0:
        return 0, shortfall(counted, want, level, want.leaders - leaders)
    domains = in_order(domains[position:], least_first=want.unconstrained)
    for index, domain in enumerate(domains):
        if remaining <= 0:
            break
        if not want.unconstrained and domain.slices >= remaining:
            domain = _tightest_for_slices(domains[index:], remaining, 0)  # noqa: PLW2901
        chosen.append(domain)
        remaining -= domain.slices
    if remaining > 0:
        return 0, shortfall(counted, want, level, want.slices - remaining)
    return level, chosen


def _leader_first(domains: list[Domain], pods: int, leaders: int, size: int, *, slices: bool) -> list[Domain]:
    """Bring forward the first domain whose leader leaves enough room for the rest in all domains together."""
    if not leaders or len(domains) < 2:
        return domains
    needed = pods // size if slices else pods
    fits, fits_led = (_by_slices, _by_slices_led) if slices else (_by_pods, _by_pods_led)
    available = sum(map(fits, domains))
    for index, domain in enumerate(domains):
        if domain.leaders >= leaders and available - (fits(domain) - fits_led(domain)) >= needed:
            return domains if index == 0 else [domain, *domains[:index], *domains[index + 1 :]]
    return domains


# Going down


def _descend(
    tree: TopologyTree, domains: list[Domain], level: int, want: PlacementRequest, *, evenly: bool
) -> list[Domain]:
    """From the chosen domains to the leaves, with as few domains at each level as possible.

    Above the level of slices the children of all domains are filled together, from there on each domain's own.
    """
    least_first = want.unconstrained
    domains = _fill(domains, want.pods, want.leaders, want.slice_size, least_first=least_first, slices=True)
    last = len(tree.tiers) - 1
    while level < min(last, want.slice_level) and not evenly:
        below = in_order([child for domain in domains for child in domain.children], least_first=least_first)
        domains = _fill(below, want.pods, want.leaders, want.slice_size, least_first=least_first, slices=True)
        level += 1
    for at in range(level, last):
        size = want.slice_size if at < want.slice_level else want.inner.get(at + 1, 1)
        domains = [child for domain in domains for child in _fill_children(domain, size, least_first=least_first)]
    return domains


def _fill_children(domain: Domain, size: int, *, least_first: bool) -> list[Domain]:
    children = in_order(domain.children, least_first=least_first)
    if size > 1:  # slices were counted for the outermost level
        for child in children:
            child.slices, child.slices_led = child.pods // size, child.pods_led // size
    return _fill(children, domain.pods, domain.leaders, size, least_first=least_first, slices=size > 1)


def _fill(
    domains: list[Domain], pods: int, leaders: int, size: int, *, least_first: bool, slices: bool
) -> list[Domain]:
    """Give pods (or whole slices of them) to domains in order until none is left; those that got some.

    The last one is the tightest that takes the rest, unless the order itself begins with the tightest.
    """
    domains = _leader_first(domains, pods, leaders, size, slices=slices)
    unit = size if slices else 1
    remaining = pods // unit
    fits, fits_led = (_by_slices, _by_slices_led) if slices else (_by_pods, _by_pods_led)
    used: list[Domain] = []
    for index, domain in enumerate(domains):
        room = fits_led if leaders > 0 else fits
        if not least_first and room(domain) >= remaining and domain.leaders >= leaders:
            domain = _tightest(domains[index:], remaining, leaders, room)  # noqa: PLW2901
        used.append(domain)
        available = room(domain)
        if available >= remaining and domain.leaders >= leaders:
            _give(domain, remaining, leaders, unit)
            return used
        given = min(available, remaining)
        led = min(domain.leaders, leaders)
        _give(domain, given, led, unit)
        remaining -= given
        leaders -= led
    return []


def _give(domain: Domain, units: int, leaders: int, size: int) -> None:
    domain.slices = units
    domain.leaders = leaders
    domain.pods = units * size
