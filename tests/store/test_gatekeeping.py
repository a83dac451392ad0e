"""Gatekeepers: they complete and refuse what is written, by every way of writing."""

import asyncio
import re

import pytest

from fairway.apis.machinery import problems
from fairway.apis.machinery.kind import Kind, Manifest
from fairway.errors import FieldError, ValidationError
from fairway.store.verbs import PatchType
from fairway.store.verbs.gatekeeping import THIS_PROCESS, Author
from fairway.testing.stores import LocalApi, local_api


class Guard:
    """Labels every ConfigMap, and lets none be called evil or become so."""

    def name_for(self, kind: Kind, manifest: Manifest) -> str:
        return f"{manifest['metadata']['generateName']}7" if kind.kind == "ConfigMap" else ""

    def on_create(self, kind: Kind, manifest: Manifest, author: Author) -> list[FieldError]:
        if kind.kind != "ConfigMap":
            return []
        manifest["metadata"].setdefault("labels", {})["seen"] = author.name or "yes"
        return self._judged(manifest)

    def on_apply(self, kind: Kind, old: Manifest, applied: Manifest) -> None:
        """Nothing before the merge."""

    def on_update(self, kind: Kind, old: Manifest, new: Manifest, author: Author) -> list[FieldError]:
        assert author == THIS_PROCESS
        assert old["metadata"]["name"] == new["metadata"]["name"]
        return self._judged(new) if kind.kind == "ConfigMap" else []

    def _judged(self, manifest: Manifest) -> list[FieldError]:
        evil = (manifest.get("data") or {}).get("evil")
        return [] if evil is None else [problems.forbidden("data[evil]", evil, "we do not want that")]


def config_map(**data: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "default"},
        "data": data,
    }


async def apply(api: LocalApi, manifest: Manifest) -> None:
    await api.patch("configmaps", "a", manifest, patch_type=PatchType.APPLY, manager="m", force=True)


def test_what_is_created_is_completed_and_owned_by_who_asked() -> None:
    async def story() -> None:
        async with local_api() as api:
            api.objects.ask(Guard())
            made = await api.create("configmaps", config_map(good="x"), manager="me")
            assert made["metadata"]["labels"] == {"seen": "yes"}
            (owner,) = made["metadata"]["managedFields"]
            assert owner["manager"] == "me"
            assert "f:labels" in owner["fieldsV1"]["f:metadata"]

    asyncio.run(story())


def test_what_is_applied_first_is_completed_too() -> None:
    async def story() -> None:
        async with local_api() as api:
            api.objects.ask(Guard())
            await apply(api, config_map(good="x"))
            made = api.get("configmaps", "a")
            assert made is not None
            assert made["metadata"]["labels"] == {"seen": "yes"}

    asyncio.run(story())


@pytest.mark.parametrize("way", ["create", "apply", "update", "merge patch", "apply over", "dry run"])
def test_what_is_refused_is_refused_however_it_is_written(way: str) -> None:
    async def write(api: LocalApi) -> None:
        if way in {"create", "dry run"}:
            await api.create("configmaps", config_map(evil="x"), dry_run=way == "dry run")
        elif way == "apply":
            await apply(api, config_map(evil="x"))
        else:
            made = await api.create("configmaps", config_map(good="x"))
            if way == "update":
                await api.update("configmaps", {**made, "data": {"evil": "x"}})
            elif way == "merge patch":
                await api.patch("configmaps", "a", {"data": {"evil": "x"}})
            else:
                await apply(api, config_map(evil="x"))

    async def story() -> None:
        async with local_api() as api:
            api.objects.ask(Guard())
            with pytest.raises(ValidationError, match=r"data\[evil\]: Forbidden: we do not want that"):
                await write(api)
            left = api.get("configmaps", "a")
            assert left is None or "evil" not in left["data"]

    asyncio.run(story())


def test_the_gatekeeper_hears_who_writes() -> None:
    async def story() -> None:
        async with local_api() as api:
            api.objects.ask(Guard())
            made = await api.create("configmaps", config_map(good="x"), author=Author("ann"))
            assert made["metadata"]["labels"] == {"seen": "ann"}

    asyncio.run(story())


def test_a_gatekeeper_names_what_comes_without_a_name_and_a_name_that_is_taken_is_not_used() -> None:
    async def story() -> None:
        async with local_api() as api:
            api.objects.ask(Guard())
            names = []
            for _ in range(2):
                nameless = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "job-"}}
                names.append((await api.create("configmaps", nameless))["metadata"]["name"])
            assert names[0] == "job-7"
            assert re.fullmatch(r"job-[a-z0-9]{5}", names[1])

    asyncio.run(story())
