"""`client/http` on a real kube-apiserver: what controllers need of an API."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest
from tools.cluster.apiserver import ApiServer

from fairway.apis.registry import default_registry
from fairway.client.http.client import HttpClient
from fairway.client.http.transport import open_transport
from fairway.client.protocol import Scope
from fairway.errors import AlreadyExists, Conflict, NotFound
from fairway.runtime.clock import SystemClock

_CONFIG_MAPS = default_registry().named("configmaps")
_NAMESPACES = default_registry().named("namespaces")


@asynccontextmanager
async def _client(kubeconfig: Path) -> AsyncIterator[HttpClient]:
    clock = SystemClock()
    async with open_transport(kubeconfig, "", clock) as transport:
        yield HttpClient(transport, clock, "tests")


def test_a_created_object_is_listed_and_watched(apiserver: ApiServer, unique: str) -> None:
    async def trial() -> None:
        async with _client(apiserver.kubeconfig) as client:
            await client.create(_NAMESPACES, {"metadata": {"name": unique}})
            scope = Scope(namespace=unique, labels="trial=yes")
            before = await client.list(_CONFIG_MAPS, scope)
            assert before.items == []
            metadata = {"name": "one", "namespace": unique, "labels": {"trial": "yes"}}
            created = await client.create(_CONFIG_MAPS, {"metadata": metadata, "data": {"a": "1"}})
            async with aclosing(client.watch(_CONFIG_MAPS, before.resource_version, scope)) as batches:
                [event] = await asyncio.wait_for(anext(batches), 30)
                assert (event.type, event.manifest["data"]) == ("ADDED", {"a": "1"})
                await client.patch(_CONFIG_MAPS, unique, "one", {"data": {"a": "2"}})
                [event] = await asyncio.wait_for(anext(batches), 30)
                assert (event.type, event.manifest["data"]) == ("MODIFIED", {"a": "2"})
            [listed] = (await client.list(_CONFIG_MAPS, scope)).items
            assert listed["metadata"]["uid"] == created["metadata"]["uid"]

    asyncio.run(trial())


def test_refusals_have_the_class_of_their_reason(apiserver: ApiServer, unique: str) -> None:
    async def trial() -> None:
        async with _client(apiserver.kubeconfig) as client:
            created = await client.create(_NAMESPACES, {"metadata": {"name": unique}})
            with pytest.raises(AlreadyExists):
                await client.create(_NAMESPACES, {"metadata": {"name": unique}})
            with pytest.raises(NotFound):
                await client.get(_CONFIG_MAPS, unique, "none")
            await client.patch(_NAMESPACES, "", unique, {"metadata": {"labels": {"newer": "yes"}}})
            with pytest.raises(Conflict):
                await client.update(_NAMESPACES, created)

    asyncio.run(trial())


def test_a_watch_goes_on_after_kube_apiserver_and_etcd_were_killed(fresh_apiserver: ApiServer) -> None:
    async def trial() -> None:
        async with _client(fresh_apiserver.kubeconfig) as client:
            scope = Scope(namespace="default", labels="trial=yes")
            since = (await client.list(_CONFIG_MAPS, scope)).resource_version
            async with aclosing(client.watch(_CONFIG_MAPS, since, scope)) as batches:
                following = asyncio.ensure_future(anext(batches))
                for name in ("kube-apiserver", "etcd"):
                    await asyncio.to_thread(fresh_apiserver.restart, name)
                    metadata = {"name": name, "namespace": "default", "labels": {"trial": "yes"}}
                    await client.create(_CONFIG_MAPS, {"metadata": metadata})
                    [event] = await asyncio.wait_for(following, 60)
                    assert event.manifest["metadata"]["name"] == name
                    following = asyncio.ensure_future(anext(batches))
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)

    asyncio.run(trial())
