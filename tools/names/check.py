#!/usr/bin/env python3
"""Check that no public class name is defined twice in src/fairway, so that a search for it finds the one that is meant.

tools/names/check.py                    exit code 1 and one line for each name that is defined more than once
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "src/fairway"


def problems(root: Path) -> list[str]:
    """The public classes of the modules beneath `root` that share their name with another, a sentence each."""
    found = defaultdict(list)
    for path in sorted(root.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(f"{path.relative_to(root)}:{node.lineno}")
    return [
        f"{name} is defined in {', '.join(places)}: give each a name of its own"
        for name, places in sorted(found.items())
        if len(places) > 1
    ]


def main() -> int:
    found = problems(SOURCES)
    print(*found, sep="\n", end="\n" if found else "", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
