"""The guide for SkyPilot with Kueue: endless quota, and a check that admits only what there is room for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from controllers import timeline
from controllers.manifests import released
from controllers.scheduler.things import node, pod
from fairway.apis.kueue.configuration import Configuration
from fairway.apis.machinery.kind import Manifest
from fairway.client.recorder import Recorder
from fairway.controllers.admission import QueueingController
from fairway.controllers.kit.configuration import FixedConfiguration
from fairway.controllers.provisioning import CheckCapacity, ProvisioningController
from fairway.controllers.scheduler import Scheduler
from fairway.integrations.conditions import find, is_true
from fairway.integrations.injection import infos_of
from fairway.store.verbs import WriteOptions
from fairway.testing.clusters import LocalCluster, local_cluster

from .things import check_of, pod_set, workload

OLD_VERSION = "v1beta1"
NOT_FOUND = "Capacity is not found, CA will try to find it later."
RESOURCES = ["cpu", "memory", "nvidia.com/gpu"]


def guide() -> list[tuple[str, Manifest]]:
    """What the guide says to apply, in the version in which it says so."""
    quotas = [{"name": name, "nominalQuota": "1000000000"} for name in RESOURCES]
    reference = {
        "apiGroup": "kueue.x-k8s.io",
        "kind": "ProvisioningRequestConfig",
        "name": "skypilot-kueue-config",
    }
    return [
        ("resourceflavors", {"metadata": {"name": "default-flavor"}}),
        (
            "admissionchecks",
            {
                "metadata": {"name": "skypilot-kueue-prov"},
                "spec": {"controllerName": "kueue.x-k8s.io/provisioning-request", "parameters": reference},
            },
        ),
        (
            "provisioningrequestconfigs",
            {
                "metadata": {"name": "skypilot-kueue-config"},
                "spec": {
                    "provisioningClassName": "check-capacity.autoscaling.x-k8s.io",
                    "managedResources": ["nvidia.com/gpu", "cpu", "memory"],
                },
            },
        ),
        (
            "clusterqueues",
            {
                "metadata": {"name": "skypilot-cluster-queue"},
                "spec": {
                    "namespaceSelector": {},
                    "resourceGroups": [
                        {
                            "coveredResources": RESOURCES,
                            "flavors": [{"name": "default-flavor", "resources": quotas}],
                        }
                    ],
                    "admissionChecks": ["skypilot-kueue-prov"],
                },
            },
        ),
        (
            "localqueues",
            {
                "metadata": {"name": "queue", "namespace": "default"},
                "spec": {"clusterQueue": "skypilot-cluster-queue"},
            },
        ),
    ]


@asynccontextmanager
async def set_up(*nodes: Manifest, **config: Any) -> AsyncIterator[LocalCluster]:
    """All of the guide, on these nodes, and perhaps more in the configuration of the check."""
    async with local_cluster() as local:
        cluster = local.cluster
        recorder = Recorder(cluster, "kueue-admission")
        async with local.running(
            QueueingController(cluster, FixedConfiguration(Configuration()), recorder),
            ProvisioningController(cluster, recorder),
            CheckCapacity(cluster, recorder),
            Scheduler(cluster, recorder),
        ):
            await timeline.create(local, nodes=list(nodes))
            for name, manifest in guide():
                if name == "provisioningrequestconfigs":
                    manifest["spec"] |= config
                kind = local.api.kind(name)
                place = "default" if kind.namespaced else ""
                manifest |= {"apiVersion": kind.api_version(OLD_VERSION), "kind": kind.kind}
                await local.api.objects.create(kind, OLD_VERSION, place, manifest, WriteOptions())
            await timeline.pass_time(local, 1)
            yield local


async def submit(local: LocalCluster, name: str, requests: dict[str, str], count: int = 1) -> None:
    pods = pod_set(count=count)
    pods["template"]["spec"]["containers"][0]["resources"] = {"requests": requests, "limits": requests}
    await timeline.create(local, workloads=workload(name, pods))
    await timeline.pass_time(local, 1)


def stage(local: LocalCluster, name: str) -> tuple[bool, bool]:
    """Whether a workload has quota, and whether it is admitted."""
    found = local.api.get("workloads", name)
    assert found is not None
    return is_true(found, "QuotaReserved"), is_true(found, "Admitted")


async def start(local: LocalCluster, name: str, requests: dict[str, str]) -> None:
    """A pod of an admitted workload, as its job makes it."""
    found = local.api.get("workloads", name)
    assert found is not None
    made = pod(f"{name}-pod", requests)
    made["metadata"]["annotations"] = infos_of(found, lambda flavor: local.api.get("resourceflavors", flavor))[
        0
    ].annotations
    await timeline.create(local, pods=made)


def test_a_job_is_admitted_only_when_there_is_room_for_it() -> None:
    async def story() -> None:
        async with set_up(node()) as local:
            await submit(local, "first", {"cpu": "3"})
            assert stage(local, "first") == (True, True)
            assert check_of(local, "first")["state"] == "Ready"

            await submit(local, "second", {"cpu": "2"})
            assert stage(local, "second") == (True, False)
            assert check_of(local, "second")["message"] == NOT_FOUND

            await start(local, "first", {"cpu": "3"})
            await timeline.pass_time(local, 1)
            assert stage(local, "second") == (True, False)

            await local.api.patch("pods", "first-pod", {"status": {"phase": "Succeeded"}}, subresource="status")
            await timeline.pass_time(local, 1)
            assert stage(local, "second") == (True, True)

    asyncio.run(story())


def test_a_gang_is_admitted_whole_or_not_at_all() -> None:
    async def story() -> None:
        async with set_up(node(allocatable={"nvidia.com/gpu": "4"})) as local:
            await submit(local, "gang", {"nvidia.com/gpu": "1"}, count=5)
            assert stage(local, "gang") == (True, False)
            assert check_of(local, "gang")["message"] == NOT_FOUND

            await timeline.create(local, nodes=node("n2", allocatable={"nvidia.com/gpu": "1"}))
            await timeline.pass_time(local, 1)
            assert stage(local, "gang") == (True, True)

    asyncio.run(story())


async def stop(local: LocalCluster, name: str) -> None:
    """What the controller of an evicted job does once it has stopped: give the quota back."""
    found = local.api.get("workloads", name)
    assert found is not None
    assert is_true(found, "Evicted")
    patch = released(found, local.clock.now())
    await local.api.patch("workloads", name, patch, subresource="status")
    await timeline.catch_up(local)


def test_a_job_that_must_not_wait_with_quota_comes_back_after_its_back_off() -> None:
    """With `noRetry` a check fails at once; others can have the quota while the job waits for its next attempt."""

    async def story() -> None:
        retry = {"backoffLimitCount": 1, "backoffBaseSeconds": 60, "backoffMaxSeconds": 600}
        async with set_up(node(), parameters={"noRetry": "true"}, retryStrategy=retry) as local:
            await timeline.create(local, pods=pod("busy", {"cpu": "4"}))
            await submit(local, "w", {"cpu": "2"})
            evicted = find(local.api.get("workloads", "w") or {}, "Evicted") or {}
            assert (evicted["status"], evicted["reason"]) == ("True", "AdmissionCheck")
            assert "Retrying after failure: CA could not find requested capacity" in evicted["message"]
            assert local.api.names("provisioningrequests") == set()

            await stop(local, "w")
            await timeline.pass_time(local, 50, step=5)
            assert stage(local, "w") == (False, False)
            await local.api.patch("pods", "busy", {"status": {"phase": "Failed"}}, subresource="status")
            await timeline.pass_time(local, 20, step=1)
            assert local.api.names("provisioningrequests") == {"w-skypilot-kueue-prov-2"}
            assert stage(local, "w") == (True, True)

    asyncio.run(story())


def test_a_job_that_never_fits_is_given_up_in_the_end() -> None:
    async def story() -> None:
        retry = {"backoffLimitCount": 1, "backoffBaseSeconds": 1, "backoffMaxSeconds": 1}
        async with set_up(node(), parameters={"noRetry": "true"}, retryStrategy=retry) as local:
            await submit(local, "w", {"cpu": "9"})
            await stop(local, "w")
            await timeline.pass_time(local, 5, step=0.5)

            found = local.api.get("workloads", "w")
            assert found is not None
            assert found["spec"]["active"] is False

    asyncio.run(story())
