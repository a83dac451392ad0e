"""`fairway jobs hold`."""

from typing import Any

import click

from fairway.cli.changing import Choice, change, choosing_options, chosen, told, unless_ended, which
from fairway.cli.session import open_session


@click.command()
@choosing_options
@click.pass_context
def hold(ctx: click.Context, /, *, choice: Choice, output: str, **where: Any) -> None:
    """Take jobs out of the queue until they are released.

    A job that runs is stopped, and gives back what it holds; after its release it runs again, as after a preemption.

    \b
    Examples:
      fairway jobs hold 3
      fairway jobs hold -a
    """
    with open_session(**where) as session:
        found = chosen(session, choice)
        jobs = unless_ended(found)
        changed = change(session, jobs, lambda _job: {"hold": True})
    if changed or output == "json":
        told(changed, output, f"{which(changed)} held; `fairway jobs release` puts what is held back into the queue.")
    ctx.exit(0 if len(changed) == len(found) else 1)
