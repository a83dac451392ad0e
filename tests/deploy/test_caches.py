"""The table of permissions against the caches that each way of admission opens: no more and no less."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fairway.admission.port import AdmittedBy
from fairway.apis.registry import default_registry
from fairway.client.cluster import Cluster
from fairway.client.local import LocalClient
from fairway.deploy.names import NAMESPACE, WAYS, Way
from fairway.deploy.permissions import permissions
from fairway.manager import ON_A_CLUSTER, ControllerManager
from fairway.oncluster import Home, scopes_of
from fairway.settings import Settings
from fairway.standalone import LeaderTerm
from fairway.testing.clock import VirtualClock
from fairway.testing.stores import local_api


async def untrusting(_authorities: str) -> None:
    """There are no connections."""


async def followed(way: AdmittedBy, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    monkeypatch.setenv("POD_NAME", "fairway-controller-1")
    registry = default_registry()
    served = {kind.resource for kind in registry.kinds}
    async with local_api() as api:
        client: Any = LocalClient(api.objects, "test")
        scopes = scopes_of(way, registry, served)
        cluster = Cluster(lambda _name: client, registry, VirtualClock(), scopes, namespace=NAMESPACE)
        settings = Settings(state=Path("/nowhere"))
        manager = ControllerManager(cluster, settings, ON_A_CLUSTER[way], admitted_by=way, own_nodes=False)
        home = Home(way=way, on_cluster=True)
        LeaderTerm(cluster, client, manager, home, lambda _found: None, untrusting, webhooks=True)
        return cluster.followed


@pytest.mark.parametrize("way", WAYS)
def test_list_and_watch_are_granted_for_exactly_what_is_cached(way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    granted = {
        f"{resource}.{row.group}" if row.group else resource
        for row in permissions(way)
        for resource in row.resources
        if "watch" in row.verbs
    }
    assert granted == asyncio.run(followed(AdmittedBy(way), monkeypatch))


@pytest.mark.parametrize("way", WAYS)
def test_the_configuration_of_yunikorn_is_cached_once_in_any_namespace(way: Way) -> None:
    """A definition names the namespace. Of the other ConfigMaps, none but ours and Kueue's are read."""

    async def story() -> list[tuple[str, str]]:
        registry = default_registry()
        scopes = scopes_of(AdmittedBy(way), registry, {kind.resource for kind in registry.kinds})["configmaps"]
        async with local_api() as api:
            client = LocalClient(api.objects, "test")
            for namespace in ("yunikorn", "batch"):
                await api.create("namespaces", {"metadata": {"name": namespace}})
                for name in ("yunikorn-configs", "other"):
                    await api.create("configmaps", {"metadata": {"name": name}}, namespace=namespace)
            listed = [await client.list(registry.named("configmaps"), scope) for scope in scopes]
        found = [one["metadata"] for part in listed for one in part.items]
        return sorted((one["namespace"], one["name"]) for one in found)

    assert asyncio.run(story()) == [("batch", "yunikorn-configs"), ("yunikorn", "yunikorn-configs")]
