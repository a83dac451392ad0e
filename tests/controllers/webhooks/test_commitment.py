"""Warnings about quotas that exceed the nodes are for those who change a quota."""

import asyncio

import pytest

from fairway.apis.kueue import commitment
from fairway.apis.machinery.admission import ALLOWED, AdmissionRequest
from fairway.apis.machinery.kind import Manifest
from fairway.controllers.webhooks.commitment import CommitmentWarnings
from fairway.testing.clock import settle
from fairway.testing.clusters import local_cluster


def a_queue(name: str, cpus: int, **metadata: object) -> Manifest:
    quota = {"name": "cpu", "nominalQuota": str(cpus)}
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": [quota]}]}
    return {"metadata": {"name": name, **metadata}, "spec": {"resourceGroups": [group]}}


def test_a_write_that_changes_no_quota_is_not_compared_with_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        async with local_cluster() as world:
            plugin = CommitmentWarnings(world.cluster)
            async with world.running():
                node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "2"}}}
                await world.api.create("nodes", node)
                await settle()
                kind = world.api.kind("clusterqueues")
                old, same = a_queue("a", 4), a_queue("a", 4, finalizers=["kueue.x-k8s.io/resource-in-use"])

                assert plugin.admit(AdmissionRequest(kind, old)).warnings
                assert plugin.admit(AdmissionRequest(kind, a_queue("a", 5), old)).warnings
                monkeypatch.delattr(commitment, "warnings")
                monkeypatch.delattr("fairway.controllers.webhooks.commitment.warnings")
                assert plugin.admit(AdmissionRequest(kind, same, old)) == ALLOWED

    asyncio.run(story())
