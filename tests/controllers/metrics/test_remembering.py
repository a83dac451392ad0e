"""What was true of a Workload is remembered, not read again, and what happens most is counted apart from the series:
that must not change what is counted.
"""

import asyncio
from collections.abc import Iterator
from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.deciding import FollowingEngine
from controllers.manifests import admission, condition, workload
from fairway.apis.machinery.kind import Manifest
from fairway.controllers.kit.configuration import FixedConfiguration
from fairway.controllers.metrics import QueueMetrics, transitions
from fairway.controllers.metrics.series import Histogram, Tally
from fairway.controllers.metrics.transitions import QueuePlace, QueueTallies, WorkloadView
from fairway.testing.clusters import cluster_on, local_cluster

SINCE = "2026-01-01T00:00:00Z"
TYPES = ("QuotaReserved", "Admitted", "PodsReady", "Evicted", "Preempted", "Finished", "Requeued")

ADMITTED = {"QuotaReserved": True, "Admitted": True}

usual = st.sampled_from(
    [
        {},
        {"QuotaReserved": False},
        ADMITTED,
        {**ADMITTED, "PodsReady": True},
        {**ADMITTED, "Finished": True},
        {**ADMITTED, "PodsReady": True, "Finished": True},
        {"Requeued": False, **ADMITTED},
    ]
)
states = st.none() | usual | st.dictionaries(st.sampled_from(TYPES), st.booleans())
"""Gone, or conditions that are true or not."""

stories = st.lists(st.tuples(st.sampled_from(["a", "b"]), states, st.booleans()), max_size=30)
"""What a Workload is next, and whether somebody asks then."""


def state(name: str, conditions: dict[str, bool], revision: int) -> Manifest:
    made = workload(name)
    made["metadata"] |= {"uid": name, "resourceVersion": str(revision), "creationTimestamp": SINCE}
    shown = [condition(kind, str(true), "Started", SINCE) for kind, true in conditions.items()]
    checks = [{"name": "check", "state": "Ready"}] if revision % 5 == 0 else []
    return {**made, "status": {"conditions": shown, "admission": admission("cq"), "admissionChecks": checks}}


def figures(tally: Tally) -> tuple[Any, Any]:
    def plain(times: dict[Any, Histogram]) -> dict[Any, Any]:
        return {labels: (one.buckets, one.total) for labels, one in times.items()}

    counts = {name: series for name, series in tally.counts.items() if not name.startswith("cohort")}
    return counts, {name: plain(times) for name, times in tally.times.items()}


@settings(max_examples=60, deadline=None)
@given(stories)
def test_counting_with_what_is_remembered_is_counting_with_what_was_there(
    story: list[tuple[str, dict[str, bool] | None, bool]],
) -> None:
    async def play() -> None:
        async with local_cluster(keepers=False) as world:
            cache = world.cluster.cache("workloads")
            elsewhere = FollowingEngine(cluster_on(world.api, world.clock))
            metrics = QueueMetrics(world.cluster, elsewhere, FixedConfiguration())
            long_way = Tally()
            finished: set[str] = set()

            def heard(old: Manifest | None, new: Manifest | None) -> None:
                if old is not None and new is not None:
                    transitions.count(long_way, WorkloadView(old).conditions, old, WorkloadView(new), world.clock.now())

            cache.on_change(heard)
            for revision, (name, conditions, asked) in enumerate(story, start=1):
                known = cache.get("default", name)
                if conditions is not None:
                    made = state(name, conditions, revision)
                    made["metadata"]["uid"] = known["metadata"]["uid"] if known is not None else f"{name}-{revision}"
                    cache.note(made)
                elif known is not None:
                    cache.note_gone(known)
                (finished.add if conditions and conditions.get("Finished") else finished.discard)(name)
                if asked:
                    told = {family.name: family for family in cast("Iterator[Any]", metrics.collect())}
                    kept = [sample.value for sample in told["kueue_finished_workloads"].samples]
                    assert sum(kept) == len(finished)
                    assert figures(metrics._tally) == figures(long_way)
            metrics._places.settle(metrics._tally)
            assert figures(metrics._tally) == figures(long_way)
            assert {name for _, name in metrics._finished} == finished
            assert all(cache.get(*key) is not None for key in metrics._true)

    asyncio.run(play())


def test_an_admission_counts_for_the_cohorts_that_it_was_below() -> None:
    tally = Tally()
    place = QueuePlace("cq", ("lq", "default"), "high")
    place.admitted(1.0, ("parent", "root"), tally)
    place.admitted(2.0, ("parent", "root"), tally)
    place.admitted(3.0, ("root",), tally)
    place.admitted(4.0, (), tally)
    place.settle(tally)
    place.settle(tally)
    assert tally.counts["cohort_subtree_admitted_workloads"] == {("parent", "high"): 2, ("root", "high"): 3}
    assert tally.counted("admitted_workloads", ("cq", "high")) == 4
    waits = tally.times["local_queue_admission_wait_time_seconds"]["lq", "default", "high"]
    assert (waits.count, waits.total) == (4, 10.0)
    assert list(waits.cumulative())[:3] == [("1.0", 1), ("2.5", 2), ("5.0", 4)]


def test_where_nothing_ever_finished_nothing_is_told() -> None:
    places = QueueTallies()
    place = places.of(state("a", {}, 1))
    assert places.kept() == ({}, {})
    place.keep()
    place.let_go()
    assert places.kept() == ({"cq": 0}, {("user-queue", "default"): 0})
