"""`fairway jobs launch`."""

from typing import Any

import click

from fairway.cli.announcing import aligned
from fairway.cli.launching import launching_options, run


@click.command()
@click.option("--name", "-n", default="", metavar="NAME", help="Name of the job.  [default: the task's name]")
@click.option("--num-jobs", type=int, default=1, metavar="N", help="Submit N copies of the job.")
@launching_options
@click.pass_context
def launch(ctx: click.Context, /, *, task: tuple[str, ...], name: str, num_jobs: int, **given: Any) -> None:
    """Run a task as a managed job; restart it after a preemption or a lost node.

    The task is a SkyPilot-style YAML file, `-` for standard input, or a command. A command runs in a copy of the
    current directory with this shell's Python; with --in-place it runs in the directory itself. The command prints why
    the job waits, then follows its log through all attempts until it ends. Ctrl-C ends the command, not the job.
    With -d it returns at once. With --num-jobs, $FAIRWAY_JOB_RANK is the number of each copy. A task
    file with `ray: {workers: 2}` is the driver of a Ray cluster of that size.

    Exit codes: 0 if the job succeeded (with -d: was submitted), 1 if it did not, 2 if the task file is invalid, 3 if
    no node or quota is large enough for it to ever run (with -d: a warning).

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
        ("jobs queue", "show its status"),
        (f"jobs why {ids}", "explain why it waits"),
        (f"jobs logs {ids}", "follow its log"),
        (f"jobs cancel {ids}", "stop it"),
    ]
    if not ids.isdecimal():
        lines = [("jobs queue", "show their status"), (f"jobs cancel {ids}", "stop them")]
    return aligned(lines)
