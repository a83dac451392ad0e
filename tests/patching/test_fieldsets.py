"""Sets of field paths: their notation, and the laws of their algebra against plain sets of paths."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.errors import BadRequest
from fairway.store.patching.fieldsets import (
    FieldSet,
    Path,
    contains,
    difference,
    intersection,
    key_element,
    parse,
    paths,
    shown,
    union,
    value_element,
    without_prefixes,
)

_ELEMENTS = st.sampled_from(["f:a", "f:b", 'k:{"name":"x"}', 'v:"y"', "i:0"])
_PATHS = st.lists(_ELEMENTS, min_size=1, max_size=4).map(tuple)
_PATH_SETS = st.frozensets(_PATHS, max_size=8)


def make(members: frozenset[Path]) -> FieldSet:
    """The set of these paths, spelled in the plainest way."""
    result: FieldSet = {}
    for path in sorted(members):
        node = result
        for element in path:
            node = node.setdefault(element, {})
    return _marked(result, members, ())


def _marked(node: FieldSet, members: frozenset[Path], path: Path) -> FieldSet:
    children = {element: _marked(child, members, (*path, element)) for element, child in node.items()}
    return {".": {}, **children} if children and path in members else children


def members_of(fields: FieldSet) -> frozenset[Path]:
    return frozenset(paths(fields))


@given(_PATH_SETS)
def test_set_has_the_paths_it_was_made_of(members: frozenset[Path]) -> None:
    fields = make(members)
    assert members_of(fields) == members
    assert parse(fields) == fields
    assert all(contains(fields, path) for path in members)


@given(_PATH_SETS, _PATHS)
def test_membership_is_of_the_very_path(members: frozenset[Path], path: Path) -> None:
    assert contains(make(members), path) == (path in members)
    assert not contains(make(members), ())


@given(_PATH_SETS, _PATH_SETS)
def test_operations_are_those_of_plain_sets(left: frozenset[Path], right: frozenset[Path]) -> None:
    ours, theirs = make(left), make(right)
    assert members_of(union(ours, theirs)) == left | right
    assert members_of(difference(ours, theirs)) == left - right
    assert members_of(intersection(ours, theirs)) == left & right
    below_right = {path for path in left if any(path[:end] in right for end in range(1, len(path) + 1))}
    assert members_of(without_prefixes(ours, theirs)) == left - below_right
    assert (ours, theirs) == (make(left), make(right)), "the arguments were changed"


@given(_PATH_SETS, _PATH_SETS)
def test_equal_sets_are_equal_dicts(left: frozenset[Path], right: frozenset[Path]) -> None:
    assert union(make(left), make(right)) == make(left | right)
    assert difference(make(left), make(right)) == make(left - right)
    assert intersection(make(left), make(right)) == make(left & right)


@given(_PATH_SETS)
def test_difference_with_strangers_is_the_same_object(members: frozenset[Path]) -> None:
    fields = make(members)
    assert difference(fields, {"f:stranger": {"f:x": {}}}) is fields


@pytest.mark.parametrize(
    ("path", "want"),
    [
        (("f:spec", "f:replicas"), ".spec.replicas"),
        (("f:spec", "f:containers", 'k:{"name":"a b"}', "f:image"), '.spec.containers[name="a b"].image'),
        (('k:{"containerPort":80,"protocol":"TCP"}',), '[containerPort=80,protocol="TCP"]'),
        (("f:metadata", "f:finalizers", 'v:"e.com/x"'), '.metadata.finalizers[="e.com/x"]'),
        (("f:metadata", "f:annotations", "f:e.com/a.b"), ".metadata.annotations.e.com/a.b"),
        (("f:list", "i:3"), ".list[3]"),
        (("f:list", "v:true"), ".list[=true]"),
    ],
)
def test_path_as_people_see_it(path: Path, want: str) -> None:
    assert shown(path) == want


def test_elements_have_one_spelling() -> None:
    assert key_element({"protocol": "TCP", "containerPort": 80}) == 'k:{"containerPort":80,"protocol":"TCP"}'
    assert value_element("<ä&") == 'v:"\\u003cä\\u0026"'
    assert parse({'k:{"b": 1,  "a": "x"}': {}, "v: 7": {".": {}}}) == {'k:{"a":"x","b":1}': {}, "v:7": {}}


def test_members_are_listed_before_what_is_below_them() -> None:
    fields: FieldSet = {"f:b": {"f:c": {}}, "f:a": {".": {}, 'v:"x"': {}, "f:z": {}}, "f:d": {}}
    assert [shown(path) for path in paths(fields)] == [".a", ".d", ".a.z", '.a[="x"]', ".b.c"]


def _deep() -> dict[str, Any]:
    node: dict[str, Any] = {}
    for _ in range(500):
        node = {"f:x": node}
    return node


@pytest.mark.parametrize(
    "data",
    [
        pytest.param([], id="a list"),
        pytest.param({"spec": {}}, id="no kind of element"),
        pytest.param({"x:spec": {}}, id="unknown kind of element"),
        pytest.param({"f:spec": 1}, id="a number as node"),
        pytest.param({"k:{": {}}, id="broken keys"),
        pytest.param({'k:["a"]': {}}, id="keys that are no object"),
        pytest.param({"i:x": {}}, id="a position that is no number"),
        pytest.param({"v:": {}}, id="no value"),
        pytest.param(_deep(), id="too deep"),
    ],
)
def test_what_is_no_set_is_refused(data: object) -> None:
    with pytest.raises(BadRequest):
        parse(data)
