"""Priority earned by aging: it orders the queue and protects from preemption, and never gives the right to preempt.

One preemptor costs at most what it needs, whatever happens afterwards: victims come back with a higher priority than
before, and neither evict their peers nor take the room from their preemptor.
"""

from __future__ import annotations

from typing import NamedTuple

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import assume, example, given

from fairway.admission import events
from fairway.admission.config import Config
from fairway.admission.instructions import Admit, Evict, Instruction, PreemptionReason
from fairway.admission.records import EARNED_PRIORITY
from fairway.apis.kueue.configuration import FairSharingPolicy, PreemptionStrategy
from fairway.apis.kueue.objects import ClusterQueue, Workload
from fairway.testing.builders import Bench, Limited, Object, cluster_queue, created_at, key_of, short_name, workload

from .worlds import examples

EARNED = EARNED_PRIORITY
FAIR = Config(fair_sharing=FairSharingPolicy())


class Managed:
    """A bench with the controller of managed jobs around it: each preemption earns a step, up to a cap."""

    def __init__(self, *objects: Object, config: Config | None = None, step: int = 10, cap: int = 100) -> None:
        self.bench = Bench(*objects, config=config)
        self.step, self.cap = step, cap
        self.preemptions: dict[str, int] = {}
        self.batches: list[tuple[str, list[str]]] = []
        """Each decision to preempt: who did, and whom."""
        self._made: dict[str, Workload] = {}

    def submit(self, *made: Workload) -> None:
        for one in made:
            stamped = created_at(one, self.bench.now)
            self._made[key_of(one.metadata.name)] = stamped
            self._follow(self.bench.send(events.WorkloadAdded(at=self.bench.now, workload=stamped)))
            self.bench.now += 1

    def finish(self, name: str) -> None:
        self._follow(self.bench.finish(name))

    def rest(self) -> None:
        self._follow(self.bench.rest())

    @property
    def evicted_by(self) -> dict[str, list[str]]:
        """By preemptor, whom it evicted."""
        found: dict[str, list[str]] = {}
        for by, names in self.batches:
            found.setdefault(by, []).extend(names)
        return found

    def _follow(self, said: list[Instruction]) -> None:
        """Whoever is preempted stops, earns its step, and then gives its quota back, with the other victims."""
        leaving = self._note(said)
        for _ in range(1000):
            if not leaving:
                return
            gone, leaving = leaving, []
            for name in gone:
                self.preemptions[name] = self.preemptions.get(name, 0) + 1
                change = events.WorkloadChanged(at=self.bench.now, workload=self._aged(key_of(name)))
                leaving += self._note(self.bench.send(change))
            leaving += self._note(self.bench.release(*gone))
        raise AssertionError(f"they preempt each other without end; {self.bench.story()}")

    def _note(self, said: list[Instruction]) -> list[str]:
        found: dict[str, list[str]] = {}
        for one in said:
            if isinstance(one, Evict) and one.preemption is not None:
                found.setdefault(short_name(one.preemption.preemptor), []).append(short_name(one.key))
        self.batches += found.items()
        return [name for names in found.values() for name in names]

    def _aged(self, key: str) -> Workload:
        made = self._made[key]
        earned = min(self.step * self.preemptions[short_name(key)], self.cap)
        annotations = {EARNED: str(earned)} if earned else {}
        return msgspec.structs.replace(made, metadata=msgspec.structs.replace(made.metadata, annotations=annotations))


def aged(name: str, earned: int, *, queue: str = "cq", cpu: int = 1, priority: int = 0) -> Workload:
    return workload(name, queue=queue, cpu=cpu, priority=priority, annotations={EARNED: str(earned)})


# What it counts for


@pytest.mark.parametrize("strategy", ["StrictFIFO", "BestEffortFIFO"])
def test_earned_priority_comes_first_in_the_queue(strategy: str) -> None:
    bench = Bench(cluster_queue(cpu=1, strategy=strategy))
    bench.submit(workload("runs", cpu=1), workload("older", cpu=1, priority=5), aged("aged", 10))
    bench.finish("runs")
    bench.rest()

    assert bench.admitted() == ["aged"]


@pytest.mark.parametrize("within", ["LowerPriority", "LowerOrNewerEqualPriority"])
def test_earned_priority_protects(within: str) -> None:
    bench = Bench(cluster_queue(cpu=1, within=within))
    bench.submit(aged("aged", 10))
    for number, priority in enumerate((5, 9, 10)):
        bench.submit(workload(f"u{number}", cpu=1, priority=priority))
    assert bench.evictions() == []

    bench.submit(workload("urgent", cpu=1, priority=11))
    assert bench.evictions() == [("aged", "InClusterQueue")]


class Case(NamedTuple):
    queues: tuple[ClusterQueue, ...]
    holders: str
    """The queue of those who run; the aged one is in `a`."""
    config: Config | None = None


_RECLAIM = (
    cluster_queue("a", cpu=1, cohort="all", reclaim="LowerPriority"),
    cluster_queue("b", cpu=1, cohort="all"),
)


def _borrowing(borrow_within: str | int) -> tuple[ClusterQueue, ...]:
    return (
        cluster_queue("a", cpu=0, cohort="all", reclaim="LowerPriority", borrow_within=borrow_within),
        cluster_queue("b", cpu=0, cohort="all"),
        cluster_queue("c", cpu=2, cohort="all"),
    )


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(Case((cluster_queue("a", cpu=2, within="LowerPriority"),), "a"), id="within, lower priority"),
        pytest.param(
            Case((cluster_queue("a", cpu=2, within="LowerOrNewerEqualPriority"),), "a"), id="within, lower or newer"
        ),
        pytest.param(Case(_RECLAIM, "b"), id="reclaim, lower priority"),
        pytest.param(Case(_borrowing("LowerPriority"), "b"), id="borrow within the cohort"),
        pytest.param(Case(_borrowing(100), "b"), id="borrow within the cohort, with a threshold"),
        pytest.param(Case(_RECLAIM, "b", FAIR), id="reclaim, fair sharing"),
        pytest.param(Case((cluster_queue("a", cpu=2, within="LowerPriority"),), "a", FAIR), id="within, fair sharing"),
    ],
)
def test_earned_priority_gives_no_right_to_preempt(case: Case) -> None:
    for priority, earned, want in ((0, 10, 0), (10, 0, 1)):
        bench = Bench(*case.queues, config=case.config)
        bench.submit(*(workload(f"h{number}", queue=case.holders, cpu=1, priority=3) for number in range(2)))
        bench.submit(aged("w", earned, queue="a", priority=priority))
        bench.rest()

        assert len(bench.evictions()) == want, (priority, earned)


def test_two_with_the_same_sum_do_not_wait_in_one_lane() -> None:
    """10+0 may preempt, 0+10 may not: that one found no room says nothing about the other."""
    bench = Bench(cluster_queue(cpu=1, within="LowerPriority"))
    bench.submit(workload("runs", cpu=1, priority=5), aged("earned", 10), workload("base", cpu=1, priority=10))

    assert bench.evictions() == [("runs", "InClusterQueue")]


@pytest.mark.parametrize("text", ["many", "-5", "1.5", "", "9" * 5000])
def test_an_annotation_that_is_no_number_earns_nothing(text: str) -> None:
    bench = Bench(cluster_queue(cpu=1))
    bench.submit(workload("w", cpu=1, annotations={EARNED: text}))

    assert bench.record("w").priority == 0


def test_an_annotation_that_changes_counts_at_once() -> None:
    bench = Bench(cluster_queue(cpu=1, strategy="StrictFIFO"))
    made = created_at(workload("w", cpu=1, created=20), bench.now)
    bench.submit(workload("runs", cpu=1), workload("older", cpu=1, created=10), made)
    metadata = msgspec.structs.replace(made.metadata, annotations={EARNED: "1"})
    bench.send(events.WorkloadChanged(at=bench.now, workload=msgspec.structs.replace(made, metadata=metadata)))
    bench.finish("runs")

    assert bench.admitted() == ["w"]


# One preemptor costs what it needs


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
@pytest.mark.parametrize("within", ["LowerPriority", "LowerOrNewerEqualPriority"])
@pytest.mark.parametrize("priority", [pytest.param(100, id="above the cap"), pytest.param(5, id="below a step")])
def test_one_urgent_job_among_forty_preempts_one(strategy: str, within: str, priority: int) -> None:
    played = Managed(cluster_queue(cpu=40, strategy=strategy, within=within))
    played.submit(*(workload(f"j{number}", cpu=1) for number in range(40)))
    played.submit(workload("urgent", cpu=1, priority=priority))
    played.rest()

    assert played.evicted_by == {"urgent": ["j39"]}
    assert played.bench.state("urgent") == "admitted"
    assert played.bench.pending() == ["j39"]


@pytest.mark.parametrize("config", [None, FAIR])
@pytest.mark.parametrize("reclaim", ["Any", "LowerPriority"])
@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
def test_a_queue_takes_back_four_of_eight(config: Config | None, reclaim: str, strategy: str) -> None:
    played = Managed(
        cluster_queue("a", cpu=4, cohort="all", reclaim=reclaim, within="LowerPriority", strategy=strategy),
        cluster_queue("b", cpu=4, cohort="all", reclaim=reclaim, within="LowerPriority", strategy=strategy),
        config=config,
    )
    played.submit(*(workload(f"b{number}", queue="b", cpu=1) for number in range(8)))
    played.submit(workload("owner", queue="a", cpu=4, priority=1))
    played.rest()

    assert played.evicted_by == {"owner": ["b4", "b5", "b6", "b7"]}
    assert played.bench.state("owner") == "admitted"


def test_a_borrower_of_another_queue_costs_one() -> None:
    """The victim comes back with more than its preemptor has, in another queue, and leaves it the room."""
    played = Managed(
        cluster_queue("a", cpu=0, cohort="all", reclaim="LowerPriority", borrow_within="LowerPriority"),
        cluster_queue("b", cpu=0, cohort="all"),
        cluster_queue("c", cpu=8, cohort="all"),
    )
    played.submit(*(workload(f"b{number}", queue="b", cpu=1) for number in range(8)))
    played.submit(workload("borrower", queue="a", cpu=1, priority=5))
    played.rest()

    assert played.evicted_by == {"borrower": ["b7"]}
    assert played.bench.state("borrower") == "admitted"


# Nobody starves


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
@pytest.mark.parametrize(("step", "starves"), [(0, True), (10, False)])
def test_a_job_that_is_preempted_again_and_again_runs_in_the_end(strategy: str, step: int, starves: bool) -> None:  # noqa: FBT001 - a table
    """Jobs that are a little more important keep coming, each when the last one has ended."""
    played = Managed(cluster_queue(cpu=1, within="LowerPriority", strategy=strategy), step=step)
    played.submit(workload("low", cpu=1))
    for number in range(10):
        played.submit(workload(f"u{number}", cpu=1, priority=15))
        played.rest()
        if played.bench.state(f"u{number}") == "admitted":
            played.finish(f"u{number}")
            played.rest()

    assert played.preemptions["low"] == (10 if starves else 2)
    assert played.bench.record("low").priority == (0 if starves else 20)
    assert len(played.bench.pending()) == (0 if starves else 8)


# Any world, any later life

_WITHIN = st.sampled_from(["LowerPriority", "LowerPriority", "Never"])
_STRATEGY = st.sampled_from(["BestEffortFIFO", "StrictFIFO"])
_STRATEGIES = st.sampled_from([None, (PreemptionStrategy.FINAL_SHARE,), (PreemptionStrategy.INITIAL_SHARE,)])


_BORROW_WITHIN: list[str | int] = ["LowerPriority", "Never", 2]


class World(NamedTuple):
    queues: tuple[ClusterQueue, ...]
    config: Config | None


@st.composite
def worlds(draw: st.DrawFn, reclaim: tuple[str, ...] = ("LowerPriority", "LowerPriority", "Never")) -> World:
    """One flavor, one resource, one queue or a cohort, and every policy of preemption that asks for priority."""
    count = draw(st.integers(1, 4))
    queues = []
    for number in range(count):
        alone = count == 1
        queues.append(
            cluster_queue(
                f"q{number}",
                cpu=Limited(draw(st.sampled_from([8, 4, 2, 0])), None if alone else draw(st.sampled_from([None, 4]))),
                strategy=draw(_STRATEGY),
                within=draw(_WITHIN),
                cohort="" if alone else "all",
                reclaim="Never" if alone else draw(st.sampled_from(reclaim)),
                borrow_within="Never" if alone else draw(st.sampled_from(_BORROW_WITHIN)),
            )
        )
    strategies = draw(_STRATEGIES)
    return World(
        tuple(queues), None if strategies is None else Config(fair_sharing=FairSharingPolicy(strategies=strategies))
    )


class Play(NamedTuple):
    holders: list[tuple[int, int]]
    """Of each job that is there: its queue, and its size."""
    urgent: tuple[int, int, int]
    """Queue, size and priority of the one that preempts."""
    ends: list[int]
    """Who ends then, one after the other."""
    aging: tuple[int, int]


plays = st.builds(
    Play,
    holders=st.lists(st.tuples(st.integers(0, 3), st.sampled_from([1, 1, 1, 2, 3])), min_size=4, max_size=16),
    urgent=st.tuples(st.integers(0, 3), st.sampled_from([1, 1, 2, 3, 4, 6]), st.sampled_from([1, 5, 15, 200])),
    ends=st.lists(st.integers(0, 15), max_size=12),
    aging=st.sampled_from([(10, 100), (10, 100), (1, 2)]),
)


def played_in(world: World, play: Play) -> Managed:
    """Jobs of one base priority run, and an urgent one comes; then jobs end, and whoever waits may come back."""
    names = [queue.name for queue in world.queues]
    played = Managed(*world.queues, config=world.config, step=play.aging[0], cap=play.aging[1])
    for number, (queue, cpu) in enumerate(play.holders):
        played.submit(workload(f"j{number}", queue=names[queue % len(names)], cpu=cpu))
    played.rest()
    queue, cpu, priority = play.urgent
    played.submit(workload("urgent", queue=names[queue % len(names)], cpu=cpu, priority=priority))
    played.rest()
    for index in play.ends:
        running = [name for name in played.bench.admitted() if name != "urgent"]
        if running:
            played.finish(running[index % len(running)])
            played.rest()
    return played


def overtaken(said: list[Instruction]) -> int:
    """How many jobs that were never preempted got quota while the urgent one waited for its victims: in Kueue's order,
    a queue that borrows less comes first.
    """
    evicted: set[str] = set()
    count, waits = 0, False
    for one in said:
        if isinstance(one, Evict) and one.preemption is not None:
            evicted.add(one.key)
            waits = True
        elif isinstance(one, Admit):
            count += waits and one.key not in evicted and short_name(one.key) != "urgent"
            waits = waits and short_name(one.key) != "urgent"
    return count


@examples(400)
@given(worlds(), plays)
def test_one_preemptor_costs_what_it_needs_whatever_follows(world: World, play: Play) -> None:
    """Where preemption asks for a lower priority, only the urgent job evicts, once, the set that its search found.

    Who was preempted never takes the room that the preemptor made.
    """
    played = played_in(world, play)

    assert {by for by, _ in played.batches} <= {"urgent"}, played.bench.story()
    if world.config is not None:
        return  # in the order of fair shares another queue may come before a preemptor, whatever the priorities
    assert len(played.batches) <= 1 + overtaken(played.bench.said), played.bench.story()
    if played.batches:
        assert played.bench.state("urgent") == "admitted", "nobody is evicted for one who then does not run"


_BY_PRIORITY = {PreemptionReason.IN_CLUSTER_QUEUE, PreemptionReason.RECLAIM_WHILE_BORROWING}


@examples(300)
@given(worlds(reclaim=("Any",)), plays)
def test_a_peer_takes_back_its_own_quota_and_nothing_else(world: World, play: Play) -> None:
    """Where a queue may reclaim whatever the priority, jobs of the same base priority do no more than that."""
    played = played_in(world, play)

    by_peers = {
        one.preemption.reason
        for one in played.bench.said
        if isinstance(one, Evict) and one.preemption is not None and short_name(one.preemption.preemptor) != "urgent"
    }
    assert not by_peers & _BY_PRIORITY, played.bench.story()


# Aging never adds evictions


def queue(number: int, cpu: int, within: str, reclaim: str, strategy: str = "BestEffortFIFO") -> ClusterQueue:
    return cluster_queue(f"q{number}", cpu=cpu, within=within, reclaim=reclaim, strategy=strategy, cohort="all")


VICTIM_RETURNS_TO_A_PARKED_LANE = (
    World((queue(0, 2, "LowerPriority", "LowerPriority"), queue(1, 8, "Never", "Any")), None),
    Play([(1, 3), (1, 1), (1, 2), (1, 3), (0, 1), (1, 1), (0, 1)], (0, 2, 200), [], (10, 100)),
)
"""Before: the aged victim was tried while its unaged peers were parked, borrowed, and a peer reclaimed the quota."""

PROTECTED_VICTIM_IS_THE_CHEAPER_ONE = (
    World(
        (queue(0, 4, "LowerOrNewerEqualPriority", "Any", "StrictFIFO"), queue(1, 8, "LowerPriority", "Any")),
        Config(fair_sharing=FairSharingPolicy(strategies=(PreemptionStrategy.INITIAL_SHARE,))),
    ),
    Play([(1, 2), (1, 1), (1, 1), (0, 1), (0, 3), (0, 1), (0, 1)], (1, 6, 15), [], (10, 100)),
)
"""Before: a job of 3 CPUs was reclaimed because the job of 1 CPU, which was enough, had earned priority."""


def cost(played: Managed, play: Play) -> tuple[int, int]:
    """CPUs that were evicted in all, and by the first decision to preempt."""
    sizes = {f"j{number}": cpu for number, (_, cpu) in enumerate(play.holders)} | {"urgent": play.urgent[1]}
    each = [sum(sizes[name] for name in names) for _, names in played.batches]
    return sum(each), each[0] if each else 0


@examples(300)
@given(worlds(reclaim=("Any", "Any", "LowerPriority")), plays)
@example(*VICTIM_RETURNS_TO_A_PARKED_LANE)
@example(*PROTECTED_VICTIM_IS_THE_CHEAPER_ONE)
def test_aging_never_adds_evictions(world: World, play: Play) -> None:
    """One newcomer leads to the evictions of its own search, or to no more than without aging in the same world."""
    alone = play._replace(ends=[])
    played = played_in(world, alone)
    assume(not played.batches or played.batches[0][0] == "urgent")
    total, first = cost(played, alone)
    if total > first:
        without, _ = cost(played_in(world, alone._replace(aging=(0, 0))), alone)
        assert total <= without, played.bench.story()
