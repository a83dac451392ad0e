"""Assigns flavors to workloads, with the obstacles of each flavor.

For every pod set and resource group the flavors are tried in order. A flavor may fit at once, fit by borrowing, need
others to be preempted, or not do at all; the ClusterQueue's fungibility rules say whether to settle for it or look at
the next. Nothing is changed here: the result says what would be taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple, Protocol

from fairway.admission.clusterqueues import FlavorGroup, FlavorSlot, QueueState
from fairway.admission.flavors import Flavor
from fairway.admission.instructions import PodSetAdmission
from fairway.admission.nodes import Nodes
from fairway.admission.precedents import Answer, Fork, Question
from fairway.admission.reasons import Code, PodSetReasons, Reason
from fairway.admission.records import PodSetDemand, Progress, Record, WorkloadDemand
from fairway.admission.resources import PODS, Amounts, FlavorResource, in_order, merged
from fairway.apis.kueue.objects import PreemptionPolicy


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


_WORST = FitVerdict(Mode.NO_FIT, 2**31)
_BEST = FitVerdict(Mode.FIT, 0)
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
    got through its flavors, and ``unfinished`` that not all of them came to the end.
    """

    __slots__ = (
        "_parts",
        "contested",
        "level",
        "mode",
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
    ) -> None:
        self.mode = mode
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
                    {resource: amounts[resource] for resource in each.choices},
                )
            )
        return admission


class Oracle(Protocol):
    """Answers whether preemption could make room for one flavor-resource."""

    def __call__(self, record: Record, queue: QueueState, fr: FlavorResource, amount: int) -> FitVerdict: ...


class Assigner:
    """Tries flavors for the heads of one cycle."""

    __slots__ = (
        "_fair",
        "_flavors",
        "_ignore_undeclared",
        "_nodes",
        "_oracle",
        "_progress",
        "_queue",
        "_record",
        "_shortcut",
        "_transcript",
    )

    _record: Record
    _queue: QueueState
    _progress: Progress | None

    def __init__(
        self,
        *,
        flavors: Mapping[str, Flavor],
        nodes: Nodes | None,
        oracle: Oracle,
        fair: bool,
        ignore_undeclared: bool,
        shortcut: bool,
    ) -> None:
        self._flavors = flavors
        self._nodes = nodes
        self._oracle = oracle
        self._fair = fair
        self._ignore_undeclared = ignore_undeclared
        self._shortcut = shortcut
        self._transcript: list[tuple[Question, Answer]] = []

    def assign(
        self,
        record: Record,
        queue: QueueState,
        progress: Progress | None = None,
        counts: tuple[int, ...] | None = None,
    ) -> Assignment:
        """Find flavors for all pod sets (of these sizes, where given), continuing where an earlier try stopped."""
        self._record, self._queue, self._progress = record, queue, progress
        if not self._shortcut or progress is not None or counts is not None:
            return self._work_out(record.demand, counts)
        known = self._precedent(queue.precedents.of(record.demand))
        if known is None:
            self._transcript.clear()
            known = self._work_out(record.demand, None)
            queue.precedents.add(record.demand, self._transcript, known)
        return known

    def _precedent(self, fork: Fork | None) -> Assignment | None:
        """What was assigned when quota said what it says now, if it ever did."""
        while fork is not None:
            way = fork.ways.get(self._ask(fork.question))
            if isinstance(way, Assignment):
                return way
            fork = way
        return None

    def _work_out(self, demand: WorkloadDemand, counts: tuple[int, ...] | None) -> Assignment:
        queue = self._queue
        asks = demand.asks
        if counts is not None:
            asks = tuple(ask.scaled(count) for ask, count in zip(asks, counts, strict=True))
        if queue.covers_pods:
            asks = tuple(ask._replace(requests=in_order({**dict(ask.requests), PODS: ask.pods})) for ask in asks)
        usage: dict[FlavorResource, int] = {}
        found: list[PodSetChoice] = []
        for members in demand.groups:
            choices, reasons, failed = self._assign_group(members, asks, usage)
            for index in members:
                ask = asks[index]
                own = {}
                for resource, amount in ask.requests:
                    choice = choices.get(resource)
                    if choice is not None:
                        own[resource] = choice
                        usage[choice.fr] = usage.get(choice.fr, 0) + amount
                found.append(PodSetChoice(ask, own, reasons, failed))
            if failed:
                break
        return _conclude(found, usage)

    def _assign_group(
        self, members: tuple[int, ...], asks: tuple[PodSetDemand, ...], usage: Mapping[FlavorResource, int]
    ) -> tuple[dict[str, Choice], tuple[Reason, ...], bool]:
        """Pod sets that must share their flavors: one, usually."""
        requests = asks[members[0]].requests if len(members) == 1 else merged(asks[index].requests for index in members)
        choices: dict[str, Choice] = {}
        reasons: list[Reason] = []
        for resource, amount in requests:
            group = self._queue.group_of.get(resource)
            if group is None:
                if amount == 0 or self._ignore_undeclared:
                    continue
                return {}, (Reason(Code.RESOURCE_NOT_COVERED, resource=resource),), True
            if resource in choices:
                continue
            best, why = self._choose_flavor(members, asks, requests, resource, group, usage)
            if best is None:
                return {}, tuple(why), True
            choices.update(best)
            reasons.extend(why)
        return choices, tuple(reasons), False

    def _choose_flavor(
        self,
        members: tuple[int, ...],
        asks: tuple[PodSetDemand, ...],
        requests: tuple[tuple[str, int], ...],
        resource: str,
        group: FlavorGroup,
        usage: Mapping[FlavorResource, int],
    ) -> tuple[dict[str, Choice] | None, list[Reason]]:
        """The flavor of one resource group, for all that is requested of the group."""
        wanted = [(name, amount) for name, amount in requests if name in group.covered]
        reasons: list[Reason] = []
        best: dict[str, tuple[FlavorResource, FitVerdict]] | None = None
        best_verdict = _WORST
        last = len(group.flavors) - 1
        attempted = -1
        for attempted in range(self._first_flavor(members[0], resource, last), last + 1):
            slot = group.flavors[attempted]
            obstacle = self._obstacle(slot.name, members, asks)
            if obstacle is not None:
                reasons.append(obstacle)
                continue
            obstacle = self._lacks_node(slot, members, asks, wanted, usage)
            if obstacle is not None:
                reasons.append(obstacle)
                continue
            verdict, parts = self._judge_flavor(slot, wanted, usage, reasons)
            if not self._look_further(verdict):
                best, best_verdict = parts, verdict
                break
            if self._preferred(verdict, best_verdict):
                best, best_verdict = parts, verdict
        if best is None:
            return None, reasons
        tried = -1 if attempted == last else attempted
        choices = {name: Choice(fr, part.mode, part.level, tried) for name, (fr, part) in best.items()}
        return choices, [] if best_verdict.mode is Mode.FIT else reasons

    def _first_flavor(self, pod_set: int, resource: str, last: int) -> int:
        progress = self._progress
        if progress is None or pod_set >= len(progress.tried):
            return 0
        following = progress.tried[pod_set].get(resource, -1) + 1
        return following if following <= last else 0

    def _obstacle(self, name: str, members: tuple[int, ...], asks: tuple[PodSetDemand, ...]) -> Reason | None:
        flavor = self._flavors.get(name)
        if flavor is None:
            return Reason(Code.FLAVOR_NOT_FOUND, flavor=name)
        for index in members:
            ask = asks[index]
            obstacle = flavor.obstacle(ask.shape, wants_topology=ask.wants_topology)
            if obstacle is not None:
                return obstacle if self._nodes is None else self._nodes.detailed(obstacle, ask.shape)
        return None

    def _lacks_node(
        self,
        slot: FlavorSlot,
        members: tuple[int, ...],
        asks: tuple[PodSetDemand, ...],
        wanted: list[tuple[str, int]],
        usage: Mapping[FlavorResource, int],
    ) -> Reason | None:
        """Why the nodes can never run these pods in a flavor whose quota could.

        Where checks are asked for, they say whether there is capacity: nodes may be on their way.
        """
        nodes, potential = self._nodes, self._queue.leaf.potential
        if nodes is None or self._queue.checks:
            return None
        for index in members:
            if asks[index].pods:
                flavor = self._flavors[slot.name]
                refusal = nodes.refusal(asks[index].shape, flavor)
                if refusal is None and self._record.gang:
                    refusal = nodes.gang_refusal(asks, index, flavor)
                if refusal is not None:
                    frs = ((slot.frs[name], amount) for name, amount in wanted)
                    enough = all(usage.get(fr, 0) + amount <= potential.get(fr, 0) for fr, amount in frs)
                    return refusal if enough else None
        return None

    def _judge_flavor(
        self,
        slot: FlavorSlot,
        wanted: list[tuple[str, int]],
        usage: Mapping[FlavorResource, int],
        reasons: list[Reason],
    ) -> tuple[FitVerdict, dict[str, tuple[FlavorResource, FitVerdict]]]:
        """The worst verdict over the resources, and each of them."""
        worst = _BEST
        parts: dict[str, tuple[FlavorResource, FitVerdict]] = {}
        for name, amount in wanted:
            fr = slot.frs[name]
            verdict = self._judge_quota(Question(fr, usage.get(fr, 0), amount), reasons)
            if self._preferred(worst, verdict):
                worst = verdict
            parts[name] = (fr, verdict)
        return worst, parts

    def _judge_quota(self, question: Question, reasons: list[Reason]) -> FitVerdict:
        mode, level, missing = answer = self._ask(question)
        self._transcript.append((question, answer))
        fr, assumed, amount = question
        if missing < 0:
            capacity = self._queue.leaf.potential.get(fr, 0)
            reasons.append(
                Reason(
                    Code.EXCEEDS_MAXIMUM, fr.flavor, fr.resource, requested=amount, assumed=assumed, capacity=capacity
                )
            )
        elif missing:
            total = assumed + amount
            reasons.append(Reason(Code.INSUFFICIENT_UNUSED, fr.flavor, fr.resource, missing=missing, requested=total))
        return FitVerdict(mode, level)

    def _ask(self, question: Question) -> Answer:
        """What quota says now."""
        fr, assumed, amount = question
        leaf = self._queue.leaf
        total = assumed + amount
        if total > leaf.potential.get(fr, 0):
            return Answer(Mode.NO_FIT, 0, -1)
        available = max(0, leaf.available(fr))
        level, room_above = leaf.lowest_fitting_height(fr, total)
        if total <= available:
            return Answer(Mode.FIT, level, 0)
        mode = Mode.NO_FIT
        if leaf.nominal.get(fr, 0) >= total or room_above or self._preempts_beyond_nominal():
            mode, level = self._oracle(self._record, self._queue, fr, total)
        return Answer(mode, level, total - available)

    def _preempts_beyond_nominal(self) -> bool:
        queue = self._queue
        return queue.borrowing_preemption or (self._fair and queue.reclaim is not PreemptionPolicy.NEVER)

    # The ClusterQueue's fungibility rules

    def _look_further(self, verdict: FitVerdict) -> bool:
        mode, level = verdict
        if mode <= Mode.NO_CANDIDATES:
            return True
        if mode is not Mode.FIT and not self._queue.may_preempt_flavor:
            return True
        return level > 0 and not self._queue.may_borrow_flavor

    def _preferred(self, a: FitVerdict, b: FitVerdict) -> bool:
        """Whether ``a`` is strictly better. What cannot be had now ranks below all that can."""
        if a.mode is Mode.NO_FIT or b.mode is Mode.NO_FIT:
            return a.mode is not Mode.NO_FIT
        if (a.mode is Mode.NO_CANDIDATES) != (b.mode is Mode.NO_CANDIDATES):
            return b.mode is Mode.NO_CANDIDATES
        if self._queue.prefer_preemption:
            return (-a.level, a.mode) > (-b.level, b.mode)
        return (a.mode, -a.level) > (b.mode, -b.level)


def _conclude(found: list[PodSetChoice], usage: dict[FlavorResource, int]) -> Assignment:
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
    return Assignment(mode, level, tuple(found), tuple(usage.items()), frozenset(contested), tuple(tried))


def reduced_counts(full: tuple[int, ...], least: tuple[int, ...], step: int) -> tuple[int, ...]:
    """Pod counts on the way from full to least: each pod set gives up its share of ``step`` pods out of all it may
    give up.
    """
    gaps = [most - fewest for most, fewest in zip(full, least, strict=True)]
    total = sum(gaps)
    return tuple(count - gap * step // total for count, gap in zip(full, gaps, strict=True))
