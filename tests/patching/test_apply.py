"""Server-side apply beyond what is recorded: versions of a kind, refusals, and who is told what."""

import copy
from typing import Any

import pytest

from fairway.errors import BadRequest
from fairway.store.patching.apply import apply
from fairway.store.patching.conflicts import ApplyConflict
from fairway.store.patching.managedfields import Versions, after_write

from .widgets import LATER, NOW, V1, V2, convert, schema_for, widget


def applied(live: dict[str, Any] | None, config: dict[str, Any], manager: str, **options: Any) -> dict[str, Any]:
    """`live`, seen in the version of the configuration, after it was applied."""
    if live is not None and live["apiVersion"] != config["apiVersion"]:
        live = convert(live, config["apiVersion"])
    settings: dict[str, Any] = {"force": False, "subresource": "", "now": NOW} | options
    return apply(live, config, schema_for=schema_for, convert=convert, manager=manager, **settings)


def updated(live: dict[str, Any], spec: dict[str, Any], manager: str) -> dict[str, Any]:
    new = {**live, "spec": spec}
    entries = after_write(
        live, new, schema=schema_for(live["apiVersion"]), manager=manager, subresource="",
        api_version=live["apiVersion"], now=NOW, versions=Versions(schema_for, convert),
    )  # fmt: skip
    return {**new, "metadata": {**new["metadata"], "managedFields": entries}}


def test_conflict_is_told_in_the_version_of_the_owner() -> None:
    live = applied(None, widget(V1, size=1), "A")
    with pytest.raises(ApplyConflict) as caught:
        applied(live, widget(V2, count=2), "B")
    assert caught.value.message == 'Apply failed with 1 conflict: conflict with "A": .spec.size'
    (conflict,) = caught.value.conflicts
    assert (conflict.manager, conflict.operation, conflict.api_version, conflict.time) == ("A", "Apply", V1, NOW)


def test_same_value_is_shared_across_versions() -> None:
    live = applied(applied(None, widget(V1, size=1), "A"), widget(V2, count=1), "B")
    assert sorted(entry["apiVersion"] for entry in live["metadata"]["managedFields"]) == [V1, V2]


def test_field_applied_in_one_version_is_given_up_in_another() -> None:
    live = applied(None, widget(V1, size=1, mode="x"), "A")
    result = applied(live, widget(V2, mode="x"), "A")
    assert result["spec"] == {"mode": "x"}
    (entry,) = result["metadata"]["managedFields"]
    assert (entry["apiVersion"], entry["fieldsV1"]) == (V2, {"f:spec": {"f:mode": {}}})


def test_field_given_up_stays_for_its_owner_in_another_version() -> None:
    live = applied(applied(None, widget(V1, size=1, mode="x"), "A"), widget(V2, count=1), "B")
    result = applied(live, widget(V1, mode="x"), "A")
    assert result["spec"] == {"size": 1, "mode": "x"}
    assert applied(result, widget(V2, mode="x"), "B")["spec"] == {"mode": "x"}


def test_field_kept_under_another_name_is_kept() -> None:
    live = applied(None, widget(V1, size=1, mode="x"), "A")
    assert applied(live, widget(V2, count=1), "A")["spec"] == {"count": 1}


def test_ownership_in_a_version_that_is_gone_is_dropped() -> None:
    live = applied(None, widget(V1, size=1, mode="x"), "A")
    live["metadata"]["managedFields"][0]["apiVersion"] = "widgets.example.com/v0"
    result = applied(live, widget(V1, size=2), "B")
    assert result["spec"] == {"size": 2, "mode": "x"}
    assert [entry["manager"] for entry in result["metadata"]["managedFields"]] == ["B"]


def test_configuration_in_another_version_than_the_object_is_refused() -> None:
    live = applied(None, widget(V1, size=1), "A")
    with pytest.raises(BadRequest, match="version"):
        apply(
            live, widget(V2), schema_for=schema_for, convert=convert, manager="A", force=False, subresource="", now=NOW
        )


def test_untracked_object_belongs_to_a_manager_before_the_first_apply() -> None:
    live = widget(size=1, mode="x")
    with pytest.raises(ApplyConflict, match=f'"before-first-apply" using {V1}: .spec.size'):
        applied(live, widget(size=2), "A")
    result = applied(live, widget(size=1), "A")
    assert [entry["manager"] for entry in result["metadata"]["managedFields"]] == ["A", "before-first-apply"]


def test_true_instead_of_one_is_a_change() -> None:
    live = applied(None, widget(anything={"flag": 1}), "A")
    result = applied(live, widget(anything={"flag": True}), "A", now=LATER)
    assert result["spec"]["anything"]["flag"] is True


def test_null_where_the_schema_takes_it_is_a_value() -> None:
    live = applied(None, widget(mode=None, size=None), "A")
    assert live["spec"] == {"mode": None}
    assert applied(live, widget(mode=None, size=None), "A") is live


def test_untyped_part_is_merged_map_by_map_with_atomic_lists() -> None:
    live = applied(None, widget(anything={"a": {"x": 1, "l": [1]}}), "A")
    both = applied(live, widget(anything={"a": {"y": 2}}), "B")
    assert both["spec"]["anything"] == {"a": {"x": 1, "l": [1], "y": 2}}
    with pytest.raises(ApplyConflict, match=r"\.spec\.anything\.a\.l"):
        applied(both, widget(anything={"a": {"l": [1, 2]}}), "B")


def test_fields_of_another_door_are_left_out_of_the_configuration() -> None:
    config = {**widget(size=1), "status": {"phase": "Up"}}
    result = applied(None, config, "A", reset={"f:status": {}})
    assert "status" not in result
    assert result["metadata"]["managedFields"][0]["fieldsV1"] == {"f:spec": {"f:size": {}}}


def test_conflicts_of_several_managers_are_told_together() -> None:
    live = applied(None, widget(size=1, mode="x"), "A")
    live = updated(live, {"size": 2, "mode": "x"}, "B")
    with pytest.raises(ApplyConflict) as caught:
        applied(live, widget(size=3, mode="y"), "C")
    assert caught.value.message.splitlines() == [
        'Apply failed with 2 conflicts: conflicts with "A":',
        "- .spec.mode",
        f'conflicts with "B" using {V1}:',
        "- .spec.size",
    ]
    assert caught.value.details == {
        "causes": [
            {"reason": "FieldManagerConflict", "message": 'conflict with "A"', "field": ".spec.mode"},
            {"reason": "FieldManagerConflict", "message": f'conflict with "B" using {V1}', "field": ".spec.size"},
        ]
    }


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"parts": [{"name": "a"}, {"name": "a"}]}, r'\.spec\.parts: duplicate entries for key \[name="a"\]',
            id="two elements of one key",
        ),
        pytest.param(
            {"parts": [{"name": "a", "tags": ["t", "t"]}]}, r'\.spec\.parts\[name="a"\]\.tags: duplicate entries',
            id="a set with a double member",
        ),
        pytest.param({"parts": [{"image": "i"}]}, r"\.spec\.parts: element 0", id="an element without its key"),
        pytest.param({"parts": [None]}, r"\.spec\.parts: element 0", id="null as an element"),
        pytest.param({"parts": {"a": 1}}, r"\.spec\.parts: expected a list", id="an object as a list"),
        pytest.param({"limits": [1]}, r"\.spec\.limits: expected an object", id="a list as an object"),
        pytest.param({"limits": 1}, r"\.spec\.limits: expected an object, got 1", id="a number as an object"),
        pytest.param({"order": [{"a": 1}]}, r"\.spec\.order\[0\]: expected string", id="an object as a string"),
    ],
)  # fmt: skip
def test_malformed_configuration_is_refused(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(BadRequest, match=message):
        applied(None, widget(**spec), "A")


def test_last_applied_annotation_that_is_nonsense_does_not_help() -> None:
    live = updated(applied(None, widget(size=1), "A"), {"size": 2}, "B")
    for nonsense in ("", "{", "[]", '{"apiVersion":"other"}', '{"apiVersion":"' + V1 + '","spec":[]}'):
        marked = copy.deepcopy(live)
        marked["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": nonsense}
        with pytest.raises(ApplyConflict):
            applied(marked, widget(size=3), "kubectl")
