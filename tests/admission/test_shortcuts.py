"""Shortcuts save work and change no decision: an engine that works everything out the long way says the same.

Left out are explanations: a lane that sleeps is not tried, so it is not explained anew.
"""

from itertools import chain

from hypothesis import given

from fairway.admission import events
from fairway.admission.engine import Engine
from fairway.admission.instructions import Admit, Explain, Instruction
from fairway.testing.builders import Bench, cluster_queue, workload

from .worlds import Player, Script, Setup, examples, scripts, setups


def _decisions(said: list[Instruction]) -> list[Instruction]:
    return [each for each in said if not isinstance(each, Explain)]


@examples(150)
@given(setups(), scripts)
def test_the_long_way_leads_to_the_same_decisions(setup: Setup, script: Script) -> None:
    player = Player(setup)
    for said in chain(player.play(script), player.come_to_rest()):
        for each in said:
            player.obey(each)
    long_way = Engine(setup.config, shortcuts=False)
    again = [each for batch in player.bench.heard for each in long_way.handle(*batch)]

    assert _decisions(again) == _decisions(player.bench.said)
    for record in long_way.records():
        short, long = player.bench.engine.why(record.key), long_way.why(record.key)
        assert (short and short.obstacles) == (long and long.obstacles)


def test_a_sleeping_lane_does_not_miss_room_that_is_made_at_the_moment_of_its_wakeup() -> None:
    """The wake-up of the first finish is due when the second one comes: together they make enough room."""
    bench = Bench(cluster_queue("a", cpu=2, cohort="all", reclaim="Any"), cluster_queue("b", cpu=2, cohort="all"))
    bench.submit(
        workload("one", queue="b", cpu=1), workload("two", queue="b", cpu=1), workload("waits", queue="a", cpu=4)
    )
    bench.rest()
    bench.finish("one")
    bench.now += 1.0
    bench.finish("two")

    assert bench.state("waits") == "admitted"


def test_a_lane_that_slept_on_says_the_amounts_of_today() -> None:
    bench = Bench(cluster_queue("a", cpu=2, cohort="all", reclaim="Any"), cluster_queue("b", cpu=2, cohort="all"))
    bench.submit(
        workload("one", queue="b", cpu=1), workload("two", queue="b", cpu=1), workload("waits", queue="a", cpu=4)
    )
    bench.rest()
    bench.finish("one")
    bench.rest()

    assert bench.message("waits").endswith("1 more needed")


def test_where_nobody_is_preempted_a_lane_sleeps_while_jobs_of_its_own_queue_come_and_go() -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(*(workload(f"run-{number}", cpu=1) for number in range(4)), workload("waits", cpu=4))
    bench.rest()
    said = bench.finish("run-0") + bench.submit(workload("small", cpu=1))
    for name in ("small", "run-1", "run-2", "run-3"):
        said += bench.finish(name)
        said += bench.engine.handle(events.TimePassed(at=bench.now + 2))
        bench.now += 2

    assert [(type(each).__name__, each.key) for each in said if isinstance(each, Admit | Explain)] == [
        ("Admit", "ns/small"),
        ("Admit", "ns/waits"),
    ]


def test_a_lane_sleeps_until_there_is_enough_room() -> None:
    """Tries that would be in vain are not made: the engine says nothing until the last of four makes enough room."""
    bench = Bench(cluster_queue("a", cpu=0, cohort="all", reclaim="Any"), cluster_queue("b", cpu=4, cohort="all"))
    bench.submit(*(workload(f"run-{number}", queue="b", cpu=1) for number in range(4)))
    bench.submit(workload("waits", queue="a", cpu=4))
    bench.rest()
    said = []
    for number in range(4):
        said += bench.finish(f"run-{number}")
        said += bench.engine.handle(events.TimePassed(at=bench.now + 2))
        bench.now += 2

    assert [type(each).__name__ for each in said] == ["Admit"]
