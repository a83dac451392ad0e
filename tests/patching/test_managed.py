"""Ownership after plain writes, beyond what is recorded: versions, subresources, times, and what is shared."""

import copy
import json
from typing import Any
from unittest.mock import patch

import pytest

from fairway.apis.machinery.schemas.definitions import definition
from fairway.store.patching import managedfields as managed
from fairway.store.patching.managedfields import MAX_UPDATE_MANAGERS, Versions, after_write

from .widgets import LATER, NOW, V1, V2, convert, schema_for, widget


def write(old: dict[str, Any] | None, new: dict[str, Any], manager: str, **options: Any) -> dict[str, Any]:
    """`new` with the ownership after the write."""
    version = new["apiVersion"]
    settings: dict[str, Any] = {"subresource": "", "now": NOW, "versions": Versions(schema_for, convert)} | options
    entries = after_write(old, new, schema=schema_for(version), manager=manager, api_version=version, **settings)
    return {**new, "metadata": {**new["metadata"], "managedFields": entries}}


def owned(manifest: dict[str, Any]) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in manifest["metadata"]["managedFields"]}


def test_update_in_one_version_takes_the_field_from_its_owner_in_another() -> None:
    created = write(None, widget(V1, size=1, mode="x"), "A")
    changed = convert(created, V2) | {"spec": {"count": 2, "mode": "x"}}
    result = write(convert(created, V2), changed, "B", now=LATER)
    assert owned(result) == {"A": {"f:spec": {".": {}, "f:mode": {}}}, "B": {"f:spec": {"f:count": {}}}}
    assert [entry["apiVersion"] for entry in result["metadata"]["managedFields"]] == [V1, V2]


def test_owner_in_a_version_that_is_gone_is_dropped() -> None:
    created = write(None, widget(V1, size=1, mode="x"), "A")
    created["metadata"]["managedFields"][0]["apiVersion"] = "widgets.example.com/v0"
    result = write(created, {**created, "spec": {"size": 2, "mode": "x"}}, "B")
    assert owned(result) == {"B": {"f:spec": {"f:size": {}}}}


def test_one_manager_has_an_entry_for_each_subresource() -> None:
    created = write(None, widget(size=1), "A")
    result = write(created, {**created, "status": {"phase": "Up"}}, "A", subresource="status", now=LATER)
    plain, status = result["metadata"]["managedFields"]
    assert "subresource" not in plain
    assert status == {
        "manager": "A", "operation": "Update", "apiVersion": V1, "time": LATER, "fieldsType": "FieldsV1",
        "fieldsV1": {"f:status": {".": {}, "f:phase": {}}}, "subresource": "status",
    }  # fmt: skip


def test_write_that_changes_nothing_gives_the_same_list() -> None:
    created = write(None, widget(size=1), "A")
    again = copy.deepcopy(created)
    entries = after_write(created, again, schema=schema_for(V1), manager="B", subresource="", api_version=V1, now=LATER)
    assert entries is created["metadata"]["managedFields"]


def test_times_have_whole_seconds() -> None:
    created = write(None, widget(size=1), "A", now="2026-01-01T00:00:00.123456Z")
    assert created["metadata"]["managedFields"][0]["time"] == NOW


def test_time_is_that_of_the_last_change_by_the_manager() -> None:
    created = write(None, widget(size=1, mode="x"), "A")
    removed = write(created, {**created, "spec": {"size": 1}}, "A", now=LATER)
    assert removed["metadata"]["managedFields"][0]["time"] == NOW, "what only vanishes is taken by nobody"
    changed = write(removed, {**removed, "spec": {"size": 2}}, "A", now=LATER)
    assert changed["metadata"]["managedFields"][0]["time"] == LATER


def test_fields_that_this_door_does_not_set_are_nobodys() -> None:
    sent = {**widget(size=1), "status": {"phase": "Up"}}
    assert owned(write(None, sent, "A", reset={"f:status": {}})) == {"A": {"f:spec": {".": {}, "f:size": {}}}}


def test_nothing_given_is_changed() -> None:
    created = write(None, widget(size=1, parts=[{"name": "a", "env": [{"name": "x", "value": "1"}]}]), "A")
    changed = copy.deepcopy(created)
    changed["spec"]["parts"][0]["env"].append({"name": "y", "value": "2"})
    before = copy.deepcopy((created, changed))
    write(created, changed, "B")
    assert (created, changed) == before


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param({"a": {"b": 1}}, {"a": 2}, {"f:a": {}}, id="an object becomes a scalar"),
        pytest.param({"a": 2}, {"a": {"b": 1}}, {"f:a": {".": {}, "f:b": {}}}, id="a scalar becomes an object"),
        pytest.param({"a": [1]}, {"a": {"b": 1}}, {"f:a": {".": {}, "f:b": {}}}, id="a list becomes an object"),
        pytest.param({"a": None}, {"a": {"b": 1}}, {"f:a": {"f:b": {}}}, id="null becomes an object"),
        pytest.param({"a": {}}, {"a": None}, {"f:a": {}}, id="an empty object becomes null"),
        pytest.param({"a": [1]}, {"a": [1, 2]}, {"f:a": {}}, id="lists are atomic"),
        pytest.param({"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 2}}}, {"f:a": {"f:b": {"f:c": {}}}}, id="deep change"),
    ],
)
def test_untyped_part_changes(old: Any, new: Any, want: dict[str, Any]) -> None:
    created = write(None, widget(anything=old), "A")
    result = owned(write(created, {**created, "spec": {"anything": new}}, "B"))
    assert result["B"] == {"f:spec": {"f:anything": want}}


def test_what_was_in_an_object_that_became_a_scalar_is_owned_by_nobody() -> None:
    created = write(None, widget(anything={"a": {"b": 1}}), "A")
    result = owned(write(created, {**created, "spec": {"anything": {"a": 2}}}, "B"))
    assert result["A"] == {"f:spec": {".": {}, "f:anything": {}}}


def test_oldest_updaters_become_one_and_lose_nothing() -> None:
    current = write(None, widget(labels={"k0": "0"}), "m0")
    for index in range(1, 40):
        spec = {"labels": {**current["spec"]["labels"], f"k{index}": "0"}}
        current = write(current, {**current, "spec": spec}, f"m{index}", now=f"2026-01-01T00:00:{index:02}Z")
    entries = current["metadata"]["managedFields"]
    assert len(entries) == MAX_UPDATE_MANAGERS
    assert entries[0]["manager"] == "ancient-changes"
    labels = [name for entry in entries for name in entry["fieldsV1"]["f:spec"]["f:labels"] if name != "."]
    assert sorted(labels) == sorted(f"f:k{index}" for index in range(40))


def test_oldest_updaters_of_one_second_become_one_and_lose_nothing() -> None:
    current = write(None, widget(labels={"k0": "0"}), "a0")
    for index in range(1, 30):
        spec = {"labels": {**current["spec"]["labels"], f"k{index}": "0"}}
        current = write(current, {**current, "spec": spec}, f"a{index}")
    labels = [
        name for entry in current["metadata"]["managedFields"] for name in entry["fieldsV1"]["f:spec"]["f:labels"]
    ]
    assert sorted(set(labels) - {"."}) == sorted(f"f:k{index}" for index in range(30))


JOB = definition("io.k8s.api.batch.v1.Job")
CONFIG_MAP = definition("io.k8s.api.core.v1.ConfigMap")
SPECS: list[Any] = [
    {"template": {"spec": {"containers": [{"name": "a", "args": ["x"]}]}}},
    {"template": {"spec": {"containers": [{"name": "a", "args": ["y"]}]}}, "suspend": True},
    {"template": {"spec": {"containers": []}}},
    {"template": {}},
    {},
    None,
]
PARTS: list[Any] = [
    {},
    {"status": {}},
    {"status": {"active": 1}},
    {"data": {"a": "b"}},
]
METADATA: list[Any] = [{"name": "x"}, {"name": "x", "labels": {"a": "b"}, "annotations": {}}]


@pytest.mark.parametrize("schema", [JOB, CONFIG_MAP], ids=["jobs", "config maps"])
@pytest.mark.parametrize("metadata", METADATA)
@pytest.mark.parametrize("parts", PARTS)
def test_fields_of_a_spec_that_came_before_are_owned_as_if_it_had_not(schema: Any, metadata: Any, parts: Any) -> None:
    def created(spec: Any) -> str:
        new = {"apiVersion": "v1", "kind": "X", "metadata": metadata, "spec": spec, **parts}
        entries = after_write(None, new, schema=schema, manager="A", subresource="", api_version="v1", now=NOW)
        return json.dumps(entries)

    for spec in [*SPECS, *SPECS]:
        with patch.object(managed, "written", lambda _value: None):
            wanted = created(spec)
        assert created(spec) == wanted
