"""`fairway jobs hold`."""

from typing import Any

import click

from fairway.cli.changing import (
    JobSelection,
    ask_before,
    change,
    choosing_options,
    chosen,
    elsewhere,
    report,
    unless_ended,
    which,
)
from fairway.cli.session import open_session, print_note, yes_option


@click.command()
@yes_option
@choosing_options
@click.pass_context
def hold(ctx: click.Context, /, *, choice: JobSelection, yes: bool, output: str, **where: Any) -> None:
    """Take jobs out of the queue until they are released.

    A running job is stopped and gives back its quota; after its release it runs again, as after a preemption. Jobs of
    other users are held only after a confirmation.

    \b
    Examples:
      fairway jobs hold 3
      fairway jobs hold -a
    """
    with open_session(**where) as session:
        found = chosen(session, choice)
        jobs = unless_ended(found)
        ask_before(session, jobs, "Holding", yes=yes, own=False)
        changed = change(session, jobs, lambda _job: {"hold": True})
        left = elsewhere(session, choice)
    if changed or output == "json":
        report(changed, output, f"{which(changed)} held; `fairway jobs release` puts held jobs back into the queue.")
    elif not found:
        click.echo("No job to hold.")
    if left:
        print_note(left)
    ctx.exit(0 if len(changed) == len(found) else 1)
