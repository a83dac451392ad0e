"""`fairway jobs launch`."""

from typing import Any

import click

from fairway.cli.announcing import aligned
from fairway.cli.launching import launching_options, run


@click.command()
@click.option("--name", "-n", default="", metavar="NAME", help="What to call it.  [default: the task's name]")
@click.option("--num-jobs", type=int, default=1, metavar="N", help="The same so many times.")
@launching_options
@click.pass_context
def launch(ctx: click.Context, /, *, task: tuple[str, ...], name: str, num_jobs: int, **given: Any) -> None:
    """Run a task, and run it again after every preemption or lost machine.

    The task is a file like SkyPilot's, `-` for standard input, or a command. A command runs in a copy of the current
    directory with the Python of this shell; with --in-place it runs in the directory itself. The job waits in its
    queue, and this command shows why, then what the job writes, through all its attempts, until it has ended; Ctrl-C
    leaves the job alone. With -d it returns at once. Each of several jobs (--num-jobs) finds its number in
    $FAIRWAY_JOB_RANK.

    Ends with 0 if the job succeeded or was submitted (-d), 1 if it did not, 2 if the task file is wrong, 3 if it can
    never run as things are: no machine has what it asks for. With -d that is a warning.

    \b
    Examples:
      fairway jobs launch train.yaml
      fairway jobs launch -d -n sweep --num-jobs 100 --env LR train.yaml
      fairway jobs launch --cpus 4 --gpus T4:1 --queue research -- python train.py --epochs 3
      fairway jobs launch --secret HF_TOKEN --priority high-priority train.yaml
    """
    ctx.exit(run(task, given, words_after=_next, name=name, num_jobs=num_jobs))


def _next(ids: str) -> str:
    lines = [
        ("jobs queue", "where it stands"),
        (f"jobs why {ids}", "why it waits"),
        (f"jobs logs {ids}", "what it writes"),
        (f"jobs cancel {ids}", "to end it"),
    ]
    if not ids.isdecimal():
        lines = [("jobs queue", "where they stand"), (f"jobs cancel {ids}", "to end them")]
    return aligned(lines)
