"""What the configuration means to the engine."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import structs

from fairway.admission import config as engine
from fairway.apis.kueue.configuration import (
    AdmissionFairSharingPolicy,
    Configuration,
    FairSharingPolicy,
    PreemptionStrategy,
    ResourceTransformation,
    WaitForPodsReady,
)
from fairway.apis.machinery.quantities import Quantity
from fairway.controllers.admission.controller import engine_config
from fairway.testing.builders import cluster_queue, flavor, local_queue, workload

from .plays import play

BATCH = 0.5


@pytest.mark.parametrize(
    ("configuration", "want"),
    [
        pytest.param(Configuration(), engine.Config(requeue_batch_seconds=BATCH), id="nothing is said"),
        pytest.param(
            Configuration(wait_for_pods_ready=None), engine.Config(requeue_batch_seconds=BATCH), id="pods may take long"
        ),
        pytest.param(
            Configuration(fair_sharing=FairSharingPolicy(strategies=(PreemptionStrategy.INITIAL_SHARE,))),
            engine.Config(
                requeue_batch_seconds=BATCH,
                fair_sharing=FairSharingPolicy(strategies=(PreemptionStrategy.INITIAL_SHARE,)),
            ),
            id="fair sharing",
        ),
        pytest.param(
            Configuration(
                admission_fair_sharing=AdmissionFairSharingPolicy(
                    half_life_seconds=60.0, sampling_seconds=5.0, resource_weights={"cpu": 2.0}
                )
            ),
            engine.Config(
                requeue_batch_seconds=BATCH,
                admission_fair_sharing=AdmissionFairSharingPolicy(
                    half_life_seconds=60.0, sampling_seconds=5.0, resource_weights={"cpu": 2.0}
                ),
            ),
            id="fair sharing by recent usage",
        ),
        pytest.param(
            Configuration(
                wait_for_pods_ready=WaitForPodsReady(
                    block_admission=True,
                    requeue_timestamp="Creation",
                    backoff_limit=3,
                    backoff_base_seconds=5.0,
                    backoff_max_seconds=50.0,
                )
            ),
            engine.Config(
                requeue_batch_seconds=BATCH,
                pods_ready=engine.PodsReady(
                    block_admission=True,
                    requeue_timestamp=engine.RequeueTimestamp.CREATION,
                    backoff_limit=3,
                    backoff_base_seconds=5.0,
                    backoff_max_seconds=50.0,
                ),
            ),
            id="one after the other",
        ),
        pytest.param(
            Configuration(
                excluded_resource_prefixes=("example.com/",),
                ignore_undeclared_resources=True,
                transformations=(
                    ResourceTransformation(
                        input="nvidia.com/mig", strategy="Replace", outputs={"credits": Quantity.parse("5")}
                    ),
                    ResourceTransformation(input="cpu", multiply_by="pods"),
                ),
            ),
            engine.Config(
                requeue_batch_seconds=BATCH,
                resources=engine.Resources(
                    excluded_prefixes=("example.com/",),
                    ignore_undeclared=True,
                    transformations={
                        "nvidia.com/mig": engine.Transformation(outputs={"credits": Quantity.parse("5")}, replace=True),
                        "cpu": engine.Transformation(outputs={}, multiply_by="pods"),
                    },
                ),
            ),
            id="resources counted otherwise",
        ),
    ],
)
def test_every_setting_that_decides_something_reaches_the_engine(
    configuration: Configuration, want: engine.Config
) -> None:
    want = structs.replace(want, keep_first_submit_time=True)  # whatever is configured: only managed jobs say a time
    assert engine_config(configuration, requeue_batch_seconds=BATCH) == want


def test_another_configuration_is_in_force_at_once_and_what_holds_quota_keeps_it() -> None:
    async def scenario() -> None:
        queues = (flavor(), cluster_queue("cq", cpu=4), local_queue("lq", "cq"))
        async with play(*queues) as on_stage:
            await on_stage.submit(workload("holder", queue="lq", cpu=3))
            await on_stage.submit(workload("odd", queue="lq", cpu=1, memory="1Gi"), workload("big", queue="lq", cpu=4))
            await on_stage.pass_time(1.0)
            before = on_stage.queueing.engine
            attempts = before.figures.attempts.success

            on_stage.configuration.set(Configuration(excluded_resource_prefixes=("memory",)))
            await on_stage.pass_time(1.0)

            assert on_stage.queueing.engine is not before
            assert on_stage.queueing.figures.attempts.success == attempts + 1, "the count goes on"
            assert on_stage.states() == {"big": "pending", "holder": "admitted", "odd": "admitted"}

    asyncio.run(scenario())


def test_a_configuration_that_changes_nothing_for_the_engine_leaves_it_alone() -> None:
    async def scenario() -> None:
        async with play() as on_stage:
            before = on_stage.queueing.engine
            on_stage.configuration.set(Configuration(manage_jobs_without_queue_name=True))
            await on_stage.rest()

            assert on_stage.queueing.engine is before

    asyncio.run(scenario())


def test_a_configuration_that_changes_in_the_midst_of_writes_loses_no_decision_and_makes_none_twice() -> None:
    async def scenario() -> None:
        queues = (flavor(), cluster_queue("cq", cpu=10), local_queue("lq", "cq"))
        async with play(*queues) as on_stage:
            creates = [
                on_stage.api.create("workloads", made)
                for made in (
                    {
                        "metadata": {"name": f"w{number}", "namespace": "default"},
                        "spec": {
                            "queueName": "lq",
                            "podSets": [
                                {
                                    "name": "main",
                                    "count": 1,
                                    "template": {
                                        "spec": {
                                            "containers": [
                                                {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
                                            ]
                                        }
                                    },
                                }
                            ],
                        },
                    }
                    for number in range(20)
                )
            ]
            waiting = asyncio.gather(*creates)
            for turn in range(6):
                on_stage.configuration.set(Configuration(excluded_resource_prefixes=(f"example.com/{turn}",)))
                await asyncio.sleep(0)
            await waiting
            await on_stage.pass_time(1.0)

            assert sorted(on_stage.states().values()) == ["admitted"] * 10 + ["pending"] * 10

    asyncio.run(scenario())
