"""Every command block of README and docs/ works as it is written, and prints what it shows."""

import re
from pathlib import Path

import pytest

from .blocks import PLACES, NotRun, pages, pages_with, steps
from .running import name_of, run_page
from .shell import ROOT, Shell

MOST_NOT_RUN = 1

COMMAND = re.compile(r"(?:\$ |(?:fairway|kubectl|make|pip|pipx) +[a-z-])")


@pytest.mark.parametrize("page", pages_with(ROOT, ""), ids=name_of)
def test_the_commands_of_a_page_do_what_it_says(page: Path, tmp_path: Path) -> None:
    with Shell(tmp_path) as shell:
        run_page(page, shell)


def test_few_blocks_are_not_run_and_each_has_a_reason() -> None:
    left_out = [
        f"{name_of(page)}:{one.line}: {one.reason}"
        for page in pages(ROOT)
        for one in steps(page.read_text())
        if isinstance(one, NotRun)
    ]

    assert len(left_out) <= MOST_NOT_RUN, "\n".join(left_out)


@pytest.mark.parametrize(("place", "tests"), PLACES.items())
def test_blocks_that_need_something_are_run_by_tests_that_have_it(place: str, tests: str) -> None:
    assert pages_with(ROOT, place)
    assert f'pages_with(ROOT, "{place}")' in (ROOT / tests).read_text()


@pytest.mark.parametrize("page", pages(ROOT), ids=name_of)
def test_commands_are_in_blocks_that_are_run(page: Path) -> None:
    """Not in blocks of another kind, nor in indented ones."""
    if page.name == "writing-docs.md":  # shows how such blocks are written
        return
    text = re.sub(r"<!--.*?-->", "", page.read_text(), flags=re.DOTALL)
    outside = re.sub(r"^( *)```(console|python|yaml)\n.*?^\1```$", "", text, flags=re.DOTALL | re.MULTILINE)

    found = [row for row in outside.splitlines() if re.match(r"(    +|```(ba|z)?sh)", row) and COMMAND.search(row)]
    found += re.findall(r"^ *```(?:bash|sh|shell|zsh|text)$", outside, flags=re.MULTILINE)

    assert found == [], "put these into a ```console block, each behind `$ `"
