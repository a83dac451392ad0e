"""`fairway jobs release`."""

from collections.abc import Sequence
from typing import Any

import click

from fairway.cli.changing import JobSelection, change, choosing_options, chosen, report, unless_ended, which
from fairway.cli.choosing import Manifest
from fairway.cli.session import open_session, print_note


@click.command()
@choosing_options
@click.pass_context
def release(ctx: click.Context, /, *, choice: JobSelection, output: str, **where: Any) -> None:
    """Put held jobs back into the queue, at their old place.

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
            print_note(f"{_are([job for job in jobs if job not in held])} not held.")
        changed = change(session, held, lambda _job: {"hold": False})
    if changed or output == "json":
        report(changed, output, f"{which(changed)} released; `fairway jobs queue` shows the place.")
    elif not choice.words:
        click.echo("No job is held.")
    ctx.exit(0 if len(jobs) == len(found) else 1)


def _are(jobs: Sequence[Manifest]) -> str:
    return f"{which(jobs)} {'is' if len(jobs) == 1 else 'are'}"
