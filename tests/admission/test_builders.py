"""The builders make valid objects, and the bench does what it says."""

from __future__ import annotations

import pytest

from fairway.admission import events
from fairway.admission.instructions import Admit, Evict
from fairway.apis.kueue.manifests import encode, load
from fairway.apis.kueue.objects import Workload
from fairway.testing.builders import (
    START,
    Bench,
    Limited,
    Object,
    admission_check,
    cluster_queue,
    cohort,
    evictions_in,
    flavor,
    group,
    key_of,
    local_queue,
    moment,
    on,
    pod_set,
    toleration,
    workload,
)


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(flavor("spot", labels={"a": "b"}, taints=["a=b:NoSchedule"], tolerations=["a=b"]), id="a flavor"),
        pytest.param(cohort("left", cpu=Limited(4, lending=2), parent="root", weight="1.5"), id="a cohort"),
        pytest.param(
            cluster_queue(
                "cq",
                group(on("a", cpu=1, memory="1Gi"), on("b", cpu=2, memory="2Gi")),
                group(on("c", gpu=Limited(4, borrowing=1, lending=0))),
                cohort="left",
                strategy="StrictFIFO",
                within="LowerOrNewerEqualPriority",
                reclaim="LowerPriority",
                borrow_within=3,
                when_can_borrow="TryNextFlavor",
                preference="PreemptionOverBorrowing",
                checks={"prov": ["a"]},
                namespaces={"team": "ml"},
                weight=2,
            ),
            id="a ClusterQueue with everything",
        ),
        pytest.param(cluster_queue(cpu=4, stop="HoldAndDrain", checks=["prov"]), id="a plain ClusterQueue"),
        pytest.param(local_queue("lq", "cq", stop="Hold"), id="a LocalQueue"),
        pytest.param(admission_check("prov", active=False), id="an AdmissionCheck"),
        pytest.param(
            workload(
                "w", pod_set("head", cpu=1), pod_set("workers", gpu=1, count=3, min_count=1), priority=3, created=5
            ),
            id="a workload of two pod sets",
        ),
        pytest.param(workload("w", cpu="500m", memory="1Gi", priority_class="high", created=0), id="a plain workload"),
    ],
)
def test_what_is_built_is_what_the_api_would_accept(made: Object | Workload) -> None:
    assert load(encode(made)).spec == made.spec  # type: ignore[union-attr]


def test_short_names_stand_for_resources() -> None:
    (quota,) = on("a100", gpu=8).resources
    made = pod_set(gpu=2, resources={"example.com/tape": 1})

    assert quota.name == "nvidia.com/gpu"
    assert made.template.spec["containers"][0]["resources"]["requests"] == {
        "nvidia.com/gpu": "2",
        "example.com/tape": "1",
    }


def test_tolerations_are_written_as_taints_are() -> None:
    assert (toleration("a=b:NoSchedule").operator, toleration("a:NoSchedule").operator) == ("Equal", "Exists")
    assert toleration("a=b").effect == ""


def test_a_bench_stops_wherever_the_engine_wants_to_be_woken() -> None:
    bench = Bench(cluster_queue(cpu=1))
    bench.submit(workload("runs", cpu=1), workload("waits", cpu=1))
    bench.finish("runs")
    woken = bench.engine.next_wakeup
    said = bench.advance(100.0)

    assert [each.at for each in said if isinstance(each, Admit)] == [woken]
    assert bench.now == START + 2 + 100


@pytest.mark.parametrize(
    ("release_after", "want_seconds"),
    [pytest.param(0.0, 0.0, id="at once"), pytest.param(5.0, 5.0, id="after a while")],
)
def test_a_bench_can_be_the_job_controller(release_after: float, want_seconds: float) -> None:
    queue = cluster_queue(cpu=1, within="LowerPriority")
    bench = Bench(queue, auto_release=True, release_after=release_after)
    said = bench.submit(workload("low", cpu=1), workload("high", cpu=1, priority=1)) + bench.advance(10.0)
    (evict,) = (each for each in said if isinstance(each, Evict))
    (admit,) = (each for each in said if isinstance(each, Admit) and each.key == key_of("high"))

    assert admit.at - evict.at == want_seconds
    assert evictions_in(said) == bench.evictions() == [("low", "InClusterQueue")]


def test_a_bench_without_rest_says_so() -> None:
    bench = Bench(cluster_queue(cpu=1))
    bench.submit(workload("runs", cpu=1), workload("waits", cpu=1))
    bench.finish("runs")

    with pytest.raises(AssertionError, match="no rest after 0 stops"):
        bench.rest(most_stops=0)


def test_a_bench_makes_what_is_not_mentioned() -> None:
    bench = Bench(cluster_queue("team-a", on("spot", cpu=1)))
    bench.submit(workload("w", queue="team-a", cpu=1))
    assert (bench.state("w"), bench.flavors_of("w")) == ("admitted", {"cpu": "spot"})

    bare = Bench(cluster_queue("team-a", cpu=1), local_queues=False)
    bare.submit(workload("w", queue="team-a", cpu=1))
    assert bare.message("w") == "LocalQueue team-a doesn't exist"


def test_what_a_bench_heard_makes_another_engine_say_the_same() -> None:
    bench = Bench(cluster_queue(cpu=1, within="LowerPriority"), auto_release=True)
    bench.submit(workload("low", cpu=1), workload("high", cpu=1, priority=1))
    again = Bench()
    for batch in bench.heard[1:]:
        again.send(*batch)

    assert (again.said, again.states()) == (bench.said, bench.states())


def test_events_of_the_past_do_not_turn_the_clock_back() -> None:
    bench = Bench(cluster_queue(cpu=1))
    bench.advance(50)
    bench.send(events.TimePassed(at=START))

    assert bench.now == START + 50
    assert moment(bench.now).isoformat() == "2023-11-14T22:14:10+00:00"
