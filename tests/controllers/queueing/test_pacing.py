"""Pacing: short batches when trying is cheap, long ones when it would take too much of the time."""

import pytest

from fairway.controllers.queueing.pacing import LONGEST_SECONDS, SHORTEST_SECONDS, Pace


def after(seconds: float, *, cost: float, trees: int = 1) -> Pace:
    """A pace after so long, with trees that each are tried at the end of every batch."""
    pace, now = Pace(), 0.0
    while now < seconds:
        now += pace.seconds
        for _ in range(trees):
            pace.took(now, now + cost)
            now += cost
    return pace


@pytest.mark.parametrize(
    ("cost", "trees", "want_least", "want_most"),
    [
        pytest.param(0.0001, 1, SHORTEST_SECONDS, 0.0021, id="a try that costs next to nothing is made at once"),
        pytest.param(0.001, 1, 0.006, 0.015, id="one that takes a millisecond waits about ten"),
        pytest.param(0.001, 4, 0.025, LONGEST_SECONDS, id="four of them wait longer, as their costs add up"),
        pytest.param(0.050, 1, LONGEST_SECONDS, LONGEST_SECONDS, id="nobody waits longer than the longest"),
    ],
)
def test_the_batch_grows_with_what_the_tries_cost(cost: float, trees: int, want_least: float, want_most: float) -> None:
    assert want_least <= after(20.0, cost=cost, trees=trees).seconds <= want_most


def test_after_a_quiet_time_the_batch_is_short_again() -> None:
    pace = after(20.0, cost=0.050)
    assert pace.took(100.0, 100.050) == SHORTEST_SECONDS
