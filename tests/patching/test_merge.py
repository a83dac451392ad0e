"""JSON Merge Patch: the examples of its RFC, and the laws that follow from it."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.store.patching.merge import merge_patch


@pytest.mark.parametrize(
    ("document", "patch", "want"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_example_of_the_rfc(document: Any, patch: Any, want: Any) -> None:
    assert merge_patch(document, patch) == want


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=10,
)
_PLAIN = st.recursive(
    st.integers(0, 3), lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3), max_leaves=10
)
_OBJECTS = st.dictionaries(st.sampled_from("abc"), _PLAIN, max_size=3)


@given(_JSON, _JSON)
def test_nothing_given_is_changed_and_twice_is_once(document: Any, patch: Any) -> None:
    before = copy.deepcopy((document, patch))
    once = merge_patch(document, patch)
    assert merge_patch(once, patch) == once
    assert (document, patch) == before


@given(_OBJECTS)
def test_empty_patch_gives_the_document_itself(document: dict[str, Any]) -> None:
    assert merge_patch(document, {}) is document


@given(_OBJECTS, _OBJECTS)
def test_target_is_reached_by_its_difference(old: dict[str, Any], new: dict[str, Any]) -> None:
    def difference(left: Any, right: Any) -> Any:
        if not isinstance(left, dict) or not isinstance(right, dict):
            return right
        gone = dict.fromkeys(left.keys() - right.keys())
        return gone | {name: difference(left.get(name, {}), value) for name, value in right.items()}

    assert merge_patch(old, difference(old, new)) == new


def test_what_the_patch_does_not_touch_is_shared() -> None:
    document: dict[str, Any] = {"spec": {"large": [1, 2, 3]}, "status": {"conditions": [], "other": {"x": 1}}}
    result = merge_patch(document, {"status": {"conditions": [1]}})
    assert result["spec"] is document["spec"]
    assert result["status"]["other"] is document["status"]["other"]
    assert document["status"]["conditions"] == []
