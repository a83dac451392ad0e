"""Files and functions stay small enough to be read whole."""

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = sorted(path for folder in ("src", "tests", "bench", "examples") for path in (ROOT / folder).rglob("*.py"))
LONGEST_FILE = 800
LONGEST_FUNCTION = 80


def test_no_file_is_too_long() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in SOURCES}

    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE} == {}


def test_no_function_is_too_long() -> None:
    lengths = {
        f"{path.relative_to(ROOT)}:{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in SOURCES
        if "tests" not in path.relative_to(ROOT).parts  # where long functions are tables
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }

    assert len(lengths) > 500
    assert {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION} == {}
