"""`fairway jobs release`."""

from typing import Any

import click

from fairway.cli.changing import Choice, change, choosing_options, chosen, told, unless_ended, which
from fairway.cli.session import open_session, tell


@click.command()
@choosing_options
@click.pass_context
def release(ctx: click.Context, /, *, choice: Choice, output: str, **where: Any) -> None:
    """Let jobs that are held go on, at their old place in the queue.

    \b
    Examples:
      fairway jobs release 3
      fairway jobs release -a
    """
    with open_session(**where) as session:
        found = chosen(session, choice)
        jobs = unless_ended(found)
        held = [job for job in jobs if job["spec"].get("hold")]
        if choice.words and len(held) < len(jobs):
            tell(f"{which([job for job in jobs if job not in held])} not held.")
        changed = change(session, held, lambda _job: {"hold": False})
    if changed or output == "json":
        told(changed, output, f"{which(changed)} released; `fairway jobs queue` shows where.")
    elif not choice.words:
        click.echo("No job is held.")
    ctx.exit(0 if len(jobs) == len(found) else 1)
