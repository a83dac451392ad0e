"""docs/develop/glossary.md: short, and every place that it names exists."""

import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs/develop/glossary.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text().splitlines()
    if line.startswith("| ")
][1:]


def test_it_has_at_most_forty_terms_each_once() -> None:
    terms = [row[0] for row in ROWS]

    assert 0 < len(terms) <= 40
    assert sorted(terms) == sorted(set(terms))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_every_term_has_an_origin_and_a_place_that_exists(row: list[str]) -> None:
    _, meaning, origin, place = row
    [path] = re.findall(r"^`(fairway(?:\.\w+)+)`$", place)
    module, _, name = path.rpartition(".")

    assert meaning
    assert origin
    assert not re.fullmatch(r"ours:?", origin), "say why it has no other name"
    if name[0].isupper():
        assert hasattr(importlib.import_module(module), name)
    else:
        importlib.import_module(path)
