"""What the configuration means to the engine."""

from fairway.admission.config import (
    Config,
    PodsReady,
    RequeueTimestamp,
    Resources,
    Transformation,
)
from fairway.apis.kueue.configuration import Configuration

_REPLACE = "Replace"


def engine_config(configuration: Configuration, *, requeue_batch_seconds: float) -> Config:
    """The engine's part of the configuration; equal for configurations that make no difference to it."""
    return Config(
        fair_sharing=configuration.fair_sharing,
        admission_fair_sharing=configuration.admission_fair_sharing,
        pods_ready=_pods_ready(configuration),
        resources=_resources(configuration),
        requeue_batch_seconds=requeue_batch_seconds,
        keep_first_submit_time=True,  # by an annotation of Workloads, which only those have that Fairway made anew
    )


def _pods_ready(configuration: Configuration) -> PodsReady:
    rules = configuration.wait_for_pods_ready
    if rules is None:
        return PodsReady()
    return PodsReady(
        block_admission=rules.block_admission,
        requeue_timestamp=RequeueTimestamp(rules.requeue_timestamp),
        backoff_limit=rules.backoff_limit,
        backoff_base_seconds=rules.backoff_base_seconds,
        backoff_max_seconds=rules.backoff_max_seconds,
    )


def _resources(configuration: Configuration) -> Resources:
    return Resources(
        excluded_prefixes=configuration.excluded_resource_prefixes,
        transformations={
            one.input: Transformation(
                outputs=one.outputs, replace=one.strategy == _REPLACE, multiply_by=one.multiply_by
            )
            for one in configuration.transformations
        },
        ignore_undeclared=configuration.ignore_undeclared_resources,
    )
