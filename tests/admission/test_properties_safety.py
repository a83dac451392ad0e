"""What never happens, whatever the world and whatever happens in it.

All books are kept by the test (:mod:`.worlds`), all sums are done by a second implementation (:mod:`.quota_model`).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import hypothesis.strategies as st
from hypothesis import given

from fairway.admission import events
from fairway.admission.engine import Engine
from fairway.admission.instructions import Admit, Evict, Instruction
from fairway.admission.records import Stage
from fairway.testing.builders import START

from .quota_model import QuotaModel, Usage
from .worlds import Player, Script, Setup, examples, scripts, setups


def over_quota(model: QuotaModel, held: Usage) -> list[str]:
    """Nodes that use more than they may."""
    pairs = {pair for amounts in held.values() for pair in amounts}
    return [f"{name} {pair}" for name in model.limits for pair in pairs if model.available(name, pair, held) < 0]


@examples(120)
@given(setups(), scripts)
def test_no_node_of_the_tree_ever_uses_more_than_it_may(setup: Setup, script: Script) -> None:
    player = Player(setup)
    for said in player.play(script):
        for each in said:
            player.obey(each)
            if isinstance(each, Admit):
                assert over_quota(player.model, player.usage()) == [], player.bench.story()
        assert player.bench.engine.overused() == []


@examples(100)
@given(setups(), scripts)
def test_nobody_is_lost_and_nobody_is_in_two_places(setup: Setup, script: Script) -> None:
    """The bench asks the engine after every batch; here its answers are compared with books kept outside it."""
    player = Player(setup)
    for said in player.play(script):
        for each in said:
            player.obey(each)
        known = {record.key: record for record in player.bench.engine.records()}
        holding = {key for key, record in known.items() if record.queue is not None}
        assert holding == set(player.held)
        evicting = {key for key in holding if known[key].evicted is not None}
        assert evicting == player.evicting
        for key, record in known.items():
            waits = player.bench.engine.why(key) is not None
            assert waits == (record.stage is Stage.PENDING)


def preemptions(said: list[Instruction]) -> Iterator[tuple[int, str, list[Evict]]]:
    """Each preemptor of a batch with its new victims, and where in the batch they begin."""
    numbered = list(enumerate(said))
    for preemptor, part in groupby(numbered, key=lambda item: _preemptor(item[1])):
        if preemptor is not None:
            victims = list(part)
            yield victims[0][0], preemptor, [each for _, each in victims if isinstance(each, Evict)]


def _preemptor(said: Instruction) -> str | None:
    return said.preemption.preemptor if isinstance(said, Evict) and said.preemption is not None else None


def unneeded(player: Player, preemptor: str, victims: list[str]) -> str:
    """What is wrong with this set of victims, if anything.

    There must be flavors with which the preemptor fits once all who are evicted have gone, and with which it does not
    fit if one of its victims stays. Without fair sharing there is one more reason to take a victim of one's own queue:
    to get by without borrowing.
    """
    model, queue = player.model, player.queue_of(preemptor)
    classical = player.setup.config.fair_sharing is None
    verdicts = []
    for wanted in model.choices(queue, player.workloads[preemptor]):
        if not model.fits(queue, wanted, player.usage(without=player.evicting | set(victims))):
            verdicts.append(f"{wanted}: does not fit even so")
            continue
        spare = []
        for victim in victims:
            kept = player.usage(without=set(victims) - {victim})
            to_own = classical and player.queue_of(victim) == queue and model.borrows(queue, wanted, kept)
            if model.fits(queue, wanted, kept) and not to_own:
                spare.append(victim)
        if not spare:
            return ""
        verdicts.append(f"{wanted}: {spare} need not go")
    return "; ".join(verdicts)


@examples(200)
@given(setups(), scripts)
def test_nobody_is_evicted_without_need(setup: Setup, script: Script) -> None:
    player = Player(setup)
    for said in player.play(script):
        begins = {number: (preemptor, victims) for number, preemptor, victims in preemptions(said)}
        for number, each in enumerate(said):
            if number in begins:
                preemptor, victims = begins[number]
                wrong = unneeded(player, preemptor, [victim.key for victim in victims])
                assert not wrong, f"{preemptor}: {wrong}; {player.bench.story()}"
            player.obey(each)


@examples(120)
@given(setups(), scripts)
def test_nobody_is_evicted_for_a_workload_that_then_does_not_fit(setup: Setup, script: Script) -> None:
    """From every preemption on, with nobody else waiting: when the victims have gone, the preemptor gets in.

    Only those are looked at after which nobody was admitted in the same batch, for a later one may take what is left.
    """
    player = Player(setup)
    for said in player.play(script):
        for number, preemptor, _ in preemptions(said):
            if not any(isinstance(each, Admit) for each in said[number:]):
                _assert_gets_in(player, preemptor)
        for each in said:
            player.obey(each)


def _assert_gets_in(player: Player, preemptor: str) -> None:
    engine = Engine(player.setup.config)
    for batch in player.bench.heard:
        engine.handle(*batch)
    at = player.bench.now
    others = [each.key for each in engine.records() if each.stage is Stage.PENDING and each.key != preemptor]
    engine.handle(*(events.WorkloadDeleted(at=at, key=key) for key in others))
    for _ in range(5):
        stopping = [each.key for each in engine.records() if each.queue is not None and each.evicted is not None]
        at += 2.0
        engine.handle(*(events.WorkloadFinished(at=at, key=key) for key in stopping), events.TimePassed(at=at))
        if next(each for each in engine.records() if each.key == preemptor).stage is Stage.ADMITTED:
            return
    why = engine.why(preemptor)
    raise AssertionError(f"{preemptor} does not get in: {why}; {player.bench.story()}")


@examples(60)
@given(setups(), scripts)
def test_the_same_events_give_the_same_decisions(setup: Setup, script: Script) -> None:
    player = Player(setup)
    said = list(player.play(script))
    again = Engine(setup.config)
    repeated = [again.handle(*batch) for batch in player.bench.heard]

    assert [each for batch in repeated for each in batch] == player.bench.said
    assert repeated[-len(said) :] == said


@examples(60)
@given(setups(), scripts)
def test_asking_why_changes_nothing(setup: Setup, script: Script) -> None:
    """An engine that is asked about everybody after every batch decides as one that is never asked."""
    player = Player(setup)
    asked = Engine(setup.config)
    for batch in player.bench.heard:
        asked.handle(*batch)
    before = len(player.bench.heard)
    for number, said in enumerate(player.play(script)):
        assert asked.handle(*player.bench.heard[before + number]) == said
        first = [asked.why(record.key) for record in list(asked.records())]
        assert first == [asked.why(record.key) for record in list(asked.records())]
        assert asked.violations() == []


@examples(60)
@given(setups(), scripts, st.floats(1.0, 100.0))
def test_instructions_are_in_order_and_of_their_time(setup: Setup, script: Script, pause: float) -> None:
    player = Player(setup)
    last = START
    for said in player.play(script):
        assert all(last <= each.at <= player.bench.now for each in said)
        assert [each.at for each in said] == sorted(each.at for each in said)
        last = max([last, *(each.at for each in said)])
        player.bench.now += pause
