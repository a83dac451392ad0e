"""Garbage collection: what becomes of dependents when their owner goes, in each of the three ways."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.apis.registry import Registry, default_registry
from fairway.errors import FieldError
from fairway.store.gc import chores
from fairway.testing.stores import LocalApi, OpenLog, local_api

from .manifests import config_map, job, owned_by

MINE = "example.dev/mine"
NOBODY = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "00000000-0000-4000-8000-000000000000"}


@asynccontextmanager
async def collecting(open_log: OpenLog | None = None) -> AsyncIterator[LocalApi]:
    async with local_api(open_log, keepers=True) as api:
        yield api


async def quiet(api: LocalApi) -> None:
    """Wait until the collector has looked at everything that it was told of.

    It looks at one object after another: whatever it was told of before a marker is looked at before the marker goes. A
    look may tell it of more; three markers in a row that cause no other change mean that there is no more.
    """
    rounds = 0
    while rounds < 3:
        before = api.store.revision
        await api.create("configmaps", config_map("marker", ownerReferences=[NOBODY]), "kube-system")
        await api.until(lambda: api.get("configmaps", "marker", "kube-system") is None)
        rounds = rounds + 1 if api.store.revision == before + 2 else 0


async def own(api: LocalApi, name: str, *owners: Manifest, block: bool | None = None, **metadata: object) -> Manifest:
    """A ConfigMap that belongs to others."""
    manifest = config_map(name, ownerReferences=owned_by(*owners, block=block), **metadata)
    return await api.create("configmaps", manifest)


def owners_of(api: LocalApi, name: str) -> list[str]:
    manifest = api.get("configmaps", name)
    assert manifest is not None
    return [one["name"] for one in manifest["metadata"].get("ownerReferences", [])]


# Background


@pytest.mark.parametrize("propagation", ["", "Background"])
def test_dependents_go_after_their_owner_and_theirs_after_them(propagation: str) -> None:
    async def story() -> None:
        async with collecting() as api:
            owner = await api.create("managedjobs", job())
            child = await own(api, "child", owner)
            await own(api, "grandchild", child)
            await own(api, "sibling", owner, block=True)
            await api.create("configmaps", config_map("stranger"))
            assert (await api.delete("managedjobs", "train", propagation=propagation)).removed
            await api.until(lambda: api.names("configmaps") == {"stranger"})

    asyncio.run(story())


def test_nothing_is_collected_while_its_owner_lives() -> None:
    async def story() -> None:
        async with collecting() as api:
            owner = await api.create("managedjobs", job())
            await own(api, "child", owner)
            await api.patch("managedjobs", "train", {"spec": {"priority": 9}})
            await quiet(api)
            assert api.names("configmaps") == {"child"}

    asyncio.run(story())


def test_an_owner_that_is_only_marked_for_deletion_keeps_its_dependents() -> None:
    async def story() -> None:
        async with collecting() as api:
            owner = await api.create("managedjobs", job(finalizers=[MINE]))
            await own(api, "child", owner)
            await api.delete("managedjobs", "train")
            await quiet(api)
            assert api.names("configmaps") == {"child"}
            await api.patch("managedjobs", "train", {"metadata": {"finalizers": None}})
            await api.until(lambda: api.names("configmaps") == set())

    asyncio.run(story())


def test_a_dependent_with_a_finalizer_is_marked_and_goes_when_it_is_let_go() -> None:
    async def story() -> None:
        async with collecting() as api:
            owner = await api.create("managedjobs", job())
            await own(api, "child", owner, finalizers=[MINE])
            await api.delete("managedjobs", "train")
            await api.until(
                lambda: "deletionTimestamp" in (api.get("configmaps", "child") or {"metadata": {}})["metadata"]
            )
            assert (await api.patch("configmaps", "child", {"metadata": {"finalizers": None}})).removed

    asyncio.run(story())


# Whose owner is gone, or another


@pytest.mark.parametrize(
    ("reference", "want_collected"),
    [
        pytest.param({}, False, id="a living owner"),
        pytest.param({"uid": NOBODY["uid"]}, True, id="another object took the owner's name"),
        pytest.param({"name": "nobody"}, True, id="no owner of that name"),
        pytest.param({"kind": "Secret"}, True, id="no owner of that kind"),
        pytest.param({"kind": "Widget", "apiVersion": "example.dev/v1"}, False, id="a kind that is not served here"),
    ],
)
def test_a_dependent_is_judged_by_the_owner_that_it_names(reference: dict[str, str], want_collected: bool) -> None:  # noqa: FBT001
    async def story() -> None:
        async with collecting() as api:
            owner = await api.create("configmaps", config_map("owner"))
            await api.create(
                "secrets", {"metadata": {"name": "child", "ownerReferences": [{**owned_by(owner)[0], **reference}]}}
            )
            await quiet(api)
            assert (api.get("secrets", "child") is None) == want_collected

    asyncio.run(story())


def test_an_owner_in_another_namespace_is_as_good_as_none() -> None:
    async def story() -> None:
        async with collecting() as api:
            owner = await api.create("configmaps", config_map("owner"), "kube-public")
            await own(api, "child", owner)
            await api.until(lambda: api.get("configmaps", "child") is None)
            assert api.get("configmaps", "owner", "kube-public") is not None

    asyncio.run(story())


def test_an_owner_of_the_whole_cluster_owns_in_every_namespace() -> None:
    async def story() -> None:
        async with collecting() as api:
            node = await api.create("nodes", {"metadata": {"name": "n1"}})
            await own(api, "child", node)
            await quiet(api)
            assert api.names("configmaps") == {"child"}
            await api.delete("nodes", "n1")
            await api.until(lambda: api.names("configmaps") == set())

    asyncio.run(story())


def test_what_belongs_to_the_whole_cluster_is_not_collected_with_an_owner_in_a_namespace() -> None:
    async def story() -> None:
        async with collecting() as api:
            owner = await api.create("configmaps", config_map("owner"))
            await api.create("nodes", {"metadata": {"name": "n1", "ownerReferences": owned_by(owner)}})
            await api.delete("configmaps", "owner")
            await quiet(api)
            assert api.names("nodes") == {"n1"}

    asyncio.run(story())


def test_an_object_with_several_owners_stays_as_long_as_one_of_them_does() -> None:
    async def story() -> None:
        async with collecting() as api:
            owners = [await api.create("secrets", {"metadata": {"name": name}}) for name in ("a", "b", "c")]
            await own(api, "child", *owners)
            await api.delete("secrets", "b")
            await api.until(lambda: owners_of(api, "child") == ["a", "c"])
            await api.delete("secrets", "a")
            await api.until(lambda: owners_of(api, "child") == ["c"])
            await api.delete("secrets", "c")
            await api.until(lambda: api.get("configmaps", "child") is None)

    asyncio.run(story())


def test_a_dependent_that_changes_its_owner_goes_with_the_new_one() -> None:
    async def story() -> None:
        async with collecting() as api:
            old, new = [await api.create("secrets", {"metadata": {"name": name}}) for name in ("old", "new")]
            await own(api, "child", old)
            await api.patch("configmaps", "child", {"metadata": {"ownerReferences": owned_by(new)}})
            await api.delete("secrets", "old")
            await quiet(api)
            assert owners_of(api, "child") == ["new"]
            await api.delete("secrets", "new")
            await api.until(lambda: api.names("configmaps") == set())

    asyncio.run(story())


# Foreground


def test_in_the_foreground_the_owner_waits_for_the_dependents_that_block_it() -> None:
    async def story() -> None:
        async with collecting() as api:
            owner = await api.create("managedjobs", job())
            await own(api, "held", owner, block=True, finalizers=[MINE])
            await own(api, "free", owner, block=True)
            assert not (await api.delete("managedjobs", "train", propagation="Foreground")).removed
            await api.until(lambda: api.names("configmaps") == {"held"})
            await quiet(api)
            waiting = api.get("managedjobs", "train")
            assert waiting is not None
            assert waiting["metadata"]["finalizers"] == ["foregroundDeletion"]
            await api.patch("configmaps", "held", {"metadata": {"finalizers": None}})
            await api.until(lambda: api.get("managedjobs", "train") is None)

    asyncio.run(story())


@pytest.mark.parametrize("block", [None, False])
def test_in_the_foreground_the_owner_does_not_wait_for_others(block: bool | None) -> None:  # noqa: FBT001 - a field
    async def story() -> None:
        async with collecting() as api:
            owner = await api.create("managedjobs", job())
            await own(api, "held", owner, block=block, finalizers=[MINE])
            await api.delete("managedjobs", "train", propagation="Foreground")
            await api.until(lambda: api.get("managedjobs", "train") is None)
            await api.until(lambda: "deletionTimestamp" in (api.get("configmaps", "held") or {})["metadata"])

    asyncio.run(story())


def test_in_the_foreground_a_whole_tree_goes_from_its_leaves() -> None:
    async def story() -> None:
        async with collecting() as api:
            owner = await api.create("managedjobs", job())
            child = await own(api, "child", owner, block=True)
            await own(api, "grandchild", child, block=True)
            gone: list[str] = []
            api.store.observe(lambda change: gone.append(change.entry.name) if change.type == "DELETED" else None)
            await api.delete("managedjobs", "train", propagation="Foreground")
            await api.until(lambda: api.get("managedjobs", "train") is None)
            assert gone == ["grandchild", "child", "train"]

    asyncio.run(story())


def test_in_the_foreground_an_owner_alone_goes() -> None:
    async def story() -> None:
        async with collecting() as api:
            await api.create("managedjobs", job())
            await api.delete("managedjobs", "train", propagation="Foreground")
            await api.until(lambda: api.get("managedjobs", "train") is None)

    asyncio.run(story())


def test_a_dependent_with_another_living_owner_stays_and_does_not_hold_the_first_up() -> None:
    """It was neither deleted, for the second owner's sake, nor taken from the first, which waited for it for ever."""

    async def story() -> None:
        async with collecting() as api:
            owner = await api.create("managedjobs", job())
            other = await api.create("secrets", {"metadata": {"name": "other"}})
            await own(api, "shared", owner, other, block=True)
            await api.delete("managedjobs", "train", propagation="Foreground")
            await api.until(lambda: api.get("managedjobs", "train") is None)
            assert owners_of(api, "shared") == ["other"]

    asyncio.run(story())


def test_a_dependent_that_ceases_to_block_lets_its_owner_go() -> None:
    async def story() -> None:
        async with collecting() as api:
            owner = await api.create("managedjobs", job())
            await own(api, "held", owner, block=True, finalizers=[MINE])
            await api.delete("managedjobs", "train", propagation="Foreground")
            await quiet(api)
            assert api.get("managedjobs", "train") is not None
            references = owned_by(owner, block=False)
            await api.patch("configmaps", "held", {"metadata": {"ownerReferences": references}})
            await api.until(lambda: api.get("managedjobs", "train") is None)
            assert api.names("configmaps") == {"held"}

    asyncio.run(story())


def test_owners_that_own_each_other_do_not_wait_for_each_other_for_ever() -> None:
    async def story() -> None:
        async with collecting() as api:
            first = await api.create("configmaps", config_map("a"))
            second = await own(api, "b", first, block=True)
            third = await own(api, "c", second, block=True)
            await api.patch("configmaps", "a", {"metadata": {"ownerReferences": owned_by(third, block=True)}})
            await api.delete("configmaps", "a", propagation="Foreground")
            await api.until(lambda: api.names("configmaps") == set())

    asyncio.run(story())


# Orphans


def test_orphans_lose_their_owner_and_stay() -> None:
    async def story() -> None:
        async with collecting() as api:
            owner = await api.create("managedjobs", job())
            other = await api.create("secrets", {"metadata": {"name": "other"}})
            for number in range(5):
                await own(api, f"child-{number}", owner, block=True)
            await own(api, "shared", owner, other)
            assert not (await api.delete("managedjobs", "train", propagation="Orphan")).removed
            await api.until(lambda: api.get("managedjobs", "train") is None)
            await quiet(api)
            assert api.names("configmaps") == {*(f"child-{number}" for number in range(5)), "shared"}
            assert owners_of(api, "child-0") == []
            assert owners_of(api, "shared") == ["other"]

    asyncio.run(story())


def test_orphans_are_found_although_others_write_to_them_all_the_time() -> None:
    async def story() -> None:
        async with collecting() as api:
            owner = await api.create("managedjobs", job())
            names = [f"child-{number}" for number in range(10)]
            for name in names:
                await own(api, name, owner)
            await api.delete("managedjobs", "train", propagation="Orphan")
            for number in range(20):
                await asyncio.gather(*(api.patch("configmaps", one, {"data": {"n": str(number)}}) for one in names))
            await api.until(lambda: api.get("managedjobs", "train") is None)
            assert [owners_of(api, name) for name in names] == [[]] * 10
            assert all((api.get("configmaps", name) or {})["data"]["n"] == "19" for name in names)

    asyncio.run(story())


def test_the_last_word_on_dependents_counts() -> None:
    async def story() -> None:
        async with collecting() as api:
            owner = await api.create("managedjobs", job(finalizers=[MINE]))
            await own(api, "child", owner, finalizers=[MINE], block=True)
            await api.delete("managedjobs", "train", propagation="Foreground")
            await api.delete("managedjobs", "train", propagation="Background")
            manifest = api.get("managedjobs", "train")
            assert manifest is not None
            assert manifest["metadata"]["finalizers"] == [MINE]

    asyncio.run(story())


# Restarts


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
def test_what_was_left_to_do_is_done_after_a_restart(open_log: OpenLog, propagation: str) -> None:
    async def interrupted() -> None:
        async with local_api(open_log) as api:  # nobody there to collect
            owner = await api.create("managedjobs", job())
            for number in range(3):
                await own(api, f"child-{number}", owner, block=True)
            await api.delete("managedjobs", "train", propagation=propagation)
            assert len(api.names("configmaps")) == 3

    async def again() -> None:
        async with collecting(open_log) as api:
            await api.until(lambda: api.get("managedjobs", "train") is None)
            await quiet(api)
            assert len(api.names("configmaps")) == (3 if propagation == "Orphan" else 0)

    asyncio.run(interrupted())
    asyncio.run(again())


def test_one_object_that_cannot_be_changed_does_not_keep_the_others_from_being_collected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As after an upgrade whose rules an old object breaks: the refusal ended the collector, and with it everything."""
    monkeypatch.setattr(chores, "_PAUSE_SECONDS", 0.01)
    kinds = {kind.resource: kind for kind in default_registry().kinds}

    def refuse(_old: Manifest, new: Manifest) -> list[FieldError]:
        wrong = new["metadata"]["name"] == "stubborn"
        return [FieldError("data", None, "FieldValueInvalid", "no longer allowed")] if wrong else []

    rules = replace(kinds["configmaps"].rules, validate_update=refuse)
    kinds["configmaps"] = replace(kinds["configmaps"], rules=rules)

    async def story() -> None:
        async with local_api(registry=Registry(kinds.values()), keepers=True) as api:
            for name in ("first", "second"):
                owner = await api.create("secrets", {"metadata": {"name": name}})
                await own(api, "stubborn" if name == "first" else "child", owner)
            await api.delete("secrets", "first", propagation="Orphan")
            await api.delete("secrets", "second")
            await api.until(lambda: api.names("configmaps") == {"stubborn"})
            assert api.names("secrets") == {"first"}  # still to be done

    asyncio.run(story())
