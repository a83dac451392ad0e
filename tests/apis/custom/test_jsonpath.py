"""Paths of printer columns: what they find, and how cells of each type are written."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairway.apis.machinery.jsonpath import compiled, custom_column

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

CONDITIONS = [
    {"type": "QuotaReserved", "status": "True"},
    {"type": "Admitted", "status": "False"},
    {"type": "Admitted", "status": "second"},
]

FOUND = [
    pytest.param(".spec.queueName", {"spec": {"queueName": "lq"}}, "lq", id="a field of a field"),
    pytest.param(".value", {"value": 0}, 0, id="a field at the top, even if it is zero"),
    pytest.param(".spec.queueName", {"spec": {}}, None, id="a field that is not there"),
    pytest.param(".spec.queueName", {"spec": None}, None, id="a field of nothing"),
    pytest.param(".spec.queueName", {"spec": "text"}, None, id="a field of something that has none"),
    pytest.param(
        ".metadata.labels['app.kubernetes.io/name']",
        {"metadata": {"labels": {"app.kubernetes.io/name": "x"}}},
        "x",
        id="a key with dots and a slash",
    ),
    pytest.param('.a["b.c"].d', {"a": {"b.c": {"d": 1}}}, 1, id="a key in double quotes, and on from there"),
    pytest.param(".items[1]", {"items": ["a", "b"]}, "b", id="an item of a list"),
    pytest.param(".items[2]", {"items": ["a", "b"]}, None, id="an item beyond the end"),
    pytest.param(".items[0]", {"items": {"0": "a"}}, None, id="an item of something that is no list"),
    pytest.param(
        ".status.conditions[?(@.type=='Admitted')].status",
        {"status": {"conditions": CONDITIONS}},
        "False",
        id="the first item that a filter lets through",
    ),
    pytest.param(
        '.status.conditions[?( @.type == "Finished" )].status',
        {"status": {"conditions": CONDITIONS}},
        None,
        id="a filter that lets nothing through",
    ),
    pytest.param(
        ".status.conditions[?(@.type=='Admitted')].status",
        {"status": {"conditions": ["text", None, *CONDITIONS]}},
        "False",
        id="a filter over items that are no objects",
    ),
    pytest.param(".status.conditions[?(@.type=='A')].status", {}, None, id="a filter over nothing"),
    pytest.param(".a[*].b", {"a": [{"b": 1}, {"b": 2}]}, 1, id="the first of all items"),
    pytest.param(".a[-1]", {"a": [1, 2]}, 2, id="the last item"),
    pytest.param(".a[-1:].b", {"a": [{"b": 1}, {"b": 2}]}, 2, id="a slice from the last item on"),
    pytest.param(".a[-3]", {"a": [1, 2]}, None, id="an item before the first"),
    pytest.param(r".labels.example\.com", {"labels": {"example.com": "1"}}, "1", id="a name with an escaped dot"),
]


@pytest.mark.parametrize(("path", "manifest", "want"), FOUND)
def test_a_path_finds_the_first_thing_at_its_place(path: str, manifest: dict[str, Any], want: object) -> None:
    assert compiled(path)(manifest) == want


@pytest.mark.parametrize("path", ["", "spec", ".spec.", ".a..b", ".a[?(@.b>1)]", "{.spec}", "$.a"])
def test_a_path_of_another_form_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="JSONPath"):
        compiled(path)


CELLS = [
    pytest.param("string", "text", "text", id="a string is itself"),
    pytest.param("string", 3, "3", id="a number in a column of strings"),
    pytest.param("string", True, "true", id="a boolean in a column of strings"),
    pytest.param("string", {"a": [1, "é"]}, '{"a":[1,"é"]}', id="an object in a column of strings, as JSON"),
    pytest.param("integer", 3, 3, id="an integer"),
    pytest.param("integer", 3.9, 3, id="a number in a column of integers loses its fraction"),
    pytest.param("integer", "3", None, id="a string in a column of integers is not shown"),
    pytest.param("integer", True, None, id="a boolean in a column of integers is not shown"),
    pytest.param("number", 1.5, 1.5, id="a number"),
    pytest.param("number", "1.5", None, id="a string in a column of numbers is not shown"),
    pytest.param("boolean", False, False, id="a boolean"),
    pytest.param("boolean", 0, None, id="a number in a column of booleans is not shown"),
    pytest.param("date", "2026-01-02T03:03:00Z", "65s", id="a time is an age"),
    pytest.param("date", "yesterday", "<invalid>", id="a time that is none"),
    pytest.param("date", 5, None, id="a number in a column of times is not shown"),
    pytest.param("date", None, None, id="no time"),
]


@pytest.mark.parametrize(("kind", "value", "want"), CELLS)
def test_a_cell_is_written_by_the_type_of_its_column(kind: str, value: object, want: object) -> None:
    column = custom_column("X", ".x", kind)
    cell = column.value({"x": value}, NOW)
    assert (cell, type(cell)) == (want, type(want))


def test_a_type_that_columns_do_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match="'object' is not a type of columns"):
        custom_column("X", ".x", "object")


@given(st.text(alphabet="abcXYZ_", min_size=1), st.text(alphabet="abc./-", min_size=1), st.integers())
def test_a_path_made_of_fields_and_keys_finds_what_was_put_there(name: str, key: str, value: int) -> None:
    assert compiled(f".{name}['{key}'].{name}")({name: {key: {name: value}}}) == value


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=20_000)))
def test_an_age_never_fails_and_begins_with_a_number(age: timedelta) -> None:
    column = custom_column("Age", ".metadata.creationTimestamp", "date")
    created = (datetime(2100, 1, 1, tzinfo=UTC) - age).isoformat()
    cell = column.value({"metadata": {"creationTimestamp": created}}, datetime(2100, 1, 1, tzinfo=UTC))
    assert cell[0].isdigit()
