#!/usr/bin/env python3
"""Check that docs, help texts, messages and docstrings avoid words that hide the subject of a sentence.

    tools/words/check.py                    exit code 1 and one line for each finding

Pages and strings must have none. Docstrings and names of functions may have as many as allowed.txt says for their
package; lower the number when you remove some.
"""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
ALLOWED = Path(__file__).with_name("allowed.txt")
WORDS = re.compile(
    r"\b(?:who(?:m|se)?(?:so)?ever|nobody|anybody|somebody|hears? of|heard of|who asks|goes on|going on|go on|a hand"
    r"|forsaken|(?:is|are|was|were|be|been|being) told|(?:is|are|was) meant|for want of|unborn|no news)\b",
    re.IGNORECASE,
)
NAMES = re.compile(
    r"_?(?:told|hear|heard|born|unborn|nobody|somebody|whoever|brought|taken_apart|carried_out|answered)(?:_\w+)?"
    r"|_tell(?:_\w+)?|tell_\w+|\w*_(?:told|nobody|somebody|unborn|born|whoever)"
)


class Finding(NamedTuple):
    """A word at a place; `package` is empty where none is allowed."""

    path: Path
    line: int
    word: str
    package: str = ""


def in_pages(root: Path) -> Iterator[Finding]:
    """Words in README, the changelog and the pages of docs/."""
    for page in [root / "README.md", root / "CHANGELOG.md", *sorted((root / "docs").rglob("*.md"))]:
        for number, line in enumerate(page.read_text().splitlines(), 1):
            yield from (Finding(page, number, found[0]) for found in WORDS.finditer(line))


def in_source(root: Path) -> Iterator[Finding]:
    """Words in strings and docstrings, and names of functions, of every module of the package."""
    source = root / "src" / "fairway"
    for path in sorted(source.rglob("*.py")):
        package = path.relative_to(source).parts[0]
        docstrings = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and NAMES.fullmatch(node.name):
                yield Finding(path, node.lineno, f"def {node.name}", package)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                docstrings.add(id(node.value))
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                own = package if id(node) in docstrings else ""
                for found in WORDS.finditer(" ".join(node.value.split())):
                    yield Finding(path, node.lineno, found[0], own)


def allowed(text: str) -> dict[str, int]:
    """The number of findings in docstrings and names by package, from lines `package number`."""
    return {package: int(number) for package, number in map(str.split, text.splitlines())}


def problems(root: Path, budget: dict[str, int]) -> list[str]:
    """The findings beyond the budget, a line each."""
    found = [*in_pages(root), *in_source(root)]
    counts = Counter(one.package for one in found if one.package)
    return [
        f"{one.path.relative_to(root)}:{one.line}: {one.word}"
        for one in found
        if not one.package or counts[one.package] > budget.get(one.package, 0)
    ]


def main() -> int:
    """Print the problems; 1 if there are any."""
    found = problems(ROOT, allowed(ALLOWED.read_text()))
    print(*found, sep="\n", end="\n" if found else "", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
