"""What would let a workload in: the engine is taken at its word, and does what was said."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pytest
from hypothesis import given

from fairway.admission import events
from fairway.admission.engine import Engine
from fairway.admission.records import Record, Stage
from fairway.admission.remedies import Limit, Party, Remedies
from fairway.testing.builders import Bench, Limited, cluster_queue, cohort, key_of, workload

from .worlds import Player, Script, Setup, examples, scripts, setups


def remedies(bench: Bench, name: str) -> Remedies:
    found = bench.engine.remedies(key_of(name))
    assert found is not None
    return found


def names(parties: tuple[Party, ...]) -> list[str]:
    return [party.workload.partition("/")[2] for party in parties]


def test_anyone_whose_end_alone_would_do_is_named_the_own_queue_first_and_the_largest_first() -> None:
    bench = Bench(cluster_queue(cpu=9))
    bench.submit(workload("small", cpu=1), workload("large", cpu=5), workload("enough", cpu=3), workload("w", cpu=3))

    found = remedies(bench, "w")
    assert names(found.alone) == ["large", "enough"]
    assert found.alone[0] == Party("ns/large", "cq", 0, (("cpu", 5000),))
    assert (found.together, found.victims, found.priority) == ((), (), None)


def test_where_nobody_alone_would_do_some_are_named_who_would_together_and_nobody_needlessly() -> None:
    bench = Bench(cluster_queue(cpu=9))
    bench.submit(workload("a", cpu=3), workload("b", cpu=3), workload("c", cpu=2), workload("d", cpu=1))
    bench.submit(workload("w", cpu=5))

    found = remedies(bench, "w")
    assert (found.alone, names(found.together)) == ((), ["a", "b"])


def test_those_on_their_way_out_are_enough_to_know() -> None:
    bench = Bench(cluster_queue(cpu=4, within="LowerPriority"))
    bench.submit(workload("low", cpu=4), workload("w", cpu=4, priority=1))

    found = remedies(bench, "w")
    assert (names(found.going), found.alone, found.priority) == (["low"], (), None)


@pytest.mark.parametrize(
    ("within", "want_priority", "want_outranked"),
    [
        pytest.param("LowerPriority", 6, ["five"], id="the lowest priority that does, and whom it hits"),
        pytest.param("Never", None, [], id="no promise where the queue never preempts"),
    ],
)
def test_a_higher_priority_is_offered_only_where_it_would_help(
    within: str, want_priority: int | None, want_outranked: list[str]
) -> None:
    bench = Bench(cluster_queue(cpu=4, within=within))
    bench.submit(workload("five", cpu=2, priority=5), workload("nine", cpu=2, priority=9), workload("w", cpu=2))

    found = remedies(bench, "w")
    assert (found.priority, names(found.outranked)) == (want_priority, want_outranked)


def test_a_priority_that_cannot_be_exceeded_is_not_offered() -> None:
    bench = Bench(cluster_queue(cpu=4, within="LowerPriority"))
    bench.submit(workload("highest", cpu=4, priority=2**31 - 1), workload("w", cpu=4))

    assert remedies(bench, "w").priority is None


def test_a_borrowing_limit_is_named_if_there_would_be_room_without_it() -> None:
    queues = (cohort("all", cpu=4), cluster_queue("a", cpu=Limited(2, borrowing=1), cohort="all"))
    bench = Bench(*queues)
    bench.submit(workload("first", queue="a", cpu=2), workload("w", queue="a", cpu=2))

    found = remedies(bench, "w")
    assert found.limits == (Limit("default", "cpu", 1000),)
    assert names(found.alone) == ["first"]


def test_a_limit_that_is_not_in_the_way_is_not_named() -> None:
    queues = (cluster_queue("a", cpu=Limited(2, borrowing=4), cohort="all"), cluster_queue("b", cpu=2, cohort="all"))
    bench = Bench(*queues)
    bench.submit(workload("first", queue="a", cpu=2), workload("other", queue="b", cpu=2))
    bench.submit(workload("w", queue="a", cpu=2))

    assert remedies(bench, "w").limits == ()


def test_where_waiting_cannot_help_nothing_is_offered() -> None:
    bench = Bench(cluster_queue(cpu=4, within="LowerPriority"))
    bench.submit(workload("low", cpu=4), workload("w", cpu=5, priority=1))

    assert remedies(bench, "w") == Remedies()


def test_who_does_not_wait_needs_nothing() -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("runs", cpu=4))

    assert bench.engine.remedies("ns/runs") is None
    assert bench.engine.remedies("ns/nobody") is None


# At its word


def at_rest(setup: Setup, script: Script) -> Player:
    player = Player(setup)
    for said in chain(player.play(script), player.come_to_rest()):
        for each in said:
            player.obey(each)
    return player


def waiting(player: Player) -> Iterator[Record]:
    return (record for record in player.bench.engine.records() if record.stage is Stage.PENDING and record.active)


def again(player: Player) -> Engine:
    """Another engine that has heard the same."""
    engine = Engine(player.setup.config)
    for batch in player.bench.heard:
        engine.handle(*batch)
    return engine


def come_to_rest(engine: Engine, key: str, at: float) -> Record:
    for _ in range(50):
        record = engine.record(key)
        assert record is not None
        due = engine.next_wakeup
        if record.holding or due is None:
            return record
        engine.handle(events.TimePassed(at=max(due, at)))
    raise AssertionError("no rest")


@examples(25)
@given(setups(), scripts)
def test_who_is_first_and_alone_starts_when_the_one_ends_who_was_named(setup: Setup, script: Script) -> None:
    player = at_rest(setup, script)
    now = player.bench.now
    for record in list(waiting(player)):
        why, found = player.bench.engine.why(record.key), player.bench.engine.remedies(record.key)
        assert why is not None
        assert found is not None
        if why.position != 0 or found.contended:
            continue
        for party in found.alone[:1]:
            engine = again(player)
            engine.handle(events.WorkloadFinished(at=now, key=party.workload))
            assert come_to_rest(engine, record.key, now).holding, (record, party)
        if found.together:
            engine = again(player)
            engine.handle(*(events.WorkloadFinished(at=now, key=party.workload) for party in found.together))
            assert come_to_rest(engine, record.key, now).holding, (record, found.together)


@examples(25)
@given(setups(), scripts)
def test_who_is_first_and_alone_preempts_with_the_priority_that_was_named(setup: Setup, script: Script) -> None:
    player = at_rest(setup, script)
    now = player.bench.now
    for record in list(waiting(player)):
        why, found = player.bench.engine.why(record.key), player.bench.engine.remedies(record.key)
        assert why is not None
        assert found is not None
        if why.position != 0 or found.contended or found.priority is None:
            continue
        engine = again(player)
        engine.handle(events.PriorityChanged(at=now, key=record.key, priority=found.priority))
        come_to_rest(engine, record.key, now)
        for party in found.outranked:
            victim = engine.record(party.workload)
            assert victim is not None
            assert victim.evicted is not None, (record, party)


@examples(20)
@given(setups(), scripts)
def test_asking_changes_nothing(setup: Setup, script: Script) -> None:
    player = at_rest(setup, script)
    engine = player.bench.engine
    before = {record.key: engine.why(record.key) for record in engine.records()}
    first = {record.key: engine.remedies(record.key) for record in waiting(player)}
    standings = list(engine.standings())
    assert engine.violations() == []
    assert {record.key: engine.why(record.key) for record in engine.records()} == before
    assert {record.key: engine.remedies(record.key) for record in waiting(player)} == first
    assert list(engine.standings()) == standings


@examples(50)
@given(setups(), scripts)
def test_the_order_of_a_queue_is_that_of_its_keys_but_for_who_is_tried_first(setup: Setup, script: Script) -> None:
    engine = at_rest(setup, script).bench.engine
    for name in {standing.cluster_queue for standing in engine.standings() if standing.position is not None}:
        found = engine.pending(name)
        queued = [record.key for record in engine.records() if record in found]
        assert sorted(record.key for record in found) == sorted(queued)
        assert found[1:] == sorted(found[1:], key=lambda record: record.order_key)


@examples(20)
@given(setups(), scripts)
def test_the_short_answers_are_those_of_the_long_ones(setup: Setup, script: Script) -> None:
    player = at_rest(setup, script)
    engine = player.bench.engine
    standings = list(engine.standings())
    pending = {record.key for record in engine.records() if record.stage is Stage.PENDING}
    assert sorted(standing.record.key for standing in standings) == sorted(pending)
    for standing in standings:
        why = engine.why(standing.record.key)
        assert why is not None
        short = (standing.cluster_queue, standing.position, standing.local_position, standing.explanation.outcome)
        assert short == (why.cluster_queue, why.position, why.local_position, why.explanation.outcome)
