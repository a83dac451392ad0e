"""Runs the commands of a page in a shell, and compares what they print with what the page shows."""

from pathlib import Path

from .blocks import Before, Command, File, steps
from .matching import alike
from .shell import ROOT, Printed, Shell


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def run_page(page: Path, shell: Shell, place: str = "") -> None:
    """Do what a page says, in order: the blocks that need this place, or those that need none."""
    for step in [*steps(page.read_text(), place), None]:
        if isinstance(step, Command) and step.in_foreground:
            shell.start(step.text)
            continue
        for text, done in shell.interrupt():
            assert done.exit_code in {0, 130}, _told(page, 0, text, done)
        match step:
            case File(name, text):
                shell.write(name, text)
            case Before(line, script):
                done = shell.run(script)
                assert done.exit_code == 0, _told(page, line, script, done)
            case Command(line, text, output):
                done = shell.run(text)
                assert done.exit_code == step.exit_code, _told(page, line, text, done)
                assert not output or alike(output, done.lines), _told(page, line, text, done, shown=output)


def _told(page: Path, line: int, text: str, done: Printed, shown: tuple[str, ...] = ()) -> str:
    want = ["", "the page shows", *shown] if shown else []
    printed = [f"exit code {done.exit_code}", *done.lines]
    return "\n".join([f"{name_of(page)}:{line}: {text}", "", *printed, *want])
