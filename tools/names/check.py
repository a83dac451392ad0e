#!/usr/bin/env python3
"""Check that no public class name is defined twice in src/fairway, so that a search for it finds the one that is meant.

    tools/names/check.py                    exit code 1 and one line for each name that is defined more than once

Names in exceptions.txt may still be defined twice. The list can only shrink: an entry that is no longer needed fails
the check until it is removed.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parents[1] / "src/fairway"
EXCEPTIONS = HERE / "exceptions.txt"


def definitions(root: Path) -> dict[str, list[str]]:
    """Where each public class of the modules beneath `root` is defined, as path:line."""
    found = defaultdict(list)
    for path in sorted(root.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(f"{path.relative_to(root)}:{node.lineno}")
    return found


def problems(root: Path, exceptions: set[str]) -> list[str]:
    """What is wrong, a sentence each."""
    repeated = {name: places for name, places in definitions(root).items() if len(places) > 1}
    return [
        *(
            f"{name} is defined in {', '.join(places)}: give each a name of its own"
            for name, places in sorted(repeated.items())
            if name not in exceptions
        ),
        *(
            f"{name} is no longer defined twice: remove it from {EXCEPTIONS}"
            for name in sorted(exceptions - set(repeated))
        ),
    ]


def main() -> int:
    found = problems(SOURCES, set(EXCEPTIONS.read_text().split()) if EXCEPTIONS.exists() else set())
    print(*found, sep="\n", end="\n" if found else "", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
