"""An object in its parts, however they were come by, is the object: put together again, nothing is lost or moved."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairway.apis.machinery.kind import Manifest
from fairway.store.entries import Entry
from fairway.store.verbs.partscache import ObjectParts, object_parts
from fairway.store.verbs.reading import decoded, shared
from fairway.testing.stores import local_api

from .manifests import pod

OWNER = {"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}}
MARK = ',"resourceVersion":"7"},"spec":'
METADATA: dict[str, list[Any]] = {
    "uid": ["u"],
    "labels": [{"managedFields": "[]"}, {"resourceVersion": "7"}, {MARK: MARK}],
    "annotations": [{"a": MARK, "managedFields": "["}, {'",' + MARK: f'"{MARK}'}, {"resourceVersion": "7"}],
    "managedFields": [[], [OWNER], [OWNER, {**OWNER, "time": "t", "subresource": "status"}]],
}
PARTS: dict[str, list[Any]] = {
    "spec": [{}, {"a": MARK}, {"template": {"metadata": {"resourceVersion": "7"}, "spec": {"status": {}}}}],
    "status": [{}, {"a": 1.0}, {"status": {"status": {}}}, {"conditions": [{"type": "A", "status": "True"}]}],
}


def some_of(parts: dict[str, list[Any]]) -> st.SearchStrategy[Manifest]:
    return st.fixed_dictionaries({}, optional={name: st.sampled_from(some) for name, some in parts.items()})


@st.composite
def manifests(draw: st.DrawFn) -> Manifest:
    """Objects at revision 7, in the usual order or in another one."""
    metadata = {"name": "x", **draw(some_of(METADATA)), "resourceVersion": "7"}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **draw(some_of(PARTS))}
    if draw(st.booleans()):
        manifest["metadata"] = {name: metadata[name] for name in draw(st.permutations(sorted(metadata)))}
        manifest = {name: manifest[name] for name in draw(st.permutations(sorted(manifest)))}
    return manifest


@given(manifest=manifests(), watched=st.booleans())
@settings(max_examples=400, deadline=None)
def test_what_is_taken_apart_is_put_together_the_same(manifest: Manifest, *, watched: bool) -> None:
    async def run() -> None:
        async with local_api() as api:
            found = api.kind("pods")
        entry = Entry("pods", ("", "x"), 7, json.dumps(manifest, separators=(",", ":")).encode())
        if watched:
            shared(entry)
        known = object_parts(found, entry)
        assert known is not None
        assert json.loads(known.stored(7)) == manifest
        assert known.status == manifest.get("status")
        try:
            owners = known.claims.entries
        except ValueError:
            assert "managedFields" in json.dumps(manifest)
        else:
            assert [one["manager"] for one in owners] == ["m"] * len(manifest["metadata"].get("managedFields", []))

    asyncio.run(run())


@pytest.mark.parametrize("kept", [True, False])
def test_owners_are_written_where_they_were(*, kept: bool) -> None:
    """One that joins is written behind the others, and else all are written anew."""

    async def run() -> None:
        async with local_api() as api:
            await api.create("pods", pod("x"), manager="one")
            entry = api.objects.get(api.kind("pods"), "default", "x")
            known = object_parts(api.kind("pods"), entry)
            assert known is not None
            before = known.claims
            (first,) = before.entries
            another = {**first, "manager": "another"}
            after = known.with_status({"phase": "Running"})
            after.give_to(before._replace(entries=[first, another] if kept else [another, dict(first)]), before)

            manifest = json.loads(after.stored(9))
            assert [one["manager"] for one in manifest["metadata"]["managedFields"]] == (
                ["one", "another"] if kept else ["another", "one"]
            )
            expected = decoded(entry)
            expected["metadata"]["managedFields"] = manifest["metadata"]["managedFields"]
            expected["metadata"]["resourceVersion"] = "9"
            assert manifest == {**expected, "status": {"phase": "Running"}}
            assert isinstance(after, ObjectParts)
            assert json.loads(known.stored(entry.revision)) == decoded(entry), "the state before is as it was"

    asyncio.run(run())
