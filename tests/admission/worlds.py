"""Random small worlds and scripts for property tests, and a player that keeps its own books about them.

Examples are the same in every run. ``FAIRWAY_EXAMPLES=5000 pytest tests/admission`` draws so many new ones for each
property instead; with ``FAIRWAY_SHRINK=1`` a failing one is made smaller, which may take minutes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import hypothesis.strategies as st
from hypothesis import HealthCheck, Phase, settings

from fairway.admission import events
from fairway.admission.config import Config
from fairway.admission.instructions import Admit, Evict, Instruction, Unreserve
from fairway.admission.records import EARNED_PRIORITY
from fairway.apis.kueue.configuration import FairSharingPolicy, PreemptionStrategy
from fairway.apis.kueue.objects import ClusterQueue, Cohort, FlavorQuotas, Workload
from fairway.testing.builders import (
    Bench,
    Limited,
    Object,
    cluster_queue,
    cohort,
    created_at,
    group,
    key_of,
    on,
    pod_set,
    workload,
)

from .quota_model import Pair, QuotaModel, Usage

_EXAMPLES = int(os.environ.get("FAIRWAY_EXAMPLES", "0"))
_SHRINK = bool(os.environ.get("FAIRWAY_SHRINK"))

FLAVORS = ("f0", "f1", "f2")
MEMORY_FLAVORS = {"f0": "g0", "f1": "g1", "f2": "g2"}
"""A flavor may be in one resource group only, so memory has its own where it is apart from cpu."""


def examples(count: int) -> Callable[[Any], Any]:
    """Settings for a property that is tried on so many worlds."""
    return settings(
        max_examples=_EXAMPLES or count,
        derandomize=not _EXAMPLES,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
        print_blob=False,
        phases=[Phase.explicit, Phase.generate, *([Phase.shrink] if _SHRINK else [])],
    )


# Worlds


class Setup(NamedTuple):
    objects: tuple[Object, ...]
    config: Config

    @property
    def queues(self) -> list[ClusterQueue]:
        return [each for each in self.objects if isinstance(each, ClusterQueue)]

    def model(self) -> QuotaModel:
        return QuotaModel(each for each in self.objects if isinstance(each, ClusterQueue | Cohort))

    def __repr__(self) -> str:
        return f"Setup({self.config.fair_sharing}, {', '.join(map(_brief, self.objects))})"


def _brief(made: Object) -> str:
    assert isinstance(made, ClusterQueue | Cohort)
    return f"{made.KIND} {made.name}: {made.spec}"


_limits = st.sampled_from([None, None, None, 0, 2, 4])


def _quotas(flavor: str, resources: tuple[str, ...], *, limited: bool) -> st.SearchStrategy[FlavorQuotas]:
    amount = st.sampled_from([6, 8, 4, 3, 2, 0])
    limits = (
        st.builds(Limited, amount, _limits, _limits) if limited else st.builds(Limited, amount, st.none(), st.none())
    )
    return st.tuples(*(limits for _ in resources)).map(
        lambda given: on(flavor, resources=dict(zip(resources, given, strict=True)))
    )


@st.composite
def _groups(draw: st.DrawFn, flavors: tuple[str, ...], *, limited: bool) -> tuple[Any, ...]:
    """One group for all resources, or one for each."""
    apart = draw(st.booleans())
    parts = [("cpu",), ("memory",)] if apart else [("cpu", "memory")]
    groups = []
    for resources in parts:
        own = flavors if resources[0] == "cpu" else tuple(MEMORY_FLAVORS[name] for name in flavors)
        chosen = draw(st.permutations(own))[: draw(st.integers(1, len(own)))]
        groups.append(group(*(draw(_quotas(name, resources, limited=limited)) for name in chosen)))
    return tuple(groups)


@st.composite
def cohorts(draw: st.DrawFn, flavors: tuple[str, ...]) -> list[Cohort]:
    made = []
    for number in range(draw(st.sampled_from([1, 2, 3, 0]))):
        parent = draw(st.sampled_from(["", *(f"c{above}" for above in range(number))]))
        own = draw(_groups(flavors, limited=bool(parent))) if draw(st.booleans()) else ()
        made.append(cohort(f"c{number}", *own, parent=parent, weight=draw(st.sampled_from([None, 0, 2]))))
    return made


_BORROW_WITHIN: list[str | int] = ["LowerPriority", "Never", 2]
_MAY_STOP_OR_NOT = st.sampled_from(["MayStopSearch", "TryNextFlavor"])


@st.composite
def _queue(draw: st.DrawFn, name: str, cohort_names: list[str], flavors: tuple[str, ...]) -> ClusterQueue:
    above = draw(st.sampled_from([*cohort_names, *cohort_names, ""]))
    borrow, preempt = draw(_MAY_STOP_OR_NOT), draw(_MAY_STOP_OR_NOT)
    free = borrow == preempt == "TryNextFlavor"
    return cluster_queue(
        name,
        *draw(_groups(flavors, limited=bool(above))),
        cohort=above,
        strategy=draw(st.sampled_from(["BestEffortFIFO", "BestEffortFIFO", "StrictFIFO"])),
        within=draw(st.sampled_from(["LowerPriority", "LowerOrNewerEqualPriority", "Never"])),
        reclaim=draw(st.sampled_from(["Any", "Any", "LowerPriority", "Never"])),
        borrow_within=draw(st.sampled_from(_BORROW_WITHIN)),
        when_can_borrow=borrow,
        when_can_preempt=preempt,
        preference=draw(st.sampled_from([None, "PreemptionOverBorrowing"])) if free else None,
        weight=draw(st.sampled_from([None, None, 0, 2])),
    )


_STRATEGIES = st.sampled_from(
    [
        (PreemptionStrategy.FINAL_SHARE, PreemptionStrategy.INITIAL_SHARE),
        (PreemptionStrategy.FINAL_SHARE,),
        (PreemptionStrategy.INITIAL_SHARE,),
    ]
)


@st.composite
def setups(draw: st.DrawFn) -> Setup:
    flavors = FLAVORS[: draw(st.sampled_from([1, 2, 2, 3]))]
    above = draw(cohorts(flavors))
    names = [each.name for each in above] or ["lone"]
    queues = [draw(_queue(f"q{number}", names, flavors)) for number in range(draw(st.sampled_from([3, 2, 4, 5, 1])))]
    fair = FairSharingPolicy(strategies=draw(_STRATEGIES)) if draw(st.booleans()) else None
    return Setup((*above, *queues), Config(fair_sharing=fair))


# Scripts

Action = tuple[str, int, int]
"""What to do, to whom (an index, taken modulo those there are), and how much."""


class Submit(NamedTuple):
    queue: int
    cpu: int
    memory: int
    priority: int
    pods: int
    earned: int = 0
    """What aging has added to its priority."""

    def workload(self, name: str, queues: list[ClusterQueue]) -> Workload:
        queue = queues[self.queue % len(queues)].name
        requests = {"cpu": self.cpu} | ({"memory": self.memory} if self.memory else {})
        return workload(
            name,
            pod_set(count=self.pods, resources=requests),
            queue=queue,
            priority=self.priority,
            annotations={EARNED_PRIORITY: str(self.earned)} if self.earned else {},
        )


submits = st.builds(
    Submit,
    queue=st.integers(0, 4),
    cpu=st.sampled_from([1, 1, 2, 1, 3, 4, 6]),
    memory=st.sampled_from([0, 0, 0, 1, 2]),
    priority=st.integers(0, 5),
    pods=st.sampled_from([1, 1, 1, 2]),
    earned=st.sampled_from([0, 0, 0, 1, 3]),
)
_VERBS = ["finish", "finish", "delete", "release", "release", "priority", "deactivate", "activate", "pass"]
_other = st.tuples(st.sampled_from(_VERBS), st.integers(0, 30), st.integers(0, 5))
_alone = [st.tuples(submits) for _ in range(5)]
_step = st.one_of(*_alone, st.tuples(submits, submits), st.tuples(_other), st.tuples(_other, submits))
Script = list[list[Submit | Action]]
scripts = st.lists(_step.map(list), min_size=15, max_size=30)


class Player:
    """Plays a script on a bench, and keeps account of who holds what from events and instructions alone."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.bench = Bench(*setup.objects, config=setup.config)
        self.model = setup.model()
        self.workloads: dict[str, Workload] = {}
        self.held: dict[str, dict[Pair, int]] = {}
        self.evicting: set[str] = set()
        self.stopping: set[str] = set()
        """Those who were deactivated: they count no more, but their jobs have yet to stop."""

    def play(self, script: list[list[Submit | Action]]) -> Iterator[list[Instruction]]:
        """Each step is one batch; the instructions that it led to. What is due by then is told before it, for whoever
        is admitted then may be deleted by the batch.
        """
        for step in script:
            due = self.bench.engine.next_wakeup
            if due is not None and due <= self.bench.now:
                yield self.tell(events.TimePassed(at=self.bench.now))
            batch = []
            for action in step:
                for event in self._events(action):
                    self._hear(event)
                    batch.append(event)
            yield self.bench.send(*batch)
            self.bench.now += 1.0

    def come_to_rest(self) -> Iterator[list[Instruction]]:
        """All that stop have stopped, and all that was to be tried again has been.

        In Kueue's order a victim may be served again before its preemptor, and be evicted again, without end. Whoever
        is still being evicted after many rounds is deleted.
        """
        for number in range(200):
            due = self.bench.engine.next_wakeup
            gone = events.QuotaReleased if number < 40 else events.WorkloadDeleted
            if keys := sorted(self.evicting | self.stopping):
                yield self.tell(*(gone(at=self.bench.now, key=key) for key in keys))
            elif due is not None:
                yield self.tell(events.TimePassed(at=max(due, self.bench.now)))
            else:
                return
        raise AssertionError(f"no rest; {self.bench.story()}")

    def tell(self, *happened: events.Event) -> list[Instruction]:
        for event in happened:
            self._hear(event)
        return self.bench.send(*happened)

    def _events(self, action: Submit | Action) -> Iterator[events.Event]:
        at = self.bench.now
        if isinstance(action, Submit):
            name = f"w{len(self.workloads)}"
            made = created_at(action.workload(name, self.setup.queues), at)
            self.workloads[key_of(name)] = made
            yield events.WorkloadAdded(at=at, workload=made)
            return
        verb, index, amount = action
        if verb == "pass":
            yield events.TimePassed(at=at)
        keys = sorted(self.evicting | self.stopping) if verb == "release" else list(self.workloads)
        if not keys:
            return
        key = keys[index % len(keys)]
        match verb:
            case "finish":
                yield events.WorkloadFinished(at=at, key=key)
            case "delete":
                yield events.WorkloadDeleted(at=at, key=key)
            case "release":
                yield events.QuotaReleased(at=at, key=key)
            case "priority":
                yield events.PriorityChanged(at=at, key=key, priority=amount)
            case "deactivate":
                yield events.ActiveChanged(at=at, key=key, active=False)
            case "activate":
                if key in self.stopping:  # otherwise it would count again, and there may be no room for it any more
                    yield events.QuotaReleased(at=at, key=key)
                yield events.ActiveChanged(at=at, key=key, active=True)

    # Books

    def _hear(self, event: events.Event) -> None:
        match event:
            case events.WorkloadFinished(key=key) | events.WorkloadDeleted(key=key) | events.QuotaReleased(key=key):
                self._gone(key)
            case events.ActiveChanged(key=key, active=False):
                stopping = {key} & (self.held.keys() | self.stopping)
                self._gone(key)
                self.stopping |= stopping
            case _:
                pass

    def _gone(self, key: str) -> None:
        self.held.pop(key, None)
        self.evicting.discard(key)
        self.stopping.discard(key)

    def obey(self, said: Instruction) -> None:
        """Take over one decision. To be called for each, in order."""
        match said:
            case Admit():
                self.held[said.key] = {
                    (flavor, resource): each.usage[resource]
                    for each in said.pod_sets
                    for resource, flavor in each.flavors.items()
                }
            case Evict() if said.key in self.held:
                self.evicting.add(said.key)
            case Unreserve():
                self._gone(said.key)
            case _:
                pass

    def queue_of(self, key: str) -> str:
        return self.workloads[key].spec.queue_name

    def usage(self, without: set[str] | frozenset[str] = frozenset()) -> Usage:
        total: dict[str, dict[Pair, int]] = {}
        for key, held in self.held.items():
            if key not in without:
                amounts = total.setdefault(self.queue_of(key), {})
                for pair, amount in held.items():
                    amounts[pair] = amounts.get(pair, 0) + amount
        return total
