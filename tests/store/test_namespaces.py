"""Namespaces: those that everybody expects, and how one that is deleted takes everything along and goes last."""

import asyncio

import pytest

from fairway.errors import Forbidden
from fairway.store.gc.namespaces import DEFAULT_NAMESPACES
from fairway.testing.stores import LocalApi, OpenLog, local_api

from .manifests import config_map, event, job, pod

MINE = "example.dev/mine"


async def furnish(api: LocalApi, name: str = "lab") -> None:
    """A namespace with something of everything in it."""
    await api.create("namespaces", {"metadata": {"name": name}})
    await api.create("configmaps", config_map(), name)
    await api.create("managedjobs", job(), name)
    await api.create("pods", pod(), name)
    await api.create("secrets", {"metadata": {"name": "keys"}}, name)


def contents(api: LocalApi, namespace: str) -> list[tuple[str, str]]:
    return [
        (kind.resource, key[1])
        for kind in api.objects.registry.kinds
        if kind.namespaced
        for key in api.store.collection(kind.resource).keys(namespace)
    ]


def test_the_usual_namespaces_are_there_once_and_again(open_log: OpenLog) -> None:
    async def story() -> dict[str, str]:
        async with local_api(open_log) as api:
            assert api.names("namespaces") == set(DEFAULT_NAMESPACES)
            return {key[1]: entry.meta.uid for key, entry in api.store.collection("namespaces").entries.items()}

    assert asyncio.run(story()) == asyncio.run(story())


def test_a_namespace_that_is_deleted_takes_everything_along_and_goes_last() -> None:
    async def story() -> None:
        async with local_api(keepers=True) as api:
            await furnish(api)
            await furnish(api, "other")
            seen: list[str] = []
            api.store.observe(lambda change: seen.append(f"{change.type} {change.entry.resource}"))
            assert not (await api.delete("namespaces", "lab")).removed
            await api.until(lambda: api.get("namespaces", "lab") is None)
            assert contents(api, "lab") == []
            assert len(contents(api, "other")) == 4
            assert seen[0] == "MODIFIED namespaces"
            assert seen[-1] == "DELETED namespaces"
            assert api.get("namespaces", "other") is not None

    asyncio.run(story())


def test_an_empty_namespace_goes_by_itself_and_its_name_is_free_again() -> None:
    async def story() -> None:
        async with local_api(keepers=True) as api:
            first = await api.create("namespaces", {"metadata": {"name": "lab"}})
            await api.delete("namespaces", "lab")
            await api.until(lambda: api.get("namespaces", "lab") is None)
            second = await api.create("namespaces", {"metadata": {"name": "lab"}})
            assert second["metadata"]["uid"] != first["metadata"]["uid"]
            await api.create("configmaps", config_map(), "lab")

    asyncio.run(story())


def test_a_namespace_waits_for_what_is_held_in_it() -> None:
    async def story() -> None:
        async with local_api(keepers=True) as api:
            await furnish(api)
            await api.create("configmaps", config_map("held", finalizers=[MINE]), "lab")
            await api.create("pods", pod("running", node="n1"), "lab")
            await api.delete("namespaces", "lab")
            await api.until(lambda: contents(api, "lab") == [("configmaps", "held"), ("pods", "running")])
            lab = api.get("namespaces", "lab")
            assert lab is not None
            assert lab["status"]["phase"] == "Terminating"

            await api.patch("configmaps", "held", {"metadata": {"finalizers": None}}, namespace="lab")
            assert api.get("namespaces", "lab") is not None
            await api.delete("pods", "running", "lab", grace_seconds=0)
            await api.until(lambda: api.get("namespaces", "lab") is None)

    asyncio.run(story())


def test_a_namespace_with_a_finalizer_of_somebody_else_waits_for_that_one_too() -> None:
    async def story() -> None:
        async with local_api(keepers=True) as api:
            await api.create("namespaces", {"metadata": {"name": "lab", "finalizers": [MINE]}})
            await api.create("configmaps", config_map(), "lab")
            await api.delete("namespaces", "lab")
            await api.until(lambda: "finalizers" not in ((api.get("namespaces", "lab") or {}).get("spec") or {}))
            assert contents(api, "lab") == []
            revision = api.store.revision
            for number in range(5):
                await api.create("configmaps", config_map(f"marker-{number}"))
            assert api.store.revision == revision + 5  # it is not written to while it waits
            assert (await api.patch("namespaces", "lab", {"metadata": {"finalizers": None}})).removed

    asyncio.run(story())


def test_a_plain_write_cannot_take_away_what_holds_a_namespace() -> None:
    async def story() -> None:
        async with local_api() as api:
            await furnish(api)
            await api.delete("namespaces", "lab")
            await api.patch("namespaces", "lab", {"spec": {"finalizers": None}})
            assert api.get("namespaces", "lab") is not None
            assert len(contents(api, "lab")) == 4

    asyncio.run(story())


def test_a_deletion_that_was_interrupted_goes_on_after_a_restart(open_log: OpenLog) -> None:
    async def interrupted() -> None:
        async with local_api(open_log) as api:  # nobody there to empty it
            await furnish(api)
            await api.delete("namespaces", "lab")

    async def again() -> None:
        async with local_api(open_log, keepers=True) as api:
            await api.until(lambda: api.get("namespaces", "lab") is None)
            assert contents(api, "lab") == []

    asyncio.run(interrupted())
    asyncio.run(again())


def test_creations_that_race_with_the_deletion_leave_nothing_behind(open_log: OpenLog) -> None:
    async def story() -> None:
        async with local_api(open_log, keepers=True) as api:
            await furnish(api)
            creations = [api.create("configmaps", config_map(f"late-{number}"), "lab") for number in range(30)]
            outcomes = await asyncio.gather(
                *creations[:15], api.delete("namespaces", "lab"), *creations[15:], return_exceptions=True
            )
            assert sum(isinstance(one, dict) for one in outcomes) == 15
            await api.until(lambda: api.get("namespaces", "lab") is None)
            assert contents(api, "lab") == []

    asyncio.run(story())


def test_events_go_with_their_namespace() -> None:
    async def story() -> None:
        async with local_api(keepers=True) as api:
            await furnish(api)
            told = event("e1")
            told["involvedObject"]["namespace"] = "lab"
            await api.create("events", told, "lab")
            await api.delete("namespaces", "lab")
            await api.until(lambda: api.get("namespaces", "lab") is None)
            assert api.names("events") == set()

    asyncio.run(story())


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_the_namespaces_that_everybody_expects_stay(name: str) -> None:
    async def story() -> None:
        async with local_api(keepers=True) as api:
            with pytest.raises(Forbidden, match="this namespace may not be deleted"):
                await api.delete("namespaces", name)
            assert name in api.names("namespaces")

    asyncio.run(story())
