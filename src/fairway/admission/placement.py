"""Topologies in an assignment: which flavors go with a request, and where the pods of an assignment go."""

from __future__ import annotations

from fairway.admission.choices import Assignment, Choice, Mode, PodSetChoice, conclude
from fairway.admission.clusterqueues import FlavorGroup, QueueState
from fairway.admission.flavors import Flavor
from fairway.admission.reasons import Code, Reason
from fairway.admission.records import PodSetDemand
from fairway.admission.topology.assigning import NotPlaced, TopologyAsk, place_all
from fairway.admission.topology.capacity import Topologies
from fairway.admission.topology.requests import PodSetTopology, has_levels


def mismatch(flavor: Flavor, ask: PodSetDemand, group: FlavorGroup, queue: QueueState, topologies: Topologies) -> str:
    """Why a flavor does not go with the topology that a pod set asks for, or asks not for."""
    if not ask.wants_topology:
        return "" if queue.only_topologies else "supports only TopologyAwareScheduling"
    if not flavor.topology:
        # A group that covers nothing of the pods' own requests has quota only, counted from others.
        unrelated = group.covered.isdisjoint(ask.shape.asks)
        return "" if unrelated else "does not support TopologyAwareScheduling"
    levels = topologies.levels.get(flavor.topology)
    if levels is None:
        return "information missing in TAS cache"
    return "" if has_levels(ask.topology, levels) else "does not contain the requested level"


def with_placements(made: Assignment, queue: QueueState, topologies: Topologies, *, balance: bool) -> Assignment:
    """An assignment with a place for the pods that want one.

    Where quota suffices and the domains are full, others must be preempted; where even empty domains are too
    small, nothing helps.
    """
    if made.mode is Mode.NO_FIT:
        return made
    asks, delayed, errors = _topology_asks(made.pod_sets, queue, topologies)
    if errors:
        return conclude([_refused(each, errors.get(each.ask.name)) for each in made.pod_sets], dict(made.usage))
    if not asks:
        return conclude(list(made.pod_sets), dict(made.usage), asks, delayed) if delayed else made
    made = conclude(list(made.pod_sets), dict(made.usage), asks, delayed)
    failure: NotPlaced | None = None
    if made.mode is Mode.FIT:
        found = place_all(topologies, asks, balance=balance)
        if not isinstance(found, NotPlaced):
            made.put(found)
            return made
        failure = found
    if_empty = place_all(topologies, asks, empty=True, balance=balance)
    never = if_empty if isinstance(if_empty, NotPlaced) else None
    wanting = {ask.pod_set.name for ask in asks}
    pod_sets = []
    for each in made.pod_sets:
        other = each
        if failure is not None and failure.pod_set == each.ask.name:
            code = Code.TOPOLOGY_FULL if never is None else Code.TOPOLOGY_TOO_SMALL
            other = other._replace(reasons=(*each.reasons, not_placed(code, failure)))
        if never is not None and never.pod_set == each.ask.name:
            if failure is None or failure.pod_set != never.pod_set:
                other = other._replace(reasons=(*other.reasons, not_placed(Code.TOPOLOGY_TOO_SMALL, never)))
            other = other._replace(failed=True)
        elif never is None and each.ask.name in wanting:
            other = other._replace(choices={name: _preempting(one) for name, one in each.choices.items()})
        pod_sets.append(other)
    return conclude(pod_sets, dict(made.usage), asks, delayed)


def _topology_asks(
    pod_sets: tuple[PodSetChoice, ...], queue: QueueState, topologies: Topologies
) -> tuple[tuple[TopologyAsk, ...], frozenset[str], dict[str, str]]:
    """The pod sets to be placed, those placed later, and what is wrong with others."""
    asks, delayed, errors = [], set(), {}
    for each in pod_sets:
        ask = each.ask
        if not ask.pods or not (ask.wants_topology or queue.only_topologies):
            continue
        flavors = sorted({one.fr.flavor for one in each.choices.values() if topologies.flavors[one.fr.flavor].topology})
        if len(flavors) > 1:
            errors[ask.name] = f"more than one TAS flavor assigned: {', '.join(flavors)}"
        elif not flavors or topologies.tree(flavors[0]) is None:
            errors[ask.name] = "no TAS flavor assigned"
        elif flavors[0] in queue.delayed_flavors:
            delayed.add(ask.name)
        else:
            asks.append(TopologyAsk(flavors[0], _placeable(ask)))
    return tuple(asks), frozenset(delayed), errors


def _placeable(ask: PodSetDemand) -> PodSetTopology:
    return PodSetTopology(ask.name, ask.pods, ask.shape, ask.topology, implied=not ask.wants_topology)


def _preempting(choice: Choice) -> Choice:
    return choice._replace(mode=Mode.PREEMPT) if choice.mode is Mode.FIT else choice


def not_placed(code: Code, failure: NotPlaced) -> Reason:
    """Why pods found no place, as a reason against the flavor."""
    why = failure.why
    return Reason(
        code,
        failure.flavor,
        requested=why.wanted,
        capacity=why.fits,
        detail=why.message,
        domain=why.domain,
    )


def _refused(each: PodSetChoice, error: str | None) -> PodSetChoice:
    if error is None:
        return each
    return each._replace(reasons=(Reason(Code.TOPOLOGY_TOO_SMALL, detail=error),), failed=True)
