"""LimitRanges and RuntimeClasses decide how much a workload counts, and whether it may be admitted at all."""

from __future__ import annotations

from typing import Any

from fairway.admission import events, wording
from fairway.apis.kueue.objects import Workload
from fairway.testing.builders import NAMESPACE, Bench, cluster_queue, workload


def limits(bench: Bench, *items: dict[str, Any], name: str = "limits") -> None:
    bench.send(events.LimitRangeChanged(at=bench.now, namespace=NAMESPACE, name=name, limits=items or None))


def overhead(bench: Bench, amounts: dict[str, str] | None) -> None:
    bench.send(events.RuntimeClassChanged(at=bench.now, name="sandbox", overhead=amounts))


def bare(name: str) -> Workload:
    """One pod that requests nothing."""
    return workload(name)


def sandboxed(name: str, cpu: int) -> Workload:
    return workload(name, cpu=cpu, pod={"runtimeClassName": "sandbox"})


def usage(bench: Bench, name: str) -> dict[str, int]:
    record = bench.record(name)
    return {fr.resource: amount for fr, amount in record.usage}


def why(bench: Bench, name: str) -> str:
    found = bench.engine.why(f"{NAMESPACE}/{name}")
    assert found is not None
    return wording.waiting(found.explanation)


def test_pods_without_requests_count_by_the_default_of_their_namespace() -> None:
    bench = Bench(cluster_queue(cpu=5))
    limits(bench, {"type": "Container", "defaultRequest": {"cpu": "3"}})
    bench.submit(bare("first"), bare("second"))
    assert bench.admitted() == ["first"]
    assert usage(bench, "first") == {"cpu": 3000}


def test_a_changed_default_counts_for_those_who_wait_and_not_for_those_who_hold() -> None:
    bench = Bench(cluster_queue(cpu=5))
    limits(bench, {"type": "Container", "defaultRequest": {"cpu": "3"}})
    bench.submit(bare("holds"), bare("waits"))
    limits(bench, {"type": "Container", "defaultRequest": {"cpu": "2"}})
    assert bench.admitted() == ["holds", "waits"]
    assert (usage(bench, "holds"), usage(bench, "waits")) == ({"cpu": 3000}, {"cpu": 2000})
    assert bench.engine.violations() == []


def test_a_workload_outside_of_the_bounds_waits_until_they_change() -> None:
    bench = Bench(cluster_queue(cpu=5))
    limits(bench, {"type": "Container", "max": {"cpu": "1"}})
    bench.submit(workload("big", cpu=2))
    assert bench.admitted() == []
    assert why(bench, "big") == (
        "resources didn't satisfy LimitRange constraints: spec.podSets[0].template.spec.containers[0]: Invalid value: "
        '["cpu"]: requests must not be above the limitRange max'
    )
    limits(bench)
    assert bench.admitted() == ["big"]


def test_other_namespaces_are_not_bound() -> None:
    bench = Bench(cluster_queue(cpu=5))
    bench.send(
        events.LimitRangeChanged(
            at=bench.now, namespace="other", name="limits", limits=({"type": "Pod", "max": {"cpu": "1"}},)
        )
    )
    bench.submit(workload("big", cpu=2))
    assert bench.admitted() == ["big"]


def test_the_overhead_of_a_runtime_class_counts() -> None:
    bench = Bench(cluster_queue(cpu=5))
    overhead(bench, {"cpu": "2"})
    bench.submit(sandboxed("first", 2), sandboxed("second", 1))
    assert bench.admitted() == ["first"]
    assert usage(bench, "first") == {"cpu": 4000}
    overhead(bench, None)
    assert bench.admitted() == ["first", "second"]
    assert usage(bench, "second") == {"cpu": 1000}


def test_a_finished_or_inactive_workload_is_not_queued_by_a_changed_class() -> None:
    bench = Bench(cluster_queue(cpu=5))
    bench.submit(sandboxed("finished", 1), sandboxed("inactive", 1))
    bench.finish("finished")
    bench.send(events.ActiveChanged(at=bench.now, key=f"{NAMESPACE}/inactive", active=False))
    bench.send(events.QuotaReleased(at=bench.now, key=f"{NAMESPACE}/inactive"))
    overhead(bench, {"cpu": "1"})
    assert bench.admitted() == []
    assert bench.engine.violations() == []
