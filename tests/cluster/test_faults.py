"""Informers and writers on a real kube-apiserver that is restarted, compacted and reached through a bad network."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tools.cluster.apiserver import ApiServer

from cluster.api import compact, request
from cluster.faultyproxy import Faults, FaultyProxy
from fairway.apis.machinery.keys import Key, key_of
from fairway.apis.machinery.kind import Manifest
from fairway.apis.registry import default_registry
from fairway.client import informer as informers
from fairway.client.cluster import Cluster
from fairway.client.http.client import HttpClient
from fairway.client.http.transport import Transport, open_transport
from fairway.client.informer import Informer
from fairway.client.protocol import NotServed, Scope, UnservedVersion
from fairway.errors import Conflict, NotFound
from fairway.runtime.clock import SystemClock
from fairway.runtime.worker import Worker

CLOCK = SystemClock()
REGISTRY = default_registry()
MAPS = REGISTRY.named("configmaps")
SECONDS = 240.0


@asynccontextmanager
async def connected(kubeconfig: Path) -> AsyncIterator[tuple[Transport, HttpClient]]:
    async with asyncio.timeout(SECONDS), open_transport(kubeconfig, "", CLOCK) as transport:
        yield transport, HttpClient(transport, CLOCK, "tests")


async def until(condition: Callable[[], bool], seconds: float = SECONDS) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - of other processes, too
            await asyncio.sleep(0.02)


def config_map(namespace: str, name: str, value: str = "", **labels: str) -> Manifest:
    return {"metadata": {"namespace": namespace, "name": name, "labels": labels}, "data": {"v": value}}


@asynccontextmanager
async def following(informer: Informer) -> AsyncIterator[None]:
    task = asyncio.create_task(informer.run())
    try:
        await informer.synced.wait()
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def fill(client: HttpClient, namespace: str, count: int) -> None:
    await client.create(REGISTRY.named("namespaces"), {"metadata": {"name": namespace}})
    for start in range(0, count, 50):
        numbers = range(start, min(count, start + 50))
        await asyncio.gather(*[client.create(MAPS, config_map(namespace, f"m-{n:04}", "1")) for n in numbers])


def test_a_list_starts_over_when_its_pages_expire(fresh_apiserver: ApiServer, unique: str) -> None:
    """etcd is compacted after the first page, so the continue token is answered with 410."""

    async def story() -> None:
        async with connected(fresh_apiserver.kubeconfig) as (transport, client):
            await fill(client, unique, 520)
            pages: list[str] = []
            json = transport.json

            async def compacted(method: str, path: str, query: dict[str, str] | None = None, *rest: object) -> object:
                answer = await json(method, path, query or {}, *rest)  # type: ignore[arg-type]
                pages.append(str((query or {}).get("continue") or ""))
                if len(pages) == 1:
                    await client.patch(MAPS, unique, "m-0000", {"data": {"v": "2"}})
                    now = await json("GET", path, {"limit": 1})
                    await asyncio.to_thread(compact, fresh_apiserver, int(now["metadata"]["resourceVersion"]))
                    await asyncio.to_thread(
                        fresh_apiserver.restart, "kube-apiserver"
                    )  # its cache has the old pages, too
                return answer

            transport.json = compacted  # type: ignore[method-assign, assignment]
            listed = await client.list(MAPS, Scope(unique))
            assert len(listed.items) == 520
            assert listed.items[0]["data"] == {"v": "2"}, "all of one moment, after the compaction"
            assert "" in pages[1:], "it has started over"
            assert "managedFields" not in listed.items[0]["metadata"]

    asyncio.run(story())


def test_an_informer_relists_after_410_and_reports_exactly_the_difference(
    fresh_apiserver: ApiServer, tmp_path: Path
) -> None:
    """While it is cut off, objects change, kube-apiserver is killed and started again, and etcd is compacted."""

    async def story() -> None:
        async with FaultyProxy(fresh_apiserver) as proxy, connected(fresh_apiserver.kubeconfig) as (_, direct):
            await fill(direct, "team", 10)
            told: list[tuple[str, str]] = []

            def note(old: Manifest | None, new: Manifest | None) -> None:
                name = (new or old or {})["metadata"]["name"]
                told.append((name, "gone" if new is None else "came" if old is None else "changed"))

            async with connected(proxy.kubeconfig(tmp_path / "kubeconfig")) as (_, client):
                informer = Informer(client, MAPS, CLOCK, [Scope("team")])
                informer.on_change(note)
                async with following(informer):
                    before = proxy.requests["GET configmaps"]
                    told.clear()
                    proxy.down = True
                    proxy.cut()
                    await direct.patch(MAPS, "team", "m-0001", {"data": {"v": "2"}})
                    await direct.delete(MAPS, "team", "m-0002")
                    await direct.delete(MAPS, "team", "m-0003")
                    await direct.create(MAPS, config_map("team", "m-0003", "another"))
                    last = await direct.create(MAPS, config_map("team", "new"))
                    await asyncio.to_thread(compact, fresh_apiserver, int(last["metadata"]["resourceVersion"]))
                    await asyncio.to_thread(fresh_apiserver.restart, "kube-apiserver")
                    proxy.down = False
                    await until(lambda: informer.get("team", "new") is not None, 60)
                    assert sorted(told) == [
                        ("m-0001", "changed"),
                        ("m-0002", "gone"),
                        ("m-0003", "came"),
                        ("m-0003", "gone"),
                        ("new", "came"),
                    ]
                    assert proxy.requests["GET configmaps"] - before == 1, "one list, after the 410"
                    await direct.create(MAPS, config_map("team", "later"))
                    await until(lambda: informer.get("team", "later") is not None, 30)

    asyncio.run(story())


def test_what_a_cache_shows_after_deletions(apiserver: ApiServer, unique: str) -> None:
    """Pods without a node are gone at once, others after their grace period; finalizers and new UIDs count."""

    async def story() -> None:
        async with connected(apiserver.kubeconfig) as (transport, client):
            await client.create(REGISTRY.named("namespaces"), {"metadata": {"name": unique}})
            await client.create(
                REGISTRY.named("serviceaccounts"), {"metadata": {"name": "default", "namespace": unique}}
            )
            scopes = {"pods": (Scope(unique, labels="mine"),), "configmaps": (Scope(unique),)}
            cluster = Cluster(lambda name: HttpClient(transport, CLOCK, name), REGISTRY, CLOCK, scopes=scopes)
            pods, maps, writer = cluster.cache("pods"), cluster.cache("configmaps"), cluster.writer("tests")
            task = asyncio.create_task(cluster.run())
            await cluster.synced()

            def pod(name: str, node: str = "", **labels: str) -> Manifest:
                spec = {"containers": [{"name": "main", "image": "none"}], **({"nodeName": node} if node else {})}
                return {"metadata": {"name": name, "namespace": unique, "labels": labels}, "spec": spec}

            waiting = await writer.create("pods", pod("waiting", mine="yes"))
            assert pods.get(unique, "waiting") == waiting
            await writer.delete("pods", waiting)
            assert pods.get(unique, "waiting") is None
            running = await writer.create("pods", pod("running", "node-1", mine="yes"))
            await writer.delete("pods", running)
            marked = pods.get(unique, "running")
            assert marked is not None
            assert marked["metadata"]["deletionGracePeriodSeconds"] == 30
            await writer.delete("pods", marked, grace_seconds=0)
            assert pods.get(unique, "running") is None
            again = await writer.create("pods", pod("running", "node-1", mine="yes"))
            assert again["metadata"]["uid"] != running["metadata"]["uid"]
            await writer.create("pods", pod("other"))
            with pytest.raises(Conflict):
                await client.delete(cluster.kind("pods"), unique, "running", uid=running["metadata"]["uid"])

            held = await writer.create("configmaps", config_map(unique, "held"))
            held = await writer.patch("configmaps", held, {"metadata": {"finalizers": ["example.com/hold"]}})
            await writer.delete("configmaps", held)
            marked = maps.get(unique, "held")
            assert marked is not None
            assert "deletionTimestamp" in marked["metadata"]
            await writer.patch("configmaps", marked, {"metadata": {"finalizers": None}})
            assert maps.get(unique, "held") is None
            last = await writer.create("configmaps", config_map(unique, "last"))
            await until(lambda: maps.get(unique, "last") is not None, 30)
            await asyncio.sleep(0.5)  # what the watches still have to say of all this
            assert {one["metadata"]["name"] for one in pods.items()} == {"running"}
            assert maps.get(unique, "last") == last
            assert maps.get(unique, "held") is None
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(story())


def definition(version: str) -> Manifest:
    """Kueue's Cohort, in one version."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    names = {"plural": "cohorts", "singular": "cohort", "kind": "Cohort", "listKind": "CohortList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "cohorts.kueue.x-k8s.io",
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/enhancements/pull/1111"},
        },
        "spec": {
            "group": "kueue.x-k8s.io",
            "scope": "Cluster",
            "names": names,
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


def test_a_kind_that_is_missing_or_of_another_version(
    fresh_apiserver: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informers, "_UNSERVED_SECONDS", 0.5)
    cohorts = REGISTRY.named("cohorts.kueue.x-k8s.io")
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

    async def story() -> None:
        async with connected(fresh_apiserver.kubeconfig) as (_, client):
            with pytest.raises(NotServed, match=r"has no group kueue\.x-k8s\.io, which cohorts belong to"):
                await client.list(cohorts)
            informer = Informer(client, cohorts, CLOCK)
            async with following(informer):
                assert not list(informer.items())
                await asyncio.to_thread(request, fresh_apiserver, "POST", path, definition("v1beta1"))
                wrong: list[NotFound] = []
                while not wrong or not isinstance(wrong[-1], UnservedVersion):
                    with pytest.raises(NotFound) as raised:
                        await client.list(cohorts)
                    wrong.append(raised.value)
                assert "has kueue.x-k8s.io in v1beta1, and kueue.x-k8s.io/v1beta2 is needed" in str(wrong[-1])

                name = "cohorts.kueue.x-k8s.io"
                await asyncio.to_thread(request, fresh_apiserver, "DELETE", f"{path}/{name}")
                crd = definition("v1beta2")
                while True:
                    try:
                        await asyncio.to_thread(request, fresh_apiserver, "POST", path, crd)
                        break
                    except OSError:
                        await asyncio.sleep(0.2)  # the old one is still on its way out
                made: Manifest | None = None
                while made is None:
                    try:
                        manifest = {
                            "apiVersion": "kueue.x-k8s.io/v1beta2",
                            "kind": "Cohort",
                            "metadata": {"name": "one"},
                        }
                        made = await client.create(cohorts, manifest)
                    except NotFound:
                        await asyncio.sleep(0.2)
                await until(lambda: informer.get("", "one") is not None, 60)

    asyncio.run(story())


class Copier:
    """A controller as ours are: for every ConfigMap with the label `source`, one copy with its value and no other."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._namespace = namespace
        self._maps = cluster.cache("configmaps")
        self._writer = cluster.writer("copier")
        self._worker: Worker[Key] = Worker("copies", cluster.clock, self._reconcile, parallel=8)
        self._maps.on_change(self._changed)
        self.run = self._worker.run

    def _changed(self, old: Manifest | None, new: Manifest | None) -> None:
        one = new or old or {}
        source = (one["metadata"].get("labels") or {}).get("of")
        self._worker.add((self._namespace, source) if source else key_of(one))

    async def _reconcile(self, key: Key) -> None:
        source = self._maps.get(*key)
        labels = {} if source is None else source["metadata"].get("labels") or {}
        copies = [one for one in self._maps.items() if (one["metadata"].get("labels") or {}).get("of") == key[1]]
        for one in copies[1:] if source else copies:
            await self._writer.delete("configmaps", one)
        if source is None or "source" not in labels:
            return
        if not copies:
            metadata = {"generateName": f"{key[1]}-", "namespace": key[0], "labels": {"of": key[1]}}
            await self._writer.create("configmaps", {"metadata": metadata, "data": source["data"]})
        elif copies[0]["data"] != source["data"]:
            await self._writer.patch("configmaps", copies[0], {"data": source["data"]}, locked=True)


def test_a_controller_stays_correct_behind_a_bad_network_and_does_not_storm_the_server(
    apiserver: ApiServer, unique: str, tmp_path: Path
) -> None:
    sources = 60

    async def story() -> None:
        async with (
            FaultyProxy(apiserver) as proxy,
            connected(apiserver.kubeconfig) as (_, direct),
            connected(proxy.kubeconfig(tmp_path / "kubeconfig")) as (transport, _),
        ):
            await direct.create(REGISTRY.named("namespaces"), {"metadata": {"name": unique}})
            proxy.faults = Faults(refuse=0.2, lose=0.1, delay_seconds=0.05, cut_seconds=1.0, expire=0.1)
            scopes = {"configmaps": (Scope(unique),)}
            cluster = Cluster(lambda name: HttpClient(transport, CLOCK, name), REGISTRY, CLOCK, scopes=scopes)
            copier = Copier(cluster, unique)
            tasks = [asyncio.create_task(one) for one in (cluster.run(), copier.run())]
            await cluster.synced()
            for number in range(sources):
                await direct.create(MAPS, config_map(unique, f"s-{number}", "1", source="yes"))
            for number in range(0, sources, 3):
                await direct.patch(MAPS, unique, f"s-{number}", {"data": {"v": "2"}})
            for number in range(1, sources, 3):
                await direct.delete(MAPS, unique, f"s-{number}")
            wanted = {f"s-{number}": "2" if number % 3 == 0 else "1" for number in range(sources) if number % 3 != 1}

            async def copies() -> list[tuple[str, str]]:
                listed = await direct.list(MAPS, Scope(unique, labels="of"))
                return sorted((one["metadata"]["labels"]["of"], one["data"]["v"]) for one in listed.items)

            while await copies() != sorted(wanted.items()):  # noqa: ASYNC110
                await asyncio.sleep(0.2)
            busy = dict(proxy.requests), proxy.busiest_second(), proxy.most_connections
            proxy.requests.clear()
            await asyncio.sleep(10)
            quiet = sum(proxy.requests.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            print("requests", busy, "while idle", dict(proxy.requests), "faults", dict(proxy.injected))  # noqa: T201
            assert await copies() == sorted(wanted.items()), "it stays so"
            assert busy[1] <= 150, f"{busy[1]} requests in one second"
            assert busy[2] <= 40, f"{busy[2]} connections at a time"
            assert quiet <= 60, f"{quiet} requests in 10 s with nothing to do but to resume one watch"
            assert proxy.injected["cut watches"] > 3
            assert sum(proxy.injected.values()) > 30

    asyncio.run(story())
