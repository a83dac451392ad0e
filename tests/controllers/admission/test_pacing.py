"""Pacing: decisions at once while they are cheap, further and further apart when they take too much of the time."""

import asyncio

import pytest

from fairway.apis.kueue.objects import Workload
from fairway.controllers.admission.controller import LONGEST_SECONDS, Pace
from fairway.testing.builders import cluster_queue, flavor, local_queue, workload

from .plays import play


def after(seconds: float, *, fixed: float, each: float = 0.0, every: float = 0.001) -> Pace:
    """A pace after so long, with news `every` so often; a decision costs something, and something more for each."""
    pace, now, heard = Pace(), 0.0, 0.0
    while now < seconds:
        now = max(now + pace.left(now), heard + every)
        news = (now - heard) // every
        heard += news * every
        cost = fixed + news * each
        pace.took(now, now + cost)
        now += cost
    return pace


@pytest.mark.parametrize(
    ("fixed", "each", "every", "want_least", "want_most"),
    [
        pytest.param(0.00002, 0.0, 0.001, 0.0, 0.0, id="decisions that cost next to nothing are not kept apart"),
        pytest.param(0.002, 0.0, 0.1, 0.0, 0.0, id="nor are those that are seldom"),
        pytest.param(0.001, 0.0, 0.001, 0.008, 0.018, id="those of a millisecond are a dozen apart"),
        pytest.param(0.001, 0.00002, 0.001, 0.013, LONGEST_SECONDS, id="further if there is more to decide"),
        pytest.param(0.040, 0.0, 0.001, LONGEST_SECONDS, LONGEST_SECONDS, id="nobody waits longer than the longest"),
        pytest.param(0.400, 0.0, 0.001, 0.799, 0.801, id="unless decisions take long: others get half of the time"),
        pytest.param(1.500, 0.0, 0.001, 2.0, 3.001, id="and very long ones are not taken for quiet"),
    ],
)
def test_decisions_are_apart_by_what_they_cost(
    fixed: float, each: float, every: float, want_least: float, want_most: float
) -> None:
    assert want_least <= after(20.0, fixed=fixed, each=each, every=every).seconds <= want_most


def test_the_first_news_after_a_pause_are_decided_on_at_once() -> None:
    pace = after(20.0, fixed=0.050)
    assert pace.left(100.0) == 0.0
    pace.took(100.0, 100.050)
    assert pace.seconds == 0.0


QUEUES = (flavor(), cluster_queue("cq", cpu=1), local_queue("lq", "cq"))


def asking(name: str) -> Workload:
    return workload(name, queue="lq", cpu=1)


def test_when_it_is_quiet_freed_quota_is_given_on_in_the_same_moment() -> None:
    async def scenario() -> None:
        async with play(*QUEUES, pace=Pace()) as on_stage:
            await on_stage.submit(asking("one"), asking("two"))
            assert on_stage.states() == {"one": "admitted", "two": "pending"}
            await on_stage.finish("one")

            assert on_stage.states() == {"one": "finished", "two": "admitted"}

    asyncio.run(scenario())


def test_under_load_news_wait_until_the_next_decision_is_due() -> None:
    async def scenario() -> None:
        pace = Pace()
        async with play(*QUEUES, pace=pace) as on_stage:
            await on_stage.submit(asking("one"))
            assert on_stage.states() == {"one": "admitted"}
            pace.seconds = LONGEST_SECONDS
            await on_stage.finish("one")
            await on_stage.submit(asking("two"))
            await on_stage.pass_time(LONGEST_SECONDS - 0.001)
            assert on_stage.states() == {"one": "finished", "two": "pending"}
            await on_stage.pass_time(0.001)

            assert on_stage.states() == {"one": "finished", "two": "admitted"}

    asyncio.run(scenario())
