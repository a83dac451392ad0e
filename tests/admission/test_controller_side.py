"""What the controller around an engine asks of it besides decisions."""

from __future__ import annotations

from fairway.admission import events
from fairway.testing.builders import Bench, admission_check, cluster_queue, flavor, on, workload


def test_a_workload_is_found_by_its_key() -> None:
    bench = Bench(cluster_queue("cq", cpu=4))
    bench.submit(workload("w", cpu=1))

    found = bench.engine.record("ns/w")

    assert found is not None
    assert (found.key, bench.engine.record("ns/nobody")) == ("ns/w", None)


def test_the_checks_that_are_needed_follow_from_the_flavors() -> None:
    """Before a workload has any, only those that every flavor needs."""
    rules = {"always": [], "on-spot": ["spot"], "on-both": ["spot", "default"]}
    queue = cluster_queue("cq", on("spot", cpu=1), on("default", cpu=4), checks=rules)
    bench = Bench(flavor("spot"), *(admission_check(name) for name in rules), queue)
    bench.submit(workload("small", cpu=1), workload("large", cpu=4), workload("waiting", cpu=4))

    needed = {name: bench.engine.required_checks(bench.record(name)) for name in ("small", "large", "waiting")}

    assert needed == {
        "small": ("always", "on-both", "on-spot"),
        "large": ("always", "on-both"),
        "waiting": ("always", "on-both"),
    }


def test_of_a_queue_that_is_not_there_no_checks_are_known() -> None:
    bench = Bench(cluster_queue("cq", cpu=4))
    bench.submit(workload("w", queue="nowhere", cpu=1))

    assert bench.engine.required_checks(bench.record("w")) is None


def test_a_job_that_went_with_its_quota_is_not_queued_again() -> None:
    bench = Bench(cluster_queue("cq", cpu=4, within="LowerPriority"))
    bench.submit(workload("low", cpu=4))
    bench.submit(workload("high", cpu=4, priority=1))
    bench.send(events.QuotaReleased(at=bench.now, key="ns/low", requeue=False))
    bench.finish("high")
    bench.advance(10.0)

    assert bench.state("low") == "pending"
