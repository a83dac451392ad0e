"""The check of `make lint` that pages, messages and docstrings use plain words."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CHECK = runpy.run_path(str(ROOT / "tools/words/check.py"))


def test_pages_messages_and_docstrings_are_in_plain_words() -> None:
    assert CHECK["main"]() == 0


@pytest.mark.parametrize(
    ("page", "source", "budget", "expected"),
    [
        pytest.param("A pod waits.", '"""Waits for a pod."""', {}, [], id="plain words"),
        pytest.param("One\nWhoever waits.", "", {}, ["docs/page.md:2: Whoever"], id="a page"),
        pytest.param("", 'x = f"{y} is\\n told"', {}, ["src/fairway/cli/a.py:1: is told"], id="a message"),
        pytest.param("", '"""Nobody waits."""', {}, ["src/fairway/cli/a.py:1: Nobody"], id="a docstring"),
        pytest.param("", "def _told(): ...", {}, ["src/fairway/cli/a.py:1: def _told"], id="a name"),
        pytest.param("", "def told_apart_from(): ...\ndef tell(): ...", {"cli": 1}, [], id="allowed ones"),
        pytest.param("", 'x = "it goes on"', {"cli": 9}, ["src/fairway/cli/a.py:1: goes on"], id="never in a message"),
    ],
)
def test_findings(tmp_path: Path, page: str, source: str, budget: dict[str, int], expected: list[str]) -> None:
    for name, text in {
        "README.md": "",
        "CHANGELOG.md": "",
        "docs/page.md": page,
        "src/fairway/cli/a.py": source,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    assert CHECK["problems"](tmp_path, budget) == expected
