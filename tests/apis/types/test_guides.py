"""The manifests of the guides that our users follow: SkyPilot's on Kueue, and Ray's on priorities with Kueue."""

from typing import Any

import pytest

from fairway.apis.kueue.manifests import encode, load
from fairway.apis.kueue.objects import ClusterQueue, LocalQueue, WorkloadPriorityClass
from fairway.apis.machinery.quantities import Quantity, format_amount

from .samples import V1BETA1, Manifest, manifest


def old(kind: str, name: str, /, **parts: Any) -> Manifest:
    return manifest(kind, name, version=V1BETA1, **parts)


def guide_queue(name: str, flavor: str, quotas: dict[str, Any], **spec: Any) -> Manifest:
    resources = [{"name": resource, "nominalQuota": nominal} for resource, nominal in quotas.items()]
    group = {"coveredResources": list(quotas), "flavors": [{"name": flavor, "resources": resources}]}
    return old("ClusterQueue", name, spec={"namespaceSelector": {}, "resourceGroups": [group]} | spec)


PREEMPTION = {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"}

SKYPILOT = [
    old("ResourceFlavor", "default-flavor"),
    old(
        "AdmissionCheck",
        "skypilot-kueue-prov",
        spec={
            "controllerName": "kueue.x-k8s.io/provisioning-request",
            "parameters": {
                "apiGroup": "kueue.x-k8s.io",
                "kind": "ProvisioningRequestConfig",
                "name": "skypilot-kueue-config",
            },
        },
    ),
    old(
        "ProvisioningRequestConfig",
        "skypilot-kueue-config",
        spec={
            "provisioningClassName": "check-capacity.autoscaling.x-k8s.io",
            "managedResources": ["nvidia.com/gpu", "cpu", "memory"],
        },
    ),
    guide_queue(
        "skypilot-cluster-queue",
        "default-flavor",
        {"cpu": 1000000000, "memory": "1000000000Gi", "nvidia.com/gpu": 1000000000},
        admissionChecks=["skypilot-kueue-prov"],
    ),
    old("LocalQueue", "skypilot-local-queue", namespace="skypilot", spec={"clusterQueue": "skypilot-cluster-queue"}),
]

RAY = [
    old("ResourceFlavor", "default-flavor"),
    guide_queue(
        "cluster-queue", "default-flavor", {"cpu": 2, "memory": "8G", "nvidia.com/gpu": 1}, preemption=PREEMPTION
    ),
    old("LocalQueue", "user-queue", namespace="default", spec={"clusterQueue": "cluster-queue"}),
    old("WorkloadPriorityClass", "prod-priority", value=1000, description="Priority class for prod jobs"),
    old("WorkloadPriorityClass", "dev-priority", value=100, description="Priority class for development jobs"),
    guide_queue(
        "cluster-queue", "default-flavor", {"cpu": 100, "memory": "100Gi", "nvidia.com/gpu": 10}, preemption=PREEMPTION
    ),
]


@pytest.mark.parametrize(
    "guide", [pytest.param(one, id=f"{one['kind']} {one['metadata']['name']}") for one in SKYPILOT + RAY]
)
def test_the_manifests_of_the_guides_load_and_survive_both_versions(guide: Manifest) -> None:
    loaded = load(guide)

    assert load(encode(loaded, "v1beta1")) == loaded
    assert load(encode(loaded, "v1beta2")) == loaded


def test_the_guides_mean_what_they_say() -> None:
    queue = load(SKYPILOT[3])
    assert isinstance(queue, ClusterQueue)
    assert queue.spec.admission_checks_strategy is not None
    assert [check.name for check in queue.spec.admission_checks_strategy.admission_checks] == ["skypilot-kueue-prov"]
    assert str(queue.spec.resource_groups[0].flavors[0].resources[1].nominal_quota) == "1000000000Gi"
    assert queue.spec.namespace_selector is not None
    assert queue.spec.namespace_selector.matches({"any": "namespace"})

    local = load(RAY[2])
    assert isinstance(local, LocalQueue)
    assert (local.key, local.spec.cluster_queue) == ("default/user-queue", "cluster-queue")

    priority = load(RAY[3])
    assert isinstance(priority, WorkloadPriorityClass)
    assert priority.value == 1000


def test_usage_is_shown_as_in_the_guide() -> None:
    """The guide shows two jobs of 10 GB each as 19531250Ki in the status of the queue."""
    assert format_amount("memory", 2 * Quantity.parse("10G").value()) == "19531250Ki"
