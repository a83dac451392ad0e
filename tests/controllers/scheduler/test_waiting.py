"""The order in which waiting pods get their turn."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.controllers.kit.capacity import Demand
from fairway.controllers.scheduler.waiting import Rank, WaitingPod, WaitingPods

SMALL, LARGE = Demand(requests=(("cpu", 1),)), Demand(requests=(("cpu", 9),))


def waiting_pod(name: str, *, priority: int = 0, created: str = "2026-01-01T00:00:00Z", arrival: int = 0) -> WaitingPod:
    return WaitingPod(name, "default", name, 1, Rank(-priority, created, arrival), "")


def served(waiting: WaitingPods) -> list[str]:
    """Who gets a turn if everybody is placed."""
    names = []
    for _, pod in waiting.turns():
        names.append(pod.name)
        waiting.remove(pod.uid)
    return names


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param(
            [waiting_pod("high", priority=5, arrival=2), waiting_pod("low", arrival=1)], id="the higher priority first"
        ),
        pytest.param(
            [
                waiting_pod("old", created="2026-01-01T00:00:00Z", arrival=2),
                waiting_pod("young", created="2026-01-01T00:00:01Z", arrival=1),
            ],
            id="of equal priority the older first",
        ),
        pytest.param([waiting_pod("one", arrival=1), waiting_pod("two", arrival=2)], id="of equal age as they came"),
    ],
)
@pytest.mark.parametrize("demands", [(SMALL, SMALL), (SMALL, LARGE), (LARGE, SMALL)])
def test_pods_get_their_turn_in_order(pods: list[WaitingPod], demands: tuple[Demand, Demand]) -> None:
    waiting = WaitingPods()
    for pod, demand in reversed(list(zip(pods, demands, strict=True))):
        waiting.add(pod, demand)

    assert served(waiting) == [pod.name for pod in pods]
    assert len(waiting) == 0


def test_a_line_that_is_blocked_keeps_no_other_waiting_and_gets_no_turn_until_there_is_more_room() -> None:
    waiting = WaitingPods()
    for number in range(3):
        waiting.add(waiting_pod(f"large-{number}", priority=1, arrival=number), LARGE)
        waiting.add(waiting_pod(f"small-{number}", arrival=number + 10), SMALL)
    turns = []
    for line, pod in waiting.turns():
        turns.append(pod.name)
        if line.demand == LARGE:
            assert [one.name for one in waiting.block(line, "too large")] == ["large-0", "large-1", "large-2"]
        else:
            waiting.remove(pod.uid)

    assert turns == ["large-0", "small-0", "small-1", "small-2"]
    assert list(waiting.turns()) == []
    waiting.stir()
    assert served(waiting) == ["large-0", "large-1", "large-2"]


def test_only_who_does_not_know_yet_is_told_why_it_waits() -> None:
    waiting = WaitingPods()
    waiting.add(waiting_pod("one", arrival=1), LARGE)

    def told(why: str) -> list[str]:
        return [pod.name for line, _ in waiting.turns() for pod in waiting.block(line, why)]

    assert told("too large") == ["one"]
    waiting.add(waiting_pod("two", arrival=2), LARGE)
    assert told("too large") == ["two"]
    waiting.stir()
    assert told("too large") == []
    waiting.stir()
    assert told("much too large") == ["one", "two"]


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.booleans(), st.integers(0, 2), st.booleans()), max_size=40))
def test_whoever_waits_gets_exactly_one_turn(changes: list[tuple[str, bool, int, bool]]) -> None:
    waiting = WaitingPods()
    there: dict[str, WaitingPod] = {}
    for arrival, (name, stays, priority, large) in enumerate(changes):
        if stays:
            there[name] = waiting_pod(name, priority=priority, arrival=arrival)
            waiting.add(there[name], LARGE if large else SMALL)
        else:
            there.pop(name, None)
            waiting.remove(name)

    assert served(waiting) == [pod.name for pod in sorted(there.values(), key=lambda pod: pod.rank)]
