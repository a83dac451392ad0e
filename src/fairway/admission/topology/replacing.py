"""Moves the pods of a failed node elsewhere, and leaves all others where they are."""

from __future__ import annotations

from msgspec import structs

from fairway.admission.topology.counting import LeafRoom
from fairway.admission.topology.placing import place
from fairway.admission.topology.requests import (
    PodSetTopology,
    TopologyShortfall,
    requested_level,
    slice_constraints,
)
from fairway.admission.topology.tree import Domain, TopologyTree
from fairway.apis.kueue.placements import DomainPods, Placement


def replace_node(
    tree: TopologyTree, ask: PodSetTopology, existing: Placement, node: str, room: LeafRoom
) -> Placement | TopologyShortfall:
    """The placement with another node instead of the failed one.

    The new node is in the same domain where one is required, or where a slice is incomplete without it.
    """
    rest = tuple(domain for domain in existing.domains if domain.values[-1] != node)
    missing = sum(domain.pods for domain in existing.domains) - sum(domain.pods for domain in rest)
    stale = next((one for one in rest if tree.domain_id(one.values) not in tree.index), None)
    if stale is not None:
        return TopologyShortfall(
            "Cannot replace the node, because the existing topologyAssignment is invalid,"
            f" as it contains the stale domain {stale.values[0]}"
        )
    within = _domain_to_stay_in(tree, ask, rest, missing)
    wanted = _for_the_rest(ask._replace(pods=missing), missing, within)
    found = place(tree, wanted, None, room._replace(within=within))
    if isinstance(found, TopologyShortfall):
        return found
    new = found[ask.name]
    if not new.domains:
        return TopologyShortfall(f"cannot find replacement assignment for unhealthy node: {node}")
    return _merged(tree, new, rest)


def moved(before: Placement, after: Placement) -> Placement:
    """The pods that a placement adds to another one."""
    counts = {domain.values: domain.pods for domain in before.domains}
    added = (DomainPods(one.values, one.pods - counts.get(one.values, 0)) for one in after.domains)
    return after._replace(domains=tuple(one for one in added if one.pods > 0))


def _for_the_rest(ask: PodSetTopology, missing: int, within: Domain | None) -> PodSetTopology:
    """The request of the missing pods: if they are part of a slice, the innermost slices that they fill stay whole."""
    constraints = slice_constraints(ask.request)
    if ask.request is None or not constraints or within is None or missing % constraints[0].size == 0:
        return ask
    whole = next((one for one in reversed(constraints) if missing % one.size == 0), None)
    request = structs.replace(
        ask.request,
        podset_slice_required_topology_constraints=(),
        pod_set_slice_required_topology=whole.topology if whole is not None else None,
        pod_set_slice_size=whole.size if whole is not None else 1,
    )
    return ask._replace(request=request)


def _domain_to_stay_in(
    tree: TopologyTree, ask: PodSetTopology, rest: tuple[DomainPods, ...], missing: int
) -> Domain | None:
    level = requested_level(ask.request, tree.levels, implied=ask.implied)
    index = tree.level_index(level) if level is not None else None
    if index is None or not rest:
        return None
    constraints = slice_constraints(ask.request)
    if constraints and missing % constraints[0].size:
        broken = next((one for one in reversed(constraints) if missing % one.size), constraints[0])
        return _incomplete_slice(tree, rest, missing, broken.size, broken.topology)
    if ask.request is None or ask.request.required is None:
        return None
    return _ancestor(tree, rest[0].values, index)


def _incomplete_slice(
    tree: TopologyTree, rest: tuple[DomainPods, ...], missing: int, size: int, topology: str
) -> Domain | None:
    """The domain of the slice that lost its pods."""
    level = tree.level_index(topology)
    if level is None:
        return None
    pods: dict[Domain, int] = {}
    for one in rest:
        domain = _ancestor(tree, one.values, level)
        pods[domain] = pods.get(domain, 0) + one.pods
    return next((domain for domain, count in pods.items() if (count + missing) % size == 0), None)


def _ancestor(tree: TopologyTree, values: tuple[str, ...], level: int) -> Domain:
    domain = tree.leaves[tree.index[tree.domain_id(values)]]
    while len(domain.values) - 1 > level and domain.parent is not None:
        domain = domain.parent
    return domain


def _merged(tree: TopologyTree, new: Placement, rest: tuple[DomainPods, ...]) -> Placement:
    """Both together, in the order of the leaves."""
    counts: dict[tuple[str, ...], int] = {}
    for domain in (*new.domains, *rest):
        counts[domain.values] = counts.get(domain.values, 0) + domain.pods
    ordered = sorted(counts, key=lambda values: tree.index[tree.domain_id(values)])
    return new._replace(domains=tuple(DomainPods(values, counts[values]) for values in ordered))
