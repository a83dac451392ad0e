"""Every command block of README and docs/ works as it is written, and prints what it shows."""

import re
from pathlib import Path

import pytest

from .blocks import Before, Command, File, NotRun, pages, steps
from .matching import alike
from .shell import ROOT, Printed, Shell

PAGES = [page for page in pages(ROOT) if any(isinstance(one, Command) for one in steps(page.read_text()))]
MOST_NOT_RUN = 5
ELSEWHERE = {"needs a Kubernetes cluster", "needs Ray"}
"""What these blocks say is tested in tests/cluster and tests/ray_real."""

COMMAND = re.compile(r"(?:\$ |(?:fairway|kubectl|make|pip|pipx) +[a-z-])")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_commands_of_a_page_do_what_it_says(page: Path, tmp_path: Path) -> None:
    with Shell(tmp_path) as shell:
        for step in [*steps(page.read_text()), None]:
            if isinstance(step, Command) and step.in_foreground:
                shell.start(step.text)
                continue
            for text, done in shell.interrupt():
                assert done.exit_code in {0, 130}, told(page, 0, text, done)
            match step:
                case File(name, text):
                    shell.write(name, text)
                case Before(line, script):
                    done = shell.run(script)
                    assert done.exit_code == 0, told(page, line, script, done)
                case Command(line, text, output):
                    done = shell.run(text)
                    assert done.exit_code == step.exit_code, told(page, line, text, done)
                    assert not output or alike(output, done.lines), told(page, line, text, done, shown=output)


def told(page: Path, line: int, text: str, done: Printed, shown: tuple[str, ...] = ()) -> str:
    want = ["", "the page shows", *shown] if shown else []
    printed = [f"exit code {done.exit_code}", *done.lines]
    return "\n".join([f"{name_of(page)}:{line}: {text}", "", *printed, *want])


def test_few_blocks_are_not_run_and_each_has_a_reason() -> None:
    left_out = [
        f"{name_of(page)}:{one.line}: {one.reason}"
        for page in pages(ROOT)
        for one in steps(page.read_text())
        if isinstance(one, NotRun) and one.reason not in ELSEWHERE
    ]

    assert len(left_out) <= MOST_NOT_RUN, "\n".join(left_out)


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
