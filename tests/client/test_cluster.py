"""Clusters: caches that show own writes at once, and never go back."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.client.cluster import Cluster, Writer
from fairway.client.local import LocalClient
from fairway.client.protocol import Client
from fairway.errors import AlreadyExists, Conflict, NotFound, ValidationError
from fairway.testing.clusters import LocalCluster, local_cluster, plain

Told = tuple[str, str | None]


def config_map(name: str, **data: str) -> Manifest:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


def told_by(world: LocalCluster) -> list[Told]:
    """What a handler hears, as `(name, value of the key)`; `None` for a deletion."""
    told: list[Told] = []

    def note(old: Manifest | None, new: Manifest | None) -> None:
        told.append(((new or old or {})["metadata"]["name"], new["data"]["key"] if new is not None else None))

    world.cluster.cache("configmaps").on_change(note)
    return told


def test_a_write_is_in_the_cache_when_it_returns_and_is_told_once() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            told = told_by(world)
            writer = world.cluster.writer("tester")
            async with world.running():
                before = len(told)
                made = await writer.create("configmaps", config_map("a", key="1"))
                assert world.seen("configmaps", "a", "default") is made
                changed = await writer.patch("configmaps", made, {"data": {"key": "2"}})
                assert world.seen("configmaps", "a", "default") is changed
                await writer.delete("configmaps", changed)
                assert world.cluster.cache("configmaps").get("default", "a") is None
                await writer.create("configmaps", config_map("last", key="3"))
                await world.cluster_says(lambda: told[-1] == ("last", "3"))
            assert told[before:] == [("a", "1"), ("a", "2"), ("a", None), ("last", "3")]

    asyncio.run(story())


def test_news_from_the_watch_that_is_older_than_what_is_known_changes_nothing() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            told = told_by(world)
            cache = world.cluster.cache("configmaps")
            old = await world.api.create("configmaps", config_map("a", key="old"))
            new = (await world.api.patch("configmaps", "a", {"data": {"key": "new"}})).entry
            newest: dict[str, Any] = {**old, "data": {"key": "new"}}
            newest["metadata"] = {**old["metadata"], "resourceVersion": str(new.revision)}
            cache.note(newest)
            async with world.running():
                cache.note(old)
                assert world.seen("configmaps", "a", "default")["data"] == {"key": "new"}
            assert [one for one in told if one[0] == "a"] == [("a", "new")]

    asyncio.run(story())


def test_an_answer_that_comes_after_the_watch_told_of_the_deletion_brings_nothing_back() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            told = told_by(world)
            cache = world.cluster.cache("configmaps")
            async with world.running():
                made = await world.api.create("configmaps", config_map("a", key="1"))
                await world.api.delete("configmaps", "a")
                await world.cluster_says(lambda: told[-1] == ("a", None))
                cache.note(made)
                assert cache.get("default", "a") is None
                assert told[-1] == ("a", None)

    asyncio.run(story())


def test_an_object_that_has_to_be_let_go_of_is_shown_as_going() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            world.cluster.cache("configmaps")
            writer = world.cluster.writer("tester")
            async with world.running():
                manifest = config_map("a", key="1")
                manifest["metadata"]["finalizers"] = ["example.com/wait"]
                made = await writer.create("configmaps", manifest)
                await writer.delete("configmaps", made)
                going = world.seen("configmaps", "a", "default")
                assert "deletionTimestamp" in going["metadata"]
                await writer.patch("configmaps", going, {"metadata": {"finalizers": None}})
                assert world.cluster.cache("configmaps").get("default", "a") is None
                await writer.delete("configmaps", going)  # gone already: nothing to do

    asyncio.run(story())


def test_a_locked_deletion_takes_an_object_only_as_it_was_seen() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            world.cluster.cache("configmaps")
            writer = world.cluster.writer("tester")
            async with world.running():
                made = await writer.create("configmaps", config_map("a", key="1"))
                changed = await writer.patch("configmaps", made, {"data": {"key": "2"}})
                with pytest.raises(Conflict):
                    await writer.delete("configmaps", made, locked=True)
                await writer.delete("configmaps", changed, locked=True)
                assert world.api.get("configmaps", "a") is None

    asyncio.run(story())


def test_another_object_of_the_same_name_is_not_deleted_in_its_place() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            world.cluster.cache("configmaps")
            writer = world.cluster.writer("tester")
            async with world.running():
                first = await writer.create("configmaps", config_map("a", key="1"))
                await world.api.delete("configmaps", "a")
                await world.api.create("configmaps", config_map("a", key="2"))
                with pytest.raises(Conflict):
                    await writer.delete("configmaps", first)
                assert world.api.get("configmaps", "a") is not None

    asyncio.run(story())


def test_a_locked_patch_is_refused_when_the_object_is_another_by_now() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            writer = world.cluster.writer("tester")
            async with world.running():
                made = await writer.create("configmaps", config_map("a", key="1"))
                await writer.patch("configmaps", made, {"data": {"key": "2"}}, locked=True)
                with pytest.raises(Conflict):
                    await writer.patch("configmaps", made, {"data": {"key": "3"}}, locked=True)
                with pytest.raises(AlreadyExists):
                    await writer.create("configmaps", config_map("a"))

    asyncio.run(story())


def test_a_pod_is_bound_once_and_only_the_one_that_was_meant() -> None:
    async def story() -> None:
        async with local_cluster() as world:
            world.cluster.cache("pods")
            writer = world.cluster.writer("tester")
            async with world.running():
                pod = {
                    "metadata": {"name": "p", "namespace": "default"},
                    "spec": {"containers": [{"name": "c", "image": "i"}]},
                }
                made = await writer.create("pods", pod)
                another = {**made, "metadata": {**made["metadata"], "uid": "another"}}
                with pytest.raises(Conflict):
                    await writer.bind(another, "node")
                bound = await writer.bind(made, "node")
                assert world.seen("pods", "p", "default") is bound
                assert bound["spec"]["nodeName"] == "node"
                with pytest.raises(Conflict):
                    await writer.bind(made, "elsewhere")

    asyncio.run(story())


# Writes that are begun, and told of when they have ended


@pytest.fixture(params=[True, False], ids=["staging", "waiting"])
def client(request: pytest.FixtureRequest) -> Callable[[Client], Client]:
    """What the client is able to do; whoever writes cannot tell."""
    return (lambda client: client) if request.param else plain


Begin = Callable[[Manifest, Manifest], Awaitable[Manifest]]


@asynccontextmanager
async def beginning(client: Callable[[Client], Client]) -> AsyncIterator[tuple[LocalCluster, Writer, Begin]]:
    async with local_cluster() as local:
        cluster = Cluster(
            lambda manager: client(LocalClient(local.api.objects, manager)), local.api.objects.registry, local.clock
        )
        world = LocalCluster(local.api, cluster, local.clock)
        writer = cluster.writer("tester")

        async def begin(of: Manifest, patch: Manifest) -> Manifest:
            """How a write ended, which is never told before it was begun."""
            results: list[Callable[[], Manifest]] = []
            ended = asyncio.Event()

            def note(result: Callable[[], Manifest]) -> None:
                results.append(result)
                ended.set()

            writer.begin_patch("configmaps", of, patch, note)
            assert results == []
            await ended.wait()
            (result,) = results
            return result()

        cluster.cache("configmaps")
        async with world.running():
            yield world, writer, begin


def test_a_write_that_was_begun_is_in_the_cache_when_it_is_told_of(client: Callable[[Client], Client]) -> None:
    async def story() -> None:
        async with beginning(client) as (world, writer, begin):
            made = await writer.create("configmaps", config_map("a", key="1"))
            changed = await begin(made, {"data": {"key": "2"}})
            assert changed["data"] == {"key": "2"}
            assert world.seen("configmaps", "a", "default") is changed
            assert await begin(changed, {"data": {"key": "2"}}) == changed  # which changes nothing

    asyncio.run(story())


def test_a_write_that_was_begun_is_refused_like_any_other(client: Callable[[Client], Client]) -> None:
    async def story() -> None:
        async with beginning(client) as (_, writer, begin):
            made = await writer.create("configmaps", config_map("a", key="1"))
            changed = await begin(made, {"data": {"key": "2"}})
            with pytest.raises(Conflict):
                await begin(made, {"data": {"key": "3"}})
            with pytest.raises(NotFound):
                await begin({"metadata": {**made["metadata"], "name": "b"}}, {"data": {"key": "3"}})
            with pytest.raises(ValidationError):
                await begin(changed, {"metadata": {"labels": {"not a label": ""}}})

    asyncio.run(story())


def test_who_gives_up_a_write_hears_no_more_of_it(client: Callable[[Client], Client]) -> None:
    async def story() -> None:
        async with beginning(client) as (world, writer, begin):
            made = await writer.create("configmaps", config_map("a", key="1"))
            other = await writer.create("configmaps", config_map("b", key="1"))
            told: list[object] = []
            writer.begin_patch("configmaps", made, {"data": {"key": "2"}}, told.append).cancel()
            await begin(other, {"data": {"key": "2"}})
            await world.api.store.settled()
            assert told == []

    asyncio.run(story())
