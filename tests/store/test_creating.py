"""Creating: names, what the server sets and what it does not take over, dry runs, unknown fields."""

import asyncio
import re
from collections.abc import Iterator
from itertools import count, cycle
from typing import Any

import pytest

from fairway.apis.machinery.kind import Manifest
from fairway.apis.registry import default_registry
from fairway.errors import AlreadyExists, ApiError, BadRequest, Forbidden, NotFound, ValidationError
from fairway.store.memory import MemoryLog
from fairway.store.store import Store
from fairway.store.verbs import Objects
from fairway.testing.clock import VirtualClock
from fairway.testing.stores import local_api

from .manifests import config_map, event, job, pod


def created(kind: str, manifest: Manifest, **options: Any) -> Manifest:
    async def story() -> Manifest:
        async with local_api() as api:
            made = await api.create(kind, manifest, **options)
            name = made["metadata"]["name"]
            assert (api.get(kind, name) == made) != options.get("dry_run", False)
            return made

    return asyncio.run(story())


def test_a_new_object_gets_an_identity_and_a_revision() -> None:
    metadata = created("managedjobs", job())["metadata"]

    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", metadata["uid"])
    assert metadata["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert metadata["generation"] == 1
    assert metadata["resourceVersion"] == "5"  # after the four namespaces
    assert metadata["namespace"] == "default"


@pytest.mark.parametrize(
    ("field", "given"),
    [
        ("uid", "11111111-2222-4333-8444-555555555555"),
        ("creationTimestamp", "2001-01-01T00:00:00Z"),
        ("deletionTimestamp", "2001-01-01T00:00:00Z"),
        ("deletionGracePeriodSeconds", 7),
        ("generation", 41),
        ("selfLink", "/somewhere"),
    ],
)
def test_what_only_the_server_sets_is_not_taken_from_a_request(field: str, given: Any) -> None:
    plain, forged = created("managedjobs", job()), created("managedjobs", job(**{field: given}))

    if field == "uid":
        assert forged["metadata"].pop(field) != given
        plain["metadata"].pop(field)
    else:
        forged["metadata"].pop("uid")
        plain["metadata"].pop("uid")
    assert forged == plain


@pytest.mark.parametrize(
    ("kind", "manifest", "want"),
    [
        pytest.param(
            "managedjobs",
            job(),
            {"phase": "PENDING", "attempt": 0, "recoveries": 0},
            id="a status is for the status door alone",
        ),
        pytest.param("configmaps", config_map(), None, id="a kind without a status has none"),
        pytest.param("pods", pod(), {"phase": "Pending", "qosClass": "BestEffort"}, id="a pod starts as pending"),
    ],
)
def test_the_status_of_a_new_object_is_the_servers(kind: str, manifest: Manifest, want: object) -> None:
    assert created(kind, manifest).get("status") == want


def test_a_kind_that_does_not_count_generations_has_none() -> None:
    assert "generation" not in created("configmaps", config_map(generation=5))["metadata"]


# Names


def test_a_generated_name_is_the_prefix_and_five_letters() -> None:
    name = created("configmaps", {"metadata": {"generateName": "run-"}})["metadata"]["name"]

    assert re.fullmatch("run-[bcdfghjklmnpqrstvwxz2456789]{5}", name)


def test_a_long_prefix_is_cut_so_that_the_name_stays_a_label() -> None:
    name = created("configmaps", {"metadata": {"generateName": "x" * 100}})["metadata"]["name"]

    assert re.fullmatch("x{58}[a-z0-9]{5}", name)


def test_a_name_that_is_given_wins_over_a_prefix() -> None:
    made = created("configmaps", {"metadata": {"name": "mine", "generateName": "run-"}})

    assert made["metadata"]["name"] == "mine"
    assert made["metadata"]["generateName"] == "run-"


def creations(suffixes: Iterator[str], times: int) -> list[str]:
    """So many objects from one prefix, with these suffixes for names."""

    async def story() -> list[str]:
        store = Store(MemoryLog())
        await store.start()
        objects = Objects(store, default_registry(), VirtualClock().now, new_suffix=lambda: next(suffixes))
        kind = next(one for one in objects.registry.kinds if one.resource == "priorityclasses.scheduling.k8s.io")
        try:
            return [
                (await objects.create(kind, "v1", "", {"metadata": {"generateName": "p-"}, "value": 1})).entry.name
                for _ in range(times)
            ]
        finally:
            await store.close()

    return asyncio.run(story())


def test_a_generated_name_that_is_taken_is_generated_again() -> None:
    assert creations(iter(["aaaaa", "aaaaa", "aaaaa", "bbbbb"]), 2) == ["p-aaaaa", "p-bbbbb"]


def test_generated_names_that_are_all_taken_are_given_up() -> None:
    with pytest.raises(AlreadyExists, match="try again"):
        creations(cycle(["aaaaa"]), 2)


def test_names_generated_at_the_same_time_differ() -> None:
    numbers = (str(number % 50).zfill(5) for number in count())

    async def story() -> set[str]:
        async with local_api() as api:
            made = await asyncio.gather(
                *(api.create("configmaps", {"metadata": {"generateName": "run-"}}) for _ in range(200))
            )
            return {one["metadata"]["name"] for one in made}

    assert len(asyncio.run(story())) == 200
    assert len(set(creations(numbers, 50))) == 50


# Refusals


@pytest.mark.parametrize(
    ("kind", "manifest", "want_error", "want_message"),
    [
        pytest.param("configmaps", {}, ValidationError, "name or generateName is required", id="no name"),
        pytest.param("configmaps", {"metadata": {"name": "No_Good"}}, ValidationError, "metadata.name", id="bad name"),
        pytest.param("configmaps", [], BadRequest, "must be a ConfigMap object, not a list", id="a list"),
        pytest.param("configmaps", "text", BadRequest, "not a string", id="a string"),
        pytest.param("configmaps", {"metadata": 7}, BadRequest, "metadata: .*must be an object", id="bad metadata"),
        pytest.param(
            "configmaps", {"kind": "Secret", "apiVersion": "v1"}, BadRequest, "v1, Secret", id="another kind"
        ),
        pytest.param(
            "configmaps", {"kind": "ConfigMap", "apiVersion": "v2"}, BadRequest, "v2", id="another version"
        ),
        pytest.param(
            "configmaps", config_map(namespace="other"), BadRequest, "does not match", id="another namespace"
        ),
        pytest.param(
            "configmaps", config_map(resourceVersion="7"), BadRequest, "should not be set", id="a revision"
        ),
        pytest.param(
            "nodes", {"metadata": {"name": "n", "namespace": "default"}}, BadRequest, "belong to no namespace",
            id="a namespace for what has none",
        ),
        pytest.param("configmaps", {**config_map(), "data": {"a": 7}}, BadRequest, "data", id="a wrong type"),
    ],
)  # fmt: skip
def test_what_is_not_an_object_of_its_kind_is_refused_and_not_stored(
    kind: str, manifest: Any, want_error: type[Exception], want_message: str
) -> None:
    async def story() -> None:
        async with local_api() as api:
            before = api.store.revision
            with pytest.raises(want_error, match=want_message):
                await api.create(kind, manifest)
            assert (api.names(kind), api.store.next_revision) == (set(), before + 1)

    asyncio.run(story())


def test_a_name_is_taken_once_in_a_namespace_and_free_in_the_next() -> None:
    async def story() -> None:
        async with local_api() as api:
            first = await api.create("configmaps", config_map())
            with pytest.raises(AlreadyExists, match='configmaps "settings" already exists') as refusal:
                await api.create("configmaps", config_map())
            assert refusal.value.details == {"name": "settings", "group": "", "kind": "configmaps"}
            assert api.get("configmaps", "settings") == first
            await api.create("configmaps", config_map(), "kube-system")
            await api.create("secrets", {"metadata": {"name": "settings"}})

    asyncio.run(story())


def test_of_many_who_create_the_same_name_at_once_one_succeeds() -> None:
    async def story() -> list[object]:
        async with local_api() as api:
            return await asyncio.gather(
                *(api.create("configmaps", config_map()) for _ in range(20)), return_exceptions=True
            )

    outcomes = asyncio.run(story())
    assert [isinstance(one, dict) for one in outcomes].count(True) == 1
    assert [isinstance(one, AlreadyExists) for one in outcomes].count(True) == 19


def test_a_name_is_free_again_as_soon_as_its_deletion_is_on_its_way() -> None:
    async def story() -> None:
        async with local_api() as api:
            old = await api.create("configmaps", config_map())
            deleted, new = await asyncio.gather(
                api.delete("configmaps", "settings"), api.create("configmaps", config_map())
            )
            assert deleted.removed
            assert new["metadata"]["uid"] != old["metadata"]["uid"]
            assert api.get("configmaps", "settings") == new

    asyncio.run(story())


@pytest.mark.parametrize("kind", ["configmaps", "pods", "managedjobs"])
def test_nothing_is_created_in_a_namespace_that_is_not_there(kind: str) -> None:
    async def story() -> None:
        async with local_api() as api:
            with pytest.raises(NotFound, match='namespaces "nowhere" not found'):
                await api.create(
                    kind, {"configmaps": config_map(), "pods": pod(), "managedjobs": job()}[kind], "nowhere"
                )

    asyncio.run(story())


def test_nothing_is_created_in_a_namespace_that_is_being_deleted() -> None:
    async def story() -> None:
        async with local_api() as api:
            await api.create("namespaces", {"metadata": {"name": "lab"}})
            await api.delete("namespaces", "lab")
            with pytest.raises(Forbidden, match="because it is being terminated") as refusal:
                await api.create("configmaps", config_map(), "lab")
            assert refusal.value.details is not None
            assert refusal.value.details["causes"] == [
                {"reason": "NamespaceTerminating", "field": "metadata.namespace"}
            ]

    asyncio.run(story())


# Dry runs and unknown fields


def test_a_dry_run_goes_all_the_way_but_stores_nothing() -> None:
    made = created("pods", pod(), dry_run=True)

    assert made["spec"]["restartPolicy"] == "Always"
    assert made["metadata"]["uid"]
    assert "resourceVersion" not in made["metadata"]


@pytest.mark.parametrize(
    ("manifest", "want"),
    [
        pytest.param(config_map("taken"), AlreadyExists, id="a name that is taken"),
        pytest.param(config_map("No_Good"), ValidationError, id="a bad name"),
    ],
)
def test_a_dry_run_is_refused_as_the_real_one_would_be(manifest: Manifest, want: type[ApiError]) -> None:
    async def story() -> None:
        async with local_api() as api:
            await api.create("configmaps", config_map("taken"))
            revision = api.store.next_revision
            with pytest.raises(want):
                await api.create("configmaps", manifest, dry_run=True)
            assert api.store.next_revision == revision

    asyncio.run(story())


UNKNOWN = {**config_map(), "dada": {}, "metadata": {"name": "settings", "labls": {}}}


def test_unknown_fields_are_dropped_in_silence_if_asked_to() -> None:
    async def story() -> None:
        async with local_api() as api:
            written = await api.written(
                "configmaps", {**UNKNOWN, "metadata": {"name": "a", "labls": {}}}, field_validation="Ignore"
            )
            assert written.warnings == ()
            stored = api.get("configmaps", "a")
            assert stored is not None
            assert "dada" not in stored
            assert "labls" not in stored["metadata"]

    asyncio.run(story())


def test_unknown_fields_are_dropped_with_a_warning_for_each() -> None:
    async def story() -> None:
        async with local_api() as api:
            written = await api.written("configmaps", {**config_map("a"), "dada": {}, "colour": 1})
            assert sorted(written.warnings) == ['unknown field "colour"', 'unknown field "dada"']
            assert api.names("configmaps") == {"a"}

    asyncio.run(story())


def test_a_strict_request_with_unknown_fields_is_refused() -> None:
    async def story() -> None:
        async with local_api() as api:
            with pytest.raises(BadRequest, match='strict decoding error: unknown field "dada"'):
                await api.create("configmaps", {**config_map("a"), "dada": {}}, field_validation="Strict")
            assert api.names("configmaps") == set()

    asyncio.run(story())


def test_very_many_unknown_fields_are_not_all_listed() -> None:
    async def story() -> None:
        async with local_api() as api:
            unknown = {f"field{number}": 1 for number in range(50)}
            written = await api.written("configmaps", {**config_map("a"), **unknown})
            assert len(written.warnings) == 21
            assert written.warnings[-1] == "and 30 more"

    asyncio.run(story())


def test_an_event_is_created_like_everything_else() -> None:
    assert created("events", event("e1"))["reason"] == "Started"
