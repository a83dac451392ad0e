"""The numbers that an engine shows of its queues."""

import pytest

from fairway.admission.config import Config
from fairway.admission.engine import Engine
from fairway.admission.figures import Amount, FlavorAmounts
from fairway.apis.kueue.configuration import AdmissionFairSharingPolicy
from fairway.testing.builders import Bench, admission_check, cluster_queue, cohort, key_of, local_queue, on, workload


def amounts(flavor: str, **cpu: int) -> FlavorAmounts:
    return FlavorAmounts(flavor, (Amount("cpu", cpu["total"], cpu.get("borrowed", 0)),))


def test_a_queue_that_nobody_told_of_has_no_figures() -> None:
    figures = Engine().figures
    assert figures.cluster_queue("q") is None
    assert figures.local_queue("ns/q") is None
    assert figures.activity("q") is None
    assert figures.cohort("all") is None
    assert (figures.holders("q"), figures.quotas("q"), figures.demanded("q"), figures.cohorts_above("q")) == (
        0,
        {},
        {},
        (),
    )


def test_who_waits_is_counted_apart_from_who_is_not_tried_again_soon() -> None:
    bench = Bench(cluster_queue("q", cpu=4))
    bench.submit(workload("runs", queue="q", cpu=3), workload("a", queue="q", cpu=2), workload("b", queue="q", cpu=2))
    found = bench.engine.figures.cluster_queue("q")
    assert found is not None
    assert (found.queued, found.set_aside, found.pending) == (0, 2, 2)
    assert (found.holdings.reserving, found.holdings.admitted) == (1, 1)
    assert found.holdings.usage == (amounts("default", total=3000),)
    assert bench.engine.figures.demanded("q") == {"cpu": 4000}


def test_flavors_are_in_the_order_of_the_quota_and_resources_by_name() -> None:
    bench = Bench(cluster_queue("q", on("zebra", memory=1, cpu=1), on("ant", memory=1, cpu=1)))
    found = bench.engine.figures.cluster_queue("q")
    assert found is not None
    assert [one.flavor for one in found.holdings.reservation] == ["zebra", "ant"]
    assert [one.resource for one in found.holdings.reservation[0].amounts] == ["cpu", "memory"]


def test_reserved_and_admitted_differ_while_a_check_is_pending() -> None:
    bench = Bench(admission_check("budget"), cluster_queue("q", cpu=4, checks=["budget"]))
    bench.submit(workload("w", queue="q", cpu=3))
    found = bench.engine.figures.cluster_queue("q")
    assert found is not None
    assert (found.holdings.reserving, found.holdings.admitted) == (1, 0)
    assert found.holdings.reservation == (amounts("default", total=3000),)
    assert found.holdings.usage == (amounts("default", total=0),)
    bench.report_check("w", "budget", "Ready")
    found = bench.engine.figures.cluster_queue("q")
    assert found is not None
    assert found.holdings.admitted == 1


def test_local_queues_have_their_own_share_of_the_figures() -> None:
    bench = Bench(cluster_queue("q", cpu=4), local_queue("red", "q"), local_queue("blue", "q"))
    bench.submit(
        workload("r1", queue="red", cpu=3),
        workload("b1", queue="blue", cpu=1),
        workload("b2", queue="blue", cpu=1),
        workload("b3", queue="blue", cpu=1),
    )
    red, blue = (bench.engine.figures.local_queue(f"ns/{name}") for name in ("red", "blue"))
    assert red is not None
    assert blue is not None
    assert (red.pending, red.holdings.admitted, red.holdings.usage) == (0, 1, (amounts("default", total=3000),))
    assert (blue.pending, blue.holdings.admitted, blue.holdings.usage) == (2, 1, (amounts("default", total=1000),))
    assert bench.engine.figures.waiting_by_local_queue("q") == {"ns/blue": (0, 2)}


def test_borrowing_is_what_is_beyond_the_own_quota_inside_a_cohort() -> None:
    bench = Bench(
        cohort("team", parent="all"),
        cluster_queue("q", cpu=4, cohort="team"),
        cluster_queue("lender", cpu=6, cohort="all"),
    )
    bench.submit(workload("w", queue="q", cpu=7))
    figures = bench.engine.figures
    found = figures.cluster_queue("q")
    assert found is not None
    assert found.holdings.usage == (amounts("default", total=7000, borrowed=3000),)
    assert found.cohorts == ("team", "all")
    team = figures.cohort("team")
    assert team is not None
    assert (team.parent, team.root, team.admitted) == ("all", "all", 1)
    assert {str(fr): amount for fr, amount in team.quota.items()} == {"default/cpu": 4000}
    assert {str(fr): amount for fr, amount in team.reservation.items()} == {"default/cpu": 7000}
    assert {one.name for one in figures.cohorts()} == {"team", "all"}


def test_looking_changes_no_decision() -> None:
    """Figures are read at any moment; an engine that is looked at must decide as one that is not."""

    def story(*, look: bool) -> str:
        bench = Bench(cluster_queue("q", cpu=4, cohort="all"), cluster_queue("p", cpu=4, cohort="all"))
        for number in range(12):
            bench.submit(workload(f"w{number}", queue="qp"[number % 2], cpu=number % 4 + 1, priority=number % 3))
            if number % 5 == 4:
                bench.finish(f"w{number - 2}")
            if look:
                for name in ("q", "p"):
                    bench.engine.figures.cluster_queue(name)
                    bench.engine.figures.local_queue(key_of(name))
                    bench.engine.figures.demanded(name)
                bench.engine.figures.cohorts()
        return bench.story()

    assert story(look=True) == story(look=False)


def test_recent_usage_is_told_where_it_decides() -> None:
    config = Config(admission_fair_sharing=AdmissionFairSharingPolicy(half_life_seconds=600))
    bench = Bench(cluster_queue("q", cpu=4), config=config)
    bench.submit(workload("w", queue="q", cpu=3))
    key = next(iter(bench.engine.records())).local_queue
    assert bench.engine.figures.recent_usage(key) == 0.0
    bench.advance(600)
    found = bench.engine.figures.local_queue(key)
    assert found is not None
    assert found.consumed.get("cpu", 0) > 0
    assert found.sampled_at is not None
    assert Bench(cluster_queue("q", cpu=4)).engine.figures.recent_usage(key) is None


@pytest.mark.parametrize(
    ("batch_seconds", "want_changes"),
    [
        pytest.param(1.0, 1, id="with a batch, as on a cluster, changes that come together are one"),
        pytest.param(0.0, 3, id="without, every change is a cycle of its own"),
    ],
)
def test_attempts_are_cycles_by_whether_they_admitted_a_workload(batch_seconds: float, want_changes: int) -> None:
    bench = Bench(cluster_queue("q", cpu=1), config=Config(requeue_batch_seconds=batch_seconds))
    bench.rest()
    attempts = bench.engine.figures.attempts
    assert (attempts.success, attempts.inadmissible) == (0, 0), "there was no head"

    bench.submit(workload("runs", queue="q", cpu=1))
    assert (attempts.success, attempts.inadmissible) == (1, 0)

    bench.submit(workload("waits", queue="q", cpu=2))
    assert (attempts.success, attempts.inadmissible) == (1, 1)

    for cpu in (1.1, 1.2, 1.3):
        bench.apply(cluster_queue("q", cpu=cpu))
    bench.rest()
    assert (attempts.success, attempts.inadmissible) == (1, 1 + want_changes)

    bench.finish("runs")
    bench.apply(cluster_queue("q", cpu=2))
    bench.rest()
    assert attempts.success == 2
