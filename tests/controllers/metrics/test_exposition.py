"""What `/metrics` says of queues: in Prometheus' own format, read back with Prometheus' own parser."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from controllers import timeline
from controllers.deciding import FollowingEngine
from controllers.manifests import admission, cluster_queue, condition, flavor, local_queue, workload
from fairway.admission.config import Config
from fairway.apis.kueue.configuration import Configuration, FairSharingPolicy
from fairway.apis.kueue.configuration_file import read
from fairway.controllers.kit.configuration import FixedConfiguration
from fairway.controllers.metrics import QueueMetrics
from fairway.controllers.metrics.series import COUNTERS, GAUGES, HISTOGRAMS
from fairway.server.metrics import Metrics
from fairway.testing.clusters import LocalCluster, local_cluster

NOW = "2026-01-01T00:00:00Z"


class World(NamedTuple):
    local: LocalCluster
    metrics: Metrics
    configuration: FixedConfiguration

    def value(self, metric: str, /, **labels: str) -> float | None:
        """One sample of the exposition."""
        wanted = {**labels, "replica_role": "standalone"}
        for family in text_string_to_metric_families(self.metrics.exposition().decode()):
            for sample in family.samples:
                if sample.name == metric and sample.labels == wanted:
                    return float(sample.value)
        return None

    async def change(self, name: str, *conditions: object, **status: object) -> None:
        patch = {"status": {"conditions": list(conditions), **status}}
        await self.local.api.patch("workloads", name, patch, subresource="status")
        await timeline.catch_up(self.local)


@asynccontextmanager
async def measured(configuration: Configuration | None = None, config: Config | None = None) -> AsyncIterator[World]:
    async with local_cluster(keepers=False) as local:
        engine = FollowingEngine(local.cluster, config)
        fixed = FixedConfiguration(configuration)
        metrics = Metrics(local.api.store)
        metrics.add(QueueMetrics(local.cluster, engine, fixed))
        async with local.running(engine):
            yield World(local, metrics, fixed)


def test_the_life_of_a_workload_in_numbers() -> None:
    async def story() -> None:
        async with measured() as world:
            await timeline.create(
                world.local,
                resourceflavors=flavor(),
                clusterqueues=cluster_queue(cohortName="all"),
                localqueues=local_queue(),
                workloads=[workload("runs", pods=3), workload("waits", pods=3)],
            )
            here = {"cluster_queue": "cluster-queue"}
            locally = {"name": "user-queue", "namespace": "default"}
            assert world.value("kueue_pending_workloads", **here, status="inadmissible") == 1
            assert world.value("kueue_pending_workloads", **here, status="active") == 0
            assert world.value("kueue_local_queue_pending_workloads", **locally, status="inadmissible") == 1
            assert world.value("kueue_reserving_active_workloads", **here) == 1
            assert world.value("kueue_admitted_active_workloads", **here) == 1
            assert world.value("kueue_cluster_queue_status", **here, status="active") == 1
            assert world.value("kueue_cluster_queue_status", **here, status="pending") == 0
            assert world.value("kueue_cluster_queue_info", **here, parent_cohort="all", root_cohort="all") == 1
            assert world.value("kueue_cohort_subtree_quota", cohort="all", flavor="default-flavor", resource="cpu") == 4
            assert world.value("kueue_cohort_subtree_admitted_active_workloads", cohort="all") == 1
            reserved = world.value(
                "kueue_local_queue_resource_reservation", **locally, flavor="default-flavor", resource="cpu"
            )
            assert reserved == 3
            assert world.value("kueue_admission_attempts_total", result="success") == 1
            assert world.value("kueue_admission_attempts_total", result="inadmissible") == 1

            quota = condition("QuotaReserved", "True", "QuotaReserved", NOW)
            admitted = condition("Admitted", "True", "Admitted", NOW)
            await world.change("runs", quota, admitted, admission=admission(cpu="3", count=3))
            assert world.value("kueue_admitted_workloads_total", **here, priority_class="") == 1
            assert world.value("kueue_cohort_subtree_admitted_workloads_total", cohort="all", priority_class="") == 1
            assert world.value("kueue_admission_wait_time_seconds_bucket", **here, priority_class="", le="1.0") == 1
            assert world.value("kueue_finished_workloads", **here) is None

            finished = condition("Finished", "True", "Succeeded", NOW)
            await world.change("runs", quota, admitted, finished)
            assert world.value("kueue_finished_workloads_total", **here, priority_class="") == 1
            assert world.value("kueue_finished_workloads", **here) == 1
            await world.change("waits", finished)  # it has no admission: the queue is that of its LocalQueue
            assert world.value("kueue_finished_workloads_total", **here, priority_class="") == 2
            await world.local.api.delete("workloads", "runs")
            await world.local.api.delete("workloads", "waits")
            await timeline.catch_up(world.local)
            assert world.value("kueue_finished_workloads", **here) == 0
            assert world.value("kueue_finished_workloads_total", **here, priority_class="") == 2

            await world.local.api.delete("clusterqueues", "cluster-queue")
            await timeline.catch_up(world.local)
            assert world.value("kueue_admitted_workloads_total", **here, priority_class="") is None
            assert world.value("kueue_local_queue_admitted_workloads_total", **locally, priority_class="") == 1

    asyncio.run(story())


def test_what_was_there_before_is_not_counted_again() -> None:
    async def story() -> None:
        async with local_cluster(keepers=False) as local:
            await local.api.create("workloads", workload())
            conditions = [
                condition("QuotaReserved", "True", "QuotaReserved", NOW),
                condition("Finished", "True", "Succeeded", NOW),
            ]
            status = {"conditions": conditions, "admission": admission()}
            await local.api.patch("workloads", "w", {"status": status}, subresource="status")
            metrics = Metrics(local.api.store)
            engine = FollowingEngine(local.cluster)
            metrics.add(QueueMetrics(local.cluster, engine, FixedConfiguration()))
            async with local.running(engine):
                await timeline.catch_up(local)
                world = World(local, metrics, FixedConfiguration())
                here = {"cluster_queue": "cluster-queue"}
                assert world.value("kueue_finished_workloads", **here) == 1
                assert world.value("kueue_finished_workloads_total", **here, priority_class="") is None
                assert world.value("kueue_quota_reserved_workloads_total", **here, priority_class="") is None

    asyncio.run(story())


def test_resources_of_queues_are_told_if_that_is_configured() -> None:
    async def story() -> None:
        on = Configuration(queue_resource_metrics=True, fair_sharing=FairSharingPolicy())
        async with measured(on, Config(fair_sharing=FairSharingPolicy())) as world:
            await timeline.create(
                world.local,
                resourceflavors=flavor(),
                clusterqueues=[cluster_queue(cohortName="all"), cluster_queue("lender", cohortName="all")],
                localqueues=local_queue(),
                workloads=[workload(pods=6), workload("waits", pods=5)],
            )
            labels = {"cohort": "all", "cluster_queue": "cluster-queue", "flavor": "default-flavor", "resource": "cpu"}
            prefix = "kueue_cluster_queue_"
            assert world.value(f"{prefix}nominal_quota", **labels) == 4
            assert world.value(f"{prefix}borrowing_limit", **labels) == float("inf")
            assert world.value(f"{prefix}lending_limit", **labels) == float("inf")
            assert world.value(f"{prefix}resource_reservation", **labels) == 6
            assert world.value(f"{prefix}resource_usage", **labels) == 6
            assert world.value(f"{prefix}resource_pending", cluster_queue="cluster-queue", resource="cpu") == 5
            assert world.value(f"{prefix}weighted_share", cluster_queue="cluster-queue", cohort="all") == 250
            world.configuration.set(Configuration())
            assert world.value(f"{prefix}nominal_quota", **labels) is None

    asyncio.run(story())


def test_every_family_has_its_words_and_no_two_one_name() -> None:
    assert not COUNTERS.keys() & HISTOGRAMS.keys()
    assert not GAUGES.keys() & HISTOGRAMS.keys()
    for families in (COUNTERS, HISTOGRAMS, GAUGES):
        assert all(family.help.endswith(".") and family.labels for family in families.values())


def _cohort(name: str, parent: str = "", **quota: str) -> dict[str, object]:
    resources = [{"name": resource, "nominalQuota": amount} for resource, amount in quota.items()]
    groups = [{"coveredResources": [*quota], "flavors": [{"name": "default-flavor", "resources": resources}]}]
    spec = {**({"parentName": parent} if parent else {}), **({"resourceGroups": groups} if quota else {})}
    return {"metadata": {"name": name}, "spec": spec}


def test_cohorts_without_queues_have_series_and_those_that_are_gone_have_none() -> None:
    async def story() -> None:
        async with measured() as world:
            await timeline.create(world.local, cohorts=_cohort("child", "implied", cpu="5"))
            quota = {"flavor": "default-flavor", "resource": "cpu"}
            assert world.value("kueue_cohort_subtree_quota", cohort="child", **quota) == 5
            assert world.value("kueue_cohort_subtree_quota", cohort="implied", **quota) == 5
            child = {"cohort": "child", "parent_cohort": "implied", "root_cohort": "implied"}
            assert world.value("kueue_cohort_info", **child) == 1

            await world.local.api.patch("cohorts", "child", {"spec": {"parentName": "other"}})
            await timeline.catch_up(world.local)
            assert world.value("kueue_cohort_subtree_quota", cohort="implied", **quota) is None
            assert world.value("kueue_cohort_subtree_quota", cohort="other", **quota) == 5
            assert world.value("kueue_cohort_info", **child) is None

    asyncio.run(story())


def test_admissions_below_a_cohort_are_forgotten_when_nothing_names_it_any_more() -> None:
    async def story() -> None:
        async with measured() as world:
            await timeline.create(
                world.local,
                resourceflavors=flavor(),
                cohorts=_cohort("kept"),
                clusterqueues=[cluster_queue(cohortName="kept"), cluster_queue("other", cohortName="implied")],
                localqueues=[local_queue(), local_queue("other-queue", "other")],
                workloads=[workload("w"), workload("v", queue="other-queue")],
            )
            quota = condition("QuotaReserved", "True", "QuotaReserved", NOW)
            admitted = condition("Admitted", "True", "Admitted", NOW)
            await world.change("w", quota, admitted, admission=admission(cpu="1", count=1))
            await world.change("v", quota, admitted, admission={**admission(cpu="1", count=1), "clusterQueue": "other"})
            total = "kueue_cohort_subtree_admitted_workloads_total"
            assert world.value(total, cohort="kept", priority_class="") == 1
            assert world.value(total, cohort="implied", priority_class="") == 1

            for kind, name in (("workloads", "w"), ("workloads", "v")):
                await world.local.api.delete(kind, name)
            for name in ("cluster-queue", "other"):
                await world.local.api.delete("clusterqueues", name)
            await timeline.catch_up(world.local)
            assert world.value(total, cohort="kept", priority_class="") == 1
            assert world.value(total, cohort="implied", priority_class="") is None

            await world.local.api.delete("cohorts", "kept")
            await timeline.catch_up(world.local)
            assert world.value(total, cohort="kept", priority_class="") is None

    asyncio.run(story())


def test_the_series_of_a_cohort_end_with_its_object_until_something_names_it_anew() -> None:
    async def story() -> None:
        async with measured() as world:
            await timeline.create(
                world.local,
                resourceflavors=flavor(),
                cohorts=_cohort("team"),
                clusterqueues=cluster_queue(cohortName="team"),
            )
            quota = {"cohort": "team", "flavor": "default-flavor", "resource": "cpu"}
            assert world.value("kueue_cohort_subtree_quota", **quota) == 4
            await world.local.api.delete("cohorts", "team")
            await timeline.catch_up(world.local)
            assert world.value("kueue_cohort_subtree_quota", **quota) is None
            await timeline.create(world.local, clusterqueues=cluster_queue("other", cohortName="team"))
            assert world.value("kueue_cohort_subtree_quota", **quota) == 8

    asyncio.run(story())


@pytest.mark.parametrize(
    ("written", "labels", "want"),
    [
        pytest.param("", {}, 1, id="all by default"),
        pytest.param("{enable: false}", {"team": "a"}, None, id="none"),
        pytest.param("{enable: true}", {}, 1, id="all"),
        pytest.param("{enable: true, localQueueSelector: {matchLabels: {team: a}}}", {"team": "a"}, 1, id="selected"),
        pytest.param("{enable: true, localQueueSelector: {matchLabels: {team: a}}}", {}, None, id="not selected"),
    ],
)
def test_local_queues_have_metrics_where_the_configuration_selects_them(
    written: str, labels: dict[str, str], want: float | None
) -> None:
    async def story() -> None:
        text = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
        text += f"metrics: {{localQueueMetrics: {written}}}\n" if written else ""
        async with measured(read(text)) as world:
            queue = local_queue()
            queue["metadata"]["labels"] = labels
            await timeline.create(
                world.local,
                resourceflavors=flavor(),
                clusterqueues=cluster_queue(),
                localqueues=queue,
                workloads=workload("w"),
            )
            place = {"name": "user-queue", "namespace": "default"}
            assert world.value("kueue_local_queue_admitted_active_workloads", **place) == want
            quota = condition("QuotaReserved", "True", "QuotaReserved", NOW)
            await world.change("w", quota, admission=admission(cpu="1", count=1))
            counted = world.value("kueue_local_queue_quota_reserved_workloads_total", **place, priority_class="")
            assert counted == want

    asyncio.run(story())


def test_a_gate_that_opens_is_timed_once() -> None:
    async def story() -> None:
        async with measured() as world:
            await timeline.create(
                world.local,
                resourceflavors=flavor(),
                clusterqueues=cluster_queue(),
                localqueues=local_queue(),
                workloads=workload("runs"),
            )
            quota = condition("QuotaReserved", "True", "QuotaReserved", NOW)
            admitted = condition("Admitted", "True", "Admitted", NOW)
            await world.change("runs", quota, admitted, admission=admission())
            gates = [{"name": "kueue.x-k8s.io/admission"}, {"name": "kueue.x-k8s.io/topology"}]
            pod = {
                "metadata": {"name": "p", "namespace": "default", "annotations": {"kueue.x-k8s.io/workload": "runs"}},
                "spec": {"containers": [{"name": "c", "image": "x"}], "schedulingGates": gates},
            }
            await timeline.create(world.local, pods=pod)
            await world.local.api.patch("pods", "p", {"spec": {"schedulingGates": None}})
            await timeline.catch_up(world.local)
            labels = {"cluster_queue": "cluster-queue", "is_group": "false"}
            metric = "kueue_pod_scheduling_gate_removal_seconds_count"
            assert world.value(metric, **labels, name="kueue.x-k8s.io/admission") == 1
            assert world.value(metric, **labels, name="kueue.x-k8s.io/topology") is None

    asyncio.run(story())
