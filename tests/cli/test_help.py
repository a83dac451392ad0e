"""`--help` of every command, and what is said to those who mistype."""

import re

import click
import pytest
from click.testing import CliRunner

from fairway.cli.group import fairway


def commands(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The words that lead to every command, groups included."""
    found = []
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found.append((*path, name))
        if isinstance(command, click.Group):
            found += commands(command, (*path, name))
    return found


COMMANDS = commands(fairway)


def test_all_commands_are_known() -> None:
    assert [words[0] for words in COMMANDS if len(words) == 1] == [
        "launch",
        "jobs",
        "status",
        "logs",
        "down",
        "ray",
        "teams",
        "quota",
        "queues",
        "usage",
        "simulate",
        "top",
        "dashboard",
        "schedule",
        "apply",
        "get",
        "describe",
        "delete",
        "use",
        "up",
        "serve",
        "controller",
        "cluster",
        "node",
        "shutdown",
        "service",
        "doctor",
        "users",
        "backup",
        "restore",
        "completion",
        "version",
    ]
    assert {words[1] for words in COMMANDS if words[0] == "users" and len(words) == 2} == {
        "add",
        "edit",
        "groups",
        "remove",
        "token",
        "list",
    }
    assert {words[1] for words in COMMANDS if words[0] == "jobs" and len(words) == 2} == {
        "launch",
        "queue",
        "why",
        "logs",
        "files",
        "download",
        "wait",
        "history",
        "cancel",
        "hold",
        "release",
        "retry",
        "priority",
    }


@pytest.mark.parametrize("words", [(), *COMMANDS], ids=lambda words: " ".join(words) or "fairway")
def test_every_command_explains_itself(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(fairway, [*words, "--help"])

    assert result.exit_code == 0
    usage, explanation = result.stdout.split("\n\n", 1)
    assert usage.startswith("Usage: ")
    assert explanation.strip()[0].isupper()
    assert max(len(line) for line in result.stdout.splitlines()) <= 110


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_option_explains_itself(words: tuple[str, ...]) -> None:
    command: click.Command | None = fairway
    for word in words:
        assert isinstance(command, click.Group)
        command = command.get_command(click.Context(command), word)
    assert command is not None

    silent = [option.name for option in command.params if isinstance(option, click.Option) and not option.help]

    assert silent == []


@pytest.mark.parametrize(
    ("typed", "want"),
    [
        pytest.param(["serv"], "Did you mean `fairway serve`?", id="nearly a command"),
        pytest.param(["job", "quee"], "Did you mean `fairway jobs queue`?", id="nearly a command for jobs"),
        pytest.param(["frobnicate"], "`fairway --help` lists all commands", id="no command"),
        pytest.param(["serve", "--prot", "1"], "--port", id="nearly an option"),
        pytest.param(["users", "add", "x", "--role", "king"], "'admin', 'editor', 'viewer'", id="no role"),
    ],
)
def test_who_mistypes_is_helped(typed: list[str], want: str) -> None:
    result = CliRunner().invoke(fairway, typed)

    assert result.exit_code == 2
    assert want in result.output


OUTDATED = re.compile(
    r"\b(so many|whoever|nobody|somebody|is told|are told|as things are|what to call it|say so)\b", re.IGNORECASE
)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_is_in_plain_words(words: tuple[str, ...]) -> None:
    text = " ".join(CliRunner().invoke(fairway, [*words, "--help"]).output.split())

    assert OUTDATED.findall(text) == []
