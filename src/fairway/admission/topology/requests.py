"""What the pods of one pod set ask of a topology, and the outcome of looking for it."""

from __future__ import annotations

from typing import NamedTuple

from fairway.admission.resources import PODS
from fairway.admission.shapes import Shape
from fairway.admission.topology.tree import Requests, TopologyTree
from fairway.apis.kueue.workloads import SliceTopologyConstraint, TopologyRequest


class PodSetTopology(NamedTuple):
    """One pod set to be placed. ``implied``: it asks for nothing, but its queue has only flavors with a topology."""

    name: str
    pods: int
    shape: Shape
    request: TopologyRequest | None
    implied: bool = False

    @property
    def per_pod(self) -> Requests:
        return per_pod(self.shape)

    @property
    def group(self) -> str | None:
        return self.request.pod_set_group_name if self.request is not None else None


class TopologyShortfall(NamedTuple):
    """Why pods could not be placed: Kueue's sentence, and the domain that came nearest with what fits there."""

    message: str
    domain: str = ""
    fits: int = 0
    wanted: int = 0


def per_pod(shape: Shape) -> Requests:
    """What one pod takes from its node. The pod counts itself."""
    return (*((name, amount) for name, amount in shape.asks.items() if name != PODS and amount), (PODS, 1))


def is_explicit(request: TopologyRequest | None) -> bool:
    """Whether a pod set asks for a topology by itself; a group's name alone does not."""
    return request is not None and (
        request.required is not None
        or request.preferred is not None
        or request.unconstrained is not None
        or request.pod_set_slice_required_topology is not None
        or request.pod_set_slice_size is not None
        or bool(request.podset_slice_required_topology_constraints)
    )


def slice_constraints(request: TopologyRequest | None) -> tuple[SliceTopologyConstraint, ...]:
    """The levels that slices must stay within and their sizes, the outermost first."""
    if request is None:
        return ()
    if request.podset_slice_required_topology_constraints:
        return request.podset_slice_required_topology_constraints
    if request.pod_set_slice_required_topology is None:
        return ()
    size = request.pod_set_slice_size or 0
    return (SliceTopologyConstraint(topology=request.pod_set_slice_required_topology, size=size),)


def requested_level(request: TopologyRequest | None, levels: tuple[str, ...], *, implied: bool = False) -> str | None:
    """The level at which the search begins."""
    if request is not None:
        if request.required is not None:
            return request.required
        if request.preferred is not None:
            return request.preferred
        if slice_constraints(request):
            return levels[0]
        if request.unconstrained:
            return levels[-1]
    return levels[-1] if implied else None


def has_levels(request: TopologyRequest | None, levels: tuple[str, ...]) -> bool:
    """Whether a topology has every level that is asked for."""
    level = requested_level(request, levels)
    return level in levels and all(one.topology in levels for one in slice_constraints(request))


class PlacementRequest(NamedTuple):
    """A request in terms of one tree: numbers of levels instead of labels.

    ``inner`` has the size of slices within slices, by level; ``leaders`` is 1 if a pod set of one pod goes with it.
    """

    pods: int
    leaders: int
    level: int
    slice_level: int
    slice_size: int
    inner: dict[int, int]
    constraints: tuple[SliceTopologyConstraint, ...]
    required: bool
    unconstrained: bool

    @property
    def slices(self) -> int:
        return self.pods // self.slice_size


def wanted(tree: TopologyTree, ask: PodSetTopology, *, leaders: int = 0) -> PlacementRequest | TopologyShortfall:
    """The request of a pod set for this tree, or why it cannot be one."""
    request = ask.request
    constraints = slice_constraints(request)
    if constraints and constraints[0].size <= 0:
        return TopologyShortfall("slice topology requested, but slice size not provided")
    level = requested_level(request, tree.levels, implied=ask.implied)
    if level is None:
        return TopologyShortfall("topology level not specified")
    index = tree.level_index(level)
    if index is None:
        return TopologyShortfall(f"no requested topology level: {level}")
    slice_level = constraints[0].topology if constraints else tree.levels[-1]
    slice_index = tree.level_index(slice_level)
    if slice_index is None:
        return TopologyShortfall(f"no requested topology level for slices: {slice_level}")
    if index > slice_index:
        return TopologyShortfall(f"podset slice topology {slice_level} is above the podset topology {level}")
    size = constraints[0].size if constraints else 1
    inner = _inner_sizes(tree, constraints[1:], size, slice_index)
    if isinstance(inner, TopologyShortfall):
        return inner
    required = request is not None and request.required is not None
    only_slices = bool(constraints) and not required and request is not None and request.preferred is None
    free = request is not None and bool(request.unconstrained)
    return PlacementRequest(
        pods=ask.pods,
        leaders=leaders,
        level=index,
        slice_level=slice_index,
        slice_size=size,
        inner=inner,
        constraints=constraints if inner else (),
        required=required,
        unconstrained=free or ask.implied or only_slices,
    )


def _inner_sizes(
    tree: TopologyTree, layers: tuple[SliceTopologyConstraint, ...], size: int, level: int
) -> dict[int, int] | TopologyShortfall:
    """The slice size at each level below the outermost slices: that of the next layer at or below it."""
    sizes: dict[int, int] = {}
    for layer in layers:
        index = tree.level_index(layer.topology)
        if index is None:
            return TopologyShortfall(f"no requested topology level for additional slice layer: {layer.topology}")
        if index <= level:
            above = tree.levels[level]
            return TopologyShortfall(
                f"additional slice layer topology {layer.topology} must be at a lower level than {above}"
            )
        if size % layer.size:
            return TopologyShortfall(
                f"additional slice layer size {layer.size} must evenly divide parent layer size {size}"
            )
        sizes.update(dict.fromkeys(range(level + 1, index + 1), layer.size))
        size, level = layer.size, index
    return sizes
