"""The rules and columns of the core kinds answer as a real API server did."""

from datetime import datetime
from typing import Any

import pytest

from fairway.kinds.kind import Manifest
from kinds.core import replay

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
