"""What was assigned before is found again by the same answers, and by no others."""

from fairway.admission.choices import Assignment, Mode
from fairway.admission.precedents import Answer, Fork, Precedents, Question
from fairway.admission.records import WorkloadDemand
from fairway.admission.resources import FlavorResource
from fairway.testing.builders import Bench, cluster_queue, flavor, workload

CPU, MEMORY = FlavorResource("f", "cpu"), FlavorResource("f", "memory")
FITS = Answer(Mode.FIT, 0, 0)


def demand() -> WorkloadDemand:
    return WorkloadDemand((), (), (), (), ())


def end() -> Assignment:
    return Assignment(Mode.FIT, 0, (), (), frozenset(), ())


def answered(known: Precedents, of: WorkloadDemand, *answers: Answer) -> Assignment | Fork | None:
    way: Assignment | Fork | None = known.of(of)
    for answer in answers:
        assert isinstance(way, Fork)
        way = way.ways.get(answer)
    return way


def test_each_way_through_the_answers_has_its_own_end() -> None:
    known, mine = Precedents(), demand()
    cpu, memory, both, short = Question(CPU, 0, 1), Question(MEMORY, 0, 1), end(), end()
    known.add(mine, [(cpu, FITS), (memory, FITS)], both)
    known.add(mine, [(cpu, FITS), (memory, Answer(Mode.RECLAIM, 0, 3))], short)

    assert answered(known, mine, FITS, FITS) is both
    assert answered(known, mine, FITS, Answer(Mode.RECLAIM, 0, 3)) is short
    assert answered(known, mine, FITS, Answer(Mode.RECLAIM, 0, 2)) is None
    assert answered(known, demand()) is None


def test_what_is_known_is_bounded() -> None:
    known, mine, kept = Precedents(), demand(), []
    for missing in range(1, 1000):
        known.add(mine, [(Question(CPU, 0, 1), Answer(Mode.RECLAIM, 0, missing))], end())
        kept.append(demand())
        known.add(kept[-1], [(Question(CPU, 0, 1), FITS)], end())
    root = known.of(mine)

    assert sum(known.of(each) is not None for each in kept) <= 512
    assert root is None or len(root.ways) <= 128


def test_a_flavor_that_changes_is_looked_at_again() -> None:
    """The second is like the first, for which the flavor would have done."""
    bench = Bench(cluster_queue("cq", cpu=4))
    bench.submit(workload("one", cpu=1))
    bench.apply(flavor("default", taints=["gpu=yes:NoSchedule"]))
    bench.submit(workload("two", cpu=1))

    assert (bench.state("one"), bench.state("two")) == ("admitted", "pending")


def test_quota_that_changes_is_looked_at_again() -> None:
    bench = Bench(cluster_queue("cq", cpu=1))
    bench.submit(workload("one", cpu=2))
    assert "maximum capacity (1)" in bench.message("one")
    bench.apply(cluster_queue("cq", cpu=0))

    assert "maximum capacity (0)" in bench.message("one")
