"""The examples of the help texts."""

import re
import shlex
from collections.abc import Iterator

import click

from fairway.cli.group import fairway

from .shell import Printed, Shell

NEEDS = {
    "fairway service status": "systemd",
    "fairway service uninstall": "systemd",
    "fairway cluster install --image registry.example.com/fairway:0.1.0": "cluster",
    "fairway cluster install --context prod --admission kueue --replicas 3": "cluster",
    "fairway cluster install --dry-run": "cluster",
    "fairway cluster doctor": "cluster",
    "fairway cluster doctor -o json": "cluster",
    "fairway cluster doctor --fix": "cluster",
    "fairway cluster doctor --fix -y --queues skypilot": "cluster",
    "fairway cluster uninstall": "cluster",
    "fairway cluster uninstall --dry-run": "cluster",
    "fairway cluster uninstall --delete-jobs -y": "cluster",
    "fairway node --kubeconfig ./kubeconfig": "cluster",
    "fairway node --taints '' --cpus 8 --memory 32Gi": "cluster",
    "fairway node --remove": "cluster",
    "fairway ray dashboard notebooks": "ray",
    "fairway ray dashboard notebooks --open": "ray",
}
"""What an example needs that not every machine has: it is run by the tests of that place (`blocks.PLACES`)."""


FOREGROUND = (
    "fairway serve",
    "fairway controller",
    "fairway get workloads -w",
    "fairway node --kubeconfig",
    "fairway node --taints",
)
"""Examples that begin so run until they are interrupted."""

CHOSEN = {
    "1f0c93ab": 'fairway users list -o json | sed -n \'/"ben"/,$ s/.*"id": "\\(.*\\)".*/\\1/p\' | head -1',
}
"""What stands for a value that the server chooses, and the command that prints the real one."""

ASKING = {"fairway cluster doctor --fix", "fairway cluster uninstall"}
"""Examples that ask for confirmation, on a terminal."""


def all_examples() -> list[str]:
    """Of all commands, each once."""
    return [*dict.fromkeys(one for command in _commands(fairway) for one in _examples(command))]


def run_example(shell: Shell, example: str) -> Printed:
    for stands_for, command in CHOSEN.items():
        if stands_for in example:
            return run_example(shell, example.replace(stands_for, shell.run(command).lines[0]))
    if example in ASKING:
        return shell.run(f"yes | script --quiet --return --command {shlex.quote(example)} /dev/null")
    if not example.startswith(FOREGROUND):
        return shell.run(example)
    shell.start(example)
    [(_, done)] = shell.interrupt()
    return done._replace(exit_code=done.exit_code % 130)


def run_examples(shell: Shell, place: str) -> None:
    """Run those that need a place, in the order of the help."""
    for example in all_examples():
        if NEEDS.get(example) == place:
            done = run_example(shell, example)
            assert done.exit_code == 0, "\n".join([f"$ {example}", *done.lines, f"exit code {done.exit_code}"])


def _commands(group: click.Group) -> Iterator[click.Command]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield command
        if isinstance(command, click.Group):
            yield from _commands(command)


def _examples(command: click.Command) -> list[str]:
    """The commands below `Examples:` or `Example:`, without what is said about them."""
    parts = [re.split("Examples?:", text or "", maxsplit=1) for text in (command.help, command.epilog)]
    below = "\n".join(part[1] for part in parts if len(part) == 2)
    rows = [re.split(r"\s{2,}", row.strip())[0] for row in below.splitlines()]
    return [row for row in rows if "fairway" in row]
