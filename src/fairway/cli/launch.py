"""`fairway launch`."""

from typing import Any

import click

from fairway.cli.announcing import aligned
from fairway.cli.launching import launching_options, run


@click.command()
@click.option("--cluster", "-c", default="", metavar="NAME", help="What to call it.  [default: one that is free]")
@launching_options
@click.pass_context
def launch(ctx: click.Context, /, *, task: tuple[str, ...], cluster: str, **given: Any) -> None:
    """Run a task once.

    As `fairway jobs launch`, but after a preemption the task is not run again: it ends as FAILED. A name that is given
    with -c is free again when its task has ended.

    \b
    Examples:
      fairway launch -c dev train.yaml
      fairway launch -y -d -c low low.yaml
      fairway launch --cpus 2 'make test'
    """
    ctx.exit(run(task, given, words_after=lambda ids: _next(cluster or ids), cluster=cluster, recover=False))


def _next(name: str) -> str:
    return aligned(
        [(f"status {name}", "where it stands"), (f"logs {name}", "what it writes"), (f"down {name}", "to end it")]
    )
