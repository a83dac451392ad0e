"""What a client gets that writes what Kueue refuses: 403 and Kueue's sentence where a webhook does, 422 where the
definition of the kind does, and the field in any case; and the finalizers that objects are created with.
"""

import asyncio
from typing import Any

import pytest

from controllers.manifests import cluster_queue, flavor, workload
from fairway.apis.machinery.admission import AdmissionChain
from fairway.apis.machinery.kind import Manifest
from fairway.controllers.kit.configuration import FixedConfiguration
from fairway.controllers.webhooks.finalizers import FinalizerAdmission
from fairway.controllers.webhooks.queues import QueueAdmission
from fairway.errors import ValidationError
from fairway.server.responses import status_of
from fairway.testing.clusters import LocalCluster, local_cluster

IN_USE = "kueue.x-k8s.io/resource-in-use"


def quota(amount: str, **more: str) -> Manifest:
    made = cluster_queue("mine")
    resources = [{"name": "cpu", "nominalQuota": amount, **more}]
    made["spec"]["resourceGroups"] = [
        {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": resources}]}
    ]
    return made


def job(**labels: str) -> Manifest:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    return {"metadata": {"name": "mine", "namespace": "default", "labels": labels}, "spec": {"template": template}}


def several(*sets: dict[str, Any]) -> Manifest:
    made = workload("mine")
    template = made["spec"]["podSets"][0]["template"]
    made["spec"]["podSets"] = [{"name": f"p{n}", "template": template, **one} for n, one in enumerate(sets)]
    return made


async def refused(world: LocalCluster, kind: str, manifest: Manifest) -> dict[str, Any]:
    with pytest.raises(ValidationError) as raised:
        await world.api.create(kind, manifest, manifest["metadata"].get("namespace", ""))
    return status_of(raised.value, world.api.objects.registry)


@pytest.mark.parametrize(
    ("kind", "manifest", "want", "field"),
    [
        pytest.param(
            "clusterqueues",
            quota("-1"),
            (403, 'admission webhook "vclusterqueue.kb.io" denied the request: spec.resourceGroups[0].flavors[0]'),
            "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota",
            id="a rule of the webhook",
        ),
        pytest.param(
            "clusterqueues",
            quota("1", borrowingLimit="1"),
            (422, 'ClusterQueue.kueue.x-k8s.io "mine" is invalid: '),
            "spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit",
            id="a rule of the definition",
        ),
        pytest.param(
            "clusterqueues",
            quota("-1", borrowingLimit="1"),
            (422, 'ClusterQueue.kueue.x-k8s.io "mine" is invalid: ['),
            "spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit",
            id="the definition is asked first, and all is said at once",
        ),
        pytest.param(
            "workloads",
            several({"minCount": 1, "count": 2}, {"minCount": 1, "count": 2}),
            (403, 'admission webhook "vworkload.kb.io" denied the request: spec.podSets: Invalid value: 2: at most'),
            "spec.podSets",
            id="a Workload",
        ),
        pytest.param(
            "workloads",
            several({"minCount": 3, "count": 2}),
            (422, 'Workload.kueue.x-k8s.io "mine" is invalid: '),
            "spec.podSets[0].minCount",
            id="a Workload that its definition refuses",
        ),
        pytest.param(
            "jobs",
            job(**{"kueue.x-k8s.io/queue-name": "NO NAME"}),
            (422, 'Job.batch "mine" is invalid: '),
            "metadata.labels",
            id="what Kubernetes itself refuses",
        ),
        pytest.param(
            "jobs",
            job(**{"kueue.x-k8s.io/queue-name": "No_Name"}),
            (403, 'admission webhook "vjob.kb.io" denied the request: metadata.labels[kueue.x-k8s.io/queue-name]'),
            "metadata.labels[kueue.x-k8s.io/queue-name]",
            id="a Job",
        ),
    ],
)
def test_a_refusal_says_who_refuses_and_which_field(
    kind: str, manifest: Manifest, want: tuple[int, str], field: str
) -> None:
    async def story() -> None:
        async with local_cluster() as world:
            plugin = QueueAdmission(world.cluster, FixedConfiguration())
            world.api.objects.use_admission(AdmissionChain(plugin, FinalizerAdmission()))
            async with world.running():
                status = await refused(world, kind, manifest)
                assert (status["code"], status["message"][: len(want[1])]) == want
                assert field in [cause["field"] for cause in status["details"]["causes"]]
                assert status["reason"] == ("Forbidden" if want[0] == 403 else "Invalid")

    asyncio.run(story())


@pytest.mark.parametrize(
    ("kind", "manifest"),
    [
        pytest.param("clusterqueues", cluster_queue("mine"), id="a ClusterQueue"),
        pytest.param("resourceflavors", flavor("mine"), id="a flavor"),
        pytest.param(
            "topologies",
            {
                "apiVersion": "kueue.x-k8s.io/v1beta2",
                "kind": "Topology",
                "metadata": {"name": "mine"},
                "spec": {"levels": [{"nodeLabel": "kubernetes.io/hostname"}]},
            },
            id="a Topology",
        ),
    ],
)
def test_an_object_has_its_finalizer_from_its_creation_on(kind: str, manifest: Manifest) -> None:
    async def story() -> None:
        async with local_cluster() as world:
            world.api.objects.use_admission(AdmissionChain(FinalizerAdmission(topologies=True)))
            created = await world.api.create(kind, manifest)
            assert created["metadata"]["finalizers"] == [IN_USE]

    asyncio.run(story())
