"""How things are right now: asked of the decider at every scrape."""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fairway.admission import wording
from fairway.admission.figures import CohortFigures, FlavorAmounts
from fairway.admission.port import QueueFigures
from fairway.apis.kueue.configuration import Configuration
from fairway.apis.machinery.quantities import UNLIMITED
from fairway.controllers.metrics.series import Labels


class Sample(NamedTuple):
    """The value of one series."""

    name: str
    labels: Labels
    value: float


def of_cluster_queue(figures: QueueFigures, name: str, configuration: Configuration) -> Iterator[Sample]:
    found = figures.cluster_queue(name)
    if found is None:
        return
    yield Sample("pending_workloads", (name, "active"), found.queued)
    yield Sample("pending_workloads", (name, "inadmissible"), found.set_aside)
    yield Sample("reserving_active_workloads", (name,), found.holdings.reserving)
    yield Sample("admitted_active_workloads", (name,), found.holdings.admitted)
    if found.activity.terminating:
        now = "terminating"
    else:
        now = "active" if wording.readiness(found.activity).active else "pending"
    for status in ("pending", "active", "terminating"):
        yield Sample("cluster_queue_status", (name, status), status == now)
    parent = found.cohorts[0] if found.cohorts else ""
    root = found.cohorts[-1] if found.cohorts else ""
    yield Sample("cluster_queue_info", (name, parent, root), 1)
    if configuration.queue_resource_metrics:
        yield from _resources(figures, name, parent)
        for kind, amounts in (("reservation", found.holdings.reservation), ("usage", found.holdings.usage)):
            yield from _amounts(f"cluster_queue_resource_{kind}", (parent, name), amounts)
        if configuration.fair_sharing is not None:
            share = math.nan if found.share.boundless else found.share.value
            yield Sample("cluster_queue_weighted_share", (name, parent), share)


def _resources(figures: QueueFigures, name: str, parent: str) -> Iterator[Sample]:
    for fr, quota in figures.quotas(name).items():
        labels = (parent, name, fr.flavor, fr.resource)
        yield Sample("cluster_queue_nominal_quota", labels, _units(fr.resource, quota.nominal))
        yield Sample("cluster_queue_borrowing_limit", labels, _units(fr.resource, quota.borrowing_limit))
        yield Sample("cluster_queue_lending_limit", labels, _units(fr.resource, quota.lending_limit))
    for resource, amount in figures.demanded(name).items():
        yield Sample("cluster_queue_resource_pending", (name, resource), _units(resource, amount))


def of_local_queue(
    figures: QueueFigures, place: Labels, cluster_queue: str, waiting: tuple[int, int], active: str
) -> Iterator[Sample]:
    """`place` is its name and namespace, `waiting` who may be tried and who not, `active` what its condition says."""
    name, namespace = place
    key = f"{namespace}/{name}"
    found = figures.local_queue(key)
    if found is None:
        return
    for status, count in zip(("active", "inadmissible"), waiting, strict=True):
        yield Sample("local_queue_pending_workloads", (*place, status), count)
    yield Sample("local_queue_reserving_active_workloads", place, found.holdings.reserving)
    yield Sample("local_queue_admitted_active_workloads", place, found.holdings.admitted)
    for status in ("True", "False", "Unknown"):
        yield Sample("local_queue_status", (*place, status), status == active)
    for kind, amounts in (("reservation", found.holdings.reservation), ("usage", found.holdings.usage)):
        yield from _amounts(f"local_queue_resource_{kind}", place, amounts)
    usage = figures.recent_usage(key)
    if usage is not None:
        yield Sample("local_queue_admission_fair_sharing_usage", (*place, cluster_queue), usage)


def of_cohort(cohort: CohortFigures, configuration: Configuration) -> Iterator[Sample]:
    name = cohort.name
    yield Sample("cohort_info", (name, cohort.parent, cohort.root), 1)
    yield Sample("cohort_subtree_admitted_active_workloads", (name,), cohort.admitted)
    for metric, amounts in (
        ("cohort_subtree_quota", cohort.quota),
        ("cohort_subtree_resource_reservations", cohort.reservation),
    ):
        for fr, amount in amounts.items():
            if amount > 0:
                yield Sample(metric, (name, fr.flavor, fr.resource), _units(fr.resource, amount))
    if configuration.fair_sharing is not None:
        yield Sample("cohort_weighted_share", (name,), math.nan if cohort.share.boundless else cohort.share.value)


def _amounts(name: str, labels: Labels, flavors: Iterable[FlavorAmounts]) -> Iterator[Sample]:
    for flavor in flavors:
        for amount in flavor.amounts:
            value = _units(amount.resource, amount.total)
            yield Sample(name, (*labels, flavor.flavor, amount.resource), value)


def _units(resource: str, amount: int | None) -> float:
    """Cores, bytes, devices; what has no limit is infinite."""
    if amount is None or amount >= UNLIMITED:
        return math.inf
    return amount / 1000 if resource == "cpu" else float(amount)
