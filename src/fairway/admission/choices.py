"""What a workload would take: the flavors settled for, what it takes to get them, and where the pods go."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from fairway.admission.instructions import PodSetAdmission
from fairway.admission.reasons import Code, PodSetReasons, Reason
from fairway.admission.records import PodSetDemand
from fairway.admission.resources import PODS, Amounts, FlavorResource
from fairway.admission.topology.assigning import TopologyAsk, taken_by
from fairway.admission.topology.capacity import Occupied
from fairway.admission.topology.placing import Placements
from fairway.apis.kueue.objects import DelayedTopologyRequestState


class Mode(IntEnum):
    """What it takes to get a flavor, worst first."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


class FitVerdict(NamedTuple):
    """``level`` is how far up the tree the quota comes from; 0 is the queue's own."""

    mode: Mode
    level: int


_PENDING = DelayedTopologyRequestState.PENDING.value
_ABOUT_NODES = frozenset((Code.NO_NODE, Code.GANG_TOO_LARGE))


class Choice(NamedTuple):
    """The flavor settled for, for one resource of one pod set."""

    fr: FlavorResource
    mode: Mode
    level: int
    tried: int


class PodSetChoice(NamedTuple):
    ask: PodSetDemand
    choices: dict[str, Choice]
    reasons: tuple[Reason, ...]
    failed: bool

    @property
    def mode(self) -> Mode:
        if self.failed:
            return Mode.NO_FIT
        if not self.reasons:
            return Mode.FIT
        return min((choice.mode for choice in self.choices.values()), default=Mode.NO_FIT)


class Assignment:
    """What a workload would take, and what it takes to get it. Shared by equal workloads, so never changed.

    ``usage`` is what would be taken in all, ``taken`` that without what comes to nothing, ``requests`` that without the
    count of pods; ``contested`` are the flavor-resources others must give up first. ``tried`` says how far each pod set
    got through its flavors, and ``unfinished`` that not all of them came to the end. ``asks`` are the pod sets that are
    placed in a topology, ``placements`` where their pods go, and ``placed`` what they take there; of those that are
    ``delayed`` the place is found after the admission checks. An assignment with any of these is not shared.
    """

    __slots__ = (
        "_parts",
        "asks",
        "contested",
        "delayed",
        "level",
        "mode",
        "placed",
        "placements",
        "pod_sets",
        "reasons",
        "requests",
        "taken",
        "tried",
        "unfinished",
        "usage",
    )

    def __init__(
        self,
        mode: Mode,
        level: int,
        pod_sets: tuple[PodSetChoice, ...],
        usage: Amounts,
        contested: frozenset[FlavorResource],
        tried: tuple[dict[str, int], ...],
        asks: tuple[TopologyAsk, ...] = (),
        delayed: frozenset[str] = frozenset(),
    ) -> None:
        self.mode = mode
        self.asks = asks
        self.delayed = delayed
        self.placements: Placements = {}
        self.placed: tuple[Occupied, ...] = ()
        self.level = level
        self.pod_sets = pod_sets
        self.usage = usage
        self.taken = tuple((fr, amount) for fr, amount in usage if amount)
        self.requests = tuple((fr, amount) for fr, amount in self.taken if fr.resource != PODS)
        self.contested = contested
        self.tried = tried
        self.unfinished = any(index != -1 for pod_set in tried for index in pod_set.values())
        self.reasons = tuple(PodSetReasons(each.ask.name, each.reasons) for each in pod_sets if each.reasons)
        self._parts: list[PodSetAdmission] = []

    @property
    def lacks_node(self) -> bool:
        """Whether the nodes can never run its pods."""
        return any(
            not pod_set.can_ever_fit and any(reason.code in _ABOUT_NODES for reason in pod_set.reasons)
            for pod_set in self.reasons
        )

    def put(self, placements: Placements) -> None:
        """Say where the pods go."""
        self.placements = placements
        self.placed = taken_by(self.asks, placements)

    def admission(self) -> tuple[PodSetAdmission, ...]:
        """What each pod set gets: a new tuple each time, because admissions are compared by identity."""
        if not self._parts:
            self._parts = self._work_out_parts()
        return tuple(self._parts)

    def _work_out_parts(self) -> list[PodSetAdmission]:
        admission = []
        for each in self.pod_sets:
            amounts = dict(each.ask.requests)
            admission.append(
                PodSetAdmission(
                    each.ask.name,
                    each.ask.pods,
                    {resource: choice.fr.flavor for resource, choice in each.choices.items()},
                    {resource: amounts[resource] for resource in each.choices if resource in amounts},
                    self.placements.get(each.ask.name),
                    _PENDING if each.ask.name in self.delayed else "",
                )
            )
        return admission


def conclude(
    found: list[PodSetChoice],
    usage: dict[FlavorResource, int],
    asks: tuple[TopologyAsk, ...] = (),
    delayed: frozenset[str] = frozenset(),
) -> Assignment:
    """The assignment that these choices come to."""
    mode = Mode.FIT if found else Mode.NO_FIT
    level = 0
    contested = []
    tried = []
    for each in found:
        mode = min(mode, each.mode)
        indexes = {}
        for resource, choice in each.choices.items():
            level = max(level, choice.level)
            indexes[resource] = choice.tried
            if choice.mode is not Mode.FIT:
                contested.append(choice.fr)
        tried.append(indexes)
    return Assignment(
        mode, level, tuple(found), tuple(usage.items()), frozenset(contested), tuple(tried), asks, delayed
    )
