"""How many pods, slices and leaders fit into each domain: the first phase of a placement, from the leaves up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from fairway.admission.topology.requests import PlacementRequest, TopologyShortfall
from fairway.admission.topology.tree import Columns, Domain, Matching, Requests, TopologyTree


class LeafRoom(NamedTuple):
    """What a count is made against.

    ``assumed`` is what other pod sets of the workload take, by leaf; ``empty`` leaves out all that is placed;
    ``within`` is the domain that the pods must stay in.
    """

    assumed: Mapping[int, Mapping[str, int]]
    empty: bool = False
    within: Domain | None = None


class Counted(NamedTuple):
    """What the count was made of, for the sentence about a failure."""

    tree: TopologyTree
    matching: Matching
    per_pod: Requests
    room: LeafRoom


def count(
    tree: TopologyTree,
    matching: Matching,
    workers: Requests,
    leader: Requests | None,
    wanted: PlacementRequest,
    room: LeafRoom,
) -> Counted:
    """Fill in the counts of all domains."""
    columns = tree.free if room.empty else tree.left
    pods = _fitting(tree, columns, workers)
    led, leaders = pods, [0] * len(pods)
    if leader is not None:
        leaders = [1 if one > 0 else 0 for one in _fitting(tree, columns, leader)]
        beside = _fitting(tree, columns, workers, less=dict(leader))
        led = [with_one if one else alone for with_one, one, alone in zip(beside, leaders, pods, strict=True)]
    for domain in tree.leaves:
        domain.pods = domain.pods_led = domain.leaders = domain.slices = domain.slices_led = 0
    tier = tree.leaves
    for position in _allowed(tree, matching, room):
        domain = tier[position]
        domain.pods, domain.pods_led, domain.leaders = max(0, pods[position]), max(0, led[position]), leaders[position]
        if position in room.assumed:
            _count_leaf(domain, columns, room.assumed[position], workers, leader)
    add_up(tree.tiers, wanted)
    return Counted(tree, matching, workers, room)


def _allowed(tree: TopologyTree, matching: Matching, room: LeafRoom) -> Iterable[int]:
    if room.within is None:
        return matching.leaves
    prefix = room.within.values
    return [at for at in matching.leaves if tree.leaves[at].values[: len(prefix)] == prefix]


def _fitting(
    tree: TopologyTree, columns: Columns, requests: Requests, less: Mapping[str, int] | None = None
) -> list[int]:
    """How many pods fit into each leaf. Below zero where more is in use than there is."""
    found: list[int] | None = None
    for resource, amount in requests:
        column = columns.get(resource)
        if column is None:
            return [0] * len(tree.leaves)
        taken = less.get(resource, 0) if less is not None else 0
        fits = [(each - taken) // amount for each in column] if taken else [each // amount for each in column]
        found = fits if found is None else list(map(min, found, fits))
    return found if found is not None else [0] * len(tree.leaves)


def _count_leaf(
    domain: Domain, columns: Columns, assumed: Mapping[str, int], workers: Requests, leader: Requests | None
) -> None:
    """The counts of one leaf in which pods of the same workload are to run already."""
    left = {resource: column[domain.leaf] - assumed.get(resource, 0) for resource, column in columns.items()}
    domain.pods = fitting_in(left, workers)[0]
    domain.leaders = 1 if leader is not None and fitting_in(left, leader)[0] > 0 else 0
    if leader is not None and domain.leaders:
        for resource, amount in leader:
            left[resource] = left.get(resource, 0) - amount
    domain.pods_led = fitting_in(left, workers)[0]


def fitting_in(left: Mapping[str, int], requests: Requests) -> tuple[int, str]:
    """How many pods fit, and the resource that limits them, the first by name of several."""
    return min((max(0, left.get(resource, 0) // amount), resource) for resource, amount in requests)


def add_up(tiers: tuple[list[Domain], ...], wanted: PlacementRequest) -> None:
    """Counts of the leaves, summed up level by level."""
    if len(tiers) - 1 == wanted.slice_level:
        for leaf in tiers[-1]:
            leaf.slices, leaf.slices_led = leaf.pods // wanted.slice_size, leaf.pods_led // wanted.slice_size
    for level in range(len(tiers) - 2, -1, -1):
        for domain in tiers[level]:
            add_up_domain(domain, level, wanted)


def add_up_domain(domain: Domain, level: int, wanted: PlacementRequest) -> None:
    """The counts of a domain from those of its children.

    With a leader it loses what the leader costs in the child where that costs least.
    """
    inner = wanted.inner.get(level + 1, 1)
    pods = slices = leaders = 0
    pods_cost = slices_cost = -1
    for child in domain.children:
        whole, led = child.pods, child.pods_led
        if inner > 1:
            whole, led = whole // inner * inner, led // inner * inner
        pods += whole
        slices += child.slices
        if not wanted.leaders or child.leaders:
            if pods_cost < 0 or whole - led < pods_cost:
                pods_cost = whole - led
            if slices_cost < 0 or child.slices - child.slices_led < slices_cost:
                slices_cost = child.slices - child.slices_led
        leaders = max(leaders, child.leaders)
    domain.pods, domain.leaders = pods, leaders
    domain.pods_led = pods - pods_cost if pods_cost >= 0 else 0
    slices_led = slices - slices_cost if pods_cost >= 0 else 0
    if level == wanted.slice_level:
        slices, slices_led = pods // wanted.slice_size, domain.pods_led // wanted.slice_size
    domain.slices, domain.slices_led = slices, slices_led


# Why it was not enough


def shortfall(counted: Counted, wanted: PlacementRequest, level: int, fits: int) -> TopologyShortfall:
    """The sentence about a level at which only so many slices fit."""
    tree = counted.tree
    nearest = max(tree.tiers[level], key=lambda one: (one.slices, -one.rank), default=None)
    needed = wanted.slices
    unit = "pod" if wanted.slice_size == 1 else "slice"
    if wanted.constraints:
        message = f'topology "{tree.name}" doesn\'t allow to fit' + _layers(tree, wanted, level, nearest)
    elif fits == 0:
        message = f'topology "{tree.name}" doesn\'t allow to fit any of {needed} {unit}(s)'
    else:
        message = f'topology "{tree.name}" allows to fit only {fits} out of {needed} {unit}(s)'
    excluded = _exclusions(counted)
    if excluded:
        total = len(tree.leaves)
        message += f". Total nodes: {total}; excluded: {', '.join(sorted(excluded))}"
    return TopologyShortfall(message, domain_name(tree, nearest), nearest.slices if nearest is not None else 0, needed)


def domain_name(tree: TopologyTree, domain: Domain | None) -> str:
    """A domain by the last value and the label of its level: ``rack r1``."""
    if domain is None:
        return ""
    return f"{tree.levels[len(domain.values) - 1]}={domain.values[-1]}"


def _layers(tree: TopologyTree, wanted: PlacementRequest, level: int, nearest: Domain | None) -> str:
    if nearest is None:
        return ""
    text = ""
    for constraint in wanted.constraints:
        target = tree.level_index(constraint.topology)
        if target is not None:
            fits = _slices_below(nearest, level, target, constraint.size)
            text += f"; {fits}/{wanted.pods // constraint.size} slice(s) fit on level {constraint.topology}"
    return text


def _slices_below(domain: Domain, level: int, target: int, size: int) -> int:
    if level == target:
        return domain.pods // size
    return sum(_slices_below(child, level + 1, target, size) for child in domain.children)


def _exclusions(counted: Counted) -> list[str]:
    """Why leaves were left out, with how many for each cause."""
    tree, matching, per_pod, room = counted
    reasons = []
    if matching.selector:
        reasons.append(f"nodeSelector: {matching.selector}")
    if matching.affinity:
        reasons.append(f"affinity: {matching.affinity}")
    reasons += [f'taint "{taint}": {times}' for taint, times in matching.taints.items()]
    inside = set(_allowed(tree, matching, room))
    if len(inside) < len(matching.leaves):
        reasons.append(f"topologyDomain: {len(matching.leaves) - len(inside)}")
    columns = tree.free if room.empty else tree.left
    short: dict[str, int] = {}
    for position in inside:
        assumed = room.assumed.get(position, {})
        left = {name: columns[name][position] - assumed.get(name, 0) for name, _ in per_pod if name in columns}
        fits, resource = fitting_in(left, per_pod)
        if not fits:
            short[resource] = short.get(resource, 0) + 1
    reasons += [f'resource "{resource}": {times}' for resource, times in short.items()]
    return reasons
