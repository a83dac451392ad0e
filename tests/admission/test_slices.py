"""Slices of elastic jobs: a larger one takes the place of a smaller one, and asks only for what is missing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.admission import events, wording
from fairway.admission.config import Config
from fairway.admission.instructions import Admit
from fairway.admission.records import REPLACEMENT_FOR, Stage
from fairway.apis.kueue.configuration import FairSharingPolicy
from fairway.apis.kueue.objects import Workload
from fairway.testing.builders import NAMESPACE, Bench, cluster_queue, on, pod_set, workload

FAIR = Config(fair_sharing=FairSharingPolicy())


def a_slice(name: str, pods: int, replaces: str = "", priority: int = 0, queue: str = "cq") -> Workload:
    annotations = {"kueue.x-k8s.io/elastic-job": "true"}
    if replaces:
        annotations[REPLACEMENT_FOR] = f"{NAMESPACE}/{replaces}"
    return workload(name, count=pods, cpu=1, priority=priority, queue=queue, annotations=annotations)


def used(bench: Bench, name: str) -> int:
    return sum(amount for _, amount in bench.record(name).usage) // 1000


def why(bench: Bench, name: str) -> str:
    found = bench.engine.why(f"{NAMESPACE}/{name}")
    assert found is not None
    return wording.waiting(found.explanation)


@pytest.mark.parametrize("config", [Config(), FAIR])
def test_a_larger_slice_needs_only_the_difference(config: Config) -> None:
    bench = Bench(cluster_queue(cpu=5), config=config)
    bench.submit(a_slice("first", 3))
    said = bench.submit(a_slice("second", 5, "first"))
    assert [one.replaces for one in said if isinstance(one, Admit)] == [f"{NAMESPACE}/first"]
    assert bench.record("first").stage is Stage.FINISHED
    assert (bench.admitted(), used(bench, "second")) == (["second"], 5)


def test_a_slice_that_does_not_fit_waits_and_the_one_before_it_stays() -> None:
    bench = Bench(cluster_queue(cpu=5))
    bench.submit(a_slice("first", 3))
    bench.submit(a_slice("second", 6, "first"))
    assert bench.admitted() == ["first"]
    bench.submit(workload("other", cpu=2))
    bench.submit(a_slice("third", 5, "first"))
    assert bench.admitted() == ["first", "other"]
    assert why(bench, "third") == (
        "couldn't assign flavors to pod set main: insufficient unused quota for cpu in flavor default, 2 more needed"
    )
    bench.finish("other")
    bench.advance(1.0)
    assert bench.admitted() == ["third"]


def test_a_slice_stays_in_the_flavor_of_its_job() -> None:
    bench = Bench(cluster_queue("cq", on("a", cpu=3), on("b", cpu=9)))
    bench.submit(a_slice("first", 2))
    bench.submit(a_slice("second", 4, "first"))
    assert bench.admitted() == ["first"]
    assert why(bench, "second") == (
        "couldn't assign flavors to pod set main: could not assign b flavor since the original workload is assigned: "
        "a, insufficient unused quota for cpu in flavor a, 1 more needed"
    )


def test_pod_sets_that_stay_as_they_are_count_once() -> None:
    bench = Bench(cluster_queue(cpu=5))
    sets = pod_set("head", cpu=1), pod_set("workers", count=2, cpu=1)
    bench.submit(workload("first", *sets))
    grown = pod_set("head", cpu=1), pod_set("workers", count=4, cpu=1)
    bench.submit(workload("second", *grown, annotations={REPLACEMENT_FOR: f"{NAMESPACE}/first"}))
    assert (bench.admitted(), used(bench, "second")) == (["second"], 5)


def test_growing_preempts_for_the_difference_alone() -> None:
    bench = Bench(cluster_queue(cpu=6, within="LowerPriority"))
    bench.submit(a_slice("first", 3, priority=5), workload("low", cpu=1), workload("lower", cpu=2, priority=-1))
    bench.submit(a_slice("second", 5, "first", priority=5))
    assert bench.evictions() == [("lower", "InClusterQueue")]
    bench.release("lower")
    assert bench.admitted() == ["low", "second"]


def test_a_smaller_slice_gives_quota_back_at_once() -> None:
    bench = Bench(cluster_queue(cpu=5))
    bench.submit(a_slice("first", 5), workload("waits", cpu=2))
    assert bench.admitted() == ["first"]
    bench.send(events.WorkloadChanged(at=bench.now, workload=a_slice("first", 3)))
    bench.advance(1.0)
    assert (bench.admitted(), used(bench, "first")) == (["first", "waits"], 3)


def test_a_slice_that_could_not_be_stored_leaves_the_one_before_it_in_place() -> None:
    for failure in ("failed", "gone"):
        bench = Bench(cluster_queue(cpu=5))
        bench.submit(a_slice("first", 3))
        bench.submit(a_slice("second", 5, "first"))
        if failure == "gone":
            bench.delete("second")
            assert (bench.admitted(), used(bench, "first")) == (["first"], 3)
        else:
            bench.fail_write("second")
            assert bench.admitted() == ["second"]  # tried again at once
        assert bench.engine.overused() == []


def test_a_stored_replacement_is_for_good() -> None:
    bench = Bench(cluster_queue(cpu=5))
    bench.submit(a_slice("first", 3))
    bench.submit(a_slice("second", 5, "first"))
    bench.finish("first")
    bench.delete("second")
    assert bench.admitted() == []


SIZES = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(1, 7), st.booleans()), min_size=1, max_size=14)


@settings(max_examples=60, deadline=None)
@given(sizes=SIZES, fair=st.booleans(), preempts=st.booleans())
def test_quota_is_never_exceeded_however_jobs_grow_and_shrink(
    sizes: list[tuple[str, int, bool]], *, fair: bool, preempts: bool
) -> None:
    queue = cluster_queue(cpu=8, within="LowerPriority" if preempts else "Never")
    bench = Bench(queue, config=FAIR if fair else Config(), auto_release=True)
    current: dict[str, tuple[str, int]] = {}
    for number, (job, pods, urgent) in enumerate(sizes):
        old = current.get(job)
        holder = None if old is None else bench.engine.record(f"{NAMESPACE}/{old[0]}")
        if old is not None and holder is not None and holder.stage is not Stage.FINISHED and pods < old[1]:
            bench.send(events.WorkloadChanged(at=bench.now, workload=a_slice(old[0], pods)))
            current[job] = old[0], pods
        elif old is None or pods > old[1]:
            name = f"{job}-{number}"
            bench.submit(a_slice(name, pods, "" if old is None else old[0], priority=int(urgent)))
            record = bench.engine.record(f"{NAMESPACE}/{name}")
            if old is None or (record is not None and record.holding):
                current[job] = name, pods
            else:
                bench.send(events.WorkloadDeleted(at=bench.now, key=f"{NAMESPACE}/{name}"))
        assert bench.engine.violations() == []
        assert bench.engine.overused() == []
        per_job = [one.name.partition("-")[0] for one in bench.engine.records() if one.holding and one.evicted is None]
        assert len(per_job) == len(set(per_job))
