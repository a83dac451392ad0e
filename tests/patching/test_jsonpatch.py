"""JSON Patch: the operations, their refusals, and that nothing given is changed."""

import contextlib
import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.errors import BadRequest, Invalid, TooLarge
from fairway.store.patching.jsonpatch import MAX_OPERATIONS, json_patch

DOCUMENT = {"a": {"b": 1, "c/d": 2, "e~f": 3}, "list": [10, 20, 30], "null": None, "": {"": 0}}


def op(name: str, path: str, **members: Any) -> dict[str, Any]:
    return {"op": name, "path": path, **members}


@pytest.mark.parametrize(
    ("operations", "path", "want"),
    [
        pytest.param([op("add", "/a/x", value=5)], "a.x", 5, id="add a member"),
        pytest.param([op("add", "/a/b", value=5)], "a.b", 5, id="add over a member"),
        pytest.param([op("add", "/list/1", value=5)], "list", [10, 5, 20, 30], id="add into a list"),
        pytest.param([op("add", "/list/3", value=5)], "list", [10, 20, 30, 5], id="add at the end by position"),
        pytest.param([op("add", "/list/-", value=5)], "list", [10, 20, 30, 5], id="add at the end"),
        pytest.param([op("add", "", value={"n": 1})], "n", 1, id="add over the document"),
        pytest.param([op("remove", "/a/b")], "a", {"c/d": 2, "e~f": 3}, id="remove a member"),
        pytest.param([op("remove", "/list/0")], "list", [20, 30], id="remove from a list"),
        pytest.param([op("replace", "/a/b", value=None)], "a.b", None, id="replace by null"),
        pytest.param([op("replace", "/list/2", value=[1])], "list", [10, 20, [1]], id="replace in a list"),
        pytest.param([op("replace", "/a/new", value=7)], "a.new", 7, id="replace adds what an object does not have"),
        pytest.param([op("move", "/m", **{"from": "/a/b"})], "m", 1, id="move a member"),
        pytest.param([op("move", "/list/0", **{"from": "/list/2"})], "list", [30, 10, 20], id="move in a list"),
        pytest.param([op("move", "/a/b", **{"from": "/a/b"})], "a.b", 1, id="move to where it is"),
        pytest.param([op("copy", "/list/-", **{"from": "/a"})], "list", [10, 20, 30, DOCUMENT["a"]], id="copy"),
        pytest.param([op("test", "/a/c~1d", value=2), op("remove", "/a/c~1d")], "a", {"b": 1, "e~f": 3}, id="slash"),
        pytest.param([op("test", "/a/e~0f", value=3), op("remove", "/a/e~0f")], "a", {"b": 1, "c/d": 2}, id="tilde"),
        pytest.param([op("test", "//", value=0), op("add", "//x", value=1)], "", {"": 0, "x": 1}, id="empty names"),
        pytest.param([op("test", "/nope", value=None)], "a.b", 1, id="test for null where nothing stands"),
        pytest.param([op("test", "/list", value=[10.0, 20, 30])], "a.b", 1, id="numbers are equal by value"),
        pytest.param(
            [op("copy", "/x", **{"from": "/a"}), op("add", "/x/y", value=1), op("remove", "/a/b")],
            "x", {"b": 1, "c/d": 2, "e~f": 3, "y": 1}, id="a copy is apart from its origin",
        ),
    ],
)  # fmt: skip
def test_operation_has_its_effect(operations: list[dict[str, Any]], path: str, want: Any) -> None:
    before = copy.deepcopy((DOCUMENT, operations))
    result = json_patch(DOCUMENT, operations)
    for name in path.split("."):
        result = result[name]
    assert result == want
    assert (DOCUMENT, operations) == before


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        pytest.param(op("test", "/a/b", value=2), Invalid, id="test of another value"),
        pytest.param(op("test", "/a/b", value=True), Invalid, id="true is not one"),
        pytest.param(op("test", "/a/x", value=2), Invalid, id="test of nothing"),
        pytest.param(op("remove", "/a/x"), Invalid, id="remove a member that is not there"),
        pytest.param(op("remove", "/list/3"), Invalid, id="remove behind the end"),
        pytest.param(op("remove", "/list/-"), Invalid, id="remove the place behind the end"),
        pytest.param(op("remove", ""), Invalid, id="remove everything"),
        pytest.param(op("replace", "/list/3", value=1), Invalid, id="replace behind the end"),
        pytest.param(op("add", "/list/4", value=1), Invalid, id="add far behind the end"),
        pytest.param(op("add", "/list/01", value=1), Invalid, id="leading zero"),
        pytest.param(op("add", "/list/-1", value=1), Invalid, id="negative position"),
        pytest.param(op("add", "/list/\u0661", value=1), Invalid, id="digits of other scripts"),
        pytest.param(op("add", "/list/9999999999999999999999", value=1), Invalid, id="huge position"),
        pytest.param(op("add", "/list/x/y", value=1), Invalid, id="a name in a list"),
        pytest.param(op("add", "/x/y", value=1), Invalid, id="add below nothing"),
        pytest.param(op("add", "/a/b/c", value=1), Invalid, id="add below a number"),
        pytest.param(op("move", "/a/b/c", **{"from": "/a"}), Invalid, id="move into itself"),
        pytest.param(op("move", "/m", **{"from": "/nope"}), Invalid, id="move nothing"),
        pytest.param(op("copy", "/m", **{"from": "/nope"}), Invalid, id="copy nothing"),
        pytest.param(op("frob", "/a"), BadRequest, id="unknown operation"),
        pytest.param({"path": "/a"}, BadRequest, id="no operation"),
        pytest.param({"op": "remove"}, BadRequest, id="no path"),
        pytest.param(op("move", "/a"), BadRequest, id="no origin"),
        pytest.param(op("add", "/a"), BadRequest, id="no value"),
        pytest.param(op("add", "a", value=1), BadRequest, id="no slash at the beginning"),
        pytest.param(op("add", "/a" * 300, value=1), BadRequest, id="endless path"),
        pytest.param({"op": ["add"], "path": "/a", "value": 1}, BadRequest, id="a list as operation"),
        pytest.param("remove", BadRequest, id="no object"),
    ],
)
def test_operation_is_refused(operation: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        json_patch(DOCUMENT, [operation])


def test_patch_must_be_a_list() -> None:
    with pytest.raises(BadRequest):
        json_patch(DOCUMENT, {"op": "remove", "path": "/a"})


def test_all_or_nothing() -> None:
    before = copy.deepcopy(DOCUMENT)
    with pytest.raises(Invalid):
        json_patch(DOCUMENT, [op("remove", "/a/b"), op("add", "/list/-", value=1), op("test", "/a", value=0)])
    assert before == DOCUMENT


def test_number_of_operations_is_bounded() -> None:
    assert json_patch({}, [op("add", "/a", value=1)] * MAX_OPERATIONS) == {"a": 1}
    with pytest.raises(TooLarge):
        json_patch({}, [op("add", "/a", value=1)] * (MAX_OPERATIONS + 1))


def test_copies_do_not_blow_up() -> None:
    doubling = [op("copy", "/a/-", **{"from": "/a"})] * 60
    with pytest.raises((TooLarge, Invalid)):
        json_patch({"a": [1] * 50}, doubling)


def test_moves_do_not_build_a_tower() -> None:
    names = [op("add", f"/x{index}", value={}) for index in range(2000)]
    tower = [op("move", f"/x{index + 1}/y", **{"from": f"/x{index}"}) for index in range(1999)]
    with pytest.raises(Invalid):
        json_patch({}, names + tower)


_SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab/~0", max_size=3)
_DOCUMENTS = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3),
    max_leaves=12,
)


def _diff(old: Any, new: Any, path: str) -> list[dict[str, Any]]:
    """Operations from one document to another: a simple generator, to have something to carry out."""
    if isinstance(old, dict) and isinstance(new, dict):
        found = []
        for name in old.keys() | new.keys():
            here = f"{path}/{name.replace('~', '~0').replace('/', '~1')}"
            if name not in new:
                found.append(op("remove", here))
            elif name not in old:
                found.append(op("add", here, value=new[name]))
            else:
                found += _diff(old[name], new[name], here)
        return found
    if isinstance(old, list) and isinstance(new, list):
        found = [op("remove", f"{path}/{index}") for index in range(len(old) - 1, len(new) - 1, -1)]
        for index, item in enumerate(new):
            if index < len(old):
                found += _diff(old[index], item, f"{path}/{index}")
            else:
                found.append(op("add", f"{path}/-", value=item))
        return found
    return [op("replace", path, value=new)]


@given(_DOCUMENTS, _DOCUMENTS)
def test_difference_leads_to_the_target(old: Any, new: Any) -> None:
    before = copy.deepcopy(old)
    operations = _diff(old, new, "")
    result = json_patch(old, operations)
    assert json_patch(result, [op("test", "", value=new)]) == new
    assert old == before


@given(_DOCUMENTS, st.lists(st.sampled_from(["", "/a", "/b/a", "/0", "/a/-", "/~1", "/a/0/b"]), min_size=2, max_size=8))
def test_any_patch_is_carried_out_or_refused(document: Any, pointers: list[str]) -> None:
    before = copy.deepcopy(document)
    names = ["add", "remove", "replace", "move", "copy", "test"]
    operations = [
        {"op": names[(index + len(pointers)) % 6], "path": path, "from": origin, "value": {"a": [index]}}
        for index, (path, origin) in enumerate(zip(pointers, reversed(pointers), strict=True))
    ]
    with contextlib.suppress(BadRequest, Invalid):
        json_patch(document, operations)
    assert document == before
