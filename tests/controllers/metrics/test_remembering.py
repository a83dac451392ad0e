"""What was true of a Workload is remembered, not read again: that must not change what is counted."""

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.deciding import FollowingEngine
from controllers.manifests import admission, condition, workload
from fairway.controllers.configuration.fixed import FixedConfiguration
from fairway.controllers.metrics import QueueMetrics, transitions
from fairway.controllers.metrics.series import Histogram, Tally
from fairway.controllers.metrics.transitions import Shown
from fairway.kinds.kind import Manifest
from fairway.testing.clusters import cluster_on, local_cluster

SINCE = "2026-01-01T00:00:00Z"
TYPES = ("QuotaReserved", "Admitted", "PodsReady", "Evicted", "Preempted", "Finished", "Requeued")

states = st.none() | st.dictionaries(st.sampled_from(TYPES), st.booleans())
"""Gone, or conditions that are true or not."""

stories = st.lists(st.tuples(st.sampled_from(["a", "b"]), states), max_size=30)


def state(name: str, conditions: dict[str, bool], revision: int) -> Manifest:
    made = workload(name)
    made["metadata"] |= {"uid": name, "resourceVersion": str(revision), "creationTimestamp": SINCE}
    shown = [condition(kind, str(true), "Started", SINCE) for kind, true in conditions.items()]
    return {**made, "status": {"conditions": shown, "admission": admission("cq")}}


def figures(tally: Tally) -> tuple[Any, Any]:
    def plain(times: dict[Any, Histogram]) -> dict[Any, Any]:
        return {labels: (one.buckets, one.total) for labels, one in times.items()}

    counts = {name: series for name, series in tally.counts.items() if not name.startswith("cohort")}
    return counts, {name: plain(times) for name, times in tally.times.items()}


@settings(max_examples=60, deadline=None)
@given(stories)
def test_counting_with_what_is_remembered_is_counting_with_what_was_there(
    story: list[tuple[str, dict[str, bool] | None]],
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
                    transitions.count(long_way, Shown(old).conditions, old, Shown(new), world.clock.now())

            cache.on_change(heard)
            for revision, (name, conditions) in enumerate(story, start=1):
                known = cache.get("default", name)
                if conditions is not None:
                    made = state(name, conditions, revision)
                    made["metadata"]["uid"] = known["metadata"]["uid"] if known is not None else f"{name}-{revision}"
                    cache.note(made)
                elif known is not None:
                    cache.note_gone(known)
                (finished.add if conditions and conditions.get("Finished") else finished.discard)(name)
            assert figures(metrics._tally) == figures(long_way)
            assert {name for _, name in metrics._finished} == finished
            assert sum(metrics._finished_in.values()) == len(finished)
            assert all(cache.get(*key) is not None for key in metrics._true)

    asyncio.run(play())
