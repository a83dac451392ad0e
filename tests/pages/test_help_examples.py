"""Every example of the help texts works, on a server where the jobs are that it names."""

import re
from collections.abc import Iterator
from pathlib import Path

import click

from fairway.cli.group import fairway

from .shell import Shell

FOREGROUND = "stays in the foreground until it is interrupted"
NOT_RUN = {
    "fairway serve": FOREGROUND,
    "fairway serve --state ./state --port 0": FOREGROUND,
    "fairway serve --host 0.0.0.0 --tls-cert server.crt --tls-key server.key": FOREGROUND,
    "fairway get workloads -w": FOREGROUND,
    "fairway logs pod/sample-job-abcde -c main": "names a pod that the server chose a name for",
}
RUNNING = "rm -f ~/stop; fairway jobs retry 3-9; fairway jobs launch -d -n sweep low.yaml"
ENDING = "touch ~/stop; fairway jobs retry 3; true"
"""The jobs of the scene run until there is a file ~/stop."""

BEFORE = {
    "fairway launch -c dev": "fairway down -y dev; true",
    "fairway launch --cpus 2": "echo 'test:' >Makefile",
    "fairway jobs logs": ENDING,
    "fairway jobs wait": ENDING,
    "fairway logs": ENDING,
    "fairway jobs cancel": RUNNING,
    "fairway jobs hold": RUNNING,
    "fairway jobs priority": RUNNING,
    "fairway jobs retry": f"{RUNNING}; fairway jobs cancel 3 5-9",
    "fairway jobs release": f"{RUNNING}; fairway jobs hold 3",
    "fairway status dev": "fairway launch -d -c dev low.yaml; true",
    "fairway down": "fairway launch -d -c dev low.yaml; true",
    "fairway queues": "fairway apply -f queues.yaml",
    "fairway delete clusterqueue": "fairway apply -f queues.yaml",
    "fairway delete -f": "fairway apply -f queues.yaml",
    "fairway delete pod/one": "for one in one two; do kubectl run $one --image=any --command -- sleep 9; done",
    "fairway restore": "fairway shutdown --jobs; test -f ~/fairway.tar || fairway backup ~/fairway.tar",
    "fairway up": "fairway shutdown",
}
"""What has to be so before examples that begin with these words; the longest that fits."""


def commands(group: click.Group) -> Iterator[click.Command]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield command
        if isinstance(command, click.Group):
            yield from commands(command)


def examples(command: click.Command) -> list[str]:
    """The commands below `Examples:`, without what is said about them."""
    _, _, below = (command.help or "").partition("Examples:")
    rows = [re.split(r"\s{2,}", row.strip())[0] for row in below.splitlines()]
    return [row for row in rows if "fairway" in row]


def before(example: str) -> str:
    words = example[example.index("fairway") :]
    fitting = [start for start in BEFORE if f"{words} ".startswith(f"{start} ")]
    return BEFORE[max(fitting, key=len)] if fitting else ""


def test_the_examples_of_all_commands_work(tmp_path: Path) -> None:
    with Shell(tmp_path) as shell:
        assert shell.run("export KUBECONFIG=~/.fairway/kubeconfig; . $SCENES/jobs.sh").exit_code == 0
        failed = []
        for example in dict.fromkeys(one for command in commands(fairway) for one in examples(command)):
            if example in NOT_RUN:
                continue
            shell.run(before(example) or "true")
            done = shell.run(example)
            if done.exit_code:
                failed.append("\n".join([f"$ {example}", *done.lines, f"exit code {done.exit_code}"]))
        assert not failed, "\n\n".join(failed)


def test_what_is_not_run_is_still_an_example() -> None:
    known = {one for command in commands(fairway) for one in examples(command)}

    assert NOT_RUN.keys() - known == set()
