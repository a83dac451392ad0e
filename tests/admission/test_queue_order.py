"""In which order the workloads of one ClusterQueue are tried, and who blocks whom."""

from __future__ import annotations

import pytest

from fairway.admission.reasons import Outcome
from fairway.apis.kueue.objects import Workload
from fairway.testing.builders import Bench, cluster_queue, local_queue, workload


@pytest.mark.parametrize(
    ("workloads", "want_order"),
    [
        pytest.param(
            [workload("low", cpu=1), workload("high", cpu=1, priority=9), workload("middle", cpu=1, priority=5)],
            ["high", "middle", "low"],
            id="higher priority goes first",
        ),
        pytest.param(
            [workload("below", cpu=1, priority=-1), workload("plain", cpu=1)],
            ["plain", "below"],
            id="a negative priority ranks below none",
        ),
        pytest.param(
            [workload("new", cpu=1, created=-10), workload("old", cpu=1, created=-20)],
            ["old", "new"],
            id="among equals the older goes first, whatever order they came in",
        ),
        pytest.param(
            [workload("b", cpu=1, created=0, uid="2"), workload("a", cpu=1, created=0, uid="10")],
            ["a", "b"],
            id="of the same second the lower UID goes first, compared as text",
        ),
        pytest.param(
            [workload("old", cpu=1, created=-20), workload("new", cpu=1, created=-10, priority=1)],
            ["new", "old"],
            id="priority counts before age",
        ),
    ],
)
@pytest.mark.parametrize("strategy", ["StrictFIFO", "BestEffortFIFO"])
def test_one_at_a_time_they_run_in_order(strategy: str, workloads: list[Workload], want_order: list[str]) -> None:
    bench = Bench(cluster_queue(cpu=1, strategy=strategy, stop="Hold"))
    bench.submit_together(*workloads)
    bench.apply(cluster_queue(cpu=1, strategy=strategy))
    for name in want_order:
        bench.rest()
        bench.finish(name)
    bench.rest()

    assert bench.admissions() == want_order


def test_workloads_of_several_local_queues_share_one_order() -> None:
    bench = Bench(cluster_queue(cpu=2), local_queue("one", "cq"), local_queue("two", "cq"))
    bench.submit(workload("running", cpu=2))
    bench.submit(workload("first", queue="one", cpu=2), workload("second", queue="two", cpu=2))
    bench.submit(workload("third", queue="one", cpu=2))

    why = [bench.why(name) for name in ("first", "second", "third")]

    assert [(each.position, each.local_position) for each in why if each] == [(0, 0), (1, 0), (2, 1)]


@pytest.mark.parametrize(
    ("strategy", "want_admitted"),
    [
        pytest.param("StrictFIFO", ["running"], id="a StrictFIFO head that does not fit blocks those behind it"),
        pytest.param(
            "BestEffortFIFO", ["running", "small"], id="a BestEffortFIFO head steps aside for those behind it"
        ),
    ],
)
def test_a_head_that_does_not_fit(strategy: str, want_admitted: list[str]) -> None:
    bench = Bench(cluster_queue(cpu=4, strategy=strategy))
    bench.submit(workload("running", cpu=3), workload("large", cpu=4, priority=1), workload("small", cpu=1))
    bench.rest()

    assert bench.admitted() == want_admitted


def test_a_head_that_slept_blocks_a_queue_that_becomes_strict() -> None:
    """Once, it slept on, and those behind it were admitted."""
    bench = Bench(cluster_queue(cpu=5))
    bench.submit(workload("runs", cpu=2, priority=100), workload("large", cpu=5, priority=10))
    bench.advance(5)
    bench.apply(cluster_queue(cpu=5, strategy="StrictFIFO"))
    bench.advance(5)
    bench.submit(workload("small", cpu=1))
    bench.advance(5)

    assert bench.admitted() == ["runs"]


def test_even_a_head_that_can_never_fit_blocks_a_strict_queue() -> None:
    bench = Bench(cluster_queue(cpu=4, strategy="StrictFIFO"))
    bench.submit(workload("huge", cpu=9), workload("small", cpu=1))

    assert bench.states() == {"huge": "pending", "small": "pending"}

    bench.delete("huge")

    assert bench.state("small") == "admitted"


def test_a_higher_arrival_takes_the_head_of_a_strict_queue() -> None:
    bench = Bench(cluster_queue(cpu=4, strategy="StrictFIFO"))
    bench.submit(workload("huge", cpu=9), workload("small", cpu=1), workload("urgent", cpu=1, priority=1))

    assert bench.admitted() == ["urgent"]


def test_a_strict_head_is_tried_again_without_waiting_for_the_batch() -> None:
    bench = Bench(cluster_queue(cpu=4, strategy="StrictFIFO"))
    bench.submit(workload("running", cpu=3), workload("next", cpu=4))

    bench.finish("running")

    assert bench.state("next") == "admitted"


def test_a_parked_workload_waits_for_the_batch() -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("running", cpu=3), workload("next", cpu=4))

    bench.finish("running")
    assert (bench.state("next"), bench.engine.next_wakeup) == ("pending", bench.now + 1.0)

    bench.advance(1.0)
    assert (bench.state("next"), bench.engine.next_wakeup) == ("admitted", None)


def test_alike_workloads_are_parked_with_the_one_that_was_tried() -> None:
    """Equivalence: what did not fit once is not tried again for every copy, and late copies join those who wait."""
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("running", cpu=3))
    said = bench.submit_together(*(workload(f"copy-{number}", cpu=2) for number in range(5)))
    said += bench.submit(workload("late", cpu=2))

    assert [each.key for each in said if type(each).__name__ == "Explain"] == ["ns/copy-0"]
    assert {bench.message(f"copy-{number}") for number in range(5)} == {bench.message("late")}
    assert bench.message("late").endswith("1 more needed")

    bench.submit(workload("other", cpu=1))
    assert bench.admitted() == ["other", "running"]


@pytest.mark.parametrize(
    "different",
    [
        pytest.param(workload("different", cpu=2, priority=1), id="another priority is tried on its own"),
        pytest.param(workload("different", cpu=1, count=2), id="the same total in another shape is tried on its own"),
        pytest.param(
            workload("different", cpu=2, pod={"tolerations": [{"key": "a", "operator": "Exists"}]}),
            id="other tolerations are tried on their own",
        ),
        pytest.param(workload("different", cpu=2, count=2, min_count=1), id="another least count is tried on its own"),
    ],
)
def test_only_workloads_alike_in_everything_are_parked_together(different: Workload) -> None:
    bench = Bench(cluster_queue(cpu=4))
    bench.submit(workload("running", cpu=3), workload("first", cpu=2))

    said = bench.submit(different)

    assert {each.key for each in said} == {"ns/different"}


def test_the_preemptor_goes_before_a_higher_arrival() -> None:
    """It has made room, so it is tried first until it got in: otherwise its victims would have stopped for nothing."""
    bench = Bench(cluster_queue(cpu=4, within="LowerPriority"))
    bench.submit(workload("victim", cpu=4), workload("preemptor", cpu=4, priority=1))
    bench.submit(workload("late", cpu=4, priority=2))
    bench.release("victim")

    assert bench.states() == {"victim": "pending", "preemptor": "admitted", "late": "pending"}


def test_in_a_strict_queue_the_higher_arrival_goes_before_the_preemptor() -> None:
    bench = Bench(cluster_queue(cpu=4, within="LowerPriority", strategy="StrictFIFO"))
    bench.submit(workload("victim", cpu=4), workload("preemptor", cpu=4, priority=1))
    bench.submit(workload("late", cpu=4, priority=2))
    bench.release("victim")

    assert bench.states() == {"victim": "pending", "preemptor": "pending", "late": "admitted"}


def test_a_preemptor_that_is_deleted_leaves_its_claim() -> None:
    bench = Bench(cluster_queue(cpu=4, within="LowerPriority"))
    bench.submit(workload("victim", cpu=4), workload("preemptor", cpu=4, priority=1))
    bench.delete("preemptor")
    bench.release("victim")
    bench.rest()

    assert bench.state("victim") == "admitted"


def test_one_batch_decides_by_rank_and_not_by_arrival() -> None:
    bench = Bench(cluster_queue(cpu=2))
    bench.submit_together(workload("first", cpu=2), workload("second", cpu=2, priority=1))

    assert bench.admitted() == ["second"]


@pytest.mark.parametrize(
    ("strategy", "want_admitted"),
    [
        pytest.param("StrictFIFO", [], id="in a StrictFIFO queue it blocks"),
        pytest.param("BestEffortFIFO", ["next"], id="in a BestEffortFIFO queue it steps aside"),
    ],
)
def test_a_workload_that_asks_for_more_than_its_limits(strategy: str, want_admitted: list[str]) -> None:
    resources = {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}
    containers = {"containers": [{"name": "c", "image": "busybox", "resources": resources}]}
    bench = Bench(cluster_queue(cpu=4, strategy=strategy))
    bench.submit(workload("wrong", pod=containers), workload("next", cpu=1))
    why = bench.why("wrong")

    assert bench.admitted() == want_admitted
    assert why is not None
    assert why.explanation.outcome is Outcome.REQUESTS_EXCEED_LIMITS
    assert bench.message("wrong") == (
        "resources validation failed: spec.podSets[0].template.spec.containers[0]:"
        ' Invalid value: ["cpu"]: requests must not exceed its limits'
    )
