"""`fairway launch`."""

from typing import Any

import click

from fairway.cli.announcing import aligned
from fairway.cli.launching import launching_options, run


@click.command()
@click.option("--cluster", "-c", default="", metavar="NAME", help="Name of the run.  [default: generated]")
@launching_options
@click.pass_context
def launch(ctx: click.Context, /, *, task: tuple[str, ...], cluster: str, **given: Any) -> None:
    """Run a task once.

    Like `fairway jobs launch`, but without recovery: a preempted task ends as FAILED. The name given with -c can be
    used again once the task has ended.

    \b
    Examples:
      fairway launch -c dev train.yaml
      fairway launch -y -d -c low low.yaml
      fairway launch --cpus 2 'make test'
    """
    ctx.exit(run(task, given, words_after=lambda ids: _next(cluster or ids), cluster=cluster, recover=False))


def _next(name: str) -> str:
    return aligned(
        [(f"status {name}", "show its status"), (f"logs {name}", "follow its log"), (f"down {name}", "stop it")]
    )
