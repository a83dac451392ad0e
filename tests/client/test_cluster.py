"""Clusters: caches that show own writes at once, and never go back."""

import asyncio
from typing import Any

import pytest

from fairway.errors import AlreadyExists, Conflict
from fairway.kinds.kind import Manifest
from fairway.testing.clusters import LocalCluster, local_cluster

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
