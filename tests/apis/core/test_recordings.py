"""The rules and columns of the core kinds answer as a real API server did."""

import copy
from datetime import datetime

import pytest

from apis.core import replay

STEPS = dict(replay.steps())
TABLES = dict(replay.tables())


@pytest.mark.parametrize("name", [name for name, step in STEPS.items() if step.answer is not None])
def test_what_the_server_takes_becomes_the_same_object(name: str) -> None:
    step = STEPS[name]
    assert step.answer is not None
    manifest, errors = replay.answered(step)
    assert errors == []
    assert replay.comparable(manifest) == replay.comparable(step.answer)


@pytest.mark.parametrize("name", [name for name, step in STEPS.items() if step.answer is None])
def test_what_the_server_refuses_is_refused_for_the_same_fields(name: str) -> None:
    step = STEPS[name]
    _, errors = replay.answered(step)
    assert {(error.rule, error.path) for error in errors} == step.causes


@pytest.mark.parametrize("name", TABLES)
def test_rows_are_shown_as_the_server_shows_them(name: str) -> None:
    table = TABLES[name]
    kind = replay.KINDS[table["object"]["kind"]]
    expected = dict(zip([column["name"] for column in table["columns"]], table["cells"], strict=True))
    # The server's clock stood somewhere between the two.
    shown = [
        replay.row(kind, table["object"], datetime.fromisoformat(table[moment])) for moment in ("asked", "answered")
    ]
    assert expected in shown


@pytest.mark.parametrize("kind", sorted({table["object"]["kind"] for table in TABLES.values()}))
def test_columns_have_the_names_types_and_order_of_the_servers(kind: str) -> None:
    expected = next(table["columns"] for table in TABLES.values() if table["object"]["kind"] == kind)
    columns = replay.KINDS[kind].columns["v1"]
    own = [{field: getattr(column, field) for field in ("name", "type", "format", "priority")} for column in columns]
    named = {"name": "Name", "type": "string", "format": "name", "priority": 0}
    assert (own if kind == "Event" else [named, *own]) == expected


@pytest.mark.parametrize("kind", replay.KINDS)
def test_kinds_are_called_as_the_server_calls_them(kind: str) -> None:
    record = replay.KINDS[kind]
    listed = {
        entry["name"]: entry
        for entry in replay.discovered()
        if entry["groupVersion"] == record.api_version("v1") and entry["kind"] == kind
    }
    entry = listed[record.plural]
    assert entry["singularName"] == record.singular_name
    assert tuple(entry["shortNames"]) == record.short_names
    assert tuple(entry["categories"]) == record.categories
    assert entry["namespaced"] == record.namespaced
    assert (f"{record.plural}/status" in listed) == record.status


@pytest.mark.parametrize("kind", replay.KINDS)
def test_kinds_count_generations_where_the_server_does(kind: str) -> None:
    created = [step for step in STEPS.values() if step.kind.kind == kind and step.verb == "create" and step.answer]
    assert created
    counted = {"generation" in step.answer["metadata"] for step in created if step.answer}
    # A priority class has the number and never counts on; its own rule sets it.
    assert counted == {replay.KINDS[kind].generation or kind == "PriorityClass"}


@pytest.mark.parametrize("name", [name for name, step in STEPS.items() if step.answer is not None])
def test_defaults_change_nothing_the_second_time(name: str) -> None:
    step = STEPS[name]
    manifest, _ = replay.answered(step)
    again = copy.deepcopy(manifest)
    step.kind.rules.default(again)
    assert again == manifest


@pytest.mark.parametrize("name", [name for name, step in STEPS.items() if step.answer is not None])
def test_what_the_server_gives_out_is_as_it_should_be(name: str) -> None:
    answer = copy.deepcopy(STEPS[name].answer)
    assert answer is not None
    kind = STEPS[name].kind
    kind.rules.default(answer)
    assert replay.comparable(answer) == replay.comparable(STEPS[name].answer or {})
    assert kind.rules.validate_update(STEPS[name].answer or {}, answer) == []
