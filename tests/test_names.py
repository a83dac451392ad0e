"""The check of `make lint` that no public class name is defined twice."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CHECK = runpy.run_path(str(ROOT / "tools/names/check.py"))


def test_no_public_class_of_fairway_is_defined_twice() -> None:
    assert CHECK["problems"](ROOT / "src/fairway") == []


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        pytest.param({"a.py": "class Plan: ...", "b.py": "class Step: ..."}, [], id="each name once"),
        pytest.param({"a.py": "class _Plan: ...", "b.py": "class _Plan: ..."}, [], id="private names may repeat"),
        pytest.param(
            {"a.py": "class Plan: ...", "in/b.py": "\nclass Plan: ..."},
            ["Plan is defined in a.py:1, in/b.py:2: give each a name of its own"],
            id="a name twice",
        ),
    ],
)
def test_the_check_reports(tmp_path: Path, sources: dict[str, str], expected: list[str]) -> None:
    for name, text in sources.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    assert CHECK["problems"](tmp_path) == expected
