"""What a page of documentation holds that can be run: its command blocks, in order, and the files it shows.

    ```console             commands behind `$ `, continued behind `> `, each followed by what it prints
    ```yaml                a file if its first line is a comment with nothing but its name: `# train.yaml`

A comment above a block says what a reader need not see:

    <!-- before: fairway up --cpus 16 -->          runs first, and its output does not matter; can have several lines
    <!-- needs: ray -->                            the block below it is run by the tests of that place, see `PLACES`
    <!-- before with ray: pip list -->             the same as `before`, in that place
    <!-- not run: plays the whole demo -->         leaves out the block below it, for a reason
"""

import re
from pathlib import Path
from typing import NamedTuple

_PARTS = re.compile(
    r"^[ ]{0,3}<!--\s*(?P<directive>not run|needs|before)(?: with (?P<place>\w+))?:(?P<text>.*?)-->"
    r"|^(?P<indent>[ ]{0,3})```(?P<language>\w*)[^\n]*\n(?P<body>.*?)^(?P=indent)```[ ]*$",
    flags=re.DOTALL | re.MULTILINE,
)
_FILE_NAME = re.compile(r"#\s*([\w./-]+\.\w+)\s*")
_EXIT_CODE = re.compile(r"#\s*exits with (\d+)\s*$")


PLACES = {
    "ray": "tests/ray_real/test_pages.py",
    "cluster": "tests/cluster/test_pages.py",
    "kuberay": "tests/cluster/test_pages.py",
    "yunikorn": "tests/cluster/test_pages.py",
    "systemd": "tests/pages/test_machine.py",
    "ssh": "tests/pages/test_machine.py",
}
"""What a block may need that not every machine has, and the tests that run such blocks."""


class Command(NamedTuple):
    """One command with what the page shows of its output; no lines where it shows nothing."""

    line: int
    text: str
    output: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0, unless a comment behind the command says otherwise: `# exits with 2`."""
        told = _EXIT_CODE.search(self.text)
        return int(told[1]) if told else 0

    @property
    def in_foreground(self) -> bool:
        """Whether it runs until it is interrupted, as a comment behind it says: `# until Ctrl-C`."""
        return self.text.endswith("# until Ctrl-C")


class File(NamedTuple):
    """A file that a page shows and the commands below it use."""

    name: str
    text: str


class Before(NamedTuple):
    """What is done before a block so that it can run."""

    line: int
    script: str


class NotRun(NamedTuple):
    """A block that is left out."""

    line: int
    reason: str


Step = Command | File | Before | NotRun


def steps(text: str, place: str = "") -> list[Step]:
    """What a page does in a place, or where it needs none, in order; `ValueError` for what cannot be understood."""
    found: list[Step] = []
    needed = left_out = ""
    for part in _PARTS.finditer(text):
        line = text.count("\n", 0, part.start()) + 1
        words = " ".join((part["text"] or "").split())
        if part["directive"] == "before":
            found += [Before(line, part["text"].strip())] if _known(part["place"] or "", line) == place else []
        elif part["directive"] == "needs":
            needed = _known(words, line)
        elif part["directive"]:
            left_out = words
            if not left_out:
                raise ValueError(f"line {line}: `not run:` needs a reason")
        elif part["language"] == "console":
            if left_out:
                found += [NotRun(line, left_out)] if not place else []
            elif needed == place:
                found += _commands(_dedented(part["body"], part["indent"]), line)
            needed = left_out = ""
        elif name := _FILE_NAME.fullmatch(part["body"].partition("\n")[0].strip()):
            found.append(File(name[1], _dedented(part["body"], part["indent"])))
    if needed or left_out:
        raise ValueError(f"`{needed or left_out}` is followed by no block of commands")
    return found


def _known(place: str, line: int) -> str:
    if place and place not in PLACES:
        raise ValueError(f"line {line}: {place!r} is no place where a block is run; known: {', '.join(PLACES)}")
    return place


def pages(root: Path) -> list[Path]:
    """Every page whose commands are run."""
    return [root / "README.md", *sorted((root / "docs").rglob("*.md"))]


def pages_with(root: Path, place: str) -> list[Path]:
    """Those with commands that need this place."""
    return [one for one in pages(root) if any(isinstance(step, Command) for step in steps(one.read_text(), place))]


def _dedented(body: str, indent: str) -> str:
    return "".join(one.removeprefix(indent) for one in body.splitlines(keepends=True))


def _commands(body: str, fence: int) -> list[Command]:
    found: list[Command] = []
    for number, row in enumerate(body.splitlines(), fence + 1):
        if row.startswith("$ "):
            found.append(Command(number, row[2:], ()))
        elif not found:
            raise ValueError(f"line {number}: a block begins with a command behind `$ `, and this is {row!r}")
        elif row.startswith("> ") and not found[-1].output:
            found[-1] = found[-1]._replace(text=f"{found[-1].text}\n{row[2:]}")
        else:
            found[-1] = found[-1]._replace(output=(*found[-1].output, row))
    return found
