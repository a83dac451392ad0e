"""Blocks of the docs and examples of the help texts that need Ray work as they are written."""

from pathlib import Path

import pytest

from pages.blocks import pages_with
from pages.examples import run_examples
from pages.running import name_of, run_page
from pages.shell import ROOT, Shell


@pytest.mark.parametrize("page", pages_with(ROOT, "ray"), ids=name_of)
def test_the_commands_of_a_page_work_with_ray(page: Path, tmp_path: Path) -> None:
    with Shell(tmp_path) as shell:
        run_page(page, shell, "ray")


def test_the_examples_of_commands_for_ray_work(tmp_path: Path) -> None:
    with Shell(tmp_path, BROWSER="true") as shell:
        assert shell.run(". $SCENES/notebooks.sh").exit_code == 0
        run_examples(shell, "ray")
