"""Admission fair sharing: within a ClusterQueue that asks for it, LocalQueues that used less lately go first."""

import math

import msgspec
import pytest

from fairway.admission import events
from fairway.admission.config import Config
from fairway.admission.usage import UsageLedger
from fairway.apis.kueue.configuration import AdmissionFairSharingPolicy
from fairway.apis.kueue.objects import AdmissionMode, AdmissionScope, ClusterQueue
from fairway.apis.kueue.queues import AdmissionFairSharingStatus, LocalQueueFairSharingStatus, LocalQueueStatus
from fairway.apis.machinery.quantities import Quantity
from fairway.testing.builders import START, Bench, cluster_queue, local_queue, moment, workload

HOUR = 3600.0
SHARING = AdmissionFairSharingPolicy(half_life_seconds=HOUR, sampling_seconds=300.0)


def _by_usage(queue: ClusterQueue) -> ClusterQueue:
    scope = AdmissionScope(admission_mode=AdmissionMode.USAGE_BASED_ADMISSION_FAIR_SHARING)
    return msgspec.structs.replace(queue, spec=msgspec.structs.replace(queue.spec, admission_scope=scope))


def _bench(*, config: Config | None = None, **weights: str) -> Bench:
    queues = [local_queue(name, "cq", weight=weights.get(name)) for name in ("heavy", "light")]
    return Bench(
        _by_usage(cluster_queue("cq", cpu=4, within="LowerPriority")),
        *queues,
        config=config or Config(admission_fair_sharing=SHARING),
        local_queues=False,
    )


def test_the_local_queue_that_used_less_goes_first_whatever_the_order_of_arrival() -> None:
    bench = _bench()
    bench.submit(workload("first", queue="heavy", cpu=4))
    bench.submit(workload("again", queue="heavy", cpu=4), workload("other", queue="light", cpu=4))
    bench.finish("first")
    bench.advance(2)

    assert bench.state("other") == "admitted"
    assert bench.state("again") == "pending"


def test_without_the_configuration_arrival_decides() -> None:
    bench = _bench(config=Config())
    bench.submit(workload("first", queue="heavy", cpu=4))
    bench.submit(workload("again", queue="heavy", cpu=4), workload("other", queue="light", cpu=4))
    bench.finish("first")
    bench.advance(2)

    assert bench.state("again") == "admitted"
    assert bench.state("other") == "pending"


def test_recent_usage_goes_before_priority_in_the_order_of_the_queue() -> None:
    bench = _bench()
    bench.submit(workload("first", queue="heavy", cpu=4, priority=9))
    bench.submit(workload("again", queue="heavy", cpu=4, priority=9), workload("other", queue="light", cpu=4))
    bench.finish("first")
    bench.advance(2)

    assert bench.state("other") == "admitted"


def test_usage_fades_by_half_in_a_half_life() -> None:
    ledger = UsageLedger(SHARING)
    ledger.sample("q", {}, 0.0)
    ledger.penalise("q", "w", {"cpu": 4000})
    ledger.settle("q", "w", {"cpu": 0}, 0.0)
    before = ledger.usage("q", 1.0)
    ledger.sample("q", {}, HOUR)

    assert before == pytest.approx(4 * (1 - 0.5 ** (300 / HOUR)))
    assert ledger.usage("q", 1.0) == pytest.approx(before / 2)


def test_what_is_in_use_approaches_its_full_weight() -> None:
    ledger = UsageLedger(SHARING)
    ledger.sample("q", {"cpu": 4000}, 0.0)
    ledger.sample("q", {"cpu": 4000}, HOUR)

    assert ledger.usage("q", 1.0) == pytest.approx(2.0)
    assert ledger.consumed("q") == {"cpu": pytest.approx(2000.0)}


@pytest.mark.parametrize(
    ("weight", "want_usage"),
    [
        pytest.param(1.0, 3.0, id="a weight of one leaves usage as it is"),
        pytest.param(2.0, 1.5, id="twice the weight halves it"),
        pytest.param(0.0, math.inf, id="no weight goes last"),
    ],
)
def test_usage_is_weighted(weight: float, want_usage: float) -> None:
    sharing = AdmissionFairSharingPolicy(half_life_seconds=HOUR, resource_weights={"cpu": 2.0, "memory": 0.0})
    ledger = UsageLedger(sharing)
    ledger.sample("q", {}, 0.0)
    ledger.sample("q", {"cpu": 3000, "memory": 10**9}, HOUR)

    assert ledger.usage("q", weight) == pytest.approx(want_usage)


def test_a_penalty_counts_at_once_and_is_forgiven_when_the_quota_is_given_back() -> None:
    ledger = UsageLedger(SHARING)
    ledger.penalise("q", "w", {"cpu": 4000})

    assert ledger.usage("q", 1.0) > 0

    ledger.forgive("q", "w")

    assert ledger.usage("q", 1.0) == 0


def test_without_a_half_life_nothing_is_remembered() -> None:
    ledger = UsageLedger(AdmissionFairSharingPolicy(half_life_seconds=0))
    ledger.penalise("q", "w", {"cpu": 4000})
    ledger.sample("q", {"cpu": 4000}, 0.0)
    ledger.sample("q", {"cpu": 4000}, HOUR)

    assert ledger.usage("q", 1.0) == 0


def test_usage_is_sampled_every_interval() -> None:
    bench = _bench()
    bench.submit(workload("runs", queue="heavy", cpu=4))
    bench.advance(HOUR)
    bench.submit(workload("again", queue="heavy", cpu=4), workload("other", queue="light", cpu=4))

    assert [record.name for record in bench.engine.pending("cq")] == ["other", "again"]
    assert bench.engine.next_wakeup is not None
    assert bench.engine.handle(events.TimePassed(at=bench.now + 300.0)) == []


def test_an_engine_begins_with_the_usage_that_the_status_of_a_local_queue_shows() -> None:
    status = LocalQueueStatus(
        fair_sharing=LocalQueueFairSharingStatus(
            weighted_share=0,
            admission_fair_sharing_status=AdmissionFairSharingStatus(
                consumed_resources={"cpu": Quantity.parse("3500m")}, last_update=moment(START - HOUR)
            ),
        )
    )
    heavy = msgspec.structs.replace(local_queue("heavy", "cq"), status=status)
    bench = Bench(
        _by_usage(cluster_queue("cq", cpu=4)),
        heavy,
        local_queue("light", "cq"),
        config=Config(admission_fair_sharing=SHARING),
        local_queues=False,
    )
    assert bench.engine.figures.recent_usage("ns/heavy") == 3.5  # as of now: nobody used or faded it meanwhile

    bench.submit_together(workload("again", queue="heavy", cpu=4), workload("other", queue="light", cpu=4))
    assert bench.admitted() == ["other"]


def test_a_sample_shows_all_resources_of_the_cluster_queue_used_or_not() -> None:
    bench = _bench()
    bench.advance(301)

    figures = bench.engine.figures.local_queue("ns/light")
    assert figures is not None
    assert figures.consumed == {"cpu": 0.0}
