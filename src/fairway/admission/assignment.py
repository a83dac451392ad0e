"""Assigns flavors to workloads, with the obstacles of each flavor.

For every pod set and resource group the flavors are tried in order. A flavor may fit at once, fit by borrowing, need
others to be preempted, or not do at all; the ClusterQueue's fungibility rules say whether to settle for it or look at
the next. Nothing is changed here: the result says what would be taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from fairway.admission import placement
from fairway.admission.choices import Assignment, Choice, FitVerdict, Mode, PodSetChoice, conclude
from fairway.admission.clusterqueues import FlavorGroup, FlavorSlot, QueueState
from fairway.admission.flavors import Flavor
from fairway.admission.instructions import PodSetAdmission
from fairway.admission.nodes import Nodes
from fairway.admission.precedents import Answer, Fork, Question
from fairway.admission.reasons import Code, Reason
from fairway.admission.records import PodSetDemand, Progress, Record, WorkloadDemand
from fairway.admission.resources import PODS, FlavorResource, in_order, merged
from fairway.admission.topology.capacity import Topologies
from fairway.apis.kueue.objects import PreemptionPolicy

_WORST = FitVerdict(Mode.NO_FIT, 2**31)
_BEST = FitVerdict(Mode.FIT, 0)
_NOTHING: Mapping[str, PodSetAdmission] = {}


class Oracle(Protocol):
    """Answers whether preemption could make room for one flavor-resource."""

    def __call__(self, record: Record, queue: QueueState, fr: FlavorResource, amount: int) -> FitVerdict: ...


Pinned = Mapping[tuple[int, str], str]
"""The flavor that a pod set, by its number, is to stay with for a resource."""


class Assigner:
    """Tries flavors for the heads of one cycle."""

    __slots__ = (
        "_balance",
        "_fair",
        "_flavors",
        "_ignore_undeclared",
        "_nodes",
        "_oracle",
        "_pinned",
        "_progress",
        "_queue",
        "_record",
        "_replaced",
        "_shortcut",
        "_topologies",
        "_transcript",
    )

    _record: Record
    _queue: QueueState
    _progress: Progress | None
    _pinned: Pinned | None
    _replaced: Mapping[str, PodSetAdmission]
    """What the pod sets of the slice have that the workload would take the place of."""

    def __init__(
        self,
        *,
        flavors: Mapping[str, Flavor],
        nodes: Nodes | None,
        topologies: Topologies,
        balance: bool,
        oracle: Oracle,
        fair: bool,
        ignore_undeclared: bool,
        shortcut: bool,
    ) -> None:
        self._flavors = flavors
        self._nodes = nodes
        self._topologies = topologies
        self._balance = balance
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
        pinned: Pinned | None = None,
        replaced: Mapping[str, PodSetAdmission] = _NOTHING,
    ) -> Assignment:
        """Find flavors for all pod sets (of these sizes, where given), continuing where an earlier try stopped.

        What would take the place of a slice gets the flavors of that, and asks for what it has not got yet.
        """
        self._record, self._queue, self._progress, self._pinned = record, queue, progress, pinned
        self._replaced = replaced
        if record.demand.wants_topology or queue.only_topologies:
            made = self._work_out(record.demand, counts)
            return placement.with_placements(made, queue, self._topologies, balance=self._balance)
        if not self._shortcut or progress is not None or counts is not None or replaced:
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
                        usage[choice.fr] = usage.get(choice.fr, 0) + amount - self._held(ask.name, resource)
                if not ask.requests and ask.topology is not None and ask.topology.pod_set_group_name is not None:
                    own = {name: one for name, one in choices.items() if self._flavors[one.fr.flavor].topology}
                found.append(PodSetChoice(ask, own, reasons, failed))
            if failed:
                break
        return conclude(found, usage)

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
        wanted = [
            (name, amount - sum(self._held(asks[index].name, name) for index in members))
            for name, amount in requests
            if name in group.covered
        ]
        reasons: list[Reason] = []
        best: dict[str, tuple[FlavorResource, FitVerdict]] | None = None
        best_verdict = _WORST
        last = len(group.flavors) - 1
        attempted = -1
        for attempted in range(self._first_flavor(members[0], resource, last), last + 1):
            slot = group.flavors[attempted]
            if self._pinned is not None and all(self._pinned.get((at, resource)) != slot.name for at in members):
                continue
            obstacle = self._of_another_slice(slot.name, members, asks, wanted)
            if obstacle is None:
                obstacle = self._obstacle(slot.name, members, asks, group)
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

    def _held(self, pod_set: str, resource: str) -> int:
        """How much of a resource the slice that is replaced has for a pod set."""
        held = self._replaced.get(pod_set)
        return held.usage.get(resource, 0) if held is not None else 0

    def _of_another_slice(
        self, name: str, members: tuple[int, ...], asks: tuple[PodSetDemand, ...], wanted: list[tuple[str, int]]
    ) -> Reason | None:
        """Why a flavor is none for a slice: its job runs on another already."""
        for index in members if self._replaced else ():
            held = self._replaced.get(asks[index].name)
            for resource, _ in wanted:
                flavor = "" if held is None else held.flavors.get(resource, "")
                if flavor != name:
                    return Reason(Code.OTHER_SLICE_FLAVOR, flavor=name, resource=resource, detail=flavor)
        return None

    def _obstacle(
        self, name: str, members: tuple[int, ...], asks: tuple[PodSetDemand, ...], group: FlavorGroup
    ) -> Reason | None:
        flavor = self._flavors.get(name)
        if flavor is None:
            return Reason(Code.FLAVOR_NOT_FOUND, flavor=name)
        for index in members:
            ask = asks[index]
            if flavor.topology or ask.wants_topology:
                mismatch = placement.mismatch(flavor, ask, group, self._queue, self._topologies)
                if mismatch:
                    return Reason(Code.TOPOLOGY_UNSUPPORTED, flavor=name, detail=mismatch)
            obstacle = flavor.obstacle(ask.shape)
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
        if nodes is None or self._queue.checks or self._flavors[slot.name].topology:
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


def reduced_counts(full: tuple[int, ...], least: tuple[int, ...], step: int) -> tuple[int, ...]:
    """Pod counts on the way from full to least: each pod set gives up its share of ``step`` pods out of all it may
    give up.
    """
    gaps = [most - fewest for most, fewest in zip(full, least, strict=True)]
    total = sum(gaps)
    return tuple(count - gap * step // total for count, gap in zip(full, gaps, strict=True))
