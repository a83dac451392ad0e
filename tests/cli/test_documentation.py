"""Every command and every option is in docs/use/cli.md, in the section of the command or where that points to."""

import re
from pathlib import Path

import click
import pytest

from fairway.cli.group import fairway

PAGE = (Path(__file__).parents[2] / "docs/use/cli.md").read_text()
COMMON = "Common to all commands"
SEE = {
    "launch": "jobs launch",
    "logs": "jobs logs",
    "serve": "up",
    "jobs wait": "jobs cancel",
    "jobs hold": "jobs cancel",
    "jobs release": "jobs cancel",
    "jobs retry": "jobs cancel",
}
"""Whose options are explained with another command, which the section must name."""


def sections() -> dict[str, str]:
    """The text below each heading; commands by their words."""
    parts = re.split(r"^#{2,4} (.+)$", PAGE, flags=re.MULTILINE)
    found = {}
    for heading, text in zip(parts[1::2], parts[2::2], strict=True):
        command = re.match(r"`fairway ([a-z]+(?: [a-z]+)*)", heading)
        found[command[1] if command else heading] = text
    return found


def commands(group: click.Group, path: tuple[str, ...] = ()) -> dict[str, click.Command]:
    found: dict[str, click.Command] = {}
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found[" ".join((*path, name))] = command
        if isinstance(command, click.Group):
            found |= commands(command, (*path, name))
    return found


SECTIONS = sections()
COMMANDS = commands(fairway)
LEAVES = [words for words, command in COMMANDS.items() if not isinstance(command, click.Group)]


@pytest.mark.parametrize("words", LEAVES)
def test_every_command_is_explained_with_an_example(words: str) -> None:
    assert words in SECTIONS, f"docs/use/cli.md has no section for `fairway {words}`"
    assert f"fairway {words}" in SECTIONS[words].replace('"$(', ""), "the section has no example"


@pytest.mark.parametrize("words", LEAVES)
def test_every_option_is_explained(words: str) -> None:
    texts = [SECTIONS[words], SECTIONS[COMMON]]
    if words in SEE:
        assert f"[`{SEE[words]}`]" in SECTIONS[words]
        texts.append(SECTIONS[SEE[words]])
    known = set(re.findall(r"(?<![\w-])--?[a-zA-Z][a-z-]*", "\n".join(texts)))

    missing = [
        flag
        for option in COMMANDS[words].params
        if isinstance(option, click.Option)
        for flag in (*option.opts, *option.secondary_opts)
        if flag not in known
    ]

    assert missing == []


def test_nothing_is_explained_that_there_is_not() -> None:
    explained = {words for words in SECTIONS if f"`fairway {words}" in PAGE}

    assert explained - COMMANDS.keys() == set()


def test_links_inside_the_page_lead_somewhere() -> None:
    headings = re.findall(r"^#+ (.+)$", PAGE, flags=re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}

    assert set(re.findall(r"\]\(#([^)]+)\)", PAGE)) - anchors == set()
